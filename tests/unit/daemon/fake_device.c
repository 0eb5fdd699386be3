// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/daemon/fake_device.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/track/covariance.h"
#include "proto/se3.h"
#include "tests/unit/daemon/fake_map.h"

struct gpu fake_devices[64];
struct track fake_trackers[64];
size_t fake_n_devices, fake_n_trackers, fake_n_open;
bool fake_cuda_is_gone, fake_cannot_lock;
int fake_n_failures; // how many of the next frames fail
struct capture fake_source = {
    .info = {.camera = {500, 500, 320, 240, 640, 480}, .units_per_m = 5000}};

const struct capture_info *capture_info(const struct capture *capture)
{
    return &capture->info;
}

void *capture_memory(const struct capture *capture, size_t *out_bytes)
{
    *out_bytes = sizeof capture->memory;
    return (void *)(uintptr_t)capture->memory;
}

void capture_set_hooks(struct capture *capture, const struct capture_hooks *hooks)
{
    capture->hooks = hooks ? *hooks : (struct capture_hooks){0};
}

void gpu_settings_default(struct gpu_settings *out)
{
    *out = (struct gpu_settings){.depth_min_m = 0.3f, .depth_max_m = 8};
}

void gpu_align_settings_default(struct gpu_align_settings *out)
{
    memset(out, 0, sizeof *out);
}

int gpu_open(struct gpu **out, enum gpu_backend backend, const struct gpu_settings *settings)
{
    *out = NULL;
    assert_true(settings->units_per_m == 5000 && settings->camera.width_px == 640);
    if (backend == GPU_BACKEND_CUDA && fake_cuda_is_gone)
        return -ENODEV;
    *out = &fake_devices[fake_n_devices++];
    (*out)->backend = backend == GPU_BACKEND_AUTO ? GPU_BACKEND_CUDA : backend;
    (*out)->locked = NULL;
    fake_n_open++;
    return 0;
}

void gpu_close(struct gpu **gpu)
{
    assert_null((*gpu)->locked);
    *gpu = NULL;
    fake_n_open--;
}

int gpu_host_register(struct gpu *gpu, void *memory, size_t bytes)
{
    assert_ptr_equal(memory, fake_source.memory);
    assert_int_equal(bytes, sizeof fake_source.memory);
    if (gpu->backend == GPU_BACKEND_CPU)
        return -ENOTSUP;
    if (fake_cannot_lock)
        return -EIO;
    gpu->locked = memory;
    return 0;
}

void gpu_host_unregister(struct gpu *gpu, void *memory)
{
    assert_ptr_equal(memory, fake_source.memory);
    gpu->locked = NULL;
}

const struct capture_frame *fake_kept;

bool capture_keep(const struct capture_frame *frame)
{
    assert_null(fake_kept); // the source lets one be kept
    fake_kept = frame;
    return true;
}

void capture_release(const struct capture_frame *frame)
{
    (void)frame;
    assert_non_null(fake_kept);
    fake_kept = NULL;
}

void covariance_lost(double out[36])
{
    memset(out, 0, 36 * sizeof *out);
    for (int i = 0; i < 6; i++)
        out[7 * i] = POSE_ERROR_LOST;
}

struct gpu *fake_woken;

void gpu_wake(struct gpu *gpu)
{
    fake_woken = gpu;
}

void gpu_host_written(const void *memory, size_t bytes)
{
    (void)memory;
    (void)bytes;
}

enum gpu_backend gpu_backend(const struct gpu *gpu)
{
    return gpu->backend;
}

const char *gpu_description(const struct gpu *gpu)
{
    return gpu->backend == GPU_BACKEND_CPU ? "cpu" : "cuda";
}

int gpu_frame_read(struct gpu *gpu, const struct gpu_frame *frame, uint32_t level, float *out)
{
    (void)gpu;
    (void)frame;
    (void)level;
    (void)out;
    return -EIO;
}

bool config_keeps_map(const struct config *of)
{
    return of->map_folder[0] != 0 || of->map_output[0] != 0;
}

void model_settings_default(struct model_settings *out)
{
    memset(out, 0, sizeof *out);
}

void track_settings_default(struct track_settings *out)
{
    memset(out, 0, sizeof *out);
}

int track_create(struct track **out, struct gpu *gpu, const struct track_settings *settings,
                 const struct log_sink *log)
{
    (void)gpu;
    (void)settings;
    (void)log;
    *out = &fake_trackers[fake_n_trackers++];
    **out = (struct track){.T = se3_identity()};
    return 0;
}

void track_destroy(struct track **track)
{
    *track = NULL;
}

bool fake_is_lost; // each frame

// Each frame moves the camera by 1 cm. A failure takes a frame's call.
int track_frame(struct track *track, const uint16_t *depth, int64_t time_ns,
                struct track_result *out)
{
    (void)depth;
    (void)time_ns;
    memset(out, 0, sizeof *out);
    if (fake_n_failures > 0) {
        fake_n_failures--;
        out->state = TRACK_STATE_LOST;
        return -EIO;
    }
    // As the real one: the first frame is where the tracker was set, and is the next one's
    // reference.
    const bool first = track->next_seq == 0;
    out->reference_seq = first ? 0 : track->next_seq - 1;
    track->next_seq++;
    track->T.t_m[0] += first ? 0 : 0.01;
    out->state = fake_is_lost ? TRACK_STATE_LOST : first ? TRACK_STATE_INIT : TRACK_STATE_TRACKING;
    out->T_odom_camera = track->T;
    out->map_epoch = track->epoch;
    out->n_finds = track->n_finds;
    return 0;
}

int track_repeat(struct track *track, int64_t time_ns, struct track_result *out)
{
    (void)time_ns;
    if (track->next_seq < 2)
        return -ENODATA;
    memset(out, 0, sizeof *out);
    track->next_seq++;
    out->state = TRACK_STATE_TRACKING;
    out->T_odom_camera = track->T;
    out->map_epoch = track->epoch;
    out->n_finds = track->n_finds;
    return 0;
}

void track_set_gravity(struct track *track, const float gravity_m_s2[3])
{
    (void)track;
    (void)gravity_m_s2;
}

void track_set_effort(struct track *track, enum track_effort effort)
{
    track->effort = effort;
}

void track_set_map(struct track *track, bool has_map)
{
    track->has_map = has_map;
}

void track_skip(struct track *track, int64_t time_ns, struct track_result *out)
{
    (void)time_ns;
    memset(out, 0, sizeof *out);
    track->next_seq++;
    out->T_odom_camera = track->T;
    out->map_epoch = track->epoch;
    out->n_finds = track->n_finds;
}

void track_reset(struct track *track, const struct se3 *T_odom_camera)
{
    track->T = *T_odom_camera;
    track->epoch++; // as the real one does
}

int track_set_keyframe(struct track *track, uint64_t *out_seq)
{
    if (track->next_seq == 0)
        return -ENODATA;
    *out_seq = track->next_seq - 1;
    return 0;
}

bool track_is_found(const struct track *track)
{
    (void)track;
    return fake_is_found;
}

struct se3 track_expected(const struct track *track)
{
    (void)track;
    return (struct se3){{0, 0, 0, 1}, {7, 0, 0}};
}

const struct gpu_frame *track_newest_frame(const struct track *track)
{
    (void)track;
    return NULL;
}

bool track_newest_pair(const struct track *track, const struct gpu_frame **out_frame,
                       const struct gpu_frame **out_reference, struct se3 *out_T_reference_frame)
{
    (void)track;
    (void)out_frame;
    (void)out_reference;
    (void)out_T_reference_frame;
    return false;
}

const uint16_t fake_depth[4];
struct config fake_config;

struct backend *fake_open(void)
{
    const struct log_sink silent = {NULL, NULL};
    struct backend *backend;
    fake_cuda_is_gone = fake_cannot_lock = false;
    fake_n_failures = 0;
    fake_n_devices = fake_n_trackers = fake_n_open = 0;
    assert_int_equal(backend_open(&backend, &fake_config, &fake_source, NULL, &silent), 0);
    return backend;
}

struct backend *fake_open_as(enum config_gpu_error on_error)
{
    memset(&fake_config, 0, sizeof fake_config);
    fake_config.on_gpu_error = on_error;
    return fake_open();
}

int fake_track(struct backend *backend, struct track_result *out)
{
    const struct capture_frame frame = {.image = {.depth = fake_depth}};
    return backend_track(backend, &frame, true, out);
}

// SPDX-License-Identifier: Apache-2.0
// What happens when the device fails, and to the source's memory, on a device, a tracker and a
// source made for this test: they take the places of gpu/ and capture/ and fail when they are told
// to.
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/clock_sets.h"
#include "daemon/tracking_map.h"
#include "gpu/track/covariance.h"
#include "proto/se3.h"
#include "tests/unit/daemon/fake_map.h"

struct gpu {
    enum gpu_backend backend;
    void *locked; // memory of the source
};
struct capture {
    struct capture_info info;
    char memory[4096];
    struct capture_hooks hooks;
};
struct track {
    struct se3 T;
    uint32_t epoch, n_finds;
    uint64_t next_seq;
    enum track_effort effort;
    bool has_map;
};

static struct gpu devices[64];
static struct track trackers[64];
static size_t n_devices, n_trackers, n_open;
static bool cuda_is_gone, cannot_lock;
static int n_failures; // how many of the next frames fail
static struct capture source = {
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
    if (backend == GPU_BACKEND_CUDA && cuda_is_gone)
        return -ENODEV;
    *out = &devices[n_devices++];
    (*out)->backend = backend == GPU_BACKEND_AUTO ? GPU_BACKEND_CUDA : backend;
    (*out)->locked = NULL;
    n_open++;
    return 0;
}

void gpu_close(struct gpu **gpu)
{
    assert_null((*gpu)->locked);
    *gpu = NULL;
    n_open--;
}

int gpu_host_register(struct gpu *gpu, void *memory, size_t bytes)
{
    assert_ptr_equal(memory, source.memory);
    assert_int_equal(bytes, sizeof source.memory);
    if (gpu->backend == GPU_BACKEND_CPU)
        return -ENOTSUP;
    if (cannot_lock)
        return -EIO;
    gpu->locked = memory;
    return 0;
}

void gpu_host_unregister(struct gpu *gpu, void *memory)
{
    assert_ptr_equal(memory, source.memory);
    gpu->locked = NULL;
}

static const struct capture_frame *kept;

bool capture_keep(const struct capture_frame *frame)
{
    assert_null(kept); // the source lets one be kept
    kept = frame;
    return true;
}

void capture_release(const struct capture_frame *frame)
{
    (void)frame;
    assert_non_null(kept);
    kept = NULL;
}

void covariance_lost(double out[36])
{
    memset(out, 0, 36 * sizeof *out);
    for (int i = 0; i < 6; i++)
        out[7 * i] = POSE_ERROR_LOST;
}

static struct gpu *woken;

void gpu_wake(struct gpu *gpu)
{
    woken = gpu;
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
    *out = &trackers[n_trackers++];
    **out = (struct track){.T = se3_identity()};
    return 0;
}

void track_destroy(struct track **track)
{
    *track = NULL;
}

static bool is_lost; // each frame

// Each frame moves the camera by 1 cm. A failure takes a frame's call.
int track_frame(struct track *track, const uint16_t *depth, int64_t time_ns,
                struct track_result *out)
{
    (void)depth;
    (void)time_ns;
    memset(out, 0, sizeof *out);
    if (n_failures > 0) {
        n_failures--;
        out->state = TRACK_STATE_LOST;
        return -EIO;
    }
    // As the real one: the first frame is where the tracker was set, and is the next one's
    // reference.
    const bool first = track->next_seq == 0;
    out->reference_seq = first ? 0 : track->next_seq - 1;
    track->next_seq++;
    track->T.t_m[0] += first ? 0 : 0.01;
    out->state = is_lost ? TRACK_STATE_LOST : first ? TRACK_STATE_INIT : TRACK_STATE_TRACKING;
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

static const uint16_t depth[4];
static struct config config;

static struct backend *open_configured(void)
{
    const struct log_sink silent = {NULL, NULL};
    struct backend *backend;
    cuda_is_gone = cannot_lock = false;
    n_failures = 0;
    n_devices = n_trackers = n_open = 0;
    assert_int_equal(backend_open(&backend, &config, &source, NULL, &silent), 0);
    return backend;
}

static struct backend *open_backend(enum config_gpu_error on_error)
{
    memset(&config, 0, sizeof config);
    config.on_gpu_error = on_error;
    return open_configured();
}

static int track(struct backend *backend, struct track_result *out)
{
    const struct capture_frame frame = {.image = {.depth = depth}};
    return backend_track(backend, &frame, true, out);
}

// Two good frames, a failure, and what comes after: the failed frame is computed on the device that
// takes over, aligned to the one before it, in the same epoch.
static void check_recovery(enum config_gpu_error on_error, const char *expected)
{
    struct backend *backend = open_backend(on_error);
    struct track_result result;
    for (int i = 0; i < 3; i++) {
        trackers[n_trackers - 1].n_finds = i > 0 ? 2 : 0;
        assert_int_equal(track(backend, &result), 0);
    }
    assert_int_equal(result.n_finds, 2);
    n_failures = 1;
    assert_int_equal(track(backend, &result), BACKEND_REPLACED);
    assert_int_equal(result.state, TRACK_STATE_TRACKING);
    assert_true(result.T_odom_camera.t_m[0] == 0.03);
    assert_int_equal(result.map_epoch, 0);
    assert_int_equal(result.n_finds, 2); // the new tracker's are counted on
    assert_int_equal(result.reference_seq, 2);
    assert_string_equal(backend_description(backend), expected);
    assert_int_equal(n_open, 1);
    assert_int_equal(track(backend, &result), 0);
    assert_true(result.T_odom_camera.t_m[0] == 0.04);
    assert_int_equal(result.reference_seq, 3);
    assert_int_equal(result.n_finds, 2);
    uint64_t seq = 0;
    assert_int_equal(backend_set_keyframe(backend, &seq), 0);
    assert_int_equal(seq, 4);
    assert_int_equal(result.map_epoch, 0);
    backend_close(&backend);
    assert_null(backend);
    assert_null(kept);
    assert_int_equal(n_open, 0);
}

static void goes_on_on_the_cpu(void **state)
{
    (void)state;
    check_recovery(CONFIG_GPU_ERROR_CPU, "cpu");
}

static void opens_the_device_again(void **state)
{
    (void)state;
    check_recovery(CONFIG_GPU_ERROR_REBUILD, "cuda");
}

// A frame was dropped in between, or the poses were reset: nothing to align to, so a new epoch
// begins at the last pose.
static void without_the_frame_before_an_epoch_begins(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        struct backend *backend = open_backend(CONFIG_GPU_ERROR_CPU);
        struct track_result result;
        for (int i = 0; i < 3; i++)
            assert_int_equal(track(backend, &result), 0);
        struct se3 T = result.T_odom_camera;
        const struct capture_frame dropped = {0};
        T.t_m[0] = 0.5; // where it is reset to, in round 1
        if (round == 0)
            assert_int_equal(backend_track(backend, &dropped, false, &result), 0);
        else
            backend_reset(backend, &T);
        const uint32_t epoch = (uint32_t)round; // as the tracker counts a reset
        n_failures = 1;
        assert_int_equal(track(backend, &result), BACKEND_REPLACED);
        assert_int_equal(result.state, TRACK_STATE_INIT);
        assert_true(result.T_odom_camera.t_m[0] == (round == 0 ? 0.02 : 0.5));
        assert_true(result.map_epoch > epoch || round == 1);
        assert_int_equal(result.reference_seq, round == 0 ? 4 : 3);
        backend_close(&backend);
        assert_null(kept);
    }
}

// An image that comes once more is not tracked once more, and the map has it already. One that
// there is no pose for yet is.
static void a_repeated_image_is_no_new_frame(void **state)
{
    (void)state;
    memset(&config, 0, sizeof config);
    config.map_keyframes = 4;
    struct backend *backend = open_configured();
    const struct capture_frame again = {.image = {.depth = depth}, .flags = CAPTURE_DUPLICATE};
    struct track_result result;
    double moved_m;
    assert_int_equal(track(backend, &result), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(backend_track(backend, &again, true, &result), 0);
        assert_true(result.T_odom_camera.t_m[0] == 0.01);
        assert_int_equal(backend_fuse(backend, &result, &moved_m), 0);
        assert_int_equal(fake_window.n_followed, 1);
    }
    uint64_t seq = 0;
    assert_int_equal(track(backend, &result), 0);
    assert_true(result.T_odom_camera.t_m[0] == 0.02);
    assert_int_equal(backend_fuse(backend, &result, &moved_m), 0);
    assert_int_equal(fake_window.n_followed, 2);
    assert_int_equal(backend_set_keyframe(backend, &seq), 0);
    assert_int_equal(seq, 4);
    backend_close(&backend);
}

// Who looks for a lost camera is told that an image was tracked before, also where frames without
// an image, which were late or damaged, came between.
static void a_repeated_image_is_called_so(void **state)
{
    (void)state;
    memset(&config, 0, sizeof config);
    struct backend *backend = open_configured();
    struct track_result result;
    const struct depth_frame image = {.depth = depth};
    const struct {
        struct capture_frame frame;
        bool expected;
    } frames[] = {
        {{.image = image}, false},
        {{.image = image, .flags = CAPTURE_DUPLICATE}, true},
        {{.flags = CAPTURE_LATE}, false},
        {{.image = image, .flags = CAPTURE_DUPLICATE}, true},
        {{.image = image}, false},
        {{.flags = CAPTURE_DAMAGED}, false},
        {{.image = image, .flags = CAPTURE_DUPLICATE}, true},
    };
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        const struct capture_frame *frame = &frames[i].frame;
        assert_int_equal(backend_track(backend, frame, frame->image.depth != NULL, &result), 0);
        assert_int_equal(result.is_repeat, frames[i].expected);
    }
    backend_close(&backend);
}

// With the least effort keyframes still come, so that the map goes on to correct the pose; nobody
// waits for them.
static void the_least_effort_keeps_keyframes(void **state)
{
    (void)state;
    memset(&config, 0, sizeof config);
    config.map_keyframes = 4;
    struct backend *backend = open_configured();
    struct track_result result;
    double moved_m;
    for (enum track_effort effort = TRACK_EFFORT_FULL; effort <= TRACK_EFFORT_LEAST; effort++) {
        const int64_t time_ns = 500 + (int64_t)effort;
        const struct capture_frame frame = {.image = {.depth = depth, .time_ns = time_ns}};
        backend_set_effort(backend, effort, 1000, 900);
        assert_int_equal(backend_track(backend, &frame, true, &result), 0);
        assert_int_equal(backend_fuse(backend, &result, &moved_m), 0);
        assert_int_equal(fake_window.n_followed, effort + 1);
        assert_int_equal(fake_window.look_ns, time_ns);
        assert_int_equal(fake_window.sparing, effort == TRACK_EFFORT_LEAST);
        assert_int_equal(fake_window.until_ns, effort == TRACK_EFFORT_LEAST ? 0 : 1000);
        assert_int_equal(fake_window.look_until_ns, 1000);
    }
    backend_close(&backend);
}

// The least effort takes every fourth frame into the map: keyframes of the tracker among the others
// are told to it.
static void the_least_effort_tells_keyframes_to_the_map(void **state)
{
    (void)state;
    struct track_result result;
    double moved_m;
    memset(&config, 0, sizeof config);
    strcpy(config.map_folder, "maps");
    struct backend *backend = open_configured();
    for (enum track_effort effort = TRACK_EFFORT_FULL; effort <= TRACK_EFFORT_LEAST; effort++) {
        backend_set_effort(backend, effort, 1000, 900);
        fake_map.n_followed = fake_map.n_expected = 0;
        for (unsigned i = 0; i < 8; i++) {
            assert_int_equal(track(backend, &result), 0);
            result.state = TRACK_STATE_TRACKING;
            result.new_keyframe = true;
            assert_int_equal(backend_fuse(backend, &result, &moved_m), 0);
            result.new_keyframe = false;
            assert_int_equal(backend_fuse(backend, &result, &moved_m), 0);
        }
        const unsigned n = effort == TRACK_EFFORT_LEAST ? 2 : 8;
        assert_int_equal(fake_map.n_followed, 2 * n);
        assert_int_equal(fake_map.n_expected, 8 - n);
    }
    backend_close(&backend);
}

// A copy of the map tells which share of its epoch's frames never came to the tracker, not counting
// those from before the start; of a loaded one what the file said, where that is more, also after
// another one that there was no room for.
static void a_map_tells_what_was_dropped(void **state)
{
    (void)state;
    const struct capture_frame late = {.flags = CAPTURE_LATE}, damaged = {.flags = CAPTURE_DAMAGED},
                               early = {.flags = CAPTURE_LATE | CAPTURE_EARLY};
    const struct map_contents saved = {.dropped = 0.75f}, other = {.dropped = 0.5f};
    const struct se3 T = se3_identity();
    struct track_result result;
    struct map_contents copy = {0};
    memset(&config, 0, sizeof config);
    strcpy(config.map_folder, "maps");
    struct backend *backend = open_configured();
    assert_int_equal(backend_track(backend, &early, false, &result), 0);
    assert_int_equal(track(backend, &result), 0);
    assert_int_equal(backend_read_map(backend, &copy), 0);
    assert_true(copy.dropped == 0);
    assert_int_equal(backend_track(backend, &late, false, &result), 0);
    assert_int_equal(backend_track(backend, &damaged, false, &result), 0);
    assert_int_equal(track(backend, &result), 0);
    assert_int_equal(backend_read_map(backend, &copy), 0);
    assert_true(copy.dropped == 0.5f);
    backend_reset(backend, &T);
    assert_int_equal(track(backend, &result), 0);
    assert_int_equal(backend_read_map(backend, &copy), 0);
    assert_true(copy.dropped == 0);
    assert_int_equal(backend_load_map(backend, &source.info.camera, &saved), 0);
    assert_int_equal(track(backend, &result), 0);
    assert_int_equal(backend_read_map(backend, &copy), 0);
    assert_true(copy.dropped == 0.75f);
    fake_map.load_error = -ENOSPC;
    assert_int_equal(backend_load_map(backend, &source.info.camera, &other), -ENOSPC);
    assert_int_equal(track(backend, &result), 0);
    assert_int_equal(backend_read_map(backend, &copy), 0);
    assert_true(copy.dropped == 0.75f);
    backend_close(&backend);
}

// A loaded map is searched with each frame until the next one is due, also with the least effort,
// which takes every fourth into a map that was found. A lost camera is looked for among the
// keyframes and in the map in turn, for longer; where time does not count, in both each time.
static void a_search_has_its_own_time(void **state)
{
    (void)state;
    const struct map_contents contents = {0};
    struct track_result result;
    double moved_m;
    memset(&config, 0, sizeof config);
    config.map_keyframes = 4;
    strcpy(config.map_folder, "maps");
    struct backend *backend = open_configured();
    assert_int_equal(track(backend, &result), 0);
    assert_int_equal(backend_load_map(backend, &source.info.camera, &contents), 0);
    backend_set_effort(backend, TRACK_EFFORT_LEAST, 1000, 900);
    fake_map.stays_hidden = true;
    for (unsigned i = 0; i < 16; i++) {
        fake_map.stays_hidden = i < 7;
        assert_int_equal(track(backend, &result), 0);
        assert_int_equal(backend_fuse(backend, &result, &moved_m), 0);
        assert_true((backend_search_ns(backend) > 0) == (i < 8));
        assert_int_equal(fake_map.until_ns, 900);
    }
    assert_int_equal(fake_map.n_followed, 8 + 2);
    fake_map.n_followed = fake_window.n_looked = 0;
    is_lost = true;
    for (unsigned i = 0; i < 8; i++) {
        if (i == 4)
            backend_set_effort(backend, TRACK_EFFORT_LEAST, INT64_MAX, INT64_MAX);
        assert_int_equal(track(backend, &result), 0);
        assert_int_equal(backend_fuse(backend, &result, &moved_m), 0);
        assert_int_equal(fake_map.until_ns, i < 4 ? 1000 : INT64_MAX);
        assert_int_equal(fake_map.n_followed + fake_window.n_looked, i < 4 ? i + 1 : 2 * i - 2);
        assert_true(backend_search_ns(backend) > 0);
    }
    is_lost = false;
    assert_int_equal(fake_map.n_followed, 6);
    backend_close(&backend);
}

// The tracker is told whether a lost camera can be found: by keyframes, once there are any.
static void who_looks_for_a_lost_camera_is_told(void **state)
{
    (void)state;
    struct track_result result;
    double moved_m;
    memset(&config, 0, sizeof config);
    config.map_keyframes = 4;
    struct backend *backend = open_configured();
    for (unsigned i = 0; i < 2; i++) {
        fake_window.has_any = i > 0;
        assert_int_equal(track(backend, &result), 0);
        assert_int_equal(backend_fuse(backend, &result, &moved_m), 0);
        assert_int_equal(trackers[0].has_map, i > 0);
        assert_int_equal(fake_window.n_looked, i + 1);
    }
    backend_close(&backend);
}

// What enters with a frame that is looked for is told with that frame, as what enters with any.
static void a_result_that_moves_the_camera_is_told(void **state)
{
    (void)state;
    struct track_result result;
    double moved_m;
    memset(&config, 0, sizeof config);
    config.map_keyframes = 4;
    struct backend *backend = open_configured();
    for (int i = 0; i < 4; i++) {
        fake_window.moved_m = i % 2 ? 0.25 : 0;
        fake_window.moved_then_m = i / 2 ? 0.5 : 0;
        assert_int_equal(track(backend, &result), 0);
        assert_int_equal(backend_fuse(backend, &result, &moved_m), 0);
        assert_true(moved_m == (i / 2 ? 0.5 : i % 2 ? 0.25 : 0));
    }
    fake_window.moved_m = fake_window.moved_then_m = 0;
    backend_close(&backend);
}

// Where the map has told the tracker where it is, and no keyframe, the keyframes are told, too.
static void a_find_of_the_map_is_told_the_keyframes(void **state)
{
    (void)state;
    struct track_result result;
    double moved_m;
    memset(&config, 0, sizeof config);
    config.map_keyframes = 4;
    snprintf(config.map_folder, sizeof config.map_folder, "/tmp");
    struct backend *backend = open_configured();
    fake_window.n_told = 0;
    for (int i = 0; i < 4; i++) {
        fake_window.finds = i % 2;
        fake_map.finds = i / 2;
        assert_int_equal(track(backend, &result), 0);
        assert_int_equal(backend_fuse(backend, &result, &moved_m), 0);
        assert_int_equal(fake_window.n_told, i >= 2);
    }
    assert_true(fake_window.told_m == 7);
    assert_int_equal(fake_window.told_ns, fake_window.look_ns);
    fake_map.finds = fake_window.finds = fake_is_found = false;
    backend_close(&backend);
}

static void the_first_frame_may_fail(void **state)
{
    (void)state;
    struct backend *backend = open_backend(CONFIG_GPU_ERROR_CPU);
    struct track_result result;
    n_failures = 1;
    assert_int_equal(track(backend, &result), BACKEND_REPLACED);
    assert_int_equal(result.state, TRACK_STATE_INIT);
    assert_int_equal(result.reference_seq, 0);
    backend_close(&backend);
}

static void stops_where_it_is_told_to(void **state)
{
    (void)state;
    struct backend *backend = open_backend(CONFIG_GPU_ERROR_STOP);
    struct track_result result;
    for (int i = 0; i < 3; i++)
        assert_int_equal(track(backend, &result), 0);
    n_failures = 1;
    assert_int_equal(track(backend, &result), -EIO);
    assert_int_equal(result.state, TRACK_STATE_LOST);
    assert_int_equal(result.reason, TRACK_REASON_DEVICE);
    assert_true(result.T_odom_camera.t_m[0] == 0.02 && result.T_odom_camera.r[0] == 1);
    assert_true(result.covariance[0] == POSE_ERROR_LOST);
    assert_int_equal(result.map_epoch, 0);
    backend_close(&backend);
}

static void a_device_that_is_gone_is_replaced(void **state)
{
    (void)state;
    struct backend *backend = open_backend(CONFIG_GPU_ERROR_REBUILD);
    struct track_result result;
    cuda_is_gone = true;
    n_failures = 1;
    assert_int_equal(track(backend, &result), BACKEND_REPLACED);
    assert_string_equal(backend_description(backend), "cpu");
    backend_close(&backend);
}

// A device that fails on every try is given up after BACKEND_MAX_REBUILDS; one that works in
// between is not.
static void does_not_try_for_ever(void **state)
{
    (void)state;
    struct backend *backend = open_backend(CONFIG_GPU_ERROR_REBUILD);
    struct track_result result;
    assert_int_equal(track(backend, &result), 0);
    for (int round = 0; round < 3; round++) {
        n_failures = BACKEND_MAX_REBUILDS;
        assert_int_equal(track(backend, &result), BACKEND_REPLACED);
        assert_int_equal(track(backend, &result), 0);
        assert_int_equal(result.map_epoch, 0);
    }
    n_failures = BACKEND_MAX_REBUILDS + 1;
    assert_int_equal(track(backend, &result), -EIO);
    assert_int_equal(result.state, TRACK_STATE_LOST);
    backend_close(&backend);
}

static void a_failure_can_be_ordered(void **state)
{
    (void)state;
    struct backend *backend = open_backend(CONFIG_GPU_ERROR_CPU);
    struct track_result result;
    config.gpu_fail_every = 3;
    for (int i = 1; i <= 9; i++)
        assert_int_equal(track(backend, &result), i % 3 ? 0 : BACKEND_REPLACED);
    assert_int_equal(result.map_epoch, 0);
    assert_true(result.T_odom_camera.t_m[0] > 0.0799 && result.T_odom_camera.t_m[0] < 0.0801);
    backend_close(&backend);
}

// The source's memory is locked and its thread at work for a device, as long as there is one; not
// for the CPU.
static void the_source_serves_the_device_that_is_there(void **state)
{
    (void)state;
    struct track_result result;
    struct backend *backend = open_backend(CONFIG_GPU_ERROR_REBUILD);
    assert_ptr_equal(devices[0].locked, source.memory);
    assert_true(source.hooks.written == gpu_host_written);
    source.hooks.soon(source.hooks.user);
    assert_ptr_equal(woken, &devices[0]);
    n_failures = 1;
    assert_int_equal(track(backend, &result), BACKEND_REPLACED);
    assert_null(devices[0].locked);
    assert_ptr_equal(devices[1].locked, source.memory);
    assert_true(source.hooks.written == gpu_host_written);
    source.hooks.soon(source.hooks.user);
    assert_ptr_equal(woken, &devices[1]);
    cuda_is_gone = true;
    n_failures = 1;
    assert_int_equal(track(backend, &result), BACKEND_REPLACED); // on to the CPU
    assert_null(devices[1].locked);
    assert_null(devices[2].locked);
    assert_true(!source.hooks.written && !source.hooks.soon);
    backend_close(&backend);

    backend = open_backend(CONFIG_GPU_ERROR_REBUILD);
    backend_close(&backend);
    assert_null(devices[0].locked);
    assert_true(!source.hooks.written && !source.hooks.soon);
}

static void memory_that_cannot_be_locked_is_no_failure(void **state)
{
    (void)state;
    struct track_result result;
    struct backend *backend = open_backend(CONFIG_GPU_ERROR_REBUILD);
    cannot_lock = true;
    n_failures = 1;
    assert_int_equal(track(backend, &result), BACKEND_REPLACED);
    assert_string_equal(backend_description(backend), "cuda");
    assert_true(!source.hooks.written && !source.hooks.soon);
    assert_int_equal(track(backend, &result), 0);
    backend_close(&backend);
}

static void assert_same(const struct se3 *T, const struct se3 *expected)
{
    for (int i = 0; i < 9; i++)
        assert_true(fabs(T->r[i] - expected->r[i]) < 1e-12);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(T->t_m[i] - expected->t_m[i]) < 1e-12);
}

// Where a lost camera is tried moves odom in the map when it holds, with the first frame that has a
// pose.
static void a_place_that_is_tried_moves_no_map(void **state)
{
    (void)state;
    static const double moved[6] = {0.3, -0.2, 0.1, 0.2, 0.5, -0.4};
    const struct se3 before = se3_identity();
    struct track_result result;
    struct se3 T;
    memset(&config, 0, sizeof config);
    config.map_keyframes = 8;
    struct backend *backend = open_configured();
    assert_int_equal(track(backend, &result), 0);
    fake_window.T_map_odom = se3_exp(moved);
    is_lost = true;
    assert_int_equal(track(backend, &result), 0);
    is_lost = false;
    assert_true(backend_T_map_odom(backend, &T));
    assert_same(&T, &before);
    assert_int_equal(track(backend, &result), 0);
    assert_true(backend_T_map_odom(backend, &T));
    assert_same(&T, &fake_window.T_map_odom);
    backend_close(&backend);
}

// A loaded map finds the camera from odom as it is, wherever the keyframes had odom by then: at
// that moment map -> odom is what the map found, afterwards it moves by what the keyframes move
// alone, and they stand in the loaded map.
static void the_found_frame_is_the_loaded_maps(void **state)
{
    (void)state;
    static const double moved[6] = {0.3, -0.2, 0.1, 0.2, 0.5, -0.4};
    static const double found[6] = {-1.0, 2.0, 0.5, 0.1, -0.7, 1.2};
    static const double later[6] = {0.35, -0.1, 0.1, 0.25, 0.5, -0.3};
    const struct map_contents contents = {0};
    struct track_result result;
    struct graph_keyframe keyframe;
    struct map_contents copy = {0};
    struct se3 T;
    double moved_m;
    memset(&config, 0, sizeof config);
    config.map_keyframes = 8;
    strcpy(config.map_folder, "maps");
    struct backend *backend = open_configured();
    assert_int_equal(track(backend, &result), 0);
    fake_window.T_map_odom = se3_exp(moved);
    fake_window.keyframe.T_map_camera = se3_exp(later);
    assert_int_equal(track(backend, &result), 0);
    assert_true(backend_T_map_odom(backend, &T));
    assert_same(&T, &fake_window.T_map_odom);
    assert_int_equal(backend_read_map(backend, &copy), 0); // goes as its keyframes do
    assert_int_equal(copy.correction.n, 1);
    assert_same(&copy.T_map_odom, &fake_window.T_map_odom);
    map_contents_free(&copy);
    fake_window.epoch = 1; // the keyframes are another epoch's than the map, which is 0
    assert_int_equal(backend_read_map(backend, &copy), 0);
    assert_int_equal(copy.correction.n, 0);
    fake_window.epoch = 0;

    assert_int_equal(backend_load_map(backend, &source.info.camera, &contents), 0);
    assert_true(backend_is_searching(backend) && !backend_T_map_odom(backend, &T));
    assert_int_equal(backend_keyframes(backend, &keyframe, 1), 0);
    fake_map.T_map_odom = se3_exp(found);
    assert_int_equal(track(backend, &result), 0);
    fake_window.moved_m = 0.25; // in a map of which nobody knows where it lies
    assert_int_equal(backend_fuse(backend, &result, &moved_m), 0);
    assert_true(moved_m == 0);
    assert_true(backend_T_map_odom(backend, &T));
    assert_same(&T, &fake_map.T_map_odom);
    assert_int_equal(track(backend, &result), 0);
    assert_int_equal(backend_fuse(backend, &result, &moved_m), 0);
    assert_true(moved_m == 0.25);
    fake_window.moved_m = 0;
    assert_int_equal(backend_read_map(backend, &copy), 0); // stays as it was saved
    assert_int_equal(copy.correction.n, 0);
    assert_same(&copy.T_map_odom, &fake_map.T_map_odom);

    const struct se3 T_odom_own = se3_inverse(&fake_window.T_map_odom);
    const struct se3 T_map_own = se3_compose(&fake_map.T_map_odom, &T_odom_own);
    assert_int_equal(backend_keyframes(backend, &keyframe, 1), 1);
    struct se3 expected = se3_compose(&T_map_own, &fake_window.keyframe.T_map_camera);
    assert_same(&keyframe.T_map_camera, &expected);
    fake_window.T_map_odom = se3_exp(later);
    expected = se3_compose(&T_map_own, &fake_window.T_map_odom);
    assert_int_equal(track(backend, &result), 0);
    assert_true(backend_T_map_odom(backend, &T));
    assert_same(&T, &expected);
    backend_close(&backend);
}

// Where the machine's clock was set, keyframes have the times that their frames had, as often as it
// happens: among themselves their own go on evenly.
static void keyframes_have_their_frames_times(void **state)
{
    (void)state;
    enum { N = 2 * CLOCK_SETS_MAX };
    struct track_result result;
    struct graph_keyframe keyframe;
    memset(&config, 0, sizeof config);
    config.map_keyframes = 4;
    struct backend *backend = open_configured();
    for (int i = 0; i < N; i++) {
        const int64_t set_ns = i < 2 ? 0 : i < 4 ? -5000 : 1000 * i;
        const struct capture_frame frame = {.image = {.depth = depth, .time_ns = 10 * i + set_ns},
                                            .clock_set_ns = set_ns};
        assert_int_equal(backend_track(backend, &frame, true, &result), 0);
        for (int k = i < CLOCK_SETS_MAX ? 0 : i - 5; k <= i; k++) {
            const int64_t then_ns = k < 2 ? 0 : k < 4 ? -5000 : 1000 * k;
            fake_window.keyframe.seq = (uint64_t)k;
            fake_window.keyframe.time_ns = 10 * k;
            assert_int_equal(backend_keyframes(backend, &keyframe, 1), 1);
            assert_int_equal(keyframe.time_ns, 10 * k + then_ns);
        }
    }
    backend_close(&backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on_on_the_cpu),
        cmocka_unit_test(a_search_has_its_own_time),
        cmocka_unit_test(a_place_that_is_tried_moves_no_map),
        cmocka_unit_test(opens_the_device_again),
        cmocka_unit_test(without_the_frame_before_an_epoch_begins),
        cmocka_unit_test(a_repeated_image_is_no_new_frame),
        cmocka_unit_test(a_repeated_image_is_called_so),
        cmocka_unit_test(the_least_effort_keeps_keyframes),
        cmocka_unit_test(the_least_effort_tells_keyframes_to_the_map),
        cmocka_unit_test(a_map_tells_what_was_dropped),
        cmocka_unit_test(who_looks_for_a_lost_camera_is_told),
        cmocka_unit_test(a_find_of_the_map_is_told_the_keyframes),
        cmocka_unit_test(a_result_that_moves_the_camera_is_told),
        cmocka_unit_test(the_first_frame_may_fail),
        cmocka_unit_test(stops_where_it_is_told_to),
        cmocka_unit_test(a_device_that_is_gone_is_replaced),
        cmocka_unit_test(does_not_try_for_ever),
        cmocka_unit_test(a_failure_can_be_ordered),
        cmocka_unit_test(the_source_serves_the_device_that_is_there),
        cmocka_unit_test(memory_that_cannot_be_locked_is_no_failure),
        cmocka_unit_test(the_found_frame_is_the_loaded_maps),
        cmocka_unit_test(keyframes_have_their_frames_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

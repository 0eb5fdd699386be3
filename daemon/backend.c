// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/residual.h"
#include "proto/se3.h"

struct backend {
    const struct config *config;
    struct capture *capture;
    struct gpu_settings gpu_settings;
    struct log_sink log;
    struct gpu *gpu;
    struct track *track;
    struct se3 T_odom_camera; // of the newest frame
    uint32_t epoch_base;      // of the trackers before this one
    uint32_t epoch;           // newest, base included
    bool is_new;              // nothing ties the next pose to the last one: a new epoch
    unsigned n_rebuilds;      // since the last good frame
    uint64_t n_frames;        // tracked
    uint64_t n_calls;         // of backend_track
    uint64_t seq_base;        // of them, before this tracker
};

static void wake(void *gpu)
{
    gpu_wake(gpu);
}

// Where the device reads the source's frames itself, they need no copy, and cost least when the
// source's thread pushes them out of the processor's caches and this thread is awake when they come
// (an H200 then takes 87 us a frame, else 110; copied ones take 140).
static void lock_frames(struct backend *backend)
{
    size_t n_bytes;
    void *memory = capture_memory(backend->capture, &n_bytes);
    const struct capture_hooks hooks = {gpu_host_written, wake, backend->gpu};
    if (gpu_host_register(backend->gpu, memory, n_bytes) == 0)
        capture_set_hooks(backend->capture, &hooks);
}

static void unlock_frames(struct backend *backend)
{
    size_t n_bytes;
    capture_set_hooks(backend->capture, NULL);
    gpu_host_unregister(backend->gpu, capture_memory(backend->capture, &n_bytes));
}

static int open_device(struct backend *backend, enum gpu_backend which)
{
    int error = gpu_open(&backend->gpu, which, &backend->gpu_settings);
    if (error)
        return error;
    error = track_create(&backend->track, backend->gpu, &backend->config->track, &backend->log);
    if (error) {
        log_to(&backend->log, LOG_LEVEL_ERROR, "cannot create the tracker: %s", strerror(-error));
        gpu_close(&backend->gpu);
        return error;
    }
    lock_frames(backend);
    return 0;
}

static void close_device(struct backend *backend)
{
    if (backend->track)
        track_destroy(&backend->track);
    if (backend->gpu) {
        unlock_frames(backend);
        gpu_close(&backend->gpu);
    }
}

static void take_camera(struct backend *backend)
{
    const struct capture_info *info = capture_info(backend->capture);
    backend->gpu_settings.camera = info->camera;
    backend->gpu_settings.units_per_m = info->units_per_m;
}

int backend_open(struct backend **out, const struct config *config, struct capture *capture,
                 const struct log_sink *log)
{
    *out = NULL;
    struct backend *backend = calloc(1, sizeof *backend);
    if (!backend)
        return -ENOMEM;
    backend->config = config;
    backend->capture = capture;
    backend->gpu_settings = config->gpu;
    take_camera(backend);
    backend->gpu_settings.log = backend->log = *log;
    backend->T_odom_camera = se3_identity();
    int error = open_device(backend, config->backend);
    if (error) {
        free(backend);
        return error;
    }
    *out = backend;
    return 0;
}

void backend_close(struct backend **backend)
{
    if (!*backend)
        return;
    close_device(*backend);
    free(*backend);
    *backend = NULL;
}

// LOST at the last pose, whatever the tracker left.
static void fill_failed(const struct backend *backend, struct track_result *out)
{
    *out = (struct track_result){
        .state = TRACK_STATE_LOST,
        .reason = TRACK_REASON_DEVICE,
        .T_odom_camera = backend->T_odom_camera,
        .map_epoch = backend->epoch,
    };
    for (int i = 0; i < 6; i++)
        out->covariance[7 * i] = i < 3 ? TRACK_LOST_VARIANCE_M2 : TRACK_LOST_VARIANCE_RAD2;
}

int backend_track(struct backend *backend, const uint16_t *depth, int64_t time_ns,
                  struct track_result *out)
{
    int error = 0;
    uint32_t fail_every = backend->config->gpu_fail_every;
    const char *pretended = "";
    backend->n_calls++;
    if (depth) {
        error = track_frame(backend->track, depth, time_ns, out);
        if (fail_every && ++backend->n_frames % fail_every == 0 && !error) {
            pretended = " (not really: gpu.fail_every)";
            error = -EIO;
        }
    } else {
        track_skip(backend->track, time_ns, out);
    }
    if (error) {
        log_to(&backend->log, LOG_LEVEL_ERROR, "the device failed: %s%s",
               gpu_description(backend->gpu), pretended);
        fill_failed(backend, out);
        return error;
    }
    if (depth)
        backend->n_rebuilds = 0;
    if (backend->is_new)
        backend->epoch_base = backend->epoch + 1 - out->map_epoch; // wraps where it must
    backend->is_new = false;
    backend->epoch = out->map_epoch += backend->epoch_base;
    out->reference_seq += backend->seq_base;
    backend->T_odom_camera = out->T_odom_camera;
    return error;
}

// A device and a tracker in place of the present ones, on the CPU when it has to be.
static int open_again(struct backend *backend, enum gpu_backend which)
{
    close_device(backend);
    int error = open_device(backend, which);
    if (error && which != GPU_BACKEND_CPU &&
        backend->config->on_gpu_error != CONFIG_GPU_ERROR_STOP) {
        log_to(&backend->log, LOG_LEVEL_WARNING, "the device does not come back: on to the CPU");
        error = open_device(backend, GPU_BACKEND_CPU);
    }
    if (error)
        return -EIO;
    track_reset(backend->track, &backend->T_odom_camera);
    backend->is_new = backend->n_calls > 0;
    backend->seq_base = backend->n_calls;
    return 0;
}

int backend_recover(struct backend *backend)
{
    enum gpu_backend which = gpu_backend(backend->gpu);
    if (backend->config->on_gpu_error == CONFIG_GPU_ERROR_STOP) {
        log_to(&backend->log, LOG_LEVEL_ERROR, "gpu.on_error is stop: the daemon ends");
        return -EIO;
    }
    if (++backend->n_rebuilds > BACKEND_MAX_REBUILDS) {
        log_to(&backend->log, LOG_LEVEL_ERROR,
               "the device failed %d times without a good frame: the daemon ends",
               BACKEND_MAX_REBUILDS + 1);
        return -EIO;
    }
    if (backend->config->on_gpu_error == CONFIG_GPU_ERROR_CPU)
        which = GPU_BACKEND_CPU;
    if (open_again(backend, which) != 0)
        return -EIO;
    log_to(&backend->log, LOG_LEVEL_WARNING, "tracking goes on with %s",
           gpu_description(backend->gpu));
    return 0;
}

int backend_recalibrate(struct backend *backend)
{
    take_camera(backend);
    return open_again(backend, gpu_backend(backend->gpu));
}

void backend_reset(struct backend *backend, const struct se3 *T_odom_camera)
{
    track_reset(backend->track, T_odom_camera);
}

int backend_set_keyframe(struct backend *backend, uint64_t *out_seq)
{
    int error = track_set_keyframe(backend->track, out_seq);
    if (!error)
        *out_seq += backend->seq_base;
    return error;
}

struct se3 backend_pose(const struct backend *backend)
{
    return backend->T_odom_camera;
}

const char *backend_description(const struct backend *backend)
{
    return gpu_description(backend->gpu);
}

int backend_read_maps(struct backend *backend, float *out)
{
    const struct gpu_frame *frame = track_newest_frame(backend->track);
    return frame ? gpu_frame_read(backend->gpu, frame, 0, out) : -ENODATA;
}

int backend_read_residual(struct backend *backend, const float *maps, float *scratch, float *out_m)
{
    const struct gpu_frame *frame, *reference;
    struct se3 T_reference_frame;
    if (!track_newest_pair(backend->track, &frame, &reference, &T_reference_frame))
        return -ENODATA;
    int error = gpu_frame_read(backend->gpu, reference, 0, scratch);
    if (error)
        return error;
    residual_image(&backend->gpu_settings.camera, &backend->config->track.align, maps, scratch,
                   &T_reference_frame, out_m);
    return 0;
}

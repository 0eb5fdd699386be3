// SPDX-License-Identifier: Apache-2.0
#include "daemon/tracking_device.h"

#include <errno.h>
#include <string.h>

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

int backend_open_device(struct backend *backend, enum gpu_backend which)
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
    const struct config *config = backend->config;
    if (config_keeps_map(config))
        error = map_create(&backend->map, backend->gpu, &config->map, &config->track.align,
                           &backend->log);
    if (error) {
        if (error == -ENOMEM)
            error = -ENOSPC; // map.memory_bytes is a setting
        track_destroy(&backend->track);
        gpu_close(&backend->gpu);
        return error;
    }
    backend->finds_base = backend->n_finds;
    track_set_effort(backend->track, backend->effort);
    lock_frames(backend);
    return 0;
}

void backend_close_device(struct backend *backend)
{
    map_destroy(&backend->map);
    if (backend->track)
        track_destroy(&backend->track);
    if (backend->gpu) {
        unlock_frames(backend);
        gpu_close(&backend->gpu);
    }
}

int backend_open_again(struct backend *backend, enum gpu_backend which)
{
    if (backend->map && map_is_loaded(backend->map))
        log_to(&backend->log, LOG_LEVEL_WARNING, "the loaded map goes with its device");
    backend_close_device(backend);
    int error = backend_open_device(backend, which);
    if (error && which != GPU_BACKEND_CPU &&
        backend->config->on_gpu_error != CONFIG_GPU_ERROR_STOP) {
        log_to(&backend->log, LOG_LEVEL_WARNING, "the device does not come back: on to the CPU");
        error = backend_open_device(backend, GPU_BACKEND_CPU);
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
    if (backend_open_again(backend, which) != 0)
        return -EIO;
    backend->is_new = backend->n_calls > 1; // the call under way counts already
    backend->seq_base = backend->n_calls - 1;
    log_to(&backend->log, LOG_LEVEL_WARNING, "tracking goes on with %s",
           gpu_description(backend->gpu));
    return 0;
}

int backend_prime(struct backend *backend, uint64_t last)
{
    struct track_result first;
    if (!backend->newest.image.depth || backend->newest_call != last)
        return 0;
    int error = track_frame(backend->track, backend->newest.image.depth,
                            capture_even_ns(&backend->newest), &first);
    if (error || first.state != TRACK_STATE_INIT)
        return error;
    backend->epoch_base = backend->epoch - first.map_epoch;
    backend->seq_base = backend->newest_call - 1;
    backend->is_new = false;
    return 0;
}

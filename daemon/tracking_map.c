// SPDX-License-Identifier: Apache-2.0
#include "daemon/tracking_map.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "daemon/tracking_backend_state.h"
#include "proto/se3.h"

void backend_end_epoch(struct backend *backend)
{
    if (!backend->ended || backend->is_ending || backend->n_calls == 0)
        return;
    backend->n_ended = backend_keyframes(backend, backend->ended, backend->config->map_keyframes);
    backend->ended_epoch = backend->epoch;
    backend->has_ended = backend->is_ending = true;
}

bool backend_ended_epoch(struct backend *backend, uint32_t *out_epoch,
                         const struct graph_keyframe **out, uint32_t *out_n)
{
    const bool has = backend->has_ended && backend->ended_epoch != backend->epoch;
    *out_epoch = backend->ended_epoch;
    *out = backend->ended;
    *out_n = backend->n_ended;
    backend->has_ended = backend->has_ended && !has;
    return has;
}

int backend_read_map(struct backend *backend, struct map_contents *out)
{
    int error = backend->map ? map_read(backend->map, out) : -ENOTSUP;
    if (backend->n_epoch > 0)
        out->dropped = (float)backend->n_epoch_dropped / (float)backend->n_epoch;
    if (out->is_loaded)
        out->dropped = fmaxf(out->dropped, backend->loaded_dropped);
    if (error || out->is_loaded || !backend->window ||
        keyframe_window_epoch(backend->window) != out->epoch)
        return error;
    out->T_map_odom = keyframe_window_T_map_odom(backend->window);
    return keyframe_window_correction(backend->window, &out->correction);
}

int backend_load_map(struct backend *backend, const struct intrinsics *camera,
                     const struct map_contents *contents)
{
    if (!backend->map)
        return -ENOTSUP;
    if (memcmp(camera, &backend->gpu_settings.camera, sizeof *camera) != 0)
        return -EXDEV;
    const bool was_ending = backend->is_ending;
    backend_end_epoch(backend);
    int error = map_load(backend->map, contents);
    if (error == -ENOSPC) {
        backend->is_ending = was_ending; // the map goes on
        return error;
    }
    backend->loaded_dropped = error ? 0 : contents->dropped;
    backend_restart(backend, &backend->T_odom_camera);
    return error;
}

uint32_t backend_n_left_out(const struct backend *backend)
{
    return backend->map ? map_n_left_out(backend->map) : 0;
}

bool backend_is_searching(const struct backend *backend)
{
    return backend->map && map_is_searching(backend->map);
}

// From the map that the keyframes agree on to a loaded one: that was found from odom, when the
// keyframes had odom at T_own_found.
static struct se3 T_map_own(const struct backend *backend)
{
    if (!backend->map || !map_is_loaded(backend->map) || map_is_searching(backend->map))
        return se3_identity();
    const struct se3 T_map_odom = map_T_map_odom(backend->map);
    const struct se3 T_odom_own = se3_inverse(&backend->T_own_found);
    return se3_compose(&T_map_odom, &T_odom_own);
}

uint32_t backend_keyframes(const struct backend *backend, struct graph_keyframe *out, uint32_t max)
{
    const struct graph_keyframe *keyframes;
    if (!backend->window || backend_is_searching(backend))
        return 0;
    const struct se3 T = T_map_own(backend);
    uint32_t n = keyframe_window_list(backend->window, &keyframes);
    n = n < max ? n : max;
    for (uint32_t i = 0; i < n; i++) {
        out[i] = keyframes[i];
        out[i].T_map_camera = se3_compose(&T, &keyframes[i].T_map_camera);
        out[i].time_ns += clock_sets_at(&backend->clock_sets, keyframes[i].seq);
    }
    return n;
}

int backend_optimise(struct backend *backend)
{
    if (!backend->window)
        return -ENOTSUP;
    return backend_is_searching(backend) ? -EAGAIN : keyframe_window_optimise(backend->window);
}

int backend_optimised(struct backend *backend, struct optimise_report *out)
{
    return backend->window ? keyframe_window_optimised(backend->window, out) : -ENODATA;
}

int backend_finish(struct backend *backend, bool all, const atomic_bool *stop,
                   const struct yield *yield, struct optimise_report *out)
{
    return backend->window ? keyframe_window_finish(backend->window, all, stop, yield, out)
                           : -ENOTSUP;
}

const struct graph *backend_graph(const struct backend *backend)
{
    return backend->window && !backend_is_searching(backend)
               ? keyframe_window_graph(backend->window)
               : NULL;
}

bool backend_T_map_odom(const struct backend *backend, struct se3 *out)
{
    *out = backend->T_own_odom;
    if (!backend->map || !map_is_loaded(backend->map))
        return backend->window != NULL;
    const struct se3 T_map = T_map_own(backend), T_own = *out;
    *out = se3_compose(&T_map, &T_own);
    return !map_is_searching(backend->map);
}

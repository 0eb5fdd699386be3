// SPDX-License-Identifier: Apache-2.0
#include "daemon/tracking_backend.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/config/cameras.h"
#include "daemon/tracking_device.h"
#include "daemon/tracking_map.h"
#include "gpu/track/covariance.h"
#include "gpu/track/residual.h"
#include "proto/clock.h"
#include "proto/se3.h"

void backend_forget_newest(struct backend *backend)
{
    if (backend->newest.image.depth)
        capture_release(&backend->newest);
    backend->newest = (struct capture_frame){0};
}

void backend_restart(struct backend *backend, const struct se3 *T_odom_camera)
{
    backend_forget_newest(backend);
    backend->T_odom_camera = *T_odom_camera; // what comes before the next frame begins here, too
    track_reset(backend->track, T_odom_camera);
}

static void take_camera(struct backend *backend)
{
    const struct capture_info *info = capture_info(backend->capture);
    backend->gpu_settings.camera = info->camera;
    backend->gpu_settings.units_per_m = info->units_per_m;
}

// camera.field: of this camera, or it is refused. Returns 0, -EXDEV or -ENOMEM.
static int take_field(struct backend *backend, const char *path)
{
    const struct capture_info *info = capture_info(backend->capture);
    if (!path[0])
        return 0;
    int error = depth_error_read(path, &backend->log, &backend->field);
    if (!error)
        error = depth_error_check_camera(&backend->field, &info->camera, info->serial, path,
                                         &backend->log);
    if (error) {
        cameras_explain_field(backend->config, &backend->log);
        return -EXDEV;
    }
    size_t n = (size_t)info->camera.width_px * info->camera.height_px;
    backend->field_per_m = malloc(n * sizeof *backend->field_per_m);
    if (!backend->field_per_m)
        return -ENOMEM;
    depth_error_fill(&backend->field, backend->field_per_m);
    backend->field_camera = info->camera;
    backend->has_field = true;
    backend->gpu_settings.field_per_m = backend->field_per_m;
    log_to(&backend->log, LOG_LEVEL_INFO,
           "%s: the camera's own error is taken out: %.1f mm RMS at 1 m, learnt from %u frames of "
           "%s%s",
           path, depth_error_rms_per_m(&backend->field) * 1e3, backend->field.n_frames,
           backend->field.serial[0] ? "camera " : "a camera without serial number",
           backend->field.serial);
    return 0;
}

static int open_window(struct backend *backend)
{
    const uint32_t max = backend->config->map_keyframes;
    if (max == 0)
        return 0;
    if (!backend->ended)
        backend->ended = malloc((max + 1) * sizeof *backend->ended);
    if (!backend->ended)
        return -ENOMEM;
    struct graph_settings settings;
    graph_settings_default(&settings);
    settings.max_keyframes = backend->config->map_keyframes;
    settings.is_mended = backend->gpu_settings.field_per_m != NULL;
    return keyframe_window_create(&backend->window, &backend->gpu_settings.camera, &settings,
                                  &backend->yield, &backend->log);
}

const struct depth_error *backend_field(const struct backend *backend)
{
    return backend->has_field ? &backend->field : NULL;
}

int backend_open(struct backend **out, const struct config *config, struct capture *capture,
                 const struct yield *yield, const struct log_sink *log)
{
    *out = NULL;
    struct backend *backend = calloc(1, sizeof *backend);
    if (!backend)
        return -ENOMEM;
    backend->config = config;
    backend->capture = capture;
    if (yield)
        backend->yield = *yield;
    backend->gpu_settings = config->gpu;
    take_camera(backend);
    backend->gpu_settings.log = backend->log = *log;
    backend->T_odom_camera = backend->T_own_odom = se3_identity();
    backend->until_ns = backend->due_ns = INT64_MAX;
    int error = take_field(backend, config->camera_field);
    if (!error)
        error = open_window(backend);
    if (!error)
        error = backend_open_device(backend, config->backend);
    if (error) {
        keyframe_window_destroy(&backend->window);
        free(backend->field_per_m);
        free(backend->ended);
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
    backend_close_device(*backend);
    keyframe_window_destroy(&(*backend)->window);
    backend_forget_newest(*backend);
    free((*backend)->field_per_m);
    free((*backend)->ended);
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
        .n_finds = backend->n_finds,
    };
    covariance_lost(out->covariance);
    covariance_lost(out->error.own);
}

uint32_t backend_epoch(const struct backend *backend)
{
    return backend->epoch;
}

static bool pretends_to_fail(struct backend *backend)
{
    const uint32_t fail_every = backend->config->gpu_fail_every;
    return fail_every && ++backend->n_frames % fail_every == 0;
}

static int track_or_replace(struct backend *backend, const struct capture_frame *frame,
                            struct track_result *out)
{
    bool replaced = false;
    int error = track_frame(backend->track, frame->image.depth, backend->time_ns, out);
    const char *pretended = "";
    if (!error && pretends_to_fail(backend)) {
        pretended = " (not really: gpu.fail_every)";
        error = -EIO;
    }
    while (error) {
        log_to(&backend->log, LOG_LEVEL_ERROR, "the device failed: %s%s",
               gpu_description(backend->gpu), pretended);
        pretended = "";
        if (backend_recover(backend) != 0)
            return -EIO;
        replaced = true;
        error = backend_prime(backend, backend->n_calls - 1);
        if (!error)
            error = track_frame(backend->track, frame->image.depth, backend->time_ns, out);
    }
    backend->n_rebuilds = 0;
    return replaced ? BACKEND_REPLACED : 0;
}

static void keep_newest(struct backend *backend, const struct capture_frame *frame)
{
    backend_forget_newest(backend);
    if (!capture_keep(frame))
        return;
    backend->newest = *frame;
    backend->newest_call = backend->n_calls;
}

int backend_track(struct backend *backend, const struct capture_frame *frame, bool tracked,
                  struct track_result *out)
{
    int rc = 0;
    backend->n_calls++;
    backend->time_ns = capture_even_ns(frame);
    clock_sets_put(&backend->clock_sets, backend->n_calls - 1, frame->clock_set_ns);
    backend->n_new += tracked && !(frame->flags & CAPTURE_DUPLICATE);
    // What was dropped in between never had an image.
    const bool is_repeat = tracked && frame->flags & CAPTURE_DUPLICATE;
    backend->is_repeated = is_repeat && track_repeat(backend->track, backend->time_ns, out) == 0;
    if (tracked && !backend->is_repeated) {
        track_set_gravity(backend->track, frame->gravity_m_s2);
        rc = track_or_replace(backend, frame, out);
    } else if (!tracked) {
        track_skip(backend->track, backend->time_ns, out);
    }
    out->is_repeat = is_repeat;
    if (rc < 0) {
        fill_failed(backend, out);
        return rc;
    }
    if (backend->is_new)
        backend->epoch_base = backend->epoch + 1 - out->map_epoch; // wraps where it must
    backend->is_new = false;
    out->map_epoch += backend->epoch_base;
    const bool is_new_epoch = out->map_epoch != backend->epoch;
    if (is_new_epoch) {
        backend_end_epoch(backend);
        backend->is_ending = false;
        backend->n_epoch = backend->n_epoch_dropped = 0;
    }
    if (!(frame->flags & CAPTURE_EARLY)) {
        backend->n_epoch++;
        backend->n_epoch_dropped += !tracked;
    }
    backend->epoch = out->map_epoch;
    out->reference_seq += backend->seq_base;
    out->n_finds += backend->finds_base;
    backend->n_finds = out->n_finds;
    if (backend->window)
        keyframe_window_enter(backend->window, out->map_epoch);
    if (backend->map)
        map_enter(backend->map, out->map_epoch);
    backend->T_odom_camera = out->T_odom_camera;
    if (backend->window && (is_new_epoch || out->state != TRACK_STATE_LOST))
        backend->T_own_odom = keyframe_window_T_map_odom(backend->window);
    if (tracked && out->state != TRACK_STATE_LOST)
        keep_newest(backend, frame);
    return rc;
}

void backend_set_effort(struct backend *backend, enum track_effort effort, int64_t until_ns,
                        int64_t due_ns)
{
    backend->effort = effort;
    backend->until_ns = until_ns;
    backend->due_ns = due_ns;
    track_set_effort(backend->track, effort);
}

// Whose turn a lost frame is where time is short: the keyframes' and the map's are every other one.
static bool is_turn(const struct backend *backend, const struct track_result *result, bool of_map)
{
    return result->state != TRACK_STATE_LOST || backend->until_ns == INT64_MAX || !backend->map ||
           !backend->window || map_is_searching(backend->map) ||
           (backend->n_new % 2 == 0) == of_map;
}

// A camera that is lost, or not found yet in a loaded map, is looked for whatever the effort, and
// where it is found meanwhile that ends at once.
static bool is_fused(const struct backend *backend, const struct track_result *result)
{
    return is_turn(backend, result, true) &&
           (backend->effort < TRACK_EFFORT_LEAST || result->state != TRACK_STATE_TRACKING ||
            map_is_searching(backend->map) || map_is_looking(backend->map) ||
            backend->n_new % BACKEND_FUSE_EVERY == 0);
}

// The keyframes and the map, each where it is wanted.
static int fuse(struct backend *backend, const struct track_result *result, double *out_moved_m)
{
    const bool searched = backend_is_searching(backend);
    int error = 0;
    double then_m = 0;
    const bool sparing = backend->effort == TRACK_EFFORT_LEAST;
    if (backend->window)
        keyframe_window_spare(backend->window, sparing);
    if (backend->window &&
        keyframe_window_is_ready(backend->window, sparing ? 0 : backend->until_ns))
        error = keyframe_window_follow(backend->window, backend->gpu, backend->track, result,
                                       backend->n_calls - 1, backend->time_ns, out_moved_m);
    const int64_t began_ns = clock_monotonic_ns();
    // First among the keyframes: their images are sharp where a drift smears the map.
    if (!error && backend->window && is_turn(backend, result, false))
        error = keyframe_window_relocate(backend->window, backend->gpu, backend->track, result,
                                         backend->time_ns, backend->until_ns, &then_m);
    *out_moved_m = fmax(*out_moved_m, then_m);
    const bool by_keyframe = track_is_found(backend->track);
    if (backend->map)
        map_set_time(backend->map,
                     result->state == TRACK_STATE_LOST ? backend->until_ns : backend->due_ns);
    if (!error && backend->map && (by_keyframe || is_fused(backend, result)))
        error = map_follow(backend->map, backend->track, result);
    else if (backend->map && result->new_keyframe)
        map_expect_view(backend->map);
    if (searched || result->state == TRACK_STATE_LOST)
        backend->search_ns = clock_monotonic_ns() - began_ns;
    if (!error && backend->window && !by_keyframe && track_is_found(backend->track)) {
        const struct se3 T_odom_found = track_expected(backend->track);
        keyframe_window_found(backend->window, &T_odom_found, backend->time_ns);
    }
    track_set_map(backend->track,
                  (backend->map && !map_is_searching(backend->map)) ||
                      (backend->window && keyframe_window_has_any(backend->window)));
    if (searched && !backend_is_searching(backend))
        backend->T_own_found =
            backend->window ? keyframe_window_T_map_odom(backend->window) : se3_identity();
    return error;
}

int backend_fuse(struct backend *backend, const struct track_result *result, double *out_moved_m)
{
    *out_moved_m = 0;
    backend->search_ns = 0;
    if (backend->is_repeated) // keyframes and map have it already
        return 0;
    const bool is_sought = backend_is_searching(backend);
    int error = fuse(backend, result, out_moved_m);
    if (is_sought) // what moved in the keyframes' own map, nobody knows the place of
        *out_moved_m = 0;
    if (!error)
        return 0;
    while (error) {
        log_to(&backend->log, LOG_LEVEL_ERROR, "the device failed while fusing: %s",
               gpu_description(backend->gpu));
        if (backend_recover(backend) != 0)
            return -EIO;
        backend->is_new = true; // the next call is the first of the new tracker
        backend->seq_base = backend->n_calls;
        error = backend_prime(backend, backend->n_calls);
    }
    return BACKEND_REPLACED;
}

int64_t backend_search_ns(const struct backend *backend)
{
    return backend->search_ns;
}

int backend_recalibrate(struct backend *backend)
{
    take_camera(backend);
    backend_forget_newest(backend);
    const struct intrinsics *camera = &backend->gpu_settings.camera;
    bool is_its = backend->has_field && memcmp(camera, &backend->field_camera, sizeof *camera) == 0;
    backend->gpu_settings.field_per_m = is_its ? backend->field_per_m : NULL;
    if (backend->has_field && !is_its)
        log_to(&backend->log, LOG_LEVEL_WARNING,
               "camera.field belongs to the camera before and is not applied to this one");
    backend_end_epoch(backend);
    keyframe_window_destroy(&backend->window);
    if (open_window(backend) != 0)
        log_to(&backend->log, LOG_LEVEL_ERROR, "no keyframes of the map for this camera");
    return backend_open_again(backend, gpu_backend(backend->gpu));
}

void backend_reset(struct backend *backend, const struct se3 *T_odom_camera)
{
    backend_end_epoch(backend);
    if (backend->map)
        map_give_up(backend->map);
    backend_restart(backend, T_odom_camera);
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

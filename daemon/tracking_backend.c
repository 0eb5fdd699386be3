// SPDX-License-Identifier: Apache-2.0
#include "daemon/tracking_backend.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/clock_sets.h"
#include "daemon/config/cameras.h"
#include "gpu/model/keyframe_window.h"
#include "gpu/track/covariance.h"
#include "gpu/track/residual.h"
#include "proto/clock.h"
#include "proto/se3.h"

struct backend {
    const struct config *config;
    struct capture *capture;
    struct gpu_settings gpu_settings;
    struct depth_error field;       // of the camera that the source began with
    struct intrinsics field_camera; // as the source told of it
    bool has_field;
    float *field_per_m;
    struct yield yield; // of long work beside the frames
    struct log_sink log;
    struct gpu *gpu;
    struct track *track;
    struct map *map;                // NULL: nobody wants one
    struct keyframe_window *window; // NULL: map.keyframes is 0. Outlives a device
    struct se3 T_own_found;         // window's T_map_odom when the camera was found in a loaded map
    struct se3 T_odom_camera;       // of the newest frame
    struct se3 T_own_odom;          // window's T_map_odom with the last frame that was not LOST
    // Of the epoch that ended last, kept when it did.
    struct graph_keyframe *ended; // map.keyframes
    uint32_t n_ended, ended_epoch;
    bool has_ended;               // and nobody has asked since
    bool is_ending;               // kept already: what is left of it is nothing
    struct capture_frame newest;  // the last one that got a pose, kept; image.depth NULL: none
    uint64_t newest_call;         // of backend_track
    uint32_t epoch_base;          // of the trackers before this one
    uint32_t epoch;               // newest, base included
    uint32_t finds_base, n_finds; // the same of finds
    enum track_effort effort;
    int64_t until_ns, due_ns; // of backend_set_effort
    int64_t search_ns;        // of backend_search_ns
    bool is_repeated;         // the newest frame's image is that of the one before
    bool is_new;              // nothing ties the next pose to the last one: a new epoch
    unsigned n_rebuilds;      // since the last good frame
    uint64_t n_frames;        // tracked
    uint64_t n_new;           // the same without those whose image is repeated
    uint64_t n_calls;         // of backend_track
    int64_t time_ns;          // of the newest of them, capture_even_ns
    uint64_t seq_base;        // of them, before this tracker
    struct clock_sets clock_sets;
    // Of the epoch: frames, and those among them that never came to the tracker.
    uint64_t n_epoch, n_epoch_dropped;
    float loaded_dropped; // map_contents' of the map that was loaded last
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

static void forget_newest(struct backend *backend)
{
    if (backend->newest.image.depth)
        capture_release(&backend->newest);
    backend->newest = (struct capture_frame){0};
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

static void close_device(struct backend *backend)
{
    map_destroy(&backend->map);
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
        error = open_device(backend, config->backend);
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
    close_device(*backend);
    keyframe_window_destroy(&(*backend)->window);
    forget_newest(*backend);
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

// The map epoch is about to end: its keyframes are kept as they are. Nothing where they have been,
// or where it has no frame.
static void end_epoch(struct backend *backend)
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

static void restart(struct backend *backend, const struct se3 *T_odom_camera)
{
    forget_newest(backend);
    backend->T_odom_camera = *T_odom_camera; // what comes before the next frame begins here, too
    track_reset(backend->track, T_odom_camera);
}

int backend_load_map(struct backend *backend, const struct intrinsics *camera,
                     const struct map_contents *contents)
{
    if (!backend->map)
        return -ENOTSUP;
    if (memcmp(camera, &backend->gpu_settings.camera, sizeof *camera) != 0)
        return -EXDEV;
    const bool was_ending = backend->is_ending;
    end_epoch(backend);
    int error = map_load(backend->map, contents);
    if (error == -ENOSPC) {
        backend->is_ending = was_ending; // the map goes on
        return error;
    }
    backend->loaded_dropped = error ? 0 : contents->dropped;
    restart(backend, &backend->T_odom_camera);
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

uint32_t backend_epoch(const struct backend *backend)
{
    return backend->epoch;
}

int backend_optimised(struct backend *backend, struct optimise_report *out)
{
    return backend->window ? keyframe_window_optimised(backend->window, out) : -ENODATA;
}

// A device and a tracker in place of the present ones, on the CPU when it has to be.
static int open_again(struct backend *backend, enum gpu_backend which)
{
    if (backend->map && map_is_loaded(backend->map))
        log_to(&backend->log, LOG_LEVEL_WARNING, "the loaded map goes with its device");
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

// After a failure: a device and a tracker that start at the last pose. 0, or -EIO when gpu.on_error
// says stop or nothing works any more.
static int recover(struct backend *backend)
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
    backend->is_new = backend->n_calls > 1; // the call under way counts already
    backend->seq_base = backend->n_calls - 1;
    log_to(&backend->log, LOG_LEVEL_WARNING, "tracking goes on with %s",
           gpu_description(backend->gpu));
    return 0;
}

// Gives a new tracker the frame of call `last` as its reference, at the pose that it has: then the
// poses stay connected. Only where that frame was kept.
static int prime(struct backend *backend, uint64_t last)
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
        if (recover(backend) != 0)
            return -EIO;
        replaced = true;
        error = prime(backend, backend->n_calls - 1);
        if (!error)
            error = track_frame(backend->track, frame->image.depth, backend->time_ns, out);
    }
    backend->n_rebuilds = 0;
    return replaced ? BACKEND_REPLACED : 0;
}

static void keep_newest(struct backend *backend, const struct capture_frame *frame)
{
    forget_newest(backend);
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
        end_epoch(backend);
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
        if (recover(backend) != 0)
            return -EIO;
        backend->is_new = true; // the next call is the first of the new tracker
        backend->seq_base = backend->n_calls;
        error = prime(backend, backend->n_calls);
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
    forget_newest(backend);
    const struct intrinsics *camera = &backend->gpu_settings.camera;
    bool is_its = backend->has_field && memcmp(camera, &backend->field_camera, sizeof *camera) == 0;
    backend->gpu_settings.field_per_m = is_its ? backend->field_per_m : NULL;
    if (backend->has_field && !is_its)
        log_to(&backend->log, LOG_LEVEL_WARNING,
               "camera.field belongs to the camera before and is not applied to this one");
    end_epoch(backend);
    keyframe_window_destroy(&backend->window);
    if (open_window(backend) != 0)
        log_to(&backend->log, LOG_LEVEL_ERROR, "no keyframes of the map for this camera");
    return open_again(backend, gpu_backend(backend->gpu));
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

void backend_reset(struct backend *backend, const struct se3 *T_odom_camera)
{
    end_epoch(backend);
    if (backend->map)
        map_give_up(backend->map);
    restart(backend, T_odom_camera);
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

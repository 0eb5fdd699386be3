// SPDX-License-Identifier: Apache-2.0
#include "daemon/camera.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/config/origins.h"
#include "daemon/map_export.h"
#include "daemon/notify.h"
#include "daemon/signals.h"
#include "daemon/tracking_map.h"
#include "proto/clock.h"
#include "proto/wire.h"

#define ROUND_NS     100000000
#define HEARTBEAT_NS 1000000000

// What the threads of several cameras share.
struct camera_all {
    const struct camera_run *run;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint32_t n_going;
    bool over;             // all have ended
    _Atomic bool given_up; // not all could be started
};

static void say_with_name(void *user, enum log_level level, const char *line)
{
    const struct camera *camera = user;
    log_to(&camera->all, level, "%s: %s", camera->name, line);
}

// What most often is wrong with a recording, so that it can be seen.
static void log_camera(const struct capture_info *info, const struct log_sink *sink)
{
    const struct intrinsics *camera = &info->camera;
    log_to(sink, LOG_LEVEL_INFO, "source: %s", info->description);
    log_to(sink, LOG_LEVEL_INFO,
           "camera: %ux%u, fx %g, fy %g, cx %g, cy %g, %g depth units per metre", camera->width_px,
           camera->height_px, camera->fx_px, camera->fy_px, camera->cx_px, camera->cy_px,
           info->units_per_m);
}

// With where each of them was set.
static void tell_overrides(const struct camera *camera)
{
    struct origins origins = {&camera->config, NULL, camera->sink};
    const struct log_sink log = origins_log(&origins);
    capture_tell_overrides(camera->capture, &log);
}

static int open_capture(struct camera *camera)
{
    const struct config *config = &camera->config;
    struct capture_settings settings = config->capture;
    settings.source = config->source;
    settings.camera = camera->name[0] ? camera->name : NULL;
    settings.n_kept = BACKEND_KEPT_FRAMES + config->requests.keep_frames;
    if (config->recorder.folder[0])
        settings.n_kept += config->recorder.queue_frames;
    settings.ros_domain = config_ros_domain(config, &settings.ros_domain_origin);
    settings.ros_interface = config->ros.interface;
    settings.is_stopped = signals_stop;
    settings.log = camera->sink;
    return capture_open(&camera->capture, &settings);
}

static int create_shared(struct camera *camera, const struct config *all, uint64_t session)
{
    static const posed_Reference references[] = {
        [TRACK_REFERENCE_PREVIOUS] = posed_Reference_REFERENCE_PREVIOUS,
        [TRACK_REFERENCE_KEYFRAME] = posed_Reference_REFERENCE_KEYFRAME,
        [TRACK_REFERENCE_MODEL] = posed_Reference_REFERENCE_MODEL,
    };
    const struct config *config = &camera->config;
    struct shared_info info = {
        .session = session,
        .capture = *capture_info(camera->capture),
        .reference = references[config->track.reference],
        .field = backend_field(camera->backend),
        .n_history = config->requests.history,
        .n_cameras = all->n_cameras,
        .keeps_map = config_keeps_map(config),
    };
    snprintf(info.source, sizeof info.source, "%s", config->source);
    snprintf(info.camera, sizeof info.camera, "%s", camera->name);
    for (uint32_t i = 0; i < all->n_cameras; i++)
        memcpy(info.cameras[i], all->cameras[i].name, sizeof info.cameras[i]);
    memcpy(info.odom_frame, config->publish.odom_frame, sizeof info.odom_frame);
    memcpy(info.camera_frame, config->publish.camera_frame, sizeof info.camera_frame);
    int error = shared_create(&camera->shared, &info);
    if (error)
        log_to(&camera->sink, LOG_LEVEL_ERROR, "out of memory (requests.history)");
    else
        shared_set_backend(camera->shared, backend_description(camera->backend));
    return error;
}

enum camera_error camera_open(struct camera *camera, const struct config *config, uint32_t index,
                              uint64_t session, const struct log_sink *log)
{
    camera->name = config->n_cameras ? config->cameras[index].name : "";
    camera->index = index;
    camera->all = *log;
    camera->sink = camera->name[0] ? (struct log_sink){say_with_name, camera} : *log;
    cameras_config(config, index, &camera->config);
    const int error = open_capture(camera);
    if (error)
        return error == -EINTR ? CAMERA_STOPPED : CAMERA_NO_SOURCE;
    log_camera(capture_info(camera->capture), &camera->sink);
    tell_overrides(camera);
    const struct yield yield = {yield_frames_wait, &camera->yield_frames};
    const int refused =
        backend_open(&camera->backend, &camera->config, camera->capture, &yield, &camera->sink);
    if (refused)
        return refused == -EXDEV    ? CAMERA_OTHER_FIELD
               : refused == -ENOSPC ? CAMERA_NO_ROOM
                                    : CAMERA_NO_BACKEND;
    log_to(&camera->sink, LOG_LEVEL_INFO, "%s", backend_description(camera->backend));
    if (create_shared(camera, config, session) != 0)
        return CAMERA_NO_MEMORY;
    if (frames_create(&camera->frames, camera->config.requests.keep_frames) != 0) {
        log_to(&camera->sink, LOG_LEVEL_ERROR, "out of memory (requests.keep_frames)");
        return CAMERA_NO_MEMORY;
    }
    return CAMERA_OK;
}

bool camera_is_unpaced(const struct camera *camera)
{
    return !capture_info(camera->capture)->live && camera->config.capture.rate == CAPTURE_RATE_MAX;
}

int camera_open_trajectory(struct camera *camera)
{
    const struct config *config = &camera->config;
    if (!config->trajectory[0])
        return 0;
    return trajectory_file_create(&camera->trajectory, config->trajectory,
                                  config->trajectory_format, camera_is_unpaced(camera),
                                  config->trajectory_poses == CONFIG_POSES_ADJUSTED, &camera->sink);
}

int camera_close_trajectory(struct camera *camera)
{
    return trajectory_file_destroy(&camera->trajectory);
}

void camera_close_frames(struct camera *camera)
{
    frames_destroy(&camera->frames);
}

void camera_close(struct camera *camera)
{
    shared_destroy(&camera->shared);
    backend_close(&camera->backend);
    capture_close(&camera->capture);
}

static int write_map(struct camera *camera)
{
    const char *path = camera->config.map_output;
    struct map_contents map = {0};
    if (!path[0])
        return 0;
    int error = backend_read_map(camera->backend, &map);
    if (error == -ENOBUFS) {
        error = map_contents_reserve(&map);
        if (!error)
            error = backend_read_map(camera->backend, &map);
    }
    if (error) {
        map_contents_free(&map);
        log_to(&camera->sink, LOG_LEVEL_ERROR, "%s: no map: %s", path,
               error == -EAGAIN    ? "the camera was not found in the loaded one, whose file stays"
               : error == -ENODATA ? "no frame was tracked, so that there is no surface"
                                   : strerror(-error));
        return error;
    }
    map_contents_order(&map);
    error = map_contents_correct(&map, &camera->config.map);
    if (error)
        log_to(&camera->sink, LOG_LEVEL_ERROR, "%s: no map: %s", path, strerror(-error));
    else
        error = map_export_write(path, map.blocks, map.n_blocks, map.n_left_out,
                                 camera->config.map.voxel_m, &camera->sink);
    map_contents_free(&map);
    return error;
}

static bool must_stop(void *user)
{
    const struct camera_all *all = ((const struct camera *)user)->running;
    return all->given_up || all->run->stop(all->run->user);
}

static void run_loop(struct camera *camera, const struct camera_run *run)
{
    const bool is_alone = !camera->running;
    const struct loop_settings settings = {
        .capture = camera->capture,
        .backend = camera->backend,
        .shared = camera->shared,
        .publish = camera->publish,
        .recorder = camera->recorder,
        .camera = camera->index,
        .ros = camera->ros,
        .frames = camera->frames,
        .yield_frames = &camera->yield_frames,
        .trajectory = camera->trajectory,
        .rig = camera->rig,
        .wait_subscriber_s = camera->config.publish.wait_subscriber_s,
        .adapt = camera->config.adapt,
        .stop = is_alone ? run->stop : must_stop,
        .poll = is_alone ? run->poll : NULL,
        .user = is_alone ? run->user : camera,
        .log = camera->sink,
        .terminal = is_alone ? run->terminal : NULL,
    };
    camera->end = loop_run(&settings);
}

// Between pieces of what takes seconds.
struct asked_stop {
    const struct camera_run *run;
    atomic_bool stop;
};

static void ask_stop(void *user, int64_t piece_ns)
{
    struct asked_stop *asked = user;
    (void)piece_ns;
    atomic_store(&asked->stop, asked->run->stop(asked->run->user));
}

// Where all frames were, as the keyframes lie in the end. At the end of a recording there is time
// to adjust them all once more, until a signal comes.
static void adjust_trajectory(struct camera *camera, const struct camera_run *run)
{
    const uint32_t max = camera->config.map_keyframes;
    struct graph_keyframe *keyframes;
    struct optimise_report report;
    if (!camera->trajectory || !trajectory_file_is_adjusted(camera->trajectory) || max == 0)
        return;
    const int64_t begin_ns = clock_monotonic_ns();
    const bool all = camera->end == LOOP_END_OF_RECORDING;
    struct asked_stop asked = {.run = run};
    const struct yield yield = {ask_stop, &asked};
    int error = backend_finish(camera->backend, all, &asked.stop, &yield, &report);
    camera->is_finished = true;
    if (all && error == 0)
        log_to(&camera->sink, LOG_LEVEL_INFO,
               "trajectory: %u keyframes adjusted at once in %.1f s, by %.1f mm at most%s",
               report.n_keyframes, (double)(clock_monotonic_ns() - begin_ns) * 1e-9,
               report.moved_m * 1e3,
               report.has_field ? "; the camera's own error is learnt and taken out" : "");
    else if (error == -EDOM || error == -ENOMEM)
        log_to(&camera->sink, LOG_LEVEL_WARNING,
               "trajectory: its keyframes cannot be adjusted at once: %s; it follows them as the "
               "live map had them",
               error == -EDOM ? "their links leave some of them free" : strerror(-error));
    keyframes = malloc(max * sizeof *keyframes);
    if (keyframes)
        trajectory_file_adjust(camera->trajectory, backend_epoch(camera->backend), keyframes,
                               backend_keyframes(camera->backend, keyframes, max));
    free(keyframes);
}

// The same for the rig's, when all cameras have done so.
static void adjust_rig(const struct camera *cameras, uint32_t n)
{
    const struct graph *graphs[CONFIG_MAX_CAMERAS] = {0};
    bool is_stopped = false;
    if (!cameras[0].rig)
        return;
    for (uint32_t i = 0; i < n; i++) {
        is_stopped = is_stopped || cameras[i].end == LOOP_STOPPED;
        if (cameras[i].is_finished)
            graphs[i] = backend_graph(cameras[i].backend);
    }
    rig_pose_adjust(cameras[0].rig, graphs, is_stopped);
}

static void end_loop(struct camera *camera, const struct camera_run *run)
{
    if (camera->end != LOOP_NO_MEMORY)
        adjust_trajectory(camera, run);
    if (camera->end == LOOP_END_OF_RECORDING || camera->end == LOOP_STOPPED)
        camera->failed = write_map(camera) != 0;
}

void camera_run(struct camera *camera, const struct camera_run *run)
{
    notify_send("READY=1");
    run_loop(camera, run);
    notify_send("STOPPING=1");
    end_loop(camera, run);
}

// --- Several

static void wait_for_change(struct camera_all *all, int64_t wait_ns)
{
    int64_t until_ns = clock_monotonic_ns() + wait_ns;
    const struct timespec until = clock_timespec(until_ns);
    pthread_cond_timedwait(&all->changed, &all->mutex, &until);
}

static void send_status(struct camera *camera)
{
    posed_Status status;
    uint8_t bytes[posed_Status_size];
    shared_status(camera->shared, &status);
    int n = wire_encode(posed_Status_fields, &status, bytes, sizeof bytes);
    if (n < 0 || !publish_send(camera->publish, PUBLISH_STATUS, bytes, (size_t)n))
        shared_count(camera->shared, SHARED_UNSENT);
}

static const char *reason_of(enum loop_end end)
{
    switch (end) {
    case LOOP_END_OF_RECORDING:
        return "the recording has ended";
    case LOOP_SOURCE_FAILED:
        return "the source has failed";
    case LOOP_BACKEND_FAILED:
        return "the device has failed";
    case LOOP_STOPPED:
    case LOOP_NO_MEMORY:
        break;
    }
    return "out of memory";
}

// As long as the others go on it says every second that it has ended. With the mutex held.
static void stay_ended(struct camera *camera, struct camera_all *all)
{
    while (!all->over) {
        pthread_mutex_unlock(&all->mutex);
        send_status(camera);
        pthread_mutex_lock(&all->mutex);
        if (!all->over)
            wait_for_change(all, HEARTBEAT_NS);
    }
}

static void *run_thread(void *user)
{
    struct camera *camera = user;
    struct camera_all *all = camera->running;
    char name[16];
    snprintf(name, sizeof name, "cam-%.11s", camera->name);
    pthread_setname_np(pthread_self(), name);
    run_loop(camera, all->run);
    if (camera->rig)
        rig_pose_end(camera->rig, camera->index);
    shared_end_commands(camera->shared); // also where the loop never began
    const bool has_ended = camera->end != LOOP_STOPPED;
    if (has_ended) {
        shared_end(camera->shared, reason_of(camera->end));
        log_to(&camera->sink, LOG_LEVEL_NOTICE, "%s", reason_of(camera->end));
        if (camera->recorder)
            recorder_end_camera(camera->recorder, camera->index); // nothing comes any more
    }
    end_loop(camera, all->run); // may write its map, which takes a while
    pthread_mutex_lock(&all->mutex);
    all->n_going--;
    pthread_cond_broadcast(&all->changed);
    if (has_ended)
        stay_ended(camera, all);
    pthread_mutex_unlock(&all->mutex);
    return NULL;
}

// Whether all loops still go round, or have ended.
static bool all_alive(const struct camera *cameras, uint32_t n_cameras)
{
    for (uint32_t i = 0; i < n_cameras; i++)
        if (!shared_is_alive(cameras[i].shared))
            return false;
    return true;
}

// With the mutex held.
static void look_after(struct camera_all *all, const struct camera *cameras, uint32_t n_cameras)
{
    int64_t period_ns = notify_watchdog_ns(), watchdog_ns = 0, heartbeat_ns = 0;
    char line[80];
    while (all->n_going > 0) {
        int64_t now_ns = clock_monotonic_ns();
        uint32_t n_going = all->n_going;
        pthread_mutex_unlock(&all->mutex);
        all->run->poll(all->run->user);
        if (now_ns >= heartbeat_ns) {
            snprintf(line, sizeof line, "STATUS=%u of %u cameras", n_going, n_cameras);
            notify_send(line);
            heartbeat_ns = now_ns + HEARTBEAT_NS;
        }
        // Loops that were told to stop write their maps.
        bool well = all->run->stop(all->run->user) || all_alive(cameras, n_cameras);
        if (period_ns && now_ns >= watchdog_ns && well) {
            notify_send("WATCHDOG=1");
            watchdog_ns = now_ns + period_ns;
        }
        pthread_mutex_lock(&all->mutex);
        if (all->n_going > 0)
            wait_for_change(all, ROUND_NS);
    }
}

int camera_run_all(struct camera *cameras, uint32_t n_cameras, const struct camera_run *run)
{
    struct camera_all all = {.run = run, .n_going = n_cameras};
    pthread_condattr_t attributes;
    uint32_t n_started = 0;
    int error = 0;
    pthread_mutex_init(&all.mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&all.changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_lock(&all.mutex);
    for (; n_started < n_cameras && !error; n_started += !error) {
        cameras[n_started].running = &all;
        error = -pthread_create(&cameras[n_started].thread, NULL, run_thread, &cameras[n_started]);
    }
    notify_send("READY=1");
    if (error) {
        log_to(&cameras[0].all, LOG_LEVEL_ERROR, "no thread for a camera: %s", strerror(-error));
        all.given_up = true;
        all.n_going -= n_cameras - n_started;
    }
    look_after(&all, cameras, n_cameras);
    notify_send("STOPPING=1");
    all.over = true;
    pthread_cond_broadcast(&all.changed);
    pthread_mutex_unlock(&all.mutex);
    for (uint32_t i = 0; i < n_started; i++)
        pthread_join(cameras[i].thread, NULL);
    if (!error)
        adjust_rig(cameras, n_cameras);
    pthread_cond_destroy(&all.changed);
    pthread_mutex_destroy(&all.mutex);
    return error;
}

// SPDX-License-Identifier: Apache-2.0
#include "daemon/rig_pose.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/fill_messages.h"
#include "daemon/rig_link.h"
#include "daemon/rig_place.h"
#include "daemon/twist_error.h"
#include "gpu/model/rig_refine.h"
#include "proto/clock.h"
#include "proto/rig_fusion.h"
#include "proto/se3.h"

#define MAX_AHEAD_NS   1000000000 // of a patient rig; below RIG_MAX_AHEAD frames
#define WAIT_NS        20000000
#define MAX_WAIT_NS    1000000000 // somebody has paused the other camera; the loop must stay alive
#define GAP_S          0.5        // no velocity over more than that, as of a camera
// Frames of the rig around a keyframe: a camera that falls silent leaves it so long without any.
#define MAX_BETWEEN_NS 1000000000

_Static_assert(CONFIG_MAX_CAMERAS <= RIG_MAX_CAMERAS, "enlarge RIG_MAX_CAMERAS");

struct rig_pose {
    struct rig_pose_settings settings;
    char odom_frame[32], base_frame[32];
    int64_t ahead_ns[CONFIG_MAX_CAMERAS]; // each camera's clock, of the first one's
    struct se3 T_base_camera[CONFIG_MAX_CAMERAS];
    struct trajectory_file *file;
    struct ros *ros;           // NULL = none
    struct recorder *recorder; // NULL = none
    pthread_mutex_t mutex;     // of all that follows
    pthread_cond_t changed;
    struct rig *rig;
    struct rig_result last;
    uint64_t next_seq;
    double previous_xyzw[4];
    struct twist_error twist_error;
    struct rig_link link;
    int64_t capture_ns;            // of the newest frame, CLOCK_MONOTONIC
    int64_t first_set_ns;          // of the first frame
    bool has_begun, was_clock_set; // since then
};

int rig_pose_create(struct rig_pose **out, const struct rig_pose_settings *settings)
{
    struct se3 T_base_camera[CONFIG_MAX_CAMERAS] = {se3_identity()};
    pthread_condattr_t attributes;
    *out = NULL;
    int64_t ahead_ns[CONFIG_MAX_CAMERAS] = {0};
    for (uint32_t i = 1; i < settings->n_cameras; i++) {
        struct rig_place place;
        if (rig_place_read(settings->places[i], &place, &settings->log) != 0)
            return -EINVAL;
        T_base_camera[i] = place.T_a_b;
        ahead_ns[i] = llround(place.clock_s * 1e9);
        if (ahead_ns[i])
            log_to(&settings->log, LOG_LEVEL_NOTICE,
                   "%s: this camera's clock is %.1f ms ahead of the first one's, which is taken "
                   "off for the rig",
                   settings->places[i], place.clock_s * 1e3);
    }
    struct rig_pose *rig = calloc(1, sizeof *rig);
    if (!rig)
        return -ENOMEM;
    memcpy(rig->ahead_ns, ahead_ns, sizeof ahead_ns);
    memcpy(rig->T_base_camera, T_base_camera, sizeof T_base_camera);
    if (rig_create(&rig->rig, T_base_camera, settings->n_cameras, settings->patient) != 0) {
        free(rig);
        return -ENOMEM;
    }
    rig->settings = *settings;
    rig->link.n_cameras = settings->n_cameras;
    snprintf(rig->odom_frame, sizeof rig->odom_frame, "%s", settings->odom_frame);
    snprintf(rig->base_frame, sizeof rig->base_frame, "%s", settings->base_frame);
    pthread_mutex_init(&rig->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&rig->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    *out = rig;
    return 0;
}

const struct se3 *rig_pose_place(const struct rig_pose *rig, uint32_t camera)
{
    return &rig->T_base_camera[camera];
}

int64_t rig_pose_ahead_ns(const struct rig_pose *rig, uint32_t camera)
{
    return rig->ahead_ns[camera];
}

void rig_pose_destroy(struct rig_pose **rig)
{
    if (!*rig)
        return;
    rig_destroy(&(*rig)->rig);
    pthread_cond_destroy(&(*rig)->changed);
    pthread_mutex_destroy(&(*rig)->mutex);
    free(*rig);
    *rig = NULL;
}

void rig_pose_write_to(struct rig_pose *rig, struct trajectory_file *file)
{
    rig->file = file;
}

void rig_pose_publish_to(struct rig_pose *rig, struct ros *ros)
{
    rig->ros = ros;
}

void rig_pose_record_to(struct rig_pose *rig, struct recorder *recorder)
{
    rig->recorder = recorder;
}

static int64_t told_ns(const struct rig_result *result)
{
    return result->time_ns + result->clock_set_ns;
}

static void write_pose(struct rig_pose *rig, const struct rig_result *result)
{
    struct track_result pose = {
        .state = result->quality == RIG_LOST ? TRACK_STATE_LOST : TRACK_STATE_TRACKING,
        .reason = result->quality == RIG_PREDICTED ? TRACK_REASON_DROPPED : TRACK_REASON_NONE,
        .T_odom_camera = result->T_odom_base,
        .map_epoch = result->epoch};
    memcpy(pose.error.walk, result->covariance, sizeof result->covariance);
    trajectory_file_push(rig->file, told_ns(result), result->clock_set_ns, &result->T_map_odom,
                         &pose);
}

static void set_state(const struct rig_pose *rig, const struct rig_result *result,
                      posed_Odometry *out)
{
    const uint32_t n = rig->settings.n_cameras;
    switch (result->quality) {
    case RIG_TRACKED:
        out->state = rig->next_seq == 0 ? posed_State_STATE_INIT : posed_State_STATE_TRACKING;
        if (result->n_used < n)
            snprintf(out->reason_text, sizeof out->reason_text, "%u of %u cameras", result->n_used,
                     n);
        return;
    case RIG_PREDICTED:
        out->state = posed_State_STATE_DEGRADED;
        out->reason = posed_Reason_REASON_DROPPED;
        snprintf(out->reason_text, sizeof out->reason_text, "no camera was tracked in time");
        return;
    case RIG_LOST:
        out->state = posed_State_STATE_LOST;
        out->reason = posed_Reason_REASON_OTHER;
        snprintf(out->reason_text, sizeof out->reason_text, "no camera is tracked");
        return;
    }
}

// In the body's frame, from the pose before, as track.h has it.
static void set_velocity(const struct rig_pose *rig, const struct rig_result *result,
                         posed_Odometry *out)
{
    const struct rig_result *last = &rig->last;
    double twist[6], passed_s = (double)(result->time_ns - last->time_ns) * 1e-9;
    out->has_linear_velocity = out->has_angular_velocity = true;
    if (rig->next_seq == 0 || result->epoch != last->epoch || result->quality == RIG_LOST ||
        last->quality == RIG_LOST || !(passed_s > 0 && passed_s <= GAP_S))
        return;
    struct se3 moved = se3_between(&last->T_odom_base, &result->T_odom_base);
    se3_log(&moved, twist);
    out->linear_velocity =
        (posed_Vector3){twist[0] / passed_s, twist[1] / passed_s, twist[2] / passed_s};
    out->angular_velocity =
        (posed_Vector3){twist[3] / passed_s, twist[4] / passed_s, twist[5] / passed_s};
}

static void set_velocity_covariance(struct rig_pose *rig, const struct rig_result *result,
                                    posed_Odometry *out)
{
    const posed_Vector3 *v = &out->linear_velocity, *w = &out->angular_velocity;
    struct pose_error error = {0};
    memcpy(error.own, result->own, sizeof error.own);
    for (int i = 0; i < 36; i++)
        error.walk[i] = result->covariance[i] - result->own[i];
    const struct twist_sight sight = {.time_ns = result->time_ns,
                                      .T_odom_body = result->T_odom_base,
                                      .error = &error,
                                      .velocity = (double[]){v->x, v->y, v->z, w->x, w->y, w->z},
                                      .epoch = result->epoch,
                                      .is_lost = result->quality == RIG_LOST};
    const bool is_known = twist_error_next(&rig->twist_error, &sight, out->velocity_covariance);
    out->velocity_covariance_count = is_known ? 36 : 0;
}

// The same pose for ROS.
static void put_ros(const struct rig_pose *rig, const struct rig_result *result,
                    const posed_Odometry *odometry)
{
    const posed_Vector3 *v = &odometry->linear_velocity, *w = &odometry->angular_velocity;
    struct ros_tracked tracked = {.time_ns = told_ns(result),
                                  .clock_set_ns = result->clock_set_ns,
                                  .is_lost = result->quality != RIG_TRACKED,
                                  .is_cut = odometry->is_cut,
                                  .T_odom_camera = result->T_odom_base,
                                  .velocity = {v->x, v->y, v->z, w->x, w->y, w->z},
                                  .knows_velocity = odometry->velocity_covariance_count == 36};
    memcpy(tracked.covariance, result->covariance, sizeof tracked.covariance);
    memcpy(tracked.velocity_covariance, odometry->velocity_covariance,
           sizeof tracked.velocity_covariance);
    ros_put_rig(rig->ros, &tracked);
}

static void send_pose(struct rig_pose *rig, const struct rig_result *result)
{
    uint8_t bytes[posed_Odometry_size];
    posed_Odometry odometry = posed_Odometry_init_zero;
    odometry.has_timestamp = true;
    odometry.timestamp = wire_timestamp(told_ns(result));
    wire_copy_text(odometry.frame_id, sizeof odometry.frame_id, rig->odom_frame);
    wire_copy_text(odometry.body_frame_id, sizeof odometry.body_frame_id, rig->base_frame);
    odometry.has_pose = true;
    odometry.pose = wire_pose(&result->T_odom_base, rig->previous_xyzw);
    odometry.has_map_from_odom = result->has_map;
    odometry.map_from_odom = wire_pose(&result->T_map_odom, NULL);
    odometry.pose_covariance_count = 36;
    memcpy(odometry.pose_covariance, result->covariance, sizeof result->covariance);
    odometry.session = rig->settings.session;
    odometry.seq = rig->next_seq;
    odometry.replay = rig->settings.replay;
    odometry.map_epoch = result->epoch;
    odometry.is_cut = rig->link.is_cut;
    odometry.capture_monotonic_ns = rig->capture_ns;
    set_state(rig, result, &odometry);
    set_velocity(rig, result, &odometry);
    set_velocity_covariance(rig, result, &odometry);
    if (rig->ros)
        put_ros(rig, result, &odometry);
    odometry.publish_monotonic_ns = clock_monotonic_ns();
    int n = wire_encode(posed_Odometry_fields, &odometry, bytes, sizeof bytes);
    if (n <= 0)
        return;
    publish_send(rig->settings.publish, PUBLISH_POSE, bytes, (size_t)n);
    if (rig->recorder)
        recorder_push_message(rig->recorder, RECORDER_RIG, RECORDER_TOPIC_RIG, told_ns(result),
                              bytes, (size_t)n);
}

// With the mutex held, which makes the loops one sender.
static void send_poses(struct rig_pose *rig)
{
    struct rig_result result;
    while (rig_next(rig->rig, &result)) {
        rig_link_follow(&rig->link, result.epoch);
        send_pose(rig, &result);
        if (rig->file)
            write_pose(rig, &result);
        rig->last = result;
        rig->next_seq++;
    }
    pthread_cond_broadcast(&rig->changed);
}

static enum rig_quality quality_of(const struct track_result *result)
{
    if (result->state == TRACK_STATE_LOST)
        return RIG_LOST;
    return result->reason == TRACK_REASON_DROPPED ? RIG_PREDICTED : RIG_TRACKED;
}

void rig_pose_put(struct rig_pose *rig, uint32_t camera, const struct capture_frame *frame,
                  const struct track_result *result, const struct se3 *T_map_odom, bool is_cut)
{
    const struct rig_sight sight = {
        .time_ns = capture_even_ns(frame) - rig->ahead_ns[camera],
        .clock_set_ns = frame->clock_set_ns,
        .T_odom_camera = result->T_odom_camera,
        .error = result->error,
        .T_map_odom = T_map_odom ? *T_map_odom : se3_identity(),
        .has_map = T_map_odom != NULL,
        .epoch = result->map_epoch,
        .n_finds = result->n_finds,
        .quality = quality_of(result),
    };
    pthread_mutex_lock(&rig->mutex);
    if (!rig->has_begun)
        rig->first_set_ns = frame->clock_set_ns;
    rig->has_begun = true;
    rig->was_clock_set = rig->was_clock_set || frame->clock_set_ns != rig->first_set_ns;
    rig_link_put(&rig->link, camera, rig->settings.replay ? 0 : frame->capture_mono_ns,
                 result->map_epoch, is_cut);
    // An image that came before says where the camera was, not where it is.
    if (!(frame->flags & CAPTURE_DUPLICATE) || result->state == TRACK_STATE_LOST)
        rig_put(rig->rig, camera, &sight);
    rig->capture_ns = frame->capture_mono_ns;
    send_poses(rig);
    int64_t end_ns = clock_monotonic_ns() + MAX_WAIT_NS, until_ns = 0;
    while (rig->settings.patient && rig_ahead_ns(rig->rig, camera) > MAX_AHEAD_NS &&
           until_ns < end_ns && !rig->settings.stop(rig->settings.user)) {
        until_ns = clock_monotonic_ns() + WAIT_NS;
        const struct timespec until = clock_timespec(until_ns);
        pthread_cond_timedwait(&rig->changed, &rig->mutex, &until);
    }
    pthread_mutex_unlock(&rig->mutex);
}

void rig_pose_end(struct rig_pose *rig, uint32_t camera)
{
    pthread_mutex_lock(&rig->mutex);
    rig_end(rig->rig, camera);
    rig_link_end(&rig->link, camera);
    send_poses(rig);
    pthread_mutex_unlock(&rig->mutex);
}

// --- At the end

// Where the body was at a camera's keyframes, which are in order of time. Returns whether it is
// known of all, and all are of the rig's last epoch; not after the machine's clock was set, as the
// file's times followed that and the keyframes' did not.
static bool find_bodies(struct rig_pose *rig, uint32_t camera, const struct graph *graph,
                        struct se3 *out)
{
    const struct graph_keyframe *keyframes;
    const uint32_t n = graph_keyframes(graph, &keyframes);
    struct trajectory_find *found = calloc(n + 1, sizeof *found);
    bool good = found != NULL && n > 0 && !rig->was_clock_set;
    for (uint32_t i = 0; i < n && good; i++)
        found[i].time_ns = keyframes[i].time_ns - rig->ahead_ns[camera] + rig->first_set_ns;
    good = good && trajectory_file_find(rig->file, found, n, MAX_BETWEEN_NS) == 0;
    for (uint32_t i = 0; i < n && good; i++) {
        good = found[i].is_known && found[i].epoch == rig->last.epoch;
        out[i] = found[i].T_odom_camera;
    }
    free(found);
    return good;
}

// The body's poses of a joined graph, numbered as the file's lines are.
static int give_to_file(struct rig_pose *rig, const struct graph *joined, double *out_moved_m)
{
    const struct graph_keyframe *unused;
    uint32_t n = graph_keyframes(joined, &unused);
    struct graph_keyframe *bodies = malloc(n * sizeof *bodies);
    struct trajectory_find *found = calloc(n, sizeof *found);
    int error = bodies && found ? 0 : -ENOMEM;
    if (!error)
        n = graph_bodies(joined, bodies);
    for (uint32_t i = 0; i < n && !error; i++)
        found[i].time_ns = bodies[i].time_ns + rig->first_set_ns;
    if (!error)
        error = trajectory_file_find(rig->file, found, n, MAX_BETWEEN_NS);
    for (uint32_t i = 0; i < n && !error; i++) {
        const double *a = bodies[i].T_odom_camera.t_m, *b = bodies[i].T_map_camera.t_m;
        bodies[i].seq = found[i].seq;
        *out_moved_m = fmax(*out_moved_m, hypot(hypot(a[0] - b[0], a[1] - b[1]), a[2] - b[2]));
    }
    if (!error)
        trajectory_file_adjust(rig->file, rig->last.epoch, bodies, n);
    free(bodies);
    free(found);
    return error;
}

// By the images themselves, where there are enough and not too many; else it stays as it was.
// out: what the log says of it.
static int refine(const struct rig_pose *rig, struct graph *joined, const struct graph_part *parts,
                  uint32_t n, char out[160])
{
    struct rig_adjustment_report report;
    const int error = rig_refine(joined, parts, n, rig->settings.stop, rig->settings.user, &report);
    if (!error)
        snprintf(out, 160,
                 "; by %u pairs of their images, which differ by %.2f mm at 1 m, not %.2f",
                 report.n_pairs, report.after_per_m * 1e3, report.before_per_m * 1e3);
    else if (error == -E2BIG)
        snprintf(out, 160,
                 "; by their links alone: of images at most %d of %d cameras are compared "
                 "(map.keyframes)",
                 RIG_ADJUSTMENT_MAX_IMAGES, RIG_ADJUSTMENT_MAX_CAMERAS);
    else if (n > 1)
        snprintf(out, 160, "; by their links alone: %s",
                 error == -ECANCELED ? "told to stop"
                 : error == -EDOM    ? "their images do not fit better otherwise"
                                     : "a camera has too few keyframes, or too few of them see "
                                       "the same surface");
    return error == -ENOMEM ? error : 0;
}

static int adjust(struct rig_pose *rig, const struct graph *const *graphs, bool in_time)
{
    struct graph_part parts[CONFIG_MAX_CAMERAS];
    struct se3 *bodies[CONFIG_MAX_CAMERAS];
    struct graph *joined = NULL;
    uint32_t n = 0, n_keyframes = 0;
    double moved_m = 0;
    char how[160] = "";
    int error = 0;
    for (uint32_t i = 0; i < rig->settings.n_cameras && !error; i++) {
        const struct graph_keyframe *unused;
        const uint32_t n_of = graphs[i] ? graph_keyframes(graphs[i], &unused) : 0;
        bodies[n] = n_of ? malloc(n_of * sizeof *bodies[n]) : NULL;
        if (!bodies[n]) {
            error = n_of ? -ENOMEM : 0;
        } else if (find_bodies(rig, i, graphs[i], bodies[n])) {
            parts[n] =
                (struct graph_part){graphs[i], rig->T_base_camera[i], bodies[n], rig->ahead_ns[i]};
            n_keyframes += n_of;
            n++;
        } else {
            free(bodies[n]);
            log_to(&rig->settings.log, LOG_LEVEL_NOTICE,
                   "rig: the keyframes of camera %u are not adjusted with the others': where the "
                   "rig was is not known of all of them, or some are from before its last map "
                   "epoch",
                   i + 1);
        }
    }
    if (!error && in_time && n_keyframes > RIG_POSE_IN_TIME)
        error = -ETIME;
    if (!error)
        error = n ? graph_join(&joined, parts, n, &rig->settings.log) : -ENODATA;
    if (!error && !in_time)
        error = refine(rig, joined, parts, n, how);
    else if (!error && n > 1)
        snprintf(how, sizeof how, "; by their links alone: told to stop");
    if (!error)
        error = give_to_file(rig, joined, &moved_m);
    if (!error)
        log_to(&rig->settings.log, LOG_LEVEL_INFO,
               "rig: %u keyframes of %u camera%s adjusted together, by %.1f mm at most%s",
               n_keyframes, n, n == 1 ? "" : "s", moved_m * 1e3, how);
    graph_destroy(&joined);
    for (uint32_t i = 0; i < n; i++)
        free(bodies[i]);
    return error;
}

void rig_pose_adjust(struct rig_pose *rig, const struct graph *const *graphs, bool in_time)
{
    if (!rig->file || !trajectory_file_is_adjusted(rig->file))
        return;
    const int error = adjust(rig, graphs, in_time);
    if (error && error != -ENODATA)
        log_to(&rig->settings.log, LOG_LEVEL_WARNING,
               "rig: the keyframes of its cameras cannot be adjusted together: %s; its trajectory "
               "stays as it was published",
               error == -E2BIG   ? "there are too many (map.keyframes)"
               : error == -EDOM  ? "they contradict each other"
               : error == -ETIME ? "there are too many for a daemon that is told to stop"
                                 : strerror(-error));
}

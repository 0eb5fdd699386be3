// SPDX-License-Identifier: Apache-2.0
#include "daemon/frame_loop.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/commands.h"
#include "daemon/fill_messages.h"
#include "daemon/frame_loop_state.h"
#include "daemon/histogram.h"
#include "daemon/notify.h"
#include "daemon/tracking_map.h"
#include "proto/clock.h"
#include "proto/se3.h"
#include "proto/wire.h"

#define ROUND_MS     100 // the longest that a round waits for a frame
#define HEARTBEAT_NS 1000000000
#define SILENT_NS    1000000000 // no frame for so long: NO_INPUT
#define NO_FRAME     "no frame arrives"
#define MAP_MOVED_M  0.01    // by the adjustment: worth an event
#define WAITED_NS    2000000 // a frame that was waited for so long has a time of its own
#define PAUSE_NS     500000  // between two looks whether who is slow has room

// Encodes into the loop's buffer and sends. All our messages fit it.
static void send(struct loop *loop, enum publish_topic topic, const pb_msgdesc_t *fields,
                 const void *message)
{
    int n = wire_encode(fields, message, loop->bytes, sizeof loop->bytes);
    if (n < 0 || !publish_send(loop->settings->publish, topic, loop->bytes, (size_t)n))
        shared_count(loop->settings->shared, SHARED_UNSENT);
}

// The same message for a recording that holds messages (MCAP).
static void record(struct loop *loop, enum recorder_topic topic, const struct capture_frame *frame,
                   const pb_msgdesc_t *fields, const void *message)
{
    if (!recorder_wants_messages(loop->settings->recorder, loop->settings->camera))
        return;
    int n = wire_encode(fields, message, loop->bytes, sizeof loop->bytes);
    if (n > 0)
        recorder_push_message(loop->settings->recorder, loop->settings->camera, topic,
                              frame->image.time_ns, loop->bytes, (size_t)n);
}

static void set_velocity_covariance(struct loop *loop, const struct capture_frame *frame,
                                    const struct track_result *result, posed_Odometry *out)
{
    const struct twist_sight sight = {.time_ns = capture_even_ns(frame),
                                      .T_odom_body = result->T_odom_camera,
                                      .error = &result->error,
                                      .velocity = result->velocity,
                                      .epoch = result->map_epoch,
                                      .n_finds = result->n_finds,
                                      .is_lost = result->state == TRACK_STATE_LOST,
                                      .is_predicted = result->reason == TRACK_REASON_DROPPED};
    const bool is_known = twist_error_next(&loop->twist_error, &sight, out->velocity_covariance);
    out->velocity_covariance_count = is_known ? 36 : 0;
}

// The same pose for ROS.
static void put_ros(struct loop *loop, const struct capture_frame *frame,
                    const struct track_result *result, const posed_Odometry *odometry)
{
    struct ros_tracked tracked = {.time_ns = frame->image.time_ns,
                                  .clock_set_ns = frame->clock_set_ns,
                                  .is_lost = result->state == TRACK_STATE_LOST,
                                  .is_predicted = result->reason == TRACK_REASON_DROPPED,
                                  .is_stale = result->is_stale,
                                  .is_cut = odometry->is_cut,
                                  .T_odom_camera = result->T_odom_camera};
    memcpy(tracked.covariance, odometry->pose_covariance, sizeof tracked.covariance);
    memcpy(tracked.velocity, result->velocity, sizeof tracked.velocity);
    tracked.knows_velocity = odometry->velocity_covariance_count == 36;
    memcpy(tracked.velocity_covariance, odometry->velocity_covariance,
           sizeof tracked.velocity_covariance);
    tracked.has_map = odometry->has_map_from_odom;
    tracked.T_map_odom = loop->T_map_odom;
    ros_put(loop->settings->ros, loop->settings->camera, &tracked, &frame->image,
            &loop->info->capture.camera);
}

static void send_event_of(struct loop *loop, uint64_t seq, posed_Event_Kind kind, const char *text)
{
    posed_Event event;
    message_event(loop->info, seq, kind, text, &event);
    send(loop, PUBLISH_EVENT, posed_Event_fields, &event);
}

void loop_send_event(struct loop *loop, posed_Event_Kind kind, const char *text)
{
    send_event_of(loop, loop->next_seq, kind, text);
}

static void send_calibration(struct loop *loop, int64_t time_ns)
{
    posed_CameraCalibration calibration;
    message_calibration(loop->info, time_ns, &calibration);
    send(loop, PUBLISH_CALIB, posed_CameraCalibration_fields, &calibration);
}

// Status, timing and the service manager's line: every second, whatever the camera does.
static void heartbeat(struct loop *loop, int64_t now_ns)
{
    posed_Status status;
    posed_Timing timing;
    char line[96];
    double seconds = (double)(now_ns - loop->heartbeat_ns + HEARTBEAT_NS) * 1e-9;
    double rate_hz = (double)(loop->next_seq - loop->heartbeat_seq) / seconds;
    shared_beat(loop->settings->shared);
    shared_set_rate(loop->settings->shared, rate_hz);
    shared_set_left_out(loop->settings->shared, backend_n_left_out(loop->settings->backend));
    loop->heartbeat_seq = loop->next_seq;
    loop->heartbeat_ns = now_ns + HEARTBEAT_NS;
    shared_status(loop->settings->shared, &status);
    send(loop, PUBLISH_STATUS, posed_Status_fields, &status);
    timing_report(&loop->timing, &timing);
    timing.has_timestamp = true;
    timing.timestamp = status.timestamp;
    timing.session = status.session;
    send(loop, PUBLISH_TIMING, posed_Timing_fields, &timing);
    snprintf(line, sizeof line, "STATUS=%s, %.1f frames/s", wire_state_name(status.state), rate_hz);
    if (loop->settings->poll)
        notify_send(line);
    health_beat(&loop->health,
                &(struct health_outputs){loop->settings->shared, loop->settings->ros,
                                         loop->settings->camera, loop->settings->terminal,
                                         &loop->settings->log, &loop->epoch_link},
                loop->state, rate_hz);
}

// A change of state is an event; a frame dropped in between is none.
static void announce(struct loop *loop, posed_State state, const char *reason)
{
    posed_State before = loop->state;
    char text[160];
    if (state == before)
        return;
    loop->state = state;
    snprintf(text, sizeof text, "%s -> %s%s%s", wire_state_name(before), wire_state_name(state),
             reason[0] ? ": " : "", reason);
    if (before == posed_State_STATE_NO_INPUT && loop->next_seq > 0) {
        log_to(&loop->settings->log, LOG_LEVEL_NOTICE, "frames arrive again");
        loop_send_event(loop, posed_Event_Kind_SOURCE_BACK, text);
    }
    if (state == posed_State_STATE_LOST) {
        log_to(&loop->settings->log, LOG_LEVEL_WARNING, "frame %llu: tracking lost: %s",
               (unsigned long long)loop->next_seq, reason);
        loop_send_event(loop, posed_Event_Kind_TRACKING_LOST, text);
    } else if (before == posed_State_STATE_LOST) {
        log_to(&loop->settings->log, LOG_LEVEL_NOTICE, "frame %llu: tracking is back",
               (unsigned long long)loop->next_seq);
        loop_send_event(loop, posed_Event_Kind_TRACKING_BACK, text);
    } else if (state == posed_State_STATE_DEGRADED) {
        loop_send_event(loop, posed_Event_Kind_DEGRADED, text);
    }
}

static void count(struct loop *loop, const struct capture_frame *frame, bool tracked,
                  const struct track_result *result)
{
    struct shared *shared = loop->settings->shared;
    shared_count(shared, SHARED_CAPTURED);
    if (frame->flags & CAPTURE_DAMAGED)
        shared_count(shared, SHARED_DAMAGED);
    if (frame->flags & CAPTURE_DUPLICATE)
        shared_count(shared, SHARED_DUPLICATE);
    shared_add(shared, SHARED_LOST_PACKETS, frame->n_lost_packets);
    if (!tracked && !(frame->flags & CAPTURE_DAMAGED))
        shared_count(shared, frame->flags & CAPTURE_EARLY ? SHARED_EARLY : SHARED_DROPPED);
    if (tracked && loop->adapt.effort != TRACK_EFFORT_FULL)
        shared_count(shared, SHARED_REDUCED);
    if (tracked)
        shared_count(shared, result->state == TRACK_STATE_LOST       ? SHARED_LOST
                             : result->state == TRACK_STATE_DEGRADED ? SHARED_DEGRADED
                                                                     : SHARED_TRACKED);
    if (tracked && result->state != TRACK_STATE_LOST &&
        backend_is_searching(loop->settings->backend))
        shared_count(shared, SHARED_SEARCHING);
    if (tracked && result->state == TRACK_STATE_DEGRADED)
        shared_count(shared, SHARED_DEGRADED_BY + message_reason(result->reason));
    if (tracked && result->state == TRACK_STATE_LOST)
        shared_count(shared, SHARED_LOST_BY + message_reason(result->reason));
}

static bool is_tracked(const struct capture_frame *frame)
{
    return frame->image.depth && !(frame->flags & CAPTURE_LATE);
}

// An image that came before takes no work.
static bool is_worked_on(const struct capture_frame *frame)
{
    return is_tracked(frame) && !(frame->flags & CAPTURE_DUPLICATE);
}

void loop_end_evaluated(struct loop *loop, uint64_t seq, const char *why)
{
    if (loop->evaluated_end.seq > seq)
        loop->evaluated_end = (struct summary_end){seq, why};
}

// Before the message goes: whoever has it may ask for the frame's depth, and for the pose at its
// time. The depth stays where it is; the pose is some atomic words.
static void keep_frame(struct loop *loop, const struct capture_frame *frame,
                       const posed_Odometry *odometry)
{
    const posed_Pose *pose = &odometry->pose;
    if (frame->image.depth)
        frames_put(loop->settings->frames, odometry->seq, frame, &loop->info->capture.camera);
    pose_history_put(shared_history(loop->settings->shared),
                     &(struct past_pose){
                         .seq = odometry->seq,
                         .time_ns = frame->image.time_ns,
                         .q_xyzw = {pose->orientation.x, pose->orientation.y, pose->orientation.z,
                                    pose->orientation.w},
                         .t_m = {pose->position.x, pose->position.y, pose->position.z},
                         .state = odometry->state,
                         .reason = odometry->reason,
                         .map_epoch = odometry->map_epoch,
                     });
}

// The frame's line; before the first one of a map epoch, where the last epoch's frames were.
static void put_trajectory(struct loop *loop, const struct capture_frame *frame,
                           const struct track_result *result)
{
    struct trajectory_file *file = loop->settings->trajectory;
    const struct graph_keyframe *keyframes;
    uint32_t epoch, n;
    if (backend_ended_epoch(loop->settings->backend, &epoch, &keyframes, &n))
        trajectory_file_adjust(file, epoch, keyframes, n);
    trajectory_file_push(file, frame->image.time_ns, frame->clock_set_ns, &loop->T_map_odom,
                         result);
}

// It changes with few frames.
static void share_map_odom(struct loop *loop, bool has)
{
    if (has == loop->has_map_told &&
        (!has || memcmp(&loop->T_map_odom, &loop->T_map_told, sizeof loop->T_map_told) == 0))
        return;
    shared_set_map_odom(loop->settings->shared, has ? &loop->T_map_odom : NULL);
    loop->has_map_told = has;
    loop->T_map_told = loop->T_map_odom;
}

// What the rest of the daemon sees of the frame, after its message has gone.
static void remember(struct loop *loop, const struct capture_frame *frame,
                     const struct track_result *result, const posed_Odometry *odometry)
{
    const struct loop_settings *settings = loop->settings;
    const char *reason = result->measured_share > 0
                             ? "too sparse: hardly a measured pixel has a normal"
                         : result->reason == TRACK_REASON_NONE ? ""
                                                               : track_reason_text(result->reason);
    share_map_odom(loop, odometry->has_map_from_odom);
    shared_set_state(settings->shared, odometry->state, odometry->reason, reason,
                     odometry->map_epoch);
    loop->map_epoch = odometry->map_epoch;
    shared_set_map_epoch(settings->shared, odometry->map_epoch);
    announce(loop, odometry->state, odometry->reason_text);
    if (odometry->new_keyframe)
        loop_send_event(loop, posed_Event_Kind_KEYFRAME, "new keyframe");
    if (frame->flags & CAPTURE_LOOPED) {
        loop_end_evaluated(loop, odometry->seq, "began anew");
        loop_send_event(loop, posed_Event_Kind_RECORDING_LOOPED, "the recording starts again");
    }
    if (settings->trajectory)
        put_trajectory(loop, frame, result);
}

// A live camera that feels gravity says so (topic imu).
static void send_gravity(struct loop *loop, const struct capture_frame *frame,
                         const posed_Odometry *odometry)
{
    const float *g = frame->gravity_m_s2;
    if (!isfinite(g[0]) || !loop->info->capture.live)
        return;
    posed_Imu imu = {.has_timestamp = true,
                     .timestamp = odometry->timestamp,
                     .has_gravity = true,
                     .gravity = {(double)g[0], (double)g[1], (double)g[2]}};
    memcpy(imu.frame_id, odometry->body_frame_id, sizeof imu.frame_id);
    send(loop, PUBLISH_IMU, posed_Imu_fields, &imu);
}

static void announce_backend(struct loop *loop)
{
    const char *description = backend_description(loop->settings->backend);
    shared_set_backend(loop->settings->shared, description);
    loop_send_event(loop, posed_Event_Kind_BACKEND_CHANGED, description);
}

// The map, when the pose has left. Returns 0, or -EIO as on_frame does.
static int fuse(struct loop *loop, const struct track_result *result)
{
    double moved_m;
    char text[96];
    bool searched = backend_is_searching(loop->settings->backend);
    int rc = backend_fuse(loop->settings->backend, result, &moved_m);
    if (rc == BACKEND_REPLACED) {
        epoch_link_expect(&loop->epoch_link, EPOCH_BY_DEVICE);
        announce_backend(loop);
    }
    if (moved_m >= MAP_MOVED_M) {
        snprintf(text, sizeof text, "keyframes adjusted: the camera moved by %.1f mm in the map",
                 moved_m * 1e3);
        loop_send_event(loop, posed_Event_Kind_MAP_MOVED, text);
    }
    if (searched && rc == 0 && !backend_is_searching(loop->settings->backend))
        loop_send_event(loop, posed_Event_Kind_MAP_FOUND, "the camera is found in the loaded map");
    return rc < 0 ? rc : 0;
}

// How much work the frame gets. The source may let frames wait as soon as the first is in hand that
// is not late: those from before it are old.
static void set_pace(struct loop *loop, const struct capture_frame *frame)
{
    const struct loop_settings *settings = loop->settings;
    adapt_frame(&loop->adapt, frame);
    capture_set_max_waiting(settings->capture, loop->adapt.n_max_waiting);
    backend_set_effort(settings->backend, loop->adapt.effort, adapt_until_ns(&loop->adapt),
                       adapt_due_ns(&loop->adapt));
}

// All work on a frame that was tracked is done, and its number is the last one.
static void adapt_worked(struct loop *loop, int64_t took_ns)
{
    const uint64_t seq = loop->next_seq - 1;
    char text[240];
    const int64_t search_ns = backend_search_ns(loop->settings->backend);
    enum adapt_news news = adapt_done(&loop->adapt, took_ns - search_ns, search_ns);
    if (news == ADAPT_BEGINS) {
        adapt_explain(&loop->adapt, text, sizeof text);
        log_to(&loop->settings->log, LOG_LEVEL_WARNING, "frame %llu: %s", (unsigned long long)seq,
               text);
        send_event_of(loop, seq, posed_Event_Kind_WORK_REDUCED, text);
    } else if (news == ADAPT_ENDS) {
        log_to(&loop->settings->log, LOG_LEVEL_NOTICE, "frame %llu: all work is done again",
               (unsigned long long)seq);
        send_event_of(loop, seq, posed_Event_Kind_WORK_FULL, "all work is done again");
    }
}

// All of a pose's message but its times.
static void fill_odometry(struct loop *loop, const struct capture_frame *frame, bool tracked,
                          const struct track_result *result, posed_Odometry *odometry)
{
    const struct loop_settings *settings = loop->settings;
    message_odometry(loop->info, loop->next_seq, frame, result, result->map_epoch,
                     loop->previous_xyzw, odometry);
    set_velocity_covariance(loop, frame, result, odometry);
    if (backend_T_map_odom(settings->backend, &loop->T_map_odom)) {
        odometry->has_map_from_odom = true;
        odometry->map_from_odom = wire_pose(&loop->T_map_odom, NULL);
    }
    if (backend_is_searching(settings->backend) && result->state != TRACK_STATE_LOST)
        odometry->state = posed_State_STATE_SEARCHING;
    odometry->is_cut = loop->epoch_link.is_cut;
    odometry->effort = message_effort(tracked ? loop->adapt.effort : TRACK_EFFORT_FULL);
    odometry->damaged_frames = shared_counter(settings->shared, SHARED_DAMAGED);
    odometry->dropped_frames = shared_counter(settings->shared, SHARED_DROPPED);
}

// Returns 0, or -EIO when the device failed and none takes over (the frame has its message all the
// same).
static int on_frame(struct loop *loop, const struct capture_frame *frame, int64_t read_ns)
{
    int64_t got_ns = clock_monotonic_ns();
    bool tracked = is_tracked(frame);
    if (loop->next_seq == 0 || frame->flags & CAPTURE_RECALIBRATED)
        send_calibration(loop, frame->image.time_ns);
    struct track_result result;
    posed_Odometry odometry;
    posed_FrameTransform transform;
    if (loop->settings->adapt)
        set_pace(loop, frame);
    int64_t track_ns = clock_monotonic_ns();
    int error = backend_track(loop->settings->backend, frame, tracked, &result);
    int64_t done_ns = clock_monotonic_ns();

    if (error == BACKEND_REPLACED)
        epoch_link_expect(&loop->epoch_link, EPOCH_BY_DEVICE);
    epoch_link_follow(&loop->epoch_link, result.map_epoch,
                      backend_is_searching(loop->settings->backend), done_ns);
    count(loop, frame, tracked, &result);
    fill_odometry(loop, frame, tracked, &result, &odometry);
    keep_frame(loop, frame, &odometry);
    odometry.publish_monotonic_ns = clock_monotonic_ns();
    histogram_add(shared_latency(loop->settings->shared),
                  odometry.publish_monotonic_ns - odometry.capture_monotonic_ns);
    odometry.has_stages = true;
    odometry.stages = (posed_StageTimes){
        .upload_us = result.stage_us[GPU_STAGE_UPLOAD],
        .filter_us = result.stage_us[GPU_STAGE_FILTER],
        .maps_us = result.stage_us[GPU_STAGE_MAPS],
        .align_us = result.stage_us[GPU_STAGE_ALIGN],
        .track_us = (float)(done_ns - track_ns) * 1e-3f,
        .added_us = (float)(track_ns - got_ns + odometry.publish_monotonic_ns - done_ns) * 1e-3f,
        .wait_us = (float)(got_ns - read_ns) * 1e-3f,
    };
    // ROS first: a copy, and its thread wakes up while the message is made. Behind it subscribers
    // that wake up, too, kept it from a processor for 0.3 ms.
    if (loop->settings->ros)
        put_ros(loop, frame, &result, &odometry);
    send(loop, PUBLISH_POSE, posed_Odometry_fields, &odometry);
    int64_t sent_ns = clock_monotonic_ns();
    message_transform(&odometry, &transform);
    send(loop, PUBLISH_TF, posed_FrameTransform_fields, &transform);

    timing_add(&loop->timing, TIMING_WAIT, (double)(got_ns - read_ns) * 1e-3);
    if (is_worked_on(frame)) {
        timing_add(&loop->timing, TIMING_TRACK, (double)(done_ns - track_ns) * 1e-3);
        timing_add(&loop->timing, TIMING_ADDED,
                   (double)(track_ns - got_ns + sent_ns - done_ns) * 1e-3);
    }
    loop->last_frame_ns = got_ns;
    if (loop->settings->recorder) {
        recorder_push(loop->settings->recorder, loop->settings->camera, frame);
        record(loop, RECORDER_TOPIC_POSE, frame, posed_Odometry_fields, &odometry);
    }
    if (loop->settings->rig)
        rig_pose_put(loop->settings->rig, loop->settings->camera, frame, &result,
                     odometry.has_map_from_odom ? &loop->T_map_odom : NULL, odometry.is_cut);
    remember(loop, frame, &result, &odometry);
    if (frame->image.depth)
        image_send(loop->images, loop->settings->publish,
                   tracked && error >= 0 ? loop->settings->backend : NULL, &frame->image,
                   odometry.seq);
    send_gravity(loop, frame, &odometry);
    if (error == BACKEND_REPLACED)
        announce_backend(loop);
    loop->next_seq++;
    if (error >= 0 && tracked) {
        error = fuse(loop, &result);
        health_searched(&loop->health, backend_search_ns(loop->settings->backend));
    }
    return error < 0 ? error : 0;
}

// The camera is another one than before this frame. Its poses go on from the last one, in a new map
// epoch, as nobody knows how the two stand to each other.
static int recalibrate(struct loop *loop)
{
    const struct loop_settings *settings = loop->settings;
    const struct capture_info *capture = capture_info(settings->capture);
    char text[120];
    if (shared_set_capture(settings->shared, capture) != 0 ||
        backend_recalibrate(settings->backend) != 0) {
        log_to(&settings->log, LOG_LEVEL_ERROR, "no tracker for another camera");
        return -EIO;
    }
    epoch_link_expect(&loop->epoch_link, EPOCH_BY_CAMERA);
    loop->info = shared_info(settings->shared);
    shared_set_backend(settings->shared, backend_description(settings->backend));
    if (settings->recorder)
        recorder_recalibrate(settings->recorder, settings->camera, capture);
    snprintf(
        text, sizeof text, "the camera has parameters of its own: fx %.2f fy %.2f cx %.2f cy %.2f",
        capture->camera.fx_px, capture->camera.fy_px, capture->camera.cx_px, capture->camera.cy_px);
    log_to(&settings->log, LOG_LEVEL_NOTICE, "frame %llu: %s", (unsigned long long)loop->next_seq,
           text);
    loop_send_event(loop, posed_Event_Kind_RECALIBRATED, text);
    return 0;
}

// Requests stand still meanwhile. The next frame is expected after as long as this one took since
// the one before.
static int take_frame(struct loop *loop, const struct capture_frame *frame, int64_t read_ns)
{
    struct yield_frames *yield_frames = loop->settings->yield_frames;
    bool waited = clock_monotonic_ns() - read_ns > WAITED_NS;
    if (frame->flags & CAPTURE_NEW_CLOCK)
        commands_begin_clock(loop);
    int64_t period_ns = frame->capture_mono_ns - loop->capture_ns;
    loop->capture_ns = frame->capture_mono_ns;
    loop->can_wait = !frame->paced;
    if (waited)
        yield_frames_begin(yield_frames);
    int64_t got_ns = clock_monotonic_ns();
    int error = on_frame(loop, frame, read_ns);
    if (loop->settings->adapt && is_worked_on(frame))
        adapt_worked(loop, clock_monotonic_ns() - got_ns);
    yield_frames_end(yield_frames, waited ? loop->capture_ns + period_ns : 0);
    return error;
}

// Images that the source leaves out came all the same.
static void count_left_out(struct loop *loop)
{
    const uint64_t n = capture_n_left_out(loop->settings->capture), n_new = n - loop->n_left_out;
    if (n_new == 0)
        return;
    shared_add(loop->settings->shared, SHARED_CAPTURED, n_new);
    shared_add(loop->settings->shared, SHARED_DAMAGED, n_new);
    loop->n_left_out = n;
    loop->left_out_ns = clock_monotonic_ns();
}

static void on_silence(struct loop *loop, int64_t now_ns)
{
    if (loop->paused || now_ns - loop->last_frame_ns < SILENT_NS)
        return;
    const bool is_new = loop->state != posed_State_STATE_NO_INPUT;
    const char *reason = loop->n_left_out > 0 && now_ns - loop->left_out_ns < SILENT_NS
                             ? "images come, but their stamps do not go on"
                             : NO_FRAME;
    if (!is_new && (!loop->silent_reason || reason == loop->silent_reason))
        return;
    loop->state = posed_State_STATE_NO_INPUT;
    loop->silent_reason = reason;
    shared_set_state(loop->settings->shared, posed_State_STATE_NO_INPUT, posed_Reason_REASON_NONE,
                     reason, loop->map_epoch);
    if (!is_new)
        return;
    const bool says_more = strcmp(reason, NO_FRAME) != 0;
    log_to(&loop->settings->log, LOG_LEVEL_WARNING, "no frame for %.1f s%s%s",
           (double)(now_ns - loop->last_frame_ns) * 1e-9, says_more ? ": " : "",
           says_more ? reason : "");
    loop_send_event(loop, posed_Event_Kind_SOURCE_SILENT, reason);
}

// Everything that is not a frame. Returns false when it is time to stop.
static bool do_chores(struct loop *loop)
{
    const struct loop_settings *settings = loop->settings;
    int64_t now_ns = clock_monotonic_ns();
    if (settings->poll)
        settings->poll(settings->user);
    commands_run(loop);
    if (now_ns >= loop->heartbeat_ns)
        heartbeat(loop, now_ns);
    if (loop->watchdog_period_ns && now_ns >= loop->watchdog_ns) {
        notify_send("WATCHDOG=1");
        loop->watchdog_ns = now_ns + loop->watchdog_period_ns;
    }
    return !settings->stop(settings->user);
}

static void wait_for_subscriber(struct loop *loop)
{
    const struct timespec pause = {0, 5000000};
    int64_t until_ns = clock_monotonic_ns() + (int64_t)(loop->settings->wait_subscriber_s * 1e9);
    while (clock_monotonic_ns() < until_ns && do_chores(loop) &&
           !publish_wants_any_pose(loop->settings->publish))
        nanosleep(&pause, NULL);
}

// Of a recording that is played as fast as possible no frame is lost on the way: it waits for
// subscribers that are slow, and for the disk.
static bool is_ready(const struct loop *loop)
{
    const struct loop_settings *settings = loop->settings;
    return publish_is_ready(settings->publish) &&
           (!loop->can_wait || !settings->recorder ||
            recorder_has_room(settings->recorder, settings->camera));
}

static enum loop_end run(struct loop *loop)
{
    const struct loop_settings *settings = loop->settings;
    struct capture_frame frame;
    while (do_chores(loop)) {
        if (!is_ready(loop)) {
            nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
            continue;
        }
        int64_t read_ns = clock_monotonic_ns();
        int error = capture_read(settings->capture, ROUND_MS, &frame);
        count_left_out(loop);
        if (error == -EAGAIN) {
            on_silence(loop, clock_monotonic_ns());
        } else if (error == -EINTR) {
            continue; // capture_interrupt: `stop` will say so
        } else if (error == -ENODATA) {
            return LOOP_END_OF_RECORDING;
        } else if (error) {
            log_to(&settings->log, LOG_LEVEL_ERROR, "the source failed: %s", strerror(-error));
            return LOOP_SOURCE_FAILED;
        } else if (frame.flags & CAPTURE_RECALIBRATED && recalibrate(loop) != 0) {
            return LOOP_BACKEND_FAILED;
        } else if (take_frame(loop, &frame, read_ns) != 0) {
            return LOOP_BACKEND_FAILED;
        }
    }
    return LOOP_STOPPED;
}

enum loop_end loop_run(const struct loop_settings *settings)
{
    struct loop *loop = calloc(1, sizeof *loop);
    if (!loop || image_create(&loop->images, settings->shared) != 0) {
        log_to(&settings->log, LOG_LEVEL_ERROR, "out of memory");
        free(loop);
        return LOOP_NO_MEMORY;
    }
    loop->settings = settings;
    loop->info = shared_info(settings->shared);
    loop->evaluated_end.seq = UINT64_MAX;
    adapt_init(&loop->adapt);
    loop->state = posed_State_STATE_NO_INPUT;
    loop->heartbeat_ns = loop->last_frame_ns = clock_monotonic_ns();
    loop->watchdog_period_ns = settings->poll ? notify_watchdog_ns() : 0;
    send_calibration(loop, 0);
    loop_send_event(loop, posed_Event_Kind_STARTED, loop->info->capture.description);
    if (settings->wait_subscriber_s > 0)
        wait_for_subscriber(loop);
    enum loop_end end = run(loop);

    shared_end_commands(settings->shared);
    if (end == LOOP_END_OF_RECORDING)
        loop_send_event(loop, posed_Event_Kind_SOURCE_ENDED, "end of the recording");
    loop_send_event(loop, posed_Event_Kind_STOPPING,
                    settings->poll ? "the daemon stops" : "the camera stops");
    heartbeat(loop, clock_monotonic_ns());
    summary_log(settings->shared, settings->capture, &loop->evaluated_end,
                backend_is_searching(settings->backend), &settings->log);
    if (shared_counter(settings->shared, SHARED_CAPTURED) > 0)
        log_to(&settings->log, LOG_LEVEL_INFO,
               "mean per frame: tracking %.3f ms, added by the daemon %.3f ms; %.1f MB resident",
               timing_mean_us(&loop->timing, TIMING_TRACK) * 1e-3,
               timing_mean_us(&loop->timing, TIMING_ADDED) * 1e-3,
               (double)shared_resident_bytes() * 1e-6);
    image_destroy(&loop->images);
    free(loop);
    return end;
}

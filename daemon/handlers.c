// SPDX-License-Identifier: Apache-2.0
#include "daemon/handlers.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "daemon/clock.h"
#include "daemon/message.h"

void handlers_fail(posed_Reply *reply, posed_Code code, const char *field, const char *format, ...)
{
    char message[sizeof reply->message];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    reply->code = code;
    reply->which_what = 0;
    wire_copy_text(reply->message, sizeof reply->message, message);
    wire_copy_text(reply->field, sizeof reply->field, field ? field : "");
}

void handlers_fail_work(posed_Reply *reply, int error, const char *field)
{
    switch (error) {
    case -ECANCELED:
        handlers_fail(reply, posed_Code_CANCELLED, field, "cancelled");
        return;
    case -ETIME:
        handlers_fail(reply, posed_Code_DEADLINE_EXCEEDED, field, "the deadline passed");
        return;
    case -ENOMEM:
        handlers_fail(reply, posed_Code_RESOURCE_EXHAUSTED, field, "out of memory");
        return;
    default:
        handlers_fail(reply, posed_Code_INTERNAL, field, "the device failed: %s", strerror(-error));
    }
}

void handlers_progress(struct handlers *handlers, uint64_t request_id, double share,
                       const char *stage)
{
    posed_Event event;
    if (!handlers->publish)
        return;
    message_event(board_info(handlers->board), 0, posed_Event_Kind_PROGRESS, stage, &event);
    event.request_id = request_id;
    event.progress = (float)share;
    publish_post(handlers->publish, PUBLISH_EVENT, posed_Event_fields, &event);
}

void handlers_event(struct handlers *handlers, posed_Event_Kind kind, const char *text)
{
    posed_Event event;
    if (!handlers->publish)
        return;
    message_event(board_info(handlers->board), 0, kind, text, &event);
    publish_post(handlers->publish, PUBLISH_EVENT, posed_Event_fields, &event);
}

static void log_remark(void *user, enum log_level level, const char *line)
{
    const struct handlers *handlers = user;
    log_to(&handlers->log, level < LOG_LEVEL_INFO ? LOG_LEVEL_INFO : level, "request: %s", line);
}

struct log_sink handlers_log(struct handlers *handlers)
{
    return (struct log_sink){log_remark, handlers};
}

static void get_version(const struct handlers *handlers, posed_Reply *reply)
{
    posed_Version *version = &reply->what.get_version;
    wire_copy_text(version->version, sizeof version->version, POSED_VERSION);
    wire_copy_text(version->backends, sizeof version->backends, POSED_BACKENDS);
    version->protocol = WIRE_VERSION;
    version->session = board_info(handlers->board)->session;
}

static void fill_pose(const struct board_pose *from, posed_TrajectoryPose *to)
{
    const double *q = from->q_xyzw, *t = from->t_m;
    *to = (posed_TrajectoryPose){
        .has_timestamp = true,
        .timestamp = wire_timestamp(from->time_ns),
        .has_pose = true,
        .pose = {true, {t[0], t[1], t[2]}, true, {q[0], q[1], q[2], q[3]}},
        .state = from->state,
        .seq = from->seq,
        .map_epoch = from->map_epoch,
    };
}

static void get_pose(const struct handlers *handlers, const posed_GetPose *request,
                     posed_Reply *reply)
{
    struct board_pose pose;
    uint64_t oldest, next;
    int64_t time_ns;
    int error;
    if (request->has_time) {
        if (wire_read_timestamp(&request->time, &time_ns) != 0) {
            handlers_fail(reply, posed_Code_INVALID_ARGUMENT, "get_pose.time",
                          "nanos must be 0..999999999 and the time must fit 64 bit");
            return;
        }
        error = board_pose_at(handlers->board, time_ns, &pose);
    } else {
        board_range(handlers->board, &oldest, &next);
        error = next ? board_get(handlers->board, next - 1, &pose) : -ENOENT;
    }
    if (error == -ENODATA)
        handlers_fail(reply, posed_Code_NOT_FOUND, "get_pose.time",
                      "no valid pose there: the camera was lost, or the frames around it do not "
                      "connect");
    else if (error)
        handlers_fail(reply, posed_Code_NOT_FOUND, request->has_time ? "get_pose.time" : NULL, "%s",
                      request->has_time ? "outside of the frames that are kept"
                                        : "no frame has arrived yet");
    else
        fill_pose(&pose, &reply->what.get_pose);
}

static void get_trajectory(const struct handlers *handlers, const posed_GetTrajectory *request,
                           posed_Reply *reply)
{
    posed_Trajectory *page = &reply->what.get_trajectory;
    uint64_t oldest, next, seq;
    uint32_t limit =
        request->limit && request->limit < BOARD_PAGE_MAX ? request->limit : BOARD_PAGE_MAX;
    board_range(handlers->board, &oldest, &next);
    seq = request->from_seq > oldest ? request->from_seq : oldest;
    for (; seq < next && page->poses_count < limit; seq++) {
        struct board_pose pose;
        // A frame that has left meanwhile is skipped; the page then starts later.
        if (board_get(handlers->board, seq, &pose) == 0)
            fill_pose(&pose, &page->poses[page->poses_count++]);
    }
    page->next_seq = seq;
    page->oldest_seq = oldest;
    page->end = seq >= next;
}

enum handlers_lane handlers_lane(struct handlers *handlers, uint32_t kind)
{
    switch (kind) {
    case posed_Request_reset_tag:
    case posed_Request_set_pose_tag:
    case posed_Request_get_depth_tag:
    case posed_Request_get_cloud_tag:
    case posed_Request_set_keyframe_tag:
    case posed_Request_replay_tag:
    case posed_Request_start_recording_tag:
    case posed_Request_stop_recording_tag:
    case posed_Request_list_recordings_tag:
        return HANDLERS_COMMAND;
    case posed_Request_register_sets_tag:
    case posed_Request_search_pose_tag:
    case posed_Request_add_object_tag:
    case posed_Request_remove_object_tag:
    case posed_Request_stop_tracking_tag:
        return HANDLERS_COMPUTE;
    case posed_Request_list_objects_tag:
        return handlers_objects_can_list(handlers) ? HANDLERS_NOW : HANDLERS_COMPUTE;
    }
    return HANDLERS_NOW;
}

void handlers_run(struct handlers *handlers, const struct handlers_call *call)
{
    const posed_Request *request = call->request;
    posed_Reply *reply = call->reply;
    reply->which_what = request->which_what;
    switch (request->which_what) {
    case posed_Request_ping_tag:
        reply->what.ping.payload = request->what.ping.payload;
        reply->what.ping.monotonic_ns = clock_monotonic_ns();
        return;
    case posed_Request_get_version_tag:
        get_version(handlers, reply);
        return;
    case posed_Request_get_status_tag:
        board_status(handlers->board, &reply->what.get_status);
        return;
    case posed_Request_get_calibration_tag:
        message_calibration(board_info(handlers->board), &reply->what.get_calibration);
        return;
    case posed_Request_get_pose_tag:
        get_pose(handlers, &request->what.get_pose, reply);
        return;
    case posed_Request_get_trajectory_tag:
        get_trajectory(handlers, &request->what.get_trajectory, reply);
        return;
    case posed_Request_reset_tag:
    case posed_Request_set_pose_tag:
    case posed_Request_set_keyframe_tag:
    case posed_Request_replay_tag:
        handlers_command(handlers, call);
        return;
    case posed_Request_get_params_tag:
    case posed_Request_set_params_tag:
        handlers_params(handlers, call);
        return;
    case posed_Request_get_depth_tag:
    case posed_Request_get_cloud_tag:
        handlers_frame(handlers, call);
        return;
    case posed_Request_register_sets_tag:
        handlers_register(handlers, call);
        return;
    case posed_Request_add_object_tag:
    case posed_Request_list_objects_tag:
    case posed_Request_remove_object_tag:
        handlers_objects(handlers, call);
        return;
    case posed_Request_search_pose_tag:
    case posed_Request_stop_tracking_tag:
        handlers_search(handlers, call);
        return;
    case posed_Request_start_recording_tag:
    case posed_Request_stop_recording_tag:
    case posed_Request_list_recordings_tag:
        handlers_record(handlers, call);
        return;
    }
    handlers_fail(reply, posed_Code_UNIMPLEMENTED, NULL, "this daemon does not know the request");
}

bool handlers_idle(struct handlers *handlers)
{
    if (!handlers->follow.active)
        return false;
    const struct follow_world world = {.board = handlers->board,
                                       .frames = handlers->frames,
                                       .objects = handlers->objects,
                                       .publish = handlers->publish,
                                       .log = handlers->log};
    follow_step(&handlers->follow, &world);
    return handlers->follow.active;
}

void handlers_open(struct handlers *handlers)
{
    pthread_mutex_init(&handlers->listed.mutex, NULL);
}

void handlers_close(struct handlers *handlers)
{
    follow_stop(&handlers->follow);
    registration_close(&handlers->registration);
    objects_destroy(&handlers->objects);
    pthread_mutex_destroy(&handlers->listed.mutex);
}

// SPDX-License-Identifier: Apache-2.0
// What is only looked up: status, versions, calibration, poses of the past. Never waits.
#include <errno.h>

#include "daemon/fill_messages.h"
#include "daemon/handlers/handlers.h"
#include "proto/clock.h"

void handlers_ping(struct handlers *handlers, const struct handlers_call *call)
{
    (void)handlers;
    call->reply->what.ping.payload = call->request->what.ping.payload;
    call->reply->what.ping.monotonic_ns = clock_monotonic_ns();
}

void handlers_get_status(struct handlers *handlers, const struct handlers_call *call)
{
    shared_status(handlers->shared, &call->reply->what.get_status);
}

void handlers_get_calibration(struct handlers *handlers, const struct handlers_call *call)
{
    const struct pose_history *history = shared_history(handlers->shared);
    struct past_pose newest = {0};
    uint64_t oldest, next;
    pose_history_range(history, &oldest, &next);
    if (next && pose_history_get(history, next - 1, &newest) != 0)
        newest.time_ns = 0; // it has left meanwhile: time is not known
    message_calibration(shared_info(handlers->shared), newest.time_ns,
                        &call->reply->what.get_calibration);
}

void handlers_get_version(struct handlers *handlers, const struct handlers_call *call)
{
    posed_Version *version = &call->reply->what.get_version;
    wire_copy_text(version->version, sizeof version->version, POSED_VERSION);
    wire_copy_text(version->backends, sizeof version->backends, POSED_BACKENDS);
    version->protocol = WIRE_VERSION;
    version->session = shared_info(handlers->shared)->session;
}

static void fill_pose(const struct past_pose *from, posed_TrajectoryPose *to)
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
        .reason = from->reason,
    };
}

void handlers_get_pose(struct handlers *handlers, const struct handlers_call *call)
{
    const posed_GetPose *request = &call->request->what.get_pose;
    const struct pose_history *history = shared_history(handlers->shared);
    posed_Reply *reply = call->reply;
    struct past_pose pose;
    uint64_t oldest, next;
    int64_t time_ns;
    int error;
    if (request->has_time) {
        if (wire_read_timestamp(&request->time, &time_ns) != 0) {
            handlers_fail(reply, posed_Code_INVALID_ARGUMENT, "get_pose.time",
                          "nanos must be 0..999999999 and the time must fit 64 bit");
            return;
        }
        error = pose_history_at(history, time_ns, &pose);
    } else {
        pose_history_range(history, &oldest, &next);
        error = next ? pose_history_get(history, next - 1, &pose) : -ENOENT;
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

void handlers_get_trajectory(struct handlers *handlers, const struct handlers_call *call)
{
    const posed_GetTrajectory *request = &call->request->what.get_trajectory;
    const struct pose_history *history = shared_history(handlers->shared);
    posed_Trajectory *page = &call->reply->what.get_trajectory;
    uint64_t oldest, next, seq;
    uint32_t limit =
        request->limit && request->limit < SHARED_PAGE_MAX ? request->limit : SHARED_PAGE_MAX;
    pose_history_range(history, &oldest, &next);
    seq = request->from_seq > oldest ? request->from_seq : oldest;
    for (; seq < next && page->poses_count < limit; seq++) {
        struct past_pose pose;
        // A frame that has left meanwhile is skipped; the page then starts later.
        if (pose_history_get(history, seq, &pose) == 0)
            fill_pose(&pose, &page->poses[page->poses_count++]);
    }
    page->next_seq = seq;
    page->oldest_seq = oldest;
    page->end = seq >= next;
}

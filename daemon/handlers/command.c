// SPDX-License-Identifier: Apache-2.0
// What the frame loop does on request: Reset, SetPose, SetKeyframe, Replay.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/handlers/handlers.h"

bool handlers_command(const struct handlers *handlers, const struct shared_command *command,
                      const struct handlers_call *call, struct shared_answer *out)
{
    int error = shared_command(handlers->shared, command, call->deadline_ns, out);
    if (error == -ETIMEDOUT)
        handlers_fail(call->reply, posed_Code_DEADLINE_EXCEEDED, NULL,
                      "the frame loop did not get to it in time; nothing was changed. Give it a "
                      "longer deadline_ms (posectl: --timeout), or ask again");
    else if (error)
        handlers_fail(call->reply, posed_Code_UNAVAILABLE, NULL, "%s",
                      shared_has_ended(handlers->shared) ? "the camera has ended"
                                                         : HANDLERS_ENDING);
    return !error;
}

void handlers_reset(struct handlers *handlers, const struct handlers_call *call)
{
    const struct shared_command command = {
        .kind = SHARED_RESET,
        .keep_pose = call->request->what.reset.keep_pose,
        .T_odom_camera = {{1, 0, 0, 0, 1, 0, 0, 0, 1}, {0, 0, 0}},
    };
    struct shared_answer answer;
    if (handlers_command_ending_epoch(handlers, &command, call, &answer))
        call->reply->what.reset.next_seq = answer.next_seq;
}

void handlers_set_pose(struct handlers *handlers, const struct handlers_call *call)
{
    const posed_SetPose *request = &call->request->what.set_pose;
    struct shared_command command = {.kind = SHARED_RESET};
    struct shared_answer answer;
    const char *field = "";
    char path[64];
    if (!request->has_pose) {
        handlers_fail(call->reply, posed_Code_INVALID_ARGUMENT, "set_pose.pose",
                      "a pose is needed");
        return;
    }
    if (wire_read_pose(&request->pose, &command.T_odom_camera, &field) != 0) {
        snprintf(path, sizeof path, "set_pose.pose.%s", field);
        handlers_fail(call->reply, posed_Code_INVALID_ARGUMENT, path,
                      "must be finite, the position within 1000 km, and the quaternion of length 1 "
                      "within 1 %%");
        return;
    }
    if (handlers_command_ending_epoch(handlers, &command, call, &answer))
        call->reply->what.set_pose.next_seq = answer.next_seq;
}

void handlers_set_keyframe(struct handlers *handlers, const struct handlers_call *call)
{
    const struct shared_command command = {.kind = SHARED_KEYFRAME};
    struct shared_answer answer;
    if (!handlers_command(handlers, &command, call, &answer))
        return;
    if (answer.error == 0)
        call->reply->what.set_keyframe.seq = answer.keyframe_seq;
    else if (answer.error == -EINVAL)
        handlers_fail(call->reply, posed_Code_FAILED_PRECONDITION, NULL,
                      "frames are aligned to the previous one: start posed with "
                      "--reference keyframe (tracker.reference)");
    else
        handlers_fail(call->reply, posed_Code_FAILED_PRECONDITION, NULL,
                      "the newest frame has no pose");
}

void handlers_replay(struct handlers *handlers, const struct handlers_call *call)
{
    const posed_Replay *request = &call->request->what.replay;
    posed_Reply *reply = call->reply;
    struct shared_command command = {.kind = SHARED_REPLAY};
    struct shared_answer answer;
    const char *field = NULL, *range = "";
    switch (request->action) {
    case posed_Replay_Action_QUERY:
        command.control = CAPTURE_QUERY;
        break;
    case posed_Replay_Action_PAUSE:
        command.control = CAPTURE_PAUSE;
        break;
    case posed_Replay_Action_RESUME:
        command.control = CAPTURE_RESUME;
        break;
    case posed_Replay_Action_STEP:
        command.control = CAPTURE_STEP;
        command.value = request->frames ? request->frames : 1;
        field = "replay.frames";
        range = "1 to 1000000 frames";
        break;
    case posed_Replay_Action_RATE:
        command.control = CAPTURE_RATE;
        command.value = request->rate;
        field = "replay.rate";
        range = "0.001 to 1000, or 0 for as fast as possible";
        break;
    case posed_Replay_Action_SEEK:
        command.control = CAPTURE_SEEK;
        command.value = request->position_s;
        field = "replay.position_s";
        range = "a time within the recording";
        break;
    default:
        handlers_fail(reply, posed_Code_INVALID_ARGUMENT, "replay.action", "unknown action");
        return;
    }
    if (shared_info(handlers->shared)->capture.live) {
        handlers_fail(reply, posed_Code_UNIMPLEMENTED, NULL,
                      "the source is a live camera: only a recording can be paused or wound");
        return;
    }
    if (command.control == CAPTURE_SEEK
            ? !handlers_command_ending_epoch(handlers, &command, call, &answer)
            : !handlers_command(handlers, &command, call, &answer))
        return;
    const struct capture_playback *playback = &answer.playback;
    if (answer.error == -ERANGE)
        handlers_fail(reply, posed_Code_INVALID_ARGUMENT, field,
                      "%s is wanted (the recording has %.3f s)", range, playback->duration_s);
    else if (answer.error)
        handlers_fail(reply, posed_Code_INTERNAL, NULL, "the source refuses: %s",
                      strerror(-answer.error));
    if (answer.error)
        return;
    reply->what.replay = (posed_ReplayState){
        .paused = playback->paused,
        .rate = playback->rate,
        .position_s = playback->position_s,
        .duration_s = playback->duration_s,
        .next_seq = answer.next_seq,
        .stamps_ahead_s = playback->ahead_s,
    };
    if (command.control == CAPTURE_SEEK && answer.next_seq > 0 &&
        config_keeps_map(handlers->config))
        snprintf(reply->message, sizeof reply->message,
                 "the map is given up, and a new one begins: save it before winding (posectl map "
                 "save)");
}

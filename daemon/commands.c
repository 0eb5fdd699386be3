// SPDX-License-Identifier: Apache-2.0
#include "daemon/commands.h"

#include <errno.h>
#include <stdio.h>

#include "daemon/frame_loop_state.h"
#include "daemon/tracking_map.h"
#include "proto/clock.h"

// The next frame is the first of another map epoch.
static void end_epoch(struct loop *loop)
{
    if (loop->next_seq > 0)
        shared_set_map_epoch(loop->settings->shared, loop->map_epoch + 1);
}

// Whether the map that a command is about has been given up since it was asked for.
static bool is_stale(const struct loop *loop, const struct shared_command *command)
{
    return shared_map_epoch(loop->settings->shared) != command->map_epoch;
}

// As the next frame will say, which may be long in coming: the recording may be paused.
static void begin_state(struct loop *loop, posed_State state)
{
    shared_set_map_odom(loop->settings->shared, NULL);
    loop->has_map_told = false;
    if (loop->state != posed_State_STATE_LOST && loop->state != posed_State_STATE_NO_INPUT)
        shared_set_state(loop->settings->shared, state, posed_Reason_REASON_NONE, "",
                         loop->map_epoch);
}

static void reset(struct loop *loop, const struct se3 *T_odom_camera, enum epoch_cause cause,
                  const char *why)
{
    const double *t_m = T_odom_camera->t_m;
    backend_reset(loop->settings->backend, T_odom_camera);
    epoch_link_expect(&loop->epoch_link, cause);
    end_epoch(loop);
    begin_state(loop, posed_State_STATE_INIT);
    log_to(&loop->settings->log, LOG_LEVEL_NOTICE, "frame %llu: %s to %.3f %.3f %.3f",
           (unsigned long long)loop->next_seq, why, t_m[0], t_m[1], t_m[2]);
    loop_send_event(loop, posed_Event_Kind_RESET, why);
}

// The camera of a recording that is wound is suddenly elsewhere: its poses no longer connect.
static void control_replay(struct loop *loop, const struct shared_command *command,
                           struct shared_answer *answer)
{
    const struct loop_settings *settings = loop->settings;
    char text[160], ahead[64] = "";
    answer->error =
        capture_control(settings->capture, command->control, command->value, &answer->playback);
    if (answer->error || command->control == CAPTURE_QUERY)
        return;
    const struct capture_playback *playback = &answer->playback;
    if (command->control == CAPTURE_SEEK && loop->next_seq > 0) {
        const struct se3 T = backend_pose(settings->backend);
        loop_end_evaluated(loop, loop->next_seq, "was wound");
        reset(loop, &T, EPOCH_BY_REQUEST, "the recording is wound: reset");
    }
    loop->paused = playback->paused;
    loop->last_frame_ns = clock_monotonic_ns();
    shared_set_paused(settings->shared, playback->paused);
    if (playback->ahead_s > 0)
        snprintf(ahead, sizeof ahead, ", stamps are the recording's plus %.3f s",
                 playback->ahead_s);
    snprintf(text, sizeof text, "recording at %.3f of %.3f s, %s, speed %.6g%s%s",
             playback->position_s, playback->duration_s, playback->paused ? "paused" : "running",
             playback->rate, playback->rate == CAPTURE_RATE_MAX ? " (as fast as possible)" : "",
             ahead);
    log_to(&settings->log, LOG_LEVEL_NOTICE, "frame %llu: %s", (unsigned long long)loop->next_seq,
           text);
    loop_send_event(loop, posed_Event_Kind_REPLAY, text);
}

static void load_map(struct loop *loop, const struct shared_command *command,
                     struct shared_answer *answer)
{
    const int error = backend_load_map(loop->settings->backend, &command->camera, command->map);
    answer->error = error;
    // Tracking begins anew at the last pose, also where it fails half way: of a camera that is
    // lost that is a guess.
    if (error != -ENOTSUP && error != -EXDEV && error != -ENOSPC &&
        loop->state != posed_State_STATE_LOST)
        epoch_link_expect(&loop->epoch_link, EPOCH_BY_MAP);
    if (error)
        return;
    end_epoch(loop);
    begin_state(loop, posed_State_STATE_SEARCHING);
    log_to(&loop->settings->log, LOG_LEVEL_NOTICE,
           "frame %llu: a map of %u blocks and %u keyframes is loaded: the camera is looked for",
           (unsigned long long)loop->next_seq, command->map->n_blocks, command->map->n_keyframes);
    loop_send_event(loop, posed_Event_Kind_MAP_LOADED, "a map is loaded: the camera is looked for");
}

void commands_begin_clock(struct loop *loop)
{
    const struct se3 T = backend_pose(loop->settings->backend);
    if (loop->next_seq > 0)
        reset(loop, &T, EPOCH_BY_CLOCK, "the images' clock was set: reset");
}

void commands_run(struct loop *loop)
{
    struct shared_command command;
    struct shared_answer answer = {.next_seq = loop->next_seq};
    if (!shared_take_command(loop->settings->shared, &command))
        return;
    switch (command.kind) {
    case SHARED_RESET:
        if (command.keep_pose)
            command.T_odom_camera = backend_pose(loop->settings->backend);
        reset(loop, &command.T_odom_camera, EPOCH_BY_REQUEST, "reset on request");
        break;
    case SHARED_KEYFRAME:
        answer.error = backend_set_keyframe(loop->settings->backend, &answer.keyframe_seq);
        if (!answer.error)
            loop_send_event(loop, posed_Event_Kind_KEYFRAME, "keyframe on request");
        break;
    case SHARED_REPLAY:
        control_replay(loop, &command, &answer);
        break;
    case SHARED_READ_MAP:
        answer.error = is_stale(loop, &command)
                           ? -ESTALE
                           : backend_read_map(loop->settings->backend, command.map);
        answer.camera = loop->info->capture.camera;
        break;
    case SHARED_LOAD_MAP:
        load_map(loop, &command, &answer);
        break;
    case SHARED_KEYFRAMES:
        if (backend_is_searching(loop->settings->backend))
            answer.error = -EAGAIN;
        else if (is_stale(loop, &command))
            answer.error = -ESTALE;
        answer.n_keyframes =
            backend_keyframes(loop->settings->backend, command.keyframes, command.max_keyframes);
        answer.map_epoch = loop->map_epoch;
        break;
    case SHARED_OPTIMISE:
        answer.error = backend_optimise(loop->settings->backend);
        break;
    case SHARED_OPTIMISED:
        answer.error = backend_optimised(loop->settings->backend, command.optimised);
        break;
    }
    shared_finish_command(loop->settings->shared, &answer);
}

// SPDX-License-Identifier: Apache-2.0
#include "daemon/fill_messages.h"

#include <string.h>

#include "gpu/track/depth_error.h"
#include "proto/clock.h"

posed_State message_state(enum track_state state)
{
    switch (state) {
    case TRACK_STATE_INIT:
        return posed_State_STATE_INIT;
    case TRACK_STATE_TRACKING:
        return posed_State_STATE_TRACKING;
    case TRACK_STATE_DEGRADED:
        return posed_State_STATE_DEGRADED;
    case TRACK_STATE_LOST:
        return posed_State_STATE_LOST;
    }
    return posed_State_STATE_UNSPECIFIED;
}

posed_Reason message_reason(enum track_reason reason)
{
    switch (reason) {
    case TRACK_REASON_NONE:
        return posed_Reason_REASON_NONE;
    case TRACK_REASON_FIRST_FRAME:
        return posed_Reason_REASON_FIRST_FRAME;
    case TRACK_REASON_DROPPED:
        return posed_Reason_REASON_DROPPED;
    case TRACK_REASON_NO_DEPTH:
        return posed_Reason_REASON_NO_DEPTH;
    case TRACK_REASON_FEW_PAIRS:
        return posed_Reason_REASON_FEW_PAIRS;
    case TRACK_REASON_NOT_CONVERGED:
        return posed_Reason_REASON_NOT_CONVERGED;
    case TRACK_REASON_HIGH_RESIDUAL:
        return posed_Reason_REASON_HIGH_RESIDUAL;
    case TRACK_REASON_JUMP:
        return posed_Reason_REASON_JUMP;
    case TRACK_REASON_DEGENERATE:
        return posed_Reason_REASON_DEGENERATE;
    case TRACK_REASON_DEVICE:
        return posed_Reason_REASON_DEVICE;
    case TRACK_REASON_TIME_GAP:
        return posed_Reason_REASON_TIME_GAP;
    }
    return posed_Reason_REASON_OTHER;
}

static void set_covariance(const struct track_result *result, posed_Odometry *out)
{
    out->pose_covariance_count = 36;
    memcpy(out->pose_covariance, result->covariance, sizeof result->covariance);
}

posed_Effort message_effort(enum track_effort effort)
{
    switch (effort) {
    case TRACK_EFFORT_FULL:
        break;
    case TRACK_EFFORT_HALF:
        return posed_Effort_EFFORT_HALF;
    case TRACK_EFFORT_LEAST:
        return posed_Effort_EFFORT_LEAST;
    }
    return posed_Effort_EFFORT_FULL;
}

void message_odometry(const struct shared_info *info, uint64_t seq,
                      const struct capture_frame *frame, const struct track_result *result,
                      uint32_t map_epoch, double previous_xyzw[4], posed_Odometry *out)
{
    *out = (posed_Odometry)posed_Odometry_init_zero;
    out->has_timestamp = true;
    out->timestamp = wire_timestamp(frame->image.time_ns);
    wire_copy_text(out->frame_id, sizeof out->frame_id, info->odom_frame);
    wire_copy_text(out->body_frame_id, sizeof out->body_frame_id, info->camera_frame);
    out->has_pose = true;
    out->pose = wire_pose(&result->T_odom_camera, previous_xyzw);
    const double *v = result->velocity;
    out->has_linear_velocity = out->has_angular_velocity = true;
    out->linear_velocity = (posed_Vector3){v[0], v[1], v[2]};
    out->angular_velocity = (posed_Vector3){v[3], v[4], v[5]};
    set_covariance(result, out);

    out->session = info->session;
    out->seq = seq;
    out->device_ticks = frame->device_ticks;
    out->capture_monotonic_ns = frame->capture_mono_ns;
    out->state = message_state(result->state);
    out->reason = message_reason(result->reason);
    char reason[TRACK_RESULT_TEXT_BYTES];
    track_result_text(result, reason);
    wire_copy_text(out->reason_text, sizeof out->reason_text, reason);
    out->replay = !info->capture.live;
    out->reference = info->reference;
    out->reference_seq = result->reference_seq;
    out->new_keyframe =
        result->new_keyframe && info->reference != posed_Reference_REFERENCE_PREVIOUS;
    out->residual_rms_m = result->residual_rms_m;
    out->inlier_ratio = result->inlier_ratio;
    out->iterations = result->n_iterations;
    out->converged = result->converged;
    out->eigenvalues_count = 6;
    memcpy(out->eigenvalues, result->eigenvalues, sizeof result->eigenvalues);
    out->degenerate_mask = result->degenerate_mask;
    out->valid_px = result->n_valid_px;
    out->map_epoch = map_epoch;
    out->frame_index = frame->index;
    out->lost_packets = frame->n_lost_packets;
    out->duplicate = (frame->flags & CAPTURE_DUPLICATE) != 0;
    out->damaged = (frame->flags & CAPTURE_DAMAGED) != 0;
    out->is_stale = result->is_stale;
}

void message_transform(const posed_Odometry *odometry, posed_FrameTransform *out)
{
    *out = (posed_FrameTransform){
        .has_timestamp = true,
        .timestamp = odometry->timestamp,
        .has_translation = true,
        .translation = odometry->pose.position,
        .has_rotation = true,
        .rotation = odometry->pose.orientation,
    };
    memcpy(out->parent_frame_id, odometry->frame_id, sizeof out->parent_frame_id);
    memcpy(out->child_frame_id, odometry->body_frame_id, sizeof out->child_frame_id);
}

void message_calibration(const struct shared_info *info, int64_t time_ns,
                         posed_CameraCalibration *out)
{
    const struct intrinsics *c = &info->capture.camera;
    *out = (posed_CameraCalibration){
        .has_timestamp = true,
        .timestamp = wire_timestamp(time_ns),
        .width = c->width_px,
        .height = c->height_px,
        .distortion_model = "plumb_bob",
        .D_count = 5,
        .K_count = 9,
        .K = {c->fx_px, 0, c->cx_px, 0, c->fy_px, c->cy_px, 0, 0, 1},
        .R_count = 9,
        .R = {1, 0, 0, 0, 1, 0, 0, 0, 1},
        .P_count = 12,
        .P = {c->fx_px, 0, c->cx_px, 0, 0, c->fy_px, c->cy_px, 0, 0, 0, 1, 0},
        .units_per_m = info->capture.units_per_m,
    };
    wire_copy_text(out->frame_id, sizeof out->frame_id, info->camera_frame);
    if (info->field) {
        out->field_rms_per_m = depth_error_rms_per_m(info->field);
        out->field_reduction = info->field->reduction;
        wire_copy_text(out->field_serial, sizeof out->field_serial, info->field->serial);
    }
}

void message_event(const struct shared_info *info, uint64_t seq, posed_Event_Kind kind,
                   const char *text, posed_Event *out)
{
    *out = (posed_Event)posed_Event_init_zero;
    out->has_timestamp = true;
    out->timestamp = wire_timestamp(clock_wall_ns());
    out->session = info->session;
    out->seq = seq;
    out->kind = kind;
    wire_copy_text(out->message, sizeof out->message, text);
}

void message_log(enum log_level level, const char *line, posed_Log *out)
{
    *out = (posed_Log)posed_Log_init_zero;
    out->has_timestamp = true;
    out->timestamp = wire_timestamp(clock_wall_ns());
    out->level = level <= LOG_LEVEL_ERROR     ? posed_Log_Level_ERROR
                 : level == LOG_LEVEL_WARNING ? posed_Log_Level_WARNING
                 : level == LOG_LEVEL_DEBUG   ? posed_Log_Level_DEBUG
                                              : posed_Log_Level_INFO;
    wire_copy_text(out->message, sizeof out->message, line);
    wire_copy_text(out->name, sizeof out->name, "posed");
}

// SPDX-License-Identifier: Apache-2.0
// Fills the messages of the wire from what capture and tracker hand over. Pure functions; the
// quaternion's sign is the only memory, kept by the caller.
#ifndef POSED_DAEMON_FILL_MESSAGES_H
#define POSED_DAEMON_FILL_MESSAGES_H

#include "capture/capture.h"
#include "daemon/shared_state.h"
#include "gpu/track/track.h"
#include "proto/wire.h"

posed_State message_state(enum track_state state);
posed_Reason message_reason(enum track_reason reason);
posed_Effort message_effort(enum track_effort effort);

// The pose message of one frame; the caller adds stages and publish_monotonic_ns when they are
// known. `map_epoch` is the daemon's (the tracker's may start again). A LOST pose gets the diagonal
// covariance POSE_ERROR_LOST (proto/pose_error.h). previous_xyzw as for wire_pose.
void message_odometry(const struct shared_info *info, uint64_t seq,
                      const struct capture_frame *frame, const struct track_result *result,
                      uint32_t map_epoch, double previous_xyzw[4], posed_Odometry *out);

void message_transform(const posed_Odometry *odometry, posed_FrameTransform *out);
// time_ns: of the newest frame, on the frames' own clock; 0 before the first.
void message_calibration(const struct shared_info *info, int64_t time_ns,
                         posed_CameraCalibration *out);
void message_event(const struct shared_info *info, uint64_t seq, posed_Event_Kind kind,
                   const char *text, posed_Event *out);
void message_log(enum log_level level, const char *line, posed_Log *out);

#endif

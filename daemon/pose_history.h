// SPDX-License-Identifier: Apache-2.0
// The poses of the past: a ring of the last frames' poses, and the pose at a time between them.
//
// The frame loop writes and never waits: a pose is stored as atomic words that a reader checks
// afterwards (a seqlock after Boehm 2012, "Can seqlocks get along with programming language memory
// models?", with the frame number as sequence).
#ifndef POSED_DAEMON_POSE_HISTORY_H
#define POSED_DAEMON_POSE_HISTORY_H

#include <stdint.h>

#include "proto/posed.pb.h"

struct past_pose {
    uint64_t seq;
    int64_t time_ns;
    double q_xyzw[4], t_m[3]; // T_odom_camera
    posed_State state;
    posed_Reason reason;
    uint32_t map_epoch;
};

struct pose_history; // opaque

// Keeps n_frames frames, at least 1. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int pose_history_create(struct pose_history **out,
                                                            uint32_t n_frames);
void pose_history_destroy(struct pose_history **history);

// The frame loop: appends a frame. seq must be the one before plus 1, from 0.
void pose_history_put(struct pose_history *history, const struct past_pose *pose);

// Any thread. Frames kept are oldest <= seq < next.
void pose_history_range(const struct pose_history *history, uint64_t *out_oldest,
                        uint64_t *out_next);

// Any thread. Copies one frame. Returns 0, or -ENOENT when it is not there or no longer there.
__attribute__((warn_unused_result)) int pose_history_get(const struct pose_history *history,
                                                         uint64_t seq, struct past_pose *out);

// Any thread. The pose at a time: interpolated between the two frames around it when both have a
// pose of the same map epoch and are at most 1 s apart. out->seq, state and reason are those of
// the frame before. Where times went back, what came before that is of another clock and not looked
// at. Returns 0, -ENOENT (outside of what is kept) or -ENODATA (no valid pose there).
__attribute__((warn_unused_result)) int pose_history_at(const struct pose_history *history,
                                                        int64_t time_ns, struct past_pose *out);

#endif

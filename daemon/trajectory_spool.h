// SPDX-License-Identifier: Apache-2.0
// The frames of a session as they were tracked, so that its trajectory can be written once more at
// its end: each frame where the keyframes around it, as finally adjusted, say that it was.
//
// A keyframe's correction takes odom to the map; a frame between two of them has a share of each,
// by how near it stands to either, so that there is no step. Frames before the first keyframe and
// behind the last have that one's. Where the camera was lost and found between frame and keyframe
// the two are of different odoms, and the keyframe says nothing of the frame. What has no keyframe
// stays as it was published.
//
// Frames wait in a file without a name (224 bytes each), so memory does not grow with the session:
// only keyframes of epochs that have ended are kept there, TRAJECTORY_SPOOL_KEYFRAMES at most.
//
// Frames come from one thread, keyframes from one; it is written when both have ended.
#ifndef POSED_DAEMON_TRAJECTORY_SPOOL_H
#define POSED_DAEMON_TRAJECTORY_SPOOL_H

#include "gpu/model/pose_graph.h"
#include "proto/trajectory.h"

// 15 MB. Epochs that end beyond it stay as they were published.
#define TRAJECTORY_SPOOL_KEYFRAMES 65536

struct trajectory_frame {
    int64_t time_ns;
    int64_t clock_set_ns; // capture_frame's: times follow it, and go on evenly without
    uint32_t epoch;
    uint32_t n_finds;         // of the camera, so far: with each another odom begins
    struct se3 T_odom_camera; // as tracked, predicted, or LOST: the last one before
    struct se3 T_map_odom;    // as published
    enum trajectory_origin origin;
};

struct trajectory_spool; // opaque

// The file that frames wait in is made beside `path` and loses its name at once. Returns 0 or
// negative errno.
__attribute__((warn_unused_result)) int trajectory_spool_create(struct trajectory_spool **out,
                                                                const char *path);
void trajectory_spool_destroy(struct trajectory_spool **spool);

// The next frame, the first one is number 0. Returns 0 or negative errno.
__attribute__((warn_unused_result)) int
trajectory_spool_frame(struct trajectory_spool *spool, const struct trajectory_frame *frame);

// The keyframes of an epoch as finally adjusted, in order; their seq are numbers of frames. Epochs
// in order, each once. Returns 0, -ENOSPC (too many in all: none of these is taken) or -ENOMEM.
__attribute__((warn_unused_result)) int
trajectory_spool_keyframes(struct trajectory_spool *spool, uint32_t epoch,
                           const struct graph_keyframe *keyframes, uint32_t n_keyframes);

bool trajectory_spool_has_keyframes(const struct trajectory_spool *spool);

struct trajectory_find {
    int64_t time_ns; // in
    struct se3 T_odom_camera;
    uint64_t seq; // of the frame before, or at, that time; where none of its epoch is, of the next
    uint32_t epoch;
    bool is_known;
};

// Where the camera was tracked at n times, which do not fall: between the frames around each.
// Unknown where those are further than max_gap_ns apart; before the first frame of an epoch and
// behind the last of all that one counts, as near as that. Returns 0 or negative errno.
__attribute__((warn_unused_result)) int trajectory_spool_find(struct trajectory_spool *spool,
                                                              struct trajectory_find *inout,
                                                              uint32_t n, int64_t max_gap_ns);

// All frames, adjusted, a line each, and one where a map epoch begins (trajectory_write_marked).
// Returns 0 or negative errno.
__attribute__((warn_unused_result)) int
trajectory_spool_write(struct trajectory_spool *spool, FILE *file, enum trajectory_format format);

#endif

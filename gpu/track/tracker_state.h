// SPDX-License-Identifier: Apache-2.0
// What the tracker keeps from frame to frame: the frames it may align to with their poses, the last
// pose with its error, the motion, and what is lost. For the files of this room alone.
#ifndef POSED_GPU_TRACK_TRACKER_STATE_H
#define POSED_GPU_TRACK_TRACKER_STATE_H

#include <math.h>

#include "gpu/track/gravity_prior.h"
#include "gpu/track/still_camera.h"
#include "gpu/track/track.h"
#include "proto/pose_error.h"
#include "proto/se3.h"

#define TRACK_N_SLOTS  4
#define TRACK_PERIOD_S (1.0 / 30) // where no clock says how much time a frame took

// A frame kept for alignment, with its pose as the tracker knew it.
struct track_slot {
    struct gpu_frame *frame;
    struct se3 T_odom_camera;
    double own[36]; // of its own error what all that is aligned to it inherits
    uint64_t seq;
    bool filled;
};

// What the error needs to know of the time since one reference serves.
struct track_since {
    uint64_t seq;        // of the reference: its own error is in the walk
    double farthest_rad; // image motion from it, the most so far
    int n_unheld;        // directions, of the last pose
    double unseen_m;     // as far as that may have moved along them
    double unseen[36];   // its covariance
};

struct track {
    struct gpu *gpu;
    struct track_settings settings;
    struct gpu_align_settings align; // settings.align at the effort in force
    struct log_sink log;
    struct track_slot slots[TRACK_N_SLOTS];
    int newest, reference, previous; // indices of slots; reference may equal previous
    int held;                        // track_hold, -1: none
    int64_t held_time_ns;
    struct track_slot view;              // of the model, its frame borrowed; filled: there is one
    bool has_map;                        // in which a lost camera is looked for
    const struct track_slot *aligned_to; // what the newest frame was aligned to, NULL = nothing
    struct se3 T_aligned_newest;         // then
    double overlap_most; // of the frames aligned to the reference: pairs per valid pixel
    uint64_t next_seq;
    int64_t newest_time_ns;

    struct sparse_depth *gaps;
    bool is_sparse;           // the last frame that was asked, so the next one is asked first
    bool told_sparse;         // in the log
    double level_px;          // pixels of the finest level that is aligned
    struct track_result last; // of the newest frame
    bool is_aligned;          // it has a pose by alignment, and that is still its pose

    struct se3 T_odom_camera; // last valid pose, or where a lost frame was placed
    struct se3 T_told;        // last pose that was told, or predicted, which LOST frames repeat,
    uint32_t n_finds_told;    // and n_finds then
    struct pose_error error;
    double own[36]; // error.own without the readout, which ends with the frame
    struct track_since since;
    double unheld_s;    // so long some direction has not been held
    double velocity[6]; // twist per second in the camera frame
    struct gravity_prior gravity;
    int64_t pose_time_ns;
    bool pose_known; // there is a reference
    struct still_camera still;
    bool lost;
    bool is_found;         // lost, but its newest frame was placed in the map (track_relocate)
    bool was_found;        // or another one since it was lost
    int64_t lost_since_ns; // first frame of this loss that had depth, or the first that was found
    double period_s;       // last time between two poses, 0 = none yet
    uint32_t n_lost;       // frames in a row with depth but without a pose
    uint32_t map_epoch;
    uint32_t n_finds;
};

static inline double track_translation_m(const struct se3 *T)
{
    return sqrt(T->t_m[0] * T->t_m[0] + T->t_m[1] * T->t_m[1] + T->t_m[2] * T->t_m[2]);
}

#endif

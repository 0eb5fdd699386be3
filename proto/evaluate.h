// SPDX-License-Identifier: Apache-2.0
// How far a trajectory is from the truth: absolute trajectory error (ATE) and relative pose error
// (RPE) as defined by Sturm et al., "A Benchmark for the Evaluation of RGB-D SLAM Systems" (IROS
// 2012), with the truth interpolated to each pose's time instead of taken from the nearest sample.
#ifndef POSED_PROTO_EVALUATE_H
#define POSED_PROTO_EVALUATE_H

#include "proto/trajectory.h"

#define EVALUATE_MAX_GAP_NS   250000000 // default: no interpolation across longer gaps of the truth
#define EVALUATE_DELTA_FRAMES 30        // default: RPE over one second

struct error_summary {
    size_t n; // 0: the rest is 0 and means nothing
    double rmse, mean, median, max;
};

struct evaluated_pose {
    int64_t time_ns;
    double truth_m[3];
    double estimate_m[3]; // after alignment
    double error_m;
};

struct evaluation {
    size_t n_poses, n_matched;    // of the estimate: all, and those whose time the truth covers
    struct se3 T_truth_estimate;  // the rigid alignment, without scale
    struct error_summary ate_m;   // distance of matched positions after the alignment
    struct error_summary rpe_m;   // translation and ...
    struct error_summary rpe_rad; // ... rotation of the motion error over delta_frames
    struct evaluated_pose *poses; // n_matched, in order of time
};

// Rotation and translation that bring n points of b closest to their partners in a, in the sense of
// least squares, without scale (Horn, "Closed-form solution of absolute orientation using unit
// quaternions", 1987). Rows of three, n >= 1; where the points leave a rotation open, any that is
// optimal.
struct se3 evaluate_align(const double (*a_m)[3], const double (*b_m)[3], size_t n);

// The clock offset between the two: what has to be added to the estimate's times so that the truth,
// read at them, fits best (least ATE RMSE), within +-search_ns. A recorder and a motion capture
// system stamp by clocks of their own; 25 ms at 0.4 m/s are 10 mm that no tracker made. Returns 0,
// -ENODATA (no pose within the truth's times) or -ENOMEM; *out_ns is 0 then. Where the camera
// hardly moves any offset fits as well, and the one found means nothing.
#define EVALUATE_SEARCH_NS 100000000 // default: 0.1 s to either side
__attribute__((warn_unused_result)) int evaluate_time_offset(const struct trajectory *truth,
                                                             const struct trajectory *estimate,
                                                             int64_t max_gap_ns, int64_t search_ns,
                                                             int64_t *out_ns);

// Compares. delta_frames counts poses of the estimate, >= 1; pairs of which one is unmatched are
// left out. Returns 0 and an evaluation to free, or with *out empty -ENODATA (no pose of the
// estimate lies within the truth's times) or -ENOMEM.
__attribute__((warn_unused_result)) int evaluate_trajectory(const struct trajectory *truth,
                                                            const struct trajectory *estimate,
                                                            int64_t max_gap_ns, size_t delta_frames,
                                                            struct evaluation *out);

void evaluation_free(struct evaluation *evaluation);

#endif

// SPDX-License-Identifier: Apache-2.0
// Conditioning: which directions the scene holds. Plain functions of the normal equations; the
// tracker draws the conclusions.
//
// The information matrix of gpu.h is normalised first: rotations in units of the pairs' mean
// distance (the arm), everything divided by the sum of weights. Its eigenvalues are then shares
// between 0 and 1 that add up to about 2: how much of the pairs' information falls on that
// direction. Measured: 0.0001 and less where a wall or a corridor holds nothing and the noise is
// fresh in each frame, 0.0028 and more in real rooms. Zhang, Kaess, Singh 2016 ("On degeneracy of
// optimization-based state estimation problems") is the remapping.
//
// What is fixed to a camera or to a surface looks the same in both frames, as structure does. A
// corridor seen so has a share of up to 0.0022 along it. A wall has three of 0.002 to 0.009, which
// in a room would be held; but they are less than 0.03 of the fourth, where real rooms, seen by
// Kinects, have 0.09 and more: one flat surface holds three directions, whatever is on it.
// The eigenvectors mix what is free with what is hardly held: along a corridor they lean 0.02 into
// turns. A surface that a shift leaves as it is has that shift among its translations alone, which
// the normals' noise turns by 0.0003; and a turn that a shift comes with is about the shift (a
// tube) or across two (a wall).
#ifndef POSED_GPU_TRACK_CONDITIONING_H
#define POSED_GPU_TRACK_CONDITIONING_H

#include "gpu/gpu.h"

struct conditioning {
    double arm_m;            // RMS distance of the pairs: 1 rad counts as so many metres
    double eigenvalues[6];   // ascending
    double vectors[36];      // row i: direction of eigenvalue i, scaled twist (v, arm * w)
    int n_degenerate;        // the first so many directions are not held
    double free[36];         // so many rows: what the camera may do unseen, as scaled twists
    uint8_t degenerate_mask; // bit i: axis i of (x y z, rotation x y z) is mostly not held
};

// `min_eigenvalue`: directions below it are not held; 0: all are, one surface's, too.
void conditioning_of(const struct gpu_alignment *alignment, double min_eigenvalue,
                     struct conditioning *out);

// Takes the part of T_reference_frame against the prediction that lies in directions which are not
// held back to the prediction.
struct se3 conditioning_hold(const struct conditioning *conditioning,
                             const struct se3 *T_reference_predicted,
                             const struct se3 *T_reference_frame);

#endif

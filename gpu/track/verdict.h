// SPDX-License-Identifier: Apache-2.0
// What an alignment is worth: which directions the scene holds, how certain the rest is. Plain
// functions of the normal equations; the tracker draws the conclusions.
//
// The information matrix of gpu.h is normalised first: rotations in units of the pairs' mean
// distance (the arm), everything divided by the sum of weights. Its eigenvalues are then shares
// between 0 and 1 that add up to about 2: how much of the pairs' information falls on that
// direction. Measured: 0.0001 and less where a wall or a corridor holds nothing, 0.005 and more in
// rooms. Zhang, Kaess, Singh 2016 ("On degeneracy of optimization-based state estimation problems")
// is the remapping.
#ifndef POSED_GPU_TRACK_VERDICT_H
#define POSED_GPU_TRACK_VERDICT_H

#include "gpu/gpu.h"

struct verdict_conditioning {
    double arm_m;            // RMS distance of the pairs: 1 rad counts as so many metres
    double eigenvalues[6];   // ascending
    double vectors[36];      // row i: direction of eigenvalue i, scaled twist (v, arm * w)
    int n_degenerate;        // the first so many directions are not held
    uint8_t degenerate_mask; // bit i: axis i of (x y z, rotation x y z) is mostly not held
};

// `min_eigenvalue`: directions below it are not held.
void verdict_conditioning(const struct gpu_alignment *alignment, double min_eigenvalue,
                          struct verdict_conditioning *out);

// Weighted RMS residual of the pairs in units of the sensor's noise at their distance.
double verdict_residual_sigmas(const struct gpu_alignment *alignment);

// Takes the part of T_reference_frame against the prediction that lies in directions which are not
// held back to the prediction.
struct se3 verdict_hold(const struct verdict_conditioning *conditioning,
                        const struct se3 *T_reference_predicted,
                        const struct se3 *T_reference_frame);

// Covariance of the left twist (v, w) of T_reference_frame, in the reference's camera frame. Held
// directions: residual variance over information, times the correlation of neighbouring pixels'
// errors. The others: hold_std_m (and as much at the arm's length in rotation) as a variance.
void verdict_covariance(const struct gpu_alignment *alignment,
                        const struct verdict_conditioning *conditioning, double hold_std_m,
                        double out[36]);

// Covariance of T_odom_camera = T_odom_reference exp(twist) T_reference_camera, as errors of
// position and orientation along odom's axes (x y z, rotation x y z), from the reference's own and
// the twist's. The reference's orientation error swings the camera around it.
void verdict_propagate(const struct se3 *T_odom_reference, const double reference_covariance[36],
                       const struct se3 *T_odom_camera, const double twist_covariance[36],
                       double out[36]);

#endif

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

// Variance of a LOST pose on each axis [m^2, rad^2]: "anywhere", finite and positive for whoever
// inverts it. The only place that says so.
#define VERDICT_LOST_VARIANCE 1e6

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

// How sure, in two variances, each in units of the sensor's sigma^2 and of one pixel's weight. The
// residual in sigmas is what tells: a sensor whose errors are noise leaves the same share of its
// sigma whatever the motion; errors that stay with the camera (a field in disparity, surfaces,
// viewpoints) cancel while the view is the reference's, and grow with the image motion since.
//
//   own    of one frame: the residual's, over the pixels that err together
//   drift  of the motion in the newest step: what the residual has above noise, over the flow
//          since the reference that it grew in, over the (larger) regions that err together
//
// flow_rad: image motion from the reference to the frame; step_rad: since the last pose.
double verdict_own_variance(const struct gpu_alignment *alignment);
double verdict_drift_variance(const struct gpu_alignment *alignment, double flow_rad,
                              double step_rad);

// Covariance of the left twist (v, w) of T_reference_frame, in the reference's camera frame, for
// such a variance: variance sigma0^2 over the information of each direction. Directions that are
// not held: 0.
void verdict_covariance(const struct gpu_alignment *alignment,
                        const struct verdict_conditioning *conditioning, double variance,
                        double out[36]);

// The same for the directions that are not held: std_m, and as much at the arm's length in
// rotation. Held ones: 0.
void verdict_unheld(const struct verdict_conditioning *conditioning, double std_m, double out[36]);

// The covariance of a LOST pose: VERDICT_LOST_VARIANCE on the diagonal.
void verdict_lost_covariance(double out[36]);

// out += the covariance of T_odom_camera = T_odom_reference exp(twist) T_reference_camera, as
// errors of position and orientation along odom's axes (x y z, rotation x y z), from the twist's.
void verdict_place(const struct se3 *T_odom_reference, const struct se3 *T_odom_camera,
                   const double twist_covariance[36], double out[36]);

#endif

// SPDX-License-Identifier: Apache-2.0
// How certain a pose is, where its alignment holds it, where it does not, and where it is LOST:
// plain functions of the normal equations and their conditioning.
#ifndef POSED_GPU_TRACK_COVARIANCE_H
#define POSED_GPU_TRACK_COVARIANCE_H

#include "gpu/track/conditioning.h"
#include "proto/pose_error.h"

// How sure, in two variances, each in units of the sensor's sigma^2 and of one pixel's weight. The
// residual in sigmas is what tells: a sensor whose errors are noise leaves the same share of its
// sigma whatever the motion; errors that stay with the camera (a field in disparity, surfaces,
// viewpoints) cancel while the view is the reference's, and grow with the image motion since.
//
//   own    of one frame: the residual's, over the pixels that err together
//   drift  of the motion in the newest step: what the residual has above noise, over the flow
//          since the reference that it grew in, over the (larger) regions that err together
//
// flow_rad: image motion from the reference to the frame, above 0; step_rad: since the last pose.
double covariance_own_variance(const struct gpu_alignment *alignment);
double covariance_drift_variance(const struct gpu_alignment *alignment, double flow_rad,
                                 double step_rad);

// The share of the residual's variance that is not the sensor's noise, 0..1.
double covariance_excess_share(const struct gpu_alignment *alignment);

// Covariance of the left twist (v, w) of T_reference_frame, in the reference's camera frame, for
// such a variance: variance sigma0^2 over the information of each direction. Directions that are
// not held: 0.
void covariance_of_twist(const struct gpu_alignment *alignment,
                         const struct conditioning *conditioning, double variance, double out[36]);

// The same for what nothing holds (conditioning's free motions): std_m, and as much at the arm's
// length in rotation. Surfaces that recede from the camera are seen tilted, so that a shift along
// the view is uncertain across it, too.
void covariance_unheld(const struct conditioning *conditioning, double std_m, double out[36]);

// The covariance of a LOST pose: POSE_ERROR_LOST on the diagonal.
void covariance_lost(double out[36]);

// out += the covariance of T_odom_camera = T_odom_reference exp(twist) T_reference_camera, as
// errors of position and orientation along odom's axes (x y z, rotation x y z), from the twist's.
void covariance_add(const struct se3 *T_odom_reference, const struct se3 *T_odom_camera,
                    const double twist_covariance[36], double out[36]);

#endif

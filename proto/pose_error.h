// SPDX-License-Identifier: Apache-2.0
// What a tracked pose may be off by, in three parts that differ in how the errors of two frames
// hang together, so that the covariance of the motion between any two frames follows from what is
// said of each of them:
//
//   own    of this frame alone: noise of its measurement, and what the camera moves while an image
//          is read out. Independent of other frames'
//   walk   grown since the start out of independent steps: the own errors of the references that
//          the pose stands on, and where a direction that nothing held is held again
//   drift  grown since the start with the motion: the sensor's errors that stay, and so do not
//          average out, and the speed that nobody sees along directions that nothing holds. Over a
//          motion that is short against POSE_ERROR_COHERENCE_RAD they pull the same way (the error
//          grows with the motion, a gain that is wrong by per cents), over a long one they are
//          independent (it grows with the root)
//
// Their sum is the covariance of the pose itself. Of the motion from frame i to frame j, as errors
// of j's position and orientation along odom's axes when i is taken as exact:
//
//   Q_ij = own_j + A own_i A^T + (walk_j - A walk_i A^T) + k (drift_j - A drift_i A^T)
//   k    = 1 - (1 - exp(-x)) / x,  x = (flow_j - flow_i) / POSE_ERROR_COHERENCE_RAD
//
// A frame whose image is that of the one before, bit for bit, has its pose and its error, bit for
// bit: nothing was measured twice, so their own errors are one, and Q_ij is 0.
//
// A carries an error of i's pose to j's: a wrong orientation swings the camera around i. flow is
// the image motion travelled since the start: rotation plus half the translation over the scene's
// distance, seen or not. k is the variance of an integrated Gauss-Markov process as a share of what
// independent steps of the same long-run variance would have (Gelb, "Applied Optimal Estimation",
// 1974, 3.8).
//
// All 6x6: row-major, x y z [m] then rotation about x y z [rad], along odom's axes.
#ifndef POSED_PROTO_POSE_ERROR_H
#define POSED_PROTO_POSE_ERROR_H

#include <stdbool.h>
#include <stdio.h>

#include "proto/types.h"

// Errors tied to surface and viewpoint are gone after 100 to 200 px of flow, 0.2 to 0.4 rad; the
// smooth field fixed to a camera changes over as much.
#define POSE_ERROR_COHERENCE_RAD 0.3

// Variance of a LOST pose on each axis [m^2, rad^2]: "anywhere", finite and positive for whoever
// inverts it. The only place that says so.
#define POSE_ERROR_LOST 1e6

struct pose_error {
    double flow_rad;
    double own[36], walk[36], drift[36];
};

// out += J covariance J^T with J = (r, r [-arm]x; 0, r): errors turned by r (row-major 3x3), and
// carried along an arm that a wrong orientation swings.
void pose_error_add(const double r[9], const double arm_m[3], const double covariance[36],
                    double out[36]);

// out += the covariance of a pose's error once more at another place, `arm_m` from it along the
// same axes.
void pose_error_carry(const double arm_m[3], const double covariance[36], double out[36]);

// The pose's covariance: the sum of the three.
void pose_error_total(const struct pose_error *error, double out[36]);

// Whether j has the image of i once more, of frames that were not lost.
bool pose_error_is_repeated(const struct se3 *T_odom_i, const struct pose_error *i,
                            const struct se3 *T_odom_j, const struct pose_error *j);

// Q_ij above. Both of one epoch; i before j.
void pose_error_between(const struct se3 *T_odom_i, const struct pose_error *i,
                        const struct se3 *T_odom_j, const struct pose_error *j, double out[36]);

// e^T Q^-1 e: the squared error in units of its covariance. Negative when Q is not positive
// definite.
double pose_error_normalised2(const double error[6], const double covariance[36]);

// One line of a trajectory with covariances: TUM's eight columns, then flow_rad and the upper
// triangles, row by row, of own, walk and drift (21 numbers each). Returns 0 or -EIO.
#define POSE_ERROR_COLUMNS 64
__attribute__((warn_unused_result)) int
pose_error_write(FILE *file, const struct stamped_pose *pose, const struct pose_error *error);

// From the POSE_ERROR_COLUMNS numbers behind the pose.
void pose_error_parse(const double columns[POSE_ERROR_COLUMNS], struct pose_error *out);

#endif

// SPDX-License-Identifier: Apache-2.0
// The mean of poses that are known with covariances: the pose of the least squared error in units
// of those (on SE(3) by Gauss-Newton: Barfoot and Furgale, "Associating uncertainty with
// three-dimensional poses", 2014, V); and what it needs of a covariance. All 6x6: row-major, in
// order and axes of pose_error.h. Any thread.
#ifndef POSED_PROTO_POSE_MEAN_H
#define POSED_PROTO_POSE_MEAN_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/types.h"

#define POSE_MEAN_MAX 16 // poses

// The mean of n <= POSE_MEAN_MAX poses in *out, and its covariance. Returns 0, or -EDOM when the
// covariances are not positive definite.
__attribute__((warn_unused_result)) int pose_mean(const struct se3 *poses,
                                                  const double (*covariances)[36], uint32_t n,
                                                  struct se3 *out, double out_covariance[36]);

// The inverse of a covariance whose metres and radians differ by orders of magnitude. False: it is
// not positive definite.
__attribute__((warn_unused_result)) bool pose_mean_invert(const double a[36], double out[36]);

// Makes a symmetric matrix with a diagonal above 0 a covariance: brought to a diagonal of ones, no
// eigenvalue is below min_share. Of another diagonal: nothing.
void pose_mean_make_definite(double a[36], double min_share);

#endif

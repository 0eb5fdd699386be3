// SPDX-License-Identifier: Apache-2.0
// Where a second camera sits on a body that both move with, from their motions alone: A X = X B,
// where A and B are the same motion of the body as either camera saw it in its own frame, and
// X = T_a_b. The rotation first, in closed form (Park and Martin, "Robot sensor calibration:
// solving AX = XB on the Euclidean group", 1994; as the quaternion of Horn 1987), then translation,
// then both together by Gauss-Newton on the residual log(A X B^-1 X^-1) with Tukey's weights; the
// noise of rotations and translations is estimated from the residuals. The two cameras need no
// common view.
#ifndef POSED_PROTO_HANDEYE_H
#define POSED_PROTO_HANDEYE_H

#include <stddef.h>

#include "proto/types.h"

#define HANDEYE_MIN_MOTIONS 6

struct handeye_motion {
    struct se3 A, B; // T_begin_end of either camera, over the same time
};

struct handeye_result {
    struct se3 T_a_b;
    double covariance[36]; // of a twist (v, w) from the left, exp(twist) T_a_b: m, rad; row-major
    double sigma_m, sigma_rad; // of a motion's residual, per axis
    double spread_rad;         // rotation about the second axis of the motions, RMS
    size_t n_used;             // motions with more than a tenth of the full weight
};

// `overlap`: how many motions share each piece of the way, >= 1: that many times fewer are
// independent. Any thread. Returns 0, or
//   -ENODATA  fewer than HANDEYE_MIN_MOTIONS
//   -EDOM     the motions turn about one axis only (spread_rad, which is filled in, is below
//             HANDEYE_MIN_SPREAD_RAD): the translation along it is open
//   -ENOMEM
#define HANDEYE_MIN_SPREAD_RAD 0.03
__attribute__((warn_unused_result)) int handeye_solve(const struct handeye_motion *motions,
                                                      size_t n, double overlap,
                                                      struct handeye_result *out);

#endif

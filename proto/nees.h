// SPDX-License-Identifier: Apache-2.0
// Whether a trajectory is as wrong as it says: the normalised estimation error squared (NEES; Bar-
// Shalom, Li, Kirubarajan, "Estimation with Applications to Tracking and Navigation", 2001, 5.4).
//
// Of every pair of frames i and i + window: e, the difference between the estimated and the true
// motion (position and rotation along odom's axes, i taken as exact), and Q_ij, the covariance that
// the two frames claim for it (proto/pose_error.h) plus that of the reference's own error at both
// ends. NEES = e^T Q^-1 e / 6. Right claims have a mean of 1, and 95 % of the pairs at 2.10 (chi
// square of six degrees of freedom, 12.59, over 6) or less; more: too sure, less: not sure enough.
// A pair of one image (pose_error_is_repeated) is left out: the pose is the image's, whatever stamp
// it came with the second time. Pairs overlap and errors that stay are one draw a recording: one
// recording's mean scatters by a factor of two and more.
#ifndef POSED_PROTO_NEES_H
#define POSED_PROTO_NEES_H

#include "proto/pose_error.h"
#include "proto/trajectory.h"

// 95 % of chi square with six degrees of freedom.
#define NEES_LIMIT_95 12.5916

// What the reference itself errs by: standard deviations on each axis, independent from pose to
// pose. 0: exact. time_s: of its stamps, which turns into an error along the motion.
struct nees_reference {
    double sigma_m, sigma_rad, time_s;
};

struct nees_summary {
    size_t n_pairs;    // 0: the rest is 0 and means nothing
    size_t n_repeated; // pairs of one image
    size_t n_excluded; // without a pose at either end, of two epochs, or Q_ij not positive definite
    double mean, median, share_95;
};

// truth is interpolated to the estimate's times + offset_ns; estimate->errors must be there.
// window >= 1.
// Returns 0, -EINVAL (no errors) or -ENOMEM.
__attribute__((warn_unused_result)) int
nees_evaluate(const struct trajectory *truth, const struct trajectory *estimate, int64_t max_gap_ns,
              const struct nees_reference *reference, size_t window, int64_t offset_ns,
              struct nees_summary *out);

// The clock offset between the two that makes the mean over `window` frames least, the most likely
// one by what the poses claim: to be added to the estimate's times, within +-search_ns. The offset
// of least ATE (evaluate_time_offset) takes drift for lag. Returns 0, -ENODATA (no pair), -EINVAL
// or -ENOMEM; *out_ns is 0 then.
__attribute__((warn_unused_result)) int
nees_time_offset(const struct trajectory *truth, const struct trajectory *estimate,
                 int64_t max_gap_ns, const struct nees_reference *reference, size_t window,
                 int64_t search_ns, int64_t *out_ns);

#endif

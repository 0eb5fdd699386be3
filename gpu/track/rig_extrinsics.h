// SPDX-License-Identifier: Apache-2.0
// Where camera B of a rig sits beside camera A, from what both see of the same surfaces at nearly
// the same time, together with what is known of it already (their motions: proto/handeye.h).
//
// Unknown are the transform and what is left of either camera's own error (depth_error.h), a smooth
// field of inverse depth over its image: a transform that is fitted to two cameras that err by 4 mm
// at 1 m would be off by centimetres, and sure of itself. The residual is calibrate.h's, at the
// pixels of each image seen from the other, by Tukey's biweight, in Gauss-Newton steps. What the
// fields may be is in the normal equations, so that the covariance has it, too. What of a camera's
// error stays and is not smooth is not: for that the covariance counts a fifth of what the samples
// say (RMS of the error in standard deviations: 0.9 to 1.2 with such cameras).
//
// Host only, one thread; the same bits each time.
#ifndef POSED_GPU_TRACK_RIG_EXTRINSICS_H
#define POSED_GPU_TRACK_RIG_EXTRINSICS_H

#include <stddef.h>

#include "proto/types.h"

#define RIG_EXTRINSICS_MAP_LEVEL 2 // of the maps (gpu_frame_read)

// An image of either camera: packed maps, nx ny nz z.
struct rig_extrinsics_pair {
    const float *map_a, *map_b;
    struct se3 T_a_at_b; // of camera A: its pose at B's time in its frame at its own
};

struct rig_extrinsics_result {
    struct se3 T_a_b;
    double covariance[36]; // of a twist (v, w) from the left, exp(twist) T_a_b; row-major
    double residual_per_m; // robust standard deviation of what is left, inverse depth
    double shared;         // pixels of the images that have a counterpart, 0..1
    uint64_t n_samples;    // pixels compared
};

// From T_a_b, known with that covariance (as above; of positive variances). `is_corrected`: the
// cameras' fields have been taken out of the maps as far as they could be learnt. Returns 0 (*out
// is what was known where no surface is seen by both), -EDOM (the covariance is none) or -ENOMEM.
__attribute__((warn_unused_result)) int
rig_extrinsics_solve(const struct intrinsics cameras[2], const struct rig_extrinsics_pair *pairs,
                     size_t n_pairs, bool is_corrected, const struct se3 *T_a_b,
                     const double covariance[36], struct rig_extrinsics_result *out);

#endif

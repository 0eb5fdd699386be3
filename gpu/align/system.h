// SPDX-License-Identifier: Apache-2.0
// The normal equations of all poses at once, from what the pairs summed.
//
// Image i's unknown is a twist d_i in its own frame, T_world_i -> T_world_i exp(d_i). The residuals
// of a pair know the relative increment x = Ad(T_j_i) d_i - d_j in the target's frame, so that 27
// sums of a direction make its share of all four blocks.
#ifndef POSED_GPU_ALIGN_SYSTEM_H
#define POSED_GPU_ALIGN_SYSTEM_H

#include "gpu/align/pairs.h"
#include "proto/se3.h"

struct align_system {
    uint32_t n_images, n_pairs;
    double *diagonal; // 36 an image
    double *beside;   // 36 a pair, at (i, j)
    double *gradient; // 6 an image
};

__attribute__((warn_unused_result)) int align_system_create(struct align_system *out,
                                                            uint32_t n_images, uint32_t n_pairs);
void align_system_free(struct align_system *system);

// sums: two directions a pair (vertices of i against planes of j, then the other way),
// PAIR_N_SUMS each; weight: of each pair, 0 = leave it out; fixed: images that keep their pose.
// What nothing holds is held by a share of 1e-7 of the diagonal.
void align_system_fill(struct align_system *system, const struct align_pair *pairs,
                       const double *sums, const double *weight, const struct se3 *T_world_image,
                       const bool *fixed);

#endif

// SPDX-License-Identifier: Apache-2.0
// A symmetric positive definite system of 6x6 blocks, one row of blocks an image and one block
// beside the diagonal a pair: Cholesky's factorisation of the blocks, images eliminated by least
// degree (Tinney, Walker 1967), the order and the pattern found once.
//
// Blocks, not single numbers, because a frame of six numbers an image is what there is: a general
// sparse factorisation walks an index for each number. The same bits on every machine: nothing is
// contracted, and nothing depends on which libraries are there.
#ifndef POSED_GPU_ALIGN_SPARSE_H
#define POSED_GPU_ALIGN_SPARSE_H

#include "gpu/align/pairs.h"

struct sparse;

// The pattern: pairs of images, i and j apart. Memory for the order: n_images^2 / 8 bytes. Returns
// 0 or -ENOMEM.
__attribute__((warn_unused_result)) int sparse_create(struct sparse **out, uint32_t n_images,
                                                      const struct align_pair *pairs,
                                                      uint32_t n_pairs);
void sparse_destroy(struct sparse **sparse);

// Factors: `diagonal` n_images blocks, `beside` n_pairs blocks, each 36 doubles row-major; block k
// of `beside` stands at (pairs[k].i, pairs[k].j), its transpose at (j, i). Returns 0 or -EDOM (not
// positive definite).
__attribute__((warn_unused_result)) int sparse_factor(struct sparse *sparse, const double *diagonal,
                                                      const double *beside);

// Solves for n_columns right-hand sides of 6 n_images each, in place, with the last good factor.
void sparse_solve(struct sparse *sparse, double *inout_b, uint32_t n_columns);

#endif

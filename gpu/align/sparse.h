// SPDX-License-Identifier: Apache-2.0
// A symmetric positive definite system of 6x6 blocks, one row of blocks an image and one block
// beside the diagonal a pair: CHOLMOD's simplicial factorisation, analysed once, or, in a build
// without SuiteSparse, an envelope factorisation under a reverse Cuthill-McKee order.
#ifndef POSED_GPU_ALIGN_SPARSE_H
#define POSED_GPU_ALIGN_SPARSE_H

#include "gpu/align/pairs.h"

struct sparse;

// The pattern: pairs of images. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int sparse_create(struct sparse **out, uint32_t n_images,
                                                      const struct align_pair *pairs,
                                                      uint32_t n_pairs);
void sparse_destroy(struct sparse **sparse);

// Factors: `diagonal` n_images blocks, `beside` n_pairs blocks, each 36 doubles row-major; block k
// of `beside` stands at (pairs[k].i, pairs[k].j), its transpose at (j, i). Returns 0, -EDOM (not
// positive definite) or -ENOMEM.
__attribute__((warn_unused_result)) int sparse_factor(struct sparse *sparse, const double *diagonal,
                                                      const double *beside);

// Solves for n_columns right-hand sides of 6 n_images each, in place. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int sparse_solve(struct sparse *sparse, double *inout_b,
                                                     uint32_t n_columns);

const char *sparse_name(void); // "CHOLMOD 3.0.14, simplicial"

#endif

// SPDX-License-Identifier: Apache-2.0
// Correspondences without a guess: descriptors of the points of a level (kernels/fpfh.h), and the
// pairs of points that are each other's nearest in descriptor. Private to gpu.
#ifndef POSED_GPU_REGISTER_FEATURES_H
#define POSED_GPU_REGISTER_FEATURES_H

#include "gpu/base/pool.h"
#include "gpu/register/ops.h"

struct register_features {
    uint32_t n, n_padded;
    struct register_cell_point *points, *normals; // n
    float *values;                                // FPFH_SIZE rows of n_padded
    float *square; // n_padded: of the descriptor's length; none: 1e30
    bool *rare;    // n: unlike most of the set's
};

struct register_match {
    uint32_t source, target;
    float distance2; // of the descriptors
    bool rare;       // both of them
};

// Points and normals of a level on the host, and their descriptors over radius_m. The cells' masks
// are made again from the points. 0 or -ENOMEM; free in both cases.
__attribute__((warn_unused_result)) int
register_features_make(struct register_features *out, struct pool *pool,
                       const struct register_surface *surface, float radius_m);
void register_features_free(struct register_features *features);

// Pairs that are each other's nearest, in the order of the source's points. `out` has room for
// source->n. 0 or -ENOMEM.
__attribute__((warn_unused_result)) int
register_features_match(struct pool *pool, const struct register_features *source,
                        const struct register_features *target, struct register_match *out,
                        uint32_t *out_n);

#endif

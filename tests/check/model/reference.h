// SPDX-License-Identifier: Apache-2.0
// The model once more: a dense lattice, double precision, written from Curless and Levoy 1996 and
// from what gpu/model/model.h promises; nothing shared with gpu/model/kernels. A ray looks for the
// surface in small steps.
#ifndef POSED_TESTS_CHECK_MODEL_REFERENCE_H
#define POSED_TESTS_CHECK_MODEL_REFERENCE_H

#include "gpu/model/model.h"

struct reference_frame {
    struct intrinsics camera;
    const float *map; // nx ny nz z, full resolution
    struct se3 T_map_camera;
};

// What one frame says of a lattice point: signed distance to the tangent plane of the pixel it
// falls on, truncated, and weight (0: nothing). False where rounding may decide otherwise.
bool reference_measure(const struct reference_frame *frame, double voxel_m, const double p_m[3],
                       double *out_distance_m, double *out_weight);

// Blocks ordered as model_order does, NULL if there is none.
const struct model_block *reference_block(const struct model_block *blocks, uint32_t n_blocks,
                                          int64_t x, int64_t y, int64_t z);

// Depth of the first place on the ray of pixel (u, v) where the trilinear distance falls through 0,
// between z_min and z_max; 0: none. NAN in the interpolation ends nothing: unseen space is passed.
double reference_ray(const struct model_block *blocks, uint32_t n_blocks, double voxel_m,
                     const struct intrinsics *camera, const struct se3 *T_map_camera, double u,
                     double v, double z_min_m, double z_max_m);

#endif

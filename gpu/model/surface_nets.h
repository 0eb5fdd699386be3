// SPDX-License-Identifier: Apache-2.0
// The model's surface as triangles with normals, for export: naive surface nets (Gibson 1998). One
// vertex in each cell of eight seen voxels that the surface passes, at the mean of the crossings of
// its edges; two triangles for each edge between voxels that the surface crosses. Plain data in,
// plain data out: any thread.
#ifndef POSED_GPU_MODEL_SURFACE_NETS_H
#define POSED_GPU_MODEL_SURFACE_NETS_H

#include "gpu/model/model.h"

struct model_surface {
    float *x_m, *y_m, *z_m, *nx, *ny, *nz; // n_points; normals towards where the camera was
    size_t n_points;
    uint32_t *triangles; // 3 * n_triangles indices, counter-clockwise seen from the camera's side
    size_t n_triangles;
};

// `blocks` ordered as model_order does. Voxels of less weight count as unseen (1: none do;
// 256 is a near surface seen squarely once). Returns 0, -EFBIG (more than 2^31 vertices) or
// -ENOMEM, then with *out empty.
__attribute__((warn_unused_result)) int model_surface_create(const struct model_block *blocks,
                                                             uint32_t n_blocks, float voxel_m,
                                                             uint16_t min_weight,
                                                             struct model_surface *out);
void model_surface_free(struct model_surface *surface); // empties it

#endif

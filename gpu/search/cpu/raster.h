// SPDX-License-Identifier: Apache-2.0
// Meshes on a pixel grid, on the CPU.
#ifndef POSED_GPU_SEARCH_CPU_RASTER_H
#define POSED_GPU_SEARCH_CPU_RASTER_H

#include "gpu/search/kernels/raster.h"

// Corners of a mesh on a pixel grid, one entry a vertex: see raster_snap in kernels/raster.h.
struct raster_mesh {
    const struct raster_point *corners;
    const float *value;
    const uint32_t *triangles;
    uint32_t n_triangles;
};

// Draws into `value` (width x height; start it at +infinity), keeping the smallest value of each
// pixel, and the index of its triangle in `index` (may be NULL; untouched pixels keep theirs).
void raster_draw(const struct raster_mesh *mesh, int width, int height, float *value,
                 uint32_t *index);

#endif

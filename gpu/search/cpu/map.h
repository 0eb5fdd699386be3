// SPDX-License-Identifier: Apache-2.0
// Range maps on the CPU: the rasteriser and the signed Euclidean distance transform.
#ifndef POSED_GPU_SEARCH_CPU_MAP_H
#define POSED_GPU_SEARCH_CPU_MAP_H

#include "gpu/search/kernels/raster.h"
#include "gpu/search/ops.h"

// Corners of a mesh on a pixel grid, one entry a vertex: see raster_snap in search_raster.h.
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

// Signed EDT of a size x size grid of enum search_kind (size <= SEARCH_WINDOW_PX), in 1/64 px.
void search_edt(const uint8_t *kind, int size, int16_t *out);

// The paper's algorithm 1: n_sweeps sweeps over the eight neighbours, each reading the result of
// the one before. For comparison; values in 1/64 px.
void search_edt_sweeps(const uint8_t *kind, int size, int n_sweeps, int16_t *out);

// Kinds of a size x size map of z (1/64 px; SEARCH_Z_NONE = background); outside is background.
void search_kinds(const int16_t *z, int size, uint8_t *out);

// Working memory of search_map_draw for one thread.
struct search_map_scratch {
    struct raster_point *corners; // n_vertices each
    float *z;
    float value[SEARCH_MAP_PX * SEARCH_MAP_PX];
    uint32_t index[SEARCH_MAP_PX * SEARCH_MAP_PX];
    uint8_t kind[SEARCH_MAP_PX * SEARCH_MAP_PX];
};

// Draws one reference view of `object`'s mesh.
void search_map_draw(const struct search_object *object, const float rotation[9],
                     struct search_map_scratch *scratch, struct search_map *out);

#endif

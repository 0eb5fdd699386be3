// SPDX-License-Identifier: Apache-2.0
// What a searchable object consists of: plain arrays, the same for both twins and in the view file.
// Private to gpu.
#ifndef POSED_GPU_SEARCH_OBJECT_H
#define POSED_GPU_SEARCH_OBJECT_H

#include "gpu/search/kernels/near_symmetry.h"
#include "gpu/search/kernels/range_map.h"
#include "gpu/search/search.h"

#define SEARCH_CORNERS_MAX 256

// One reference view. Its pixels are `n_chunks` chunks from `first_chunk` on.
struct search_view {
    float rotation[9]; // camera from model, row-major
    uint32_t first_chunk, n_chunks;
    uint32_t n_cover;         // foreground pixels
    int16_t start_u, start_v; // the paper's start point, px
    int16_t start_z;          // 1/64 px
    int16_t unused;
};

// The view at a quarter of the resolution, for the coarse pass.
struct search_coarse {
    int16_t z[SEARCH_COARSE_CELLS * SEARCH_COARSE_CELLS];    // 1/64 px, or SEARCH_COARSE_NONE
    int16_t ring[SEARCH_COARSE_CELLS * SEARCH_COARSE_CELLS]; // just outside: z of the boundary
    int16_t anchor_z[SEARCH_ANCHORS];
    uint8_t anchor_u[SEARCH_ANCHORS], anchor_v[SEARCH_ANCHORS];
    int8_t anchor_normal[SEARCH_ANCHORS][4]; // mean of the cell, x 127, in the view's frame
    uint16_t n_cells, n_ring;
    uint8_t row_first, row_end; // rows that hold cells or ring
    uint8_t n_anchors;
    uint8_t unused[9]; // a multiple of 16 bytes: rows are read as vectors
};

// A surface point of a view, for the refinement that needs no rendering; any first few of them are
// spread over the view. Ring points lie 3 to 4 px outside of the silhouette.
struct search_point {
    uint8_t u, v;
    int16_t z;        // 1/64 px; of a ring point: the silhouette's next to it
    int8_t normal[3]; // unit x 127, towards the camera; of a ring point: du, dv to just inside, 0
    uint8_t unused;
};

struct search_object {
    struct search_object_info info;
    struct search_near_symmetries near_symmetries; // moves that show it nearly as it is

    // Mesh about its centre, in map pixels (so that maps and mesh share their unit).
    float *x, *y, *z;
    uint32_t *triangles;
    uint32_t n_vertices, n_triangles;

    float corners_m[SEARCH_CORNERS_MAX][3]; // about its centre: object/corners.h
    uint32_t n_corners;

    uint32_t n_views;
    struct search_view *views;
    uint32_t n_chunks;
    uint16_t *chunk_offset; // of the chunk's first pixel: v * SEARCH_WINDOW_PX + u
    uint32_t *chunk_pairs;  // SEARCH_CHUNK pairs each (search_pair); EDT < 0: not of the object
    struct search_coarse *coarse; // one a view
    struct search_point *points;  // SEARCH_POINTS + SEARCH_RING_POINTS a view: surface, then ring
    uint32_t *n_points, *n_ring;  // of a view

    // The sparse set of directions that the coarse pass tries everywhere: `n_seeds` indices of
    // views, and for each the views nearest to it: children[child_first[s] .. child_first[s+1]).
    uint32_t n_seeds;
    uint32_t *seeds, *child_first, *children;
    float *seed_rotations; // blocks of 8 seeds: 9 x 8 values, entry by entry; padded with zeros

    void *device; // the backend's own copy, NULL on the CPU
};

#endif

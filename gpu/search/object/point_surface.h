// SPDX-License-Identifier: Apache-2.0
// A surface through points that come without faces (a model that was sampled or scanned). Three
// points make a triangle where a ball that touches them holds no other point: with one radius for
// all that is the boundary of the alpha shape (Edelsbrunner and Muecke 1994, "Three-dimensional
// alpha shapes"). Where an edge is left with one triangle only, wider balls are tried at that edge,
// as in Bernardini et al. 1999, "The ball-pivoting algorithm": gaps of the sampling close, and what
// is apart in the model stays apart. No normals and no orientation are needed; sheets and several
// parts are all right, as views are drawn of triangles from either side. Private to gpu.
#ifndef POSED_GPU_SEARCH_OBJECT_POINT_SURFACE_H
#define POSED_GPU_SEARCH_OBJECT_POINT_SURFACE_H

#include <stddef.h>
#include <stdint.h>

#define POINT_SURFACE_MOST 20000 // points that the surface goes through at most

struct point_surface {
    float *vertices_m;   // x y z of each
    uint32_t *triangles; // three vertex indices each, turned either way
    size_t n_vertices, n_triangles;
    double spacing_m; // of the points, as they are used
    double gap_m;     // a hole of the sampling is closed when it is no wider
};

// Points that are not finite or farther out than 1000 km are left out. What shares a cell becomes
// its mean; the cell is the box's diagonal by `n_across`, and grows until POINT_SURFACE_MOST are
// left. Points that all lie on one line have no surface: n_triangles is 0.
// Returns 0 (free *out), or with nothing to free: -EINVAL (less than three points), -ENOMEM.
__attribute__((warn_unused_result)) int
point_surface_make(const float *points_m, size_t n, uint32_t n_across, struct point_surface *out);

void point_surface_free(struct point_surface *surface);

#endif

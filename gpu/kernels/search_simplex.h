// SPDX-License-Identifier: Apache-2.0
// The downhill simplex (Nelder and Mead 1965) over a translation (x, y, z) in map pixels, written
// once for both twins. Whoever includes this file defines before
//   SIMPLEX_CONTEXT               the type that an evaluation needs, and
//   SIMPLEX_EVALUATE(ctx, x, y, z)  the error there, a float.
// Vertices stay sorted by error and every index is a constant, so that a GPU keeps them in
// registers. Coefficients are the usual ones: reflection 1, expansion 2, contraction and shrinkage
// 1/2.
#ifndef POSED_GPU_KERNELS_SEARCH_SIMPLEX_H
#define POSED_GPU_KERNELS_SEARCH_SIMPLEX_H

#include "gpu/kernels/search_error.h"

#ifdef SIMPLEX_CONTEXT

#define SIMPLEX_STEP_PX (0.05f * SEARCH_MAP_PX) // the paper: 5 % of the image width

struct simplex_vertex {
    float x, y, z, error;
};

#ifdef __CUDACC__
#define SIMPLEX_FN static __device__ __forceinline__
#else
#define SIMPLEX_FN static inline
#endif

SIMPLEX_FN void simplex_order(struct simplex_vertex *a, struct simplex_vertex *b)
{
    if (b->error < a->error) {
        struct simplex_vertex swap = *a;
        *a = *b;
        *b = swap;
    }
}

SIMPLEX_FN void simplex_sort(struct simplex_vertex v[4])
{
    simplex_order(&v[0], &v[1]);
    simplex_order(&v[2], &v[3]);
    simplex_order(&v[0], &v[2]);
    simplex_order(&v[1], &v[3]);
    simplex_order(&v[1], &v[2]);
}

SIMPLEX_FN struct simplex_vertex simplex_at(const SIMPLEX_CONTEXT *ctx, float x, float y, float z)
{
    struct simplex_vertex v = {x, y, z, SIMPLEX_EVALUATE(ctx, x, y, z)};
    return v;
}

// The point c + k (c - worst).
SIMPLEX_FN struct simplex_vertex simplex_move(const SIMPLEX_CONTEXT *ctx, const float c[3],
                                              const struct simplex_vertex *worst, float k)
{
    return simplex_at(ctx, c[0] + k * (c[0] - worst->x), c[1] + k * (c[1] - worst->y),
                      c[2] + k * (c[2] - worst->z));
}

SIMPLEX_FN void simplex_iterate(const SIMPLEX_CONTEXT *ctx, struct simplex_vertex v[4])
{
    float c[3] = {(v[0].x + v[1].x + v[2].x) * (1.f / 3), (v[0].y + v[1].y + v[2].y) * (1.f / 3),
                  (v[0].z + v[1].z + v[2].z) * (1.f / 3)};
    struct simplex_vertex reflected = simplex_move(ctx, c, &v[3], 1.f);
    if (reflected.error < v[0].error) {
        struct simplex_vertex expanded = simplex_move(ctx, c, &v[3], 2.f);
        v[3] = expanded.error < reflected.error ? expanded : reflected;
    } else if (reflected.error < v[2].error) {
        v[3] = reflected;
    } else {
        int outside = reflected.error < v[3].error;
        struct simplex_vertex near = simplex_move(ctx, c, &v[3], outside ? 0.5f : -0.5f);
        if (near.error < (outside ? reflected.error : v[3].error)) {
            v[3] = near;
        } else {
            for (int i = 1; i < 4; i++)
                v[i] = simplex_at(ctx, v[0].x + 0.5f * (v[i].x - v[0].x),
                                  v[0].y + 0.5f * (v[i].y - v[0].y),
                                  v[0].z + 0.5f * (v[i].z - v[0].z));
        }
    }
    simplex_sort(v);
}

// Runs n_iterations from (x, y, z) and returns the best vertex.
SIMPLEX_FN struct simplex_vertex simplex_run(const SIMPLEX_CONTEXT *ctx, float x, float y, float z,
                                             int n_iterations)
{
    struct simplex_vertex v[4] = {
        simplex_at(ctx, x, y, z), simplex_at(ctx, x + SIMPLEX_STEP_PX, y, z),
        simplex_at(ctx, x, y + SIMPLEX_STEP_PX, z), simplex_at(ctx, x, y, z + SIMPLEX_STEP_PX)};
    simplex_sort(v);
    for (int i = 0; i < n_iterations; i++)
        simplex_iterate(ctx, v);
    return v[0];
}

#endif // SIMPLEX_CONTEXT
#endif

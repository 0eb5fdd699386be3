// SPDX-License-Identifier: Apache-2.0
// Meshes on a pixel grid. At 64 x 64 pixels nearly all triangles of a scanned mesh lie between the
// pixel centres, so that the first step is made for saying no: to a block of triangles at once, by
// the boxes of their snapped corners and, where a box is one pixel, by the inside test, without a
// branch.
#include "gpu/search/cpu/raster.h"

#include <stddef.h>

#include "gpu/base/parallel.h"

#define BLOCK 64 // triangles

// Those of triangles first .. first + n - 1 that may cover a pixel's centre. Returns how many.
CPU_CLONES static uint32_t find_covering(const struct raster_mesh *mesh, uint32_t first, uint32_t n,
                                         int32_t width, int32_t height, uint32_t out[BLOCK])
{
    int32_t x[3][BLOCK], y[3][BLOCK], covers[BLOCK];
    for (uint32_t i = 0; i < n; i++)
        for (int k = 0; k < 3; k++) {
            const struct raster_point at =
                mesh->corners[mesh->triangles[3 * (size_t)(first + i) + (size_t)k]];
            x[k][i] = at.x;
            y[k][i] = at.y;
        }
#pragma omp simd
    for (uint32_t i = 0; i < n; i++) {
        const struct raster_point a = {x[0][i], y[0][i]}, b = {x[1][i], y[1][i]},
                                  c = {x[2][i], y[2][i]};
        covers[i] = raster_may_cover(a, b, c, raster_span_of(a.x, b.x, c.x, width),
                                     raster_span_of(a.y, b.y, c.y, height));
    }
    uint32_t n_out = 0;
    for (uint32_t i = 0; i < n; i++) {
        out[n_out] = first + i;
        n_out += covers[i] != 0;
    }
    return n_out;
}

static struct raster_corner corner_of(const struct raster_mesh *mesh, uint32_t vertex)
{
    const struct raster_point *at = &mesh->corners[vertex];
    return (struct raster_corner){at->x, at->y, mesh->value[vertex]};
}

static void draw_triangle(const struct raster_mesh *mesh, uint32_t i, int width, int height,
                          float *value, uint32_t *index)
{
    const uint32_t *t = mesh->triangles + 3 * (size_t)i;
    const struct raster_corner a = corner_of(mesh, t[0]), b = corner_of(mesh, t[1]),
                               c = corner_of(mesh, t[2]);
    struct raster_triangle triangle;
    if (!raster_setup(&a, &b, &c, width, height, &triangle))
        return;
    for (int v = triangle.v0; v <= triangle.v1; v++)
        for (int u = triangle.u0; u <= triangle.u1; u++) {
            float here;
            size_t at = (size_t)v * (size_t)width + (size_t)u;
            if (!raster_value(&triangle, u, v, &here) || !(here < value[at]))
                continue;
            value[at] = here;
            if (index)
                index[at] = i;
        }
}

void raster_draw(const struct raster_mesh *mesh, int width, int height, float *value,
                 uint32_t *index)
{
    uint32_t covering[BLOCK];
    for (uint32_t first = 0; first < mesh->n_triangles; first += BLOCK) {
        const uint32_t left = mesh->n_triangles - first;
        const uint32_t n =
            find_covering(mesh, first, left < BLOCK ? left : BLOCK, width, height, covering);
        for (uint32_t i = 0; i < n; i++)
            draw_triangle(mesh, covering[i], width, height, value, index);
    }
}

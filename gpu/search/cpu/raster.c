// SPDX-License-Identifier: Apache-2.0
// Meshes on a pixel grid. At 64 x 64 pixels nearly all triangles of a scanned mesh lie between the
// pixel centres, so that the first step is made for saying no: to a block of triangles at once, by
// the boxes of their snapped corners and, where a box is one pixel, by the inside test, without a
// branch.
#include <math.h>
#include <string.h>

#include "gpu/base/parallel.h"
#include "gpu/search/cpu/map.h"
#include "gpu/search/kernels/edge.h"
#include "gpu/search/kernels/raster.h"

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

CPU_CLONES static void turn_and_snap(const struct search_object *object, const float r[9],
                                     struct raster_point *restrict out, float *restrict out_z)
{
    const float *restrict x = object->x, *restrict y = object->y, *restrict z = object->z;
    for (uint32_t i = 0; i < object->n_vertices; i++) {
        out[i].x = raster_snap(SEARCH_CENTRE_PX + (r[0] * x[i] + r[1] * y[i] + r[2] * z[i]));
        out[i].y = raster_snap(SEARCH_CENTRE_PX + (r[3] * x[i] + r[4] * y[i] + r[5] * z[i]));
        out_z[i] = r[6] * x[i] + r[7] * y[i] + r[8] * z[i];
    }
}

// Unit normal of a triangle in the view's frame, turned to the camera, x 127.
static void normal_of(const struct search_object *object, uint32_t triangle, const float r[9],
                      int8_t out[3])
{
    const uint32_t *t = object->triangles + 3 * (size_t)triangle;
    float ab[3] = {object->x[t[1]] - object->x[t[0]], object->y[t[1]] - object->y[t[0]],
                   object->z[t[1]] - object->z[t[0]]};
    float ac[3] = {object->x[t[2]] - object->x[t[0]], object->y[t[2]] - object->y[t[0]],
                   object->z[t[2]] - object->z[t[0]]};
    search_normal(ab, ac, r, out);
}

void search_map_draw(const struct search_object *object, const float rotation[9],
                     struct search_map_scratch *scratch, struct search_map *out)
{
    enum { N = SEARCH_MAP_PX * SEARCH_MAP_PX };
    turn_and_snap(object, rotation, scratch->corners, scratch->z);
    for (int i = 0; i < N; i++)
        scratch->value[i] = INFINITY;
    struct raster_mesh mesh = {scratch->corners, scratch->z, object->triangles,
                               object->n_triangles};
    raster_draw(&mesh, SEARCH_MAP_PX, SEARCH_MAP_PX, scratch->value, scratch->index);

    memset(out->normal, 0, sizeof out->normal);
    for (int i = 0; i < N; i++) {
        bool hit = scratch->value[i] < INFINITY;
        out->z[i] = hit ? (int16_t)search_depth_fixed(scratch->value[i]) : SEARCH_Z_NONE;
        if (hit)
            normal_of(object, scratch->index[i], rotation, out->normal + 3 * i);
    }
    search_kinds(out->z, SEARCH_MAP_PX, scratch->kind);
    search_edt(scratch->kind, SEARCH_MAP_PX, out->edt);
}

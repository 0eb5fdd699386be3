// SPDX-License-Identifier: Apache-2.0
// Meshes on a pixel grid. At 64 x 64 pixels nearly all triangles of a scanned mesh lie between the
// pixel centres, so that the loop is made for saying no: one compare of the snapped corners.
#include <math.h>
#include <string.h>

#include "gpu/cpu/parallel.h"
#include "gpu/cpu/search_map.h"
#include "gpu/kernels/search_edge.h"
#include "gpu/kernels/search_raster.h"

void raster_draw(const struct raster_mesh *mesh, int width, int height, float *value,
                 uint32_t *index)
{
    for (uint32_t i = 0; i < mesh->n_triangles; i++) {
        const uint32_t *t = mesh->triangles + 3 * (size_t)i;
        struct raster_corner a = {mesh->x[t[0]], mesh->y[t[0]], mesh->value[t[0]]};
        struct raster_corner b = {mesh->x[t[1]], mesh->y[t[1]], mesh->value[t[1]]};
        struct raster_corner c = {mesh->x[t[2]], mesh->y[t[2]], mesh->value[t[2]]};
        struct raster_triangle triangle;
        if (!raster_setup(&a, &b, &c, width, height, &triangle))
            continue;
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
}

CPU_CLONES static void turn_and_snap(const struct search_object *object, const float r[9],
                                     int32_t *restrict out_x, int32_t *restrict out_y,
                                     float *restrict out_z)
{
    const float *restrict x = object->x, *restrict y = object->y, *restrict z = object->z;
    for (uint32_t i = 0; i < object->n_vertices; i++) {
        out_x[i] = raster_snap(SEARCH_CENTRE_PX + (r[0] * x[i] + r[1] * y[i] + r[2] * z[i]));
        out_y[i] = raster_snap(SEARCH_CENTRE_PX + (r[3] * x[i] + r[4] * y[i] + r[5] * z[i]));
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
    turn_and_snap(object, rotation, scratch->x, scratch->y, scratch->z);
    for (int i = 0; i < N; i++)
        scratch->value[i] = INFINITY;
    struct raster_mesh mesh = {scratch->x, scratch->y, scratch->z, object->triangles,
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

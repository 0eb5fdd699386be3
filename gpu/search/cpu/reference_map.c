// SPDX-License-Identifier: Apache-2.0
#include "gpu/search/cpu/reference_map.h"

#include <math.h>
#include <string.h>

#include "gpu/base/parallel.h"
#include "gpu/search/cpu/edt.h"
#include "gpu/search/cpu/raster.h"
#include "gpu/search/kernels/depth_edges.h"

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

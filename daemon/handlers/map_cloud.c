// SPDX-License-Identifier: Apache-2.0
// GetMapCloud: the map's surface as points with normals, thinned to what may be sent and
// then moved: to move all blocks first takes seconds.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/handlers/handlers.h"
#include "daemon/map_export.h"
#include "daemon/map_saved.h"
#include "proto/se3.h"

#define CELL_MAX  1048576 // cells along an axis, either way
#define COARSER   1.25    // from one try to the next
#define VOXEL_MAX 10.0

// The cell of a point as a number; far points share the outermost ones.
static uint64_t cell_of(const struct model_surface *s, size_t i, double voxel_m)
{
    const double p[3] = {(double)s->x_m[i], (double)s->y_m[i], (double)s->z_m[i]};
    uint64_t key = 0;
    for (int k = 0; k < 3; k++) {
        double cell = fmin(fmax(floor(p[k] / voxel_m), -CELL_MAX), CELL_MAX - 1);
        key = key << 21 | (uint64_t)(cell + CELL_MAX);
    }
    return key;
}

// Marks the first point of each cell, the surface's order deciding. Returns how many. `table` has
// n_table places, a power of two, twice the points or more.
static size_t choose(const struct model_surface *s, double voxel_m, uint64_t *table, size_t n_table,
                     uint32_t *out)
{
    size_t n = 0;
    memset(table, 0xff, n_table * sizeof *table);
    for (size_t i = 0; i < s->n_points; i++) {
        uint64_t key = cell_of(s, i, voxel_m);
        size_t at = (key * UINT64_C(0x9E3779B97F4A7C15) >> 20) & (n_table - 1);
        while (table[at] != UINT64_MAX && table[at] != key)
            at = (at + 1) & (n_table - 1);
        if (table[at] == key)
            continue;
        table[at] = key;
        out[n++] = (uint32_t)i;
    }
    return n;
}

// Indices of the points to send, to be freed; *voxel_m 0: as fine as max_points allows, and set to
// what came of it. Returns how many; NULL in *out: no memory.
static size_t thin(const struct model_surface *s, uint32_t max_points, double *voxel_m,
                   double model_voxel_m, uint32_t **out)
{
    size_t n_table = 4, n = s->n_points;
    bool finest = *voxel_m <= 0;
    *out = malloc((s->n_points + 1) * sizeof **out);
    while (n_table < 2 * s->n_points)
        n_table *= 2;
    if (finest && s->n_points <= max_points) {
        for (size_t i = 0; i < n && *out; i++)
            (*out)[i] = (uint32_t)i;
        return n;
    }
    uint64_t *table = malloc(n_table * sizeof *table);
    if (!table || !*out) {
        free(table);
        free(*out);
        *out = NULL;
        return 0;
    }
    if (finest)
        *voxel_m = model_voxel_m;
    n = choose(s, *voxel_m, table, n_table, *out);
    while (finest && n > max_points && *voxel_m < VOXEL_MAX) {
        *voxel_m *= COARSER;
        n = choose(s, *voxel_m, table, n_table, *out);
    }
    free(table);
    return n;
}

// Keeps the chosen points, each where the keyframes that saw it lie.
static void keep_moved(struct model_surface *s, const uint32_t *chosen, size_t n,
                       const struct deformation_field *correction, double voxel_m)
{
    for (size_t k = 0; k < n; k++) { // to a place that has been read: k <= i
        const uint32_t i = chosen[k];
        const double p[3] = {(double)s->x_m[i], (double)s->y_m[i], (double)s->z_m[i]};
        const double normal[3] = {(double)s->nx[i], (double)s->ny[i], (double)s->nz[i]};
        struct se3 T = deformation_field_at(correction, voxel_m, p);
        double moved[3], turned[3];
        se3_apply(&T, p, moved);
        memset(T.t_m, 0, sizeof T.t_m);
        se3_apply(&T, normal, turned);
        s->x_m[k] = (float)moved[0];
        s->y_m[k] = (float)moved[1];
        s->z_m[k] = (float)moved[2];
        s->nx[k] = (float)turned[0];
        s->ny[k] = (float)turned[1];
        s->nz[k] = (float)turned[2];
    }
    s->n_points = n;
}

// The points and behind them the normals.
static void pack(const struct model_surface *s, const uint32_t *chosen, size_t n, float *out)
{
    for (size_t k = 0; k < n; k++) {
        const uint32_t i = chosen[k];
        const float point[3] = {s->x_m[i], s->y_m[i], s->z_m[i]};
        const float normal[3] = {s->nx[i], s->ny[i], s->nz[i]};
        memcpy(out + 3 * k, point, sizeof point);
        memcpy(out + 3 * (n + k), normal, sizeof normal);
    }
}

static void fill(struct handlers *handlers, const struct handlers_call *call,
                 struct model_surface *surface, const struct map_contents *map)
{
    const uint32_t max_points = handlers->config->requests.max_points;
    const double model_voxel_m = (double)handlers->config->map.voxel_m;
    double voxel_m = call->request->what.get_map_cloud.voxel_m;
    uint32_t *chosen;
    size_t n = thin(surface, max_points, &voxel_m, model_voxel_m, &chosen);
    if (chosen && n > max_points) {
        handlers_fail(call->reply, posed_Code_INVALID_ARGUMENT, "get_map_cloud.voxel_m",
                      "%zu points exceed requests.max_points = %u; a larger voxel helps", n,
                      max_points);
        free(chosen);
        return;
    }
    if (chosen && !deformation_field_is_none(&map->correction, model_voxel_m)) {
        keep_moved(surface, chosen, n, &map->correction, model_voxel_m);
        free(chosen);
        n = thin(surface, max_points, &voxel_m, model_voxel_m, &chosen);
    }
    float *points = chosen ? malloc((6 * n + 1) * sizeof *points) : NULL;
    if (!points) {
        handlers_fail_work(call->reply, -ENOMEM, NULL);
        free(chosen);
        return;
    }
    pack(surface, chosen, n, points);
    free(chosen);
    call->reply->what.get_map_cloud =
        (posed_MapCloud){.map_epoch = map->epoch,
                         .n_points = (uint32_t)n,
                         .voxel_m = voxel_m,
                         .has_map_from_odom = true,
                         .map_from_odom = wire_pose(&map->T_map_odom, NULL)};
    *call->pieces = (struct handlers_payload){
        .memory = points,
        .pieces = {{WIRE_CLOUD_POINTS, points, 3 * n * sizeof *points},
                   {WIRE_CLOUD_NORMALS, points + 3 * n, 3 * n * sizeof *points}},
        .n_pieces = 2,
    };
}

void handlers_get_map_cloud(struct handlers *handlers, const struct handlers_call *call)
{
    const double voxel_m = call->request->what.get_map_cloud.voxel_m;
    struct map_contents map;
    struct intrinsics camera;
    struct model_surface surface;
    if (!(voxel_m == 0 || (voxel_m >= 1e-3 && voxel_m <= VOXEL_MAX))) {
        handlers_fail(call->reply, posed_Code_INVALID_ARGUMENT, "get_map_cloud.voxel_m",
                      "0, or 0.001 to %g m is wanted", VOXEL_MAX);
        return;
    }
    if (!handlers_read_map(handlers, call, &map, &camera))
        return;
    int error =
        map_export_surface(map.blocks, map.n_blocks, handlers->config->map.voxel_m, &surface);
    if (error == -ENODATA)
        handlers_fail(call->reply, posed_Code_FAILED_PRECONDITION, NULL, "%s",
                      map_export_why_none(map.n_left_out));
    else if (error)
        handlers_fail_work(call->reply, error, NULL);
    else
        fill(handlers, call, &surface, &map);
    if (!error)
        model_surface_free(&surface);
    map_contents_free(&map);
}

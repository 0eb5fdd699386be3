// SPDX-License-Identifier: Apache-2.0
#include "gpu/search/cpu/start_points.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/search/host.h"
#include "gpu/search/kernels/depth_edges.h"
#include "gpu/search/kernels/start_points.h"

struct search_frame search_frame_at(const float point_m[3], float px_m)
{
    struct search_frame frame;
    search_start_frame(point_m, px_m, &frame);
    return frame;
}

int search_start_nearest(const float *z_m, const struct search_camera *c, float px_m,
                         struct search_frame *out)
{
    // Distance to the nearest edge, grown outwards in steps of the thinned image (a chamfer
    // distance: the start point need not be exact), in pixels of the map at that depth.
    enum { STEP = 4 };
    int width = c->width / STEP, height = c->height / STEP;
    if (width < 3 || height < 3)
        return -ENODATA;
    float *z = malloc((size_t)width * (size_t)height * sizeof *z);
    float *d = malloc((size_t)width * (size_t)height * sizeof *d);
    int err = z && d ? -ENODATA : -ENOMEM;
    if (err == -ENOMEM)
        goto out;
    for (int v = 0; v < height; v++)
        for (int u = 0; u < width; u++) {
            // The median of five keeps lone specks from being the nearest thing in the scene.
            const float *p =
                z_m + (size_t)(v * STEP + 2) * (size_t)c->width + (size_t)(u * STEP + 2);
            float a[5] = {p[0], p[-1], p[1], p[-c->width], p[c->width > 0 ? c->width : 0]};
            for (int i = 1; i < 5; i++)
                for (int k = i; k > 0 && a[k] < a[k - 1]; k--) {
                    float swap = a[k];
                    a[k] = a[k - 1];
                    a[k - 1] = swap;
                }
            z[v * width + u] = a[2];
        }
    const float step = 0.04f * SEARCH_MAP_PX * px_m * 2;
    for (int i = 0; i < width * height; i++) {
        int u = i % width, v = i / width;
        bool edge = u == 0 || v == 0 || u == width - 1 || v == height - 1 || z[i] == 0.f;
        for (int k = 0; k < 4 && !edge; k++) {
            int n = i + (k == 0) - (k == 1) + (k == 2) * width - (k == 3) * width;
            edge = z[n] == 0.f || z[n] - z[i] > step;
        }
        d[i] = edge ? 0 : 1e6f;
    }
    for (int pass = 0; pass < 2; pass++)
        for (int j = 0; j < width * height; j++) {
            int i = pass ? width * height - 1 - j : j, u = i % width, v = i / width;
            int back = pass ? 1 : -1;
            if (u + back >= 0 && u + back < width)
                d[i] = fminf(d[i], d[i + back] + 1);
            if (v + back >= 0 && v + back < height) {
                d[i] = fminf(d[i], d[i + back * width] + 1);
                if (u > 0)
                    d[i] = fminf(d[i], d[i + back * width - 1] + 1.414f);
                if (u < width - 1)
                    d[i] = fminf(d[i], d[i + back * width + 1] + 1.414f);
            }
        }
    float best = -INFINITY;
    for (int i = 0; i < width * height; i++) {
        if (z[i] == 0.f)
            continue;
        float px = d[i] * STEP * z[i] / fabsf(c->fx) / px_m;
        px = px < SEARCH_EDT_MAX_PX ? px : SEARCH_EDT_MAX_PX;
        float value = 0.5f * px - z[i] / px_m;
        if (value < best)
            continue;
        best = value;
        float point[3];
        search_start_point(c, i % width * STEP + 2, i / width * STEP + 2, z[i], point);
        *out = search_frame_at(point, px_m);
        err = 0;
    }
out:
    free(z);
    free(d);
    return err;
}

// One start per occupied cube, through an open hash table of cubes.
static uint32_t starts_of_size(const float *z_m, const struct search_camera *c, float cube_m,
                               float px_m, struct search_frame *out)
{
    enum { STEP = SEARCH_START_STEP };
    uint32_t table[SEARCH_START_TABLE], n = 0;
    struct search_cube cubes[SEARCH_STARTS_MAX];
    memset(table, 0xff, sizeof table);
    for (int v = STEP; v < c->height - STEP; v += STEP)
        for (int u = STEP; u < c->width - STEP; u += STEP) {
            float z = z_m[(size_t)v * (size_t)c->width + (size_t)u], p[3];
            if (!(z > 0))
                continue;
            search_start_point(c, u, v, z, p);
            struct search_cube cube = search_cube_of(p, cube_m);
            uint32_t at = search_cube_hash(&cube) & (SEARCH_START_TABLE - 1);
            while (table[at] != UINT32_MAX && memcmp(&cubes[table[at]], &cube, sizeof cube) != 0)
                at = (at + 1) & (SEARCH_START_TABLE - 1);
            if (table[at] != UINT32_MAX)
                continue;
            if (n == SEARCH_STARTS_MAX)
                return n + 1;
            table[at] = n;
            cubes[n] = cube;
            search_start_frame(p, px_m, &out[n++]);
        }
    return n;
}

uint32_t search_starts(const float *z_m, const float *normal_z, const struct search_camera *camera,
                       const struct search_object *object, struct search_frame *out)
{
    const struct search_scene scene = {normal_z, *camera};
    float cube_m = SEARCH_START_CUBE * object->info.radius_m;
    uint32_t n = starts_of_size(z_m, camera, cube_m, object->info.map_px_m, out);
    while (n > SEARCH_STARTS_MAX) {
        cube_m *= SEARCH_START_GROW;
        n = starts_of_size(z_m, camera, cube_m, object->info.map_px_m, out);
    }
    for (uint32_t i = 0; i < n; i++) {
        struct search_start_around at =
            search_start_surroundings(camera, &out[i], object->info.radius_m);
        int32_t sum[3] = {0, 0, 0};
        for (int y = at.v - at.r; y <= at.v + at.r; y++)
            for (int x = at.u - at.r; x <= at.u + at.r; x++)
                search_start_add(&scene, &at, x, y, sum);
        search_start_normal(sum, &out[i]);
    }
    return n;
}

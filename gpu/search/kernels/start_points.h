// SPDX-License-Identifier: Apache-2.0
// Start points all over the visible surface: the first pixel, in reading order, of each cube of
// space that holds some, and the surface's normal there.
#ifndef POSED_GPU_SEARCH_KERNELS_START_POINTS_H
#define POSED_GPU_SEARCH_KERNELS_START_POINTS_H

#include "gpu/search/kernels/pose.h"

#define SEARCH_STARTS_MAX  1536
#define SEARCH_START_STEP  3     // pixels; only every third of every third row may be a start
#define SEARCH_START_CUBE  0.22f // edge, in radii of the object
#define SEARCH_START_GROW  1.2f  // cubes grow by this until there are few enough
#define SEARCH_START_TABLE 4096  // open hash table of cubes
#define SEARCH_NORMAL_UNIT 65536.f

struct search_cube {
    int32_t x, y, z;
};

KERNEL_FN void search_start_point(const struct search_camera *c, int u, int v, float z,
                                  float out[3])
{
    out[0] = ((float)u - c->cx) / c->fx * z;
    out[1] = ((float)v - c->cy) / c->fy * z;
    out[2] = z;
}

// Far points of cubes without size fall into the last one that an int32_t can number.
KERNEL_FN int32_t search_cube_number(float x)
{
    return (int32_t)fminf(fmaxf(floorf(x), -1e9f), 1e9f);
}

KERNEL_FN struct search_cube search_cube_of(const float p[3], float cube_m)
{
    struct search_cube cube = {search_cube_number(p[0] / cube_m), search_cube_number(p[1] / cube_m),
                               search_cube_number(p[2] / cube_m)};
    return cube;
}

KERNEL_FN uint32_t search_cube_hash(const struct search_cube *cube)
{
    return ((uint32_t)cube->x * 73856093u) ^ ((uint32_t)cube->y * 19349663u) ^
           ((uint32_t)cube->z * 83492791u);
}

// The frame that looks at a point of the camera's frame along its ray; without a normal.
KERNEL_FN void search_start_frame(const float point_m[3], float px_m, struct search_frame *out)
{
    search_frame_rotation(point_m, out->rotation);
    search_turn(out->rotation, point_m, out->start_m);
    out->px_m = px_m;
    out->normal[0] = out->normal[1] = out->normal[2] = 0;
}

// Where the normals around a start are taken from: a tenth of the object's radius, at most 6
// pixels.
struct search_start_around {
    float z_m, step_m; // a pixel counts when its depth is within step_m of z_m
    int u, v, r;
};

KERNEL_FN struct search_start_around search_start_surroundings(const struct search_camera *c,
                                                               const struct search_frame *frame,
                                                               float radius_m)
{
    float p[3];
    search_turn_back(frame->rotation, frame->start_m, p);
    int r = (int)(0.1f * radius_m * kernel_abs(c->fx) / p[2]);
    struct search_start_around out = {p[2], 0.2f * radius_m,
                                      (int)(c->fx * p[0] / p[2] + c->cx + 0.5f),
                                      (int)(c->fy * p[1] / p[2] + c->cy + 0.5f),
                                      r < 1   ? 1
                                      : r > 6 ? 6
                                              : r};
    return out;
}

// Adds the normal of pixel (x, y) to sums of integers.
KERNEL_FN void search_start_add(const struct search_scene *scene,
                                const struct search_start_around *around, int x, int y,
                                int32_t sum[3])
{
    if (x < 0 || y < 0 || x >= scene->camera.width || y >= scene->camera.height)
        return;
    const float *n = scene->normal_z + 4 * ((size_t)y * (size_t)scene->camera.width + (size_t)x);
    if (kernel_abs(n[3] - around->z_m) > around->step_m)
        return;
    for (int k = 0; k < 3; k++)
        sum[k] += (int32_t)(n[k] * SEARCH_NORMAL_UNIT);
}

// The mean of the sums as the frame's normal.
KERNEL_FN void search_start_normal(const int32_t sum[3], struct search_frame *frame)
{
    float s[3] = {(float)sum[0] / SEARCH_NORMAL_UNIT, (float)sum[1] / SEARCH_NORMAL_UNIT,
                  (float)sum[2] / SEARCH_NORMAL_UNIT};
    float length = sqrtf(s[0] * s[0] + s[1] * s[1] + s[2] * s[2]);
    search_turn(frame->rotation, s, frame->normal);
    for (int k = 0; k < 3; k++)
        frame->normal[k] = length < 1 ? 0.f : frame->normal[k] / length;
}

#endif

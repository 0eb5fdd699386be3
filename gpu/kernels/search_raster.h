// SPDX-License-Identifier: Apache-2.0
// One triangle on a pixel grid: the rasteriser of both twins.
//
// Corners are snapped to 1/256 px and edges are tested in integers, inclusive on every side: two
// triangles that share an edge leave no crack between them, whatever the order of their corners.
// The value of a pixel is linear over the triangle: z of an orthographic map, 1/z of a perspective
// one. The caller keeps the nearest value; equal values keep the lower triangle index.
#ifndef POSED_GPU_KERNELS_SEARCH_RASTER_H
#define POSED_GPU_KERNELS_SEARCH_RASTER_H

#include <math.h>

#include "gpu/kernels/search_map.h"

#define RASTER_SUB   256
#define RASTER_LIMIT (1 << 22) // corners farther out than 16,384 px are not drawn

struct raster_corner {
    int32_t x, y; // 1/256 px
    float value;
};

struct raster_triangle {
    int64_t area2; // twice the signed area, never 0
    struct raster_corner a;
    int32_t bx, by, cx, cy; // b - a, c - a
    float slope_b, slope_c; // (value_b - value_a) / area2, (value_c - value_a) / area2
    int32_t u0, u1, v0, v1; // pixels to visit, inclusive
};

// A coordinate in px to 1/256 px; what cannot be drawn becomes RASTER_LIMIT.
SEARCH_FN int32_t raster_snap(float px)
{
    float scaled = px * (float)RASTER_SUB;
    return scaled > -(float)RASTER_LIMIT && scaled < (float)RASTER_LIMIT ? (int32_t)lrintf(scaled)
                                                                         : RASTER_LIMIT;
}

// Returns 0 when the triangle covers no pixel centre of the width x height grid: outside, between
// the centres, degenerate, or with a corner that could not be snapped.
SEARCH_FN int raster_setup(const struct raster_corner *a, const struct raster_corner *b,
                           const struct raster_corner *c, int width, int height,
                           struct raster_triangle *out)
{
    int32_t x0 = a->x < b->x ? a->x : b->x, x1 = a->x < b->x ? b->x : a->x;
    x0 = c->x < x0 ? c->x : x0;
    x1 = c->x < x1 ? x1 : c->x;
    out->u0 = (x0 + RASTER_SUB - 1) >> 8; // rounds up, also below 0
    out->u1 = x1 >> 8;
    out->u0 = out->u0 < 0 ? 0 : out->u0;
    out->u1 = out->u1 < width ? out->u1 : width - 1;
    if (out->u0 > out->u1 || x1 >= RASTER_LIMIT)
        return 0;
    int32_t y0 = a->y < b->y ? a->y : b->y, y1 = a->y < b->y ? b->y : a->y;
    y0 = c->y < y0 ? c->y : y0;
    y1 = c->y < y1 ? y1 : c->y;
    out->v0 = (y0 + RASTER_SUB - 1) >> 8;
    out->v1 = y1 >> 8;
    out->v0 = out->v0 < 0 ? 0 : out->v0;
    out->v1 = out->v1 < height ? out->v1 : height - 1;
    if (out->v0 > out->v1 || y1 >= RASTER_LIMIT)
        return 0;
    out->bx = b->x - a->x;
    out->by = b->y - a->y;
    out->cx = c->x - a->x;
    out->cy = c->y - a->y;
    out->area2 = (int64_t)out->bx * out->cy - (int64_t)out->by * out->cx;
    if (out->area2 == 0)
        return 0;
    out->a = *a;
    out->slope_b = (b->value - a->value) / (float)out->area2;
    out->slope_c = (c->value - a->value) / (float)out->area2;
    return 1;
}

// Value at the centre of pixel (u, v). Returns 0 when the triangle does not cover it.
SEARCH_FN int raster_value(const struct raster_triangle *t, int u, int v, float *out)
{
    int64_t px = (int64_t)u * RASTER_SUB - t->a.x, py = (int64_t)v * RASTER_SUB - t->a.y;
    int64_t wb = px * t->cy - py * t->cx, wc = py * t->bx - px * t->by;
    int64_t wa = t->area2 - wb - wc;
    if (t->area2 > 0 ? (wa < 0 || wb < 0 || wc < 0) : (wa > 0 || wb > 0 || wc > 0))
        return 0;
    *out = t->a.value + (float)wb * t->slope_b + (float)wc * t->slope_c;
    return 1;
}

// A depth in px to 1/64 px.
SEARCH_FN int search_depth_fixed(float px)
{
    return (int)(px * (float)SEARCH_UNIT + (px < 0.f ? -0.5f : 0.5f));
}

// Unit normal of a triangle with edges ab, ac (model frame) in the view's frame, turned to the
// camera, x 127; zero when the triangle has no area.
SEARCH_FN void search_normal(const float ab[3], const float ac[3], const float rotation[9],
                             int8_t out[3])
{
    const float *r = rotation;
    float n[3] = {ab[1] * ac[2] - ab[2] * ac[1], ab[2] * ac[0] - ab[0] * ac[2],
                  ab[0] * ac[1] - ab[1] * ac[0]};
    float length = sqrtf(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
    float m[3] = {r[0] * n[0] + r[1] * n[1] + r[2] * n[2], r[3] * n[0] + r[4] * n[1] + r[5] * n[2],
                  r[6] * n[0] + r[7] * n[1] + r[8] * n[2]};
    float scale = length > 0.f ? 127.f / length : 0.f;
    scale = m[2] > 0.f ? -scale : scale;
    for (int i = 0; i < 3; i++) {
        float value = m[i] * scale;
        out[i] = (int8_t)(value + (value < 0.f ? -0.5f : 0.5f));
    }
}

#endif

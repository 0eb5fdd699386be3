// SPDX-License-Identifier: Apache-2.0
// One triangle on a pixel grid: the rasteriser of both twins.
//
// Corners are snapped to 1/256 px and edges are tested in integers, inclusive on every side: two
// triangles that share an edge leave no crack between them, whatever the order of their corners.
// The value of a pixel is linear over the triangle: z of an orthographic map, 1/z of a perspective
// one. The caller keeps the nearest value; equal values keep the lower triangle index.
#ifndef POSED_GPU_SEARCH_KERNELS_RASTER_H
#define POSED_GPU_SEARCH_KERNELS_RASTER_H

#include <math.h>

#include "gpu/search/kernels/range_map.h"

#define RASTER_SUB   256
#define RASTER_LIMIT (1 << 22) // corners farther out than 16,384 px are not drawn

struct raster_point {
    int32_t x, y; // 1/256 px
};

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

// A coordinate in px to 1/256 px; what cannot be drawn becomes RASTER_LIMIT. The sum rounds as
// lrintf does (no compiler may reorder it), but on the CPU's vectors, too.
SEARCH_FN int32_t raster_snap(float px)
{
    const float rounds = 12582912.f; // 1.5 x 2^23: the next float is 1 away
    const float scaled = px * (float)RASTER_SUB;
    const int inside = (scaled > -(float)RASTER_LIMIT) & (scaled < (float)RASTER_LIMIT);
    return inside ? (int32_t)(scaled + rounds - rounds) : RASTER_LIMIT;
}

// Of three corners' x (or y): the pixels of 0 .. size - 1 whose centres lie between the smallest
// and the largest. first > last: none, or a corner that could not be snapped.
struct raster_span {
    int32_t first, last;
};

// Without a branch, for the CPU's vectors.
SEARCH_FN struct raster_span raster_span_of(int32_t a, int32_t b, int32_t c, int32_t size)
{
    int32_t low = a < b ? a : b, high = a < b ? b : a;
    low = c < low ? c : low;
    high = c < high ? high : c;
    struct raster_span out = {(low + RASTER_SUB - 1) >> 8, high >> 8}; // rounds up, also below 0
    out.first = out.first < 0 ? 0 : out.first;
    out.last = out.last < size ? out.last : size - 1;
    out.last = high < RASTER_LIMIT ? out.last : -1;
    return out;
}

// Whether the triangle may cover a pixel's centre within the spans of its corners, and where that
// is one pixel and the triangle small, whether it does: raster_setup and the test of raster_value
// in 32 bits and without a branch, for the CPU's vectors.
SEARCH_FN int raster_may_cover(struct raster_point a, struct raster_point b, struct raster_point c,
                               struct raster_span u, struct raster_span v)
{
    const uint32_t bx = (uint32_t)b.x - (uint32_t)a.x, by = (uint32_t)b.y - (uint32_t)a.y;
    const uint32_t cx = (uint32_t)c.x - (uint32_t)a.x, cy = (uint32_t)c.y - (uint32_t)a.y;
    const uint32_t px = (uint32_t)u.first * RASTER_SUB - (uint32_t)a.x;
    const uint32_t py = (uint32_t)v.first * RASTER_SUB - (uint32_t)a.y;
    const uint32_t area2 = bx * cy - by * cx, wb = px * cy - py * cx, wc = py * bx - px * by;
    const uint32_t turned = 0u - (area2 >> 31); // all ones: clockwise, where none may be positive
    const uint32_t signs = (((area2 - wb - wc) ^ turned) - turned) | ((wb ^ turned) - turned) |
                           ((wc ^ turned) - turned);
    const int32_t fails = (int32_t)(signs | ~(area2 | (0u - area2)));
    const int32_t extent = (u.last - u.first) | (v.last - v.first); // < 0: none, 0: one pixel
    // Not 0 where a corner is 32 px or more from a: there 32 bits may not suffice.
    const uint32_t reach = RASTER_SUB * 32;
    const uint32_t far = (bx + reach) | (by + reach) | (cx + reach) | (cy + reach);
    return ((extent | (int32_t)(far / (2 * reach))) == 0 ? fails : extent) >= 0;
}

// Returns 0 when the triangle covers no pixel centre of the width x height grid: outside, between
// the centres, degenerate, or with a corner that could not be snapped.
SEARCH_FN int raster_setup(const struct raster_corner *a, const struct raster_corner *b,
                           const struct raster_corner *c, int width, int height,
                           struct raster_triangle *out)
{
    const struct raster_span u = raster_span_of(a->x, b->x, c->x, width);
    if (u.first > u.last)
        return 0;
    const struct raster_span v = raster_span_of(a->y, b->y, c->y, height);
    if (v.first > v.last)
        return 0;
    out->u0 = u.first;
    out->u1 = u.last;
    out->v0 = v.first;
    out->v1 = v.last;
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

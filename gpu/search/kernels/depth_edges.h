// SPDX-License-Identifier: Apache-2.0
// Edges of a range map and the signed distance to them (Germann et al. 2007, section 3).
//
// A pixel is an edge when a direct neighbour is background or lies farther behind it than 4 % of
// the image width: the near side of a step, so that every edge pixel has a depth. The transform is
// exact, cut at SEARCH_EDT_MAX_PX; the paper's seven sweeps approximate it and stop at the same
// value (compared in tests/unit/gpu/test_search_range_map.c).
#ifndef POSED_GPU_SEARCH_KERNELS_DEPTH_EDGES_H
#define POSED_GPU_SEARCH_KERNELS_DEPTH_EDGES_H

#include <math.h>

#include "gpu/search/kernels/range_map.h"

#define SEARCH_EDGE_STEP ((int)(0.04f * SEARCH_MAP_PX * SEARCH_UNIT)) // 1/64 px
#define SEARCH_Z_NONE    32767                                        // background

enum search_kind { SEARCH_KIND_BACKGROUND, SEARCH_KIND_FOREGROUND, SEARCH_KIND_EDGE };

SEARCH_FN int search_kind(int z, int left, int right, int up, int down)
{
    if (z == SEARCH_Z_NONE)
        return SEARCH_KIND_BACKGROUND;
    int edge = left - z > SEARCH_EDGE_STEP || right - z > SEARCH_EDGE_STEP ||
               up - z > SEARCH_EDGE_STEP || down - z > SEARCH_EDGE_STEP;
    return edge ? SEARCH_KIND_EDGE : SEARCH_KIND_FOREGROUND;
}

// Squared distance in px^2 -> distance in 1/64 px, cut.
SEARCH_FN int search_edt_distance(int squared)
{
    if (squared > SEARCH_EDT_MAX_PX * SEARCH_EDT_MAX_PX)
        return SEARCH_EDT_MAX_PX * SEARCH_UNIT;
    return (int)(sqrtf((float)squared) * (float)SEARCH_UNIT + 0.5f);
}

SEARCH_FN int search_edt_sign(int distance, int kind)
{
    return kind == SEARCH_KIND_BACKGROUND ? -distance : distance;
}

// Median of nine; background takes part as the farthest value, so that lone holes close and lone
// specks go.
SEARCH_FN void search_order(int16_t *a, int16_t *b)
{
    int16_t low = *a < *b ? *a : *b, high = *a < *b ? *b : *a;
    *a = low;
    *b = high;
}
SEARCH_FN int search_median9(int16_t p[9])
{
    search_order(&p[1], &p[2]);
    search_order(&p[4], &p[5]);
    search_order(&p[7], &p[8]);
    search_order(&p[0], &p[1]);
    search_order(&p[3], &p[4]);
    search_order(&p[6], &p[7]);
    search_order(&p[1], &p[2]);
    search_order(&p[4], &p[5]);
    search_order(&p[7], &p[8]);
    search_order(&p[0], &p[3]);
    search_order(&p[5], &p[8]);
    search_order(&p[4], &p[7]);
    search_order(&p[3], &p[6]);
    search_order(&p[1], &p[4]);
    search_order(&p[2], &p[5]);
    search_order(&p[4], &p[7]);
    search_order(&p[4], &p[2]);
    search_order(&p[6], &p[4]);
    search_order(&p[4], &p[2]);
    return p[4];
}

#endif

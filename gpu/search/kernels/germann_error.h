// SPDX-License-Identifier: Apache-2.0
// The error of a reference map R laid over an input window I at (x, y, z): Germann et al. 2007,
// equations 1 to 5. Only pixels with EDT_R >= 0 count; the depth term only where
// EDT_I >= 0 as well.
//
// lambda is 10, but the paper does not say in which unit z is measured. With pixels a map that
// hardly overlaps anything beats the right one (its depth term is over a handful of pixels): 2 of 6
// real views found. With image widths silhouettes alone decide: none found. The unit taken is the
// simplex step, 5 % of the width, so that lambda is 10 / 3.2 a pixel: 5 of 6.
#ifndef POSED_GPU_SEARCH_KERNELS_GERMANN_ERROR_H
#define POSED_GPU_SEARCH_KERNELS_GERMANN_ERROR_H

#include "gpu/search/kernels/range_map.h"

#define SEARCH_LAMBDA     (10.f / (0.05f * SEARCH_MAP_PX)) // a pixel of depth
#define SEARCH_ERROR_NONE 1e9f // no pixel of the object lies over a measured one

struct search_sums {
    int32_t cover, range; // 1/64 px; at most 4096 px x 2^16: fits
    int32_t n_range;
};

SEARCH_FN void search_error_pixel(uint32_t input, uint32_t reference, int z,
                                  struct search_sums *sums)
{
    int edt_i = search_pair_edt(input), edt_r = search_pair_edt(reference);
    int cover = edt_i - edt_r, range = search_pair_z(input) - search_pair_z(reference) - z;
    int counts = edt_r >= 0, both = counts & (edt_i >= 0);
    sums->cover += counts ? (cover < 0 ? -cover : cover) : 0;
    sums->range += both ? (range < 0 ? -range : range) : 0;
    sums->n_range += both;
}

// Error in px.
SEARCH_FN float search_error_value(const struct search_sums *sums, int n_cover)
{
    if (sums->n_range == 0)
        return SEARCH_ERROR_NONE;
    float cover = (float)sums->cover / (float)(n_cover * SEARCH_UNIT);
    float range = (float)sums->range / (float)(sums->n_range * SEARCH_UNIT);
    return cover + SEARCH_LAMBDA * range;
}

// Where a map's corner pixel lands in the window, from the continuous shift: the nearest pixel,
// held inside the window.
SEARCH_FN int search_shift(float px)
{
    int shift = (int)(px + 0.5f);
    shift = px < 0.f ? 0 : shift;
    int most = SEARCH_WINDOW_PX - SEARCH_MAP_PX;
    return shift < most ? shift : most;
}
SEARCH_FN int search_depth_shift(float px)
{
    float scaled = px * (float)SEARCH_UNIT;
    scaled = scaled < -30000.f ? -30000.f : scaled > 30000.f ? 30000.f : scaled;
    return (int)(scaled + (scaled < 0.f ? -0.5f : 0.5f));
}

#endif

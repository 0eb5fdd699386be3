// SPDX-License-Identifier: Apache-2.0
// Triangles into a buffer of 64-bit keys: depth, then triangle; the least wins, so that neither the
// order nor who draws what matters.
#ifndef POSED_GPU_SEARCH_CUDA_RASTER_CUH
#define POSED_GPU_SEARCH_CUDA_RASTER_CUH

#include "gpu/search/kernels/raster.h"

#define RASTER_NOTHING (~0ull)

__device__ __forceinline__ unsigned long long raster_key(float value, uint32_t triangle)
{
    const uint32_t bits = __float_as_uint(value);
    // Floats in their order as unsigned integers.
    return (unsigned long long)(bits & 0x80000000u ? ~bits : bits | 0x80000000u) << 32 | triangle;
}

__device__ __forceinline__ float raster_key_value(unsigned long long key)
{
    const uint32_t bits = (uint32_t)(key >> 32);
    return __uint_as_float(bits & 0x80000000u ? bits & 0x7fffffffu : ~bits);
}

// Of the triangle's rows v0 .. v1 - 1 the pixels first, first + step ...
__device__ __forceinline__ void raster_rows(const struct raster_triangle *t, uint32_t triangle,
                                            int v0, int v1, int first, int step, int width,
                                            unsigned long long *keys)
{
    const int n_columns = t->u1 - t->u0 + 1;
    int v = v0 + first / n_columns, u = t->u0 + first % n_columns;
    while (v < v1) {
        float value;
        if (raster_value(t, u, v, &value))
            atomicMin(&keys[v * width + u], raster_key(value, triangle));
        for (u += step; u > t->u1; u -= n_columns)
            v++;
    }
}

__device__ __forceinline__ uint32_t raster_box_px(const struct raster_triangle *t)
{
    return (uint32_t)(t->u1 - t->u0 + 1) * (uint32_t)(t->v1 - t->v0 + 1);
}

#endif

// SPDX-License-Identifier: Apache-2.0
// The exact distance transform of a square grid, a row and a column at a time.
#ifndef POSED_GPU_SEARCH_CUDA_EDT_CUH
#define POSED_GPU_SEARCH_CUDA_EDT_CUH

#include "gpu/search/kernels/depth_edges.h"

// Signed EDT of a SIZE x SIZE grid in shared memory; column and squared are scratch. All threads of
// the block take part; the result goes through `put(pixel, value)`.
template <int SIZE> __device__ static int edt_squared(const uint8_t *column, int u, int v)
{
    int best = (SEARCH_EDT_MAX_PX + 1) * (SEARCH_EDT_MAX_PX + 1);
    for (int k = -SEARCH_EDT_MAX_PX; k <= SEARCH_EDT_MAX_PX; k++) {
        if (u + k < 0 || u + k >= SIZE)
            continue;
        int g = column[v * SIZE + u + k], d = g * g + k * k;
        best = d < best ? d : best;
    }
    return best;
}

template <int SIZE> __device__ static uint8_t edt_column(const uint8_t *kind, int u, int v)
{
    for (int k = 0; k <= SEARCH_EDT_MAX_PX; k++)
        if ((v - k >= 0 && kind[(v - k) * SIZE + u] == SEARCH_KIND_EDGE) ||
            (v + k < SIZE && kind[(v + k) * SIZE + u] == SEARCH_KIND_EDGE))
            return (uint8_t)k;
    return SEARCH_EDT_MAX_PX + 1;
}

#endif

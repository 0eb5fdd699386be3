// SPDX-License-Identifier: Apache-2.0
// The maps of the pose search: what a pixel holds, and the fixed-point units that both twins share.
//
// Lengths inside a map are in map pixels, stored as integers of 1/64 px: sums of integers do not
// depend on their order, so that both twins, any number of threads and any grid of blocks give the
// same bits. A map is orthographic: column x right, row y down, z forward, all in the same unit.
// Pixel (u, v) has its centre at integer coordinates; the model's centre lies at (31.5, 31.5), z 0.
#ifndef POSED_GPU_SEARCH_KERNELS_RANGE_MAP_H
#define POSED_GPU_SEARCH_KERNELS_RANGE_MAP_H

#include <stdint.h>

#ifdef __CUDACC__
#define SEARCH_FN static inline __host__ __device__
#else
#define SEARCH_FN static inline
#endif

#define SEARCH_MAP_PX    64  // reference maps are 64 x 64, as in the paper
#define SEARCH_WINDOW_PX 128 // the input window: the map shifted by -32 .. 32 px stays inside
#define SEARCH_UNIT      64  // fixed-point steps in a pixel
#define SEARCH_CENTRE_PX 31.5f

// Signed distances are cut at 8 px, the value that the paper's seven sweeps leave far from an edge.
#define SEARCH_EDT_MAX_PX 8

#define SEARCH_CHUNK 16 // pixels of one row that are stored, and compared, together

#define SEARCH_COARSE_CELLS  16 // coarse maps: cells of 4 x 4 pixels
#define SEARCH_COARSE_WINDOW 32
#define SEARCH_COARSE_PX     4
#define SEARCH_ANCHORS       8
#define SEARCH_POINTS        256 // surface points kept of each view
#define SEARCH_RING_POINTS   64  // and points just outside of its silhouette

// Values of coarse maps (1/64 px) chosen so that the difference scene - model falls into the right
// class without a mask: see coarse.h.
#define SEARCH_COARSE_UNKNOWN (-12000) // scene: no measurement here
#define SEARCH_COARSE_FAR     12000    // scene: cut at this value
#define SEARCH_COARSE_NONE    16000    // model: not a pixel of the model (of the ring)

// One map pixel: z and signed EDT as two 16-bit halves of a word, EDT above.
SEARCH_FN uint32_t search_pair(int z, int edt)
{
    return ((uint32_t)edt << 16) | ((uint32_t)z & 0xffffu);
}
SEARCH_FN int search_pair_z(uint32_t pair)
{
    return (int16_t)(pair & 0xffffu);
}
SEARCH_FN int search_pair_edt(uint32_t pair)
{
    return (int32_t)pair >> 16;
}

#endif

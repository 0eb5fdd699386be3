// SPDX-License-Identifier: Apache-2.0
// What the stages of a whole request on the device hand on to each other. No count passes through
// the host: kernels are launched for the most there can be, and those without work return.
#ifndef POSED_GPU_SEARCH_CUDA_FIND_CUH
#define POSED_GPU_SEARCH_CUDA_FIND_CUH

#include "gpu/search/cuda/device.cuh"
#include "gpu/search/kernels/same_pose.h"
#include "gpu/search/kernels/score.h"
#include "gpu/search/kernels/slide.h"

struct search_cuda_region {
    int u0, v0, u1, v1; // u1 and v1 exclusive
};

struct search_cuda_input {
    const uint16_t *raw; // on the device
    const uint8_t *mask; // likewise, or NULL
    struct search_cuda_region region;
    float m_per_unit;
};

// Written by one stage, read by the next.
struct search_cuda_counts {
    uint32_t n_valid;               // pixels
    struct search_cuda_starts scan; // start points
    uint32_t n_left;                // candidates that the loose verdict left
    uint32_t n_screened, n_drawn, n_polished, n_slid, n_turned;
};

__device__ __forceinline__ int32_t search_cuda_warp_sum(int32_t value)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(0xffffffffu, value);
#else
    for (int k = 16; k > 0; k /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, k);
    return value;
#endif
}

__device__ __forceinline__ int64_t search_cuda_warp_sum_long(int64_t value)
{
    for (int k = 16; k > 0; k /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, k);
    return value;
}

// What comes back to the host.
struct search_cuda_found {
    struct search_cuda_counts counts;
    struct search_candidate polished[SEARCH_POLISHED_MAX + SEARCH_SLID_MAX]; // then the slid
    struct search_candidate turned[SEARCH_NEAR_SYMMETRIES_MAX];
    uint32_t n_batches; // of the candidates that are drawn
};

// Sums over the warp; every lane gets them.
__device__ __forceinline__ void search_cuda_warp_tally(struct search_tally *tally,
                                                       struct search_outline *outline)
{
    uint32_t *const counts[] = {
        &tally->n,         &tally->n_match,   &tally->n_tight,    &tally->n_free,
        &tally->n_wrong,   &tally->n_plane,   &tally->n_hidden,   &outline->n,
        &outline->n_ended, &outline->n_floor, &outline->n_smooth, &outline->n_continued,
        &outline->n_sharp, &tally->n_crossed, &tally->n_merged,   &tally->n_jumps,
        &tally->n_shown,   &tally->n_deep,    &tally->n_just};
#pragma unroll
    for (uint32_t k = 0; k < sizeof counts / sizeof *counts; k++)
        *counts[k] = (uint32_t)search_cuda_warp_sum((int32_t)*counts[k]);
    tally->square = search_cuda_warp_sum_long(tally->square);
    tally->agree = search_cuda_warp_sum_long(tally->agree);
#pragma unroll
    for (int k = 0; k < 6; k++)
        tally->normals[k] = search_cuda_warp_sum_long(tally->normals[k]);
}

// By one lane of each warp: a warp's sums into those of all.
__device__ __forceinline__ void search_cuda_add_tally(const struct search_tally *tally,
                                                      const struct search_outline *outline,
                                                      struct search_tally *out_tally,
                                                      struct search_outline *out_outline)
{
    const struct search_tally *t = tally;
    const struct search_outline *o = outline;
    const uint32_t counts[] = {t->n,        t->n_match,     t->n_tight, t->n_free,    t->n_wrong,
                               t->n_plane,  t->n_hidden,    o->n,       o->n_ended,   o->n_floor,
                               o->n_smooth, o->n_continued, o->n_sharp, t->n_crossed, t->n_merged,
                               t->n_jumps,  t->n_shown,     t->n_deep,  t->n_just};
    uint32_t *const to[] = {
        &out_tally->n,         &out_tally->n_match,    &out_tally->n_tight,
        &out_tally->n_free,    &out_tally->n_wrong,    &out_tally->n_plane,
        &out_tally->n_hidden,  &out_outline->n,        &out_outline->n_ended,
        &out_outline->n_floor, &out_outline->n_smooth, &out_outline->n_continued,
        &out_outline->n_sharp, &out_tally->n_crossed,  &out_tally->n_merged,
        &out_tally->n_jumps,   &out_tally->n_shown,    &out_tally->n_deep,
        &out_tally->n_just};
#pragma unroll
    for (uint32_t k = 0; k < sizeof counts / sizeof *counts; k++)
        if (counts[k] > 0)
            atomicAdd(to[k], counts[k]);
    atomicAdd((unsigned long long *)&out_tally->square, (unsigned long long)t->square);
    atomicAdd((unsigned long long *)&out_tally->agree, (unsigned long long)t->agree);
#pragma unroll
    for (int k = 0; k < 6; k++)
        atomicAdd((unsigned long long *)&out_tally->normals[k], (unsigned long long)t->normals[k]);
}

// Each enqueues a stage. 0, -ENOMEM or -EIO.
int search_cuda_enqueue_prepare(struct search_cuda *cuda, const struct search_cuda_input *input,
                                float radius_m, float map_px_m);
// Hits -> candidates; the indices of those that were not given up go to find->left.
int search_cuda_enqueue_points(struct search_cuda *cuda, const struct search_object *object);
// The n_most best of the candidates `list` (NULL: the first *n) that are distinct, best first, and
// not more than `behind` below the first one.
int search_cuda_enqueue_distinct(struct search_cuda *cuda, const struct search_rotations *rotations,
                                 const struct search_nearness *nearness,
                                 const struct search_candidate *candidates, const uint32_t *list,
                                 const uint32_t *n, uint32_t n_most, float behind,
                                 struct search_candidate *out, uint32_t *out_n);
// Draws, refines and scores the first *n candidates, of which there are at most n_most. slides: of
// each, may be NULL.
int search_cuda_enqueue_drawn(struct search_cuda *cuda, const struct search_object *object,
                              struct search_candidate *candidates, const uint32_t *n,
                              uint32_t n_most, uint32_t n_rounds, struct search_slides *slides);

#endif

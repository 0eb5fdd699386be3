// SPDX-License-Identifier: Apache-2.0
// The best distinct candidates: the best one is kept, all that are the same pose are dropped, and
// so on. One block; a round is one largest key over the block and one comparison a candidate:
// latency. On an H200 0.7 us a round.
#include "gpu/search/cuda/find.cuh"
#include "gpu/search/kernels/hypothesis_counts.h"
#include "gpu/search/kernels/icp.h"

#define THREADS 1024
#define WARPS   (THREADS / 32)

// Keys are larger for better scores, then for earlier candidates; 0: dropped.
__device__ static unsigned long long key_of(float score, uint32_t index)
{
    const uint32_t bits = __float_as_uint(score);
    const uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (unsigned long long)ordered << 32 | (0xffffffffu - index);
}

__device__ static void copy_pose(const struct search_candidate *from, struct search_candidate *to)
{
    for (int k = 0; k < 9; k++)
        to->rotation[k] = from->rotation[k];
    for (int k = 0; k < 3; k++)
        to->t_m[k] = from->t_m[k];
}

__device__ static uint32_t warp_max32(uint32_t value)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(0xffffffffu, value);
#else
    for (int d = 16; d > 0; d /= 2) {
        const uint32_t other = __shfl_xor_sync(0xffffffffu, value, d);
        value = other > value ? other : value;
    }
    return value;
#endif
}

__device__ static unsigned long long warp_max(unsigned long long value)
{
    const uint32_t high = warp_max32((uint32_t)(value >> 32));
    const uint32_t low = warp_max32((uint32_t)(value >> 32) == high ? (uint32_t)value : 0);
    return (unsigned long long)high << 32 | low;
}

// A thread's first candidate stays in its registers; that is all there are, as a rule.
__global__ void __launch_bounds__(THREADS)
    distinct_kernel(struct search_rotations rotations, struct search_nearness nearness,
                    const struct search_candidate *candidates, const uint32_t *list,
                    const uint32_t *n_candidates, uint32_t n_most, float behind,
                    struct search_candidate *out, uint32_t *out_n)
{
    extern __shared__ unsigned long long keys[]; // of the candidates from THREADS on
    __shared__ unsigned long long warp_best[WARPS];
    __shared__ struct search_candidate kept;
    __shared__ uint32_t chosen[SEARCH_SCREENED];
    const uint32_t n = *n_candidates;
    unsigned long long key = 0;
    struct search_candidate own;
    for (uint32_t i = threadIdx.x; i < n; i += THREADS) {
        const uint32_t index = list ? list[i] : i;
        const float score = candidates[index].score;
        const unsigned long long here = score > SEARCH_GIVEN_UP ? key_of(score, index) : 0;
        if (i < THREADS) {
            key = here;
            copy_pose(&candidates[index], &own);
        } else {
            keys[i - THREADS] = here;
        }
    }
    uint32_t n_kept = 0;
    float first = 0;
    for (; n_kept < n_most; n_kept++) {
        unsigned long long best = key;
        for (uint32_t i = threadIdx.x + THREADS; i < n; i += THREADS)
            best = keys[i - THREADS] > best ? keys[i - THREADS] : best;
        best = warp_max(best);
        if (threadIdx.x % 32 == 0)
            warp_best[threadIdx.x / 32] = best;
        __syncthreads();
        best = warp_max(warp_best[threadIdx.x % WARPS]);
        if (best == 0)
            break;
        const float score = candidates[0xffffffffu - (uint32_t)best].score;
        first = n_kept == 0 ? score : first;
        if (score < first - behind)
            break;
        if (key == best)
            copy_pose(&own, &kept);
        for (uint32_t i = threadIdx.x + THREADS; i < n; i += THREADS)
            if (keys[i - THREADS] == best)
                copy_pose(&candidates[0xffffffffu - (uint32_t)best], &kept);
        if (threadIdx.x == 0)
            chosen[n_kept] = 0xffffffffu - (uint32_t)best;
        __syncthreads();
        if (key == best || (key != 0 && search_same_pose(&rotations, &nearness, &own, &kept)))
            key = 0;
        for (uint32_t i = threadIdx.x + THREADS; i < n; i += THREADS) {
            const unsigned long long other = keys[i - THREADS];
            if (other == best ||
                (other != 0 && search_same_pose(&rotations, &nearness,
                                                &candidates[0xffffffffu - (uint32_t)other], &kept)))
                keys[i - THREADS] = 0;
        }
    }
    const uint32_t n_words = sizeof *out / sizeof(uint32_t);
    for (uint32_t k = threadIdx.x; k < n_kept * n_words; k += THREADS)
        ((uint32_t *)out)[k] = ((const uint32_t *)&candidates[chosen[k / n_words]])[k % n_words];
    if (threadIdx.x == 0)
        *out_n = n_kept;
}

int search_cuda_enqueue_distinct(struct search_cuda *cuda, const struct search_rotations *rotations,
                                 const struct search_nearness *nearness,
                                 const struct search_candidate *candidates, const uint32_t *list,
                                 const uint32_t *n, uint32_t n_most, float behind,
                                 struct search_candidate *out, uint32_t *out_n)
{
    const size_t shared_bytes = SEARCH_HITS_MAX * sizeof(unsigned long long);
    distinct_kernel<<<1, THREADS, shared_bytes, cuda->dev.stream>>>(
        *rotations, *nearness, candidates, list, n, n_most, behind, out, out_n);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    return 0;
}

int search_cuda_prepare_distinct(struct search_cuda *cuda)
{
    CUDA_OR_RETURN(&cuda->dev, cudaFuncSetAttribute(
                                   distinct_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   (int)(SEARCH_HITS_MAX * sizeof(unsigned long long))));
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
// The coarse pass: every seed view with each of its anchors that faces the surface, on every start
// point.
//
//   score     kernels/coarse.h; two cells in a 32-bit word, biased so that nothing borrows
//   work      725 start points: 1.5 million seeds, 1.6 anchors each, 12 rows of 16 cells
//   a row     8 loads of the window and 4 of the map from shared memory, 76 instructions
//   limit     instructions issued
//
//   window    a block a quarter of a start point's window, two cells a word
//   score     a block 32 start points and 64 seeds, all of them in shared memory; a warp a seed, a
//             lane a pair of start point and anchor that face each other. Lanes of one warp read
//             the same row of the map, and windows lie so that different start points fall on
//             different banks.
//   select    a block a start point: the `keep` best of its seeds
//
// Measured on an H200 at 1.5 GHz, 855 start points: window 20, score 476 (72 % of the issue slots,
// 74 % of the shared memory's wavefronts), select 53 us.
#include <string.h>

#include "gpu/search/cuda/device.cuh"
#include "gpu/search/kernels/coarse.h"

#define SCAN_STARTS  32 // of a block: one a lane
#define SCAN_SEEDS   64 // of a block
#define SCAN_THREADS 1024
#define SCAN_WARPS   (SCAN_THREADS / 32)
#define CELLS        SEARCH_COARSE_CELLS
#define WINDOW_SIDE  SEARCH_COARSE_WINDOW
#define WINDOW_WORDS (WINDOW_SIDE * WINDOW_SIDE / 2)
#define WINDOW_PITCH (2 * WINDOW_WORDS + 1) // pairs from even columns, then from odd ones
#define KEYS_PITCH   (SCAN_SEEDS + 1)
#define SCORE_BIAS   32768 // scores are cut at -32,767; the best have 4,096

// d = scene - model + anchor becomes (scene + BIAS) - (model + BIAS_MODEL) + anchor, which holds
// d + GATE + 32768 and lies in 0 .. 65535 for all values of range_map.h: its highest bit says
// d >= -GATE, and that of itself less 2 GATE + 1 says d > GATE.
#define BIAS_MODEL       4096
#define BIAS_SCENE(gate) (32768 + BIAS_MODEL + (gate))
#define BEYOND(gate)     ((uint32_t)(2 * (gate) + 1) * 0x10001u)
static_assert(SEARCH_GATE_MATCH == SEARCH_GATE_RING, "one bias serves both gates");

struct scan_shared {
    uint32_t windows[SCAN_STARTS * WINDOW_PITCH];
    alignas(16) uint32_t maps[SCAN_SEEDS * SEARCH_SEED_WORDS];
    uint32_t keys[SCAN_STARTS * KEYS_PITCH];
    uint8_t pairs[SCAN_WARPS][SEARCH_ANCHORS * SCAN_STARTS]; // anchor x 32 + start point
};

void search_cuda_pack_seed(const struct search_coarse *map, uint32_t out[SEARCH_SEED_WORDS])
{
    for (int v = 0; v < CELLS; v++)
        for (int k = 0; k < CELLS / 2; k++) {
            const int16_t *z = map->z + v * CELLS + 2 * k, *ring = map->ring + v * CELLS + 2 * k;
            out[v * CELLS + k] = (uint32_t)(z[0] + BIAS_MODEL) | (uint32_t)(z[1] + BIAS_MODEL)
                                                                     << 16;
            out[v * CELLS + CELLS / 2 + k] =
                (uint32_t)(ring[0] + BIAS_MODEL) | (uint32_t)(ring[1] + BIAS_MODEL) << 16;
        }
}

__global__ void scan_window_kernel(const float *z_m, struct search_camera camera,
                                   const struct search_frame *starts,
                                   const struct search_cuda_starts *scan, uint32_t *out)
{
    if (blockIdx.x >= scan->n_starts)
        return;
    const struct search_frame frame = starts[blockIdx.x];
    const float cell_m = SEARCH_COARSE_PX * frame.px_m;
    const int i = (int)(blockIdx.y * blockDim.x + threadIdx.x);
    const int u = i % WINDOW_SIDE - WINDOW_SIDE / 2, v = i / WINDOW_SIDE - WINDOW_SIDE / 2;
    float z = 0;
    int seen = search_frame_sample(z_m, &camera, frame.rotation, frame.start_m, (float)u * cell_m,
                                   (float)v * cell_m, &z);
    uint32_t cell =
        (uint32_t)(search_coarse_scene(seen, z / frame.px_m) + BIAS_SCENE(SEARCH_GATE_MATCH));
    uint32_t next = __shfl_down_sync(0xffffffffu, cell, 1);
    if (i % 2 == 0)
        out[(size_t)blockIdx.x * WINDOW_WORDS + i / 2] = cell | next << 16;
}

// Bytes of all ones where the highest bit of a cell is set: four cells of two words.
__device__ __forceinline__ int cell_signs(uint32_t low, uint32_t high)
{
    int out;
    asm("prmt.b32 %0, %1, %2, 0xfdb9;" : "=r"(out) : "r"(low), "r"(high));
    return out;
}

__device__ static int scan_score(const uint32_t *window, const uint32_t *map,
                                 const struct search_coarse *info, int anchor)
{
    const int first_u = WINDOW_SIDE / 2 - info->anchor_u[anchor];
    const int first_v = WINDOW_SIDE / 2 - info->anchor_v[anchor];
    const uint32_t *base =
        window + (first_u % 2) * WINDOW_WORDS + first_v * (WINDOW_SIDE / 2) + first_u / 2;
    const uint32_t z0 = (uint32_t)info->anchor_z[anchor] * 0x10001u;
    const int weight_beyond = (SEARCH_WEIGHT_MATCH + SEARCH_WEIGHT_FREE) * 0x01010101;
    const int weight_ring = SEARCH_WEIGHT_RING * 0x01010101;
    int n_seen = 0, sum = 0;
    for (int v = info->row_first; v < info->row_end; v++) {
        const uint4 *row = (const uint4 *)(map + v * CELLS);
        uint32_t z[CELLS / 2], ring[CELLS / 2];
#pragma unroll
        for (int k = 0; k < 2; k++) {
            *(uint4 *)(z + 4 * k) = row[k];
            *(uint4 *)(ring + 4 * k) = row[2 + k];
        }
#pragma unroll
        for (int k = 0; k < CELLS / 2; k += 2) {
            uint32_t d[2], r[2];
#pragma unroll
            for (int j = 0; j < 2; j++) {
                const uint32_t scene = base[v * (WINDOW_SIDE / 2) + k + j];
                d[j] = scene - z[k + j] + z0;
                r[j] = scene - ring[k + j] + z0;
            }
            const int seen = cell_signs(d[0], d[1]);
            const int beyond =
                cell_signs(d[0] - BEYOND(SEARCH_GATE_MATCH), d[1] - BEYOND(SEARCH_GATE_MATCH));
            const int near = cell_signs(r[0], r[1]);
            const int far =
                cell_signs(r[0] - BEYOND(SEARCH_GATE_RING), r[1] - BEYOND(SEARCH_GATE_RING));
            n_seen = __dp4a(seen, 0x01010101, n_seen); // bytes are -1: counts down
            sum = __dp4a(beyond, weight_beyond, sum);
            sum = __dp4a(near & ~far, weight_ring, sum);
        }
    }
    return search_coarse_score(sum - SEARCH_WEIGHT_MATCH * n_seen, -n_seen, info->n_cells);
}

__global__ void __launch_bounds__(SCAN_THREADS)
    scan_score_kernel(const uint32_t *windows, const struct search_frame *starts,
                      const struct search_cuda_starts *scan, const struct search_coarse *coarse,
                      const uint32_t *seeds, const uint32_t *seed_maps, uint32_t n_seeds,
                      uint32_t *out_keys)
{
    extern __shared__ uint4 memory[];
    struct scan_shared *shared = (struct scan_shared *)memory;
    const uint32_t n = scan->n_starts, first_start = blockIdx.y * SCAN_STARTS;
    const uint32_t first_seed = blockIdx.x * SCAN_SEEDS, lane = threadIdx.x % 32;
    const uint32_t warp = threadIdx.x / 32;
    if (first_start >= n)
        return;
    const uint32_t n_here = n - first_start < SCAN_STARTS ? n - first_start : SCAN_STARTS;
    const uint32_t n_seeds_here =
        n_seeds - first_seed < SCAN_SEEDS ? n_seeds - first_seed : SCAN_SEEDS;
    for (uint32_t i = threadIdx.x; i < n_here * WINDOW_WORDS; i += SCAN_THREADS) {
        const uint32_t *from = windows + (size_t)first_start * WINDOW_WORDS + i;
        const uint32_t word = *from, next = i + 1 < n_here * WINDOW_WORDS ? from[1] : 0;
        uint32_t *to = shared->windows + i / WINDOW_WORDS * WINDOW_PITCH + i % WINDOW_WORDS;
        to[0] = word;
        to[WINDOW_WORDS] = word >> 16 | next << 16;
    }
    for (uint32_t i = threadIdx.x; i < n_seeds_here * SEARCH_SEED_WORDS / 4; i += SCAN_THREADS)
        ((uint4 *)shared->maps)[i] =
            ((const uint4 *)(seed_maps + (size_t)first_seed * SEARCH_SEED_WORDS))[i];
    for (uint32_t i = threadIdx.x; i < SCAN_STARTS * KEYS_PITCH; i += SCAN_THREADS)
        shared->keys[i] = 0;
    __syncthreads();
    const bool mine = lane < n_here;
    float normal[3] = {0, 0, 0};
    for (int k = 0; k < 3 && mine; k++)
        normal[k] = starts[first_start + lane].normal[k];
    uint8_t *pairs = shared->pairs[warp];
    for (uint32_t s = warp; s < n_seeds_here; s += SCAN_WARPS) {
        const struct search_coarse *info = &coarse[seeds[first_seed + s]];
        uint32_t n_pairs = 0;
        for (uint32_t a = 0; a < info->n_anchors; a++) {
            const bool facing = mine && search_coarse_facing(normal[0], normal[1], normal[2],
                                                             info->anchor_normal[a]);
            const uint32_t mask = __ballot_sync(0xffffffffu, facing);
            if (facing)
                pairs[n_pairs + (uint32_t)__popc(mask & ((1u << lane) - 1))] =
                    (uint8_t)(a * SCAN_STARTS + lane);
            n_pairs += (uint32_t)__popc(mask);
        }
        __syncwarp();
        for (uint32_t i = lane; i < n_pairs; i += 32) {
            const uint32_t start = pairs[i] % SCAN_STARTS, a = pairs[i] / SCAN_STARTS;
            int score = scan_score(shared->windows + start * WINDOW_PITCH,
                                   shared->maps + s * SEARCH_SEED_WORDS, info, (int)a);
            score = score > 1 - SCORE_BIAS ? score : 1 - SCORE_BIAS;
            // Of equal scores the earlier anchor.
            atomicMax(&shared->keys[start * KEYS_PITCH + s],
                      (uint32_t)(score + SCORE_BIAS) << 8 | (255 - a));
        }
        __syncwarp();
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < n_here * SCAN_SEEDS; i += SCAN_THREADS) {
        const uint32_t start = i / SCAN_SEEDS, s = i % SCAN_SEEDS;
        if (s < n_seeds_here)
            out_keys[(size_t)(first_start + start) * n_seeds + first_seed + s] =
                shared->keys[start * KEYS_PITCH + s];
    }
}

#define SELECT_THREADS 256
#define SELECT_WARPS   (SELECT_THREADS / 32)
#define SELECT_BITS    32

// Sum over the block; every thread gets it.
__device__ static uint32_t block_sum(uint32_t value, uint32_t *scratch)
{
    for (int d = 16; d > 0; d /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, d);
    if (threadIdx.x % 32 == 0)
        scratch[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0;
    for (int w = 0; w < SELECT_WARPS; w++)
        value += scratch[w];
    __syncthreads();
    return value;
}

// Keys of a start point: the higher score first, then the earlier seed; none is twice there. The
// keep-th best is found bit by bit.
__global__ void __launch_bounds__(SELECT_THREADS)
    scan_select_kernel(const uint32_t *all_keys, const struct search_cuda_starts *scan,
                       const uint32_t *seeds, uint32_t n_seeds, struct search_hit *out)
{
    extern __shared__ uint32_t keys[]; // n_seeds, then `keep` chosen ones
    __shared__ uint32_t scratch[SELECT_WARPS], n_chosen;
    if (blockIdx.x >= scan->n_starts)
        return;
    const uint32_t keep = scan->keep;
    const uint32_t *own = all_keys + (size_t)blockIdx.x * n_seeds;
    uint32_t *chosen = keys + n_seeds;
    uint32_t n_there = 0;
    for (uint32_t s = threadIdx.x; s < n_seeds; s += SELECT_THREADS) {
        keys[s] = own[s] ? (own[s] >> 8) << 16 | (0xffffu - s) : 0;
        n_there += own[s] != 0;
    }
    if (threadIdx.x == 0)
        n_chosen = 0;
    n_there = block_sum(n_there, scratch);
    uint32_t least = 0;
    for (int bit = SELECT_BITS - 1; bit >= 0 && n_there > keep; bit--) {
        const uint32_t tried = least | 1u << bit;
        uint32_t n = 0;
        for (uint32_t s = threadIdx.x; s < n_seeds; s += SELECT_THREADS)
            n += keys[s] >= tried;
        least = block_sum(n, scratch) >= keep ? tried : least;
    }
    for (uint32_t s = threadIdx.x; s < n_seeds; s += SELECT_THREADS)
        if (keys[s] != 0 && keys[s] >= least)
            chosen[atomicAdd(&n_chosen, 1)] = keys[s];
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < keep; i += SELECT_THREADS) {
        struct search_hit hit = {INT32_MIN, 0, blockIdx.x, 0};
        uint32_t rank = i;
        if (i < n_chosen) {
            const uint32_t s = 0xffffu - (chosen[i] & 0xffffu);
            rank = 0;
            for (uint32_t j = 0; j < n_chosen; j++)
                rank += chosen[j] > chosen[i];
            hit.score = (int32_t)(chosen[i] >> 16) - SCORE_BIAS;
            hit.view = seeds[s];
            hit.anchor = 255 - (own[s] & 0xffu);
        }
        out[(size_t)blockIdx.x * keep + rank] = hit;
    }
}

int search_cuda_enqueue_scan(struct search_cuda *cuda, const struct search_object *object,
                             const struct search_frame *starts,
                             const struct search_cuda_starts *scan, uint32_t n_starts_most,
                             uint32_t keep_most, struct search_hit *out)
{
    const struct cuda_object *copy = (const struct cuda_object *)object->device;
    const uint32_t n_seeds = object->n_seeds;
    int err = cuda_grow(&cuda->dev, &cuda->windows,
                        n_starts_most * (size_t)WINDOW_WORDS * sizeof(uint32_t));
    if (!err)
        err =
            cuda_grow(&cuda->dev, &cuda->keys, n_starts_most * (size_t)n_seeds * sizeof(uint32_t));
    if (err)
        return err;
    uint32_t *windows = (uint32_t *)cuda->windows.at, *keys = (uint32_t *)cuda->keys.at;
    scan_window_kernel<<<dim3(n_starts_most, 4), WINDOW_SIDE * WINDOW_SIDE / 4, 0,
                         cuda->dev.stream>>>(cuda->z_m, cuda->camera, starts, scan, windows);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    dim3 grid((n_seeds + SCAN_SEEDS - 1) / SCAN_SEEDS,
              (n_starts_most + SCAN_STARTS - 1) / SCAN_STARTS);
    scan_score_kernel<<<grid, SCAN_THREADS, sizeof(struct scan_shared), cuda->dev.stream>>>(
        windows, starts, scan, copy->coarse, copy->seeds, copy->seed_maps, n_seeds, keys);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    scan_select_kernel<<<n_starts_most, SELECT_THREADS, (n_seeds + keep_most) * sizeof(uint32_t),
                         cuda->dev.stream>>>(keys, scan, copy->seeds, n_seeds, out);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    return 0;
}

int search_cuda_scan(void *device, const struct search_object *object,
                     const struct search_frame *starts, uint32_t n_starts, uint32_t keep,
                     struct search_hit *out)
{
    struct search_cuda *cuda = (struct search_cuda *)device;
    if (n_starts == 0)
        return 0;
    CUDA_OR_RETURN(&cuda->dev, cudaSetDevice(cuda->dev.index));
    size_t n_hits = (size_t)n_starts * keep;
    int err = search_cuda_grow_result(cuda, n_hits * sizeof *out);
    if (!err)
        err = cuda_grow(&cuda->dev, &cuda->work,
                        n_starts * sizeof *starts + sizeof(struct search_cuda_starts));
    if (!err)
        err = search_cuda_yield(cuda);
    if (err)
        return err;
    struct search_frame *frames = (struct search_frame *)cuda->work.at;
    struct search_cuda_starts *scan = (struct search_cuda_starts *)(frames + n_starts);
    const struct search_cuda_starts counts = {n_starts, keep};
    CUDA_OR_RETURN(&cuda->dev, cudaMemcpyAsync(frames, starts, n_starts * sizeof *starts,
                                               cudaMemcpyHostToDevice, cuda->dev.stream));
    CUDA_OR_RETURN(&cuda->dev, cudaMemcpyAsync(scan, &counts, sizeof counts, cudaMemcpyHostToDevice,
                                               cuda->dev.stream));
    err = search_cuda_enqueue_scan(cuda, object, frames, scan, n_starts, keep,
                                   (struct search_hit *)cuda->result.at);
    if (err)
        return err;
    CUDA_OR_RETURN(&cuda->dev,
                   cudaMemcpyAsync(cuda->result_host.at, cuda->result.at, n_hits * sizeof *out,
                                   cudaMemcpyDeviceToHost, cuda->dev.stream));
    CUDA_OR_RETURN(&cuda->dev, cudaStreamSynchronize(cuda->dev.stream));
    memcpy(out, cuda->result_host.at, n_hits * sizeof *out);
    return 0;
}

int search_cuda_prepare_scan(struct search_cuda *cuda)
{
    CUDA_OR_RETURN(&cuda->dev, cudaFuncSetAttribute(scan_score_kernel,
                                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                    (int)sizeof(struct scan_shared)));
    return 0;
}

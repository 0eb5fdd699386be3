// SPDX-License-Identifier: Apache-2.0
// The coarse pass: a block a start point; its coarse window in shared memory, a thread a seed view.
#include <string.h>

#include "gpu/cuda/search.cuh"
#include "gpu/kernels/search_coarse.h"

// Few start points leave most of the device idle: then a block takes all the threads it can have.
#define SCAN_THREADS     256
#define SCAN_THREADS_FEW 1024
#define SCAN_STARTS_FEW  132

__device__ static int coarse_score(const int16_t *window, const struct search_coarse *map,
                                   int anchor)
{
    const int16_t *base =
        window + (SEARCH_COARSE_WINDOW / 2 - map->anchor_v[anchor]) * SEARCH_COARSE_WINDOW +
        SEARCH_COARSE_WINDOW / 2 - map->anchor_u[anchor];
    const int z0 = map->anchor_z[anchor];
    int sum = 0, n_seen = 0;
    for (int v = map->row_first; v < map->row_end; v++) {
        union {
            uint4 words[2];
            int16_t cells[SEARCH_COARSE_CELLS];
        } model, ring;
        const uint4 *z_row = (const uint4 *)(map->z + v * SEARCH_COARSE_CELLS);
        const uint4 *ring_row = (const uint4 *)(map->ring + v * SEARCH_COARSE_CELLS);
        for (int k = 0; k < 2; k++) {
            model.words[k] = z_row[k];
            ring.words[k] = ring_row[k];
        }
#pragma unroll
        for (int k = 0; k < SEARCH_COARSE_CELLS; k++)
            sum += search_coarse_cell(base[v * SEARCH_COARSE_WINDOW + k], model.cells[k],
                                      ring.cells[k], z0, &n_seen);
    }
    return search_coarse_score(sum, n_seen, map->n_cells);
}

template <int THREADS>
__global__ void __launch_bounds__(THREADS)
    scan_kernel(const float *z_m, struct search_camera camera, const struct search_frame *starts,
                const struct search_coarse *coarse, const uint32_t *seeds, uint32_t n_seeds,
                uint32_t keep, struct search_hit *out)
{
    // Best anchor of each seed: score and anchor. Then the `keep` best, one after the other.
    extern __shared__ unsigned long long best[];
    __shared__ int16_t window[SEARCH_COARSE_WINDOW * SEARCH_COARSE_WINDOW];
    __shared__ unsigned long long top[THREADS / 32];
    const struct search_frame frame = starts[blockIdx.x];
    const float cell_m = SEARCH_COARSE_PX * frame.px_m;
    for (int i = threadIdx.x; i < SEARCH_COARSE_WINDOW * SEARCH_COARSE_WINDOW; i += THREADS) {
        int u = i % SEARCH_COARSE_WINDOW - SEARCH_COARSE_WINDOW / 2;
        int v = i / SEARCH_COARSE_WINDOW - SEARCH_COARSE_WINDOW / 2;
        float z = 0;
        int seen = search_frame_sample(z_m, &camera, frame.rotation, frame.start_m,
                                       (float)u * cell_m, (float)v * cell_m, &z);
        window[i] = (int16_t)search_coarse_scene(seen, z / frame.px_m);
    }
    __syncthreads();
    for (uint32_t s = threadIdx.x; s < n_seeds; s += THREADS) {
        const struct search_coarse *map = &coarse[seeds[s]];
        int best_score = INT32_MIN, best_anchor = 0;
        for (int a = 0; a < map->n_anchors; a++) {
            if (!search_coarse_facing(frame.normal, map->anchor_normal[a]))
                continue;
            int score = coarse_score(window, map, a);
            if (score > best_score) {
                best_score = score;
                best_anchor = a;
            }
        }
        // Higher score first, then the earlier seed; the anchor rides along.
        uint32_t order = (uint32_t)best_score ^ 0x80000000u;
        best[s] = (unsigned long long)order << 32 | (0xffffffu - s) << 8 | (uint32_t)best_anchor;
    }
    for (uint32_t k = 0; k < keep; k++) {
        __syncthreads();
        unsigned long long mine = 0;
        for (uint32_t s = threadIdx.x; s < n_seeds; s += THREADS)
            mine = best[s] > mine ? best[s] : mine;
        for (int d = 16; d > 0; d /= 2) {
            unsigned long long other = __shfl_xor_sync(0xffffffffu, mine, d);
            mine = other > mine ? other : mine;
        }
        if (threadIdx.x % 32 == 0)
            top[threadIdx.x / 32] = mine;
        __syncthreads();
        for (int w = 0; w < THREADS / 32; w++)
            mine = top[w] > mine ? top[w] : mine;
        if (threadIdx.x > 0)
            continue;
        struct search_hit hit = {INT32_MIN, 0, blockIdx.x, 0};
        if (mine >> 32 != 0) {
            uint32_t s = 0xffffffu - (uint32_t)(mine >> 8 & 0xffffffu);
            hit.score = (int32_t)((uint32_t)(mine >> 32) ^ 0x80000000u);
            hit.view = seeds[s];
            hit.anchor = (uint32_t)(mine & 0xffu);
            best[s] = 0;
        }
        out[(size_t)blockIdx.x * keep + k] = hit;
    }
}

int search_cuda_scan(void *device, const struct search_object *object,
                     const struct search_frame *starts, uint32_t n_starts, uint32_t keep,
                     struct search_hit *out)
{
    struct search_cuda *cuda = (struct search_cuda *)device;
    const struct cuda_object *copy = (const struct cuda_object *)object->device;
    if (n_starts == 0)
        return 0;
    TRY(cudaSetDevice(cuda->device));
    size_t n_hits = (size_t)n_starts * keep;
    int err = search_cuda_grow_result(cuda, n_hits * sizeof *out);
    if (!err)
        err = search_cuda_grow_work(cuda, n_starts * sizeof *starts);
    if (err)
        return err;
    TRY(cudaMemcpyAsync(cuda->work, starts, n_starts * sizeof *starts, cudaMemcpyHostToDevice,
                        cuda->stream));
    const struct search_frame *frames = (const struct search_frame *)cuda->work;
    struct search_hit *hits = (struct search_hit *)cuda->result;
    size_t shared_bytes = object->n_seeds * sizeof(unsigned long long);
    if (n_starts <= SCAN_STARTS_FEW)
        scan_kernel<SCAN_THREADS_FEW><<<n_starts, SCAN_THREADS_FEW, shared_bytes, cuda->stream>>>(
            cuda->z_m, cuda->camera, frames, copy->coarse, copy->seeds, object->n_seeds, keep,
            hits);
    else
        scan_kernel<SCAN_THREADS><<<n_starts, SCAN_THREADS, shared_bytes, cuda->stream>>>(
            cuda->z_m, cuda->camera, frames, copy->coarse, copy->seeds, object->n_seeds, keep,
            hits);
    TRY(cudaGetLastError());
    TRY(cudaMemcpyAsync(cuda->result_host, cuda->result, n_hits * sizeof *out,
                        cudaMemcpyDeviceToHost, cuda->stream));
    TRY(cudaStreamSynchronize(cuda->stream));
    memcpy(out, cuda->result_host, n_hits * sizeof *out);
    return 0;
}

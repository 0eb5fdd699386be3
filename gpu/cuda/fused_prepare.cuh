// SPDX-License-Identifier: Apache-2.0
// The fused kernel's first half: upload, filter and maps of a frame, of the next one ahead of its
// time, and the loop's source from maps that an earlier launch has made.
#ifndef POSED_GPU_CUDA_FUSED_PREPARE_CUH
#define POSED_GPU_CUDA_FUSED_PREPARE_CUH

#include "gpu/cuda/fused.cuh"

#define UPLOAD_AHEAD 4 // 16-byte loads of a thread on their way at once

static __device__ __forceinline__ unsigned load_acquire(const unsigned *address)
{
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

static __device__ __forceinline__ void add_release(unsigned *address)
{
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(address) : "memory");
}

// All threads of a block, which have just written what another block is to read.
static __device__ __forceinline__ void arrive(unsigned *counter)
{
    __syncthreads();
    if (threadIdx.x == 0)
        add_release(counter);
}

// All threads of a block.
static __device__ __forceinline__ void await(const unsigned *counter, unsigned target)
{
    if (threadIdx.x == 0)
        while ((int)(load_acquire(counter) - target) < 0)
            ;
    __syncthreads();
}

// The upload: each block copies its share of the image, in 16-byte units, from the host's memory to
// the device's, where the tiles with their halos are read from (read from the host with halos, the
// frame takes 51 us instead of 14). Rejected: the image in three bands, each filtered while the
// next one is on the bus. The bus serves the blocks so unevenly that the first band is complete no
// earlier than the last, with plain loads, asynchronous copies or bulk copies, asked for at once or
// one after another: 93 to 98 us a frame instead of 89.
static __device__ __forceinline__ void upload_share(const struct fused_params *p, unsigned *first,
                                                    unsigned *end)
{
    unsigned n = (unsigned)p->n_blocks, share = (p->n_units + n - 1) / n;
    *first = blockIdx.x * share;
    *end = min(*first + share, p->n_units);
}

static __device__ __forceinline__ void upload_begin(const struct fused_params *p,
                                                    uint4 held[UPLOAD_AHEAD])
{
    unsigned first, end;
    upload_share(p, &first, &end);
#pragma unroll
    for (unsigned i = 0; i < UPLOAD_AHEAD; i++) {
        unsigned unit = first + threadIdx.x + i * FUSED_THREADS;
        if (unit < end)
            held[i] = __ldcv(p->depth + unit);
    }
}

static __device__ __forceinline__ void upload_finish(const struct fused_params *p,
                                                     uint4 held[UPLOAD_AHEAD])
{
    unsigned first, end;
    upload_share(p, &first, &end);
    for (; first < end; first += UPLOAD_AHEAD * FUSED_THREADS) {
#pragma unroll
        for (unsigned i = 0; i < UPLOAD_AHEAD; i++) {
            unsigned unit = first + threadIdx.x + i * FUSED_THREADS;
            if (unit < end)
                __stcg(p->raw + unit, held[i]);
            unit += UPLOAD_AHEAD * FUSED_THREADS;
            if (unit < end)
                held[i] = __ldcv(p->depth + unit);
        }
    }
    arrive(p->arrivals);
    await(p->arrivals, p->arrivals_target);
}

// What the blocks that have no part in the frame do meanwhile: the upload of the next one.
static __device__ __forceinline__ void upload_next(const struct fused_params *p)
{
    const unsigned n_threads = (gridDim.x - (unsigned)p->n_blocks) * FUSED_THREADS;
    unsigned unit = (blockIdx.x - (unsigned)p->n_blocks) * FUSED_THREADS + threadIdx.x;
    for (; unit < p->n_units; unit += UPLOAD_AHEAD * n_threads) {
        uint4 held[UPLOAD_AHEAD];
#pragma unroll
        for (unsigned i = 0; i < UPLOAD_AHEAD; i++)
            if (unit + i * n_threads < p->n_units)
                held[i] = __ldcv(p->next_depth + unit + i * n_threads);
#pragma unroll
        for (unsigned i = 0; i < UPLOAD_AHEAD; i++)
            if (unit + i * n_threads < p->n_units)
                __stcg(p->next_raw + unit + i * n_threads, held[i]);
    }
    arrive(p->next_arrivals);
}

// Maps of the n pieces from round `first` on. KEEP: also in shared memory, as the loop's source.
template <int LEVEL, bool KEEP>
static __device__ __forceinline__ void write_level(const struct fused_params *p,
                                                   struct fused_shared *s, int first, int n,
                                                   struct map_px *maps)
{
    const struct level_camera *camera = &p->cameras[LEVEL];
    const int w = PIECE_W >> LEVEL, n_px = PIECE_PX(LEVEL);
    for (int i = (int)threadIdx.x; i < n * n_px; i += FUSED_THREADS) {
        const struct piece_corner corner = shared_corners(s)[first + i / n_px];
        int u0 = corner.x >> LEVEL, v0 = corner.y >> LEVEL;
        int x = i % n_px % w, y = i % n_px / w;
        float4 px = tile_map_px(&s->tiles[i / n_px], camera, LEVEL, u0, v0, x, y);
        if (KEEP)
            shared_source(s, p->n_rounds)[source_offset<LEVEL>(p) + first * n_px + i] = px;
        if (u0 + x < camera->width_px && v0 + y < camera->height_px)
            ((float4 *)maps)[(v0 + y) * camera->width_px + u0 + x] = px;
    }
}

template <bool KEEP>
static __device__ __forceinline__ void prepare(const struct fused_params *p, struct fused_shared *s,
                                               const uint4 *raw, struct map_px *const *maps)
{
    for (int first = 0; first < p->n_rounds; first += TILE_GROUP) {
        const int n = min(TILE_GROUP, p->n_rounds - first);
        tiles_load(s->tiles, n, shared_corners(s) + first, &p->filter, &p->cameras[0],
                   (const uint16_t *)raw);
        __syncthreads();
        tiles_filter(s->tiles, n, &p->filter);
        __syncthreads();
        clock_mark(s, GPU_STAGE_FILTER + 1);
        write_level<0, KEEP>(p, s, first, n, maps[0]);
        write_level<1, KEEP>(p, s, first, n, maps[1]);
        write_level<2, KEEP>(p, s, first, n, maps[2]);
    }
    clock_mark(s, GPU_STAGE_MAPS + 1);
}

// The next frame's maps, once it is there.
static __device__ __forceinline__ void prepare_next(const struct fused_params *p,
                                                    struct fused_shared *s)
{
    __syncthreads(); // what the tiles overwrite has been read
    await(p->next_arrivals, p->next_arrivals_target);
    clock_mark(s, GPU_STAGE_FILTER);
    prepare<false>(p, s, p->next_raw, p->next_maps);
    if (blockIdx.x == 0 && threadIdx.x == 0)
        for (int i = GPU_STAGE_FILTER; i <= GPU_STAGE_MAPS; i++)
            p->next_stages[i] = (unsigned)(s->clocks[i + 1] - s->clocks[i]);
}

template <int LEVEL>
static __device__ __forceinline__ float4 read_source(const struct fused_params *p,
                                                     struct local_px at)
{
    float4 px = {0, 0, 0, 0};
    if (at.inside)
        px = ((const float4 *)p->align.source[LEVEL])[at.y * p->cameras[LEVEL].width_px + at.x];
    return px;
}

// The source of an alignment whose frame was prepared by an earlier launch. All loads of a thread
// are asked for before the first is used.
template <int LEVEL, int MAX_PX>
static __device__ __forceinline__ void
load_source_begin(const struct fused_params *p, struct fused_shared *s, float4 held[MAX_PX])
{
#pragma unroll
    for (int k = 0; k < MAX_PX; k++)
        held[k] =
            read_source<LEVEL>(p, local_px_of<LEVEL>(p, s, (int)threadIdx.x + k * FUSED_THREADS));
}

template <int LEVEL, int MAX_PX>
static __device__ __forceinline__ void
load_source_finish(const struct fused_params *p, struct fused_shared *s, const float4 held[MAX_PX])
{
#pragma unroll
    for (int k = 0; k < MAX_PX; k++) {
        int i = (int)threadIdx.x + k * FUSED_THREADS;
        if (i < p->n_rounds * PIECE_PX(LEVEL))
            shared_source(s, p->n_rounds)[source_offset<LEVEL>(p) + i] = held[k];
    }
}

static __device__ __forceinline__ void load_source(const struct fused_params *p,
                                                   struct fused_shared *s)
{
    float4 full[LOAD_MAX_PX(0)], half[LOAD_MAX_PX(1)], quarter[LOAD_MAX_PX(2)];
    load_source_begin<2, LOAD_MAX_PX(2)>(p, s, quarter);
    load_source_begin<1, LOAD_MAX_PX(1)>(p, s, half);
    load_source_begin<0, LOAD_MAX_PX(0)>(p, s, full);
    load_source_finish<2, LOAD_MAX_PX(2)>(p, s, quarter);
    load_source_finish<1, LOAD_MAX_PX(1)>(p, s, half);
    load_source_finish<0, LOAD_MAX_PX(0)>(p, s, full);
}

#endif

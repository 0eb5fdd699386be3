// SPDX-License-Identifier: Apache-2.0
// The fused kernel's first half: upload, filter and maps of a frame, of the next one ahead of its
// time, and the loop's source from maps that an earlier launch has made.
#ifndef POSED_GPU_TRACK_CUDA_FUSED_PREPARE_CUH
#define POSED_GPU_TRACK_CUDA_FUSED_PREPARE_CUH

#include "gpu/track/cuda/fused.cuh"

// 16-byte loads of a thread on their way at once: fewer leave the bus idle.
#define UPLOAD_AHEAD 4

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

// The chunks of an image that are warp number `warp`'s of n_warps, in the order of their rows:
// straight from the host's memory to the device's, from where tiles with halos are read (the bus
// carries each byte once). Four blocks fill the bus, and it serves them in the order of asking:
// therefore what a warp asks for at a time lies side by side. Bands of all blocks one after another
// would not come sooner: the bus serves so many so unevenly that the first is complete last.
static __device__ __forceinline__ void
upload_chunks(const struct fused_params *p, const struct upload *u, unsigned warp, unsigned n_warps)
{
    const unsigned lane = threadIdx.x % 32;
    for (unsigned first = UPLOAD_AHEAD * warp; first < p->n_chunks;
         first += UPLOAD_AHEAD * n_warps) {
        const unsigned unit = first * CHUNK_UNITS + lane;
        uint4 held[UPLOAD_AHEAD];
#pragma unroll
        for (unsigned i = 0; i < UPLOAD_AHEAD; i++)
            if (unit + i * CHUNK_UNITS < p->n_units)
                held[i] = __ldcv(u->depth + unit + i * CHUNK_UNITS);
#pragma unroll
        for (unsigned i = 0; i < UPLOAD_AHEAD; i++)
            if (unit + i * CHUNK_UNITS < p->n_units)
                __stcg(u->raw + unit + i * CHUNK_UNITS, held[i]);
        __syncwarp();
        if (lane < UPLOAD_AHEAD && first + lane < p->n_chunks)
            add_release(u->bands + (first + lane) * CHUNK_BYTES / p->band_bytes * BAND_STRIDE);
    }
}

// What the blocks do that have no part in the frame: they upload it, then the next one.
static __device__ __forceinline__ void upload_all(const struct fused_params *p, unsigned block,
                                                  unsigned n_blocks)
{
    const unsigned warp = threadIdx.x / 32 * n_blocks + block, n_warps = n_blocks * FUSED_WARPS;
    if (p->now.depth)
        upload_chunks(p, &p->now, warp, n_warps);
    if (p->next.depth)
        upload_chunks(p, &p->next, warp, n_warps);
}

// Chunks before row y of the pieces.
static __device__ __forceinline__ unsigned chunks_before(const struct fused_params *p, int y)
{
    return min(((unsigned)y * p->band_bytes + CHUNK_BYTES - 1) / CHUNK_BYTES, p->n_chunks);
}

// Waits for what n pieces from round `first` on need: their own row of pieces and its neighbours. A
// chunk that begins a row of pieces earlier ends before any filter's halo (gpu/settings.h: 32 px at
// least).
static __device__ __forceinline__ void await_pieces(const struct fused_params *p,
                                                    const struct upload *u, int first, int n)
{
    const int thread = (int)threadIdx.x;
    if (thread < 3 * n) {
        const int rows = p->n_pieces / p->pieces_x;
        int piece = min((first + thread / 3) * p->n_blocks + (int)blockIdx.x, p->n_pieces - 1);
        int y = min(max(piece / p->pieces_x + thread % 3 - 1, 0), rows - 1);
        unsigned target = u->n * (chunks_before(p, y + 1) - chunks_before(p, y));
        while ((int)(load_acquire(u->bands + y * BAND_STRIDE) - target) < 0)
            ;
    }
    __syncthreads();
}

// Map pixel number i of the n pieces from round `first` on. KEEP: also in shared memory, as the
// loop's source.
template <int LEVEL, bool KEEP>
static __device__ __forceinline__ void write_px(const struct fused_params *p,
                                                struct fused_shared *s, const struct tile *tiles,
                                                int first, int i, struct map_px *maps)
{
    const struct level_camera *camera = &p->cameras[LEVEL];
    const int w = PIECE_W >> LEVEL, n_px = PIECE_PX(LEVEL);
    const struct piece_corner corner = shared_corners(p, s)[first + i / n_px];
    int u0 = corner.x >> LEVEL, v0 = corner.y >> LEVEL;
    int x = i % n_px % w, y = i % n_px / w;
    float4 px = tile_map_px(&tiles[i / n_px], camera, LEVEL, u0, v0, x, y);
    if (KEEP)
        shared_source(p, s)[source_offset<LEVEL>(p) + first * n_px + i] = px;
    if (u0 + x < camera->width_px && v0 + y < camera->height_px)
        ((float4 *)maps)[(v0 + y) * camera->width_px + u0 + x] = px;
}

template <bool KEEP>
static __device__ __forceinline__ void write_maps(const struct fused_params *p,
                                                  struct fused_shared *s, const struct tile *tiles,
                                                  int first, int n, struct map_px *const *maps)
{
    const int end0 = n * PIECE_PX(0), end1 = end0 + n * PIECE_PX(1), end2 = n * PIECE_ALL_PX;
    for (int i = (int)threadIdx.x; i < end2; i += FUSED_THREADS)
        if (i < end0)
            write_px<0, KEEP>(p, s, tiles, first, i, maps[0]);
        else if (i < end1)
            write_px<1, KEEP>(p, s, tiles, first, i - end0, maps[1]);
        else
            write_px<2, KEEP>(p, s, tiles, first, i - end1, maps[2]);
}

// Waits for the pieces of `group` rounds from `first` on, and asks for them.
static __device__ __forceinline__ void load_begin(const struct fused_params *p,
                                                  struct fused_shared *s, const struct upload *u,
                                                  int first, int group, struct tile_load *out)
{
    const int n = min(group, p->n_rounds - first);
    const struct piece_corner *corners = shared_corners(p, s) + first;
    const uint16_t *raw = (const uint16_t *)u->raw;
    await_pieces(p, u, first, n);
    clock_mark(s, GPU_STAGE_UPLOAD + 1);
    if (group == 1)
        tiles_load_begin<1>(1, corners, &p->filter, &p->cameras[0], raw, out);
    else
        tiles_load_begin<TILE_GROUP>(n, corners, &p->filter, &p->cameras[0], raw, out);
}

// `group` pieces at a time: one while the frame is still on its way, else as many as there are
// tiles. The next ones come in while maps are made.
template <bool KEEP, bool FIELD>
static __device__ __forceinline__ void prepare(const struct fused_params *p, struct fused_shared *s,
                                               const struct upload *u, struct map_px *const *maps,
                                               int group)
{
    struct tile *tiles = shared_tiles(s);
    struct tile_load load;
    load_begin(p, s, u, 0, group, &load);
    for (int first = 0; first < p->n_rounds; first += group) {
        const int n = min(group, p->n_rounds - first);
        if (group == 1)
            tiles_load_finish<1, FIELD>(tiles, 1, shared_corners(p, s) + first, &p->filter,
                                        &p->cameras[0], &load);
        else
            tiles_load_finish<TILE_GROUP, FIELD>(tiles, n, shared_corners(p, s) + first, &p->filter,
                                                 &p->cameras[0], &load);
        __syncthreads();
        tiles_filter(tiles, n, &p->filter);
        __syncthreads();
        clock_mark(s, GPU_STAGE_FILTER + 1);
        if (first + group < p->n_rounds)
            load_begin(p, s, u, first + group, group, &load);
        write_maps<KEEP>(p, s, tiles, first, n, maps);
    }
    clock_mark(s, GPU_STAGE_MAPS + 1);
}

// The next frame's maps, once it is there.
template <bool FIELD>
static __device__ __forceinline__ void prepare_next(const struct fused_params *p,
                                                    struct fused_shared *s)
{
    __syncthreads(); // the clocks have been read
    prepare<false, FIELD>(p, s, &p->next, p->next_maps, TILE_GROUP);
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
            shared_source(p, s)[source_offset<LEVEL>(p) + i] = held[k];
    }
}

static __device__ __forceinline__ void load_source(const struct fused_params *p,
                                                   struct fused_shared *s)
{
    float4 full[LOAD_PX(0)], half[LOAD_PX(1)], quarter[LOAD_PX(2)];
    load_source_begin<2, LOAD_PX(2)>(p, s, quarter);
    load_source_begin<1, LOAD_PX(1)>(p, s, half);
    load_source_begin<0, LOAD_PX(0)>(p, s, full);
    load_source_finish<2, LOAD_PX(2)>(p, s, quarter);
    load_source_finish<1, LOAD_PX(1)>(p, s, half);
    load_source_finish<0, LOAD_PX(0)>(p, s, full);
}

#endif

// SPDX-License-Identifier: Apache-2.0
// A frame in one launch: one cooperative kernel uploads the raw depth, filters it, makes the maps
// of three levels, runs all iterations of all levels, and leaves the pose in mapped host memory,
// where the host polls for it. There is one exchange between the blocks per iteration and no host
// round trip at all.
//
// Upload: all blocks copy, straight from the host's memory. When the caller has named the next
// frame (gpu_prefetch), blocks that this one does not need upload it meanwhile, and all others
// prepare it when their pose has left: its launch then finds the maps made, and what the host takes
// to read a pose and launch again is hidden behind that work.
//
// Loop: each block keeps its pieces' source pixels, in registers for a level. Source and sums never
// leave the block; a reference pixel is one 16-byte read. What an iteration takes is latency:
// exchange, reduction and solve, beside the pixels.
//
// What it must do at 640 x 480, 7x7, 10/5/4 iterations, and what an H200 (132 multiprocessors, 1.98
// GHz) takes for it:
//   upload  0.61 MB over PCIe 5 x16                       15.1 us, 41 GB/s, 64 % of the bus
//   filter  49 taps x 7 operations x 371,000 px           6.7 us, 57 % of the issue rate
//   maps    6.5 MB written, 40 operations x 403,000 px    2.2 us, 2.9 TB/s into the L2 cache
//   loop    3.5 million pixels x 105 operations           51 us, 22 % of the issue rate: 3.0 us an
//           iteration on the full resolution, 2.0 on the half, 1.6 on the quarter, of which 1.5 are
//           latency (exchange 0.9, solve 0.3, barriers and reduction 0.3)
//   launch and result                                     8 us
// The formulas are those of gpu/kernels: bilateral.h, maps.h, icp.h, solve.h.
//
// Tried without gain: skipping a warp's pixels where none is valid and leaving out the last pixel
// of warps that have none (the branches cost more than they save), 224 or 512 threads on the half
// resolution, 96 on the quarter, an ordinary launch instead of the cooperative one (0.4 us).
#include "gpu/cuda/exchange.cuh"
#include "gpu/cuda/icp.cuh"
#include "gpu/cuda/tile.cuh"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FUSED_THREADS    512
#define FUSED_WARPS      (FUSED_THREADS / 32)
#define SMALL_ROUNDS     3 // pieces of a block whose source pixels fit into registers
#define SMALL_MAX_PX(l)  (((SMALL_ROUNDS * PIECE_PX(l)) + LEVEL_THREADS(l) - 1) / LEVEL_THREADS(l))
// Pixels that a thread brings into shared memory.
#define LOAD_MAX_PX(l)   ((SMALL_ROUNDS * PIECE_PX(l) + FUSED_THREADS - 1) / FUSED_THREADS)
// Threads that work on a level. On the coarse ones a thread takes two pixels rather than few
// threads one each, because a warp's sums cost as much as four of its pixels.
#define LEVEL_THREADS(l) ((l) == 0 ? FUSED_THREADS : (l) == 1 ? 320 : 160)
#define MAX_SPARE        4   // blocks that upload the next frame; four fill the bus
#define UPLOAD_AHEAD     4   // 16-byte loads of a thread on their way at once
#define POLL_PATIENCE    2e9 // ns; a frame takes 1e5

SOLVE_DEFINE(float)

// Result in mapped host memory: 16-byte words, written and seen as one, of three 32-bit payloads
// and the launch's tag. The payloads in order:
enum result_payload {
    RESULT_SUMS = 0, // ICP_N_SUMS doubles, low half first
    RESULT_POSE = 2 * ICP_N_SUMS,
    RESULT_INFORMATION = RESULT_POSE + 12, // ICP_N_SUMS floats
    RESULT_SIZE2 = RESULT_INFORMATION + ICP_N_SUMS,
    RESULT_ITERATIONS,
    RESULT_FLAGS = RESULT_ITERATIONS + GPU_LEVELS, // solvable | converged << 1
    RESULT_STAGES,
    RESULT_N = RESULT_STAGES + GPU_N_STAGES,
    RESULT_N_WORDS = (RESULT_N + 2) / 3,
};

struct fused_params {
    struct cuda_filter filter;
    struct level_camera cameras[GPU_LEVELS];
    struct cuda_align align;
    float scales[ICP_N_SUMS]; // fixed point of each sum
    const uint4 *depth;       // host memory; NULL: no upload
    uint4 *raw;
    bool prepare_wanted;
    struct map_px *maps[GPU_LEVELS]; // of the frame
    bool align_wanted;
    const uint4 *next_depth; // host memory: the frame after this one; NULL: none
    uint4 *next_raw;
    struct map_px *next_maps[GPU_LEVELS];
    unsigned *next_arrivals; // of the blocks that upload it
    unsigned next_arrivals_target;
    unsigned *next_stages; // GPU_N_STAGES: clocks that preparing it took, for the launch to come
    bool was_next;         // this frame was prepared by the launch before
    unsigned n_units;      // 16-byte units of the raw image
    int n_blocks;          // that work on the frame; further ones upload the next
    int n_pieces, pieces_x, n_rounds; // a round: one piece for each block
    unsigned *arrivals;               // a counter that only grows
    unsigned arrivals_target;         // what it shows when all blocks of this launch arrived
    struct exchange_memory exchange;
    uint4 *result;
    unsigned tag;
};

struct __align__(16) fused_shared
{
    union {
        struct tile tiles[TILE_GROUP];
        float partial[FUSED_WARPS][ICP_N_SUMS];
    };
    float sums[ICP_N_SUMS];
    struct icp_pose pose;
    struct icp_gates gates;
    int state; // enum loop_state
    // Warp 0's own; here so that it costs the other warps no registers.
    struct exchange_shared exchange;
    long long totals[ICP_N_SUMS];
    float scales[ICP_N_SUMS], inv_scales[ICP_N_SUMS];
    float size2_m2;
    int n_iterations[GPU_LEVELS];
    int solvable, converged;
    float information[ICP_N_SUMS];
    unsigned payload[3 * RESULT_N_WORDS];
    unsigned next_stages[GPU_N_STAGES]; // what the launch before has left
    long long clocks[GPU_N_STAGES + 1]; // start, then the end of each stage
    // Behind it: the corners of the block's pieces, then (SMALL only) their source pixels, level by
    // level.
};

// Words in the device's memory that outlive a launch, counters on lines of their own.
enum control { CONTROL_ARRIVALS = 0, CONTROL_NEXT_ARRIVALS = 32, CONTROL_NEXT_STAGES = 64 };
#define CONTROL_BYTES (128 * sizeof(unsigned))

enum loop_state { LOOP_GO_ON, LOOP_LEVEL_DONE, LOOP_STOP };

static __device__ __forceinline__ struct piece_corner *shared_corners(struct fused_shared *s)
{
    return (struct piece_corner *)(s + 1);
}

static __host__ __device__ __forceinline__ size_t corners_bytes(int n_rounds)
{
    return ((size_t)n_rounds * sizeof(struct piece_corner) + 15) / 16 * 16;
}

static __device__ __forceinline__ float4 *shared_source(struct fused_shared *s, int n_rounds)
{
    return (float4 *)((char *)(s + 1) + corners_bytes(n_rounds));
}

static __device__ __forceinline__ void clock_mark(struct fused_shared *s, int stage)
{
    if (threadIdx.x == 0)
        s->clocks[stage] = clock64();
}

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

// Where pixel i of a block's pieces lies on a level.
struct local_px {
    int x, y;
    bool inside;
};

template <int LEVEL>
static __device__ __forceinline__ struct local_px local_px_of(const struct fused_params *p,
                                                              struct fused_shared *s, int i)
{
    const int w = PIECE_W >> LEVEL, n = PIECE_PX(LEVEL), n_local = p->n_rounds * n;
    int round = i / n, k = i % n;
    struct piece_corner corner = shared_corners(s)[i < n_local ? round : 0];
    struct local_px px;
    px.x = (corner.x >> LEVEL) + k % w;
    px.y = (corner.y >> LEVEL) + k / w;
    px.inside =
        (i < n_local) & (px.x < p->cameras[LEVEL].width_px) & (px.y < p->cameras[LEVEL].height_px);
    return px;
}

// First pixel of a level in the block's source array.
template <int LEVEL>
static __device__ __forceinline__ int source_offset(const struct fused_params *p)
{
    return p->n_rounds * (LEVEL > 0 ? PIECE_PX(0) : 0) +
           p->n_rounds * (LEVEL > 1 ? PIECE_PX(1) : 0);
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

// Warp 0: the block's sum number `lane`, in fixed point.
template <int N_WARPS>
static __device__ __forceinline__ long long block_sum(const struct fused_shared *s, unsigned lane)
{
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int warp = 0; warp < N_WARPS; warp++)
        sums[warp % 4] += s->partial[warp][lane];
    return __float2ll_rn(((sums[0] + sums[1]) + (sums[2] + sums[3])) * s->scales[lane]);
}

// Warp 0, between the two barriers of an iteration: the block's sums, everybody's sums, the step.
// Without a branch until the end: a single warp has nothing else to hide a latency behind.
template <int LEVEL, int N_WARPS>
static __device__ __forceinline__ void
iteration_end(const struct fused_params *p, struct fused_shared *s, unsigned set, bool last)
{
    const unsigned lane = threadIdx.x;
    exchange_add(&p->exchange, lane, set, block_sum<N_WARPS>(s, lane));
    struct icp_pose pose = s->pose;
    struct icp_gates gates = s->gates;
    float inv_scale = s->inv_scales[lane];
    long long total = exchange_wait(&s->exchange, &p->exchange, lane, set, (unsigned)p->n_blocks);
    s->sums[lane] = __ll2float_rn(total) * inv_scale;
    __syncwarp();
    float sums[ICP_N_SUMS], twist[6];
#pragma unroll
    for (int i = 0; i < ICP_N_SUMS; i++)
        sums[i] = s->sums[i];
    bool solvable = solve_step_float(sums, LEVEL, twist);
    float size2_m2 = solve_step_size2_float(sums, twist);
    icp_gates_update(&gates, sums[ICP_SUM_ABS], sums[ICP_SUM_PAIRS]);
    pose = icp_pose_step(twist, &pose);
    bool done = last | (size2_m2 < p->align.stop2_m2[LEVEL]);
    s->totals[lane] = total;
    if (lane == 0) {
        s->state = !solvable ? LOOP_STOP : done ? LOOP_LEVEL_DONE : LOOP_GO_ON;
        s->solvable = solvable;
        if (solvable) {
            s->pose = pose;
            s->gates = gates;
            s->size2_m2 = size2_m2;
            s->converged = size2_m2 < p->align.converged2_m2[LEVEL];
            s->n_iterations[LEVEL]++;
        }
    }
}

// The gates of an iteration: the fixed ones from the launch's parameters, where they are constants
// to the code, the others from shared memory.
static __device__ __forceinline__ struct icp_gates gates_now(const struct fused_params *p,
                                                             const struct fused_shared *s)
{
    struct icp_gates gates = p->align.gates;
    gates.inv_cut2 = s->gates.inv_cut2;
    gates.cap_m = s->gates.cap_m;
    return gates;
}

// The pixels of a thread, which wait in registers. The next one's target is on its way while the
// one before is added.
template <int LEVEL, int MAX_PX>
static __device__ __forceinline__ void
sum_registers(const struct fused_params *p, const struct fused_shared *s,
              const struct icp_source source[MAX_PX], float sums[ICP_N_SUMS])
{
    const struct level_camera *camera = &p->cameras[LEVEL];
    const float4 *target = (const float4 *)p->align.target[LEVEL];
    const struct icp_pose pose = s->pose;
    const struct icp_gates running = gates_now(p, s), gates = icp_gates_at(&running, LEVEL);
    struct icp_landing landings[2];
    icp_land(camera, &pose, &source[0], target, &landings[0]);
#pragma unroll
    for (int k = 0; k < MAX_PX; k++) {
        if (k + 1 < MAX_PX)
            icp_land(camera, &pose, &source[k + 1 < MAX_PX ? k + 1 : 0], target,
                     &landings[(k + 1) % 2]);
        icp_add(camera, &gates, &pose, &source[k], &landings[k % 2], sums);
    }
}

// A walk over a thread's pixels in the block's pieces, FUSED_THREADS further with each step: the
// same as local_px_of without its divisions.
struct piece_walk {
    int x, y, round;
};

template <int LEVEL>
static __device__ __forceinline__ struct local_px
walk_px(const struct fused_params *p, struct fused_shared *s, struct piece_walk *walk)
{
    const int w = PIECE_W >> LEVEL, h = PIECE_H >> LEVEL;
    const int rest = FUSED_THREADS % PIECE_PX(LEVEL);
    struct local_px px = {0, 0, false};
    if (walk->round < p->n_rounds) {
        struct piece_corner corner = shared_corners(s)[walk->round];
        px.x = (corner.x >> LEVEL) + walk->x;
        px.y = (corner.y >> LEVEL) + walk->y;
        px.inside = (px.x < p->cameras[LEVEL].width_px) & (px.y < p->cameras[LEVEL].height_px);
    }
    walk->x += rest % w;
    walk->y += rest / w + (walk->x >= w ? 1 : 0);
    walk->x -= walk->x >= w ? w : 0;
    walk->round += FUSED_THREADS / PIECE_PX(LEVEL) + (walk->y >= h ? 1 : 0);
    walk->y -= walk->y >= h ? h : 0;
    return px;
}

// The pixels of a thread, read from the maps in each iteration: two ahead, their targets one ahead.
template <int LEVEL>
static __device__ __forceinline__ void sum_memory(const struct fused_params *p,
                                                  struct fused_shared *s, float sums[ICP_N_SUMS])
{
    const struct level_camera *camera = &p->cameras[LEVEL];
    const float4 *target = (const float4 *)p->align.target[LEVEL];
    const int n_local = p->n_rounds * PIECE_PX(LEVEL), first = (int)threadIdx.x;
    const int w = PIECE_W >> LEVEL;
    const struct icp_pose pose = s->pose;
    const struct icp_gates running = gates_now(p, s), gates = icp_gates_at(&running, LEVEL);
    struct piece_walk walk = {first % PIECE_PX(LEVEL) % w, first % PIECE_PX(LEVEL) / w,
                              first / PIECE_PX(LEVEL)};
    // A ring of three: the pixel that is added, and two whose targets are on their way. Pixels
    // behind the last are no source.
    struct icp_source source[3];
    struct icp_landing landing[3];
#pragma unroll
    for (int k = 0; k < 2; k++) {
        struct local_px at = walk_px<LEVEL>(p, s, &walk);
        source[k] = icp_source_of(camera, at.x, at.y, read_source<LEVEL>(p, at));
        icp_land(camera, &pose, &source[k], target, &landing[k]);
    }
    struct local_px at = walk_px<LEVEL>(p, s, &walk);
    float4 px = read_source<LEVEL>(p, at);
    for (int i = 0; i < n_local; i += 3 * FUSED_THREADS) {
#pragma unroll
        for (int k = 0; k < 3; k++) {
            const int ahead = (k + 2) % 3;
            source[ahead] = icp_source_of(camera, at.x, at.y, px);
            at = walk_px<LEVEL>(p, s, &walk);
            px = read_source<LEVEL>(p, at);
            icp_land(camera, &pose, &source[ahead], target, &landing[ahead]);
            icp_add(camera, &gates, &pose, &source[k], &landing[k], sums);
            sums[ICP_SUM_VALID] += icp_source_valid(&source[k]) ? 1.0f : 0.0f;
        }
    }
}

// All iterations of a level. SMALL: the block's source pixels fit into registers; else they are
// read in each iteration. Returns false when not solvable.
template <int LEVEL, bool SMALL>
static __device__ __forceinline__ bool icp_level(const struct fused_params *p,
                                                 struct fused_shared *s, unsigned *set)
{
    const int threads = SMALL ? LEVEL_THREADS(LEVEL) : FUSED_THREADS, max_px = SMALL_MAX_PX(LEVEL);
    const int tid = (int)threadIdx.x;
    struct icp_source source[max_px];
    float n_valid = 0.0f;
    if (p->align.iterations[LEVEL] == 0)
        return true;
    if (tid == 0)
        s->converged = 0;
    if (SMALL && tid < threads) {
#pragma unroll
        for (int k = 0; k < max_px; k++) {
            int i = tid + k * threads;
            float4 px = {0, 0, 0, 0};
            struct local_px at = local_px_of<LEVEL>(p, s, i);
            if (at.inside)
                px = shared_source(s, p->n_rounds)[source_offset<LEVEL>(p) + i];
            source[k] = icp_source_of(&p->cameras[LEVEL], at.x, at.y, px);
            n_valid += icp_source_valid(&source[k]) ? 1.0f : 0.0f;
        }
    }
    for (int iteration = 1;; iteration++) {
        if (tid < threads) {
            float sums[ICP_N_SUMS];
#pragma unroll
            for (int i = 0; i < ICP_N_SUMS; i++)
                sums[i] = 0.0f;
            sums[ICP_SUM_VALID] = n_valid;
            if (SMALL)
                sum_registers<LEVEL, max_px>(p, s, source, sums);
            else
                sum_memory<LEVEL>(p, s, sums);
            s->partial[tid / 32][tid % 32] = warp_transpose_sum(sums, (unsigned)tid % 32);
        }
        __syncthreads();
        if (tid < 32)
            iteration_end<LEVEL, threads / 32>(p, s, *set, iteration == p->align.iterations[LEVEL]);
        *set ^= 1;
        __syncthreads();
        int state = s->state;
        if (state != LOOP_GO_ON)
            return state != LOOP_STOP;
    }
}

// The information pass (gpu.h) on the coarsest level. The other blocks leave their share and go;
// block 0 waits for it.
template <bool SMALL>
static __device__ __forceinline__ void icp_information(const struct fused_params *p,
                                                       struct fused_shared *s, unsigned set)
{
    const int LEVEL = GPU_LEVELS - 1, tid = (int)threadIdx.x, n = p->n_rounds * PIECE_PX(LEVEL);
    const int threads = SMALL ? LEVEL_THREADS(LEVEL) : FUSED_THREADS;
    const struct level_camera *camera = &p->cameras[LEVEL];
    const struct icp_pose pose = s->pose;
    const struct icp_gates gates = gates_now(p, s);
    float sums[ICP_N_SUMS];
#pragma unroll
    for (int i = 0; i < ICP_N_SUMS; i++)
        sums[i] = 0.0f;
    for (int i = tid; tid < threads && i < n; i += threads) {
        struct local_px at = local_px_of<LEVEL>(p, s, i);
        float4 px = SMALL ? shared_source(s, p->n_rounds)[source_offset<LEVEL>(p) + i]
                          : read_source<LEVEL>(p, at);
        struct icp_source one = icp_source_of(camera, at.x, at.y, px);
        struct icp_landing landing;
        icp_land(camera, &pose, &one, (const float4 *)p->align.target[LEVEL], &landing);
        icp_add_information(camera, &gates, &pose, &one, &landing, sums);
    }
    if (tid < threads)
        s->partial[tid / 32][tid % 32] = warp_transpose_sum(sums, (unsigned)tid % 32);
    __syncthreads();
    if (tid >= 32)
        return;
    exchange_add(&p->exchange, (unsigned)tid, set, block_sum<threads / 32>(s, (unsigned)tid));
    if (blockIdx.x == 0)
        s->information[tid] = (float)exchange_wait(&s->exchange, &p->exchange, (unsigned)tid, set,
                                                   (unsigned)p->n_blocks) *
                              s->inv_scales[tid];
}

// Warp 0 of block 0.
static __device__ __forceinline__ void put_result(const struct fused_params *p,
                                                  struct fused_shared *s)
{
    const unsigned lane = threadIdx.x;
    unsigned *payload = s->payload;
    double sum = (double)s->totals[lane] * (double)s->inv_scales[lane];
    unsigned long long bits = (unsigned long long)__double_as_longlong(sum);
    payload[RESULT_SUMS + 2 * lane] = (unsigned)bits;
    payload[RESULT_SUMS + 2 * lane + 1] = (unsigned)(bits >> 32);
    payload[RESULT_INFORMATION + lane] = __float_as_uint(s->information[lane]);
    if (lane < 12)
        payload[RESULT_POSE + lane] =
            __float_as_uint(lane < 9 ? s->pose.r[lane] : s->pose.t_m[lane - 9]);
    else if (lane == 12)
        payload[RESULT_SIZE2] = __float_as_uint(s->size2_m2);
    else if (lane == 13)
        payload[RESULT_FLAGS] = (s->solvable ? 1u : 0u) | (s->converged ? 2u : 0u);
    else if (lane < 14 + GPU_LEVELS)
        payload[RESULT_ITERATIONS + lane - 14] = (unsigned)s->n_iterations[lane - 14];
    else if (lane >= 20 && lane < 20 + GPU_N_STAGES)
        payload[RESULT_STAGES + lane - 20] =
            p->was_next && lane - 20 <= GPU_STAGE_MAPS
                ? s->next_stages[lane - 20]
                : (unsigned)(s->clocks[lane - 19] - s->clocks[lane - 20]);
    __syncwarp();
    for (unsigned word = lane; word < RESULT_N_WORDS; word += 32)
        asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p->result + word),
                     "r"(payload[3 * word]), "r"(payload[3 * word + 1]), "r"(payload[3 * word + 2]),
                     "r"(p->tag)
                     : "memory");
}

static __device__ __forceinline__ void shared_begin(const struct fused_params *p,
                                                    struct fused_shared *s)
{
    const unsigned lane = threadIdx.x;
    if (lane >= 32)
        return;
    exchange_begin(&s->exchange, &p->exchange, lane);
    s->scales[lane] = p->scales[lane];
    s->inv_scales[lane] = 1.0f / p->scales[lane]; // powers of two: exact
    s->totals[lane] = 0;
    s->information[lane] = 0.0f;
    if (lane < GPU_LEVELS)
        s->n_iterations[lane] = 0;
    if (p->was_next && lane <= GPU_STAGE_MAPS)
        s->next_stages[lane] = p->next_stages[lane];
    if (lane == 0) {
        s->pose = p->align.start;
        s->gates = p->align.gates;
        s->size2_m2 = 0.0f;
        s->solvable = 1;
        s->converged = 0;
        for (int i = 1; i <= GPU_STAGE_MAPS + 1; i++)
            s->clocks[i] = s->clocks[0];
    }
}

template <bool SMALL>
__global__ void __launch_bounds__(FUSED_THREADS, 1)
    fused_frame(const __grid_constant__ struct fused_params params)
{
    extern __shared__ char shared_bytes[];
    struct fused_shared *s = (struct fused_shared *)shared_bytes;
    const struct fused_params *p = &params;
    uint4 held[UPLOAD_AHEAD];
    if ((int)blockIdx.x >= p->n_blocks) {
        upload_next(p);
        return;
    }
    clock_mark(s, 0);
    if (p->depth)
        upload_begin(p, held);
    shared_begin(p, s);
    for (int round = (int)threadIdx.x; round < p->n_rounds; round += FUSED_THREADS) {
        int piece = round * p->n_blocks + (int)blockIdx.x;
        struct piece_corner corner = {NO_PIECE, NO_PIECE};
        if (piece < p->n_pieces) {
            corner.x = piece % p->pieces_x * PIECE_W;
            corner.y = piece / p->pieces_x * PIECE_H;
        }
        shared_corners(s)[round] = corner;
    }
    __syncthreads();
    if (p->depth) {
        upload_finish(p, held);
        clock_mark(s, GPU_STAGE_UPLOAD + 1);
    }
    if (p->prepare_wanted) {
        prepare<SMALL>(p, s, p->raw, p->maps);
    } else if (SMALL && p->align_wanted) {
        load_source(p, s);
    }
    __syncthreads();
    if (p->align_wanted) {
        unsigned set = 0;
        bool solvable = icp_level<2, SMALL>(p, s, &set);
        if (solvable)
            solvable = icp_level<1, SMALL>(p, s, &set);
        if (solvable)
            solvable = icp_level<0, SMALL>(p, s, &set);
        if (solvable)
            icp_information<SMALL>(p, s, set);
    }
    if (blockIdx.x == 0 && threadIdx.x < 32) {
        clock_mark(s, GPU_STAGE_ALIGN + 1);
        __syncwarp();
        put_result(p, s);
        exchange_end(&s->exchange, &p->exchange, threadIdx.x);
    }
    if (p->next_depth)
        prepare_next(p, s);
}

struct cuda_fused {
    struct fused_params params; // what does not change from frame to frame
    int n_spare;                // blocks that upload the next frame; 0: it is not prepared
    struct map_px *next_maps[GPU_LEVELS]; // of the next frame, one allocation
    bool small;
    size_t shared_bytes;
    uint4 *result; // mapped host memory
    unsigned n_launches, n_uploads, n_arrivals_next;
    float scales_for_m2; // squared distance gate that params.scales are made for
};

static void fused_close(struct cuda_device *device)
{
    struct cuda_fused *fused = device->fused;
    if (!fused)
        return;
    cudaFree(fused->params.raw);
    cudaFree(fused->params.next_raw);
    cudaFree(fused->params.exchange.words);
    cudaFree(fused->params.exchange.bases);
    cudaFree(fused->next_maps[0]);
    cudaFree(fused->params.arrivals);
    cudaFreeHost(fused->result);
    free(fused);
    device->fused = NULL;
}

static const void *fused_kernel(bool small)
{
    return small ? (const void *)fused_frame<true> : (const void *)fused_frame<false>;
}

static int fused_memory(struct cuda_device *device, struct cuda_fused *fused)
{
    struct fused_params *p = &fused->params;
    const size_t words = EXCHANGE_N_WORDS * sizeof *p->exchange.words;
    const size_t bases = EXCHANGE_N_BASES * sizeof *p->exchange.bases;
    const size_t results = RESULT_N_WORDS * sizeof *fused->result;
    int rc = CUDA_TRY(device, cudaMalloc((void **)&p->exchange.words, words));
    if (rc == 0)
        rc = CUDA_TRY(device, cudaMalloc((void **)&p->exchange.bases, bases));
    if (rc == 0)
        rc = CUDA_TRY(device, cudaMalloc((void **)&p->raw, device->raw_bytes));
    if (rc == 0)
        rc = CUDA_TRY(device, cudaMalloc((void **)&p->arrivals, CONTROL_BYTES));
    if (rc == 0 && fused->n_spare > 0)
        rc = CUDA_TRY(device, cudaMalloc((void **)&p->next_raw, device->raw_bytes));
    if (rc == 0 && fused->n_spare > 0)
        rc = cuda_maps_alloc(device, fused->next_maps);
    if (rc == 0)
        rc = CUDA_TRY(device, cudaHostAlloc((void **)&fused->result, results, cudaHostAllocMapped));
    if (rc == 0)
        rc = CUDA_TRY(device, cudaMemsetAsync(p->exchange.words, 0, words, device->stream));
    if (rc == 0)
        rc = CUDA_TRY(device, cudaMemsetAsync(p->exchange.bases, 0, bases, device->stream));
    if (rc == 0)
        rc = CUDA_TRY(device, cudaMemsetAsync(p->arrivals, 0, CONTROL_BYTES, device->stream));
    if (rc == 0)
        rc = CUDA_TRY(device, cudaStreamSynchronize(device->stream));
    if (rc == 0) {
        p->next_arrivals = p->arrivals + CONTROL_NEXT_ARRIVALS;
        p->next_stages = p->arrivals + CONTROL_NEXT_STAGES;
        memset(fused->result, 0, results);
        rc = CUDA_TRY(device, cudaHostGetDevicePointer((void **)&p->result, fused->result, 0));
    }
    return rc;
}

static int fused_open(struct cuda_device *device)
{
    int cooperative = 0, shared_max = 0, per_sm = 0;
    int rc = CUDA_TRY(
        device, cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, device->device));
    if (rc == 0)
        rc = CUDA_TRY(device,
                      cudaDeviceGetAttribute(&shared_max, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                             device->device));
    if (rc < 0)
        return rc;
    if (!cooperative)
        return -ENOTSUP;
    struct cuda_fused *fused = (struct cuda_fused *)calloc(1, sizeof *fused);
    if (!fused)
        return -ENOMEM;
    device->fused = fused;
    struct fused_params *p = &fused->params;
    p->filter = device->filter;
    memcpy(p->cameras, device->cameras, sizeof p->cameras);
    p->pieces_x = (p->cameras[0].width_px + PIECE_W - 1) / PIECE_W;
    p->n_pieces = p->pieces_x * ((p->cameras[0].height_px + PIECE_H - 1) / PIECE_H);

    int share = device->n_sms;
    if (device->gpu.settings.n_sharing > 1)
        share = share / (int)device->gpu.settings.n_sharing;
    share = share < 4 ? 4 : share > EXCHANGE_MAX_BLOCKS ? EXCHANGE_MAX_BLOCKS : share;
    p->n_rounds = (p->n_pieces + share - 1) / share;
    p->n_blocks = (p->n_pieces + p->n_rounds - 1) / p->n_rounds;
    fused->shared_bytes = sizeof(struct fused_shared) + corners_bytes(p->n_rounds);
    size_t source_bytes = (size_t)p->n_rounds * PIECE_ALL_PX * sizeof(float4);
    fused->small =
        p->n_rounds <= SMALL_ROUNDS && fused->shared_bytes + source_bytes <= (size_t)shared_max;
    fused->shared_bytes += fused->small ? source_bytes : 0;

    p->n_units = (unsigned)(device->raw_bytes / sizeof *p->raw);

    const void *kernel = fused_kernel(fused->small);
    rc = CUDA_TRY(device, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                               (int)fused->shared_bytes));
    if (rc == 0)
        rc = CUDA_TRY(device, cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                                  &per_sm, kernel, FUSED_THREADS, fused->shared_bytes));
    if (rc == 0 && per_sm * device->n_sms < p->n_blocks)
        rc = -ENOTSUP;
    if (device->gpu.settings.n_sharing <= 1 && per_sm * device->n_sms > p->n_blocks)
        fused->n_spare = per_sm * device->n_sms - p->n_blocks;
    fused->n_spare = fused->n_spare > MAX_SPARE ? MAX_SPARE : fused->n_spare;
    if (rc == 0)
        rc = fused_memory(device, fused);
    if (rc < 0)
        fused_close(device);
    return rc;
}

// No sum of its kind can exceed these: n pixels, weights and normals of at most 1, residuals within
// the gate, lever arms within the depth range at the image's corner.
static void scales_fill(const struct cuda_device *device, const struct cuda_align *align,
                        float scales[ICP_N_SUMS])
{
    const struct level_camera *c = &device->cameras[0];
    const struct icp_gates widest = icp_gates_at(&align->gates, GPU_LEVELS - 1);
    double n_px = (double)c->width_px * c->height_px, gate_m = sqrt((double)widest.distance2_m2);
    double x = fmax(c->cx_px, c->width_px - c->cx_px) * fabs((double)c->inv_fx);
    double y = fmax(c->cy_px, c->height_px - c->cy_px) * fabs((double)c->inv_fy);
    double arm_m = (double)device->filter.depth_max_m * sqrt(1 + x * x + y * y) + gate_m;
    for (int i = 0, k = ICP_SUM_H; i < 6; i++) {
        for (int j = i; j < 6; j++, k++)
            scales[k] = exchange_scale(n_px * (i < 3 ? 1 : arm_m) * (j < 3 ? 1 : arm_m));
        scales[ICP_SUM_G + i] = exchange_scale(n_px * gate_m * (i < 3 ? 1 : arm_m));
    }
    scales[ICP_SUM_WRR] = exchange_scale(n_px * gate_m * gate_m);
    scales[ICP_SUM_W] = scales[ICP_SUM_PAIRS] = scales[ICP_SUM_VALID] = exchange_scale(n_px);
    scales[ICP_SUM_ABS] = exchange_scale(n_px * gate_m);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

// Waits until the word shows the launch's tag. Asks the stream now and then, because after an error
// the word never comes.
static int result_await(struct cuda_device *device, const uint4 *word, unsigned tag)
{
    int64_t start_ns = 0;
    for (unsigned n = 1; __atomic_load_n(&word->w, __ATOMIC_ACQUIRE) != tag; n++) {
        if (n % 20000 != 0)
            continue;
        cudaError_t error = cudaStreamQuery(device->stream);
        if (error == cudaSuccess && __atomic_load_n(&word->w, __ATOMIC_ACQUIRE) != tag)
            error = cudaErrorUnknown; // done, and no result
        if (error != cudaErrorNotReady && error != cudaSuccess)
            return CUDA_TRY(device, error);
        if (start_ns == 0)
            start_ns = now_ns();
        if ((double)(now_ns() - start_ns) > POLL_PATIENCE)
            return CUDA_TRY(device, cudaErrorLaunchTimeout);
    }
    return 0;
}

static int result_read(struct cuda_device *device, const struct cuda_fused *fused,
                       struct cuda_result *out)
{
    uint32_t payload[3 * RESULT_N_WORDS];
    for (int i = 0; i < RESULT_N_WORDS; i++) {
        int rc = result_await(device, &fused->result[i], fused->params.tag);
        if (rc < 0)
            return rc;
        memcpy(&payload[3 * i], &fused->result[i], 3 * sizeof payload[0]);
    }
    memcpy(out->sums, payload + RESULT_SUMS, sizeof out->sums);
    memcpy(&out->pose, payload + RESULT_POSE, sizeof out->pose);
    for (int i = 0; i < ICP_N_SUMS; i++) {
        float sum;
        memcpy(&sum, &payload[RESULT_INFORMATION + i], sizeof sum);
        out->information_sums[i] = (double)sum;
    }
    memcpy(&out->size2_m2, payload + RESULT_SIZE2, sizeof out->size2_m2);
    memcpy(out->n_iterations, payload + RESULT_ITERATIONS, sizeof out->n_iterations);
    out->solvable = payload[RESULT_FLAGS] & 1;
    out->converged = payload[RESULT_FLAGS] >> 1 & 1;
    for (int i = 0; i < GPU_N_STAGES; i++)
        out->stage_us[i] = (float)payload[RESULT_STAGES + i] * device->us_per_cycle;
    return 0;
}

static int fused_run(struct cuda_device *device, const uint16_t *depth, struct gpu_frame *frame,
                     const struct cuda_align *align, struct cuda_result *out)
{
    struct cuda_fused *fused = device->fused;
    struct fused_params *p = &fused->params;
    // The maps of a frame that the launch before has prepared change places with the frame's own.
    p->was_next = depth && device->prepared_depth == depth;
    for (int level = 0; level < GPU_LEVELS; level++) {
        struct map_px *maps = frame->maps[level];
        if (p->was_next) {
            frame->maps[level] = fused->next_maps[level];
            fused->next_maps[level] = maps;
        }
        p->maps[level] = frame->maps[level];
    }
    p->prepare_wanted = depth && !p->was_next;
    p->depth = p->prepare_wanted ? (const uint4 *)depth : NULL;
    p->next_depth = NULL;
    if (depth) {
        p->next_depth = fused->n_spare > 0 ? (const uint4 *)device->next_depth : NULL;
        memcpy(p->next_maps, fused->next_maps, sizeof p->next_maps);
        device->prepared_depth = device->next_depth = NULL;
    }
    const unsigned n_spare = p->next_depth ? (unsigned)fused->n_spare : 0;
    p->align_wanted = align != NULL;
    if (align) {
        p->align = *align;
        memcpy(p->align.source, p->maps, sizeof p->align.source);
        if (fused->scales_for_m2 != align->gates.distance2_m2)
            scales_fill(device, align, p->scales);
        fused->scales_for_m2 = align->gates.distance2_m2;
    }
    if (p->depth)
        p->arrivals_target = ++fused->n_uploads * (unsigned)p->n_blocks;
    if (p->next_depth)
        p->next_arrivals_target = fused->n_arrivals_next += n_spare;
    fused->n_launches += fused->n_launches == UINT32_MAX ? 2 : 1; // 0 is no tag
    p->tag = fused->n_launches;
    void *arguments[] = {p};
    int rc = CUDA_TRY(device, cudaLaunchCooperativeKernel(fused_kernel(fused->small),
                                                          dim3((unsigned)p->n_blocks + n_spare),
                                                          dim3(FUSED_THREADS), arguments,
                                                          fused->shared_bytes, device->stream));
    if (rc == 0)
        rc = result_read(device, fused, out);
    if (rc == 0 && p->next_depth)
        device->prepared_depth = (const uint16_t *)p->next_depth;
    return rc;
}

extern const struct cuda_path cuda_path_fused = {"fused", fused_open, fused_close, fused_run};

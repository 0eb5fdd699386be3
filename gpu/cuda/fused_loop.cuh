// SPDX-License-Identifier: Apache-2.0
// The fused kernel's second half: the iterations of a level, and the information pass.
#ifndef POSED_GPU_CUDA_FUSED_LOOP_CUH
#define POSED_GPU_CUDA_FUSED_LOOP_CUH

#include "gpu/cuda/fused_prepare.cuh"

SOLVE_DEFINE(float)

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

#endif

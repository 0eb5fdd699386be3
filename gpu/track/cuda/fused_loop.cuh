// SPDX-License-Identifier: Apache-2.0
// The fused kernel's second half: the iterations of a level, and the information pass.
#ifndef POSED_GPU_TRACK_CUDA_FUSED_LOOP_CUH
#define POSED_GPU_TRACK_CUDA_FUSED_LOOP_CUH

#include "gpu/track/cuda/fused_prepare.cuh"

SOLVE_DEFINE(float, solve6_fast)

// Warp 0: the block's sum number `lane`, in fixed point.
template <int N_WARPS>
static __device__ __forceinline__ long long block_sum(const float partial[][ICP_N_SUMS],
                                                      const float *scales, unsigned lane)
{
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int warp = 0; warp < N_WARPS; warp++)
        sums[warp % 4] += partial[warp][lane];
    return __float2ll_rn(((sums[0] + sums[1]) + (sums[2] + sums[3])) * scales[lane]);
}

// Warp 0, between the two barriers of an iteration: the block's sums, everybody's sums, the step.
// Without a branch until the end: a single warp has nothing else to hide a latency behind.
template <int LEVEL, int N_WARPS>
static __device__ __forceinline__ void
iteration_end(const struct fused_params *p, struct fused_shared *s, unsigned set, bool last)
{
    const unsigned lane = threadIdx.x;
    exchange_add(&p->exchange, lane, set, block_sum<N_WARPS>(s->partial, s->scales, lane));
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
static __device__ __forceinline__ struct icp_gates gates_with(const struct fused_params *p,
                                                              const struct icp_gates *running)
{
    struct icp_gates gates = p->align.gates;
    gates.inv_cut2 = running->inv_cut2;
    gates.cap_m = running->cap_m;
    return gates;
}

// The block's source pixels of a level as they wait in shared memory.
template <int LEVEL>
static __device__ __forceinline__ struct icp_source shared_px(const struct fused_params *p,
                                                              struct fused_shared *s, int i)
{
    struct local_px at = local_px_of<LEVEL>(p, s, i);
    float4 px = {0, 0, 0, 0};
    if (at.inside)
        px = shared_source(p, s)[source_offset<LEVEL>(p) + i];
    return icp_source_of(&p->cameras[LEVEL], at.x, at.y, px);
}

// A thread's pixels of a level, for all its iterations. Returns how many are source pixels.
template <int LEVEL>
static __device__ __forceinline__ float source_begin(const struct fused_params *p,
                                                     struct fused_shared *s,
                                                     struct icp_source source[SMALL_PX(LEVEL)])
{
    float n_valid = 0.0f;
#pragma unroll
    for (int k = 0; k < SMALL_PX(LEVEL); k++) {
        source[k] = shared_px<LEVEL>(p, s, (int)threadIdx.x + k * SMALL_THREADS(LEVEL));
        n_valid += icp_source_valid(&source[k]) ? 1.0f : 0.0f;
    }
    return n_valid;
}

// The pixels of a thread, which wait in registers. The next one's target is on its way while the
// one before is added.
template <int LEVEL>
static __device__ __forceinline__ void
sum_registers(const struct fused_params *p, const struct fused_shared *s,
              const struct icp_source source[SMALL_PX(LEVEL)], float sums[ICP_N_SUMS])
{
    const int max_px = SMALL_PX(LEVEL);
    const struct icp_pose pose = s->pose;
    const struct level_camera *camera = &p->cameras[LEVEL];
    const float4 *target = (const float4 *)p->align.target[LEVEL];
    const struct icp_gates running = gates_with(p, &s->gates);
    const struct icp_gates gates = icp_gates_at(&running, LEVEL);
    struct icp_landing landings[2];
    icp_land(camera, &pose, &source[0], target, &landings[0]);
#pragma unroll
    for (int k = 0; k < max_px; k++) {
        if (k + 1 < max_px)
            icp_land(camera, &pose, &source[k + 1 < max_px ? k + 1 : 0], target,
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
        struct piece_corner corner = shared_corners(p, s)[walk->round];
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
    const struct icp_gates running = gates_with(p, &s->gates),
                           gates = icp_gates_at(&running, LEVEL);
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

#define INFORMATION_FIRST          32 // warp 0 is busy meanwhile
#define INFORMATION_THREADS(small) ((small) ? SMALL_THREADS(GPU_LEVELS - 1) : FUSED_THREADS - 32)
#define INFORMATION_BARRIER        1 // __syncthreads has 0

// The information pass (gpu.h) on the coarsest level, from the pose and gates of the newest sums:
// threads from INFORMATION_FIRST on, beside warp 0 as it ends an iteration that is the last, or may
// be. The other blocks leave their share; block 0 waits for it.
template <bool SMALL>
static __device__ __forceinline__ void icp_information(const struct fused_params *p,
                                                       struct fused_shared *s, unsigned set)
{
    const int LEVEL = GPU_LEVELS - 1, threads = INFORMATION_THREADS(SMALL);
    const int thread = (int)threadIdx.x - INFORMATION_FIRST;
    const unsigned lane = threadIdx.x % 32;
    if (thread >= threads)
        return;
    const struct level_camera *camera = &p->cameras[LEVEL];
    const struct icp_pose pose = s->summed_pose;
    const struct icp_gates gates = gates_with(p, &s->summed_gates);
    float sums[ICP_N_SUMS];
#pragma unroll
    for (int i = 0; i < ICP_N_SUMS; i++)
        sums[i] = 0.0f;
    for (int i = thread; i < p->n_rounds * PIECE_PX(LEVEL); i += threads) {
        struct icp_source one;
        if (SMALL) {
            one = shared_px<LEVEL>(p, s, i);
        } else {
            struct local_px at = local_px_of<LEVEL>(p, s, i);
            one = icp_source_of(camera, at.x, at.y, read_source<LEVEL>(p, at));
        }
        struct icp_landing landing;
        icp_land(camera, &pose, &one, (const float4 *)p->align.target[LEVEL], &landing);
        icp_add_information(camera, &gates, &pose, &one, &landing, sums);
    }
    s->information_partial[thread / 32][lane] = warp_transpose_sum(sums, lane);
    asm volatile("bar.sync %0, %1;" ::"n"(INFORMATION_BARRIER), "n"(threads) : "memory");
    if (thread >= 32)
        return;
    exchange_add(&p->exchange, lane, set,
                 block_sum<threads / 32>(s->information_partial, s->scales, lane));
    if (blockIdx.x == 0)
        s->information[lane] =
            (float)exchange_wait(&s->exchange, &p->exchange, lane, set, (unsigned)p->n_blocks) *
            s->inv_scales[lane];
}

// All iterations of a level. Returns false when not solvable.
template <int LEVEL, bool SMALL>
static __device__ __forceinline__ bool icp_level(const struct fused_params *p,
                                                 struct fused_shared *s, unsigned *set)
{
    const int threads = SMALL ? SMALL_THREADS(LEVEL) : FUSED_THREADS;
    const int tid = (int)threadIdx.x;
    struct icp_source source[SMALL_PX(LEVEL)];
    float n_valid = 0.0f;
    if (p->align.iterations[LEVEL] == 0)
        return true;
    if (tid == 0)
        s->converged = 0;
    if (SMALL && tid < threads)
        n_valid = source_begin<LEVEL>(p, s, source);
    for (int iteration = 1;; iteration++) {
        const bool last = iteration == p->align.iterations[LEVEL];
        if (tid < threads) {
            float sums[ICP_N_SUMS];
#pragma unroll
            for (int i = 0; i < ICP_N_SUMS; i++)
                sums[i] = 0.0f;
            sums[ICP_SUM_VALID] = n_valid;
            if (SMALL)
                sum_registers<LEVEL>(p, s, source, sums);
            else
                sum_memory<LEVEL>(p, s, sums);
            s->partial[tid / 32][tid % 32] = warp_transpose_sum(sums, (unsigned)tid % 32);
        }
        if (tid == FUSED_THREADS - 1) {
            s->summed_pose = s->pose;
            s->summed_gates = s->gates;
        }
        __syncthreads();
        if (tid < 32)
            iteration_end<LEVEL, threads / 32>(p, s, *set, last);
        else if (LEVEL == 0 && (last || p->align.stop2_m2[LEVEL] > 0.0f))
            icp_information<SMALL>(p, s, EXCHANGE_INFORMATION + *set);
        *set ^= 1;
        __syncthreads();
        int state = s->state;
        if (state != LOOP_GO_ON)
            return state != LOOP_STOP;
    }
}

// All levels, and the information pass.
template <bool SMALL>
static __device__ __forceinline__ void icp_loop(const struct fused_params *p,
                                                struct fused_shared *s)
{
    unsigned set = 0;
    bool solvable = icp_level<2, SMALL>(p, s, &set);
    if (solvable)
        solvable = icp_level<1, SMALL>(p, s, &set);
    if (solvable)
        solvable = icp_level<0, SMALL>(p, s, &set);
    if (solvable && p->align.iterations[0] == 0) {
        if (threadIdx.x >= INFORMATION_FIRST)
            icp_information<SMALL>(p, s, EXCHANGE_INFORMATION);
        __syncthreads();
    }
}

#endif

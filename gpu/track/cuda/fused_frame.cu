// SPDX-License-Identifier: Apache-2.0
// A frame in one launch: one cooperative kernel uploads the raw depth, filters it, makes the maps
// of three levels, runs all iterations of all levels, and leaves the pose in mapped host memory,
// where the host polls for it. There is one exchange between the blocks per iteration and no host
// round trip at all.
//
// Upload: a few blocks of their own copy the image, row after row, straight from the host's memory,
// and count what has come; the others filter a piece as soon as its rows are there, the first and
// the second third of the image beside the upload. When the caller has named the next frame
// (gpu_prefetch), the same blocks upload it next, and all others prepare it when their pose has
// left: its launch then finds the maps made, and what the host takes to read a pose and launch
// again is hidden behind that work.
//
// Loop: each block keeps its pieces' source pixels, in registers for a level. Source and sums never
// leave the block; a reference pixel is one 16-byte read. What an iteration takes is latency:
// exchange, reduction and solve, beside the pixels.
//
// The work at 640 x 480, 7x7, 10/5/4 iterations (posed-bench track prints each stage's share of
// what the device can do; tools/bench/MEASURED.md has the times and what limits them):
//   upload  0.61 MB over the bus
//   filter  49 taps x 6 operations a pixel
//   maps    6.5 MB, 40 operations a map pixel
//   loop    3.5 million pixels x 105 operations, 32 bytes each, most of them in registers
// The formulas are those of gpu/track/kernels: bilateral.h, normal_maps.h, icp.h, solve.h.
//
// What looks like a gain and is none: branches that skip a warp's invalid pixels cost more than
// they save. LDL^T by blocks of two has three reciprocals in a row instead of six, but in front of
// a wall its step is wrong by metres in single precision. A loop that is one code for all levels
// is shorter and slower: the level is no constant there. Cameras that wait for each other share a
// device worse than cameras whose blocks run beside each other.
#include "gpu/track/cuda/fused_loop.cuh"
#include "proto/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_SPARE     4   // blocks that upload; four fill the bus
#define POLL_PATIENCE 2e9 // ns; a frame takes 1e5

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

template <bool SMALL, bool FIELD>
__global__ void __launch_bounds__(FUSED_THREADS, 1)
    fused_frame(const __grid_constant__ struct fused_params params)
{
    extern __shared__ char shared_bytes[];
    struct fused_shared *s = (struct fused_shared *)shared_bytes;
    const struct fused_params *p = &params;
    if ((int)blockIdx.x >= p->n_blocks) {
        upload_all(p, blockIdx.x - (unsigned)p->n_blocks, gridDim.x - (unsigned)p->n_blocks);
        return;
    }
    clock_mark(s, 0);
    const bool feeds = (int)gridDim.x == p->n_blocks; // there are no blocks for the upload alone
    if (feeds)
        upload_all(p, blockIdx.x, gridDim.x);
    shared_begin(p, s);
    for (int round = (int)threadIdx.x; round < p->n_rounds; round += FUSED_THREADS) {
        int piece = round * p->n_blocks + (int)blockIdx.x;
        struct piece_corner corner = {NO_PIECE, NO_PIECE};
        if (piece < p->n_pieces) {
            corner.x = piece % p->pieces_x * PIECE_W;
            corner.y = piece / p->pieces_x * PIECE_H;
        }
        shared_corners(p, s)[round] = corner;
    }
    __syncthreads();
    if (p->prepare_wanted)
        prepare<SMALL, FIELD>(p, s, &p->now, p->maps, feeds ? TILE_GROUP : 1);
    else if (SMALL && p->align_wanted)
        load_source(p, s);
    __syncthreads();
    if (p->align_wanted)
        icp_loop<SMALL>(p, s);
    if (blockIdx.x == 0 && threadIdx.x < 32) {
        clock_mark(s, GPU_STAGE_ALIGN + 1);
        __syncwarp();
        put_result(p, s);
        exchange_end(&s->exchange, &p->exchange, threadIdx.x);
    }
    if (p->next.depth)
        prepare_next<FIELD>(p, s);
}

struct cuda_fused {
    struct fused_params params; // what does not change from frame to frame
    int n_spare; // blocks that only upload; 0: all do, and the next frame is not prepared
    struct map_px *next_maps[GPU_LEVELS]; // of the next frame, one allocation
    bool small;
    size_t shared_bytes;
    uint4 *result; // mapped host memory
    unsigned n_launches;
    float scales_for_m2; // squared distance gate that params.scales are made for
};

static void fused_close(struct cuda_device *device)
{
    struct cuda_fused *fused = device->fused;
    if (!fused)
        return;
    cudaFree(fused->params.now.raw);
    cudaFree(fused->params.next.raw);
    cudaFree(fused->params.exchange.words);
    cudaFree(fused->params.exchange.bases);
    cudaFree(fused->next_maps[0]);
    cudaFree(fused->params.now.bands);
    cudaFreeHost(fused->result);
    free(fused);
    device->fused = NULL;
}

// A kernel of its own for devices with a field, so that the others pay nothing for it.
static const void *fused_kernel(const struct cuda_fused *fused)
{
    if (fused->params.filter.field_per_m)
        return fused->small ? (const void *)fused_frame<true, true>
                            : (const void *)fused_frame<false, true>;
    return fused->small ? (const void *)fused_frame<true, false>
                        : (const void *)fused_frame<false, false>;
}

static int fused_memory(struct cuda_device *device, struct cuda_fused *fused)
{
    struct fused_params *p = &fused->params;
    const size_t words = EXCHANGE_N_WORDS * sizeof *p->exchange.words;
    const size_t bases = EXCHANGE_N_BASES * sizeof *p->exchange.bases;
    const size_t results = RESULT_N_WORDS * sizeof *fused->result;
    // The counters of both uploads and the stages, each on a line of its own.
    const size_t bands = (size_t)(p->n_pieces / p->pieces_x) * BAND_STRIDE;
    const size_t control = (2 * bands + BAND_STRIDE) * sizeof *p->now.bands;
    int rc = CUDA_TRY(&device->dev, cudaMalloc((void **)&p->exchange.words, words));
    if (rc == 0)
        rc = CUDA_TRY(&device->dev, cudaMalloc((void **)&p->exchange.bases, bases));
    if (rc == 0)
        rc = CUDA_TRY(&device->dev, cudaMalloc((void **)&p->now.raw, device->raw_bytes));
    if (rc == 0)
        rc = CUDA_TRY(&device->dev, cudaMalloc((void **)&p->now.bands, control));
    if (rc == 0 && fused->n_spare > 0)
        rc = CUDA_TRY(&device->dev, cudaMalloc((void **)&p->next.raw, device->raw_bytes));
    if (rc == 0 && fused->n_spare > 0)
        rc = cuda_maps_alloc(device, fused->next_maps);
    if (rc == 0)
        rc = CUDA_TRY(&device->dev,
                      cudaHostAlloc((void **)&fused->result, results, cudaHostAllocMapped));
    if (rc == 0)
        rc = CUDA_TRY(&device->dev,
                      cudaMemsetAsync(p->exchange.words, 0, words, device->dev.stream));
    if (rc == 0)
        rc = CUDA_TRY(&device->dev,
                      cudaMemsetAsync(p->exchange.bases, 0, bases, device->dev.stream));
    if (rc == 0)
        rc = CUDA_TRY(&device->dev, cudaMemsetAsync(p->now.bands, 0, control, device->dev.stream));
    if (rc == 0)
        rc = CUDA_TRY(&device->dev, cudaStreamSynchronize(device->dev.stream));
    if (rc == 0) {
        p->next.bands = p->now.bands + bands;
        p->next_stages = p->next.bands + bands;
        memset(fused->result, 0, results);
        rc =
            CUDA_TRY(&device->dev, cudaHostGetDevicePointer((void **)&p->result, fused->result, 0));
    }
    return rc;
}

static int fused_open(struct cuda_device *device)
{
    int cooperative = 0, shared_max = 0, per_sm = 0;
    int rc =
        CUDA_TRY(&device->dev, cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch,
                                                      device->dev.index));
    if (rc == 0)
        rc = CUDA_TRY(&device->dev,
                      cudaDeviceGetAttribute(&shared_max, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                             device->dev.index));
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

    int share = device->dev.n_sms / (int)device->gpu.settings.n_sharing;
    share = share < 4 ? 4 : share > EXCHANGE_MAX_BLOCKS ? EXCHANGE_MAX_BLOCKS : share;
    p->n_rounds = (p->n_pieces + share - 1) / share;
    p->n_blocks = (p->n_pieces + p->n_rounds - 1) / p->n_rounds;
    fused->shared_bytes =
        sizeof(struct fused_shared) + TILE_GROUP * sizeof(struct tile) + corners_bytes(p->n_rounds);
    const size_t source_bytes = (size_t)p->n_rounds * PIECE_ALL_PX * sizeof(float4);
    fused->small =
        p->n_rounds <= SMALL_ROUNDS && fused->shared_bytes + source_bytes <= (size_t)shared_max;
    fused->shared_bytes += fused->small ? source_bytes : 0;

    p->n_units = (unsigned)(device->raw_bytes / sizeof *p->now.raw);
    p->n_chunks = (p->n_units + CHUNK_UNITS - 1) / CHUNK_UNITS;
    p->band_bytes = (unsigned)(PIECE_H * p->cameras[0].width_px) * (unsigned)sizeof(uint16_t);

    const void *kernel = fused_kernel(fused);
    rc = CUDA_TRY(&device->dev,
                  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       (int)fused->shared_bytes));
    if (rc == 0)
        rc = CUDA_TRY(&device->dev, cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                                        &per_sm, kernel, FUSED_THREADS, fused->shared_bytes));
    if (rc == 0 && per_sm * device->dev.n_sms < p->n_blocks)
        rc = -ENOTSUP;
    if (device->gpu.settings.n_sharing <= 1 && per_sm * device->dev.n_sms > p->n_blocks)
        fused->n_spare = per_sm * device->dev.n_sms - p->n_blocks;
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
    // A field takes depth at most to twice its range (gpu/settings.h).
    double far_m = (double)device->filter.depth_max_m * (device->filter.field_per_m ? 2 : 1);
    double arm_m = far_m * sqrt(1 + x * x + y * y) + gate_m;
    for (int i = 0, k = ICP_SUM_H; i < 6; i++) {
        for (int j = i; j < 6; j++, k++)
            scales[k] = exchange_scale(n_px * (i < 3 ? 1 : arm_m) * (j < 3 ? 1 : arm_m));
        scales[ICP_SUM_G + i] = exchange_scale(n_px * gate_m * (i < 3 ? 1 : arm_m));
    }
    scales[ICP_SUM_WRR] = exchange_scale(n_px * gate_m * gate_m);
    scales[ICP_SUM_W] = scales[ICP_SUM_PAIRS] = scales[ICP_SUM_VALID] = exchange_scale(n_px);
    scales[ICP_SUM_ABS] = exchange_scale(n_px * gate_m);
}

// Waits until the word shows the launch's tag. Asks the stream now and then, because after an error
// the word never comes.
static int result_await(struct cuda_device *device, const uint4 *word, unsigned tag)
{
    int64_t start_ns = 0;
    for (unsigned n = 1; __atomic_load_n(&word->w, __ATOMIC_ACQUIRE) != tag; n++) {
        if (n % 20000 != 0)
            continue;
        cudaError_t error = cudaStreamQuery(device->dev.stream);
        if (error == cudaSuccess && __atomic_load_n(&word->w, __ATOMIC_ACQUIRE) != tag)
            error = cudaErrorUnknown; // done, and no result
        if (error != cudaErrorNotReady && error != cudaSuccess)
            return cuda_check(&device->dev, error, "the frame's kernel", __FILE__, __LINE__);
        if (start_ns == 0)
            start_ns = clock_monotonic_ns();
        if ((double)(clock_monotonic_ns() - start_ns) > POLL_PATIENCE)
            return cuda_check(&device->dev, cudaErrorLaunchTimeout, "the frame's kernel", __FILE__,
                              __LINE__);
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
    p->now.depth = p->prepare_wanted ? (const uint4 *)depth : NULL;
    p->next.depth = NULL;
    if (depth) {
        p->next.depth = fused->n_spare > 0 ? (const uint4 *)device->next_depth : NULL;
        memcpy(p->next_maps, fused->next_maps, sizeof p->next_maps);
        device->prepared_depth = device->next_depth = NULL;
    }
    const unsigned n_spare = p->now.depth || p->next.depth ? (unsigned)fused->n_spare : 0;
    p->align_wanted = align != NULL;
    if (align) {
        p->align = *align;
        memcpy(p->align.source, p->maps, sizeof p->align.source);
        if (fused->scales_for_m2 != align->gates.distance2_m2)
            scales_fill(device, align, p->scales);
        fused->scales_for_m2 = align->gates.distance2_m2;
    }
    p->now.n += p->now.depth ? 1 : 0;
    p->next.n += p->next.depth ? 1 : 0;
    fused->n_launches += fused->n_launches == UINT32_MAX ? 2 : 1; // 0 is no tag
    p->tag = fused->n_launches;
    void *arguments[] = {p};
    int rc = CUDA_TRY(&device->dev,
                      cudaLaunchCooperativeKernel(
                          fused_kernel(fused), dim3((unsigned)p->n_blocks + n_spare),
                          dim3(FUSED_THREADS), arguments, fused->shared_bytes, device->dev.stream));
    if (rc < 0) { // nobody will arrive: the counters stay as the device has them
        p->now.n -= p->now.depth ? 1 : 0;
        p->next.n -= p->next.depth ? 1 : 0;
        return rc;
    }
    rc = result_read(device, fused, out);
    if (rc == 0 && p->next.depth)
        device->prepared_depth = (const uint16_t *)p->next.depth;
    return rc;
}

extern const struct cuda_path cuda_path_fused = {"fused", fused_open, fused_close, fused_run};

// SPDX-License-Identifier: Apache-2.0
// The paper's search: one downhill simplex a view, a warp each.
//
//   error     sum |EDT_I - EDT_R| / n + lambda sum |z_I - z_R - z| / n_both (germann_error.h)
//   work      a view of 1,095 px: 35 rows of 32 pixels, 31 evaluations in 15 iterations
//   a row     one 8-byte load a lane from shared memory (3 wavefronts), 9 instructions
//   limit     instructions issued: 31 x (35 x 9 + 280 of sums, divisions, simplex) a warp
//   measured  on an H200 at 1.5 GHz, 2,048 views: 101 us (207 before the rows were taken in fours)
//
// The window lies in shared memory. Of a view's pixels 640 lie in registers, 608 more in shared
// memory, so that an evaluation reads nothing else. Rows are taken in fours without asking which of
// their pixels exist: missing ones repeat the lane's first pixel, and its share is taken off at the
// end. Warps take views from a queue that starts with the largest.
#include <errno.h>
#include <string.h>

#include "gpu/search/cuda/find.cuh"
#include "gpu/search/kernels/germann_error.h"
#include "gpu/search/kernels/simplex.h"

#define FIT_WARPS    16
#define FIT_HELD     20 // rows in registers
#define FIT_GROUP    4
#define FIT_TAIL     608 // pixels in shared memory, of each warp
#define FIT_THREADS  (32 * FIT_WARPS)
#define PIXEL_BYTES  sizeof(float2)
#define WINDOW_BYTES (SEARCH_WINDOW_PIXELS * PIXEL_BYTES)
#define TAIL_BYTES   (FIT_TAIL * (PIXEL_BYTES + sizeof(uint16_t)))
#define SHARED_BYTES (WINDOW_BYTES + FIT_WARPS * TAIL_BYTES)

struct lane_sums {
    float cover, range;
    int n_range;
};

// search_error_pixel in floats that hold integers: below 2^24 they are exact, and a lane's sums
// stay below (128 pixels of 2^16).
__device__ __forceinline__ void add_pixel(const char *base, uint32_t offset, float reference_z,
                                          float reference_edt, float z, struct lane_sums *sums)
{
    const float2 input = *(const float2 *)(base + offset);
    sums->cover += fabsf(input.y - reference_edt);
    const float r = fabsf((input.x - reference_z) - z);
    if (input.y >= 0.f) {
        sums->range += r;
        sums->n_range += 1;
    }
}

// A view's pixels as its warp keeps them.
struct held_view {
    float z[FIT_HELD], edt[FIT_HELD];
    uint32_t offset[FIT_HELD]; // bytes
    uint32_t n_groups;         // of rows
    float n_repeated;          // pixels of this lane that stand for missing ones
};

__device__ __forceinline__ void hold_view(const float2 *own, const uint16_t *own_offset,
                                          uint32_t n_pixels, uint32_t lane, float2 *tail,
                                          uint16_t *tail_offset, struct held_view *out)
{
    const uint32_t n_rows = (n_pixels + 31) / 32;
    out->n_groups = ((n_rows < FIT_HELD ? n_rows : FIT_HELD) + FIT_GROUP - 1) / FIT_GROUP;
    uint32_t n_mine = 0;
#pragma unroll
    for (int k = 0; k < FIT_HELD; k++) {
        const uint32_t i = 32 * (uint32_t)k + lane;
        const bool there = i < n_pixels;
        n_mine += there;
        float2 pixel = make_float2(0, 0);
        uint32_t offset = 0;
        if (there) {
            pixel = own[i];
            offset = own_offset[i] * (uint32_t)PIXEL_BYTES;
        }
        out->z[k] = k == 0 || there ? pixel.x : out->z[0];
        out->edt[k] = k == 0 || there ? pixel.y : out->edt[0];
        out->offset[k] = k == 0 || there ? offset : out->offset[0];
    }
    out->n_repeated = (float)(FIT_GROUP * out->n_groups - n_mine);
    __syncwarp(); // the view before is done with
    for (uint32_t i = 32 * FIT_HELD + lane; i < n_pixels && i < 32 * FIT_HELD + FIT_TAIL; i += 32) {
        tail[i - 32 * FIT_HELD] = own[i];
        tail_offset[i - 32 * FIT_HELD] = own_offset[i];
    }
    __syncwarp();
}

__device__ __forceinline__ float evaluate(const char *base, float z, const struct held_view *held,
                                          const float2 *own, const uint16_t *own_offset,
                                          const float2 *tail, const uint16_t *tail_offset,
                                          uint32_t n_pixels, uint32_t lane)
{
    struct lane_sums sums = {0, 0, 0}, first = {0, 0, 0};
#pragma unroll
    for (int g = 0; g < FIT_HELD / FIT_GROUP; g++) {
        if ((uint32_t)g >= held->n_groups)
            break;
#pragma unroll
        for (int k = g * FIT_GROUP; k < (g + 1) * FIT_GROUP; k++) {
            add_pixel(base, held->offset[k], held->z[k], held->edt[k], z, &sums);
            if (k == 0)
                first = sums;
        }
    }
    sums.cover -= held->n_repeated * first.cover;
    sums.range -= held->n_repeated * first.range;
    sums.n_range -= (int)held->n_repeated * first.n_range;
    const uint32_t n_tail =
        n_pixels < 32 * FIT_HELD + FIT_TAIL ? n_pixels : 32 * FIT_HELD + FIT_TAIL;
#pragma unroll 4
    for (uint32_t i = 32 * FIT_HELD + lane; i < n_tail; i += 32) {
        const float2 pixel = tail[i - 32 * FIT_HELD];
        add_pixel(base, tail_offset[i - 32 * FIT_HELD] * (uint32_t)PIXEL_BYTES, pixel.x, pixel.y, z,
                  &sums);
    }
    for (uint32_t i = 32 * FIT_HELD + FIT_TAIL + lane; i < n_pixels; i += 32)
        add_pixel(base, own_offset[i] * (uint32_t)PIXEL_BYTES, own[i].x, own[i].y, z, &sums);
    const struct search_sums all = {search_cuda_warp_sum((int)sums.cover),
                                    search_cuda_warp_sum((int)sums.range),
                                    search_cuda_warp_sum(sums.n_range)};
    return search_error_value(&all, (int)n_pixels);
}

// The warp's first view: large and small ones alternate over the blocks of a wave, so that all
// multiprocessors have as much to do.
__device__ static uint32_t first_item(void)
{
    const uint32_t warp = threadIdx.x / 32;
    return warp * gridDim.x + (warp % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
}

__global__ void __launch_bounds__(FIT_THREADS)
    fit_kernel(const uint32_t *window, const struct search_view *views, const uint32_t *pixel_first,
               const float2 *pixels, const uint16_t *pixel_offset, const uint32_t *list,
               const uint32_t *order, uint32_t begin, uint32_t end, int n_iterations,
               uint32_t *next, struct search_fit *out)
{
    extern __shared__ uint4 shared[];
    float2 *const window_px = (float2 *)shared;
    for (uint32_t i = threadIdx.x; i < SEARCH_WINDOW_PIXELS / 4; i += FIT_THREADS) {
        const uint4 four = ((const uint4 *)window)[i];
        const uint32_t pair[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int k = 0; k < 4; k++)
            window_px[4 * i + k] =
                make_float2((float)search_pair_z(pair[k]), (float)search_pair_edt(pair[k]));
    }
    __syncthreads();
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float2 *const tail = (float2 *)((char *)shared + WINDOW_BYTES) + warp * FIT_TAIL;
    uint16_t *const tail_offset =
        (uint16_t *)((char *)shared + WINDOW_BYTES + FIT_WARPS * FIT_TAIL * PIXEL_BYTES) +
        warp * FIT_TAIL;
    for (uint32_t rank = begin + first_item(); rank < end;) {
        const uint32_t item = list ? rank : order[rank], index = list ? list[rank] : item;
        const struct search_view *view = &views[index];
        const float2 *own = pixels + pixel_first[index];
        const uint16_t *own_offset = pixel_offset + pixel_first[index];
        const uint32_t n_pixels = view->n_cover;
        struct held_view held;
        hold_view(own, own_offset, n_pixels, lane, tail, tail_offset, &held);
        const float half = SEARCH_WINDOW_PX / 2;
        struct simplex simplex;
        simplex_begin(&simplex, half - (float)view->start_u, half - (float)view->start_v,
                      -(float)view->start_z / SEARCH_UNIT, n_iterations);
        while (simplex.phase != SIMPLEX_PHASE_DONE) {
            const char *base =
                (const char *)(window_px + search_shift(simplex.trial.y) * SEARCH_WINDOW_PX +
                               search_shift(simplex.trial.x));
            simplex_tell(&simplex, evaluate(base, (float)search_depth_shift(simplex.trial.z), &held,
                                            own, own_offset, tail, tail_offset, n_pixels, lane));
        }
        if (lane == 0) {
            struct search_fit fit = {simplex.v0.error, simplex.v0.x, simplex.v0.y, simplex.v0.z};
            out[item] = fit;
            rank = begin + gridDim.x * FIT_WARPS + atomicAdd(next, 1);
        }
        rank = __shfl_sync(0xffffffffu, rank, 0);
    }
}

#define BEST_THREADS 1024
#define BEST_HELD    4 // keys that a thread keeps in registers: of 4,096 fits

// Smaller for smaller errors, which are not negative; then for earlier places.
__device__ static unsigned long long fit_key(const struct search_fit *fits, uint32_t i, uint32_t n)
{
    return i < n ? (unsigned long long)__float_as_uint(fits[i].error_px) << 32 | i : ~0ull;
}

__device__ static unsigned long long warp_least(unsigned long long mine)
{
    for (int d = 16; d > 0; d /= 2) {
        const unsigned long long other = __shfl_xor_sync(0xffffffffu, mine, d);
        mine = other < mine ? other : mine;
    }
    return mine;
}

// The smallest errors of n fits, one after the other; equal ones by their place.
__global__ void __launch_bounds__(BEST_THREADS)
    best_kernel(const struct search_fit *fits, uint32_t n, uint32_t n_best, uint32_t *out_place,
                struct search_fit *out)
{
    __shared__ unsigned long long low[2][BEST_THREADS / 32];
    unsigned long long held[BEST_HELD], before = 0; // the one chosen last
#pragma unroll
    for (uint32_t h = 0; h < BEST_HELD; h++)
        held[h] = fit_key(fits, threadIdx.x + h * BEST_THREADS, n);
    for (uint32_t k = 0; k < n_best; k++) {
        unsigned long long mine = ~0ull;
#pragma unroll
        for (uint32_t h = 0; h < BEST_HELD; h++)
            mine = (k == 0 || held[h] > before) && held[h] < mine ? held[h] : mine;
        for (uint32_t i = threadIdx.x + BEST_HELD * BEST_THREADS; i < n; i += BEST_THREADS) {
            const unsigned long long key = fit_key(fits, i, n);
            mine = (k == 0 || key > before) && key < mine ? key : mine;
        }
        mine = warp_least(mine);
        if (threadIdx.x % 32 == 0)
            low[k % 2][threadIdx.x / 32] = mine;
        __syncthreads(); // one is enough: the next round writes to the other half
        before = warp_least(low[k % 2][threadIdx.x % 32]);
        if (threadIdx.x == 0) {
            out_place[k] = (uint32_t)before;
            out[k] = fits[(uint32_t)before];
        }
    }
}

// Enqueues window and fits; the results are left in cuda->result. Beside a tracker a view for each
// warp that there is, then whoever goes first.
static int enqueue_fit(struct search_cuda *cuda, const struct search_object *object,
                       const struct search_frame *frame, const uint32_t *views, uint32_t n,
                       uint32_t n_iterations)
{
    const struct cuda_object *copy = (const struct cuda_object *)object->device;
    CUDA_OR_RETURN(&cuda->dev, cudaSetDevice(cuda->dev.index));
    int err = search_cuda_grow_result(cuda, n * (sizeof(struct search_fit) + sizeof(uint32_t)));
    if (!err && views)
        err = cuda_grow(&cuda->dev, &cuda->work, n * sizeof *views);
    if (!err)
        err = search_cuda_yield(cuda);
    if (!err)
        err = search_cuda_draw_window(cuda, frame);
    if (err)
        return err;
    uint32_t *list = NULL;
    if (views) {
        list = (uint32_t *)cuda->work.at;
        CUDA_OR_RETURN(&cuda->dev, cudaMemcpyAsync(list, views, n * sizeof *views,
                                                   cudaMemcpyHostToDevice, cuda->dev.stream));
    }
    const uint32_t n_sms = (uint32_t)cuda->dev.n_sms;
    const uint32_t most = cuda->dev.yield.wait ? n_sms * FIT_WARPS : n;
    for (uint32_t begin = 0; begin < n; begin += most) {
        const uint32_t n_here = n - begin < most ? n - begin : most;
        if (begin > 0) {
            err = search_cuda_yield(cuda);
            if (err)
                return err;
            CUDA_OR_RETURN(&cuda->dev,
                           cudaMemsetAsync(cuda->next, 0, sizeof *cuda->next, cuda->dev.stream));
        }
        uint32_t n_blocks = (n_here + FIT_WARPS - 1) / FIT_WARPS;
        n_blocks = n_blocks < n_sms / 2 ? n_blocks : n_sms;
        fit_kernel<<<n_blocks, FIT_THREADS, SHARED_BYTES, cuda->dev.stream>>>(
            cuda->window, copy->views, copy->pixel_first, copy->pixels, copy->pixel_offset, list,
            copy->order, begin, begin + n_here, (int)n_iterations, cuda->next,
            (struct search_fit *)cuda->result.at);
        CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    }
    return 0;
}

int search_cuda_fit_best(void *device, const struct search_object *object,
                         const struct search_frame *frame, const uint32_t *views, uint32_t n,
                         uint32_t n_iterations, uint32_t n_best, uint32_t *out_place,
                         struct search_fit *out)
{
    struct search_cuda *cuda = (struct search_cuda *)device;
    int err = enqueue_fit(cuda, object, frame, views, n, n_iterations);
    if (err)
        return err;
    // Straight into page-locked memory: a few dozen bytes.
    struct search_fit *fits = (struct search_fit *)cuda->result_host.at;
    uint32_t *places = (uint32_t *)(fits + n_best);
    best_kernel<<<1, BEST_THREADS, 0, cuda->dev.stream>>>(
        (const struct search_fit *)cuda->result.at, n, n_best, places, fits);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    CUDA_OR_RETURN(&cuda->dev, cudaStreamSynchronize(cuda->dev.stream));
    memcpy(out, fits, n_best * sizeof *out);
    memcpy(out_place, places, n_best * sizeof *out_place);
    return 0;
}

size_t search_cuda_shared_bytes(void)
{
    return SHARED_BYTES;
}

int search_cuda_prepare_fit(struct search_cuda *cuda)
{
    CUDA_OR_RETURN(&cuda->dev,
                   cudaMalloc((void **)&cuda->window, SEARCH_WINDOW_PIXELS * sizeof *cuda->window));
    CUDA_OR_RETURN(&cuda->dev, cudaMalloc((void **)&cuda->next, sizeof *cuda->next));
    CUDA_OR_RETURN(&cuda->dev,
                   cudaFuncSetAttribute(fit_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        (int)SHARED_BYTES));
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
// The paper's search: the input window, and one downhill simplex a view.
//
//   window  a block a tile of 16 x 16 pixels, its halo computed again: one launch, no exchange
//   fit     a warp a view; the window in shared memory, most of the view's pixels in registers, so
//           that an evaluation reads little but shared memory; every lane runs the simplex
#include <string.h>

#include "gpu/cuda/search.cuh"
#include "gpu/cuda/search_edt.cuh"
#include "gpu/kernels/search_error.h"
#include "gpu/kernels/search_simplex.h"

#define FIT_WARPS        16
#define FIT_BLOCKS_MAX   528 // four an H200's SM: beyond, a warp takes several views
#define FIT_SHARED_BYTES (SEARCH_WINDOW_PIXELS * sizeof(float2))
#define FIT_HELD         24 // pixels that a lane keeps in registers: 768 of a view

// ---- The input window

#define TILE_PX   16
#define HALO_PX   (SEARCH_EDT_MAX_PX + 1) // distances reach 8 px, kinds one more
#define KIND_PX   (TILE_PX + 2 * SEARCH_EDT_MAX_PX)
#define MEDIAN_PX (TILE_PX + 2 * HALO_PX)
#define SAMPLE_PX (MEDIAN_PX + 2)

__global__ void window_kernel(const float *z_m, struct search_camera camera,
                              struct search_frame frame, uint32_t *out)
{
    __shared__ int16_t sample[SAMPLE_PX * SAMPLE_PX], median[MEDIAN_PX * MEDIAN_PX];
    __shared__ uint8_t kind[KIND_PX * KIND_PX], column[KIND_PX * KIND_PX];
    const int first_u = (int)blockIdx.x * TILE_PX, first_v = (int)blockIdx.y * TILE_PX;
    const float limit_m = 2 * SEARCH_MAP_PX * frame.px_m;
    for (int i = threadIdx.x; i < SAMPLE_PX * SAMPLE_PX; i += blockDim.x) {
        int u = first_u + i % SAMPLE_PX - HALO_PX - 1, v = first_v + i / SAMPLE_PX - HALO_PX - 1;
        sample[i] = SEARCH_Z_NONE;
        if (u < 0 || v < 0 || u >= SEARCH_WINDOW_PX || v >= SEARCH_WINDOW_PX)
            continue;
        float z;
        if (search_frame_sample(z_m, &camera, frame.rotation, frame.start_m,
                                (float)(u - SEARCH_WINDOW_PX / 2) * frame.px_m,
                                (float)(v - SEARCH_WINDOW_PX / 2) * frame.px_m, &z) &&
            z > -limit_m && z < limit_m)
            sample[i] = (int16_t)search_depth_shift(z / frame.px_m);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < MEDIAN_PX * MEDIAN_PX; i += blockDim.x) {
        int u = first_u + i % MEDIAN_PX - HALO_PX, v = first_v + i / MEDIAN_PX - HALO_PX;
        int16_t around[9];
        for (int k = 0; k < 9; k++)
            around[k] = sample[(i / MEDIAN_PX + k / 3) * SAMPLE_PX + i % MEDIAN_PX + k % 3];
        bool inside = u >= 0 && v >= 0 && u < SEARCH_WINDOW_PX && v < SEARCH_WINDOW_PX;
        median[i] = inside ? (int16_t)search_median9(around) : SEARCH_Z_NONE;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < KIND_PX * KIND_PX; i += blockDim.x) {
        const int16_t *p = median + (i / KIND_PX + 1) * MEDIAN_PX + i % KIND_PX + 1;
        kind[i] = (uint8_t)search_kind(p[0], p[-1], p[1], p[-MEDIAN_PX], p[MEDIAN_PX]);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < KIND_PX * KIND_PX; i += blockDim.x)
        column[i] = edt_column<KIND_PX>(kind, i % KIND_PX, i / KIND_PX);
    __syncthreads();
    for (int i = threadIdx.x; i < TILE_PX * TILE_PX; i += blockDim.x) {
        int u = i % TILE_PX + SEARCH_EDT_MAX_PX, v = i / TILE_PX + SEARCH_EDT_MAX_PX;
        int k = kind[v * KIND_PX + u];
        int z = median[(v + 1) * MEDIAN_PX + u + 1];
        int edt = search_edt_sign(search_edt_distance(edt_squared<KIND_PX>(column, u, v)), k);
        out[(first_v + i / TILE_PX) * SEARCH_WINDOW_PX + first_u + i % TILE_PX] =
            search_pair(k == SEARCH_KIND_BACKGROUND ? 0 : z, edt);
    }
}

static int draw_window(struct search_cuda *cuda, const struct search_frame *frame)
{
    dim3 grid(SEARCH_WINDOW_PX / TILE_PX, SEARCH_WINDOW_PX / TILE_PX);
    window_kernel<<<grid, 512, 0, cuda->stream>>>(cuda->z_m, cuda->camera, *frame, cuda->window);
    TRY(cudaGetLastError());
    return 0;
}

int search_cuda_window(void *device, const struct search_frame *frame, uint32_t *out)
{
    struct search_cuda *cuda = (struct search_cuda *)device;
    TRY(cudaSetDevice(cuda->device));
    int err = draw_window(cuda, frame);
    if (err)
        return err;
    TRY(cudaMemcpyAsync(out, cuda->window, SEARCH_WINDOW_PIXELS * sizeof *out,
                        cudaMemcpyDeviceToHost, cuda->stream));
    TRY(cudaStreamSynchronize(cuda->stream));
    return 0;
}

// ---- The simplex

__device__ __forceinline__ int warp_sum(int value)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(0xffffffffu, value);
#else
    for (int k = 16; k > 0; k /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, k);
    return value;
#endif
}

// search_error_pixel in floats that hold integers: below 2^24 they are exact, and a lane's sums
// stay below (128 pixels of 2^16).
__device__ __forceinline__ void add_pixel(float2 input, float2 reference, float z, float *cover,
                                          float *range, int *n_range)
{
    *cover += fabsf(input.y - reference.y);
    float r = fabsf((input.x - reference.x) - z);
    if (input.y >= 0.f) {
        *range += r;
        *n_range += 1;
    }
}

__global__ void __launch_bounds__(32 * FIT_WARPS)
    fit_kernel(const uint32_t *window, const struct search_view *views, const uint32_t *pixel_first,
               const float2 *pixels, const uint16_t *pixel_offset, const uint32_t *list, uint32_t n,
               int n_iterations, struct search_fit *out)
{
    extern __shared__ float2 shared[];
    for (uint32_t i = threadIdx.x; i < SEARCH_WINDOW_PIXELS; i += blockDim.x)
        shared[i] = make_float2((float)search_pair_z(window[i]), (float)search_pair_edt(window[i]));
    __syncthreads();
    const uint32_t lane = threadIdx.x % 32, n_warps = gridDim.x * FIT_WARPS;
    for (uint32_t item = blockIdx.x * FIT_WARPS + threadIdx.x / 32; item < n; item += n_warps) {
        const uint32_t index = list ? list[item] : item;
        const struct search_view *view = &views[index];
        const float2 *own = pixels + pixel_first[index];
        const uint16_t *own_offset = pixel_offset + pixel_first[index];
        const uint32_t n_pixels = view->n_cover;
        float2 held[FIT_HELD];
        uint32_t held_offset[FIT_HELD / 2];
#pragma unroll
        for (int k = 0; k < FIT_HELD; k++) {
            uint32_t i = 32 * (uint32_t)k + lane, offset = 0;
            if (i < n_pixels) {
                held[k] = own[i];
                offset = own_offset[i];
            }
            held_offset[k / 2] = k % 2 ? held_offset[k / 2] | offset << 16 : offset;
        }
        const float half = SEARCH_WINDOW_PX / 2;
        struct simplex simplex;
        simplex_begin(&simplex, half - (float)view->start_u, half - (float)view->start_v,
                      -(float)view->start_z / SEARCH_UNIT, n_iterations);
        while (simplex.phase != SIMPLEX_PHASE_DONE) {
            const float2 *base = shared + search_shift(simplex.trial.y) * SEARCH_WINDOW_PX +
                                 search_shift(simplex.trial.x);
            const float z = (float)search_depth_shift(simplex.trial.z);
            float cover = 0, range = 0;
            int n_range = 0;
#pragma unroll
            for (int k = 0; k < FIT_HELD; k++)
                if (32 * (uint32_t)k + lane < n_pixels)
                    add_pixel(base[k % 2 ? held_offset[k / 2] >> 16 : held_offset[k / 2] & 0xffffu],
                              held[k], z, &cover, &range, &n_range);
#pragma unroll 4
            for (uint32_t i = 32 * FIT_HELD + lane; i < n_pixels; i += 32)
                add_pixel(base[own_offset[i]], own[i], z, &cover, &range, &n_range);
            struct search_sums sums = {warp_sum((int)cover), warp_sum((int)range),
                                       warp_sum(n_range)};
            simplex_tell(&simplex, search_error_value(&sums, (int)n_pixels));
        }
        if (lane == 0) {
            struct search_fit fit = {simplex.v0.error, simplex.v0.x, simplex.v0.y, simplex.v0.z};
            out[item] = fit;
        }
    }
}

int search_cuda_fit(void *device, const struct search_object *object,
                    const struct search_frame *frame, const uint32_t *views, uint32_t n,
                    uint32_t n_iterations, struct search_fit *out)
{
    struct search_cuda *cuda = (struct search_cuda *)device;
    const struct cuda_object *copy = (const struct cuda_object *)object->device;
    TRY(cudaSetDevice(cuda->device));
    int err = search_cuda_grow_result(cuda, n * sizeof *out);
    if (!err && views)
        err = search_cuda_grow_work(cuda, n * sizeof *views);
    if (!err)
        err = draw_window(cuda, frame);
    if (err)
        return err;
    uint32_t *list = NULL;
    if (views) {
        list = (uint32_t *)cuda->work;
        TRY(cudaMemcpyAsync(list, views, n * sizeof *views, cudaMemcpyHostToDevice, cuda->stream));
    }
    uint32_t n_blocks = (n + FIT_WARPS - 1) / FIT_WARPS;
    if (n_blocks > FIT_BLOCKS_MAX)
        n_blocks = FIT_BLOCKS_MAX;
    fit_kernel<<<n_blocks, 32 * FIT_WARPS, FIT_SHARED_BYTES, cuda->stream>>>(
        cuda->window, copy->views, copy->pixel_first, copy->pixels, copy->pixel_offset, list, n,
        (int)n_iterations, (struct search_fit *)cuda->result);
    TRY(cudaGetLastError());
    TRY(cudaMemcpyAsync(cuda->result_host, cuda->result, n * sizeof *out, cudaMemcpyDeviceToHost,
                        cuda->stream));
    TRY(cudaStreamSynchronize(cuda->stream));
    memcpy(out, cuda->result_host, n * sizeof *out);
    return 0;
}

int search_cuda_prepare_fit(struct search_cuda *cuda)
{
    TRY(cudaMalloc((void **)&cuda->window, SEARCH_WINDOW_PIXELS * sizeof *cuda->window));
    TRY(cudaFuncSetAttribute(fit_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             FIT_SHARED_BYTES));
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
// The same operations as many small kernels: for devices that cannot launch a cooperative kernel of
// the size a frame needs, and as a check of the fused one. One pixel a thread, everything through
// the device's memory, one kernel for the sums and one for the solve of each iteration. On an H200
// it takes 300 us a frame where the fused kernel takes 79, nearly all of it launches.
//
// Sums: each block adds its pixels in a fixed tree in single precision, one block then adds the
// blocks' in a fixed order in double. The 6x6 solve is in double too.
#include "gpu/track/cuda/icp.cuh"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/raw_depth.h"
#include "gpu/track/kernels/normal_maps.h"
extern "C" {
#include "proto/se3.h"
}

#define PLAIN_W       32 // threads of a block: one row of pixels a warp
#define PLAIN_H       8
#define PLAIN_WARPS   PLAIN_H
#define SOLVE_THREADS 256 // ICP_N_SUMS sums x 8 shares of the blocks

SOLVE_DEFINE(double, solve6_double)

// What the kernels of one alignment hand on; in the device's memory.
struct plain_state {
    struct se3 T, T_summed; // T_summed, gates_summed: those of `sums`
    struct icp_gates gates, gates_summed;
    double sums[ICP_N_SUMS], information_sums[ICP_N_SUMS];
    double size2_m2;
    uint32_t n_iterations[GPU_LEVELS];
    uint32_t solvable, converged;
    int32_t done_level; // the level that early stop has left; levels below it still run
};

struct cuda_plain {
    uint16_t *raw;
    float *z_m, *filtered_m;
    float *partial; // ICP_N_SUMS a block of the full resolution
    struct plain_state *state, *host_state;
};

static __device__ __forceinline__ int pixel_x(void)
{
    return (int)(blockIdx.x * PLAIN_W + threadIdx.x);
}

static __device__ __forceinline__ int pixel_y(void)
{
    return (int)(blockIdx.y * PLAIN_H + threadIdx.y);
}

// 2 bytes in, 4 out.
__global__ void plain_depth(const __grid_constant__ struct cuda_filter filter, int w, int h,
                            const uint16_t *raw, float *out_z_m)
{
    int x = pixel_x(), y = pixel_y();
    if (x >= w || y >= h)
        return;
    float z_m =
        raw_depth_m(raw[y * w + x], filter.m_per_unit, filter.depth_min_m, filter.depth_max_m);
    if (filter.field_per_m)
        z_m = raw_depth_corrected_m(z_m, filter.field_per_m[y * w + x]);
    out_z_m[y * w + x] = z_m;
}

// (2 r + 1)^2 taps of 7 operations; neighbours come from the first-level cache.
__global__ void plain_filter(const __grid_constant__ struct cuda_filter filter, int w, int h,
                             const float *z_m, float *out_m)
{
    int x = pixel_x(), y = pixel_y(), r = filter.radius_px;
    if (x >= w || y >= h)
        return;
    float z = z_m[y * w + x], sum_w = 0.0f, sum_wd = 0.0f;
    float factor = bilateral_range_factor(z, filter.cut_sigmas);
    for (int dy = -r; dy <= r && z > 0.0f; dy++)
        for (int dx = -r; dx <= r; dx++) {
            int u = x + dx, v = y + dy;
            bool inside = (u >= 0) & (v >= 0) & (u < w) & (v < h);
            float neighbour_m = inside ? z_m[v * w + u] : 0.0f;
            float root = filter.spatial[abs(dy) * FILTER_QUADRANT + abs(dx)];
            bilateral_tap(z, neighbour_m, root, root * factor, &sum_w, &sum_wd);
        }
    out_m[y * w + x] = bilateral_result(z, sum_w, sum_wd);
}

// Five depths in, 16 bytes out.
__global__ void plain_maps(struct level_camera camera, int level, int image_w, const float *z_m,
                           struct map_px *out)
{
    int x = pixel_x(), y = pixel_y();
    if (x >= camera.width_px || y >= camera.height_px)
        return;
    int step = 1 << level, row = step * image_w;
    const float *z = z_m + y * row + x * step;
    float left_m = x > 0 ? z[-step] : 0.0f, right_m = x + 1 < camera.width_px ? z[step] : 0.0f;
    float up_m = y > 0 ? z[-row] : 0.0f, down_m = y + 1 < camera.height_px ? z[row] : 0.0f;
    out[y * camera.width_px + x] =
        maps_pixel(&camera, (float)x, (float)y, z[0], left_m, right_m, up_m, down_m);
}

__global__ void plain_sums(struct level_camera camera, int level, const struct map_px *source,
                           const struct map_px *target, const struct plain_state *state,
                           bool information, float *out_partial)
{
    __shared__ float partial[PLAIN_WARPS][ICP_N_SUMS];
    if (!state->solvable || state->done_level == level)
        return;
    struct icp_pose pose;
    const struct se3 *T = information ? &state->T_summed : &state->T;
    for (int i = 0; i < 9; i++)
        pose.r[i] = (float)T->r[i];
    for (int i = 0; i < 3; i++)
        pose.t_m[i] = (float)T->t_m[i];
    int x = pixel_x(), y = pixel_y();
    float4 px = {0, 0, 0, 0};
    if (x < camera.width_px && y < camera.height_px)
        px = ((const float4 *)source)[y * camera.width_px + x];
    float sums[ICP_N_SUMS] = {0};
    struct icp_source one = icp_source_of(&camera, x, y, px);
    struct icp_landing landing;
    icp_land(&camera, &pose, &one, (const float4 *)target, &landing);
    struct icp_gates gates =
        information ? state->gates_summed : icp_gates_at(&state->gates, (uint32_t)level);
    if (information)
        icp_add_information(&camera, &gates, &pose, &one, &landing, sums);
    else
        icp_add(&camera, &gates, &pose, &one, &landing, sums);
    sums[ICP_SUM_VALID] = icp_source_valid(&one) ? 1.0f : 0.0f;
    partial[threadIdx.y][threadIdx.x] = warp_transpose_sum(sums, threadIdx.x);
    __syncthreads();
    if (threadIdx.y == 0) {
        float sum = 0.0f;
        for (int warp = 0; warp < PLAIN_WARPS; warp++)
            sum += partial[warp][threadIdx.x];
        out_partial[(blockIdx.y * gridDim.x + blockIdx.x) * ICP_N_SUMS + threadIdx.x] = sum;
    }
}

// One block: thread (sum, share) adds every eighth block's partial sums.
static __device__ __forceinline__ void plain_total(int n_blocks, const float *partial,
                                                   double out[ICP_N_SUMS])
{
    __shared__ double shares[SOLVE_THREADS];
    unsigned sum = threadIdx.x % ICP_N_SUMS, share = threadIdx.x / ICP_N_SUMS;
    double total = 0;
    for (int block = (int)share; block < n_blocks; block += SOLVE_THREADS / ICP_N_SUMS)
        total += (double)partial[(unsigned)block * ICP_N_SUMS + sum];
    shares[threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.x < ICP_N_SUMS) {
        total = 0;
        for (unsigned i = 0; i < SOLVE_THREADS / ICP_N_SUMS; i++)
            total += shares[i * ICP_N_SUMS + sum];
        out[sum] = total;
    }
    __syncthreads();
}

__global__ void plain_information(int n_blocks, const float *partial, struct plain_state *state)
{
    if (state->solvable)
        plain_total(n_blocks, partial, state->information_sums);
}

// The totals, then one thread steps.
__global__ void plain_step(int level, int n_blocks, const float *partial, double converged2_m2,
                           bool early_stop, struct plain_state *state)
{
    if (!state->solvable || state->done_level == level)
        return;
    plain_total(n_blocks, partial, state->sums);
    if (threadIdx.x != 0)
        return;
    double sums[ICP_N_SUMS], twist[6];
    for (int i = 0; i < ICP_N_SUMS; i++)
        sums[i] = state->sums[i];
    state->solvable = solve_step_double(sums, (uint32_t)level, twist);
    if (!state->solvable)
        return;
    struct se3 step = se3_exp(twist);
    state->T_summed = state->T;
    state->gates_summed = state->gates;
    state->T = se3_compose(&step, &state->T);
    icp_gates_update(&state->gates, (float)sums[ICP_SUM_ABS], (float)sums[ICP_SUM_PAIRS]);
    state->n_iterations[level]++;
    state->size2_m2 = solve_step_size2_double(sums, twist);
    state->converged = state->size2_m2 < converged2_m2;
    if (early_stop && state->converged)
        state->done_level = level;
}

// Each level with iterations begins unconverged.
__global__ void plain_level_begin(struct plain_state *state)
{
    if (state->solvable)
        state->converged = 0;
}

static void plain_close(struct cuda_device *device)
{
    struct cuda_plain *plain = device->plain;
    if (!plain)
        return;
    cudaFree(plain->raw);
    cudaFree(plain->z_m);
    cudaFree(plain->filtered_m);
    cudaFree(plain->partial);
    cudaFree(plain->state);
    cudaFreeHost(plain->host_state);
    free(plain);
    device->plain = NULL;
}

static dim3 plain_grid(const struct level_camera *camera)
{
    return dim3((unsigned)(camera->width_px + PLAIN_W - 1) / PLAIN_W,
                (unsigned)(camera->height_px + PLAIN_H - 1) / PLAIN_H);
}

static int plain_open(struct cuda_device *device)
{
    struct cuda_plain *plain = (struct cuda_plain *)calloc(1, sizeof *plain);
    if (!plain)
        return -ENOMEM;
    device->plain = plain;
    const struct level_camera *image = &device->cameras[0];
    size_t n_px = (size_t)image->width_px * (size_t)image->height_px;
    dim3 grid = plain_grid(image);
    size_t n_partial = (size_t)grid.x * grid.y * ICP_N_SUMS;
    int rc = CUDA_TRY(&device->dev, cudaMalloc((void **)&plain->z_m, n_px * sizeof *plain->z_m));
    if (rc == 0)
        rc = CUDA_TRY(&device->dev, cudaMalloc((void **)&plain->raw, device->raw_bytes));
    if (rc == 0)
        rc = CUDA_TRY(&device->dev,
                      cudaMalloc((void **)&plain->filtered_m, n_px * sizeof *plain->filtered_m));
    if (rc == 0)
        rc = CUDA_TRY(&device->dev,
                      cudaMalloc((void **)&plain->partial, n_partial * sizeof *plain->partial));
    if (rc == 0)
        rc = CUDA_TRY(&device->dev, cudaMalloc((void **)&plain->state, sizeof *plain->state));
    if (rc == 0)
        rc = CUDA_TRY(&device->dev, cudaHostAlloc((void **)&plain->host_state,
                                                  sizeof *plain->host_state, cudaHostAllocDefault));
    if (rc < 0)
        plain_close(device);
    return rc;
}

static int plain_prepare(struct cuda_device *device, const uint16_t *depth, struct gpu_frame *frame)
{
    struct cuda_plain *plain = device->plain;
    const struct level_camera *image = &device->cameras[0];
    const int w = image->width_px, h = image->height_px;
    const dim3 grid = plain_grid(image), block(PLAIN_W, PLAIN_H);
    int rc = CUDA_TRY(&device->dev, cudaMemcpyAsync(plain->raw, depth, (size_t)w * (size_t)h * 2,
                                                    cudaMemcpyHostToDevice, device->dev.stream));
    if (rc < 0)
        return rc;
    plain_depth<<<grid, block, 0, device->dev.stream>>>(device->filter, w, h, plain->raw,
                                                        plain->z_m);
    plain_filter<<<grid, block, 0, device->dev.stream>>>(device->filter, w, h, plain->z_m,
                                                         plain->filtered_m);
    for (int level = 0; level < GPU_LEVELS; level++)
        plain_maps<<<plain_grid(&device->cameras[level]), block, 0, device->dev.stream>>>(
            device->cameras[level], level, w, plain->filtered_m, frame->maps[level]);
    return CUDA_TRY(&device->dev, cudaGetLastError());
}

static int plain_align(struct cuda_device *device, const struct cuda_align *align)
{
    struct cuda_plain *plain = device->plain;
    struct plain_state *state = plain->host_state;
    memset(state, 0, sizeof *state);
    for (int i = 0; i < 9; i++)
        state->T.r[i] = (double)align->start.r[i];
    for (int i = 0; i < 3; i++)
        state->T.t_m[i] = (double)align->start.t_m[i];
    state->gates = align->gates;
    state->solvable = 1;
    state->done_level = -1;
    int rc = CUDA_TRY(&device->dev, cudaMemcpyAsync(plain->state, state, sizeof *state,
                                                    cudaMemcpyHostToDevice, device->dev.stream));
    for (int level = GPU_LEVELS - 1; level >= 0 && rc == 0; level--) {
        const struct level_camera *camera = &device->cameras[level];
        const dim3 grid = plain_grid(camera), block(PLAIN_W, PLAIN_H);
        plain_level_begin<<<1, 1, 0, device->dev.stream>>>(plain->state);
        for (int i = 0; i < align->iterations[level]; i++) {
            plain_sums<<<grid, block, 0, device->dev.stream>>>(*camera, level, align->source[level],
                                                               align->target[level], plain->state,
                                                               false, plain->partial);
            plain_step<<<1, SOLVE_THREADS, 0, device->dev.stream>>>(
                level, (int)(grid.x * grid.y), plain->partial, (double)align->converged2_m2[level],
                align->stop2_m2[level] > 0.0f, plain->state);
        }
        rc = CUDA_TRY(&device->dev, cudaGetLastError());
    }
    if (rc == 0) {
        const int level = GPU_LEVELS - 1;
        const dim3 grid = plain_grid(&device->cameras[level]), block(PLAIN_W, PLAIN_H);
        plain_sums<<<grid, block, 0, device->dev.stream>>>(
            device->cameras[level], -2, align->source[level], align->target[level], plain->state,
            true, plain->partial);
        plain_information<<<1, SOLVE_THREADS, 0, device->dev.stream>>>(
            (int)(grid.x * grid.y), plain->partial, plain->state);
        rc = CUDA_TRY(&device->dev, cudaGetLastError());
    }
    if (rc == 0)
        rc = CUDA_TRY(&device->dev, cudaMemcpyAsync(state, plain->state, sizeof *state,
                                                    cudaMemcpyDeviceToHost, device->dev.stream));
    return rc;
}

static int plain_run(struct cuda_device *device, const uint16_t *depth, struct gpu_frame *frame,
                     const struct cuda_align *align, struct cuda_result *out)
{
    int rc = depth ? plain_prepare(device, depth, frame) : 0;
    if (rc == 0 && align)
        rc = plain_align(device, align);
    if (rc == 0)
        rc = CUDA_TRY(&device->dev, cudaStreamSynchronize(device->dev.stream));
    if (rc < 0)
        return rc;
    memset(out, 0, sizeof *out);
    if (!align)
        return 0;
    const struct plain_state *state = device->plain->host_state;
    memcpy(out->sums, state->sums, sizeof out->sums);
    memcpy(out->information_sums, state->information_sums, sizeof out->information_sums);
    for (int i = 0; i < 9; i++)
        out->pose.r[i] = (float)state->T.r[i];
    for (int i = 0; i < 3; i++)
        out->pose.t_m[i] = (float)state->T.t_m[i];
    out->size2_m2 = (float)state->size2_m2;
    memcpy(out->n_iterations, state->n_iterations, sizeof out->n_iterations);
    out->solvable = state->solvable;
    out->converged = state->converged;
    return 0;
}

extern const struct cuda_path cuda_path_plain = {"plain", plain_open, plain_close, plain_run};

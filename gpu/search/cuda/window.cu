// SPDX-License-Identifier: Apache-2.0
// The input window: sampled, filtered, its edges and their distances. A block a tile of 16 x 16
// pixels, its halo computed again: one launch, no exchange between blocks.
#include "gpu/search/cuda/device.cuh"
#include "gpu/search/cuda/edt.cuh"
#include "gpu/search/kernels/germann_error.h"

#define TILE_PX   16
#define HALO_PX   (SEARCH_EDT_MAX_PX + 1) // distances reach 8 px, kinds one more
#define KIND_PX   (TILE_PX + 2 * SEARCH_EDT_MAX_PX)
#define MEDIAN_PX (TILE_PX + 2 * HALO_PX)
#define SAMPLE_PX (MEDIAN_PX + 2)

__global__ void window_kernel(const float *z_m, struct search_camera camera,
                              struct search_frame frame, uint32_t *out, uint32_t *next)
{
    __shared__ int16_t sample[SAMPLE_PX * SAMPLE_PX], median[MEDIAN_PX * MEDIAN_PX];
    __shared__ uint8_t kind[KIND_PX * KIND_PX], column[KIND_PX * KIND_PX];
    if (next && blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0)
        *next = 0; // the queue of the kernel that reads the window
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

int search_cuda_draw_window(struct search_cuda *cuda, const struct search_frame *frame)
{
    dim3 grid(SEARCH_WINDOW_PX / TILE_PX, SEARCH_WINDOW_PX / TILE_PX);
    window_kernel<<<grid, 512, 0, cuda->dev.stream>>>(cuda->z_m, cuda->camera, *frame, cuda->window,
                                                      cuda->next);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    return 0;
}

int search_cuda_window(void *device, const struct search_frame *frame, uint32_t *out)
{
    struct search_cuda *cuda = (struct search_cuda *)device;
    CUDA_OR_RETURN(&cuda->dev, cudaSetDevice(cuda->dev.index));
    int err = search_cuda_draw_window(cuda, frame);
    if (err)
        return err;
    CUDA_OR_RETURN(&cuda->dev,
                   cudaMemcpyAsync(out, cuda->window, SEARCH_WINDOW_PIXELS * sizeof *out,
                                   cudaMemcpyDeviceToHost, cuda->dev.stream));
    CUDA_OR_RETURN(&cuda->dev, cudaStreamSynchronize(cuda->dev.stream));
    return 0;
}

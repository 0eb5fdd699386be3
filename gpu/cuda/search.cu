// SPDX-License-Identifier: Apache-2.0
// The pose search's operations on CUDA. The formulas are those of gpu/kernels, compiled without
// contraction, and all sums are of integers: every result equals the CPU twin's to the bit.
//
//   maps    a block a view; z-buffer in shared memory, depth and triangle index in one 64-bit key
//   window  a block a tile of 16 x 16 pixels, its halo computed again: one launch, no exchange
//   fit     a warp a view; the window in shared memory, most of the view's pixels in registers, so
//           that an evaluation reads little but shared memory; every lane runs the simplex
//   scan    a block a start point; its coarse window in shared memory, a thread a seed view
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime.h>

extern "C" {
#include "gpu/search_ops.h"
}
#include "gpu/kernels/search_coarse.h"
#include "gpu/kernels/search_edge.h"
#include "gpu/kernels/search_error.h"
#include "gpu/kernels/search_frame.h"
#include "gpu/kernels/search_raster.h"
#include "gpu/kernels/search_simplex.h"

#define MAP_PIXELS    (SEARCH_MAP_PX * SEARCH_MAP_PX)
#define WINDOW_PIXELS (SEARCH_WINDOW_PX * SEARCH_WINDOW_PX)

struct search_cuda {
    struct log_sink log;
    int device;
    char name[96];
    cudaStream_t stream;
    struct search_camera camera;
    float *z_m;
    size_t n_pixels;
    uint32_t *window; // WINDOW_PIXELS pairs
    // Grown on demand: results on the device and, page-locked, on the host.
    void *result, *result_host;
    size_t result_bytes;
    void *work; // inputs of an operation: rotations, frames, view lists
    size_t work_bytes;
};

// The device's copy of an object.
struct cuda_object {
    struct search_view *views;
    // The views' foreground pixels without the gaps of the chunks: view i's from pixel_first[i] on.
    uint32_t *pixel_first;
    float2 *pixels;         // z and EDT, as floats that hold integers
    uint16_t *pixel_offset; // in the window
    struct search_coarse *coarse;
    uint32_t *seeds;
};

static int report(const struct search_cuda *cuda, cudaError_t error, const char *what, int line)
{
    if (error == cudaSuccess)
        return 0;
    log_to(&cuda->log, LOG_LEVEL_ERROR, "CUDA: %s (%s, gpu/cuda/search.cu:%d)",
           cudaGetErrorString(error), what, line);
    return error == cudaErrorMemoryAllocation ? -ENOMEM : -EIO;
}
#define TRY(call)                                              \
    do {                                                       \
        int try_error = report(cuda, (call), #call, __LINE__); \
        if (try_error)                                         \
            return try_error;                                  \
    } while (0)

static int grow_result(struct search_cuda *cuda, size_t bytes)
{
    if (bytes <= cuda->result_bytes)
        return 0;
    cuda->result_bytes = 0;
    cudaFree(cuda->result);
    cudaFreeHost(cuda->result_host);
    cuda->result = cuda->result_host = NULL;
    TRY(cudaMalloc(&cuda->result, bytes));
    TRY(cudaMallocHost(&cuda->result_host, bytes));
    cuda->result_bytes = bytes;
    return 0;
}

static int grow_work(struct search_cuda *cuda, size_t bytes)
{
    if (bytes <= cuda->work_bytes)
        return 0;
    cuda->work_bytes = 0;
    cudaFree(cuda->work);
    cuda->work = NULL;
    TRY(cudaMalloc(&cuda->work, bytes));
    cuda->work_bytes = bytes;
    return 0;
}

static void cuda_close(void *device)
{
    struct search_cuda *cuda = (struct search_cuda *)device;
    cudaFree(cuda->z_m);
    cudaFree(cuda->window);
    cudaFree(cuda->result);
    cudaFreeHost(cuda->result_host);
    cudaFree(cuda->work);
    if (cuda->stream)
        cudaStreamDestroy(cuda->stream);
    free(cuda);
}

__global__ void fit_kernel(const uint32_t *window, const struct search_view *views,
                           const uint32_t *pixel_first, const float2 *pixels,
                           const uint16_t *pixel_offset, const uint32_t *list, uint32_t n,
                           int n_iterations, struct search_fit *out);

#define FIT_WARPS        16
#define FIT_BLOCKS_MAX   528 // four an H200's SM: beyond, a warp takes several views
#define FIT_SHARED_BYTES (WINDOW_PIXELS * sizeof(float2))
#define FIT_HELD         24 // pixels that a lane keeps in registers: 768 of a view

static int start_device(struct search_cuda *cuda, int wanted)
{
    int n_devices = 0;
    if (cudaGetDeviceCount(&n_devices) != cudaSuccess || n_devices == 0 || wanted >= n_devices)
        return -ENODEV;
    cuda->device = wanted < 0 ? 0 : wanted;
    struct cudaDeviceProp properties;
    TRY(cudaSetDevice(cuda->device));
    TRY(cudaGetDeviceProperties(&properties, cuda->device));
    snprintf(cuda->name, sizeof cuda->name, "%.90s", properties.name);
    TRY(cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking));
    TRY(cudaMalloc((void **)&cuda->window, WINDOW_PIXELS * sizeof *cuda->window));
    TRY(cudaFuncSetAttribute(fit_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             FIT_SHARED_BYTES));
    return 0;
}

static int cuda_open(void **out_device, const struct search_settings *settings, struct pool *pool)
{
    (void)pool;
    *out_device = NULL;
    struct search_cuda *cuda = (struct search_cuda *)calloc(1, sizeof *cuda);
    if (!cuda)
        return -ENOMEM;
    cuda->log = settings->log;
    int err = start_device(cuda, settings->cuda_device);
    if (err) {
        cuda_close(cuda);
        return err;
    }
    *out_device = cuda;
    return 0;
}

static void cuda_describe(const void *device, char *out, size_t size)
{
    const struct search_cuda *cuda = (const struct search_cuda *)device;
    snprintf(out, size, "cuda: %s", cuda->name);
}

// ---- Reference views

// Floats in their order as unsigned integers.
__device__ static uint32_t ordered_bits(float value)
{
    uint32_t bits = __float_as_uint(value);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ static float from_ordered_bits(uint32_t bits)
{
    return __uint_as_float(bits & 0x80000000u ? bits & 0x7fffffffu : ~bits);
}

__device__ static struct raster_corner corner_at(const float *r, const float *x, const float *y,
                                                 const float *z, uint32_t i)
{
    struct raster_corner c;
    c.x = raster_snap(SEARCH_CENTRE_PX + (r[0] * x[i] + r[1] * y[i] + r[2] * z[i]));
    c.y = raster_snap(SEARCH_CENTRE_PX + (r[3] * x[i] + r[4] * y[i] + r[5] * z[i]));
    c.value = r[6] * x[i] + r[7] * y[i] + r[8] * z[i];
    return c;
}

// Signed EDT of a SIZE x SIZE grid in shared memory; column and squared are scratch. All threads of
// the block take part; the result goes through `put(pixel, value)`.
template <int SIZE> __device__ static int edt_squared(const uint8_t *column, int u, int v)
{
    int best = (SEARCH_EDT_MAX_PX + 1) * (SEARCH_EDT_MAX_PX + 1);
    for (int k = -SEARCH_EDT_MAX_PX; k <= SEARCH_EDT_MAX_PX; k++) {
        if (u + k < 0 || u + k >= SIZE)
            continue;
        int g = column[v * SIZE + u + k], d = g * g + k * k;
        best = d < best ? d : best;
    }
    return best;
}

template <int SIZE> __device__ static uint8_t edt_column(const uint8_t *kind, int u, int v)
{
    for (int k = 0; k <= SEARCH_EDT_MAX_PX; k++)
        if ((v - k >= 0 && kind[(v - k) * SIZE + u] == SEARCH_KIND_EDGE) ||
            (v + k < SIZE && kind[(v + k) * SIZE + u] == SEARCH_KIND_EDGE))
            return (uint8_t)k;
    return SEARCH_EDT_MAX_PX + 1;
}

#define MAP_THREADS 512

__global__ void __launch_bounds__(MAP_THREADS)
    maps_kernel(const float *x, const float *y, const float *z, const uint32_t *triangles,
                uint32_t n_triangles, const float *rotations, struct search_map *out)
{
    __shared__ unsigned long long key[MAP_PIXELS];
    __shared__ float r[9];
    struct search_map *map = &out[blockIdx.x];
    for (int i = threadIdx.x; i < MAP_PIXELS; i += MAP_THREADS)
        key[i] = ~0ull;
    if (threadIdx.x < 9)
        r[threadIdx.x] = rotations[9 * blockIdx.x + threadIdx.x];
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < n_triangles; i += MAP_THREADS) {
        struct raster_corner a = corner_at(r, x, y, z, triangles[3 * i]);
        struct raster_corner b = corner_at(r, x, y, z, triangles[3 * i + 1]);
        struct raster_corner c = corner_at(r, x, y, z, triangles[3 * i + 2]);
        struct raster_triangle t;
        if (!raster_setup(&a, &b, &c, SEARCH_MAP_PX, SEARCH_MAP_PX, &t))
            continue;
        for (int v = t.v0; v <= t.v1; v++)
            for (int u = t.u0; u <= t.u1; u++) {
                float value;
                if (raster_value(&t, u, v, &value))
                    atomicMin(&key[v * SEARCH_MAP_PX + u],
                              (unsigned long long)ordered_bits(value) << 32 | i);
            }
    }
    __syncthreads();
    // The keys give way to depths, kinds and column distances, which take less room.
    int16_t depth[MAP_PIXELS / MAP_THREADS];
    for (int j = 0; j < MAP_PIXELS / MAP_THREADS; j++) {
        int i = threadIdx.x + j * MAP_THREADS;
        int8_t normal[3] = {0, 0, 0};
        depth[j] = SEARCH_Z_NONE;
        if (key[i] != ~0ull) {
            const uint32_t *t = triangles + 3 * (size_t)(uint32_t)key[i];
            depth[j] = (int16_t)search_depth_fixed(from_ordered_bits((uint32_t)(key[i] >> 32)));
            float ab[3] = {x[t[1]] - x[t[0]], y[t[1]] - y[t[0]], z[t[1]] - z[t[0]]};
            float ac[3] = {x[t[2]] - x[t[0]], y[t[2]] - y[t[0]], z[t[2]] - z[t[0]]};
            search_normal(ab, ac, r, normal);
        }
        for (int k = 0; k < 3; k++)
            map->normal[3 * i + k] = normal[k];
        map->z[i] = depth[j];
    }
    __syncthreads();
    int16_t *shared_z = (int16_t *)key;
    uint8_t *kind = (uint8_t *)(shared_z + MAP_PIXELS), *column = kind + MAP_PIXELS;
    for (int j = 0; j < MAP_PIXELS / MAP_THREADS; j++)
        shared_z[threadIdx.x + j * MAP_THREADS] = depth[j];
    __syncthreads();
    for (int i = threadIdx.x; i < MAP_PIXELS; i += MAP_THREADS) {
        int u = i % SEARCH_MAP_PX, v = i / SEARCH_MAP_PX, last = SEARCH_MAP_PX - 1;
        kind[i] = (uint8_t)search_kind(shared_z[i], u > 0 ? shared_z[i - 1] : SEARCH_Z_NONE,
                                       u < last ? shared_z[i + 1] : SEARCH_Z_NONE,
                                       v > 0 ? shared_z[i - SEARCH_MAP_PX] : SEARCH_Z_NONE,
                                       v < last ? shared_z[i + SEARCH_MAP_PX] : SEARCH_Z_NONE);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < MAP_PIXELS; i += MAP_THREADS)
        column[i] = edt_column<SEARCH_MAP_PX>(kind, i % SEARCH_MAP_PX, i / SEARCH_MAP_PX);
    __syncthreads();
    for (int i = threadIdx.x; i < MAP_PIXELS; i += MAP_THREADS) {
        int squared = edt_squared<SEARCH_MAP_PX>(column, i % SEARCH_MAP_PX, i / SEARCH_MAP_PX);
        map->edt[i] = (int16_t)search_edt_sign(search_edt_distance(squared), kind[i]);
    }
}

static int cuda_maps(void *device, const struct search_object *object, const float *rotations,
                     uint32_t n, struct search_map *out)
{
    struct search_cuda *cuda = (struct search_cuda *)device;
    size_t vertex_bytes = object->n_vertices * sizeof(float);
    size_t triangle_bytes = 3 * (size_t)object->n_triangles * sizeof(uint32_t);
    size_t rotation_bytes = 9 * n * sizeof(float);
    TRY(cudaSetDevice(cuda->device));
    int err = grow_work(cuda, 3 * vertex_bytes + triangle_bytes + rotation_bytes);
    if (!err)
        err = grow_result(cuda, n * sizeof *out);
    if (err)
        return err;
    float *x = (float *)cuda->work, *y = x + object->n_vertices, *z = y + object->n_vertices;
    uint32_t *triangles = (uint32_t *)(z + object->n_vertices);
    float *turns = (float *)(triangles + 3 * (size_t)object->n_triangles);
    TRY(cudaMemcpyAsync(x, object->x, vertex_bytes, cudaMemcpyHostToDevice, cuda->stream));
    TRY(cudaMemcpyAsync(y, object->y, vertex_bytes, cudaMemcpyHostToDevice, cuda->stream));
    TRY(cudaMemcpyAsync(z, object->z, vertex_bytes, cudaMemcpyHostToDevice, cuda->stream));
    TRY(cudaMemcpyAsync(triangles, object->triangles, triangle_bytes, cudaMemcpyHostToDevice,
                        cuda->stream));
    TRY(cudaMemcpyAsync(turns, rotations, rotation_bytes, cudaMemcpyHostToDevice, cuda->stream));
    maps_kernel<<<n, MAP_THREADS, 0, cuda->stream>>>(x, y, z, triangles, object->n_triangles, turns,
                                                     (struct search_map *)cuda->result);
    TRY(cudaGetLastError());
    TRY(cudaMemcpyAsync(cuda->result_host, cuda->result, n * sizeof *out, cudaMemcpyDeviceToHost,
                        cuda->stream));
    TRY(cudaStreamSynchronize(cuda->stream));
    memcpy(out, cuda->result_host, n * sizeof *out);
    return 0;
}

// ---- Objects and images

static void cuda_detach(void *device, struct search_object *object)
{
    struct search_cuda *cuda = (struct search_cuda *)device;
    struct cuda_object *copy = (struct cuda_object *)object->device;
    if (!copy)
        return;
    cudaSetDevice(cuda->device);
    cudaFree(copy->views);
    cudaFree(copy->pixel_first);
    cudaFree(copy->pixels);
    cudaFree(copy->pixel_offset);
    cudaFree(copy->coarse);
    cudaFree(copy->seeds);
    free(copy);
    object->device = NULL;
}

static int upload(struct search_cuda *cuda, void **out, const void *data, size_t bytes)
{
    TRY(cudaMalloc(out, bytes));
    TRY(cudaMemcpyAsync(*out, data, bytes, cudaMemcpyHostToDevice, cuda->stream));
    TRY(cudaStreamSynchronize(cuda->stream));
    return 0;
}

// A warp a view: chunks to pixels, in their order.
__global__ void unpack_kernel(const struct search_view *views, uint32_t n_views,
                              const uint16_t *chunk_offset, const uint32_t *chunk_pairs,
                              const uint32_t *pixel_first, float2 *pixels, uint16_t *pixel_offset)
{
    uint32_t i = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (i >= n_views)
        return;
    uint32_t at = pixel_first[i];
    for (uint32_t k = 0; k < (views[i].n_chunks + 1) / 2; k++) {
        uint32_t chunk = 2 * k + lane / SEARCH_CHUNK;
        size_t from = (size_t)views[i].first_chunk + chunk;
        uint32_t pair = search_pair(0, -1);
        if (chunk < views[i].n_chunks)
            pair = chunk_pairs[from * SEARCH_CHUNK + lane % SEARCH_CHUNK];
        uint32_t mask = __ballot_sync(0xffffffffu, search_pair_edt(pair) >= 0);
        uint32_t to = at + (uint32_t)__popc(mask & ((1u << lane) - 1));
        at += (uint32_t)__popc(mask);
        if (search_pair_edt(pair) < 0)
            continue;
        pixels[to] = make_float2((float)search_pair_z(pair), (float)search_pair_edt(pair));
        pixel_offset[to] = (uint16_t)(chunk_offset[from] + lane % SEARCH_CHUNK);
    }
}

static int unpack_views(struct search_cuda *cuda, const struct search_object *object,
                        struct cuda_object *copy)
{
    uint32_t *first = (uint32_t *)malloc((object->n_views + 1) * sizeof *first);
    if (!first)
        return -ENOMEM;
    first[0] = 0;
    for (uint32_t i = 0; i < object->n_views; i++)
        first[i + 1] = first[i] + object->views[i].n_cover;
    size_t n = first[object->n_views] ? first[object->n_views] : 1;
    int err =
        upload(cuda, (void **)&copy->pixel_first, first, (object->n_views + 1) * sizeof *first);
    free(first);
    size_t pair_bytes = (size_t)object->n_chunks * SEARCH_CHUNK * sizeof *object->chunk_pairs;
    size_t offset_bytes = object->n_chunks * sizeof *object->chunk_offset;
    if (!err)
        err = grow_work(cuda, pair_bytes + offset_bytes);
    if (err)
        return err;
    uint32_t *pairs = (uint32_t *)cuda->work;
    uint16_t *offset = (uint16_t *)(pairs + (size_t)object->n_chunks * SEARCH_CHUNK);
    TRY(cudaMalloc((void **)&copy->pixels, n * sizeof *copy->pixels));
    TRY(cudaMalloc((void **)&copy->pixel_offset, n * sizeof *copy->pixel_offset));
    TRY(cudaMemcpyAsync(pairs, object->chunk_pairs, pair_bytes, cudaMemcpyHostToDevice,
                        cuda->stream));
    TRY(cudaMemcpyAsync(offset, object->chunk_offset, offset_bytes, cudaMemcpyHostToDevice,
                        cuda->stream));
    unpack_kernel<<<(object->n_views + 7) / 8, 256, 0, cuda->stream>>>(
        copy->views, object->n_views, offset, pairs, copy->pixel_first, copy->pixels,
        copy->pixel_offset);
    TRY(cudaGetLastError());
    TRY(cudaStreamSynchronize(cuda->stream));
    return 0;
}

static int cuda_attach(void *device, struct search_object *object)
{
    struct search_cuda *cuda = (struct search_cuda *)device;
    struct cuda_object *copy = (struct cuda_object *)calloc(1, sizeof *copy);
    if (!copy)
        return -ENOMEM;
    object->device = copy;
    TRY(cudaSetDevice(cuda->device));
    int err =
        upload(cuda, (void **)&copy->views, object->views, object->n_views * sizeof *object->views);
    if (!err)
        err = unpack_views(cuda, object, copy);
    if (!err)
        err = upload(cuda, (void **)&copy->coarse, object->coarse,
                     object->n_views * sizeof *object->coarse);
    if (!err)
        err = upload(cuda, (void **)&copy->seeds, object->seeds,
                     object->n_seeds * sizeof *object->seeds);
    if (err)
        cuda_detach(device, object);
    return err;
}

static int cuda_image(void *device, const struct search_depth *depth)
{
    struct search_cuda *cuda = (struct search_cuda *)device;
    const struct intrinsics *c = &depth->camera;
    size_t n = (size_t)c->width_px * c->height_px;
    TRY(cudaSetDevice(cuda->device));
    if (n > cuda->n_pixels) {
        cuda->n_pixels = 0;
        cudaFree(cuda->z_m);
        cuda->z_m = NULL;
        TRY(cudaMalloc((void **)&cuda->z_m, n * sizeof *cuda->z_m));
        cuda->n_pixels = n;
    }
    cuda->camera.fx = (float)c->fx_px;
    cuda->camera.fy = (float)c->fy_px;
    cuda->camera.cx = (float)c->cx_px;
    cuda->camera.cy = (float)c->cy_px;
    cuda->camera.width = (int)c->width_px;
    cuda->camera.height = (int)c->height_px;
    TRY(cudaMemcpyAsync(cuda->z_m, depth->z_m, n * sizeof *cuda->z_m, cudaMemcpyHostToDevice,
                        cuda->stream));
    return 0;
}

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

static int cuda_window(void *device, const struct search_frame *frame, uint32_t *out)
{
    struct search_cuda *cuda = (struct search_cuda *)device;
    TRY(cudaSetDevice(cuda->device));
    int err = draw_window(cuda, frame);
    if (err)
        return err;
    TRY(cudaMemcpyAsync(out, cuda->window, WINDOW_PIXELS * sizeof *out, cudaMemcpyDeviceToHost,
                        cuda->stream));
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
    for (uint32_t i = threadIdx.x; i < WINDOW_PIXELS; i += blockDim.x)
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

static int cuda_fit(void *device, const struct search_object *object,
                    const struct search_frame *frame, const uint32_t *views, uint32_t n,
                    uint32_t n_iterations, struct search_fit *out)
{
    struct search_cuda *cuda = (struct search_cuda *)device;
    const struct cuda_object *copy = (const struct cuda_object *)object->device;
    TRY(cudaSetDevice(cuda->device));
    int err = grow_result(cuda, n * sizeof *out);
    if (!err && views)
        err = grow_work(cuda, n * sizeof *views);
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

// ---- The coarse pass

// Few start points leave most of the device idle: then a block takes all the threads it can have.
#define SCAN_THREADS     256
#define SCAN_THREADS_FEW 1024
#define SCAN_STARTS_FEW  132

__device__ static int coarse_score(const int16_t *window, const struct search_coarse *map,
                                   int anchor)
{
    const int16_t *base =
        window + (SEARCH_COARSE_WINDOW / 2 - map->anchor_v[anchor]) * SEARCH_COARSE_WINDOW +
        SEARCH_COARSE_WINDOW / 2 - map->anchor_u[anchor];
    const int z0 = map->anchor_z[anchor];
    int sum = 0, n_seen = 0;
    for (int v = map->row_first; v < map->row_end; v++) {
        union {
            uint4 words[2];
            int16_t cells[SEARCH_COARSE_CELLS];
        } model, ring;
        const uint4 *z_row = (const uint4 *)(map->z + v * SEARCH_COARSE_CELLS);
        const uint4 *ring_row = (const uint4 *)(map->ring + v * SEARCH_COARSE_CELLS);
        for (int k = 0; k < 2; k++) {
            model.words[k] = z_row[k];
            ring.words[k] = ring_row[k];
        }
#pragma unroll
        for (int k = 0; k < SEARCH_COARSE_CELLS; k++)
            sum += search_coarse_cell(base[v * SEARCH_COARSE_WINDOW + k], model.cells[k],
                                      ring.cells[k], z0, &n_seen);
    }
    return search_coarse_score(sum, n_seen, map->n_cells);
}

template <int THREADS>
__global__ void __launch_bounds__(THREADS)
    scan_kernel(const float *z_m, struct search_camera camera, const struct search_frame *starts,
                const struct search_coarse *coarse, const uint32_t *seeds, uint32_t n_seeds,
                uint32_t keep, struct search_hit *out)
{
    // Best anchor of each seed: score and anchor. Then the `keep` best, one after the other.
    extern __shared__ unsigned long long best[];
    __shared__ int16_t window[SEARCH_COARSE_WINDOW * SEARCH_COARSE_WINDOW];
    __shared__ unsigned long long top[THREADS / 32];
    const struct search_frame frame = starts[blockIdx.x];
    const float cell_m = SEARCH_COARSE_PX * frame.px_m;
    for (int i = threadIdx.x; i < SEARCH_COARSE_WINDOW * SEARCH_COARSE_WINDOW; i += THREADS) {
        int u = i % SEARCH_COARSE_WINDOW - SEARCH_COARSE_WINDOW / 2;
        int v = i / SEARCH_COARSE_WINDOW - SEARCH_COARSE_WINDOW / 2;
        float z = 0;
        int seen = search_frame_sample(z_m, &camera, frame.rotation, frame.start_m,
                                       (float)u * cell_m, (float)v * cell_m, &z);
        window[i] = (int16_t)search_coarse_scene(seen, z / frame.px_m);
    }
    __syncthreads();
    for (uint32_t s = threadIdx.x; s < n_seeds; s += THREADS) {
        const struct search_coarse *map = &coarse[seeds[s]];
        int best_score = INT32_MIN, best_anchor = 0;
        for (int a = 0; a < map->n_anchors; a++) {
            if (!search_coarse_facing(frame.normal, map->anchor_normal[a]))
                continue;
            int score = coarse_score(window, map, a);
            if (score > best_score) {
                best_score = score;
                best_anchor = a;
            }
        }
        // Higher score first, then the earlier seed; the anchor rides along.
        uint32_t order = (uint32_t)best_score ^ 0x80000000u;
        best[s] = (unsigned long long)order << 32 | (0xffffffu - s) << 8 | (uint32_t)best_anchor;
    }
    for (uint32_t k = 0; k < keep; k++) {
        __syncthreads();
        unsigned long long mine = 0;
        for (uint32_t s = threadIdx.x; s < n_seeds; s += THREADS)
            mine = best[s] > mine ? best[s] : mine;
        for (int d = 16; d > 0; d /= 2) {
            unsigned long long other = __shfl_xor_sync(0xffffffffu, mine, d);
            mine = other > mine ? other : mine;
        }
        if (threadIdx.x % 32 == 0)
            top[threadIdx.x / 32] = mine;
        __syncthreads();
        for (int w = 0; w < THREADS / 32; w++)
            mine = top[w] > mine ? top[w] : mine;
        if (threadIdx.x > 0)
            continue;
        struct search_hit hit = {INT32_MIN, 0, blockIdx.x, 0};
        if (mine >> 32 != 0) {
            uint32_t s = 0xffffffu - (uint32_t)(mine >> 8 & 0xffffffu);
            hit.score = (int32_t)((uint32_t)(mine >> 32) ^ 0x80000000u);
            hit.view = seeds[s];
            hit.anchor = (uint32_t)(mine & 0xffu);
            best[s] = 0;
        }
        out[(size_t)blockIdx.x * keep + k] = hit;
    }
}

static int cuda_scan(void *device, const struct search_object *object,
                     const struct search_frame *starts, uint32_t n_starts, uint32_t keep,
                     struct search_hit *out)
{
    struct search_cuda *cuda = (struct search_cuda *)device;
    const struct cuda_object *copy = (const struct cuda_object *)object->device;
    if (n_starts == 0)
        return 0;
    TRY(cudaSetDevice(cuda->device));
    size_t n_hits = (size_t)n_starts * keep;
    int err = grow_result(cuda, n_hits * sizeof *out);
    if (!err)
        err = grow_work(cuda, n_starts * sizeof *starts);
    if (err)
        return err;
    TRY(cudaMemcpyAsync(cuda->work, starts, n_starts * sizeof *starts, cudaMemcpyHostToDevice,
                        cuda->stream));
    const struct search_frame *frames = (const struct search_frame *)cuda->work;
    struct search_hit *hits = (struct search_hit *)cuda->result;
    size_t shared_bytes = object->n_seeds * sizeof(unsigned long long);
    if (n_starts <= SCAN_STARTS_FEW)
        scan_kernel<SCAN_THREADS_FEW><<<n_starts, SCAN_THREADS_FEW, shared_bytes, cuda->stream>>>(
            cuda->z_m, cuda->camera, frames, copy->coarse, copy->seeds, object->n_seeds, keep,
            hits);
    else
        scan_kernel<SCAN_THREADS><<<n_starts, SCAN_THREADS, shared_bytes, cuda->stream>>>(
            cuda->z_m, cuda->camera, frames, copy->coarse, copy->seeds, object->n_seeds, keep,
            hits);
    TRY(cudaGetLastError());
    TRY(cudaMemcpyAsync(cuda->result_host, cuda->result, n_hits * sizeof *out,
                        cudaMemcpyDeviceToHost, cuda->stream));
    TRY(cudaStreamSynchronize(cuda->stream));
    memcpy(out, cuda->result_host, n_hits * sizeof *out);
    return 0;
}

extern "C" const struct search_ops search_ops_cuda = {
    "cuda",      cuda_open,  cuda_close,  cuda_describe, cuda_maps, cuda_attach,
    cuda_detach, cuda_image, cuda_window, cuda_fit,      cuda_scan,
};

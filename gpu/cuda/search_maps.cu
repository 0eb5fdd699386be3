// SPDX-License-Identifier: Apache-2.0
// Reference views: a block a view; z-buffer in shared memory, depth and triangle index in one
// 64-bit key.
#include "gpu/cuda/search.cuh"
#include "gpu/cuda/search_edt.cuh"
#include "gpu/kernels/search_raster.h"

#define MAP_PIXELS (SEARCH_MAP_PX * SEARCH_MAP_PX)

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

int search_cuda_maps(void *device, const struct search_object *object, const float *rotations,
                     uint32_t n, struct search_map *out)
{
    struct search_cuda *cuda = (struct search_cuda *)device;
    size_t vertex_bytes = object->n_vertices * sizeof(float);
    size_t triangle_bytes = 3 * (size_t)object->n_triangles * sizeof(uint32_t);
    size_t rotation_bytes = 9 * n * sizeof(float);
    TRY(cudaSetDevice(cuda->device));
    int err = search_cuda_grow_work(cuda, 3 * vertex_bytes + triangle_bytes + rotation_bytes);
    if (!err)
        err = search_cuda_grow_result(cuda, n * sizeof *out);
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

// SPDX-License-Identifier: Apache-2.0
// Reference views: their depth by blocks over slices of the triangles, with the keys in shared
// memory; then a block a view makes map, normals and distances of it. No block takes longer than a
// tenth of a millisecond, however large the mesh or its triangles: a tracker on the same device
// waits for the blocks that are there.
#include "gpu/search/cuda/device.cuh"
#include "gpu/search/cuda/edt.cuh"
#include "gpu/search/cuda/raster.cuh"

#define MAP_PIXELS (SEARCH_MAP_PX * SEARCH_MAP_PX)

__device__ static struct raster_corner corner_at(const float *r, const float *x, const float *y,
                                                 const float *z, uint32_t i)
{
    struct raster_corner c;
    c.x = raster_snap(SEARCH_CENTRE_PX + (r[0] * x[i] + r[1] * y[i] + r[2] * z[i]));
    c.y = raster_snap(SEARCH_CENTRE_PX + (r[3] * x[i] + r[4] * y[i] + r[5] * z[i]));
    c.value = r[6] * x[i] + r[7] * y[i] + r[8] * z[i];
    return c;
}

#define MAP_THREADS     512
#define SLICE_TRIANGLES 8192
#define SMALL_PX        64 // a triangle's box that one thread draws; the warp does larger ones
#define SLICES_AT_ONCE  2048

struct mesh {
    const float *x, *y, *z;
    const uint32_t *triangles;
    uint32_t n_triangles;
};

__device__ __forceinline__ int setup(const struct mesh *mesh, const float *r, uint32_t i,
                                     struct raster_triangle *out)
{
    struct raster_corner c[3];
    for (int k = 0; k < 3; k++)
        c[k] = corner_at(r, mesh->x, mesh->y, mesh->z, mesh->triangles[3 * (size_t)i + (size_t)k]);
    return raster_setup(&c[0], &c[1], &c[2], SEARCH_MAP_PX, SEARCH_MAP_PX, out);
}

// keys: MAP_PIXELS a view.
__global__ void __launch_bounds__(MAP_THREADS)
    draw_kernel(struct mesh mesh, const float *rotations, unsigned long long *keys)
{
    __shared__ unsigned long long key[MAP_PIXELS];
    __shared__ float r[9];
    for (int i = threadIdx.x; i < MAP_PIXELS; i += MAP_THREADS)
        key[i] = RASTER_NOTHING;
    if (threadIdx.x < 9)
        r[threadIdx.x] = rotations[9 * blockIdx.y + threadIdx.x];
    __syncthreads();
    const uint32_t first = blockIdx.x * SLICE_TRIANGLES, lane = threadIdx.x % 32;
    const uint32_t end = min(first + SLICE_TRIANGLES, mesh.n_triangles);
    for (uint32_t from = first + threadIdx.x - lane; from < end; from += MAP_THREADS) {
        const uint32_t i = from + lane;
        struct raster_triangle t;
        const bool there = i < end && setup(&mesh, r, i, &t);
        const bool small = there && raster_box_px(&t) <= SMALL_PX;
        if (small)
            raster_rows(&t, i, t.v0, t.v1 + 1, 0, 1, SEARCH_MAP_PX, key);
        uint32_t large = __ballot_sync(0xffffffffu, there && !small);
        for (; large; large &= large - 1) {
            const uint32_t triangle = from + (uint32_t)__ffs((int)large) - 1;
            if (setup(&mesh, r, triangle, &t))
                raster_rows(&t, triangle, t.v0, t.v1 + 1, (int)lane, 32, SEARCH_MAP_PX, key);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < MAP_PIXELS; i += MAP_THREADS)
        if (key[i] != RASTER_NOTHING)
            atomicMin(&keys[(size_t)blockIdx.y * MAP_PIXELS + i], key[i]);
}

__global__ void __launch_bounds__(MAP_THREADS)
    maps_kernel(struct mesh mesh, const float *rotations, const unsigned long long *keys,
                struct search_map *out)
{
    __shared__ unsigned long long key[MAP_PIXELS];
    __shared__ float r[9];
    const float *x = mesh.x, *y = mesh.y, *z = mesh.z;
    struct search_map *map = &out[blockIdx.x];
    for (int i = threadIdx.x; i < MAP_PIXELS; i += MAP_THREADS)
        key[i] = keys[(size_t)blockIdx.x * MAP_PIXELS + i];
    if (threadIdx.x < 9)
        r[threadIdx.x] = rotations[9 * blockIdx.x + threadIdx.x];
    __syncthreads();
    // The keys give way to depths, kinds and column distances, which take less room.
    int16_t depth[MAP_PIXELS / MAP_THREADS];
    for (int j = 0; j < MAP_PIXELS / MAP_THREADS; j++) {
        int i = threadIdx.x + j * MAP_THREADS;
        int8_t normal[3] = {0, 0, 0};
        depth[j] = SEARCH_Z_NONE;
        if (key[i] != RASTER_NOTHING) {
            const uint32_t *t = mesh.triangles + 3 * (size_t)(uint32_t)key[i];
            depth[j] = (int16_t)search_depth_fixed(raster_key_value(key[i]));
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

// Beside a tracker so many views at a time that a launch does not take a millisecond.
static int enqueue_maps(struct search_cuda *cuda, const struct mesh *mesh, const float *rotations,
                        uint32_t n, unsigned long long *keys, struct search_map *out)
{
    const uint32_t n_slices = (mesh->n_triangles + SLICE_TRIANGLES - 1) / SLICE_TRIANGLES;
    const uint32_t most = SLICES_AT_ONCE / n_slices + 1;
    CUDA_OR_RETURN(&cuda->dev, cudaMemsetAsync(keys, 0xff, (size_t)n * MAP_PIXELS * sizeof *keys,
                                               cuda->dev.stream));
    for (uint32_t from = 0; from < n; from += most) {
        const uint32_t n_here = n - from < most ? n - from : most;
        int err = search_cuda_yield(cuda);
        if (err)
            return err;
        const float *turns = rotations + 9 * (size_t)from;
        unsigned long long *own = keys + (size_t)from * MAP_PIXELS;
        draw_kernel<<<dim3(n_slices, n_here), MAP_THREADS, 0, cuda->dev.stream>>>(*mesh, turns,
                                                                                  own);
        CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
        maps_kernel<<<n_here, MAP_THREADS, 0, cuda->dev.stream>>>(*mesh, turns, own, out + from);
        CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    }
    return 0;
}

int search_cuda_maps(void *device, const struct search_object *object, const float *rotations,
                     uint32_t n, struct search_map *out)
{
    struct search_cuda *cuda = (struct search_cuda *)device;
    const size_t n_vertices = object->n_vertices, n_triangles = object->n_triangles;
    const size_t key_bytes = n * MAP_PIXELS * sizeof(unsigned long long);
    CUDA_OR_RETURN(&cuda->dev, cudaSetDevice(cuda->dev.index));
    int err = cuda_grow(&cuda->dev, &cuda->work,
                        key_bytes + 3 * (n_vertices + n_triangles) * 4 + 9 * n * 4);
    if (!err)
        err = search_cuda_grow_result(cuda, n * sizeof *out);
    if (err)
        return err;
    unsigned long long *keys = (unsigned long long *)cuda->work.at;
    float *x = (float *)((char *)cuda->work.at + key_bytes), *y = x + n_vertices,
          *z = y + n_vertices;
    uint32_t *triangles = (uint32_t *)(z + n_vertices);
    float *turns = (float *)(triangles + 3 * n_triangles);
    const struct {
        void *to;
        const void *from;
        size_t n;
    } copies[] = {{x, object->x, n_vertices},
                  {y, object->y, n_vertices},
                  {z, object->z, n_vertices},
                  {triangles, object->triangles, 3 * n_triangles},
                  {turns, rotations, 9 * n}};
    for (size_t i = 0; i < sizeof copies / sizeof *copies && !err; i++)
        err = search_cuda_copy(cuda, copies[i].to, copies[i].from, copies[i].n * 4);
    const struct mesh mesh = {x, y, z, triangles, object->n_triangles};
    if (!err)
        err = enqueue_maps(cuda, &mesh, turns, n, keys, (struct search_map *)cuda->result.at);
    if (err)
        return err;
    CUDA_OR_RETURN(&cuda->dev,
                   cudaMemcpyAsync(cuda->result_host.at, cuda->result.at, n * sizeof *out,
                                   cudaMemcpyDeviceToHost, cuda->dev.stream));
    CUDA_OR_RETURN(&cuda->dev, cudaStreamSynchronize(cuda->dev.stream));
    memcpy(out, cuda->result_host.at, n * sizeof *out);
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
// The pose search on CUDA: the device, its copies of objects and images, the table of operations.
#include "gpu/search/cuda/device.cuh"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu/search/kernels/range_map.h"

#define COPY_BYTES (2u << 20) // of memory that is not page-locked, at once: 0.3 ms

int search_cuda_yield(struct search_cuda *cuda)
{
    if (!cuda->dev.yield.wait)
        return 0;
    CUDA_OR_RETURN(&cuda->dev, cudaStreamSynchronize(cuda->dev.stream));
    yield_now(&cuda->dev.yield);
    return 0;
}

void search_cuda_free(struct search_cuda *cuda, void *memory)
{
    if (!memory)
        return;
    yield_long(&cuda->dev.yield);
    cudaFree(memory);
}

int search_cuda_grow_result(struct search_cuda *cuda, size_t bytes)
{
    int err = cuda_grow(&cuda->dev, &cuda->result, bytes);
    return err ? err : cuda_grow_host(&cuda->dev, &cuda->result_host, bytes);
}

static void close_device(void *device)
{
    struct search_cuda *cuda = (struct search_cuda *)device;
    search_cuda_close_find(cuda);
    struct cuda_memory *const grown[] = {&cuda->windows, &cuda->keys, &cuda->result, &cuda->work};
    for (struct cuda_memory *memory : grown)
        cuda_shrink(&cuda->dev, memory);
    cuda_shrink_host(&cuda->dev, &cuda->result_host);
    void *const fixed[] = {cuda->z_m, cuda->window, cuda->next};
    for (void *at : fixed)
        search_cuda_free(cuda, at);
    cuda_close(&cuda->dev);
    free(cuda);
}

static const char *refuse(const struct cudaDeviceProp *properties)
{
    return properties->sharedMemPerBlockOptin < search_cuda_shared_bytes()
               ? "the pose search needs 223 KB of shared memory a block (compute capability 9.0 "
                 "or 10.x)"
               : NULL;
}

static int open_device(void **out_device, const struct search_settings *settings, struct pool *pool)
{
    (void)pool;
    *out_device = NULL;
    struct search_cuda *cuda = (struct search_cuda *)calloc(1, sizeof *cuda);
    if (!cuda)
        return -ENOMEM;
    const struct cuda_settings device = {
        .room = "pose search",
        .device = settings->cuda_device,
        .priority = CUDA_PRIORITY_REQUESTS,
        .refuse = refuse,
        .log = settings->log,
        .yield = settings->yield,
    };
    int err = cuda_open(&cuda->dev, &device);
    if (!err)
        err = search_cuda_prepare_fit(cuda);
    if (!err)
        err = search_cuda_prepare_scan(cuda);
    if (!err)
        err = search_cuda_prepare_find(cuda);
    if (err) {
        close_device(cuda);
        return err;
    }
    *out_device = cuda;
    return 0;
}

static void cuda_describe(const void *device, char *out, size_t size)
{
    const struct search_cuda *cuda = (const struct search_cuda *)device;
    snprintf(out, size, "cuda: %s", cuda->dev.name);
}

static void cuda_detach(void *device, struct search_object *object)
{
    struct search_cuda *cuda = (struct search_cuda *)device;
    struct cuda_object *copy = (struct cuda_object *)object->device;
    if (!copy)
        return;
    cudaSetDevice(cuda->dev.index);
    void *const memory[] = {copy->views,
                            copy->pixel_first,
                            copy->pixels,
                            copy->pixel_offset,
                            copy->order,
                            copy->coarse,
                            copy->seeds,
                            copy->seed_maps,
                            copy->child_first,
                            copy->children,
                            copy->seed_rotations,
                            copy->points,
                            copy->n_points,
                            copy->n_ring,
                            copy->x,
                            copy->y,
                            copy->z,
                            copy->triangles};
    for (void *at : memory)
        search_cuda_free(cuda, at);
    free(copy);
    object->device = NULL;
}

int search_cuda_copy(struct search_cuda *cuda, void *to, const void *from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += COPY_BYTES) {
        const size_t n = bytes - at < COPY_BYTES ? bytes - at : COPY_BYTES;
        yield_now(&cuda->dev.yield);
        CUDA_OR_RETURN(&cuda->dev, cudaMemcpyAsync((char *)to + at, (const char *)from + at, n,
                                                   cudaMemcpyHostToDevice, cuda->dev.stream));
    }
    return 0;
}

static int upload(struct search_cuda *cuda, void **out, const void *data, size_t bytes)
{
    yield_long(&cuda->dev.yield);
    CUDA_OR_RETURN(&cuda->dev, cudaMalloc(out, bytes));
    int err = search_cuda_copy(cuda, *out, data, bytes);
    if (err)
        return err;
    CUDA_OR_RETURN(&cuda->dev, cudaStreamSynchronize(cuda->dev.stream));
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

// Counting sort by pixels, most first; equal ones in their order.
static int order_views(struct search_cuda *cuda, const struct search_object *object,
                       struct cuda_object *copy)
{
    enum { MOST = SEARCH_MAP_PX * SEARCH_MAP_PX };
    uint32_t *order = (uint32_t *)malloc(object->n_views * sizeof *order);
    uint32_t *place = (uint32_t *)calloc(MOST + 2, sizeof *place);
    int err = order && place ? 0 : -ENOMEM;
    if (!err) {
        for (uint32_t i = 0; i < object->n_views; i++)
            place[MOST - object->views[i].n_cover + 1]++;
        for (uint32_t k = 0; k <= MOST; k++)
            place[k + 1] += place[k];
        for (uint32_t i = 0; i < object->n_views; i++)
            order[place[MOST - object->views[i].n_cover]++] = i;
        err = upload(cuda, (void **)&copy->order, order, object->n_views * sizeof *order);
    }
    free(order);
    free(place);
    return err;
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
    if (!err)
        err = order_views(cuda, object, copy);
    size_t pair_bytes = (size_t)object->n_chunks * SEARCH_CHUNK * sizeof *object->chunk_pairs;
    size_t offset_bytes = object->n_chunks * sizeof *object->chunk_offset;
    if (!err)
        err = cuda_grow(&cuda->dev, &cuda->work, pair_bytes + offset_bytes);
    if (err)
        return err;
    uint32_t *pairs = (uint32_t *)cuda->work.at;
    uint16_t *offset = (uint16_t *)(pairs + (size_t)object->n_chunks * SEARCH_CHUNK);
    yield_long(&cuda->dev.yield);
    CUDA_OR_RETURN(&cuda->dev, cudaMalloc((void **)&copy->pixels, n * sizeof *copy->pixels));
    CUDA_OR_RETURN(&cuda->dev,
                   cudaMalloc((void **)&copy->pixel_offset, n * sizeof *copy->pixel_offset));
    err = search_cuda_copy(cuda, pairs, object->chunk_pairs, pair_bytes);
    if (!err)
        err = search_cuda_copy(cuda, offset, object->chunk_offset, offset_bytes);
    if (err)
        return err;
    unpack_kernel<<<(object->n_views + 7) / 8, 256, 0, cuda->dev.stream>>>(
        copy->views, object->n_views, offset, pairs, copy->pixel_first, copy->pixels,
        copy->pixel_offset);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    CUDA_OR_RETURN(&cuda->dev, cudaStreamSynchronize(cuda->dev.stream));
    return 0;
}

static int pack_seeds(struct search_cuda *cuda, const struct search_object *object,
                      struct cuda_object *copy)
{
    const size_t bytes = (size_t)object->n_seeds * SEARCH_SEED_WORDS * sizeof(uint32_t);
    uint32_t *maps = (uint32_t *)malloc(bytes);
    if (!maps)
        return -ENOMEM;
    for (uint32_t i = 0; i < object->n_seeds; i++)
        search_cuda_pack_seed(&object->coarse[object->seeds[i]],
                              maps + (size_t)i * SEARCH_SEED_WORDS);
    int err = upload(cuda, (void **)&copy->seed_maps, maps, bytes);
    free(maps);
    return err;
}

static int cuda_attach(void *device, struct search_object *object)
{
    struct search_cuda *cuda = (struct search_cuda *)device;
    CUDA_OR_RETURN(&cuda->dev, cudaSetDevice(cuda->dev.index));
    struct cuda_object *copy = (struct cuda_object *)calloc(1, sizeof *copy);
    if (!copy)
        return -ENOMEM;
    object->device = copy;
    const uint32_t n = object->n_views, n_seeds = object->n_seeds, n_vertices = object->n_vertices;
    const struct {
        void **to;
        const void *from;
        size_t bytes;
    } arrays[] = {
        {(void **)&copy->views, object->views, n * sizeof *object->views},
        {(void **)&copy->coarse, object->coarse, n * sizeof *object->coarse},
        {(void **)&copy->points, object->points,
         (size_t)n * (SEARCH_POINTS + SEARCH_RING_POINTS) * sizeof *object->points},
        {(void **)&copy->n_points, object->n_points, n * sizeof *object->n_points},
        {(void **)&copy->n_ring, object->n_ring, n * sizeof *object->n_ring},
        {(void **)&copy->seeds, object->seeds, n_seeds * sizeof *object->seeds},
        {(void **)&copy->child_first, object->child_first,
         (n_seeds + 1) * sizeof *object->child_first},
        {(void **)&copy->children, object->children, n * sizeof *object->children},
        {(void **)&copy->seed_rotations, object->seed_rotations,
         (n_seeds + 7) / 8 * 72 * sizeof *object->seed_rotations},
        {(void **)&copy->x, object->x, n_vertices * sizeof *object->x},
        {(void **)&copy->y, object->y, n_vertices * sizeof *object->y},
        {(void **)&copy->z, object->z, n_vertices * sizeof *object->z},
        {(void **)&copy->triangles, object->triangles,
         3 * (size_t)object->n_triangles * sizeof *object->triangles},
    };
    int err = 0;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays && !err; i++)
        err = upload(cuda, arrays[i].to, arrays[i].from, arrays[i].bytes);
    if (!err)
        err = unpack_views(cuda, object, copy);
    if (!err)
        err = pack_seeds(cuda, object, copy);
    if (err)
        cuda_detach(device, object);
    return err;
}

void search_cuda_set_camera(struct search_cuda *cuda, const struct intrinsics *camera)
{
    cuda->camera.fx = (float)camera->fx_px;
    cuda->camera.fy = (float)camera->fy_px;
    cuda->camera.cx = (float)camera->cx_px;
    cuda->camera.cy = (float)camera->cy_px;
    cuda->camera.width = (int)camera->width_px;
    cuda->camera.height = (int)camera->height_px;
}

int search_cuda_grow_image(struct search_cuda *cuda, size_t n_pixels)
{
    if (n_pixels <= cuda->n_pixels)
        return 0;
    yield_long(&cuda->dev.yield);
    cuda->n_pixels = 0;
    cudaFree(cuda->z_m);
    cuda->z_m = NULL;
    CUDA_OR_RETURN(&cuda->dev, cudaMalloc((void **)&cuda->z_m, n_pixels * sizeof *cuda->z_m));
    cuda->n_pixels = n_pixels;
    return 0;
}

static int cuda_image(void *device, const struct search_depth *depth)
{
    struct search_cuda *cuda = (struct search_cuda *)device;
    size_t n = (size_t)depth->camera.width_px * depth->camera.height_px;
    CUDA_OR_RETURN(&cuda->dev, cudaSetDevice(cuda->dev.index));
    int err = search_cuda_grow_image(cuda, n);
    if (err)
        return err;
    search_cuda_set_camera(cuda, &depth->camera);
    CUDA_OR_RETURN(&cuda->dev, cudaMemcpyAsync(cuda->z_m, depth->z_m, n * sizeof *cuda->z_m,
                                               cudaMemcpyHostToDevice, cuda->dev.stream));
    return 0;
}

extern "C" const struct search_ops search_ops_cuda = {
    "cuda",      open_device, close_device,         cuda_describe,    search_cuda_maps, cuda_attach,
    cuda_detach, cuda_image,  search_cuda_fit_best, search_cuda_scan, search_cuda_find,
};

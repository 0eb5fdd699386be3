// SPDX-License-Identifier: Apache-2.0
// The CUDA twin: one launch sums all pairs, a second adds up what its blocks left. Images stay on
// the device; an iteration sends a pose a task there and brings 32 sums a task back.
//
// A block takes CHUNK vertices of one task, a thread CHUNK / THREADS of them with its sums in
// registers. Per correspondence 24 bytes of vertex stream by and one 16-byte plane is fetched,
// mostly from a line that a neighbour has fetched already: at 40 bytes the memory of an H200 feeds
// 120 correspondences a nanosecond.
//
// The order of all sums is fixed: lanes of a warp in a tree, warps of a block, blocks of a task.
// The same bits come whatever else is in the launch.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/align/ops.h"
#include "gpu/base/cuda.cuh"

#define THREADS 256
#define WARPS   (THREADS / 32)
#define CHUNK   4096

struct cuda_image {
    const float *x_m, *y_m, *z_m, *nx, *ny, *nz;
    const float4 *planes;
    float projection[12];
    int32_t width, height;
    struct pair_noise noise;
};

struct cuda_chunk {
    uint32_t task, first, n;
};

struct align_cuda {
    const struct align_ops *ops;
    struct cuda_dev dev;
    char description[128];
    uint32_t n_slots, n_tasks;
    struct cuda_memory *memory; // of each slot's arrays
    struct cuda_image *images;  // n_slots, on the host
    uint32_t (*n_level)[ALIGN_LEVELS];
    bool images_sent;
    struct cuda_memory image_table, task_table, chunk_table, first_table, partial, sums;
    struct cuda_memory host_tasks, host_sums;
    // What the chunk table was made for.
    uint32_t *sources, n_sources, level, n_chunks;
};

static __device__ __forceinline__ void add_row(const struct pair_row &row, float *sums)
{
    int at = PAIR_SUM_H;
#pragma unroll
    for (int i = 0; i < 6; i++) {
        float wj = row.w * row.j[i];
#pragma unroll
        for (int c = i; c < 6; c++, at++)
            sums[at] = kernel_fma(wj, row.j[c], sums[at]);
        sums[PAIR_SUM_G + i] = kernel_fma(wj, row.r_m, sums[PAIR_SUM_G + i]);
    }
    float te = row.tukey * row.e, tr = row.tukey * row.r_m;
    sums[PAIR_SUM_WEE] = kernel_fma(te, row.e, sums[PAIR_SUM_WEE]);
    sums[PAIR_SUM_TW] += row.tukey;
    sums[PAIR_SUM_ABS] += kernel_abs(te);
    sums[PAIR_SUM_N] += row.n;
    sums[PAIR_SUM_RR] = kernel_fma(tr, row.r_m, sums[PAIR_SUM_RR]);
}

// Sums 32 values over the 32 lanes in 31 exchanges: afterwards lane i has the sum of value i.
static __device__ __forceinline__ float warp_sums(float v[PAIR_N_SUMS])
{
    const unsigned lane = threadIdx.x & 31;
    // A literal width a step: the values stay in registers.
#define HALVE(m)                                                                        \
    _Pragma("unroll") for (int k = 0; k < (m); k++)                                     \
    {                                                                                   \
        const bool upper = (lane & (m)) != 0;                                           \
        const float give = upper ? v[k] : v[k + (m)], keep = upper ? v[k + (m)] : v[k]; \
        v[k] = keep + __shfl_xor_sync(0xffffffffu, give, (m));                          \
    }
    HALVE(16)
    HALVE(8)
    HALVE(4)
    HALVE(2)
    HALVE(1)
#undef HALVE
    return v[0];
}

__global__ void __launch_bounds__(THREADS, 3)
    align_sum(const struct cuda_image *__restrict__ images,
              const struct align_task *__restrict__ tasks,
              const struct cuda_chunk *__restrict__ chunks, float *__restrict__ out)
{
    static_assert(PAIR_N_SUMS == 32, "one sum a lane");
    const struct cuda_chunk chunk = chunks[blockIdx.x];
    const struct align_task &task = tasks[chunk.task];
    const struct cuda_image &source = images[task.source], &target = images[task.target];
    const struct pair_pose T = task.T_target_source;
    const struct pair_gates gates = task.gates;
    const struct pair_noise noise = source.noise;
    const int32_t width = target.width, height = target.height;
    float m[12], sums[PAIR_N_SUMS];
#pragma unroll
    for (int i = 0; i < 12; i++)
        m[i] = target.projection[i];
#pragma unroll
    for (int i = 0; i < PAIR_N_SUMS; i++)
        sums[i] = 0;
    for (uint32_t k = threadIdx.x; k < chunk.n; k += THREADS) {
        const uint32_t at = chunk.first + k;
        const struct pair_vec3 p = {__ldcs(source.x_m + at), __ldcs(source.y_m + at),
                                    __ldcs(source.z_m + at)};
        const struct pair_vec3 q = pair_transform(&T, p);
        const struct pair_cell cell = pair_project(m, width, height, q);
        if (!cell.inside)
            continue;
        const struct pair_vec3 n = {__ldcs(source.nx + at), __ldcs(source.ny + at),
                                    __ldcs(source.nz + at)};
        const float4 plane = __ldg(target.planes + (size_t)cell.v * width + cell.u);
        const float precision = pair_precision(noise, p.z);
        const struct pair_row row = pair_residual(&gates, true, q, pair_rotate(&T, n), precision,
                                                  pair_plane{plane.x, plane.y, plane.z, plane.w});
        add_row(row, sums);
    }
    __shared__ float shared[WARPS][32];
    const float mine = warp_sums(sums);
    shared[threadIdx.x / 32][threadIdx.x & 31] = mine;
    __syncthreads();
    if (threadIdx.x < 32) {
        float all = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            all += shared[w][threadIdx.x];
        out[(size_t)blockIdx.x * PAIR_N_SUMS + threadIdx.x] = all;
    }
}

// A block a task: warp w adds every WARPS-th of its chunks, then the warps are added in order.
__global__ void __launch_bounds__(THREADS)
    align_add(const uint32_t *__restrict__ first, const float *__restrict__ partial,
              double *__restrict__ out)
{
    __shared__ double shared[WARPS][32];
    const uint32_t lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    double sum = 0;
    for (uint32_t c = first[blockIdx.x] + warp; c < first[blockIdx.x + 1]; c += WARPS)
        sum += (double)partial[(size_t)c * PAIR_N_SUMS + lane];
    shared[warp][lane] = sum;
    __syncthreads();
    if (warp == 0) {
        double all = 0;
        for (int w = 0; w < WARPS; w++)
            all += shared[w][lane];
        out[(size_t)blockIdx.x * PAIR_N_SUMS + lane] = all;
    }
}

static size_t rounded(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static int cuda_load(struct align_device *device, uint32_t slot, const struct align_image *image)
{
    struct align_cuda *c = (struct align_cuda *)device;
    const uint32_t n = image->n_level[0];
    const size_t column = rounded(n * sizeof(float));
    const size_t planes = rounded((size_t)image->width * image->height * sizeof *image->planes);
    int rc = cuda_enter(&c->dev);
    if (rc == 0)
        rc = cuda_grow(&c->dev, &c->memory[slot], 6 * column + planes);
    if (rc < 0)
        return rc;
    char *at = (char *)c->memory[slot].at;
    const float *const from[6] = {image->x_m, image->y_m, image->z_m,
                                  image->nx,  image->ny,  image->nz};
    struct cuda_image *to = &c->images[slot];
    const float **const columns[6] = {&to->x_m, &to->y_m, &to->z_m, &to->nx, &to->ny, &to->nz};
    for (int k = 0; k < 6; k++, at += column) {
        *columns[k] = (const float *)at;
        CUDA_OR_RETURN(&c->dev, cudaMemcpyAsync(at, from[k], n * sizeof(float),
                                                cudaMemcpyHostToDevice, c->dev.stream));
    }
    to->planes = (const float4 *)at;
    CUDA_OR_RETURN(&c->dev,
                   cudaMemcpyAsync(at, image->planes,
                                   (size_t)image->width * image->height * sizeof *image->planes,
                                   cudaMemcpyHostToDevice, c->dev.stream));
    CUDA_OR_RETURN(&c->dev, cudaStreamSynchronize(c->dev.stream)); // the image may go now
    memcpy(to->projection, image->projection, sizeof to->projection);
    memcpy(c->n_level[slot], image->n_level, sizeof c->n_level[slot]);
    to->width = (int32_t)image->width;
    to->height = (int32_t)image->height;
    to->noise = image->noise;
    c->images_sent = false;
    c->n_sources = 0;
    return 0;
}

static int send(struct align_cuda *c, struct cuda_memory *to, const void *from, size_t bytes)
{
    int rc = cuda_grow(&c->dev, to, bytes);
    if (rc < 0)
        return rc;
    CUDA_OR_RETURN(&c->dev,
                   cudaMemcpyAsync(to->at, from, bytes, cudaMemcpyHostToDevice, c->dev.stream));
    return 0;
}

static bool is_same(const struct align_cuda *c, const struct align_task *tasks, uint32_t n,
                    uint32_t level)
{
    if (c->n_sources != n || c->level != level)
        return false;
    for (uint32_t t = 0; t < n; t++)
        if (c->sources[t] != tasks[t].source)
            return false;
    return true;
}

// The table of chunks: the same for all iterations of a level.
static int make_chunks(struct align_cuda *c, const struct align_task *tasks, uint32_t n_tasks,
                       uint32_t level)
{
    size_t n_chunks = 0;
    for (uint32_t t = 0; t < n_tasks; t++)
        n_chunks += (c->n_level[tasks[t].source][level] + CHUNK - 1) / CHUNK;
    struct cuda_chunk *chunks = (struct cuda_chunk *)malloc((n_chunks + 1) * sizeof *chunks);
    uint32_t *first = (uint32_t *)malloc(((size_t)n_tasks + 1) * sizeof *first);
    uint32_t at = 0;
    int rc = chunks && first ? 0 : -ENOMEM;
    for (uint32_t t = 0; t < n_tasks && rc == 0; t++) {
        const uint32_t n = c->n_level[tasks[t].source][level];
        first[t] = at;
        c->sources[t] = tasks[t].source;
        for (uint32_t v = 0; v < n; v += CHUNK)
            chunks[at++] = cuda_chunk{t, v, n - v < CHUNK ? n - v : CHUNK};
    }
    if (rc == 0) {
        first[n_tasks] = at;
        rc = send(c, &c->chunk_table, chunks, (n_chunks + 1) * sizeof *chunks);
    }
    if (rc == 0)
        rc = send(c, &c->first_table, first, ((size_t)n_tasks + 1) * sizeof *first);
    if (rc == 0)
        rc = cuda_grow(&c->dev, &c->partial, (n_chunks + 1) * PAIR_N_SUMS * sizeof(float));
    if (rc == 0)
        rc = CUDA_TRY(&c->dev, cudaStreamSynchronize(c->dev.stream)); // the tables go now
    free(chunks);
    free(first);
    c->n_sources = rc == 0 ? n_tasks : 0;
    c->level = level;
    c->n_chunks = at;
    return rc;
}

static int cuda_sum(struct align_device *device, const struct align_task *tasks, uint32_t n_tasks,
                    uint32_t level, double *out_sums)
{
    struct align_cuda *c = (struct align_cuda *)device;
    const size_t sums_bytes = (size_t)n_tasks * PAIR_N_SUMS * sizeof(double);
    int rc = n_tasks > c->n_tasks ? -EINVAL : cuda_enter(&c->dev);
    if (rc == 0 && !c->images_sent) {
        rc = send(c, &c->image_table, c->images, c->n_slots * sizeof *c->images);
        c->images_sent = rc == 0;
    }
    if (rc == 0 && !is_same(c, tasks, n_tasks, level))
        rc = make_chunks(c, tasks, n_tasks, level);
    if (rc < 0)
        return rc;
    memcpy(c->host_tasks.at, tasks, n_tasks * sizeof *tasks);
    rc = send(c, &c->task_table, c->host_tasks.at, n_tasks * sizeof *tasks);
    if (rc < 0)
        return rc;
    if (c->n_chunks)
        align_sum<<<c->n_chunks, THREADS, 0, c->dev.stream>>>(
            (const struct cuda_image *)c->image_table.at,
            (const struct align_task *)c->task_table.at,
            (const struct cuda_chunk *)c->chunk_table.at, (float *)c->partial.at);
    align_add<<<n_tasks, THREADS, 0, c->dev.stream>>>(
        (const uint32_t *)c->first_table.at, (const float *)c->partial.at, (double *)c->sums.at);
    CUDA_OR_RETURN(&c->dev, cudaGetLastError());
    CUDA_OR_RETURN(&c->dev, cudaMemcpyAsync(c->host_sums.at, c->sums.at, sums_bytes,
                                            cudaMemcpyDeviceToHost, c->dev.stream));
    CUDA_OR_RETURN(&c->dev, cudaStreamSynchronize(c->dev.stream));
    memcpy(out_sums, c->host_sums.at, sums_bytes);
    return 0;
}

static size_t cuda_bytes(const struct align_device *device)
{
    const struct align_cuda *c = (const struct align_cuda *)device;
    size_t bytes = 0;
    for (uint32_t i = 0; i < c->n_slots; i++)
        bytes += c->memory[i].bytes;
    return bytes;
}

static const char *cuda_description(const struct align_device *device)
{
    return ((const struct align_cuda *)device)->description;
}

static void cuda_close_device(struct align_device *device)
{
    struct align_cuda *c = (struct align_cuda *)device;
    for (uint32_t i = 0; i < c->n_slots && c->memory; i++)
        cuda_shrink(&c->dev, &c->memory[i]);
    struct cuda_memory *all[] = {&c->image_table, &c->task_table, &c->chunk_table,
                                 &c->first_table, &c->partial,    &c->sums};
    for (struct cuda_memory *memory : all)
        cuda_shrink(&c->dev, memory);
    cuda_shrink_host(&c->dev, &c->host_tasks);
    cuda_shrink_host(&c->dev, &c->host_sums);
    cuda_close(&c->dev);
    free(c->memory);
    free(c->images);
    free(c->n_level);
    free(c->sources);
    free(c);
}

static const struct align_ops cuda_ops = {"cuda",   cuda_close_device, cuda_load,
                                          cuda_sum, cuda_bytes,        cuda_description};

int align_cuda_open(struct align_device **out, const struct align_device_settings *settings)
{
    struct align_cuda *c = (struct align_cuda *)calloc(1, sizeof *c);
    const size_t n_slots = settings->n_slots ? settings->n_slots : 1;
    const size_t n_tasks = settings->n_tasks ? settings->n_tasks : 1;
    struct cuda_settings with = {};
    *out = NULL;
    if (!c)
        return -ENOMEM;
    with.room = "alignment";
    with.device = settings->cuda_device;
    with.priority = CUDA_PRIORITY_REQUESTS;
    with.log = settings->log;
    int rc = cuda_open(&c->dev, &with);
    if (rc < 0) {
        free(c);
        return rc;
    }
    c->ops = &cuda_ops;
    c->n_slots = (uint32_t)n_slots;
    c->n_tasks = (uint32_t)n_tasks;
    c->memory = (struct cuda_memory *)calloc(n_slots, sizeof *c->memory);
    c->images = (struct cuda_image *)calloc(n_slots, sizeof *c->images);
    c->n_level = (uint32_t(*)[ALIGN_LEVELS])calloc(n_slots, sizeof *c->n_level);
    c->sources = (uint32_t *)calloc(n_tasks, sizeof *c->sources);
    rc = c->memory && c->images && c->n_level && c->sources ? 0 : -ENOMEM;
    if (rc == 0)
        rc = cuda_grow_host(&c->dev, &c->host_tasks, n_tasks * sizeof(struct align_task));
    if (rc == 0)
        rc = cuda_grow_host(&c->dev, &c->host_sums, n_tasks * PAIR_N_SUMS * sizeof(double));
    if (rc == 0)
        rc = cuda_grow(&c->dev, &c->task_table, n_tasks * sizeof(struct align_task));
    if (rc == 0)
        rc = cuda_grow(&c->dev, &c->sums, n_tasks * PAIR_N_SUMS * sizeof(double));
    if (rc < 0) {
        cuda_close_device((struct align_device *)c);
        return rc;
    }
    snprintf(c->description, sizeof c->description, "cuda: %s", c->dev.name);
    *out = (struct align_device *)c;
    return 0;
}

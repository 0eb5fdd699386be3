// SPDX-License-Identifier: Apache-2.0
// The registration's device on CUDA: memory, errors, loading of the sets, the table of operations.
// All work goes to one stream of its own, of the lowest priority: a tracker on the same device goes
// first whenever both wait.
#include "gpu/cuda/register.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COPY_POINTS 524288u // at once, from memory that is not page-locked: 0.3 ms
#define BOX_SAMPLE  1000

static __global__ void pack_kernel(const float *x, const float *y, const float *z, uint32_t n,
                                   float4 *out)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = make_float4(x[i], y[i], z[i],
                             __fmaf_rn(x[i], x[i], __fmaf_rn(y[i], y[i], z[i] * z[i])));
}

int register_cuda_check(struct register_cuda *cuda, cudaError_t error, const char *what, int line)
{
    if (error == cudaSuccess)
        return 0;
    if (!cuda->logged_error)
        log_to(&cuda->log, LOG_LEVEL_ERROR, "cuda: register line %d: %s: %s", line, what,
               cudaGetErrorString(error));
    cuda->logged_error = error != cudaErrorMemoryAllocation;
    (void)cudaGetLastError();
    return error == cudaErrorMemoryAllocation ? -ENOMEM : -EIO;
}

int register_cuda_reserve(struct register_cuda *cuda, struct register_memory *memory, size_t bytes)
{
    if (bytes <= memory->bytes)
        return 0;
    gpu_give_way_long(&cuda->courtesy);
    if (memory->at)
        cudaFree(memory->at);
    memory->at = NULL;
    memory->bytes = 0;
    CHECK(cudaMalloc(&memory->at, bytes));
    memory->bytes = bytes;
    return 0;
}

static int cuda_anneal(void *device, const struct register_anneal *anneal,
                       struct register_run *runs, uint32_t n_runs, const struct register_stop *stop)
{
    struct register_cuda *cuda = (struct register_cuda *)device;
    int rc = register_stopped(stop);
    if (rc < 0)
        return rc;
    CHECK(cudaSetDevice(cuda->index));
    if (anneal->form == REGISTER_FORM_DENSE)
        return register_cuda_anneal_dense(cuda, anneal, runs, stop);
    return register_cuda_anneal_streaming(cuda, anneal, runs, n_runs, stop);
}

static int upload(struct register_cuda *cuda, const float *const axes[3], uint32_t n,
                  struct register_memory *out)
{
    int rc = register_cuda_reserve(cuda, &cuda->staging, 3 * (size_t)n * sizeof(float));
    if (rc == 0)
        rc = register_cuda_reserve(cuda, out, n * sizeof(float4));
    if (rc < 0)
        return rc;
    float *staging = (float *)cuda->staging.at;
    for (int a = 0; a < 3; a++)
        for (size_t from = 0; from < n; from += COPY_POINTS) {
            gpu_give_way(&cuda->courtesy);
            const size_t n_here = n - from < COPY_POINTS ? n - from : COPY_POINTS;
            CHECK(cudaMemcpyAsync(staging + (size_t)a * n + from, axes[a] + from,
                                  n_here * sizeof(float), cudaMemcpyHostToDevice, cuda->stream));
        }
    pack_kernel<<<(n + 255) / 256, 256, 0, cuda->stream>>>(
        staging, staging + n, staging + 2 * (size_t)n, n, (float4 *)out->at);
    CHECK(cudaGetLastError());
    return 0;
}

// Sixteen minima side by side, so that the loop becomes vector instructions; fminf would be a call.
static float least_of(const float *values, size_t n, float sign)
{
    float least[16];
    size_t whole = n / 16 * 16;
    for (int k = 0; k < 16; k++)
        least[k] = sign * values[0];
    for (size_t i = 0; i < whole; i += 16)
        for (size_t k = 0; k < 16; k++) {
            float v = sign * values[i + k];
            least[k] = v < least[k] ? v : least[k];
        }
    for (size_t i = whole; i < n; i++)
        least[0] = sign * values[i] < least[0] ? sign * values[i] : least[0];
    for (int k = 1; k < 16; k++)
        least[0] = least[k] < least[0] ? least[k] : least[0];
    return least[0];
}

static int compare_floats(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

// From the first to the last hundredth of a sample, and half as much again: a few far points do not
// make it wide.
static void box_along(struct register_cuda *cuda, int axis, const float *values, size_t n)
{
    float sample[BOX_SAMPLE];
    const size_t n_sample = n < BOX_SAMPLE ? n : BOX_SAMPLE;
    for (size_t i = 0; i < n_sample; i++)
        sample[i] = values[i * n / n_sample];
    qsort(sample, n_sample, sizeof *sample, compare_floats);
    const float first = sample[n_sample / 100], last = sample[n_sample - 1 - n_sample / 100];
    const float margin = (last - first) / 4;
    cuda->box_low[axis] = fmaxf(cuda->low[axis], first - margin);
    cuda->box_high[axis] = fminf(cuda->high[axis], last + margin);
}

static float farthest_of(const float *const axes[3], size_t n)
{
    float most[16] = {0};
    for (size_t i = 0; i < n; i += 16)
        for (size_t k = 0; k < 16 && i + k < n; k++) {
            float x = axes[0][i + k], y = axes[1][i + k], z = axes[2][i + k];
            float r2 = x * x + y * y + z * z;
            most[k] = r2 > most[k] ? r2 : most[k];
        }
    for (int k = 1; k < 16; k++)
        most[0] = most[k] > most[0] ? most[k] : most[0];
    return sqrtf(most[0]);
}

static int cuda_load(void *device, enum register_side side, const struct point_set *points)
{
    struct register_cuda *cuda = (struct register_cuda *)device;
    CHECK(cudaSetDevice(cuda->index));
    const float *const axes[3] = {points->x_m, points->y_m, points->z_m};
    const float *const normals[3] = {points->nx, points->ny, points->nz};
    cuda->n[side] = (uint32_t)points->n_points;
    int rc = upload(cuda, axes, cuda->n[side], &cuda->points[side]);
    cuda->reach[side] = (double)farthest_of(axes, points->n_points);
    if (side == REGISTER_TARGET) {
        for (int a = 0; a < 3; a++) {
            cuda->low[a] = least_of(axes[a], points->n_points, 1);
            cuda->high[a] = -least_of(axes[a], points->n_points, -1);
            box_along(cuda, a, axes[a], points->n_points);
        }
        if (rc == 0 && points->nx)
            rc = upload(cuda, normals, cuda->n[side], &cuda->normals[side]);
    }
    return rc;
}

static void cuda_close(void *device)
{
    struct register_cuda *cuda = (struct register_cuda *)device;
    if (!cuda)
        return;
    cudaSetDevice(cuda->index);
    struct register_memory *const memories[] = {
        &cuda->points[0], &cuda->points[1], &cuda->normals[0], &cuda->normals[1],
        &cuda->staging,   &cuda->scratch,   &cuda->runs,       &cuda->grid};
    register_cuda_dense_close(cuda);
    for (size_t i = 0; i < sizeof memories / sizeof memories[0]; i++)
        if (memories[i]->at) {
            gpu_give_way_long(&cuda->courtesy);
            cudaFree(memories[i]->at);
        }
    if (cuda->host_runs)
        cudaFreeHost(cuda->host_runs);
    if (cuda->stream)
        cudaStreamDestroy(cuda->stream);
    free(cuda);
}

// The wanted device, or the first that answers. A machine without one is no error: no log line.
static int choose_device(int wanted, int *out_index)
{
    int n_devices = 0;
    if (cudaGetDeviceCount(&n_devices) != cudaSuccess)
        n_devices = 0;
    for (int i = 0; i < n_devices; i++)
        if ((wanted < 0 || wanted == i) && cudaSetDevice(i) == cudaSuccess &&
            cudaFree(0) == cudaSuccess) {
            *out_index = i;
            return 0;
        }
    (void)cudaGetLastError();
    return -ENODEV;
}

static int open_device(struct register_cuda *cuda, uint32_t slice_us)
{
    struct cudaDeviceProp properties;
    int khz = 0, least = 0, greatest = 0;
    CHECK(cudaGetDeviceProperties(&properties, cuda->index));
    CHECK(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, cuda->index));
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CHECK(cudaStreamCreateWithPriority(&cuda->stream, cudaStreamNonBlocking, least));
    cuda->n_sms = properties.multiProcessorCount;
    cuda->shared_bytes = properties.sharedMemPerBlockOptin;
    if (slice_us == 0)
        slice_us = cuda->courtesy.give_way ? REGISTER_SHARED_SLICE_US : REGISTER_SLICE_US;
    cuda->slice_clocks = (long long)slice_us * khz / 1000;
    snprintf(cuda->name, sizeof cuda->name, "cuda: %.90s, %d SMs", properties.name, cuda->n_sms);
    return properties.cooperativeLaunch ? register_cuda_anneal_open(cuda) : -ENODEV;
}

static int cuda_open(void **out_device, const struct register_config *config)
{
    int index;
    if (choose_device(config->cuda_device, &index) < 0)
        return -ENODEV;
    struct register_cuda *cuda = (struct register_cuda *)calloc(1, sizeof *cuda);
    if (!cuda)
        return -ENOMEM;
    cuda->index = index;
    cuda->log = config->log;
    cuda->courtesy = config->courtesy;
    int rc = open_device(cuda, config->slice_us);
    if (rc < 0) {
        cuda_close(cuda);
        return rc;
    }
    *out_device = cuda;
    return 0;
}

static void cuda_describe(const void *device, char *out, size_t size)
{
    snprintf(out, size, "%s", ((const struct register_cuda *)device)->name);
}

// Room grows and never shrinks: what is held is the most.
static size_t cuda_memory_bytes(const void *device)
{
    const struct register_cuda *cuda = (const struct register_cuda *)device;
    return cuda->points[0].bytes + cuda->points[1].bytes + cuda->normals[0].bytes +
           cuda->normals[1].bytes + cuda->staging.bytes + cuda->scratch.bytes + cuda->runs.bytes +
           cuda->grid.bytes;
}

extern "C" const struct register_ops register_cuda_ops = {
    GPU_BACKEND_CUDA,      cuda_open,         cuda_close, cuda_describe, cuda_load, cuda_anneal,
    register_cuda_nearest, cuda_memory_bytes,
};

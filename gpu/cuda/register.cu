// SPDX-License-Identifier: Apache-2.0
// The registration's device on CUDA: memory, errors, the table of operations.
// All work goes to one stream of its own, of the lowest priority: a tracker on the same device goes
// first whenever both wait.
#include "gpu/cuda/register.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

// Page-locked: the copies to the device then need no copy of the driver's before.
static int cuda_take_host(void *device, size_t bytes, void **out)
{
    struct register_cuda *cuda = (struct register_cuda *)device;
    gpu_give_way_long(&cuda->courtesy);
    CHECK(cudaSetDevice(cuda->index));
    CHECK(cudaHostAlloc(out, bytes, cudaHostAllocPortable));
    return 0;
}

static void cuda_give_host(void *device, void *memory)
{
    struct register_cuda *cuda = (struct register_cuda *)device;
    if (!memory)
        return;
    cudaSetDevice(cuda->index);
    cudaStreamSynchronize(cuda->stream); // a copy from it may be under way
    gpu_give_way_long(&cuda->courtesy);
    cudaFreeHost(memory);
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
    snprintf(cuda->name, sizeof cuda->name, "cuda: %.90s, %d multiprocessors", properties.name,
             cuda->n_sms);
    return properties.cooperativeLaunch ? register_cuda_anneal_open(cuda) : -ENODEV;
}

static int cuda_open(void **out_device, const struct register_config *config, struct pool *pool)
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
    cuda->pool = pool;
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
    GPU_BACKEND_CUDA,      cuda_open,          cuda_close,
    cuda_describe,         register_cuda_load, cuda_anneal,
    register_cuda_nearest, cuda_memory_bytes,  cuda_take_host,
    cuda_give_host,
};

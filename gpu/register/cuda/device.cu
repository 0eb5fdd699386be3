// SPDX-License-Identifier: Apache-2.0
// The registration's device on CUDA: memory, errors, the table of operations.
// All work goes to one stream of its own, of the lowest priority: a tracker on the same device goes
// first whenever both wait.
#include "gpu/register/cuda/device.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int anneal_runs(void *device, const struct register_anneal *anneal,
                       struct register_run *runs, uint32_t n_runs, const struct register_stop *stop)
{
    struct register_cuda *cuda = (struct register_cuda *)device;
    int rc = register_stopped(stop);
    if (rc < 0)
        return rc;
    CUDA_OR_RETURN(&cuda->dev, cudaSetDevice(cuda->dev.index));
    if (anneal->form == REGISTER_FORM_DENSE)
        return register_cuda_anneal_dense(cuda, anneal, runs, stop);
    return register_cuda_anneal_streaming(cuda, anneal, runs, n_runs, stop);
}

// Page-locked: the copies to the device then need no copy of the driver's before.
static int take_host(void *device, size_t bytes, void **out)
{
    struct register_cuda *cuda = (struct register_cuda *)device;
    yield_long(&cuda->dev.yield);
    CUDA_OR_RETURN(&cuda->dev, cudaSetDevice(cuda->dev.index));
    CUDA_OR_RETURN(&cuda->dev, cudaHostAlloc(out, bytes, cudaHostAllocPortable));
    return 0;
}

static void give_host(void *device, void *memory)
{
    struct register_cuda *cuda = (struct register_cuda *)device;
    if (!memory)
        return;
    cudaSetDevice(cuda->dev.index);
    cudaStreamSynchronize(cuda->dev.stream); // a copy from it may be under way
    yield_long(&cuda->dev.yield);
    cudaFreeHost(memory);
}

static void close_device(void *device)
{
    struct register_cuda *cuda = (struct register_cuda *)device;
    if (!cuda)
        return;
    cudaSetDevice(cuda->dev.index);
    struct cuda_memory *const memories[] = {&cuda->points[0],  &cuda->points[1], &cuda->normals[0],
                                            &cuda->normals[1], &cuda->staging,   &cuda->scratch,
                                            &cuda->runs,       &cuda->grid};
    register_cuda_dense_close(cuda);
    for (struct cuda_memory *memory : memories)
        cuda_shrink(&cuda->dev, memory);
    if (cuda->host_runs)
        cudaFreeHost(cuda->host_runs);
    register_cuda_surfaces_close(&cuda->dev, &cuda->surfaces);
    cuda_close(&cuda->dev);
    free(cuda);
}

static const char *refuse(const struct cudaDeviceProp *properties)
{
    return properties->cooperativeLaunch ? NULL : "registration needs cooperative launches";
}

static int open_device(void **out_device, const struct register_config *config, struct pool *pool)
{
    struct register_cuda *cuda = (struct register_cuda *)calloc(1, sizeof *cuda);
    if (!cuda)
        return -ENOMEM;
    const struct cuda_settings settings = {
        .room = "registration",
        .device = config->cuda_device,
        .priority = CUDA_PRIORITY_REQUESTS,
        .refuse = refuse,
        .log = config->log,
        .yield = config->yield,
    };
    cuda->pool = pool;
    int rc = cuda_open(&cuda->dev, &settings);
    if (rc == 0) {
        uint32_t slice_us = config->slice_us;
        if (slice_us == 0)
            slice_us = config->yield.wait ? REGISTER_SHARED_SLICE_US : REGISTER_SLICE_US;
        cuda->slice_clocks = (long long)slice_us * cuda->dev.clock_khz / 1000;
        rc = register_cuda_anneal_open(cuda);
    }
    if (rc < 0) {
        close_device(cuda);
        return rc;
    }
    *out_device = cuda;
    return 0;
}

static void describe(const void *device, char *out, size_t size)
{
    const struct register_cuda *cuda = (const struct register_cuda *)device;
    snprintf(out, size, "cuda: %s, %d multiprocessors", cuda->dev.name, cuda->dev.n_sms);
}

// Room grows and never shrinks: what is held is the most.
static size_t memory_bytes(const void *device)
{
    const struct register_cuda *cuda = (const struct register_cuda *)device;
    return cuda->points[0].bytes + cuda->points[1].bytes + cuda->normals[0].bytes +
           cuda->normals[1].bytes + cuda->staging.bytes + cuda->scratch.bytes + cuda->runs.bytes +
           cuda->grid.bytes + register_cuda_surfaces_bytes(&cuda->surfaces);
}

extern "C" const struct register_ops register_cuda_ops = {
    GPU_BACKEND_CUDA,   open_device,         close_device,          describe,
    register_cuda_load, anneal_runs,         register_cuda_nearest, register_cuda_surfaces,
    register_cuda_gicp, register_cuda_fetch, memory_bytes,          take_host,
    give_host,
};

// SPDX-License-Identifier: Apache-2.0
#include "gpu/base/cuda.cuh"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int cuda_check(struct cuda_dev *cuda, cudaError_t error, const char *expression, const char *file,
               int line)
{
    if (error == cudaSuccess)
        return 0;
    const bool no_memory = error == cudaErrorMemoryAllocation;
    if (!cuda->logged_error)
        log_to(&cuda->log, LOG_LEVEL_ERROR, "cuda, %s: %s:%d: %s: %s (%s)", cuda->room, file, line,
               expression, cudaGetErrorString(error), cudaGetErrorName(error));
    cuda->logged_error = !no_memory; // a later request may be smaller
    (void)cudaGetLastError();
    return no_memory ? -ENOMEM : -EIO;
}

int cuda_enter(struct cuda_dev *cuda)
{
    return CUDA_TRY(cuda, cudaSetDevice(cuda->index));
}

// Why device `index` is not to be had for this room, or NULL: it is current then. `message` is room
// for the driver's words.
static const char *try_device(const struct cuda_settings *settings, int index,
                              struct cudaDeviceProp *out_properties)
{
    cudaError_t error = cudaSetDevice(index);
    if (error == cudaSuccess)
        error = cudaFree(0); // makes the context: only now a device that is lost says so
    if (error == cudaSuccess)
        error = cudaGetDeviceProperties(out_properties, index);
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
        return cudaGetErrorString(error);
    }
    return settings->refuse ? settings->refuse(out_properties) : NULL;
}

static int choose_device(const struct cuda_settings *settings,
                         struct cudaDeviceProp *out_properties, int *out_index)
{
    int n_devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&n_devices);
    if (error != cudaSuccess || n_devices == 0) {
        (void)cudaGetLastError();
        log_to(&settings->log, LOG_LEVEL_INFO, "cuda, %s: no device answers: %s", settings->room,
               error == cudaSuccess ? "there is none" : cudaGetErrorString(error));
        return -ENODEV;
    }
    const int wanted =
        settings->device < -1 ? (-2 - settings->device) % n_devices : settings->device;
    if (wanted >= n_devices) {
        log_to(&settings->log, LOG_LEVEL_INFO,
               "cuda, %s: there is no device %d among the %d of this machine", settings->room,
               wanted, n_devices);
        return -ENODEV;
    }
    const int first = wanted < 0 ? 0 : wanted;
    const int end = wanted < 0 ? n_devices : first + 1;
    for (int i = first; i < end; i++) {
        const char *why = try_device(settings, i, out_properties);
        if (!why) {
            *out_index = i;
            return 0;
        }
        log_to(&settings->log, LOG_LEVEL_INFO, "cuda, %s: device %d is not taken: %s",
               settings->room, i, why);
    }
    return -ENODEV;
}

int cuda_open(struct cuda_dev *out, const struct cuda_settings *settings)
{
    memset(out, 0, sizeof *out);
    out->log = settings->log;
    out->yield = settings->yield;
    out->room = settings->room;
    struct cudaDeviceProp properties;
    int rc = choose_device(settings, &properties, &out->index);
    if (rc < 0)
        return rc;
    snprintf(out->name, sizeof out->name, "%.90s", properties.name);
    out->n_sms = properties.multiProcessorCount;
    out->shared_bytes = properties.sharedMemPerBlockOptin;
    int least = 0, greatest = 0;
    CUDA_OR_RETURN(out, cudaDeviceGetAttribute(&out->clock_khz, cudaDevAttrClockRate, out->index));
    CUDA_OR_RETURN(out, cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CUDA_OR_RETURN(out, cudaStreamCreateWithPriority(
                            &out->stream, cudaStreamNonBlocking,
                            settings->priority == CUDA_PRIORITY_FRAMES ? greatest : least));
    return 0;
}

void cuda_close(struct cuda_dev *cuda)
{
    if (!cuda->stream)
        return;
    cudaStreamSynchronize(cuda->stream);
    cudaStreamDestroy(cuda->stream);
    cuda->stream = NULL;
    (void)cudaGetLastError(); // a broken device also fails to free; nothing is left to do about it
}

void cuda_shrink(struct cuda_dev *cuda, struct cuda_memory *memory)
{
    if (!memory->at)
        return;
    yield_long(&cuda->yield);
    cudaFree(memory->at);
    *memory = (struct cuda_memory){};
}

void cuda_shrink_host(struct cuda_dev *cuda, struct cuda_memory *memory)
{
    if (!memory->at)
        return;
    yield_long(&cuda->yield);
    cudaFreeHost(memory->at);
    *memory = (struct cuda_memory){};
}

int cuda_grow(struct cuda_dev *cuda, struct cuda_memory *memory, size_t bytes)
{
    if (bytes <= memory->bytes)
        return 0;
    cuda_shrink(cuda, memory);
    yield_long(&cuda->yield);
    CUDA_OR_RETURN(cuda, cudaMalloc(&memory->at, bytes));
    memory->bytes = bytes;
    return 0;
}

int cuda_grow_host(struct cuda_dev *cuda, struct cuda_memory *memory, size_t bytes)
{
    if (bytes <= memory->bytes)
        return 0;
    cuda_shrink_host(cuda, memory);
    yield_long(&cuda->yield);
    CUDA_OR_RETURN(cuda, cudaHostAlloc(&memory->at, bytes, cudaHostAllocPortable));
    memory->bytes = bytes;
    return 0;
}

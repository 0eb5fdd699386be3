// SPDX-License-Identifier: Apache-2.0
// The CUDA twin's device: memory, errors, and the table of operations. All work goes to one stream
// of its own; the default stream is never used (tests/check_streams).
#include "gpu/cuda/device.cuh"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

extern "C" {
#include "proto/se3.h"
}

int cuda_check(struct cuda_device *device, cudaError_t error, const char *expression,
               const char *file, int line)
{
    if (error == cudaSuccess)
        return 0;
    if (!device->logged_error)
        log_to(&device->log, LOG_LEVEL_ERROR, "cuda: %s:%d: %s: %s (%s)", file, line, expression,
               cudaGetErrorString(error), cudaGetErrorName(error));
    device->logged_error = true;
    (void)cudaGetLastError();
    return error == cudaErrorMemoryAllocation ? -ENOMEM : -EIO;
}

// Non-temporal: a frame that stays dirty in the processor's cache costs the device 6 to 10 us of
// snooping when it reads it.
static void copy_streaming(uint16_t *to, const uint16_t *from, size_t bytes)
{
#if defined(__SSE2__)
    size_t n = bytes / sizeof(__m128i);
    for (size_t i = 0; i < n; i++)
        _mm_stream_si128((__m128i *)to + i, _mm_loadu_si128((const __m128i *)from + i));
    memcpy((char *)to + 16 * n, (const char *)from + 16 * n, bytes - 16 * n);
    _mm_sfence();
#else
    memcpy(to, from, bytes);
#endif
}

// Lies in memory of gpu_host_alloc or in registered memory: the device can read it itself.
static bool is_pinned(struct cuda_device *device, const uint16_t *depth)
{
    const char *begin = (const char *)depth;
    for (int i = 0; i < device->n_ranges; i++) {
        int index = (device->newest_range + i) % device->n_ranges;
        const struct cuda_host_range *r = &device->ranges[index];
        if (begin >= r->begin && begin + device->raw_bytes <= r->begin + r->bytes) {
            device->newest_range = index;
            return (uintptr_t)depth % 16 == 0;
        }
    }
    return false;
}

// The frame where the device can read it.
static const uint16_t *depth_pinned(struct cuda_device *device, const uint16_t *depth)
{
    if (is_pinned(device, depth))
        return depth;
    const struct intrinsics *c = &device->gpu.settings.camera;
    size_t bytes = (size_t)c->width_px * c->height_px * sizeof *depth;
    copy_streaming(device->staging, depth, bytes);
    return device->staging;
}

static void cuda_close(struct gpu *gpu)
{
    struct cuda_device *device = (struct cuda_device *)gpu;
    if (device->stream)
        cudaStreamSynchronize(device->stream);
    if (device->path)
        device->path->close(device);

    cudaFreeHost(device->staging);
    if (device->stream)
        cudaStreamDestroy(device->stream);
    (void)cudaGetLastError(); // a broken device also fails to free; nothing is left to do about it
    free(device);
}

static void filter_fill(struct cuda_filter *filter, const struct gpu_settings *s)
{
    int radius_px = (int)s->bilateral_radius_px;
    filter->m_per_unit = (float)(1.0 / s->units_per_m);
    filter->depth_min_m = s->depth_min_m;
    filter->depth_max_m = s->depth_max_m;
    filter->cut_sigmas = s->bilateral_cut_sigmas;
    filter->radius_px = radius_px;
    for (int dy = 0; dy <= radius_px; dy++)
        for (int dx = 0; dx <= radius_px; dx++)
            filter->spatial[dy * FILTER_QUADRANT + dx] =
                bilateral_spatial_root(dx, dy, s->bilateral_sigma_px);
}

// The wanted device, or the first that answers. What these calls say is no error: there are
// machines without a device.
static int device_choose(const struct gpu_settings *settings, int *out_device)
{
    int n_devices = 0, wanted = settings->cuda_device;
    cudaError_t error = cudaGetDeviceCount(&n_devices);
    if (error == cudaSuccess && wanted >= n_devices) {
        log_to(&settings->log, LOG_LEVEL_INFO, "cuda: there is no device %d among the %d here",
               wanted, n_devices);
        return -ENODEV;
    }
    for (int i = wanted < 0 ? 0 : wanted; i < n_devices; i++) {
        error = cudaSetDevice(i);
        if (error == cudaSuccess)
            error = cudaFree(0);
        if (error == cudaSuccess) {
            *out_device = i;
            return 0;
        }
        if (wanted >= 0)
            break;
    }
    (void)cudaGetLastError();
    log_to(&settings->log, LOG_LEVEL_INFO, "cuda: no device answers: %s",
           error == cudaSuccess ? "there is none" : cudaGetErrorString(error));
    return -ENODEV;
}

// The fused path unless the environment variable POSED_CUDA_PATH says plain (for tests and timing)
// or the device cannot run it.
static int path_open(struct cuda_device *device)
{
    const char *asked = getenv("POSED_CUDA_PATH");
    if (!asked || strcmp(asked, "plain") != 0) {
        int rc = cuda_path_fused.open(device);
        if (rc == 0)
            device->path = &cuda_path_fused;
        if (rc != -ENOTSUP)
            return rc;
    }
    int rc = cuda_path_plain.open(device);
    if (rc == 0)
        device->path = &cuda_path_plain;
    return rc;
}

static int cuda_open(struct gpu **out, const struct gpu_settings *settings)
{
    int index = 0;
    int rc = device_choose(settings, &index);
    if (rc < 0)
        return rc;
    struct cuda_device *device = (struct cuda_device *)calloc(1, sizeof *device);
    if (!device)
        return -ENOMEM;
    device->gpu.settings = *settings;
    device->log = settings->log;
    device->device = index;
    for (uint32_t level = 0; level < GPU_LEVELS; level++)
        device->cameras[level] = camera_level(&settings->camera, level);
    filter_fill(&device->filter, settings);
    size_t bytes =
        (size_t)settings->camera.width_px * settings->camera.height_px * sizeof(uint16_t);
    device->raw_bytes = (bytes + 15) / 16 * 16;

    struct cudaDeviceProp properties;
    int khz = 0;
    rc = CUDA_TRY(device, cudaGetDeviceProperties(&properties, index));
    if (rc == 0)
        rc = CUDA_TRY(device, cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, index));
    // Before the launches of a registration or a search that wait for the same multiprocessors.
    int least, greatest = 0;
    if (rc == 0)
        rc = CUDA_TRY(device, cudaDeviceGetStreamPriorityRange(&least, &greatest));
    if (rc == 0)
        rc = CUDA_TRY(
            device, cudaStreamCreateWithPriority(&device->stream, cudaStreamNonBlocking, greatest));

    if (rc == 0)
        rc = CUDA_TRY(device, cudaHostAlloc((void **)&device->staging, device->raw_bytes,
                                            cudaHostAllocMapped | cudaHostAllocPortable));
    if (rc == 0) {
        memset(device->staging, 0, device->raw_bytes);
        device->n_sms = properties.multiProcessorCount;
        device->us_per_cycle = khz > 0 ? 1e3f / (float)khz : 0.0f;
        rc = path_open(device);
    }
    if (rc < 0) {
        cuda_close(&device->gpu);
        return rc;
    }
    snprintf(device->gpu.description, sizeof device->gpu.description,
             "cuda: %.80s, %d multiprocessors, %s", properties.name, device->n_sms,
             device->path->name);
    *out = &device->gpu;
    return 0;
}

// Frames beyond the last range are copied, as if they were not pinned.
static void range_add(struct cuda_device *device, const void *memory, size_t bytes)
{
    struct cuda_host_range range = {(const char *)memory, bytes};
    if (device->n_ranges < CUDA_MAX_HOST_RANGES)
        device->ranges[device->n_ranges++] = range;
}

static bool range_remove(struct cuda_device *device, const void *memory)
{
    for (int i = 0; i < device->n_ranges; i++)
        if (device->ranges[i].begin == memory) {
            // The newest launch may read there; whatever lies there next is another frame.
            cudaStreamSynchronize(device->stream);
            device->next_depth = device->prepared_depth = NULL;
            device->ranges[i] = device->ranges[--device->n_ranges];
            return true;
        }
    return false;
}

static void *cuda_host_alloc(struct gpu *gpu, size_t bytes)
{
    struct cuda_device *device = (struct cuda_device *)gpu;
    void *memory = NULL;
    size_t rounded = (bytes + 15) / 16 * 16; // the device reads whole 16-byte words
    if (CUDA_TRY(device, cudaSetDevice(device->device)) < 0 ||
        CUDA_TRY(device,
                 cudaHostAlloc(&memory, rounded, cudaHostAllocMapped | cudaHostAllocPortable)) < 0)
        return NULL;
    range_add(device, memory, rounded);
    return memory;
}

static void cuda_host_free(struct gpu *gpu, void *memory, size_t bytes)
{
    struct cuda_device *device = (struct cuda_device *)gpu;
    (void)bytes;
    range_remove(device, memory);
    cudaFreeHost(memory);
}

// Page-locked for all of the process, so what an earlier device has left locked (its context was
// broken) can be used again. The addresses must be the same on both sides, because frames are told
// by the host's.
static int cuda_host_register(struct gpu *gpu, void *memory, size_t bytes)
{
    struct cuda_device *device = (struct cuda_device *)gpu;
    int same_address = 0;
    int rc = CUDA_TRY(device, cudaSetDevice(device->device));
    if (rc == 0)
        rc = CUDA_TRY(device, cudaDeviceGetAttribute(&same_address,
                                                     cudaDevAttrCanUseHostPointerForRegisteredMem,
                                                     device->device));
    if (rc < 0)
        return -EIO;
    if (!same_address || device->n_ranges == CUDA_MAX_HOST_RANGES)
        return -ENOTSUP;
    cudaError_t error =
        cudaHostRegister(memory, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable);
    if (error == cudaErrorHostMemoryAlreadyRegistered)
        error = cudaSuccess;
    (void)cudaGetLastError();
    if (CUDA_TRY(device, error) < 0) {
        device->logged_error = false; // frames are copied instead; what fails next is news
        return -EIO;
    }
    range_add(device, memory, bytes);
    return 0;
}

static void cuda_host_unregister(struct gpu *gpu, void *memory)
{
    struct cuda_device *device = (struct cuda_device *)gpu;
    if (!range_remove(device, memory))
        return;
    cudaHostUnregister(memory);
    (void)cudaGetLastError();
}

static void cuda_frame_destroy(struct gpu *gpu, struct gpu_frame *frame)
{
    (void)gpu;
    cudaFree(frame->maps[0]);
    free(frame);
}

int cuda_maps_alloc(struct cuda_device *device, struct map_px *out_maps[GPU_LEVELS])
{
    size_t n_px[GPU_LEVELS], n_all = 0;
    for (int level = 0; level < GPU_LEVELS; level++) {
        n_px[level] =
            (size_t)device->cameras[level].width_px * (size_t)device->cameras[level].height_px;
        n_all += n_px[level];
    }
    struct map_px *maps = NULL;
    int rc = CUDA_TRY(device, cudaSetDevice(device->device));
    if (rc == 0)
        rc = CUDA_TRY(device, cudaMalloc((void **)&maps, n_all * sizeof *maps));
    if (rc == 0)
        rc = CUDA_TRY(device, cudaMemsetAsync(maps, 0, n_all * sizeof *maps, device->stream));
    if (rc == 0)
        rc = CUDA_TRY(device, cudaStreamSynchronize(device->stream));
    if (rc < 0) {
        cudaFree(maps);
        return rc;
    }
    for (int level = 0; level < GPU_LEVELS; level++) {
        out_maps[level] = maps;
        maps += n_px[level];
    }
    return 0;
}

static int cuda_frame_create(struct gpu *gpu, struct gpu_frame **out)
{
    struct cuda_device *device = (struct cuda_device *)gpu;
    struct gpu_frame *frame = (struct gpu_frame *)calloc(1, sizeof *frame);
    if (!frame)
        return -ENOMEM;
    int rc = cuda_maps_alloc(device, frame->maps);
    if (rc < 0) {
        free(frame);
        return rc;
    }
    *out = frame;
    return 0;
}

static int cuda_frame_read(struct gpu *gpu, const struct gpu_frame *frame, uint32_t level,
                           float *out)
{
    struct cuda_device *device = (struct cuda_device *)gpu;
    if (level >= GPU_LEVELS)
        return -EINVAL;
    size_t n_px =
        (size_t)device->cameras[level].width_px * (size_t)device->cameras[level].height_px;
    int rc = CUDA_TRY(device, cudaSetDevice(device->device));
    if (rc == 0)
        rc = CUDA_TRY(device, cudaMemcpyAsync(out, frame->maps[level], n_px * sizeof(struct map_px),
                                              cudaMemcpyDeviceToHost, device->stream));
    return rc < 0 ? rc : CUDA_TRY(device, cudaStreamSynchronize(device->stream));
}

static void align_fill(const struct cuda_device *device, const struct gpu_frame *frame,
                       const struct gpu_frame *reference, const struct se3 *T,
                       const struct gpu_align_settings *settings, struct cuda_align *out)
{
    (void)device;
    for (int level = 0; level < GPU_LEVELS; level++) {
        out->source[level] = frame->maps[level];
        out->target[level] = reference->maps[level];
        out->iterations[level] = (int)settings->iterations[level];
        out->converged2_m2[level] = (float)solve_stop2_m2((uint32_t)level);
        out->stop2_m2[level] = settings->early_stop ? out->converged2_m2[level] : 0.0f;
    }
    for (int i = 0; i < 9; i++)
        out->start.r[i] = (float)T->r[i];
    for (int i = 0; i < 3; i++)
        out->start.t_m[i] = (float)T->t_m[i];
    out->gates = icp_gates_first(settings->gate_distance_m, cosf(settings->gate_angle_rad));
}

static void alignment_fill(const struct cuda_result *result, const struct se3 *T_start,
                           struct gpu_alignment *out)
{
    struct se3 T;
    memset(out, 0, sizeof *out);
    for (int i = 0; i < 9; i++)
        T.r[i] = (double)result->pose.r[i];
    for (int i = 0; i < 3; i++)
        T.t_m[i] = (double)result->pose.t_m[i];
    out->solvable = result->solvable != 0;
    out->converged = result->converged != 0;
    out->T_reference_frame = out->solvable ? se3_normalized(&T) : *T_start;
    out->step_norm = sqrt((double)result->size2_m2);
    for (int level = 0; level < GPU_LEVELS; level++)
        out->n_iterations[level] = result->n_iterations[level];
    gpu_alignment_from_sums(result->sums, result->information_sums, out);
}

// Both operations and their union; `reference` NULL: prepare only, `depth` NULL: align only.
static int run(struct gpu *gpu, const uint16_t *depth, struct gpu_frame *frame,
               const struct gpu_frame *reference, const struct se3 *T_start,
               const struct gpu_align_settings *settings, struct gpu_alignment *out)
{
    struct cuda_device *device = (struct cuda_device *)gpu;
    struct cuda_align align;
    struct cuda_result result;
    int rc = CUDA_TRY(device, cudaSetDevice(device->device));
    if (rc < 0)
        return rc;
    if (reference)
        align_fill(device, frame, reference, T_start, settings, &align);
    rc = device->path->run(device, depth ? depth_pinned(device, depth) : NULL, frame,
                           reference ? &align : NULL, &result);
    if (rc < 0)
        return rc;
    if (depth)
        memcpy(frame->stage_us, result.stage_us, sizeof frame->stage_us);
    if (reference) {
        alignment_fill(&result, T_start, out);
        memcpy(out->stage_us, frame->stage_us, sizeof out->stage_us);
        out->stage_us[GPU_STAGE_ALIGN] = result.stage_us[GPU_STAGE_ALIGN];
    }
    return 0;
}

static int cuda_prepare(struct gpu *gpu, const uint16_t *depth, struct gpu_frame *out_frame)
{
    return run(gpu, depth, out_frame, NULL, NULL, NULL, NULL);
}

static int cuda_align_frame(struct gpu *gpu, const struct gpu_frame *frame,
                            const struct gpu_frame *reference, const struct se3 *T_reference_frame,
                            const struct gpu_align_settings *settings, struct gpu_alignment *out)
{
    struct gpu_frame source = *frame; // its stage times stay unchanged
    return run(gpu, NULL, &source, reference, T_reference_frame, settings, out);
}

// A number from the kernel's description of the device's PCI slot, 0 when there is none.
static double slot_number(const char *bus_id, const char *name)
{
    char path[128];
    double value = 0;
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/%s", bus_id, name);
    for (char *c = path; *c; c++)
        *c = *c >= 'A' && *c <= 'F' ? (char)(*c - 'A' + 'a') : *c;
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    if (fscanf(file, "%lf", &value) != 1)
        value = 0;
    fclose(file);
    return value;
}

// From what the device says of itself. Of the bus 128 of 130 bits are payload; the memory sends at
// both edges of its clock; a multiprocessor starts 128 operations a clock.
static void cuda_limits(const struct gpu *gpu, struct gpu_limits *out)
{
    const struct cuda_device *device = (const struct cuda_device *)gpu;
    int memory_khz = 0, memory_bits = 0, khz = 0;
    char bus_id[32] = "";
    if (cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, device->device) == cudaSuccess)
        out->upload_bytes_per_s = slot_number(bus_id, "max_link_speed") * 1e9 *
                                  slot_number(bus_id, "max_link_width") / 8 * 128 / 130;
    if (cudaDeviceGetAttribute(&memory_khz, cudaDevAttrMemoryClockRate, device->device) ==
            cudaSuccess &&
        cudaDeviceGetAttribute(&memory_bits, cudaDevAttrGlobalMemoryBusWidth, device->device) ==
            cudaSuccess)
        out->memory_bytes_per_s = 2e3 * memory_khz * memory_bits / 8;
    if (cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, device->device) == cudaSuccess)
        out->operations_per_s = 1e3 * khz * 128 * device->n_sms;
    (void)cudaGetLastError();
}

static void cuda_prefetch(struct gpu *gpu, const uint16_t *depth)
{
    struct cuda_device *device = (struct cuda_device *)gpu;
    device->next_depth = is_pinned(device, depth) ? depth : NULL;
}

// A launch that does nothing; an error will come again with the frame.
static void cuda_wake(struct gpu *gpu)
{
    struct cuda_device *device = (struct cuda_device *)gpu;
    struct gpu_frame none = {};
    struct cuda_result result;
    if (CUDA_TRY(device, cudaSetDevice(device->device)) == 0)
        (void)device->path->run(device, NULL, &none, NULL, &result);
}

static int cuda_prepare_align(struct gpu *gpu, const uint16_t *depth, struct gpu_frame *out_frame,
                              const struct gpu_frame *reference,
                              const struct se3 *T_reference_frame,
                              const struct gpu_align_settings *settings, struct gpu_alignment *out)
{
    return run(gpu, depth, out_frame, reference, T_reference_frame, settings, out);
}

extern "C" const struct gpu_ops gpu_cuda_ops = {
    .open = cuda_open,
    .close = cuda_close,
    .host_alloc = cuda_host_alloc,
    .host_free = cuda_host_free,
    .host_register = cuda_host_register,
    .host_unregister = cuda_host_unregister,
    .wake = cuda_wake,
    .limits = cuda_limits,
    .frame_create = cuda_frame_create,
    .frame_destroy = cuda_frame_destroy,
    .prepare = cuda_prepare,
    .align = cuda_align_frame,
    .prepare_align = cuda_prepare_align,
    .prefetch = cuda_prefetch,
    .frame_read = cuda_frame_read,
};

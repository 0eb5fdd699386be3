// SPDX-License-Identifier: Apache-2.0
// The CUDA twin's device: memory and the table of operations.
#include "gpu/track/cuda/device.cuh"

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

static void close_device(struct gpu *gpu)
{
    struct cuda_device *device = (struct cuda_device *)gpu;
    if (device->dev.stream)
        cudaStreamSynchronize(device->dev.stream);
    if (device->path)
        device->path->close(device);
    cudaFreeHost(device->staging);
    cudaFree((void *)device->filter.field_per_m);
    cuda_close(&device->dev);
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

static int field_upload(struct cuda_device *device, const float *field_per_m)
{
    const struct intrinsics *c = &device->gpu.settings.camera;
    const size_t bytes = (size_t)c->width_px * c->height_px * sizeof *field_per_m;
    float *copy = NULL;
    int rc = CUDA_TRY(&device->dev, cudaMalloc((void **)&copy, bytes));
    device->filter.field_per_m = copy;
    if (rc == 0)
        rc = CUDA_TRY(&device->dev, cudaMemcpyAsync(copy, field_per_m, bytes,
                                                    cudaMemcpyHostToDevice, device->dev.stream));
    if (rc == 0)
        rc = CUDA_TRY(&device->dev, cudaStreamSynchronize(device->dev.stream));
    return rc;
}

// The fused path unless the settings say plain or the device cannot run it.
static int path_open(struct cuda_device *device)
{
    if (device->gpu.settings.path != GPU_PATH_PLAIN) {
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

static int open_device(struct gpu **out, const struct gpu_settings *settings)
{
    struct cuda_device *device = (struct cuda_device *)calloc(1, sizeof *device);
    if (!device)
        return -ENOMEM;
    device->gpu.settings = *settings;
    for (uint32_t level = 0; level < GPU_LEVELS; level++)
        device->cameras[level] = camera_level(&settings->camera, level);
    filter_fill(&device->filter, settings);
    size_t bytes =
        (size_t)settings->camera.width_px * settings->camera.height_px * sizeof(uint16_t);
    device->raw_bytes = (bytes + 15) / 16 * 16;

    const struct cuda_settings choice = {
        .room = "tracking",
        .device = settings->cuda_device,
        .priority = CUDA_PRIORITY_FRAMES,
        .refuse = NULL,
        .log = settings->log,
        .yield = {NULL, NULL},
    };
    int rc = cuda_open(&device->dev, &choice);
    if (rc == 0)
        rc = CUDA_TRY(&device->dev, cudaHostAlloc((void **)&device->staging, device->raw_bytes,
                                                  cudaHostAllocMapped | cudaHostAllocPortable));
    if (rc == 0 && settings->field_per_m)
        rc = field_upload(device, settings->field_per_m);
    if (rc == 0) {
        memset(device->staging, 0, device->raw_bytes);
        device->us_per_cycle =
            device->dev.clock_khz > 0 ? 1e3f / (float)device->dev.clock_khz : 0.0f;
        rc = path_open(device);
    }
    if (rc < 0) {
        close_device(&device->gpu);
        return rc;
    }
    snprintf(device->gpu.description, sizeof device->gpu.description,
             "cuda: %.80s, %d multiprocessors, %s", device->dev.name, device->dev.n_sms,
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
            cudaStreamSynchronize(device->dev.stream);
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
    if (CUDA_TRY(&device->dev, cudaSetDevice(device->dev.index)) < 0 ||
        CUDA_TRY(&device->dev,
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
    int rc = CUDA_TRY(&device->dev, cudaSetDevice(device->dev.index));
    if (rc == 0)
        rc = CUDA_TRY(&device->dev, cudaDeviceGetAttribute(
                                        &same_address, cudaDevAttrCanUseHostPointerForRegisteredMem,
                                        device->dev.index));
    if (rc < 0)
        return -EIO;
    if (!same_address || device->n_ranges == CUDA_MAX_HOST_RANGES)
        return -ENOTSUP;
    cudaError_t error =
        cudaHostRegister(memory, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable);
    if (error == cudaErrorHostMemoryAlreadyRegistered)
        error = cudaSuccess;
    (void)cudaGetLastError();
    if (CUDA_TRY(&device->dev, error) < 0) {
        device->dev.logged_error = false; // frames are copied instead; what fails next is news
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
    int rc = CUDA_TRY(&device->dev, cudaSetDevice(device->dev.index));
    if (rc == 0)
        rc = CUDA_TRY(&device->dev, cudaMalloc((void **)&maps, n_all * sizeof *maps));
    if (rc == 0)
        rc = CUDA_TRY(&device->dev,
                      cudaMemsetAsync(maps, 0, n_all * sizeof *maps, device->dev.stream));
    if (rc == 0)
        rc = CUDA_TRY(&device->dev, cudaStreamSynchronize(device->dev.stream));
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
    int rc = CUDA_TRY(&device->dev, cudaSetDevice(device->dev.index));
    if (rc == 0)
        rc = CUDA_TRY(&device->dev,
                      cudaMemcpyAsync(out, frame->maps[level], n_px * sizeof(struct map_px),
                                      cudaMemcpyDeviceToHost, device->dev.stream));
    return rc < 0 ? rc : CUDA_TRY(&device->dev, cudaStreamSynchronize(device->dev.stream));
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
    int rc = CUDA_TRY(&device->dev, cudaSetDevice(device->dev.index));
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
    if (cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, device->dev.index) == cudaSuccess)
        out->upload_bytes_per_s = slot_number(bus_id, "max_link_speed") * 1e9 *
                                  slot_number(bus_id, "max_link_width") / 8 * 128 / 130;
    if (cudaDeviceGetAttribute(&memory_khz, cudaDevAttrMemoryClockRate, device->dev.index) ==
            cudaSuccess &&
        cudaDeviceGetAttribute(&memory_bits, cudaDevAttrGlobalMemoryBusWidth, device->dev.index) ==
            cudaSuccess)
        out->memory_bytes_per_s = 2e3 * memory_khz * memory_bits / 8;
    if (cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, device->dev.index) == cudaSuccess)
        out->operations_per_s = 1e3 * khz * 128 * device->dev.n_sms;
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
    if (CUDA_TRY(&device->dev, cudaSetDevice(device->dev.index)) == 0)
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
    .open = open_device,
    .close = close_device,
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

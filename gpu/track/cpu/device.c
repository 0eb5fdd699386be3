// SPDX-License-Identifier: Apache-2.0
// The CPU twin's device: memory, threads, and the table of operations.
#include "gpu/track/cpu/device.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct rows *rows_supported(enum gpu_isa isa)
{
#if defined(__x86_64__)
    if (isa == GPU_ISA_AVX512 && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        return &rows_avx512;
    if (isa == GPU_ISA_AVX2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &rows_avx2;
#endif
    return isa == GPU_ISA_BASELINE ? &rows_baseline : NULL;
}

static const struct rows *rows_choose(enum gpu_isa asked)
{
    const enum gpu_isa order[] = {asked, GPU_ISA_AVX512, GPU_ISA_AVX2, GPU_ISA_BASELINE};
    const struct rows *rows = NULL;
    for (size_t i = 0; !rows && i < sizeof order / sizeof *order; i++)
        rows = rows_supported(order[i]);
    return rows;
}

static void *cpu_alloc(size_t bytes)
{
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static int padded_create(struct padded_image *out, uint32_t width_px, uint32_t height_px)
{
    out->stride_px = (width_px + 2 * ROWS_PAD_PX + 15) / 16 * 16;
    size_t bytes = (size_t)out->stride_px * (height_px + 2 * ROWS_PAD_PX) * sizeof *out->data;
    out->data = cpu_alloc(bytes);
    if (!out->data)
        return -ENOMEM;
    memset(out->data, 0, bytes);
    return 0;
}

static void source_destroy(struct icp_source *source)
{
    free(source->data);
    free(source->n_px);
}

static int source_create(struct icp_source *out, const struct level_camera *camera)
{
    size_t height_px = (size_t)camera->height_px;
    out->stride_px = ((uint32_t)camera->width_px + LANES - 1) / LANES * LANES;
    out->data = cpu_alloc(ICP_N_NUMBERS * out->stride_px * height_px * sizeof *out->data);
    out->n_px = calloc(height_px, sizeof *out->n_px);
    return out->data && out->n_px ? 0 : -ENOMEM;
}

static void bilateral_window_fill(struct bilateral_window *window, const struct gpu_settings *s)
{
    int radius_px = (int)s->bilateral_radius_px;
    window->radius_px = s->bilateral_radius_px;
    window->cut_sigmas = s->bilateral_cut_sigmas;
    for (int dy = -radius_px; dy <= radius_px; dy++)
        for (int dx = -radius_px; dx <= radius_px; dx++)
            window->spatial[dy + radius_px][dx + radius_px] =
                bilateral_spatial_root(dx, dy, s->bilateral_sigma_px);
}

static void cpu_close(struct gpu *gpu)
{
    struct cpu_device *device = (struct cpu_device *)gpu;
    pool_destroy(&device->pool);
    for (int level = 0; level < GPU_LEVELS; level++)
        source_destroy(&device->sources[level]);
    free(device->chunk_sums);
    free(device->filtered_m.data);
    free(device->raw_m.data);
    free(device->field_per_m);
    free(device);
}

static int cpu_open(struct gpu **out, const struct gpu_settings *settings)
{
    struct cpu_device *device = calloc(1, sizeof *device);
    if (!device)
        return -ENOMEM;
    uint32_t w = settings->camera.width_px, h = settings->camera.height_px;
    for (uint32_t level = 0; level < GPU_LEVELS; level++)
        device->cameras[level] = camera_level(&settings->camera, level);
    bilateral_window_fill(&device->window, settings);
    device->rows = rows_choose(settings->isa);

    device->chunk_sums = cpu_alloc(cpu_n_chunks((int32_t)h) * sizeof *device->chunk_sums);
    int rc = device->chunk_sums ? 0 : -ENOMEM;
    if (rc == 0)
        rc = padded_create(&device->raw_m, w, h);
    if (rc == 0 && settings->field_per_m) {
        const size_t bytes = (size_t)w * h * sizeof *device->field_per_m;
        device->field_per_m = cpu_alloc(bytes);
        if (device->field_per_m)
            memcpy(device->field_per_m, settings->field_per_m, bytes);
        rc = device->field_per_m ? 0 : -ENOMEM;
    }
    if (rc == 0)
        rc = padded_create(&device->filtered_m, w, h);
    for (int level = 0; rc == 0 && level < GPU_LEVELS; level++)
        rc = source_create(&device->sources[level], &device->cameras[level]);
    if (rc == 0)
        rc = pool_create(&device->pool, settings->n_threads);
    if (rc < 0) {
        log_to(&settings->log, LOG_LEVEL_ERROR, "cpu: no memory or no threads: %s", strerror(-rc));
        cpu_close(&device->gpu);
        return rc;
    }
    snprintf(device->gpu.description, sizeof device->gpu.description, "cpu: %u threads, %s",
             pool_n_threads(device->pool), device->rows->name);
    *out = &device->gpu;
    return 0;
}

static void *cpu_host_alloc(struct gpu *gpu, size_t bytes)
{
    (void)gpu;
    return cpu_alloc(bytes);
}

static void cpu_host_free(struct gpu *gpu, void *memory, size_t bytes)
{
    (void)gpu;
    (void)bytes;
    free(memory);
}

static void cpu_frame_destroy(struct gpu *gpu, struct gpu_frame *frame)
{
    (void)gpu;
    for (int level = 0; level < GPU_LEVELS; level++)
        free(frame->maps[level]);
    free(frame);
}

static int cpu_frame_create(struct gpu *gpu, struct gpu_frame **out)
{
    const struct cpu_device *device = (const struct cpu_device *)gpu;
    struct gpu_frame *frame = calloc(1, sizeof *frame);
    if (!frame)
        return -ENOMEM;
    for (int level = 0; level < GPU_LEVELS; level++) {
        const struct level_camera *c = &device->cameras[level];
        size_t bytes = (size_t)c->width_px * (size_t)c->height_px * sizeof *frame->maps[level];
        frame->maps[level] = cpu_alloc(bytes);
        if (!frame->maps[level]) {
            cpu_frame_destroy(gpu, frame);
            return -ENOMEM;
        }
        memset(frame->maps[level], 0, bytes);
    }
    *out = frame;
    return 0;
}

static int cpu_frame_read(struct gpu *gpu, const struct gpu_frame *frame, uint32_t level,
                          float *out)
{
    const struct cpu_device *device = (const struct cpu_device *)gpu;
    if (level >= GPU_LEVELS)
        return -EINVAL;
    const struct level_camera *c = &device->cameras[level];
    memcpy(out, frame->maps[level],
           (size_t)c->width_px * (size_t)c->height_px * sizeof *frame->maps[level]);
    return 0;
}

const struct gpu_ops gpu_cpu_ops = {
    .open = cpu_open,
    .close = cpu_close,
    .host_alloc = cpu_host_alloc,
    .host_free = cpu_host_free,
    .frame_create = cpu_frame_create,
    .frame_destroy = cpu_frame_destroy,
    .prepare = cpu_prepare,
    .align = cpu_align,
    .frame_read = cpu_frame_read,
};

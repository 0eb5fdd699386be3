// SPDX-License-Identifier: Apache-2.0
// Raw depth to packed maps of three levels: metres, bilateral filter, normals. Each pass needs its
// neighbours' rows of the one before, hence three loops over the threads.
#include "gpu/track/cpu/device.h"

#include "proto/clock.h"

struct prepare_job {
    struct cpu_device *device;
    const uint16_t *depth;
    struct gpu_frame *frame;
};

static void chunk_depth(void *context, uint32_t chunk)
{
    const struct prepare_job *job = context;
    struct cpu_device *device = job->device;
    const struct gpu_settings *s = &device->gpu.settings;
    int32_t w = device->cameras[0].width_px, h = device->cameras[0].height_px;
    int32_t first = (int32_t)chunk * CPU_CHUNK_ROWS;
    for (int32_t y = first; y < first + CPU_CHUNK_ROWS && y < h; y++) {
        device->rows->depth(job->depth + (size_t)y * (size_t)w, (uint32_t)w,
                            (float)(1.0 / s->units_per_m), s->depth_min_m, s->depth_max_m,
                            padded_row(&device->raw_m, y));
        if (device->field_per_m)
            device->rows->correct(device->field_per_m + (size_t)y * (size_t)w, (uint32_t)w,
                                  padded_row(&device->raw_m, y));
    }
}

static void chunk_filter(void *context, uint32_t chunk)
{
    const struct prepare_job *job = context;
    struct cpu_device *device = job->device;
    int32_t w = device->cameras[0].width_px, h = device->cameras[0].height_px;
    int32_t first = (int32_t)chunk * CPU_CHUNK_ROWS;
    for (int32_t y = first; y < first + CPU_CHUNK_ROWS && y < h; y++)
        device->rows->bilateral(&device->window, &device->raw_m, (uint32_t)w, y,
                                padded_row(&device->filtered_m, y));
}

// The chunks of the three levels one after another.
static void chunk_maps(void *context, uint32_t chunk)
{
    const struct prepare_job *job = context;
    struct cpu_device *device = job->device;
    uint32_t level = cpu_level_of_chunk(device, &chunk);
    const struct level_camera *camera = &device->cameras[level];
    int32_t first = (int32_t)chunk * CPU_CHUNK_ROWS;
    for (int32_t y = first; y < first + CPU_CHUNK_ROWS && y < camera->height_px; y++)
        device->rows->maps(camera, &device->filtered_m, level, y,
                           job->frame->maps[level] + (size_t)y * (size_t)camera->width_px);
}

void cpu_maps(struct cpu_device *device, struct gpu_frame *out_frame)
{
    struct prepare_job job = {device, NULL, out_frame};
    pool_run(device->pool, chunk_maps, &job, cpu_n_chunks_of_levels(device));
}

int cpu_prepare(struct gpu *gpu, const uint16_t *depth, struct gpu_frame *out_frame)
{
    struct cpu_device *device = (struct cpu_device *)gpu;
    struct prepare_job job = {device, depth, out_frame};
    uint32_t n_chunks = cpu_n_chunks(device->cameras[0].height_px);

    int64_t t0 = clock_monotonic_ns();
    pool_run(device->pool, chunk_depth, &job, n_chunks);
    int64_t t1 = clock_monotonic_ns();
    pool_run(device->pool, chunk_filter, &job, n_chunks);
    int64_t t2 = clock_monotonic_ns();
    cpu_maps(device, out_frame);
    int64_t t3 = clock_monotonic_ns();

    out_frame->stage_us[GPU_STAGE_UPLOAD] = (float)(t1 - t0) * 1e-3f;
    out_frame->stage_us[GPU_STAGE_FILTER] = (float)(t2 - t1) * 1e-3f;
    out_frame->stage_us[GPU_STAGE_MAPS] = (float)(t3 - t2) * 1e-3f;
    return 0;
}

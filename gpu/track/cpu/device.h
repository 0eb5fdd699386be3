// SPDX-License-Identifier: Apache-2.0
// What the operations of the CPU twin share: the device, its threads, its frames.
#ifndef POSED_GPU_TRACK_CPU_DEVICE_H
#define POSED_GPU_TRACK_CPU_DEVICE_H

#include "gpu/backend.h"
#include "gpu/base/pool.h"
#include "gpu/track/cpu/rows.h"

// Rows per chunk of work, the unit of the fixed summation order.
#define CPU_CHUNK_ROWS 8

struct cpu_device {
    struct gpu gpu; // first
    struct pool *pool;
    const struct rows *rows;
    struct level_camera cameras[GPU_LEVELS];
    struct bilateral_window window;
    float *field_per_m;                    // the sensor's own error, NULL = none
    struct padded_image raw_m, filtered_m; // scratch of prepare
    struct icp_source sources[GPU_LEVELS]; // scratch of align
    float (*chunk_sums)[ICP_N_SUMS];       // one row per chunk of the full resolution
};

static inline uint32_t cpu_n_chunks(int32_t height_px)
{
    return ((uint32_t)height_px + CPU_CHUNK_ROWS - 1) / CPU_CHUNK_ROWS;
}

// The chunks of all levels, counted level by level from the finest.
static inline uint32_t cpu_n_chunks_of_levels(const struct cpu_device *device)
{
    uint32_t n = 0;
    for (int level = 0; level < GPU_LEVELS; level++)
        n += cpu_n_chunks(device->cameras[level].height_px);
    return n;
}

// The level of a chunk so counted; *chunk becomes its number within the level.
static inline uint32_t cpu_level_of_chunk(const struct cpu_device *device, uint32_t *chunk)
{
    uint32_t level = 0;
    while (*chunk >= cpu_n_chunks(device->cameras[level].height_px))
        *chunk -= cpu_n_chunks(device->cameras[level++].height_px);
    return level;
}

struct gpu_frame {
    struct map_px *maps[GPU_LEVELS];
    float stage_us[GPU_N_STAGES]; // of the prepare that filled it
};

// Maps of all levels from device->filtered_m.
void cpu_maps(struct cpu_device *device, struct gpu_frame *out_frame);

int cpu_prepare(struct gpu *gpu, const uint16_t *depth, struct gpu_frame *out_frame);
int cpu_align(struct gpu *gpu, const struct gpu_frame *frame, const struct gpu_frame *reference,
              const struct se3 *T_reference_frame, const struct gpu_align_settings *settings,
              struct gpu_alignment *out);

#endif

// SPDX-License-Identifier: Apache-2.0
// The CPU twin's loops over one image row, compiled once per instruction set (rows.c) and chosen at
// run time. Everything that is per pixel is here; everything that is per frame is not.
//
// Rows of one level are independent: any thread may run any row.
#ifndef POSED_GPU_TRACK_CPU_ROWS_H
#define POSED_GPU_TRACK_CPU_ROWS_H

#include "gpu/base/lanes.h"
#include "gpu/track/kernels/bilateral.h"
#include "gpu/track/kernels/icp.h"

#define ROWS_MAX_WIDTH_PX 4096
#define ROWS_PAD_PX       16 // zeros before and after each row of a padded image, >= the radius

// One depth image with a frame of zeros, so that windows need no bounds test. Row y begins at
// data + (y + ROWS_PAD_PX) * stride + ROWS_PAD_PX.
struct padded_image {
    float *data;
    uint32_t stride_px;
};

static inline float *padded_row(const struct padded_image *image, int32_t y)
{
    return image->data + (size_t)(y + ROWS_PAD_PX) * image->stride_px + ROWS_PAD_PX;
}

struct bilateral_window {
    uint32_t radius_px;
    float cut_sigmas;
    float spatial[BILATERAL_WINDOW]
                 [BILATERAL_WINDOW]; // [dy + radius][dx + radius], roots of weights
};

// What the iterations read of a frame's level: the pixels of a row that have depth and normal,
// each number in an array of its own. Real cameras leave a third of the pixels without. Behind
// them pixels of nothing (all 0), which form no pair, fill up to a whole number of lanes.
enum icp_number {
    ICP_X_M, // of the vertex; its y is the row's ray times z
    ICP_Z_M,
    ICP_NX,
    ICP_NY,
    ICP_NZ,
    ICP_PRECISION, // icp_precision
    ICP_N_NUMBERS,
};

struct icp_source {
    float *data;        // a row's arrays stand together, the number's own array `stride_px` long
    uint32_t stride_px; // a multiple of LANES
    uint32_t *n_px;     // of each row
};

static inline float *icp_source_row(const struct icp_source *source, int32_t y,
                                    enum icp_number number)
{
    return source->data + ((size_t)y * ICP_N_NUMBERS + number) * source->stride_px;
}

struct icp_problem {
    struct level_camera camera;
    struct icp_pose pose;
    struct icp_gates gates;
    const struct icp_source *source;
    const struct map_px *target; // width x height of the level
    bool information;            // sum what the scene holds instead of the normal equations
};

struct rows {
    const char *name; // "AVX-512"
    void (*depth)(const uint16_t *raw, uint32_t width_px, float m_per_unit, float depth_min_m,
                  float depth_max_m, float *out_z_m);
    void (*correct)(const float *field_per_m, uint32_t width_px, float *z_m); // in place
    void (*bilateral)(const struct bilateral_window *window, const struct padded_image *depth,
                      uint32_t width_px, int32_t y, float *out_z_m);
    // z: filtered depth of the whole image; the level samples every (1 << level)-th pixel of it.
    void (*maps)(const struct level_camera *camera, const struct padded_image *z, uint32_t level,
                 int32_t y, struct map_px *out);
    // Row y of a level's maps as the iterations read it.
    void (*source)(const struct level_camera *camera, const struct map_px *row, int32_t y,
                   struct icp_source *out);
    // Adds row y to the sums, each in lanes (gpu/base/lanes.h), aligned to 64 bytes.
    void (*icp)(const struct icp_problem *problem, int32_t y, float (*sums)[LANES]);
};

extern const struct rows rows_baseline;
#if defined(__x86_64__)
extern const struct rows rows_avx2, rows_avx512;
#endif

#endif

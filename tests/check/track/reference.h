// SPDX-License-Identifier: Apache-2.0
// The tracker's stages once more: straightforward loops, double precision, nothing shared with
// gpu/track/kernels but the named constants and struct map_px. Written from the formulas' sources,
// so that a slip in a shared formula shows too.
//
// Where rounding alone decides (a depth on the limit, a point on the border of two pixels) either
// outcome is right; the reference says where that is instead of guessing.
#ifndef POSED_TESTS_CHECK_TRACK_REFERENCE_H
#define POSED_TESTS_CHECK_TRACK_REFERENCE_H

#include "gpu/gpu.h"
#include "gpu/track/kernels/icp.h"

struct reference_px {
    double n[3]; // 0: no normal
    double z_m;  // 0: no depth
    bool undecided;
};

struct reference_level {
    double fx_px, fy_px, cx_px, cy_px;
    int width_px, height_px;
    double widening; // of the distance gate; above 1 the biweight is off too
};

struct reference_level reference_camera(const struct gpu_settings *settings, int level);

// Depth conversion and bilateral filter of the full image. out[i].n stays 0.
void reference_filter(const struct gpu_settings *settings, const uint16_t *depth,
                      struct reference_px *out);

// Normals of one level from the filtered depth z_m of the full image (the backend's own, so that
// this stage is checked by itself).
void reference_maps(const struct gpu_settings *settings, int level, const float *z_m,
                    size_t z_stride, struct reference_px *out);

// What one iteration sums over the pairs of a level, in the order of enum icp_sum.
struct reference_sums {
    double value[ICP_N_SUMS];
    double magnitude[ICP_N_SUMS]; // sum of |term|: what rounding errors are relative to
    double undecided[ICP_N_SUMS]; // what undecided associations and gates may change
};

// The robust part of an iteration, from the sums of the one before.
struct reference_scale {
    bool known; // false: first iteration, sensor weights alone
    double scale_m;
    bool information; // sum the information pass (gpu.h) instead of the normal equations
};

void reference_icp(const struct gpu_settings *settings, const struct gpu_align_settings *align,
                   int level, const struct map_px *source, const struct map_px *target,
                   const struct se3 *T_reference_frame, const struct reference_scale *scale,
                   struct reference_sums *out);

// All iterations of all levels. `sums`: of the last iteration, as gpu_align reports them.
void reference_align(const struct gpu_settings *settings, const struct gpu_align_settings *align,
                     const struct map_px *const source[GPU_LEVELS],
                     const struct map_px *const target[GPU_LEVELS],
                     const struct se3 *T_reference_frame, struct gpu_alignment *out,
                     struct reference_sums *out_sums);

#endif

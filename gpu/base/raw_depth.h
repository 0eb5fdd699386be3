// SPDX-License-Identifier: Apache-2.0
// What a raw pixel says: whether it is a measurement in the range gpu.depth_min_m .. depth_max_m,
// its depth in metres, and that without the sensor's own error.
#ifndef POSED_GPU_BASE_RAW_DEPTH_H
#define POSED_GPU_BASE_RAW_DEPTH_H

#include "gpu/base/kernel.h"
#include "proto/types.h"

// Raw depth to metres; 0 where there is no measurement or it is out of range.
KERNEL_FN float raw_depth_m(uint32_t raw, float m_per_unit, float depth_min_m, float depth_max_m)
{
    float z_m = (float)raw * m_per_unit;
    bool valid = (raw != DEPTH_INVALID_ZERO) & (raw != DEPTH_INVALID_MAX) & (z_m >= depth_min_m) &
                 (z_m <= depth_max_m);
    return valid ? z_m : 0.0f;
}

// The same with the sensor's own error taken out: what it measures is the inverse depth, which is
// field_per_m too small at this pixel. No measurement stays none.
KERNEL_FN float raw_depth_corrected_m(float z_m, float field_per_m)
{
    return z_m / kernel_fma(field_per_m, z_m, 1.0f);
}

#endif

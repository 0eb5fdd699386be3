// SPDX-License-Identifier: Apache-2.0
// How much a depth sensor's measurement is off.
#ifndef POSED_GPU_BASE_DEPTH_NOISE_H
#define POSED_GPU_BASE_DEPTH_NOISE_H

#include "gpu/base/kernel.h"

// Axial noise (one sigma) of a structured-light depth camera: Nguyen, Izadi, Lovell 2012, eq. 3,
// without its grazing-angle term: 1.2 mm at 0.4 m, growing with the square of the distance.
#define NOISE_SIGMA_LEAST_M 0.0012f
#define NOISE_SIGMA_PER_M   0.0019f

// The same law with a sensor's own two numbers (gpu/align; a laser scanner has per_m = 0).
// fused: see kernel_fma.
KERNEL_FN float noise_sigma_of(float least_m, float per_m, float z_m, bool fused)
{
    float d_m = z_m - 0.4f, slope = per_m * d_m;
    return fused ? kernel_fma(slope, d_m, least_m) : slope * d_m + least_m;
}

KERNEL_FN float noise_sigma(float z_m, bool fused)
{
    return noise_sigma_of(NOISE_SIGMA_LEAST_M, NOISE_SIGMA_PER_M, z_m, fused);
}

KERNEL_FN float noise_sigma_m(float z_m)
{
    return noise_sigma(z_m, true);
}

#endif

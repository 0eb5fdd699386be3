// SPDX-License-Identifier: Apache-2.0
// How much a depth sensor's measurement is off.
#ifndef POSED_GPU_BASE_DEPTH_NOISE_H
#define POSED_GPU_BASE_DEPTH_NOISE_H

#include "gpu/base/kernel.h"

// Axial noise (one sigma) of a structured-light depth camera: Nguyen, Izadi, Lovell 2012, eq. 3,
// without its grazing-angle term: 1.2 mm at 0.4 m, growing with the square of the distance.
#define NOISE_SIGMA_LEAST_M 0.0012f
#define NOISE_SIGMA_PER_M   0.0019f

// fused: see kernel_fma.
KERNEL_FN float noise_sigma(float z_m, bool fused)
{
    float d_m = z_m - 0.4f, slope = NOISE_SIGMA_PER_M * d_m;
    return fused ? kernel_fma(slope, d_m, NOISE_SIGMA_LEAST_M) : slope * d_m + NOISE_SIGMA_LEAST_M;
}

KERNEL_FN float noise_sigma_m(float z_m)
{
    return noise_sigma(z_m, true);
}

#endif

// SPDX-License-Identifier: Apache-2.0
// The bilateral filter, one tap at a time: z' = z + sum w (z_k - z) / sum w over the valid pixels
// of a (2r+1)^2 window, w = exp(-d_px^2 / 2 sigma_px^2) * b((z_k - z) / cut(z)).
//
// The range kernel is the biweight b(x) = (1 - x^2)^2 for |x| < 1, else 0, with cut(z) a multiple
// of the sensor's noise at that distance. Near 0 it is the Gaussian exp(-2 x^2), i.e. one of sigma
// cut / 2; rejected was the Gaussian itself: the exponential is what limits the filter on both
// twins (GPU: 16 a clock and multiprocessor), and its tail lets the far side of a depth edge in.
// A fixed range sigma as in KinectFusion (30 mm) smears near detail and keeps far noise.
#ifndef POSED_GPU_TRACK_KERNELS_BILATERAL_H
#define POSED_GPU_TRACK_KERNELS_BILATERAL_H

#include "gpu/base/depth_noise.h"

#define BILATERAL_MAX_RADIUS_PX 6
#define BILATERAL_WINDOW        (2 * BILATERAL_MAX_RADIUS_PX + 1)

// The root of a neighbour's spatial weight, dx, dy pixels away; computed once, in double, for both
// twins.
static inline float bilateral_spatial_root(int dx_px, int dy_px, float sigma_px)
{
    double d2 = dx_px * dx_px + dy_px * dy_px;
    return (float)exp(-d2 / (4.0 * sigma_px * sigma_px));
}

// -1 / cut^2 of the centre pixel; cut_sigmas from gpu_settings.
KERNEL_FN float bilateral_range_factor(float z_m, float cut_sigmas)
{
    float cut_m = cut_sigmas * noise_sigma_m(z_m);
    return -1.0f / (cut_m * cut_m);
}

// Adds one neighbour. A neighbour without depth is 0 m, i.e. farther than any cut from a valid
// centre (cut(z) < z for all z that raw_depth_m lets through and cut_sigmas <= 20).
// root_factor: spatial_root * range_factor; both weights are squares, so that six operations do.
KERNEL_FN void bilateral_tap(float z_m, float neighbour_m, float spatial_root, float root_factor,
                             float *sum_w, float *sum_wd)
{
    float d_m = neighbour_m - z_m;
    float root = kernel_fma_clamped(d_m * d_m, root_factor, spatial_root);
    float w = root * root;
    *sum_w += w;
    *sum_wd = kernel_fma(w, d_m, *sum_wd);
}

KERNEL_FN float bilateral_result(float z_m, float sum_w, float sum_wd)
{
    return z_m > 0.0f ? z_m + sum_wd / sum_w : 0.0f;
}

#endif

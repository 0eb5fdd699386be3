// SPDX-License-Identifier: Apache-2.0
#include "capture/plausible.h"

#include <errno.h>
#include <math.h>

static bool focal_length_fits(double f_px, uint32_t side_px)
{
    double half_tan = 0.5 * side_px / fabs(f_px);
    return half_tan > tan(5 * M_PI / 180) && half_tan < tan(75 * M_PI / 180);
}

static bool is_central(double c_px, uint32_t side_px)
{
    double c = (c_px + 0.5) / side_px;
    return c >= 0.2 && c <= 0.8;
}

int plausible_intrinsics(const struct intrinsics *camera, const struct log_sink *log,
                         enum log_level level)
{
    const char *reason = NULL;
    double fx = camera->fx_px, fy = fabs(camera->fy_px), cx = camera->cx_px, cy = camera->cy_px;
    if (!(fx > 0) || !(fy > 0) || !isfinite(fx) || !isfinite(fy))
        reason = "focal lengths must be finite, fx above 0 and fy not 0";
    else if (!(cx >= -0.5 && cx <= camera->width_px - 0.5) ||
             !(cy >= -0.5 && cy <= camera->height_px - 0.5))
        reason = "the principal point lies outside the image";
    else if (!is_central(cx, camera->width_px) || !is_central(cy, camera->height_px))
        reason = "the principal point is far from the image's centre: a calibration for another "
                 "image size?";
    else if (!focal_length_fits(fx, camera->width_px) || !focal_length_fits(fy, camera->height_px))
        reason = "the field of view is below 10 or above 150 degrees";
    else if (fx > 2 * fy || fy > 2 * fx)
        reason = "fx and fy differ by more than a factor 2";
    if (!reason)
        return 0;
    log_to(log, level, "implausible intrinsics fx %g fy %g cx %g cy %g for %ux%u pixels: %s",
           camera->fx_px, camera->fy_px, cx, cy, camera->width_px, camera->height_px, reason);
    return -ERANGE;
}

double plausible_median_m(const struct depth_frame *frame)
{
    uint32_t counts[65536] = {0}; // 256 KiB of stack, a few times per open
    size_t n_pixels = (size_t)frame->width_px * frame->height_px;
    for (size_t i = 0; i < n_pixels; i++)
        counts[frame->depth[i]]++;
    size_t n_valid = n_pixels - counts[DEPTH_INVALID_ZERO] - counts[DEPTH_INVALID_MAX];
    if (n_valid * 100 < n_pixels)
        return NAN;
    size_t n_below = 0;
    uint32_t depth = 1;
    while (n_below + counts[depth] <= n_valid / 2)
        n_below += counts[depth++];
    return depth / frame->units_per_m;
}

int plausible_depth(double median_m, double units_per_m, const struct log_sink *log,
                    enum log_level level)
{
    if (median_m >= PLAUSIBLE_MEDIAN_MIN_M && median_m <= PLAUSIBLE_MEDIAN_MAX_M)
        return 0;
    log_to(log, level,
           "implausible depth: with %g units per metre half of the scene is nearer than %.3g m, "
           "expected %g..%g m: check the depth scale (TUM 5000, millimetres 1000)",
           units_per_m, median_m, PLAUSIBLE_MEDIAN_MIN_M, PLAUSIBLE_MEDIAN_MAX_M);
    return -ERANGE;
}

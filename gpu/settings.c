// SPDX-License-Identifier: Apache-2.0
#include "gpu/settings.h"

#include <errno.h>
#include <math.h>

#include "gpu/base/range.h"

void gpu_settings_default(struct gpu_settings *out)
{
    *out = (struct gpu_settings){
        .camera = {525, 525, 319.5, 239.5, 640, 480},
        .units_per_m = 1000,
        .depth_min_m = 0.3f,
        .depth_max_m = 8.0f,
        .bilateral_radius_px = 3,
        .bilateral_sigma_px = 4.5f,
        .bilateral_cut_sigmas = 12.0f,
        .cuda_device = -1,
        .n_sharing = 1,
    };
}

void gpu_align_settings_default(struct gpu_align_settings *out)
{
    *out = (struct gpu_align_settings){
        .iterations = {10, 5, 4},
        .early_stop = true,
        .gate_distance_m = 0.1f,
        .gate_angle_rad = 0.4363323f,
    };
}

int gpu_settings_check(const struct gpu_settings *s)
{
    const struct intrinsics *c = &s->camera;
    double w = c->width_px, h = c->height_px;
    const struct range ranges[] = {
        {"camera width [px]", w, INTRINSICS_IMAGE_PX_RANGE, false},
        {"camera height [px]", h, INTRINSICS_IMAGE_PX_RANGE, false},
        {"|camera.fx| [px]", fabs(c->fx_px), INTRINSICS_FOCAL_LENGTH_PX_RANGE, false},
        {"|camera.fy| [px]", fabs(c->fy_px), INTRINSICS_FOCAL_LENGTH_PX_RANGE, false},
        {"camera.cx [px]", c->cx_px, 0, w, false},
        {"camera.cy [px]", c->cy_px, 0, h, false},
        {"camera.depth_scale [units/m]", s->units_per_m, DEPTH_UNITS_PER_M_RANGE, false},
        {"gpu.depth_min_m", s->depth_min_m, GPU_DEPTH_MIN_M_RANGE, true},
        {"gpu.depth_max_m", s->depth_max_m, GPU_DEPTH_MAX_M_RANGE, true},
        {"gpu.bilateral_radius_px", s->bilateral_radius_px, GPU_BILATERAL_RADIUS_PX_RANGE, false},
        {"gpu.bilateral_sigma_px", s->bilateral_sigma_px, GPU_BILATERAL_SIGMA_PX_RANGE, true},
        {"gpu.bilateral_cut_sigmas", s->bilateral_cut_sigmas, GPU_BILATERAL_CUT_SIGMAS_RANGE, true},
        {"gpu.threads", s->n_threads, GPU_THREADS_RANGE, false},
        {"gpus on one device", s->n_sharing, GPU_SHARING_RANGE, false},
    };
    int rc = ranges_check(&s->log, ranges, sizeof ranges / sizeof *ranges);
    if (!rc && s->depth_min_m >= s->depth_max_m) {
        log_to(&s->log, LOG_LEVEL_ERROR,
               "gpu.depth_min_m = %.9g is not below gpu.depth_max_m = %.9g", (double)s->depth_min_m,
               (double)s->depth_max_m);
        rc = -EINVAL;
    }
    for (size_t i = 0; !rc && s->field_per_m && i < (size_t)c->width_px * c->height_px; i++) {
        double share = (double)s->field_per_m[i] * (double)s->depth_max_m;
        const struct range range = {"field [1/m] times depth_max [m]", share, -0.499, 0.499, false};
        rc = ranges_check(&s->log, &range, 1);
    }
    return rc;
}

int gpu_align_settings_check(const struct gpu_align_settings *s, const struct log_sink *log)
{
    uint32_t n_iterations = 0;
    for (int level = 0; level < GPU_LEVELS; level++)
        n_iterations += s->iterations[level];
    const struct range ranges[] = {
        {"tracker.iterations, finest level", s->iterations[0], GPU_ITERATIONS_RANGE, false},
        {"tracker.iterations, middle level", s->iterations[1], GPU_ITERATIONS_RANGE, false},
        {"tracker.iterations, coarsest level", s->iterations[2], GPU_ITERATIONS_RANGE, false},
        {"tracker.iterations, sum of the levels", n_iterations, 1, GPU_LEVELS * GPU_MAX_ITERATIONS,
         false},
        {"tracker.gate_distance_m", s->gate_distance_m, GPU_GATE_DISTANCE_M_RANGE, true},
        {"tracker.gate_angle_rad", s->gate_angle_rad, GPU_GATE_ANGLE_RAD_RANGE, true},
    };
    return ranges_check(log, ranges, sizeof ranges / sizeof *ranges);
}

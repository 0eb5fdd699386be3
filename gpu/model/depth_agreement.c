// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/depth_agreement.h"

#include <math.h>

#include "proto/se3.h"

#define AGREE_M     0.03
#define AGREE_PER_M 0.03

// Whether a point at (u, v) of the image and at z_m lies on its surface; NAN: there is none. The
// neighbours' depths count, as an edge lies between pixels.
static double lies_on(const struct intrinsics *camera, const float *image_m,
                      uint32_t floats_a_pixel, int u, int v, double z_m)
{
    const int width = (int)camera->width_px, height = (int)camera->height_px;
    float nearest_m = INFINITY, farthest_m = 0;
    if (u < 1 || v < 1 || u >= width - 1 || v >= height - 1 ||
        !(image_m[floats_a_pixel * ((size_t)v * camera->width_px + (size_t)u)] > 0))
        return NAN;
    for (int y = v - 1; y <= v + 1; y++)
        for (int x = u - 1; x <= u + 1; x++) {
            float there_m = image_m[floats_a_pixel * ((size_t)y * camera->width_px + (size_t)x)];
            if (!(there_m > 0))
                continue;
            nearest_m = fminf(nearest_m, there_m);
            farthest_m = fmaxf(farthest_m, there_m);
        }
    const double gate_m = fmax(AGREE_M, AGREE_PER_M * z_m);
    return z_m > (double)nearest_m - gate_m && z_m < (double)farthest_m + gate_m;
}

struct depth_agreement depth_agreement_of(const struct intrinsics *camera, const float *z_m,
                                          const float *other_z_m, uint32_t floats_a_pixel,
                                          const struct se3 *T_other_image)
{
    const double fx = camera->fx_px, fy = camera->fy_px, cx = camera->cx_px, cy = camera->cy_px;
    uint32_t n = 0, n_known = 0, n_agree = 0;
    for (uint32_t i = 0; i < camera->width_px * camera->height_px; i++) {
        const double z = (double)z_m[floats_a_pixel * (size_t)i];
        if (!(z > 0))
            continue;
        const double p[3] = {(i % camera->width_px - cx) / fx * z,
                             (i / camera->width_px - cy) / fy * z, z};
        double q[3];
        se3_apply(T_other_image, p, q);
        n++;
        if (!(q[2] > 0))
            continue;
        double lies =
            lies_on(camera, other_z_m, floats_a_pixel, (int)floor(q[0] / q[2] * fx + cx + 0.5),
                    (int)floor(q[1] / q[2] * fy + cy + 0.5), q[2]);
        n_known += isnan(lies) ? 0 : 1;
        n_agree += lies > 0 ? 1 : 0;
    }
    return (struct depth_agreement){n > 0 ? (double)n_known / n : 0,
                                    n_known > 0 ? (double)n_agree / n_known : 0};
}

// SPDX-License-Identifier: Apache-2.0
#include "tests/check/model/reference.h"

#include <math.h>
#include <stdlib.h>

#include "proto/se3.h"

static double noise_m(double z_m) // Nguyen, Izadi, Lovell 2012, eq. 3
{
    return 0.0012 + 0.0019 * (z_m - 0.4) * (z_m - 0.4);
}

bool reference_measure(const struct reference_frame *frame, double voxel_m, const double p_m[3],
                       double *out_distance_m, double *out_weight)
{
    const struct intrinsics *c = &frame->camera;
    struct se3 back = se3_inverse(&frame->T_map_camera);
    double q[3];
    se3_apply(&back, p_m, q);
    *out_distance_m = *out_weight = 0;
    if (fabs(q[2]) < 1e-6)
        return false;
    if (q[2] < 0)
        return true;
    double u = q[0] / q[2] * c->fx_px + c->cx_px, v = q[1] / q[2] * c->fy_px + c->cy_px;
    double iu = floor(u + 0.5), iv = floor(v + 0.5);
    bool sure = fabs(u + 0.5 - rint(u + 0.5)) > 1e-3 && fabs(v + 0.5 - rint(v + 0.5)) > 1e-3;
    if (iu < 0 || iv < 0 || iu >= c->width_px || iv >= c->height_px)
        return sure;
    const float *px = frame->map + 4 * ((size_t)iv * c->width_px + (size_t)iu);
    double n[3] = {px[0], px[1], px[2]}, z = px[3];
    double ray[3] = {(iu - c->cx_px) / c->fx_px, (iv - c->cy_px) / c->fy_px, 1};
    double along = 0, slant = 0, length2 = 0;
    for (int i = 0; i < 3; i++) {
        along += n[i] * (q[i] - ray[i] * z);
        slant += n[i] * ray[i];
        length2 += ray[i] * ray[i];
    }
    double cos2 = slant * slant / length2;
    double truncation = fmin(fmax(3 * voxel_m, 2 * noise_m(z)), 0.12);
    if (fabs(cos2 - 0.03) < 1e-5 || fabs(q[2] - z - truncation) < 1e-5)
        sure = false;
    if (!(z > 0) || cos2 < 0.03 || q[2] - z > truncation)
        return sure;
    *out_distance_m = fmax(fmin(along, truncation), -truncation);
    *out_weight = pow(0.0012 / noise_m(z), 2) * cos2;
    return sure;
}

static int by_place(const void *left, const void *right)
{
    const int64_t *a = left;
    const struct model_block *b = right;
    if (a[2] != b->z)
        return a[2] < b->z ? -1 : 1;
    if (a[1] != b->y)
        return a[1] < b->y ? -1 : 1;
    return a[0] < b->x ? -1 : a[0] > b->x;
}

const struct model_block *reference_block(const struct model_block *blocks, uint32_t n_blocks,
                                          int64_t x, int64_t y, int64_t z)
{
    const int64_t place[3] = {x, y, z};
    return n_blocks ? bsearch(place, blocks, n_blocks, sizeof *blocks, by_place) : NULL;
}

static int64_t floor_div8(int64_t i)
{
    return (i - (((i % 8) + 8) % 8)) / 8;
}

static double voxel(const struct model_block *blocks, uint32_t n_blocks, int64_t i, int64_t j,
                    int64_t k)
{
    int64_t x = floor_div8(i), y = floor_div8(j), z = floor_div8(k);
    const struct model_block *block = reference_block(blocks, n_blocks, x, y, z);
    if (!block)
        return NAN;
    int64_t at = (i - 8 * x) + 8 * (j - 8 * y) + 64 * (k - 8 * z);
    return block->weight[at] ? block->distance[at] * MODEL_UNIT_M : NAN;
}

static double trilinear(const struct model_block *blocks, uint32_t n_blocks, double voxel_m,
                        const double p_m[3])
{
    int64_t base[3];
    double f[3], sum = 0;
    for (int i = 0; i < 3; i++) {
        base[i] = (int64_t)floor(p_m[i] / voxel_m);
        f[i] = p_m[i] / voxel_m - (double)base[i];
    }
    for (int c = 0; c < 8; c++) {
        int dx = c & 1, dy = c >> 1 & 1, dz = c >> 2;
        double w = (dx ? f[0] : 1 - f[0]) * (dy ? f[1] : 1 - f[1]) * (dz ? f[2] : 1 - f[2]);
        sum += w * voxel(blocks, n_blocks, base[0] + dx, base[1] + dy, base[2] + dz);
    }
    return sum;
}

double reference_ray(const struct model_block *blocks, uint32_t n_blocks, double voxel_m,
                     const struct intrinsics *camera, const struct se3 *T_map_camera, double u,
                     double v, double z_min_m, double z_max_m)
{
    const double ray[3] = {(u - camera->cx_px) / camera->fx_px, (v - camera->cy_px) / camera->fy_px,
                           1};
    double before = NAN, step_m = 0.25 * voxel_m;
    for (double z = z_min_m; z <= z_max_m; z += step_m) {
        double q[3] = {ray[0] * z, ray[1] * z, ray[2] * z}, p[3];
        se3_apply(T_map_camera, q, p);
        double d = trilinear(blocks, n_blocks, voxel_m, p);
        if (before > 0 && d <= 0)
            return z - step_m * (d / (d - before));
        before = d;
    }
    return 0;
}

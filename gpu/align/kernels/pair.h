// SPDX-License-Identifier: Apache-2.0
// One correspondence between two range images: Oishi et al. (projective search along the view
// direction of the target, point to plane), with the sensor's noise and a robust weight.
//
// A vertex p of image i goes to q = T_j_i p, is projected through image j's range grid to the
// nearest cell, and paired with that cell's tangent plane (n, d). Residual r = n . q - d; for
// T_j_i -> exp(v, w) T_j_i its row is J = (n, q x n).
//
// The projection is a 3x4 matrix, so that one formula serves pinhole cameras and the parallel rays
// of a turntable scanner (third row 0 0 0 1). The distance gate is taken along the plane's normal:
// q and the cell lie on one ray of the target and planes seen at a grazing angle are left out
// when an image is made, so that it bounds the distance along the ray, too.
#ifndef POSED_GPU_ALIGN_KERNELS_PAIR_H
#define POSED_GPU_ALIGN_KERNELS_PAIR_H

#include "gpu/base/depth_noise.h"
#include "gpu/base/kernel.h"

// Tukey's constant in units of the scale (95 % efficiency on Gaussian residuals).
#define PAIR_TUKEY_CUT 4.685f

// What is summed over the correspondences of one direction of a pair, in this order.
enum pair_sum {
    PAIR_SUM_H = 0,    // 21: upper triangle of sum w J^T J, row by row
    PAIR_SUM_G = 21,   // 6: sum w J r
    PAIR_SUM_WEE = 27, // sum of tukey e^2, e = r / sigma
    PAIR_SUM_TW = 28,  // sum of tukey
    PAIR_SUM_ABS = 29, // sum of tukey |e|
    PAIR_SUM_N = 30,   // number of correspondences inside the gates
    PAIR_SUM_RR = 31,  // sum of tukey r^2 [m^2]
    PAIR_N_SUMS = 32,
};

struct pair_plane { // n . x = d; n = 0: no plane here
    float nx, ny, nz, d_m;
};

struct pair_pose { // T_j_i in single precision
    float r[9], t_m[3];
};

struct pair_gates {
    float distance_m; // along the plane's normal
    float cos_angle;  // normals agree: n_j . R n_i above it, without abs
    float inv_cut2;   // 1 / (PAIR_TUKEY_CUT * scale)^2, of e; 0: all weights the sensor's alone
};

// The sensor's noise at depth z: a + b (z - 0.4 m)^2 (gpu/base/depth_noise.h, which has a and b of
// structured light); a laser scanner's b is 0.
struct pair_noise {
    float a_m, b_per_m;
};

struct pair_row {
    float j[6];
    float r_m;
    float w;     // of the normal equations, tukey / sigma^2; 0: no correspondence
    float tukey; // 0: no correspondence
    float e;     // r / sigma, 0: no correspondence
    float n;     // 1 or 0
};

struct pair_vec3 {
    float x, y, z;
};

struct pair_cell {
    int32_t u, v;
    bool inside; // false: behind the camera or outside the grid; then u = v = 0
};

KERNEL_FN struct pair_vec3 pair_rotate(const struct pair_pose *T, struct pair_vec3 n)
{
    const float *r = T->r;
    struct pair_vec3 out = {kernel_fma(r[0], n.x, kernel_fma(r[1], n.y, r[2] * n.z)),
                            kernel_fma(r[3], n.x, kernel_fma(r[4], n.y, r[5] * n.z)),
                            kernel_fma(r[6], n.x, kernel_fma(r[7], n.y, r[8] * n.z))};
    return out;
}

KERNEL_FN struct pair_vec3 pair_transform(const struct pair_pose *T, struct pair_vec3 p)
{
    const float *r = T->r, *t = T->t_m;
    struct pair_vec3 out = {
        kernel_fma(r[0], p.x, kernel_fma(r[1], p.y, kernel_fma(r[2], p.z, t[0]))),
        kernel_fma(r[3], p.x, kernel_fma(r[4], p.y, kernel_fma(r[5], p.z, t[1]))),
        kernel_fma(r[6], p.x, kernel_fma(r[7], p.y, kernel_fma(r[8], p.z, t[2])))};
    return out;
}

// Nearest cell of the target's grid that q falls on; m: its 3x4 projection, row-major.
KERNEL_FN struct pair_cell pair_project(const float m[12], int32_t width, int32_t height,
                                        struct pair_vec3 q)
{
    float w = kernel_fma(m[8], q.x, kernel_fma(m[9], q.y, kernel_fma(m[10], q.z, m[11])));
    float a = kernel_fma(m[0], q.x, kernel_fma(m[1], q.y, kernel_fma(m[2], q.z, m[3])));
    float b = kernel_fma(m[4], q.x, kernel_fma(m[5], q.y, kernel_fma(m[6], q.z, m[7])));
    float inv_w = 1.0f / w;
    float u = kernel_fma(a, inv_w, 0.5f), v = kernel_fma(b, inv_w, 0.5f);
    bool inside = (w > 0.0f) & (u >= 0.0f) & (v >= 0.0f) & (u < (float)width) & (v < (float)height);
    struct pair_cell cell = {(int32_t)(inside ? u : 0.0f), (int32_t)(inside ? v : 0.0f), inside};
    return cell;
}

// 1 / sigma of a vertex at depth z of its own image.
KERNEL_FN float pair_precision(struct pair_noise noise, float z_m)
{
    return 1.0f / noise_sigma_of(noise.a_m, noise.b_per_m, z_m, true);
}

// q, n_source: the vertex in the target's frame; `inside`, `plane`: of the cell it fell on.
KERNEL_FN struct pair_row pair_residual(const struct pair_gates *gates, bool inside,
                                        struct pair_vec3 q, struct pair_vec3 n_source,
                                        float precision, struct pair_plane plane)
{
    float r_m =
        kernel_fma(plane.nx, q.x, kernel_fma(plane.ny, q.y, kernel_fma(plane.nz, q.z, -plane.d_m)));
    // A cell without plane has n = 0, whose product 0 never exceeds a positive cosine.
    float cosine =
        kernel_fma(plane.nx, n_source.x, kernel_fma(plane.ny, n_source.y, plane.nz * n_source.z));
    bool good = inside & (kernel_abs(r_m) <= gates->distance_m) & (cosine > gates->cos_angle);
    float e = good ? r_m * precision : 0.0f;
    float rest = kernel_max(kernel_fma(-e * e, gates->inv_cut2, 1.0f), 0.0f);
    float tukey = good ? rest * rest : 0.0f;
    struct pair_row row = {{plane.nx, plane.ny, plane.nz,
                            kernel_fma(q.y, plane.nz, -(q.z * plane.ny)),
                            kernel_fma(q.z, plane.nx, -(q.x * plane.nz)),
                            kernel_fma(q.x, plane.ny, -(q.y * plane.nx))},
                           good ? r_m : 0.0f,
                           tukey * (precision * precision),
                           tukey,
                           e,
                           good ? 1.0f : 0.0f};
    return row;
}

#endif

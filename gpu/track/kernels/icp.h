// SPDX-License-Identifier: Apache-2.0
// One pair of projective point-to-plane ICP: Jing, Zhao, Tai 2012, steps 2 and 3, with the gate as
// it must be (n . n' > cos, no abs).
//
// A source pixel p = z ray goes to q = R p + t in the reference's camera frame, is projected there
// to the nearest pixel, and paired with that pixel's plane (n, t'). Residual r = n . (q - t'); for
// a left increment exp(v, w) of the pose its row is J = (n, q x n).
//
// Weight = (sigma0 / sigma(z))^2 * tukey(e / cut), e = r sigma0 / sigma(z): the sensor's noise
// makes near points count for what they know (against equal weights: 14.3 instead of 21.0 mm on a
// real recording), and the biweight with a scale taken from the residuals themselves removes what
// is not the same surface, depth edges rounded by the filter above all (0.23 instead of 5.5 mm on a
// noise-free one). Rejected: Huber, whose linear tail keeps the bias of edges.
#ifndef POSED_GPU_TRACK_KERNELS_ICP_H
#define POSED_GPU_TRACK_KERNELS_ICP_H

#include "gpu/base/camera.h"
#include "gpu/base/depth_noise.h"
#include "gpu/track/kernels/normal_maps.h"

#define ICP_SIGMA0_M NOISE_SIGMA_LEAST_M // weights are at most 1

// Tukey's constant in units of the scale: 95 % efficiency on Gaussian residuals is 4.685; 6 keeps
// more of the quantised far depth at no loss of robustness.
#define ICP_TUKEY_CUT     6.0f
// The scale is the mean of |e|, each counted as at most so many scales of the iteration before.
#define ICP_WINSOR_CUT    3.0f
#define ICP_SCALE_FLOOR_M 6e-6f // noise-free input would drive the scale to 0

// What an iteration sums over the pairs, in this order.
enum icp_sum {
    ICP_SUM_H = 0,      // 21: upper triangle of sum w J^T J, row by row
    ICP_SUM_G = 21,     // 6: sum w J r
    ICP_SUM_WRR = 27,   // sum w r^2
    ICP_SUM_W = 28,     // sum w
    ICP_SUM_ABS = 29,   // sum of winsorised |e|
    ICP_SUM_PAIRS = 30, // number of pairs
    ICP_SUM_VALID = 31, // number of source pixels with depth and normal
    ICP_N_SUMS = 32,
};

struct icp_pose { // T_reference_frame in single precision
    float r[9], t_m[3];
};

// From gpu_align_settings, whose defaults stand in gpu/settings.c.
struct icp_gates {
    float distance2_m2;
    float cos_angle;
    float inv_cut2; // 1 / (ICP_TUKEY_CUT scale)^2; 0: every weight is the sensor's alone
    float cap_m;    // ICP_WINSOR_CUT scale; FLT_MAX before the first scale is known
};

struct icp_row {
    float j[6];
    float r_m;
    float w;     // 0: not a pair
    float abs_m; // winsorised |e|, 0: not a pair
    float pair;  // 1 or 0
};

// By value, not through pointers: an address taken inside a simd loop keeps it in memory.
struct icp_vec3 {
    float x, y, z;
};

struct icp_px {
    int32_t u, v;
    bool inside; // false: behind the camera or outside the image; then u = v = 0
};

KERNEL_FN struct icp_vec3 icp_rotate(const struct icp_pose *pose, struct icp_vec3 n)
{
    const float *r = pose->r;
    struct icp_vec3 out = {kernel_fma(r[0], n.x, kernel_fma(r[1], n.y, r[2] * n.z)),
                           kernel_fma(r[3], n.x, kernel_fma(r[4], n.y, r[5] * n.z)),
                           kernel_fma(r[6], n.x, kernel_fma(r[7], n.y, r[8] * n.z))};
    return out;
}

KERNEL_FN struct icp_vec3 icp_transform(const struct icp_pose *pose, struct icp_vec3 p)
{
    const float *r = pose->r, *t = pose->t_m;
    struct icp_vec3 out = {
        kernel_fma(r[0], p.x, kernel_fma(r[1], p.y, kernel_fma(r[2], p.z, t[0]))),
        kernel_fma(r[3], p.x, kernel_fma(r[4], p.y, kernel_fma(r[5], p.z, t[1]))),
        kernel_fma(r[6], p.x, kernel_fma(r[7], p.y, kernel_fma(r[8], p.z, t[2])))};
    return out;
}

// Nearest pixel of the reference that q falls on.
KERNEL_FN struct icp_px icp_project(const struct level_camera *camera, struct icp_vec3 q)
{
    float inv_z = 1.0f / q.z;
    float u = kernel_fma(q.x * inv_z, camera->fx_px, camera->cx_px) + 0.5f;
    float v = kernel_fma(q.y * inv_z, camera->fy_px, camera->cy_px) + 0.5f;
    bool inside = (q.z > 0.0f) & (u >= 0.0f) & (v >= 0.0f) & (u < (float)camera->width_px) &
                  (v < (float)camera->height_px);
    struct icp_px px = {(int32_t)(inside ? u : 0.0f), (int32_t)(inside ? v : 0.0f), inside};
    return px;
}

// The weight of a source pixel before its residual is known: sigma0 / sigma(z).
KERNEL_FN float icp_precision(float z_m)
{
    return ICP_SIGMA0_M * kernel_reciprocal_float(noise_sigma_m(z_m));
}

// q, n_source: the source pixel in the reference's frame. u, v, target: the pixel it fell on.
// `candidate`: the source has depth and normal and fell inside.
KERNEL_FN struct icp_row icp_pair(const struct level_camera *camera, const struct icp_gates *gates,
                                  bool candidate, struct icp_vec3 q, struct icp_vec3 n_source,
                                  float precision, float u_px, float v_px, struct map_px target)
{
    float dx = kernel_fma(-camera_ray_x(camera, u_px), target.z_m, q.x);
    float dy = kernel_fma(-camera_ray_y(camera, v_px), target.z_m, q.y);
    float dz = q.z - target.z_m;
    float nx = target.nx, ny = target.ny, nz = target.nz;
    float distance2 = kernel_fma(dx, dx, kernel_fma(dy, dy, dz * dz));
    // A pixel without normal has n = 0, whose product 0 never exceeds a positive cosine.
    float cosine = kernel_fma(nx, n_source.x, kernel_fma(ny, n_source.y, nz * n_source.z));
    bool pair = candidate & (distance2 <= gates->distance2_m2) & (cosine > gates->cos_angle);

    struct icp_row row;
    row.r_m = kernel_fma(nx, dx, kernel_fma(ny, dy, nz * dz));
    row.j[0] = nx;
    row.j[1] = ny;
    row.j[2] = nz;
    row.j[3] = kernel_fma(q.y, nz, -(q.z * ny));
    row.j[4] = kernel_fma(q.z, nx, -(q.x * nz));
    row.j[5] = kernel_fma(q.x, ny, -(q.y * nx));
    float e_m = row.r_m * precision;
    float tukey = kernel_fma_clamped(-(e_m * e_m), gates->inv_cut2, 1.0f);
    float root_w = precision * tukey;
    row.pair = pair ? 1.0f : 0.0f;
    row.w = pair ? root_w * root_w : 0.0f;
    row.abs_m = pair ? kernel_min(kernel_abs(e_m), gates->cap_m) : 0.0f;
    return row;
}

// The information pass (gpu.h) needs sum w (J_s^T J_t + J_t^T J_s) / 2 = sum w (m^T m - d^T d) with
// m and d half the sum and half the difference of the two rows: the machinery of H twice. Rows are
// linear in the normal, so these are the rows of (n_source + n_target) / 2 and (n_target -
// n_source) / 2; `half` is 0.5 for m, -0.5 for d.
struct icp_half {
    float j[6];
};

KERNEL_FN struct icp_half icp_half_row(struct icp_vec3 q, struct icp_vec3 n_source,
                                       struct icp_vec3 n_target, float half)
{
    float nx = kernel_fma(half, n_source.x, 0.5f * n_target.x);
    float ny = kernel_fma(half, n_source.y, 0.5f * n_target.y);
    float nz = kernel_fma(half, n_source.z, 0.5f * n_target.z);
    struct icp_half out = {{nx, ny, nz, kernel_fma(q.y, nz, -(q.z * ny)),
                            kernel_fma(q.z, nx, -(q.x * nz)), kernel_fma(q.x, ny, -(q.y * nx))}};
    return out;
}

// Gates before the first iteration of an alignment. A cosine of 90 degrees, below 0 by rounding,
// would pair pixels without normal.
KERNEL_FN struct icp_gates icp_gates_first(float distance_m, float cos_angle)
{
    struct icp_gates gates = {distance_m * distance_m, kernel_max(cos_angle, 0.0f), 0.0f,
                              3.402823466e38f};
    return gates;
}

// The gates of one level from the running ones. Coarse levels have to find the way from a start 10
// degrees off: a wall then stands half a metre from where it should, and neither the distance gate
// nor the biweight may shut it out (converged steps of 10 cm and 10 degrees: 25 % with the full
// resolution's gates, 75 % with these, 87 % with SOLVE_DAMPING as well).
KERNEL_FN struct icp_gates icp_gates_at(const struct icp_gates *running, uint32_t level)
{
    struct icp_gates gates = *running;
    if (level > 0) {
        float widening = (float)(2u << level); // 4, 8
        gates.distance2_m2 *= widening * widening;
        gates.inv_cut2 = 0.0f;
    }
    return gates;
}

// The robust scale for the next iteration from this one's sums: 1.2533 = sqrt(pi / 2) makes the
// mean of |e| a standard deviation. Unchanged when there were no pairs.
KERNEL_FN void icp_gates_update(struct icp_gates *gates, float sum_abs_m, float n_pairs)
{
    if (!(n_pairs > 0.0f))
        return;
    float scale_m =
        kernel_max(1.2533141f * sum_abs_m * kernel_reciprocal_float(n_pairs), ICP_SCALE_FLOOR_M);
    float cut_m = ICP_TUKEY_CUT * scale_m;
    gates->inv_cut2 = kernel_reciprocal_float(cut_m * cut_m);
    gates->cap_m = ICP_WINSOR_CUT * scale_m;
}

#endif

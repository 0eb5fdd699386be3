// SPDX-License-Identifier: Apache-2.0
// One source pixel's part in an ICP iteration on the device, and the sums over a warp.
//
// The rules are gpu/track/kernels/icp.h's. What differs is arithmetic that no rule depends on: the
// reciprocal of the projection is the device's approximate one (1 ulp), and the nearest pixel comes
// from adding 1.5 * 2^23 instead of a conversion, of which the device makes 16 a clock and
// multiprocessor (against 128 additions). A point within a ten-thousandth of a pixel's border may
// fall to the neighbour; tests/check bounds what that does to the pose.
#ifndef POSED_GPU_TRACK_CUDA_ICP_CUH
#define POSED_GPU_TRACK_CUDA_ICP_CUH

#include "gpu/track/cuda/device.cuh"

#define FULL_WARP   0xffffffffu
#define ROUND_MAGIC 12582912.0f // 1.5 * 2^23: adding it rounds to the nearest integer

// A source pixel as the loop wants it: constant over the iterations of a level.
struct icp_source {
    struct icp_vec3 vertex, normal; // normal 0: not a source pixel
    float precision;
};

static __device__ __forceinline__ struct icp_source icp_source_of(const struct level_camera *camera,
                                                                  int x, int y, float4 px)
{
    struct icp_source s;
    s.vertex.x = camera_ray_x(camera, (float)x) * px.w;
    s.vertex.y = camera_ray_y(camera, (float)y) * px.w;
    s.vertex.z = px.w;
    s.normal.x = px.x;
    s.normal.y = px.y;
    s.normal.z = px.z;
    s.precision = icp_precision(px.w);
    return s;
}

static __device__ __forceinline__ bool icp_source_valid(const struct icp_source *s)
{
    return (s->normal.x != 0.0f) | (s->normal.y != 0.0f) | (s->normal.z != 0.0f);
}

// What the loop needs of a source pixel while its target is on its way.
struct icp_landing {
    struct icp_vec3 q;
    float u_px, v_px; // the pixel it fell on
    bool candidate;
    float4 target;
};

// Moves a source pixel and asks for the target it falls on.
static __device__ __forceinline__ void
icp_land(const struct level_camera *camera, const struct icp_pose *pose, const struct icp_source *s,
         const float4 *__restrict__ target, struct icp_landing *out)
{
    struct icp_vec3 q = icp_transform(pose, s->vertex);
    // Not below a micrometre: nothing may become infinite, not even in what is no pair.
    float inv_z = kernel_reciprocal_float(kernel_max(q.z, 1e-6f));
    float u = kernel_fma(q.x * inv_z, camera->fx_px, camera->cx_px) + ROUND_MAGIC;
    float v = kernel_fma(q.y * inv_z, camera->fy_px, camera->cy_px) + ROUND_MAGIC;
    unsigned iu = __float_as_uint(u) - __float_as_uint(ROUND_MAGIC);
    unsigned iv = __float_as_uint(v) - __float_as_uint(ROUND_MAGIC);
    bool inside =
        (q.z > 0.0f) & (iu < (unsigned)camera->width_px) & (iv < (unsigned)camera->height_px);
    unsigned index = inside ? iv * (unsigned)camera->width_px + iu : 0;
    out->target = __ldg(target + index);
    out->q = q;
    out->u_px = u - ROUND_MAGIC;
    out->v_px = v - ROUND_MAGIC;
    out->candidate = inside; // a source without normal pairs with nothing: its cosine is 0
}

// Row I of the upper triangle, and its part of the gradient.
template <int I>
static __device__ __forceinline__ void icp_add_row(const struct icp_row *row, float *h, float *g)
{
    float wj = row->w * row->j[I];
#pragma unroll
    for (int k = I; k < 6; k++)
        h[k - I] = kernel_fma(wj, row->j[k], h[k - I]);
    g[I] = kernel_fma(wj, row->r_m, g[I]);
}

// Adds the pair to the thread's sums. ICP_SUM_VALID is the caller's: it is constant over a level.
static __device__ __forceinline__ void icp_add(const struct level_camera *camera,
                                               const struct icp_gates *gates,
                                               const struct icp_pose *pose,
                                               const struct icp_source *s,
                                               const struct icp_landing *l, float sums[ICP_N_SUMS])
{
    struct icp_vec3 n = icp_rotate(pose, s->normal);
    struct map_px target = {l->target.x, l->target.y, l->target.z, l->target.w};
    struct icp_row row =
        icp_pair(camera, gates, l->candidate, l->q, n, s->precision, l->u_px, l->v_px, target);
    icp_add_row<0>(&row, sums + ICP_SUM_H, sums + ICP_SUM_G);
    icp_add_row<1>(&row, sums + ICP_SUM_H + 6, sums + ICP_SUM_G);
    icp_add_row<2>(&row, sums + ICP_SUM_H + 11, sums + ICP_SUM_G);
    icp_add_row<3>(&row, sums + ICP_SUM_H + 15, sums + ICP_SUM_G);
    icp_add_row<4>(&row, sums + ICP_SUM_H + 18, sums + ICP_SUM_G);
    icp_add_row<5>(&row, sums + ICP_SUM_H + 20, sums + ICP_SUM_G);
    sums[ICP_SUM_WRR] = kernel_fma(row.w * row.r_m, row.r_m, sums[ICP_SUM_WRR]);
    sums[ICP_SUM_W] += row.w;
    sums[ICP_SUM_ABS] += row.abs_m;
    sums[ICP_SUM_PAIRS] += row.pair;
}

// One step of the sum below. A template: the compiler unrolls a loop before it knows that its end
// is constant in an unrolled loop around it, and an array that is indexed at run time leaves the
// registers.
template <int STEP>
static __device__ __forceinline__ void warp_transpose_step(float v[ICP_N_SUMS], unsigned lane)
{
    bool upper = (lane & STEP) != 0;
#pragma unroll
    for (int i = 0; i < STEP; i++) {
        float low = v[i], high = v[i + STEP];
        float keep = upper ? high : low, give = upper ? low : high;
        v[i] = keep + __shfl_xor_sync(FULL_WARP, give, STEP);
    }
}

// The pair's part in the information pass (gpu.h): sum w (J_s^T J_t + J_t^T J_s) / 2 in the places
// of H, and sum w.
static __device__ __forceinline__ void
icp_add_information(const struct level_camera *camera, const struct icp_gates *gates,
                    const struct icp_pose *pose, const struct icp_source *s,
                    const struct icp_landing *l, float sums[ICP_N_SUMS])
{
    struct icp_vec3 n = icp_rotate(pose, s->normal);
    struct map_px target = {l->target.x, l->target.y, l->target.z, l->target.w};
    struct icp_row row =
        icp_pair(camera, gates, l->candidate, l->q, n, s->precision, l->u_px, l->v_px, target);
    struct icp_vec3 n_target = {target.nx, target.ny, target.nz};
    float w = row.w;
#pragma unroll
    for (int side = 0; side < 2; side++) {
        struct icp_half half = icp_half_row(l->q, n, n_target, side == 0 ? 0.5f : -0.5f);
#pragma unroll
        for (int i = 0; i < 6; i++)
            row.j[i] = half.j[i];
        row.w = side == 0 ? w : -w;
        icp_add_row<0>(&row, sums + ICP_SUM_H, sums + ICP_SUM_G);
        icp_add_row<1>(&row, sums + ICP_SUM_H + 6, sums + ICP_SUM_G);
        icp_add_row<2>(&row, sums + ICP_SUM_H + 11, sums + ICP_SUM_G);
        icp_add_row<3>(&row, sums + ICP_SUM_H + 15, sums + ICP_SUM_G);
        icp_add_row<4>(&row, sums + ICP_SUM_H + 18, sums + ICP_SUM_G);
        icp_add_row<5>(&row, sums + ICP_SUM_H + 20, sums + ICP_SUM_G);
    }
    sums[ICP_SUM_W] += w;
}

// Sums 32 values over a warp so that lane i ends with the total of value i: 31 shuffles instead of
// the 160 of one butterfly a value. At each step a lane keeps the half of the values whose index
// agrees with its own bit and gives the other half away.
static __device__ __forceinline__ float warp_transpose_sum(float v[ICP_N_SUMS], unsigned lane)
{
    warp_transpose_step<16>(v, lane);
    warp_transpose_step<8>(v, lane);
    warp_transpose_step<4>(v, lane);
    warp_transpose_step<2>(v, lane);
    warp_transpose_step<1>(v, lane);
    return v[0];
}

// exp(twist) T for a left increment, single precision; the series holds below half a radian, which
// one step of an alignment does not exceed in practice.
static __device__ __forceinline__ struct icp_pose icp_pose_step(const float twist[6],
                                                                const struct icp_pose *T)
{
    const float *v = twist, *w = twist + 3;
    float s2 = w[0] * w[0] + w[1] * w[1] + w[2] * w[2];
    float a, b, c; // sin/angle, (1 - cos)/angle^2, (angle - sin)/angle^3
    if (s2 < 0.25f) {
        a = kernel_fma(s2, kernel_fma(s2, kernel_fma(s2, -1.0f / 5040, 1.0f / 120), -1.0f / 6), 1);
        b = kernel_fma(s2, kernel_fma(s2, kernel_fma(s2, -1.0f / 40320, 1.0f / 720), -1.0f / 24),
                       0.5f);
        c = kernel_fma(s2, kernel_fma(s2, kernel_fma(s2, -1.0f / 362880, 1.0f / 5040), -1.0f / 120),
                       1.0f / 6);
    } else {
        // sinpif has no slow path for huge arguments, which would need local memory.
        float angle = sqrtf(s2), half = sinpif(0.15915494f * angle);
        a = sinpif(0.31830989f * angle) / angle;
        b = 2.0f * half * half / s2;
        c = (1.0f - a) / s2;
    }
    // R = 1 + a [w] + b [w]^2 and V = 1 + b [w] + c [w]^2.
    float xy = w[0] * w[1], yz = w[1] * w[2], zx = w[2] * w[0];
    float dx = w[0] * w[0] - s2, dy = w[1] * w[1] - s2, dz = w[2] * w[2] - s2;
    float ax = a * w[0], ay = a * w[1], az = a * w[2], bx = b * w[0], by = b * w[1], bz = b * w[2];
    float r[9] = {kernel_fma(b, dx, 1.0f), kernel_fma(b, xy, -az),  kernel_fma(b, zx, ay),
                  kernel_fma(b, xy, az),   kernel_fma(b, dy, 1.0f), kernel_fma(b, yz, -ax),
                  kernel_fma(b, zx, -ay),  kernel_fma(b, yz, ax),   kernel_fma(b, dz, 1.0f)};
    float m[9] = {kernel_fma(c, dx, 1.0f), kernel_fma(c, xy, -bz),  kernel_fma(c, zx, by),
                  kernel_fma(c, xy, bz),   kernel_fma(c, dy, 1.0f), kernel_fma(c, yz, -bx),
                  kernel_fma(c, zx, -by),  kernel_fma(c, yz, bx),   kernel_fma(c, dz, 1.0f)};
    float t[3];
    struct icp_pose out;
#pragma unroll
    for (int i = 0; i < 3; i++)
        t[i] = kernel_fma(m[3 * i], v[0], kernel_fma(m[3 * i + 1], v[1], m[3 * i + 2] * v[2]));
#pragma unroll
    for (int i = 0; i < 3; i++) {
#pragma unroll
        for (int j = 0; j < 3; j++)
            out.r[3 * i + j] =
                kernel_fma(r[3 * i], T->r[j],
                           kernel_fma(r[3 * i + 1], T->r[3 + j], r[3 * i + 2] * T->r[6 + j]));
        out.t_m[i] = kernel_fma(
            r[3 * i], T->t_m[0],
            kernel_fma(r[3 * i + 1], T->t_m[1], kernel_fma(r[3 * i + 2], T->t_m[2], t[i])));
    }
    return out;
}

#endif

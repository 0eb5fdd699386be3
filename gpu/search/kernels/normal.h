// SPDX-License-Identifier: Apache-2.0
// Normals of a depth image for the pose search. A wide baseline: Kinect depth comes in steps of
// several millimetres.
#ifndef POSED_GPU_SEARCH_KERNELS_NORMAL_H
#define POSED_GPU_SEARCH_KERNELS_NORMAL_H

#include "gpu/search/kernels/pose.h"

#define SEARCH_NORMAL_PX   3
#define SEARCH_SHADOW_PX   64    // of a Kinect, thrown by a thing half a metre away on a wall
#define SEARCH_RAW_NONE    65535 // with 0: no measurement
#define SEARCH_DEPTH_MIN_M 0.1f
#define SEARCH_DEPTH_MAX_M 10.0f

// A raw depth in metres, 0 = none.
KERNEL_FN float search_depth_m(uint16_t raw, float m_per_unit)
{
    float z = raw == SEARCH_RAW_NONE ? 0.f : (float)raw * m_per_unit;
    return z < SEARCH_DEPTH_MIN_M || z > SEARCH_DEPTH_MAX_M ? 0.f : z;
}

// What lies at a pixel without measurement [m]. A projector's shadow falls on the farther of the
// two surfaces beside it; 0: nothing is measured on one side as far as a shadow reaches.
KERNEL_FN float search_behind(const float *z_m, const struct search_camera *c, int u, int v)
{
    const float *row = z_m + (size_t)v * (size_t)c->width;
    float left = 0, right = 0;
    for (int k = 1; k <= SEARCH_SHADOW_PX && u - k >= 0 && left == 0.f; k++)
        left = row[u - k];
    for (int k = 1; k <= SEARCH_SHADOW_PX && u + k < c->width && right == 0.f; k++)
        right = row[u + k];
    if (left == 0.f || right == 0.f)
        return 0;
    return left > right ? left : right;
}

// nx ny nz z of pixel (u, v); z as it is, the normal towards the camera, or 0 0 0 at the border, at
// a step and where a neighbour is missing. Without measurement: what lies there, 0, 0, 0.
KERNEL_FN void search_normal_at(const float *z_m, const struct search_camera *c, int u, int v,
                                float out[4])
{
    enum { R = SEARCH_NORMAL_PX };
    const float *p = z_m + (size_t)v * (size_t)c->width + u;
    out[0] = out[1] = out[2] = 0;
    out[3] = *p;
    if (*p == 0.f)
        out[0] = search_behind(z_m, c, u, v);
    if (*p == 0.f || u < R || v < R || u >= c->width - R || v >= c->height - R)
        return;
    const float up = p[-R * c->width], down = p[R * c->width];
    const float step = 0.02f * *p + 6 * search_sigma(*p);
    if (!(kernel_abs(p[R] - *p) < step && kernel_abs(p[-R] - *p) < step &&
          kernel_abs(up - *p) < step && kernel_abs(down - *p) < step))
        return;
    float a = ((float)u - c->cx) / c->fx, b = ((float)v - c->cy) / c->fy;
    float dzu = (p[R] - p[-R]) / (2 * R), dzv = (down - up) / (2 * R);
    // Tangents of z (a, b, 1) along u and v.
    float tu[3] = {a * dzu + *p / c->fx, b * dzu, dzu};
    float tv[3] = {a * dzv, b * dzv + *p / c->fy, dzv};
    float n[3] = {tu[1] * tv[2] - tu[2] * tv[1], tu[2] * tv[0] - tu[0] * tv[2],
                  tu[0] * tv[1] - tu[1] * tv[0]};
    float length = sqrtf(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
    if (!(length > 0))
        return;
    float sign = n[0] * a + n[1] * b + n[2] > 0 ? -1 / length : 1 / length;
    for (int k = 0; k < 3; k++)
        out[k] = n[k] * sign;
}

#endif

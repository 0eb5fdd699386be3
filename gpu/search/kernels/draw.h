// SPDX-License-Identifier: Apache-2.0
// The model drawn at the image's full resolution: where, its corners, its pixels.
#ifndef POSED_GPU_SEARCH_KERNELS_DRAW_H
#define POSED_GPU_SEARCH_KERNELS_DRAW_H

#include "gpu/search/kernels/pose.h"
#include "gpu/search/kernels/raster.h"

#define SEARCH_DRAW_BORDER_PX 6    // around the model, for what lies outside its silhouette
#define SEARCH_DRAWN_POINTS   2457 // about as many pixels take part in an ICP step at most

struct search_rectangle {
    int32_t u0, v0, width, height; // image pixels
};

// The part of the image that the model's sphere projects into, with the border.
KERNEL_FN struct search_rectangle search_rectangle_of(const struct search_camera *cam,
                                                      float radius_m, const float t_m[3])
{
    float near = t_m[2] - radius_m;
    near = near > 0.05f ? near : 0.05f;
    float ru = kernel_abs(cam->fx) * radius_m / near, rv = kernel_abs(cam->fy) * radius_m / near;
    float cu = cam->fx * t_m[0] / near + cam->cx, cu2 = cam->fx * t_m[0] / t_m[2] + cam->cx;
    float cv = cam->fy * t_m[1] / near + cam->cy, cv2 = cam->fy * t_m[1] / t_m[2] + cam->cy;
    const float border = SEARCH_DRAW_BORDER_PX, width = (float)cam->width,
                height = (float)cam->height;
    float u0 = (cu < cu2 ? cu : cu2) - ru - border, u1 = (cu < cu2 ? cu2 : cu) + ru + border;
    float v0 = (cv < cv2 ? cv : cv2) - rv - border, v1 = (cv < cv2 ? cv2 : cv) + rv + border;
    struct search_rectangle out;
    out.u0 = u0 > 0 ? (int32_t)(u0 < width ? u0 : width) : 0;
    out.v0 = v0 > 0 ? (int32_t)(v0 < height ? v0 : height) : 0;
    int32_t end_u = u1 < width ? (int32_t)(u1 > 0 ? u1 : 0) : cam->width;
    int32_t end_v = v1 < height ? (int32_t)(v1 > 0 ? v1 : 0) : cam->height;
    out.width = end_u > out.u0 ? end_u - out.u0 : 0;
    out.height = end_v > out.v0 ? end_v - out.v0 : 0;
    return out;
}

// A vertex (map pixels) in a rectangle whose principal point is (cu, cv). scaled: the rotation,
// times the size of a map pixel. The value is -1/z: linear on the image, smallest in front.
KERNEL_FN void search_draw_corner(const struct search_camera *cam, float cu, float cv,
                                  const float scaled[9], const float t_m[3], float x, float y,
                                  float z, int32_t *out_x, int32_t *out_y, float *out_value)
{
    float px = scaled[0] * x + scaled[1] * y + scaled[2] * z + t_m[0];
    float py = scaled[3] * x + scaled[4] * y + scaled[5] * z + t_m[1];
    float pz = scaled[6] * x + scaled[7] * y + scaled[8] * z + t_m[2];
    float inverse = 1 / pz;
    bool front = pz > 0.05f;
    *out_x = raster_snap(front ? cam->fx * px * inverse + cu : 1e9f);
    *out_y = raster_snap(front ? cam->fy * py * inverse + cv : 1e9f);
    *out_value = -inverse;
}

// Normal of the triangle with corners a, b, c (model frame) in the camera's frame, towards the
// camera.
KERNEL_FN void search_drawn_normal(const float a[3], const float b[3], const float c[3],
                                   const float rotation[9], const float ray[3], float out[3])
{
    float ab[3] = {b[0] - a[0], b[1] - a[1], b[2] - a[2]};
    float ac[3] = {c[0] - a[0], c[1] - a[1], c[2] - a[2]};
    float n[3] = {ab[1] * ac[2] - ab[2] * ac[1], ab[2] * ac[0] - ab[0] * ac[2],
                  ab[0] * ac[1] - ab[1] * ac[0]};
    float length = sqrtf(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
    search_turn(rotation, n, out);
    float scale = length > 0 ? 1 / length : 0;
    scale = out[0] * ray[0] + out[1] * ray[1] + out[2] * ray[2] > 0 ? -scale : scale;
    for (int k = 0; k < 3; k++)
        out[k] *= scale;
}

// Only every step-th pixel of every step-th row takes part in an ICP step.
KERNEL_FN uint32_t search_drawn_thinning(uint32_t n_drawn)
{
    uint32_t step = 1;
    while (n_drawn / (step * step) > SEARCH_DRAWN_POINTS)
        step++;
    return step;
}

// A drawn pixel as a model point. normal: in the camera's frame.
KERNEL_FN void search_drawn_point(const struct search_candidate *c, const float ray[3], float z,
                                  const float normal[3], float out_p[3], float out_n[3])
{
    float p[3] = {ray[0] * z - c->t_m[0], ray[1] * z - c->t_m[1], z - c->t_m[2]};
    search_turn_back(c->rotation, p, out_p);
    search_turn_back(c->rotation, normal, out_n);
}

#endif

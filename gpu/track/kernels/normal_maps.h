// SPDX-License-Identifier: Apache-2.0
// One pixel of the packed map: unit normal towards the camera and depth, 16 bytes.
//
// The normal is that of the surface z(u, v) through the four neighbours of the level. With
// P(u, v) = z ((u - cx) / fx, (v - cy) / fy, 1) the cross product of dP/du and dP/dv is, up to a
// factor, N = (-fx zu, -fy zv, z + (u - cx) zu + (v - cy) zv), and N . P = z^2 > 0: N points away
// from the camera for either sign of fy, so -N / |N| is the normal without any test.
#ifndef POSED_GPU_TRACK_KERNELS_NORMAL_MAPS_H
#define POSED_GPU_TRACK_KERNELS_NORMAL_MAPS_H

#include "gpu/base/camera.h"

// A neighbour belongs to the same surface when its depth differs by at most this share of z. At
// level 0 and f = 525 px that admits surfaces up to 87.8 degrees off the ray.
#define MAPS_GATE_SHARE 0.05f

struct map_px {
    float nx, ny, nz; // 0, 0, 0: no normal
    float z_m;        // 0: no depth
};

KERNEL_FN bool maps_same_surface(float z_m, float neighbour_m)
{
    return (neighbour_m > 0.0f) & (kernel_abs(neighbour_m - z_m) <= MAPS_GATE_SHARE * z_m);
}

// Pixel (u, v) with its neighbours of the level; a neighbour outside the image is given as 0.
KERNEL_FN struct map_px maps_pixel(const struct level_camera *camera, float u_px, float v_px,
                                   float z_m, float left_m, float right_m, float up_m, float down_m)
{
    float zu = 0.5f * (right_m - left_m), zv = 0.5f * (down_m - up_m);
    float x = camera->fx_px * zu, y = camera->fy_px * zv;
    float z = kernel_fma(u_px - camera->cx_px, zu, kernel_fma(v_px - camera->cy_px, zv, z_m));
    float length2 = kernel_fma(x, x, kernel_fma(y, y, z * z));
    bool valid = (z_m > 0.0f) & maps_same_surface(z_m, left_m) & maps_same_surface(z_m, right_m) &
                 maps_same_surface(z_m, up_m) & maps_same_surface(z_m, down_m);
    float scale = valid ? 1.0f / sqrtf(length2) : 0.0f;
    struct map_px out = {x * scale, y * scale, -z * scale, z_m};
    return out;
}

#endif

// SPDX-License-Identifier: Apache-2.0
// The pinhole camera of one pyramid level.
//
// Level l samples every 2^l-th pixel of the filtered image (no averaging), so pixel (u, v) of the
// level is pixel (2^l u, 2^l v) of the image and the principal point is c / 2^l.
#ifndef POSED_GPU_BASE_CAMERA_H
#define POSED_GPU_BASE_CAMERA_H

#include "gpu/base/kernel.h"
#include "proto/types.h"

struct level_camera {
    float fx_px, fy_px, cx_px, cy_px;
    float inv_fx, inv_fy; // 1/px
    int32_t width_px, height_px;
};

KERNEL_FN struct level_camera camera_level(const struct intrinsics *camera, uint32_t level)
{
    double s = 1.0 / (double)(1u << level);
    struct level_camera out;
    out.fx_px = (float)(camera->fx_px * s);
    out.fy_px = (float)(camera->fy_px * s);
    out.cx_px = (float)(camera->cx_px * s);
    out.cy_px = (float)(camera->cy_px * s);
    out.inv_fx = (float)(1.0 / (camera->fx_px * s));
    out.inv_fy = (float)(1.0 / (camera->fy_px * s));
    out.width_px = (int32_t)(camera->width_px >> level);
    out.height_px = (int32_t)(camera->height_px >> level);
    return out;
}

// Ray through pixel (u, v) at z = 1.
KERNEL_FN float camera_ray_x(const struct level_camera *camera, float u_px)
{
    return (u_px - camera->cx_px) * camera->inv_fx;
}

KERNEL_FN float camera_ray_y(const struct level_camera *camera, float v_px)
{
    return (v_px - camera->cy_px) * camera->inv_fy;
}

#endif

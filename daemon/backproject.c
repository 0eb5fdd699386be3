// SPDX-License-Identifier: Apache-2.0
#include "daemon/backproject.h"

#include "gpu/track/kernels/normal_maps.h"

static bool is_depth(uint16_t raw)
{
    return raw != DEPTH_INVALID_ZERO && raw != DEPTH_INVALID_MAX;
}

size_t backproject_count(const struct depth_frame *frame, uint32_t stride)
{
    size_t n = 0;
    for (size_t v = 0; v < frame->height_px; v += stride)
        for (size_t u = 0; u < frame->width_px; u += stride)
            n += is_depth(frame->depth[v * frame->width_px + u]);
    return n;
}

uint32_t backproject_stride(const struct depth_frame *frame, size_t max_points)
{
    uint32_t stride = 1;
    while (backproject_count(frame, stride) > max_points)
        stride++;
    return stride;
}

void backproject_points(const struct depth_frame *frame, const struct intrinsics *camera,
                        uint32_t stride, size_t point_step, size_t axis_step, float *out)
{
    for (size_t v = 0; v < frame->height_px; v += stride)
        for (size_t u = 0; u < frame->width_px; u += stride) {
            uint16_t raw = frame->depth[v * frame->width_px + u];
            if (!is_depth(raw))
                continue;
            double z = raw / frame->units_per_m;
            out[0] = (float)(((double)u - camera->cx_px) / camera->fx_px * z);
            out[axis_step] = (float)(((double)v - camera->cy_px) / camera->fy_px * z);
            out[2 * axis_step] = (float)z;
            out += point_step;
        }
}

// Depth of pixel (u, v), 0 where there is none, also outside of the image.
static float depth_m(const struct depth_frame *frame, size_t u, size_t v)
{
    if (u >= frame->width_px || v >= frame->height_px) // -1 is very large
        return 0;
    uint16_t raw = frame->depth[v * frame->width_px + u];
    return is_depth(raw) ? (float)(raw / frame->units_per_m) : 0;
}

void backproject_normals(const struct depth_frame *frame, const struct intrinsics *camera,
                         uint32_t stride, float *out)
{
    const struct level_camera level = camera_level(camera, 0);
    for (size_t v = 0; v < frame->height_px; v += stride)
        for (size_t u = 0; u < frame->width_px; u += stride) {
            float z_m = depth_m(frame, u, v);
            if (z_m <= 0)
                continue;
            struct map_px px = maps_pixel(&level, (float)u, (float)v, z_m, depth_m(frame, u - 1, v),
                                          depth_m(frame, u + 1, v), depth_m(frame, u, v - 1),
                                          depth_m(frame, u, v + 1));
            out[0] = px.nx;
            out[1] = px.ny;
            out[2] = px.nz;
            out += 3;
        }
}

// SPDX-License-Identifier: Apache-2.0
// From the perspective depth image to a metric orthographic frame.
//
// A frame looks along the ray to its start point: under perspective the camera sees an object from
// the direction of that ray, wherever in the image it stands. A cell of the frame knows x and y but
// not yet z; starting at the start point's depth, the pixel that this guess projects to says the
// next z. Three rounds settle on smooth surfaces; at a step the last round decides.
#ifndef POSED_GPU_SEARCH_KERNELS_FRAME_H
#define POSED_GPU_SEARCH_KERNELS_FRAME_H

#include <math.h>

#include "gpu/search/kernels/range_map.h"

#define SEARCH_FRAME_ROUNDS 3

// Intrinsics in float, as the kernels take them.
struct search_camera {
    float fx, fy, cx, cy;
    int width, height;
};

// A look at the image: a metric orthographic frame with z along the ray to a start point.
struct search_frame {
    float rotation[9]; // frame from camera
    float start_m[3];  // the start point in that frame: the window's centre pixel, z 0
    float px_m;
    float normal[3]; // of the surface at the start point, 0 0 0 = unknown
};

// The smallest rotation that turns the direction of `ray` (camera's frame, z > 0) to +z.
SEARCH_FN void search_frame_rotation(const float ray[3], float out[9])
{
    float length = sqrtf(ray[0] * ray[0] + ray[1] * ray[1] + ray[2] * ray[2]);
    float x = ray[0] / length, y = ray[1] / length, z = ray[2] / length, k = 1 / (1 + z);
    out[0] = 1 - x * x * k;
    out[1] = -x * y * k;
    out[2] = -x;
    out[3] = -x * y * k;
    out[4] = 1 - y * y * k;
    out[5] = -y;
    out[6] = x;
    out[7] = y;
    out[8] = z;
}

// The pixel of `size` ones nearest to a position between -0.5 and size - 0.5. Rounding alone may
// lead one too far: 0.49999997f + 0.5f is 1.
SEARCH_FN int32_t search_nearest_pixel(float at, int32_t size)
{
    const int32_t pixel = (int32_t)(at + 0.5f);
    return pixel < size ? pixel : size - 1;
}

// The pixel nearest to a point, -1 where the image has none.
struct search_frame_pixel {
    float u, v;
    int32_t at;
};

// The pixel of a point (x, y, z) of the frame. Without a branch, for the CPU's vectors.
SEARCH_FN struct search_frame_pixel search_frame_project(const struct search_camera *c,
                                                         const float rotation[9], float x, float y,
                                                         float z)
{
    const float *r = rotation;
    const float px = r[0] * x + r[3] * y + r[6] * z, py = r[1] * x + r[4] * y + r[7] * z;
    const float pz = r[2] * x + r[5] * y + r[8] * z;
    const float fu = c->fx * px / pz + c->cx, fv = c->fy * py / pz + c->cy;
    const int inside = (pz > 0.05f) & (fu > -0.5f) & (fv > -0.5f) & (fu < (float)c->width - 0.5f) &
                       (fv < (float)c->height - 0.5f);
    const int32_t u = search_nearest_pixel(inside ? fu : 0.f, c->width);
    const int32_t v = search_nearest_pixel(inside ? fv : 0.f, c->height);
    struct search_frame_pixel out = {(float)u, (float)v, v * c->width + u + inside - 1};
    return out;
}

// z in the frame of what a pixel shows at this depth.
SEARCH_FN float search_frame_z(const struct search_camera *c, const float rotation[9], float u,
                               float v, float depth)
{
    const float px = (u - c->cx) / c->fx * depth, py = (v - c->cy) / c->fy * depth;
    return rotation[6] * px + rotation[7] * py + rotation[8] * depth;
}

// z of the frame's cell at (x, y) metres from its start point, in metres from the start point.
// Returns 0 when there is no measurement, 2 when the surface is larger than the object
// (plane.h: a negative depth), else 1.
SEARCH_FN int search_frame_sample(const float *z_m, const struct search_camera *c,
                                  const float rotation[9], const float start_m[3], float x_m,
                                  float y_m, float *out_z)
{
    float z = start_m[2];
    int seen = 0;
    for (int i = 0; i < SEARCH_FRAME_ROUNDS; i++) {
        const struct search_frame_pixel pixel =
            search_frame_project(c, rotation, start_m[0] + x_m, start_m[1] + y_m, z);
        const float depth = pixel.at < 0 ? 0.f : z_m[pixel.at];
        if (depth == 0.f)
            return 0;
        seen = depth > 0.f ? 1 : 2;
        z = search_frame_z(c, rotation, pixel.u, pixel.v, depth > 0.f ? depth : -depth);
    }
    *out_z = z - start_m[2];
    return seen;
}

#endif

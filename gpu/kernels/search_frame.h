// SPDX-License-Identifier: Apache-2.0
// From the perspective depth image to a metric orthographic frame.
//
// A frame looks along the ray to its start point: under perspective the camera sees an object from
// the direction of that ray, wherever in the image it stands. A cell of the frame knows x and y but
// not yet z; starting at the start point's depth, the pixel that this guess projects to says the
// next z. Three rounds settle on smooth surfaces; at a step the last round decides.
#ifndef POSED_GPU_KERNELS_SEARCH_FRAME_H
#define POSED_GPU_KERNELS_SEARCH_FRAME_H

#include <math.h>

#include "gpu/kernels/search_map.h"

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

// Depth of the pixel nearest to a point in the camera's frame, 0 outside or without measurement.
SEARCH_FN float search_lookup(const float *z_m, const struct search_camera *c, const float p[3],
                              int *out_u, int *out_v)
{
    if (!(p[2] > 0.05f))
        return 0;
    float fu = c->fx * p[0] / p[2] + c->cx, fv = c->fy * p[1] / p[2] + c->cy;
    if (!(fu > -0.5f && fv > -0.5f && fu < (float)c->width - 0.5f && fv < (float)c->height - 0.5f))
        return 0;
    *out_u = (int)(fu + 0.5f);
    *out_v = (int)(fv + 0.5f);
    return z_m[(long)*out_v * c->width + *out_u];
}

// z of the frame's cell at (x, y) metres from its start point, in metres from the start point.
// Returns 0 when there is no measurement, 2 when the surface is larger than the object
// (search_plane.h: a negative depth), else 1.
SEARCH_FN int search_frame_sample(const float *z_m, const struct search_camera *c,
                                  const float rotation[9], const float start_m[3], float x_m,
                                  float y_m, float *out_z)
{
    const float *r = rotation;
    float x = start_m[0] + x_m, y = start_m[1] + y_m, z = start_m[2];
    int seen = 0;
    for (int i = 0; i < SEARCH_FRAME_ROUNDS; i++) {
        float p[3] = {r[0] * x + r[3] * y + r[6] * z, r[1] * x + r[4] * y + r[7] * z,
                      r[2] * x + r[5] * y + r[8] * z};
        int u = 0, v = 0;
        float depth = search_lookup(z_m, c, p, &u, &v);
        if (depth == 0.f)
            return 0;
        seen = depth > 0.f ? 1 : 2;
        depth = depth > 0.f ? depth : -depth;
        float px = ((float)u - c->cx) / c->fx * depth, py = ((float)v - c->cy) / c->fy * depth;
        z = r[6] * px + r[7] * py + r[8] * depth;
    }
    *out_z = z - start_m[2];
    return seen;
}

#endif

// SPDX-License-Identifier: Apache-2.0
// A hypothesis about the object's pose, and the image as its refinement reads it.
#ifndef POSED_GPU_SEARCH_KERNELS_POSE_H
#define POSED_GPU_SEARCH_KERNELS_POSE_H

#include <stddef.h>
#include <string.h>

#include "gpu/base/depth_noise.h"
#include "gpu/base/kernel.h"
#include "gpu/search/kernels/frame.h"

// The image as the refinement reads it.
struct search_scene {
    // nx ny nz z of each pixel; z negative = on a plane larger than the object; n 0 = no normal.
    // z 0 = no measurement; then nx is the depth of what lies there (search_behind), 0 = unknown.
    const float *normal_z;
    struct search_camera camera;
};

#define SEARCH_VIEW_UNKNOWN 0xffffffffu

struct search_candidate {
    float rotation[9]; // camera from model (about its centre)
    float t_m[3];      // the model's centre in the camera's frame
    float score;       // of the last verdict: what ranks candidates
    float sure; // what says whether it is there at all: the score, or, of a slid pose (slide.h),
                // that of the pose before: the best of five tries scores high by chance, too
    uint32_t view;
    // Evidence (score.h): shares of the pixels (or points) of the model's visible side ...
    float match;        // the image's surface is where the model's is,
    float tight;        // of these: well inside the gate
    float free;         // the camera looks through the model
    float wrong, plane; // a surface that runs otherwise; a plane larger than the object
    float hidden;       // something in front, or no measurement
    float just;         // of these: in front by no more than two further gates
    // ... and of its outline (struct search_outline).
    float ended, continued, smooth, floor, told; // told: which of these four
    float sharp;          // of the outline: where the image has an edge two pixels on
    float merged;         // of the borders of what hides it: where the surface goes on into that
    float shown;          // of where one part hides another: the image has it, too
    float edged;          // length of the outline where it ended, in object radii
    float spread, volume; // of the normals of what matches: 0 for a plane, for a cylinder
    float area; // of what matches, seen from the camera, in squares of the object's radius
    float deep; // the same of what matches away from the outline
    float gate; // of a pixel, in object radii
    float rms_m;
    float rough; // rms, in gates
    uint32_t n_match;
    // Of the drawn model, over its pixels: sum and mean of search_score_agrees, pairs of pixels at
    // the border of what hides it and where one part hides another.
    float agree, agreed, crossed, jumps;
};

// A model point with its normal, in the model's centred frame [m].
struct search_model_point {
    float p[3], n[3];
};

// Standard deviation of the sensor's depth at z [m], every operation rounded: the CPU's loops are
// compiled once per kind of processor, and all must give the device's bits.
KERNEL_FN float search_sigma(float z_m)
{
    return noise_sigma(z_m, false);
}

KERNEL_FN void search_turn(const float a[9], const float p[3], float out[3])
{
    for (int i = 0; i < 3; i++)
        out[i] = a[3 * i] * p[0] + a[3 * i + 1] * p[1] + a[3 * i + 2] * p[2];
}

KERNEL_FN void search_turn_back(const float a[9], const float p[3], float out[3])
{
    for (int i = 0; i < 3; i++)
        out[i] = a[i] * p[0] + a[3 + i] * p[1] + a[6 + i] * p[2];
}

// Index of the pixel under a point of the camera's frame, -1 outside of the image.
KERNEL_FN int32_t search_pixel_at(const struct search_camera *c, const float q[3])
{
    float inverse = 1 / q[2];
    float fu = c->fx * q[0] * inverse + c->cx, fv = c->fy * q[1] * inverse + c->cy;
    bool inside = (q[2] > 0.05f) & (fu > -0.5f) & (fv > -0.5f) & (fu < (float)c->width - 0.5f) &
                  (fv < (float)c->height - 0.5f);
    const int32_t u = search_nearest_pixel(inside ? fu : 0.f, c->width);
    const int32_t v = search_nearest_pixel(inside ? fv : 0.f, c->height);
    return inside ? v * c->width + u : -1;
}

// The ray of image pixel (u, v), z 1.
KERNEL_FN void search_pixel_ray(const struct search_camera *cam, int32_t u, int32_t v, float out[3])
{
    out[0] = ((float)u - cam->cx) / cam->fx;
    out[1] = ((float)v - cam->cy) / cam->fy;
    out[2] = 1;
}

// The candidate's rotation as a view sees it that looks along the ray to the object: what is
// compared with the views' rotations.
KERNEL_FN void search_seen_rotation(const struct search_candidate *c, float out[9])
{
    float frame[9];
    search_frame_rotation(c->t_m, frame);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            out[3 * i + j] = frame[3 * i] * c->rotation[j] + frame[3 * i + 1] * c->rotation[3 + j] +
                             frame[3 * i + 2] * c->rotation[6 + j];
}

// A pose in a frame: the view's rotation, its centre at shift (x, y, z) px from the window's
// middle.
KERNEL_FN void search_from_frame(const struct search_frame *frame, const float view_rotation[9],
                                 float x, float y, float z, struct search_candidate *out)
{
    const float p[3] = {frame->start_m[0] + x * frame->px_m, frame->start_m[1] + y * frame->px_m,
                        frame->start_m[2] + z * frame->px_m};
    memset(out, 0, sizeof *out);
    search_turn_back(frame->rotation, p, out->t_m);
    for (int j = 0; j < 3; j++) {
        const float column[3] = {view_rotation[j], view_rotation[3 + j], view_rotation[6 + j]};
        float turned[3];
        search_turn_back(frame->rotation, column, turned);
        for (int i = 0; i < 3; i++)
            out->rotation[3 * i + j] = turned[i];
    }
}

// The pose that a hit of the coarse pass stands for: the anchor's cell and depth on the start
// point.
KERNEL_FN void search_from_hit(const struct search_frame *frame, const float view_rotation[9],
                               int anchor_u, int anchor_v, int anchor_z,
                               struct search_candidate *out)
{
    const float middle = SEARCH_CENTRE_PX - 0.5f * (SEARCH_COARSE_PX - 1);
    search_from_frame(frame, view_rotation, middle - (float)(anchor_u * SEARCH_COARSE_PX),
                      middle - (float)(anchor_v * SEARCH_COARSE_PX), -(float)anchor_z / SEARCH_UNIT,
                      out);
}

// 1 + 2 cos(angle between two rotations).
KERNEL_FN float search_trace(const float a[9], const float b[9])
{
    float trace = 0;
    for (int k = 0; k < 9; k++)
        trace += a[k] * b[k];
    return trace;
}

// Pixel (u, v, z) of a view with rotation `r`, z in 1/64 px, in the model's frame [m].
KERNEL_FN void search_view_point(const float r[9], int u, int v, int z, float px_m, float out[3])
{
    float at[3] = {((float)u - SEARCH_CENTRE_PX) * px_m, ((float)v - SEARCH_CENTRE_PX) * px_m,
                   (float)z / SEARCH_UNIT * px_m};
    search_turn_back(r, at, out);
}

// The same of a normal that is stored x 127.
KERNEL_FN void search_view_normal(const float r[9], const int8_t normal[3], float out[3])
{
    float n[3] = {(float)normal[0] / 127, (float)normal[1] / 127, (float)normal[2] / 127};
    search_turn_back(r, n, out);
}

#endif

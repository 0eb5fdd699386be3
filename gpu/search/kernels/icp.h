// SPDX-License-Identifier: Apache-2.0
// One step of projective point-to-plane ICP of a model against the depth image: what one model
// point contributes, and the step that the sums of all points ask for.
//
// Planes are the model's, because the model has no noise. Arms are in object radii and residuals in
// gate distances, so that every term of the sums lies in -1 .. 1: they are summed as integers of
// 2^-19, whose sum does not depend on the order. Both twins, any number of threads and any grid of
// blocks give the same bits.
#ifndef POSED_GPU_SEARCH_KERNELS_ICP_H
#define POSED_GPU_SEARCH_KERNELS_ICP_H

#include "gpu/base/solve6.h"
#include "gpu/search/kernels/pose.h"

#define SEARCH_ICP_SUMS         27       // upper triangle of H, then g
#define SEARCH_ICP_UNIT         524288.f // 2^19: 4,095 points fit into 32 bits
#define SEARCH_ICP_TURN_MAX_RAD 1.f      // of one step

struct search_icp_gates {
    float distance_m; // pairs farther apart do not count
    float cosine;     // nor do those whose normals differ more
};

struct search_icp_row {
    float j[6]; // d residual / d (translation, rotation x radius)
    float r;    // residual / gates.distance_m
    float w;    // 0: the point does not count
};

// By value, not through pointers: an address taken inside a simd loop keeps it in memory.
struct search_vec3 {
    float x, y, z;
};

KERNEL_FN struct search_vec3 search_vec3_turned(const float a[9], struct search_vec3 p)
{
    struct search_vec3 out = {a[0] * p.x + a[1] * p.y + a[2] * p.z,
                              a[3] * p.x + a[4] * p.y + a[5] * p.z,
                              a[6] * p.x + a[7] * p.y + a[8] * p.z};
    return out;
}

// A model point where the candidate puts it, and the pixel that it falls on.
struct search_icp_place {
    struct search_vec3 arm, n; // from the model's centre, normal: in the camera's frame
    float u, v;
    int32_t pixel; // 0 when the point does not count
    bool use;      // in front of the camera, inside the image, not turned away by now
};

// Without a branch, for the CPU's vectors. `rotation` and `t_m` are the candidate's, p and m a
// model point and its normal.
KERNEL_FN struct search_icp_place search_icp_project(const struct search_camera *cam,
                                                     const float rotation[9], const float t_m[3],
                                                     struct search_vec3 p, struct search_vec3 m)
{
    struct search_icp_place out;
    out.arm = search_vec3_turned(rotation, p);
    out.n = search_vec3_turned(rotation, m);
    const float qx = out.arm.x + t_m[0], qy = out.arm.y + t_m[1], qz = out.arm.z + t_m[2];
    const float inverse = 1 / qz;
    const float fu = cam->fx * qx * inverse + cam->cx, fv = cam->fy * qy * inverse + cam->cy;
    out.use = (qz > 0.05f) & (fu > -0.5f) & (fv > -0.5f) & (fu < (float)cam->width - 0.5f) &
              (fv < (float)cam->height - 0.5f) & (out.n.x * qx + out.n.y * qy + out.n.z * qz < 0.f);
    const int32_t u = search_nearest_pixel(out.use ? fu : 0.f, cam->width);
    const int32_t v = search_nearest_pixel(out.use ? fv : 0.f, cam->height);
    out.u = (float)u;
    out.v = (float)v;
    out.pixel = v * cam->width + u;
    return out;
}

// The row of a point, from the image at its pixel: normal s and depth z.
KERNEL_FN struct search_icp_row search_icp_pair(const struct search_camera *cam,
                                                const struct search_icp_gates *gates,
                                                float inverse_radius, const float t_m[3],
                                                struct search_icp_place at, struct search_vec3 s,
                                                float z)
{
    const struct search_vec3 arm = at.arm, n = at.n;
    const float inverse_gate = 1 / gates->distance_m;
    const float dx = (at.u - cam->cx) / cam->fx * z - (arm.x + t_m[0]);
    const float dy = (at.v - cam->cy) / cam->fy * z - (arm.y + t_m[1]), dz = z - (arm.z + t_m[2]);
    const float far = (dx * dx + dy * dy + dz * dz) * (inverse_gate * inverse_gate);
    const bool has_normal = s.x * s.x + s.y * s.y + s.z * s.z > 0.5f;
    const bool agree = n.x * s.x + n.y * s.y + n.z * s.z >= gates->cosine;
    const bool use = at.use & (z > 0.f) & (far < 1.f) & (agree | !has_normal);
    const float w = (1 - far) * (1 - far) * (has_normal ? 1.f : 0.3f);
    const float r = (n.x * dx + n.y * dy + n.z * dz) * inverse_gate;
    struct search_icp_row row;
    row.w = use ? w : 0.f;
    row.r = use ? r : 0.f;
    row.j[0] = n.x;
    row.j[1] = n.y;
    row.j[2] = n.z;
    row.j[3] = (arm.y * n.z - arm.z * n.y) * inverse_radius;
    row.j[4] = (arm.z * n.x - arm.x * n.z) * inverse_radius;
    row.j[5] = (arm.x * n.y - arm.y * n.x) * inverse_radius;
    return row;
}

// Adds a row to the sums. A CPU does the same on vectors of rows (gpu/search/cpu/icp.c).
KERNEL_FN void search_icp_add(const struct search_icp_row *row, int32_t sums[SEARCH_ICP_SUMS])
{
    for (int a = 0, k = 0; a < 6; a++) {
        float wj = row->w * SEARCH_ICP_UNIT * row->j[a];
        for (int b = a; b < 6; b++, k++)
            sums[k] += (int32_t)(wj * row->j[b]);
        sums[21 + a] += (int32_t)(wj * row->r);
    }
}

// ---- The silhouette
//
// Surfaces alone leave a box free to slide along its face. Where the image's surface ends a few
// pixels beside the drawn outline, along the image's u or v, the model is drawn there.

#define SEARCH_EDGE_REACH_PX 8
#define SEARCH_EDGE_WEIGHT   0.3f // an edge is known to a pixel, a surface better

struct search_edge {
    float p[3];   // point of the outline, in the model's frame [m]
    float at_px;  // where the image has the edge, in u or v
    int32_t axis; // 0: u, 1: v
};

// What the scene says at one pixel of the walk across the outline: 1 the model's surface at z,
// 0 behind it or nothing at all, -1 something in front, or its shadow on the model.
KERNEL_FN int search_edge_side(const float scene[4], float z, float gate_m)
{
    if (scene[3] == 0.f)
        return scene[0] == 0.f || scene[0] > z + gate_m ? 0 : -1;
    float d = kernel_abs(scene[3]) - z;
    return d > gate_m ? 0 : d < -gate_m ? -1 : 1;
}

KERNEL_FN struct search_icp_row search_edge_row(const struct search_camera *cam,
                                                const struct search_edge *edge, float radius_m,
                                                float gate_m, const struct search_candidate *c)
{
    struct search_icp_row row = {{0}, 0, 0};
    float arm[3], q[3];
    search_turn(c->rotation, edge->p, arm);
    for (int k = 0; k < 3; k++)
        q[k] = arm[k] + c->t_m[k];
    const int a = edge->axis;
    const float f = a == 0 ? cam->fx : cam->fy, centre = a == 0 ? cam->cx : cam->cy;
    if (!(q[2] > 0.05f))
        return row;
    const float off_px = edge->at_px - (f * q[a] / q[2] + centre);
    const float share = off_px / (SEARCH_EDGE_REACH_PX + 2);
    const float r = off_px * q[2] / f / gate_m;
    if (!(share * share < 1) || !(r * r < 1))
        return row;
    const float n[3] = {a == 0 ? 1.f : 0.f, a == 0 ? 0.f : 1.f, -q[a] / q[2]};
    row.j[0] = n[0];
    row.j[1] = n[1];
    row.j[2] = n[2];
    row.j[3] = (arm[1] * n[2] - arm[2] * n[1]) / radius_m;
    row.j[4] = (arm[2] * n[0] - arm[0] * n[2]) / radius_m;
    row.j[5] = (arm[0] * n[1] - arm[1] * n[0]) / radius_m;
    row.r = r;
    row.w = SEARCH_EDGE_WEIGHT * (1 - share * share) * (1 - share * share);
    return row;
}

// Moves the candidate's centre and turns it about that, by a radian at most. Returns the angle.
KERNEL_FN float search_icp_move(const float shift_m[3], const float turn[3],
                                struct search_candidate *c)
{
    float w[3], angle2 = 0;
    for (int k = 0; k < 3; k++) {
        w[k] = turn[k];
        angle2 += w[k] * w[k];
    }
    float angle = sqrtf(angle2);
    if (angle > SEARCH_ICP_TURN_MAX_RAD) {
        for (int k = 0; k < 3; k++)
            w[k] *= SEARCH_ICP_TURN_MAX_RAD / angle;
        angle = SEARCH_ICP_TURN_MAX_RAD;
        angle2 = angle * angle;
    }
    // sin(angle) / angle and (1 - cos(angle)) / angle^2: the series, good to 1e-7 up to a radian.
    const float a =
        1 - angle2 * (1.f / 6 - angle2 * (1.f / 120 - angle2 * (1.f / 5040 - angle2 / 362880)));
    const float b = 0.5f - angle2 * (1.f / 24 - angle2 * (1.f / 720 - angle2 / 40320));
    const float k[9] = {0, -w[2], w[1], w[2], 0, -w[0], -w[1], w[0], 0};
    float turned[9];
    for (int row = 0; row < 3; row++)
        for (int col = 0; col < 3; col++) {
            turned[3 * row + col] = c->rotation[3 * row + col];
            for (int m = 0; m < 3; m++) {
                float square = w[row] * w[m] - (row == m ? angle2 : 0.f);
                turned[3 * row + col] +=
                    (a * k[3 * row + m] + b * square) * c->rotation[3 * m + col];
            }
        }
    for (int i = 0; i < 9; i++)
        c->rotation[i] = turned[i];
    for (int i = 0; i < 3; i++)
        c->t_m[i] += shift_m[i];
    return angle;
}

#define SEARCH_ICP_LEAST 4.f // of the trace below: fewer points hold nothing

// The sums' H, lower triangle; a little damping holds the directions that the visible surface does
// not. Returns the trace of its translations, without damping.
KERNEL_FN float search_icp_damped(const int64_t sums[SEARCH_ICP_SUMS], float out[6][6])
{
    for (int i = 0, k = 0; i < 6; i++)
        for (int j = i; j < 6; j++, k++)
            out[j][i] = (float)sums[k] / SEARCH_ICP_UNIT;
    const float trace = out[0][0] + out[1][1] + out[2][2];
    for (int a = 0; a < 6; a++)
        out[a][a] += 0.002f * trace + 1e-9f;
    return trace;
}

// Moves the candidate by the step that the sums ask for. Returns the size of the step relative to
// the object, negative when it cannot be solved.
KERNEL_FN float search_icp_step(const int64_t sums[SEARCH_ICP_SUMS], float radius_m, float gate_m,
                                struct search_candidate *c)
{
    float h[6][6], g[6], x[6];
    for (int i = 0; i < 6; i++)
        g[i] = (float)sums[21 + i] / SEARCH_ICP_UNIT;
    const float trace = search_icp_damped(sums, h);
    if (!(trace > SEARCH_ICP_LEAST) || !solve6_float(h, g, 1e-6f * trace, x))
        return -1;
    float shift_m[3], turn[3], length2 = 0;
    for (int k = 0; k < 3; k++) {
        shift_m[k] = x[k] * gate_m;
        turn[k] = x[3 + k] * gate_m / radius_m;
        length2 += x[k] * x[k];
    }
    const float angle = search_icp_move(shift_m, turn, c);
    return sqrtf(length2) * gate_m / radius_m + angle;
}

// ---- The schedule of the refinement with a view's stored points
//
// The gate closes as the pose settles. The view is looked up anew because a coarse hypothesis may
// be twenty degrees off, and another side of the model becomes visible on the way.

#define SEARCH_POINTS_STEPS 15
#define SEARCH_POINTS_FIRST 96   // of a view's points take part before the loose verdict
#define SEARCH_RING_FIRST   32   // and of its ring
#define SEARCH_LOOSE_SCORE  9.5f // less is given up: a tenth of the right, four fifths of all
#define SEARCH_GIVEN_UP     (-1000.f)

KERNEL_FN bool search_points_new_view(int step)
{
    return step % 3 == 0;
}

// Most hypotheses are nothing: what does not even fit loosely by now is given up.
KERNEL_FN bool search_points_give_up_here(int step)
{
    return step == 3;
}

KERNEL_FN struct search_icp_gates search_points_gates(int step, float radius_m, float z_m)
{
    float share = step <= 6    ? 0.20f - 0.02f * (float)step
                  : step <= 10 ? 0.14f - 0.01f * (float)step
                               : 0.03f;
    struct search_icp_gates gates = {share * radius_m + 2 * search_sigma(z_m),
                                     step < 3 ? 0.6f : 0.75f};
    return gates;
}

// ---- The schedule of the refinement with the model drawn anew each round

#define SEARCH_DRAWN_STEPS 5
#define SEARCH_DRAWN_SMALL 1e-5f // a step below this ends the round

// More than three rounds begin with a wide gate: for poses that follow from another one.
KERNEL_FN struct search_icp_gates search_drawn_gates(uint32_t round, uint32_t n_rounds,
                                                     float radius_m, float z_m)
{
    const int32_t at = (int32_t)round - (n_rounds > 3 ? (int32_t)n_rounds - 3 : 0);
    float share = at < -1 ? 0.12f : at < 0 ? 0.08f : at == 0 ? 0.05f : at == 1 ? 0.04f : 0.03f;
    struct search_icp_gates gates = {share * radius_m + 2 * search_sigma(z_m), 0.6f};
    return gates;
}

#endif

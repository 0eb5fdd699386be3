// SPDX-License-Identifier: Apache-2.0
#include "tests/check/register/scene.h"

#include <math.h>
#include <string.h>

#include "proto/se3.h"
#include "tests/check/golden_values.h"

static void put(struct scene_set *out, size_t i, const double p[3], const double n[3])
{
    for (int a = 0; a < 3; a++) {
        out->memory[a][i] = (float)p[a];
        out->memory[3 + a][i] = (float)n[a];
    }
}

static void finish(struct scene_set *out, size_t n, bool normals)
{
    float(*m)[SCENE_MOST_POINTS] = out->memory;
    out->points = (struct point_set){m[0], m[1], m[2], NULL, NULL, NULL, n};
    if (normals) {
        out->points.nx = m[3];
        out->points.ny = m[4];
        out->points.nz = m[5];
    }
}

static void surface_at(double lopsided, const double n[3], double out[3])
{
    const double r = 0.4 * (1 + 0.25 * sin(3 * n[0] + 1) + 0.2 * cos(4 * n[1] + 2 * n[2]) +
                            lopsided * sin(5 * n[2] - 2 * n[0]));
    out[0] = r * n[0];
    out[1] = 0.8 * r * n[1];
    out[2] = 1.2 * r * n[2] + 0.1;
}

static void cross(const double a[3], const double b[3], double out[3])
{
    for (int k = 0; k < 3; k++)
        out[k] = a[(k + 1) % 3] * b[(k + 2) % 3] - a[(k + 2) % 3] * b[(k + 1) % 3];
}

static void scale_to_one(double v[3])
{
    const double length = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    for (int k = 0; k < 3; k++)
        v[k] /= length;
}

// By differences of the direction.
static void normal_at(double lopsided, const double n[3], double out[3])
{
    double side[3][3] = {{n[1] + 0.3, -n[0], 0.2}}, moved[2][3], p[3], edge[2][3];
    cross(n, side[0], side[1]);
    cross(n, side[1], side[2]);
    surface_at(lopsided, n, p);
    for (int s = 0; s < 2; s++) {
        double towards[3];
        for (int k = 0; k < 3; k++)
            towards[k] = n[k] + 1e-4 * side[1 + s][k];
        scale_to_one(towards);
        surface_at(lopsided, towards, moved[s]);
        for (int k = 0; k < 3; k++)
            edge[s][k] = moved[s][k] - p[k];
    }
    cross(edge[0], edge[1], out);
    scale_to_one(out);
}

void scene_bumpy(struct scene_set *out, size_t n, const struct scene_shape *shape,
                 const struct se3 *T)
{
    for (size_t i = 0; i < n;) {
        const double z = golden_uniform(-0.999, 0.999), phi = golden_uniform(0, 2 * M_PI);
        const double s = sqrt(1 - z * z), at[3] = {s * cos(phi), s * sin(phi), z};
        double p[3], m[3], q[3], turned[3];
        surface_at(shape->lopsided, at, p);
        normal_at(shape->lopsided, at, m);
        if (p[0] < shape->low_x || p[0] > shape->high_x)
            continue;
        for (int k = 0; k < 3; k++)
            p[k] += shape->noise_m * golden_noise();
        se3_apply(T, p, q);
        for (int k = 0; k < 3; k++)
            turned[k] = T->r[3 * k] * m[0] + T->r[3 * k + 1] * m[1] + T->r[3 * k + 2] * m[2];
        put(out, i++, q, turned);
    }
    finish(out, n, shape->normals);
}

// Boxes: the first is the room, seen from inside, the others stand in it.
static const double boxes[2][7][2][3] = {
    {{{0, 0, 0}, {5, 2.6, 4}},
     {{0.2, 1.8, 0.3}, {1.0, 2.6, 1.9}},
     {{3.6, 1.7, 2.4}, {5, 2.6, 4}},
     {{2.1, 2.1, 0}, {2.9, 2.6, 0.7}},
     {{4.4, 0.5, 0}, {5, 2.6, 0.6}},
     {{1.4, 1.9, 3.1}, {2.3, 2.6, 3.7}},
     {{0, 0.9, 2.9}, {0.3, 1.4, 3.6}}},
    {{{0, 0, 0}, {3.4, 2.5, 5.5}},
     {{0, 1.6, 2.0}, {0.7, 2.5, 3.2}},
     {{2.0, 1.9, 4.6}, {3.4, 2.5, 5.5}},
     {{2.7, 1.2, 0.2}, {3.2, 2.5, 1.3}},
     {{0.9, 2.2, 3.9}, {1.3, 2.5, 4.5}},
     {{0.1, 0, 0.1}, {0.5, 2.5, 0.5}},
     {{1.5, 2.1, 0}, {1.9, 2.5, 0.8}}},
};

// Where a ray meets a box: as it leaves the room, as it enters what stands there; else infinite.
static double meet(const double box[2][3], bool leaves, const double from[3], const double d[3])
{
    double enters = 0, left = INFINITY;
    for (int k = 0; k < 3; k++) {
        const double a = (box[0][k] - from[k]) / d[k], b = (box[1][k] - from[k]) / d[k];
        enters = fmax(enters, fmin(a, b));
        left = fmin(left, fmax(a, b));
    }
    return leaves ? left : enters > 0 && enters < left ? enters : INFINITY;
}

void scene_room(struct scene_set *out, size_t n, int which, const struct se3 *T_room_sensor)
{
    const double none[3] = {0, 0, 1};
    for (size_t i = 0; i < n; i++) {
        const double y = golden_uniform(-1, 1), phi = golden_uniform(0, 2 * M_PI);
        const double s = sqrt(1 - y * y), ray[3] = {s * cos(phi), y, s * sin(phi)};
        double d[3], p[3], range = INFINITY;
        for (int k = 0; k < 3; k++)
            d[k] = T_room_sensor->r[3 * k] * ray[0] + T_room_sensor->r[3 * k + 1] * ray[1] +
                   T_room_sensor->r[3 * k + 2] * ray[2];
        for (int b = 0; b < 7; b++)
            range = fmin(range, meet(boxes[which][b], b == 0, T_room_sensor->t_m, d));
        for (int k = 0; k < 3; k++)
            p[k] = range * ray[k] + 0.004 * golden_noise();
        put(out, i, p, none);
    }
    finish(out, n, false);
}

// SPDX-License-Identifier: Apache-2.0
#include "tests/check/model/room.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/se3.h"
#include "tests/check/check.h"

static const double sphere_m[3] = {0.2, -0.1, 1.6};
static const double walls[3][4] = {
    {0.3, 0.1, -0.94868330, 2.3}, {0, -1, 0, 0.9}, {1, 0, 0, 0.9}}; // n.p + d = 0

const char *room_fill_name(enum room_fill fill)
{
    static const char *const names[ROOM_N_FILLS] = {"room", "random", "invalid", "one pixel"};
    return names[fill];
}

double room_z(const struct room_input *input, const struct se3 *T, double u, double v)
{
    const struct intrinsics *camera = &input->settings.camera;
    const double ray[3] = {(u - camera->cx_px) / camera->fx_px, (v - camera->cy_px) / camera->fy_px,
                           1};
    double d[3], best = INFINITY, b = 0, c = -0.25, a = 0;
    for (int i = 0; i < 3; i++)
        d[i] = T->r[3 * i] * ray[0] + T->r[3 * i + 1] * ray[1] + T->r[3 * i + 2] * ray[2];
    for (uint32_t k = 0; k < input->n_walls; k++) {
        const double *n = walls[k];
        double slope = n[0] * d[0] + n[1] * d[1] + n[2] * d[2];
        double at = n[0] * T->t_m[0] + n[1] * T->t_m[1] + n[2] * T->t_m[2] + n[3];
        if (slope < -1e-9 && -at / slope < best)
            best = -at / slope;
    }
    for (int i = 0; i < 3; i++) {
        double to = T->t_m[i] - sphere_m[i];
        a += d[i] * d[i];
        b += d[i] * to;
        c += to * to;
    }
    double root = b * b - a * c;
    if (root > 0 && (-b - sqrt(root)) / a > 0 && (-b - sqrt(root)) / a < best)
        best = (-b - sqrt(root)) / a;
    return best;
}

double room_distance(const struct room_input *input, const double p[3], double out_n[3])
{
    double best = INFINITY;
    for (uint32_t k = 0; k <= input->n_walls; k++) {
        double n[3] = {0, 0, 0}, distance_m = 0;
        if (k < input->n_walls) {
            memcpy(n, walls[k], sizeof n);
            distance_m = n[0] * p[0] + n[1] * p[1] + n[2] * p[2] + walls[k][3];
        } else {
            for (int i = 0; i < 3; i++)
                distance_m += pow(n[i] = p[i] - sphere_m[i], 2);
            double length = sqrt(distance_m);
            for (int i = 0; i < 3; i++)
                n[i] /= length;
            distance_m = length - 0.5;
        }
        if (fabs(distance_m) < fabs(best)) {
            best = distance_m;
            memcpy(out_n, n, sizeof n);
        }
    }
    return best;
}

void room_create(struct room_input *out, uint32_t width_px, uint32_t height_px, uint32_t n_walls,
                 enum room_fill fill)
{
    memset(out, 0, sizeof *out);
    gpu_settings_default(&out->settings);
    double f_px = 0.85 * width_px;
    out->settings.camera = (struct intrinsics){f_px,
                                               fill == ROOM_FILL_RANDOM ? -f_px : f_px,
                                               0.5 * width_px - 0.3,
                                               0.5 * height_px + 0.2,
                                               width_px,
                                               height_px};
    out->n_walls = n_walls;
    out->settings.units_per_m = 5000;
    out->settings.log = check_log();
    model_settings_default(&out->model);
    out->model.memory_bytes = (uint64_t)64 << 20;
    for (int i = 0; i < ROOM_FRAMES; i++) {
        const double twist[6] = {0.03 * i, -0.01 * i, 0.02 * i, 0.02 * i, -0.03 * i, 0.01 * i};
        out->T_map_camera[i] = se3_exp(twist);
        out->depth[i] = calloc((size_t)width_px * height_px, sizeof *out->depth[i]);
        for (uint32_t y = 0; y < height_px; y++)
            for (uint32_t x = 0; x < width_px; x++) {
                uint16_t *px = &out->depth[i][y * width_px + x];
                double z = room_z(out, &out->T_map_camera[i], x, y);
                if (fill == ROOM_FILL_ROOM && z < 8)
                    *px = (uint16_t)lrint(5000 * z);
                else if (fill == ROOM_FILL_RANDOM)
                    *px = (uint16_t)check_random();
            }
        if (fill == ROOM_FILL_ONE_PIXEL)
            out->depth[i][height_px / 2 * width_px + width_px / 2] = 5000;
    }
}

void room_destroy(struct room_input *input)
{
    for (int i = 0; i < ROOM_FRAMES; i++)
        free(input->depth[i]);
}

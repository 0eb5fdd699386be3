// SPDX-License-Identifier: Apache-2.0
// See input.h.
#include "tests/check/track/input.h"

#include <math.h>
#include <string.h>

#include "proto/se3.h"
#include "tests/check/check.h"

const char *const fill_names[N_FILLS] = {"room",      "noisy room", "random",        "all invalid",
                                         "one pixel", "step edge",  "grazing plane", "0 and 65535"};

size_t level_px(const struct gpu_settings *s, int level)
{
    return (size_t)(s->camera.width_px >> level) * (s->camera.height_px >> level);
}

// A room of 4 x 3 x 5 m with a ball in it, seen from near its middle.
static double room_z_m(const struct se3 *T_room_camera, const double ray[3])
{
    static const double wall_m[3] = {2.0, 1.5, 2.5}, ball_m[3] = {0.4, 0.3, 1.2}, radius_m = 0.5;
    double d[3], o[3], nearest = INFINITY;
    for (int i = 0; i < 3; i++) {
        o[i] = T_room_camera->t_m[i];
        d[i] = T_room_camera->r[3 * i] * ray[0] + T_room_camera->r[3 * i + 1] * ray[1] +
               T_room_camera->r[3 * i + 2] * ray[2];
        nearest = fmin(nearest, ((d[i] > 0 ? wall_m[i] : -wall_m[i]) - o[i]) / d[i]);
    }
    double b = 0, c = -radius_m * radius_m, a = 0;
    for (int i = 0; i < 3; i++) {
        a += d[i] * d[i];
        b += d[i] * (o[i] - ball_m[i]);
        c += (o[i] - ball_m[i]) * (o[i] - ball_m[i]);
    }
    double root = b * b - a * c;
    if (root > 0 && (-b - sqrt(root)) / a > 0)
        nearest = fmin(nearest, (-b - sqrt(root)) / a);
    return nearest; // rays have z = 1
}

static uint16_t fill_px(enum fill fill, const struct input *in, const struct se3 *T_room_camera,
                        int u, int v)
{
    const struct intrinsics *c = &in->settings.camera;
    double scale = in->settings.units_per_m;
    double ray[3] = {(u - c->cx_px) / c->fx_px, (v - c->cy_px) / c->fy_px, 1};
    double z_m = 0;
    switch (fill) {
    case FILL_ROOM:
        z_m = room_z_m(T_room_camera, ray);
        break;
    case FILL_ROOM_NOISE:
        z_m = room_z_m(T_room_camera, ray);
        z_m += check_gaussian() * (0.0012 + 0.0019 * (z_m - 0.4) * (z_m - 0.4));
        z_m = check_random() % 50 == 0 ? 0 : z_m;
        break;
    case FILL_RANDOM:
        return (uint16_t)check_random();
    case FILL_ONE_PIXEL:
        z_m = u == (int)c->width_px / 2 && v == (int)c->height_px / 2 ? 1.5 : 0;
        break;
    case FILL_STEP:
        z_m = u < (int)c->width_px / 2 ? 1.0 : 1.2;
        break;
    case FILL_GRAZING: // a floor 0.6 m below the camera, up to the horizon
        z_m = ray[1] > 0.02 ? 0.6 / ray[1] : 0;
        break;
    case FILL_MARKS:
        z_m = 2.0;
        if (check_random() % 5 == 0)
            return check_random() % 2 ? 65535 : 0;
        break;
    default:
        break;
    }
    double raw = nearbyint(z_m * scale);
    return raw > 0 && raw < 65535 ? (uint16_t)raw : 0;
}

void input_create(struct input *in, uint32_t width_px, uint32_t height_px, enum fill fill)
{
    memset(in, 0, sizeof *in);
    gpu_settings_default(&in->settings);
    gpu_align_settings_default(&in->align);
    in->align.early_stop = false;
    in->settings.camera =
        (struct intrinsics){0.82 * width_px,       0.82 * width_px, 0.5 * width_px - 0.5,
                            0.5 * height_px - 0.5, width_px,        height_px};
    in->settings.units_per_m = 5000;
    in->well_posed = (fill == FILL_ROOM || fill == FILL_ROOM_NOISE) && width_px >= 640;
    double twist[6] = {0.008, -0.005, 0.01, 0.004, -0.006, 0.003};
    in->T_true = se3_exp(twist);
    // The identity is a start of its own: pixels without depth land on the camera's centre.
    for (int i = 0; i < 6; i++)
        twist[i] *= fill == FILL_ROOM_NOISE || fill == FILL_MARKS ? 0 : 0.5;
    in->T_start = se3_exp(twist);
}

void input_fill(struct input *in, enum fill fill)
{
    const double look[6] = {0.1, 0.05, -0.4, 0.15, -0.3, 0.05};
    struct se3 T_room_camera[2];
    T_room_camera[0] = se3_exp(look);
    T_room_camera[1] = se3_compose(&T_room_camera[0], &in->T_true);
    int w = (int)in->settings.camera.width_px, h = (int)in->settings.camera.height_px;
    for (int f = 0; f < 2; f++) {
        in->depth[f] = check_alloc((size_t)w * (size_t)h * sizeof *in->depth[f]);
        for (int v = 0; v < h; v++)
            for (int u = 0; u < w; u++)
                in->depth[f][v * w + u] = fill_px(fill, in, &T_room_camera[f], u, v);
    }
}

void input_destroy(struct input *in)
{
    check_free(in->depth[0]);
    check_free(in->depth[1]);
}

// SPDX-License-Identifier: Apache-2.0
// Generated pieces of rooms: random rooms out of the solids of the synthetic scenes, seen by the
// synthetic Kinect with all that stays (capture/synth/sensor_error.h), averaged in cells.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capture/synth/kinect_noise.h"
#include "capture/synth/motion.h"
#include "capture/synth/sensor_error.h"
#include "capture/synth/shapes.h"
#include "proto/se3.h"
#include "tools/bench/register_pairs.h"
#include "tools/bench/testrandom.h"

#define WIDTH       320
#define HEIGHT      240
#define N_FRAMES    16
#define MOST_SHAPES 48
#define UNITS_PER_M 5000.0
#define FAR_M       3.5 // what a reconstruction takes
#define CELL_M      0.015
#define NEAR_M      0.04  // of a counterpart
#define DRIFT_M     0.008 // over a piece, about
#define DRIFT_RAD   0.006
#define N_TRIES     60
#define LEAST       0.3
#define MOST        0.8

struct room {
    struct shape shapes[MOST_SHAPES];
    int n;
    double half_m[3];
};

static void add_shape(struct room *room, enum shape_kind kind, double x, double y, double z,
                      double a, double b, double c, double yaw_deg)
{
    if (room->n == MOST_SHAPES)
        return;
    struct shape *shape = &room->shapes[room->n++];
    *shape = (struct shape){kind, {a, b, c}, motion_pose(x, y, z, yaw_deg, 0, 0)};
}

// A table, crate or cupboard somewhere on the floor, and something on it. Down is y.
static void add_furniture(struct room *room, uint64_t *random)
{
    const double a = testrandom_uniform(random, 0.15, 0.7);
    const double b = testrandom_uniform(random, 0.15, 0.5);
    const double height = testrandom_uniform(random, 0.15, 0.6);
    const double floor_m = room->half_m[1], top = floor_m - 2 * height;
    double x = testrandom_uniform(random, -1, 1) * (room->half_m[0] - 0.3);
    double z = testrandom_uniform(random, -1, 1) * (room->half_m[2] - 0.3);
    const bool at_wall = testrandom_next(random) % 2;
    if (at_wall && testrandom_next(random) % 2)
        x = copysign(room->half_m[0] - a, x);
    else if (at_wall)
        z = copysign(room->half_m[2] - b, z);
    if (x * x + z * z < 1) // where the cameras stand
        return;
    const double yaw = at_wall ? 0 : testrandom_uniform(random, -90, 90);
    const bool table = testrandom_next(random) % 3 == 0;
    add_shape(room, SHAPE_BOX, x, table ? top : floor_m - height, z, a, table ? 0.02 : height, b,
              yaw);
    for (int leg = 0; leg < 4 && table; leg++)
        add_shape(room, SHAPE_PIPE, x + (leg % 2 ? 0.7 : -0.7) * a * cos(yaw * M_PI / 180),
                  floor_m - height, z + (leg / 2 ? 0.7 : -0.7) * b, 0.03, height, 0.03, 0);
    for (uint64_t n = testrandom_next(random) % 3; n > 0; n--) {
        static const enum shape_kind kinds[] = {SHAPE_BOX, SHAPE_ELLIPSOID, SHAPE_PIPE, SHAPE_CONE};
        const double r = testrandom_uniform(random, 0.05, 0.18);
        const double h = testrandom_uniform(random, 0.05, 0.2);
        add_shape(room, kinds[testrandom_next(random) % 4],
                  x + testrandom_uniform(random, -0.6, 0.6) * a, top - h,
                  z + testrandom_uniform(random, -0.6, 0.6) * b, r, h, r,
                  testrandom_uniform(random, 0, 90));
    }
}

// Shelves, reliefs, rings on the walls.
static void add_on_wall(struct room *room, uint64_t *random)
{
    const bool along_x = testrandom_next(random) % 2;
    const double side = testrandom_next(random) % 2 ? 1 : -1;
    const double reach = room->half_m[along_x ? 0 : 2] - 0.4;
    const double at = testrandom_uniform(random, -reach, reach);
    const double wall = side * (room->half_m[along_x ? 2 : 0] - 0.06);
    const double y = testrandom_uniform(random, -0.8, 0.3);
    const double a = testrandom_uniform(random, 0.2, 0.7), b = testrandom_uniform(random, 0.1, 0.5);
    const double yaw = along_x ? (side > 0 ? 0 : 180) : side > 0 ? 90 : -90;
    const double x = along_x ? at : wall, z = along_x ? wall : at;
    switch (testrandom_next(random) % 3) {
    case 0:
        add_shape(room, SHAPE_BOX, x, y, z, a, b, 0.08, yaw);
        break;
    case 1:
        add_shape(room, SHAPE_WAVES, x, y, z, a + 0.2, b + 0.2, 0.05, yaw);
        break;
    default:
        add_shape(room, SHAPE_TORUS, x, y, z, 0.25, 0.25, 0.06, yaw);
    }
}

static void make_room(uint64_t *random, struct room *out)
{
    memset(out, 0, sizeof *out);
    out->half_m[0] = testrandom_uniform(random, 1.7, 2.8);
    out->half_m[1] = 1.3;
    out->half_m[2] = testrandom_uniform(random, 1.7, 3);
    add_shape(out, SHAPE_ROOM, 0, 0, 0, out->half_m[0], out->half_m[1], out->half_m[2], 0);
    for (int n = 10 + (int)(testrandom_next(random) % 8); n > 0; n--)
        add_furniture(out, random);
    for (int n = 3 + (int)(testrandom_next(random) % 6); n > 0; n--)
        add_on_wall(out, random);
}

// Points averaged in cells: a hash table with open addressing.
struct cells {
    struct cell {
        int32_t at[3];
        uint32_t n;
        double sum[3];
    } * cell;
    size_t n_slots, n_used;
    double size_m;
};

static int cells_create(size_t n_slots, double size_m, struct cells *out)
{
    *out = (struct cells){calloc(n_slots, sizeof *out->cell), n_slots, 0, size_m};
    return out->cell ? 0 : -ENOMEM;
}

static struct cell *cells_find(const struct cells *cells, const int32_t at[3])
{
    uint64_t key = (uint64_t)(uint32_t)at[0] * 0x9e3779b97f4a7c15u ^
                   (uint64_t)(uint32_t)at[1] * 0xbf58476d1ce4e5b9u ^
                   (uint64_t)(uint32_t)at[2] * 0x94d049bb133111ebu;
    size_t slot = (size_t)testrandom_next(&key) & (cells->n_slots - 1);
    while (cells->cell[slot].n > 0 && memcmp(cells->cell[slot].at, at, 3 * sizeof *at) != 0)
        slot = (slot + 1) & (cells->n_slots - 1);
    return &cells->cell[slot];
}

static void cells_add(struct cells *cells, const double p[3])
{
    int32_t at[3];
    for (int k = 0; k < 3; k++)
        at[k] = (int32_t)floor(p[k] / cells->size_m);
    struct cell *cell = cells_find(cells, at);
    if (cell->n == 0 && cells->n_used + 1 > cells->n_slots * 3 / 4)
        return; // more than any room has
    cells->n_used += cell->n == 0;
    memcpy(cell->at, at, sizeof at);
    cell->n++;
    for (int k = 0; k < 3; k++)
        cell->sum[k] += p[k];
}

static int cells_points(const struct cells *cells, struct cloud *out)
{
    int err = cloud_alloc(out, cells->n_used, false);
    size_t n = 0;
    for (size_t i = 0; i < cells->n_slots && !err; i++) {
        const struct cell *c = &cells->cell[i];
        if (c->n == 0)
            continue;
        out->x_m[n] = (float)(c->sum[0] / c->n);
        out->y_m[n] = (float)(c->sum[1] / c->n);
        out->z_m[n++] = (float)(c->sum[2] / c->n);
    }
    return err;
}

struct camera {
    struct intrinsics intrinsics;
    struct kinect_noise *noise;
    struct sensor_error *error;
    float *z_m, x_norm[WIDTH + 16];
    uint16_t *depth;
    uint64_t seed, frame;
};

static void see(struct camera *camera, const struct room *room, const struct se3 *T_world_camera)
{
    const struct intrinsics *c = &camera->intrinsics;
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        camera->z_m[i] = INFINITY;
    for (int i = 0; i < room->n; i++) {
        const struct se3 T = se3_between(&room->shapes[i].T_world_shape, T_world_camera);
        for (uint32_t v = 0; v < HEIGHT; v++)
            shape_trace_row(&room->shapes[i], &T, camera->x_norm,
                            (float)((v - c->cy_px) / c->fy_px), 0, WIDTH, camera->z_m + v * WIDTH);
    }
    sensor_error_apply(camera->error, T_world_camera, camera->seed, camera->frame, camera->z_m);
    kinect_noise_apply(camera->noise, camera->z_m, camera->seed, camera->frame++, UNITS_PER_M,
                       camera->depth);
}

static void fuse(const struct camera *camera, const struct se3 *T_piece_camera, struct cells *cells)
{
    const struct intrinsics *c = &camera->intrinsics;
    for (int i = 0; i < WIDTH * HEIGHT; i++) {
        const double z = camera->depth[i] / UNITS_PER_M;
        const double p[3] = {(i % WIDTH - c->cx_px) / c->fx_px * z,
                             (i / WIDTH - c->cy_px) / c->fy_px * z, z};
        double q[3];
        if (!(z > 0) || z > FAR_M)
            continue;
        se3_apply(T_piece_camera, p, q);
        cells_add(cells, q);
    }
}

struct stand {
    double x_m, z_m, yaw_deg, pitch_deg, sweep_deg;
};

static struct se3 stand_pose(const struct stand *s, double t)
{
    return motion_pose(s->x_m + 0.3 * t, -0.1 + 0.1 * sin(6 * t), s->z_m - 0.2 * t,
                       s->yaw_deg + s->sweep_deg * t, s->pitch_deg, 2 * sin(9 * t));
}

// The piece in the frame of its first camera, which is *out_T in the world.
static int make_piece(struct camera *camera, const struct room *room, const struct stand *stand,
                      uint64_t *random, struct cloud *out, struct se3 *out_T)
{
    struct cells cells;
    double drift[6];
    int err = cells_create(1u << 18, CELL_M, &cells);
    *out_T = stand_pose(stand, 0);
    for (int k = 0; k < 6; k++)
        drift[k] = (k < 3 ? DRIFT_M : DRIFT_RAD) * testrandom_normal(random) / sqrt(3);
    for (int i = 0; i < N_FRAMES && !err; i++) {
        const double t = (double)i / (N_FRAMES - 1);
        double off[6];
        for (int k = 0; k < 6; k++)
            off[k] = t * drift[k];
        const struct se3 T_world_camera = stand_pose(stand, t), wrong = se3_exp(off);
        const struct se3 T = se3_between(out_T, &T_world_camera), T_piece = se3_compose(&wrong, &T);
        see(camera, room, &T_world_camera);
        fuse(camera, &T_piece, &cells);
    }
    err = err ? err : cells_points(&cells, out);
    free(cells.cell);
    return err;
}

// Share of a's points that have a neighbour in b, about: within the cells around.
static int overlap_of(const struct cloud *a, const struct cloud *b, const struct se3 *T_b_a,
                      double *out)
{
    struct cells cells;
    int err = cells_create(1u << 18, NEAR_M, &cells);
    size_t n_near = 0;
    for (size_t i = 0; i < b->n_points && !err; i++)
        cells_add(&cells, (double[3]){(double)b->x_m[i], (double)b->y_m[i], (double)b->z_m[i]});
    for (size_t i = 0; i < a->n_points && !err; i++) {
        const double p[3] = {(double)a->x_m[i], (double)a->y_m[i], (double)a->z_m[i]};
        double q[3];
        bool near = false;
        se3_apply(T_b_a, p, q);
        for (int k = 0; k < 8 && !near; k++) {
            int32_t at[3];
            for (int j = 0; j < 3; j++)
                at[j] = (int32_t)floor(q[j] / NEAR_M + (k >> j & 1 ? 0.5 : -0.5));
            near = cells_find(&cells, at)->n > 0;
        }
        n_near += near;
    }
    *out = a->n_points ? (double)n_near / (double)a->n_points : 0;
    free(cells.cell);
    return err;
}

static int camera_open(struct camera *camera, uint64_t *random)
{
    memset(camera, 0, sizeof *camera);
    camera->intrinsics = (struct intrinsics){262.5, 262.5, 159.5, 119.5, WIDTH, HEIGHT};
    camera->seed = testrandom_next(random);
    camera->z_m = malloc(WIDTH * HEIGHT * sizeof *camera->z_m);
    camera->depth = malloc(WIDTH * HEIGHT * sizeof *camera->depth);
    for (int u = 0; u < WIDTH + 16; u++)
        camera->x_norm[u] = (float)((u - camera->intrinsics.cx_px) / camera->intrinsics.fx_px);
    if (!camera->z_m || !camera->depth)
        return -ENOMEM;
    int err = sensor_error_create(&camera->error, &camera->intrinsics, testrandom_next(random));
    return err ? err : kinect_noise_create(&camera->noise, &camera->intrinsics);
}

static void camera_close(struct camera *camera)
{
    sensor_error_destroy(&camera->error);
    kinect_noise_destroy(&camera->noise);
    free(camera->z_m);
    free(camera->depth);
}

static struct stand draw_stand(uint64_t *random)
{
    return (struct stand){testrandom_uniform(random, -0.7, 0.4),
                          testrandom_uniform(random, -0.5, 0.7),
                          testrandom_uniform(random, -180, 180), testrandom_uniform(random, -20, 5),
                          testrandom_uniform(random, 15, 40)};
}

int bench_generate_rooms(uint64_t seed, struct bench_generated *out)
{
    uint64_t random = seed ^ 0x726f6f6d73u;
    struct camera camera;
    struct room rooms[2];
    struct se3 T_target, T_source;
    memset(out, 0, sizeof *out);
    random = testrandom_next(&random);
    int err = camera_open(&camera, &random);
    out->strangers = seed % 5 == 4;
    make_room(&random, &rooms[0]);
    make_room(&random, &rooms[1]);
    const struct stand first = draw_stand(&random);
    err = err ? err : make_piece(&camera, &rooms[0], &first, &random, &out->target, &T_target);
    for (int attempt = 0; attempt < N_TRIES && !err; attempt++) {
        struct stand second = draw_stand(&random);
        if (!out->strangers)
            second.yaw_deg = first.yaw_deg + testrandom_uniform(&random, -100, 100);
        cloud_free(&out->source);
        err =
            make_piece(&camera, &rooms[out->strangers], &second, &random, &out->source, &T_source);
        if (err || out->strangers)
            break;
        double overlaps[2] = {0};
        out->truth = se3_between(&T_target, &T_source);
        const struct se3 back = se3_inverse(&out->truth);
        err = overlap_of(&out->source, &out->target, &out->truth, &overlaps[0]);
        err = err ? err : overlap_of(&out->target, &out->source, &back, &overlaps[1]);
        out->overlap = fmin(overlaps[0], overlaps[1]);
        if (out->overlap >= LEAST && out->overlap <= MOST)
            break;
    }
    camera_close(&camera);
    if (err)
        bench_generated_free(out);
    return err;
}

void bench_generated_free(struct bench_generated *pair)
{
    cloud_free(&pair->source);
    cloud_free(&pair->target);
}

// SPDX-License-Identifier: Apache-2.0
// Generated pieces of rooms: random rooms, seen by the synthetic Kinect with all that stays
// (capture/synth/sensor_error.h), fused into a model as public sets of pieces are (Zeng et al.,
// "3DMatch", 2017), with poses that drift.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capture/synth/motion.h"
#include "capture/synth/scene.h"
#include "gpu/model/surface_nets.h"
#include "proto/se3.h"
#include "tools/bench/register_furniture.h"
#include "tools/bench/register_pairs.h"
#include "tools/bench/testrandom.h"

#define WIDTH        320
#define HEIGHT       240
#define N_FRAMES     24
#define FAR_M        3.5 // what a reconstruction takes
#define VOXEL_M      0.008f
#define LEAST_WEIGHT 8     // as posed exports its map
#define NEAR_M       0.04  // of a counterpart
#define DRIFT_M      0.008 // over a piece, about
#define DRIFT_RAD    0.006
#define N_TRIES      60
#define LEAST        0.3
#define MOST         0.8

// A set of cells: a hash table with open addressing.
struct cells {
    struct cell {
        int32_t at[3];
        bool is_there;
    } * cell;
    size_t n_slots;
};

static int cells_create(size_t n_points, struct cells *out)
{
    *out = (struct cells){NULL, 1024};
    while (out->n_slots < 2 * n_points)
        out->n_slots *= 2;
    out->cell = calloc(out->n_slots, sizeof *out->cell);
    return out->cell ? 0 : -ENOMEM;
}

static struct cell *cells_find(const struct cells *cells, const int32_t at[3])
{
    uint64_t key = (uint64_t)(uint32_t)at[0] * 0x9e3779b97f4a7c15u ^
                   (uint64_t)(uint32_t)at[1] * 0xbf58476d1ce4e5b9u ^
                   (uint64_t)(uint32_t)at[2] * 0x94d049bb133111ebu;
    size_t slot = (size_t)testrandom_next(&key) & (cells->n_slots - 1);
    while (cells->cell[slot].is_there && memcmp(cells->cell[slot].at, at, 3 * sizeof *at) != 0)
        slot = (slot + 1) & (cells->n_slots - 1);
    return &cells->cell[slot];
}

static void cells_add(struct cells *cells, const double p[3])
{
    int32_t at[3];
    for (int k = 0; k < 3; k++)
        at[k] = (int32_t)floor(p[k] / NEAR_M);
    struct cell *cell = cells_find(cells, at);
    memcpy(cell->at, at, sizeof at);
    cell->is_there = true;
}

// What looks, and what fuses.
struct camera {
    struct intrinsics intrinsics;
    uint64_t camera_seed, seed, frame;
    uint16_t *depth;
    struct gpu *gpu;
    struct gpu_frame *image;
    struct model *model;
};

// The fused surface's points.
static int read_model(struct model *model, struct cloud *out)
{
    struct model_surface surface = {0};
    struct model_stats stats;
    struct model_block *blocks = NULL;
    uint32_t n = 0;
    int err = model_stats_get(model, &stats);
    const uint32_t room = err ? 0 : stats.n_blocks + stats.n_far;
    if (!err && !(blocks = malloc((room + 1) * sizeof *blocks)))
        err = -ENOMEM;
    err = err ? err : model_read(model, blocks, room, &n);
    if (!err) {
        model_order(blocks, n);
        err = model_surface_create(blocks, n, VOXEL_M, LEAST_WEIGHT, &surface);
    }
    err = err ? err : cloud_alloc(out, surface.n_points, false);
    if (!err && surface.n_points) {
        memcpy(out->x_m, surface.x_m, surface.n_points * sizeof *out->x_m);
        memcpy(out->y_m, surface.y_m, surface.n_points * sizeof *out->y_m);
        memcpy(out->z_m, surface.z_m, surface.n_points * sizeof *out->z_m);
    }
    model_surface_free(&surface);
    free(blocks);
    return err;
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
static int make_piece(struct camera *camera, const struct furnished_room *room,
                      const struct stand *stand, uint64_t *random, struct cloud *out,
                      struct se3 *out_T)
{
    struct scene *scene;
    double drift[6];
    int err = scene_create_of(&scene, room->shapes, (size_t)room->n, &camera->intrinsics);
    err = err ? err : scene_set_sensor(scene, SCENE_SENSOR_UNKIND, camera->camera_seed);
    err = err ? err : model_clear(camera->model);
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
        scene_render_noisy(scene, &T_world_camera, camera->seed, camera->frame++, camera->depth);
        err = gpu_prepare(camera->gpu, camera->depth, camera->image);
        err = err ? err : model_integrate(camera->model, camera->image, &T_piece);
    }
    err = err ? err : read_model(camera->model, out);
    scene_destroy(&scene);
    return err;
}

// Share of a's points that have a neighbour in b, about: within the cells around.
static int overlap_of(const struct cloud *a, const struct cloud *b, const struct se3 *T_b_a,
                      double *out)
{
    struct cells cells;
    int err = cells_create(b->n_points, &cells);
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
            near = cells_find(&cells, at)->is_there;
        }
        n_near += near;
    }
    *out = a->n_points ? (double)n_near / (double)a->n_points : 0;
    free(cells.cell);
    return err;
}

static int camera_open(struct camera *camera, uint64_t *random)
{
    struct gpu_settings settings;
    struct model_settings model;
    memset(camera, 0, sizeof *camera);
    camera->intrinsics = (struct intrinsics){262.5, 262.5, 159.5, 119.5, WIDTH, HEIGHT};
    camera->seed = testrandom_next(random);
    camera->camera_seed = testrandom_next(random);
    camera->depth = malloc(WIDTH * HEIGHT * sizeof *camera->depth);
    if (!camera->depth)
        return -ENOMEM;
    gpu_settings_default(&settings);
    settings.camera = camera->intrinsics;
    settings.units_per_m = SCENE_UNITS_PER_M;
    settings.depth_max_m = FAR_M;
    settings.n_threads = 1;
    model_settings_default(&model);
    model.voxel_m = VOXEL_M;
    int err = gpu_open(&camera->gpu, GPU_BACKEND_CPU, &settings);
    err = err ? err : gpu_frame_create(camera->gpu, &camera->image);
    return err ? err : model_create(&camera->model, camera->gpu, &model);
}

static void camera_close(struct camera *camera)
{
    model_destroy(&camera->model);
    if (camera->image)
        gpu_frame_destroy(camera->gpu, &camera->image);
    if (camera->gpu)
        gpu_close(&camera->gpu);
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
    struct furnished_room *rooms = malloc(2 * sizeof *rooms);
    struct se3 T_target, T_source;
    memset(out, 0, sizeof *out);
    random = testrandom_next(&random);
    int err = rooms ? camera_open(&camera, &random) : -ENOMEM;
    out->strangers = seed % 5 == 4;
    for (int i = 0; i < 2 && !err; i++)
        furniture_make_room(&random, &rooms[i]);
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
    free(rooms);
    if (err)
        bench_generated_free(out);
    return err;
}

void bench_generated_free(struct bench_generated *pair)
{
    cloud_free(&pair->source);
    cloud_free(&pair->target);
}

// SPDX-License-Identifier: Apache-2.0
// Each shape is traced over the rectangle of pixels that its bounding box covers, into one depth
// buffer: no tree, no branches in the pixel loops. About 40 shapes cost less than 10 ms a frame.
#include "capture/synth/scene.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capture/synth/kinect_noise.h"
#include "capture/synth/motion.h"
#include "capture/synth/sensor_error.h"
#include "capture/synth/shapes.h"
#include "proto/se3.h"

#define ROW_SLACK   16 // what shape_trace_row may read beyond a row
#define MAX_SIDE_PX 4096u

// A shape where it stands: centre, half sizes, turned about the vertical and tilted.
struct placed {
    enum shape_kind kind;
    double at_m[3], half_m[3];
    double yaw_deg, pitch_deg;
};

static const struct placed room[] = {
    {SHAPE_ROOM, {0, 0, 0}, {2.4, 1.3, 2.8}, 0, 0},
    // Ahead: table with things on it, crate with a ring on it, wavy panel, beam, lamp.
    {SHAPE_BOX, {0.9, 0.55, 1.7}, {0.6, 0.02, 0.4}, 0, 0},
    {SHAPE_PIPE, {0.4, 0.94, 1.4}, {0.035, 0.36, 0.035}, 0, 0},
    {SHAPE_PIPE, {1.4, 0.94, 1.4}, {0.035, 0.36, 0.035}, 0, 0},
    {SHAPE_PIPE, {0.4, 0.94, 2.0}, {0.035, 0.36, 0.035}, 0, 0},
    {SHAPE_PIPE, {1.4, 0.94, 2.0}, {0.035, 0.36, 0.035}, 0, 0},
    {SHAPE_ELLIPSOID, {0.62, 0.39, 1.6}, {0.14, 0.14, 0.14}, 0, 0},
    {SHAPE_BOX, {1.1, 0.35, 1.85}, {0.15, 0.18, 0.11}, 30, 0},
    {SHAPE_CONE, {1.32, 0.41, 1.5}, {0.08, 0.12, 0.08}, 0, 0},
    {SHAPE_BOX, {-0.8, 0.9, 1.5}, {0.3, 0.4, 0.3}, 25, 0},
    {SHAPE_TORUS, {-0.8, 0.2, 1.5}, {0.3, 0.3, 0.085}, 40, 0},
    {SHAPE_WAVES, {-1.2, -0.3, 2.75}, {0.9, 0.7, 0.05}, 0, 0},
    {SHAPE_BOX, {0.9, -0.45, 2.65}, {0.55, 0.03, 0.15}, 0, 0},
    {SHAPE_BOX, {0.6, -0.65, 2.68}, {0.05, 0.17, 0.1}, 0, 0},
    {SHAPE_BOX, {0.75, -0.6, 2.66}, {0.06, 0.12, 0.1}, 0, 0},
    {SHAPE_ELLIPSOID, {1.2, -0.58, 2.62}, {0.1, 0.1, 0.1}, 0, 0},
    {SHAPE_BOX, {0, -1.2, 1.5}, {2.4, 0.1, 0.1}, 0, 0},
    {SHAPE_ELLIPSOID, {0.1, -1.0, 0.7}, {0.25, 0.12, 0.25}, 0, 0},
    // To the right: sideboard with doors ajar and things on it, leaning panel, column.
    {SHAPE_BOX, {2.1, 0.8, 0.1}, {0.3, 0.5, 0.8}, 0, 0},
    {SHAPE_ELLIPSOID, {2.05, 0.15, -0.3}, {0.13, 0.16, 0.13}, 0, 0},
    {SHAPE_BOX, {2.1, 0.1, 0.35}, {0.12, 0.2, 0.2}, -40, 0},
    {SHAPE_BOX, {1.72, 0.75, -0.2}, {0.2, 0.3, 0.02}, 35, 0},
    {SHAPE_BOX, {1.72, 0.75, 0.4}, {0.2, 0.3, 0.02}, -35, 0},
    {SHAPE_PIPE, {2.0, 0.14, 0.02}, {0.07, 0.16, 0.07}, 0, 0},
    {SHAPE_BOX, {2.3, -0.5, 0.0}, {0.05, 0.35, 0.5}, 0, 25},
    {SHAPE_PIPE, {1.9, 0, -1.3}, {0.2, 1.3, 0.2}, 0, 0},
    // Behind: sofa with cushions, ball, wavy panel, beam.
    {SHAPE_BOX, {0.1, 1.0, -2.2}, {1.0, 0.3, 0.45}, 0, 0},
    {SHAPE_BOX, {0.1, 0.6, -2.6}, {1.0, 0.7, 0.15}, 0, -8},
    {SHAPE_BOX, {-0.9, 0.75, -2.2}, {0.1, 0.5, 0.45}, 0, 0},
    {SHAPE_BOX, {1.1, 0.75, -2.2}, {0.1, 0.5, 0.45}, 0, 0},
    {SHAPE_ELLIPSOID, {0.6, 0.5, -2.3}, {0.26, 0.2, 0.12}, 20, 20},
    {SHAPE_ELLIPSOID, {-0.4, 0.5, -2.3}, {0.22, 0.22, 0.12}, -15, 20},
    {SHAPE_ELLIPSOID, {-1.4, 1.08, -1.7}, {0.22, 0.22, 0.22}, 0, 0},
    {SHAPE_WAVES, {0.4, -0.6, -2.75}, {0.9, 0.45, 0.04}, 180, 0},
    {SHAPE_BOX, {0, -1.2, -1.4}, {2.4, 0.1, 0.1}, 0, 0},
    // To the left: bookcase, crate, ring on the wall, step.
    {SHAPE_BOX, {-2.25, 0.1, 0.5}, {0.15, 1.2, 0.5}, 0, 0},
    {SHAPE_BOX, {-2.05, -0.5, 0.3}, {0.1, 0.22, 0.2}, 0, 0},
    {SHAPE_BOX, {-2.05, 0.3, 0.7}, {0.12, 0.25, 0.15}, 0, 0},
    {SHAPE_BOX, {-1.9, 0.95, 0.4}, {0.3, 0.35, 0.35}, 0, 0},
    {SHAPE_BOX, {-1.7, 1.0, -0.7}, {0.3, 0.3, 0.3}, 40, 0},
    {SHAPE_CONE, {-1.7, 0.4, -0.7}, {0.16, 0.3, 0.16}, 0, 0},
    {SHAPE_TORUS, {-2.3, -0.3, -0.7}, {0.35, 0.35, 0.09}, 90, 0},
};

static const struct placed corridor[] = {{SHAPE_ROOM, {0, 0, 0}, {1.0, 1.3, 10000}, 0, 0}};
static const struct placed wall[] = {{SHAPE_BOX, {0, 0, 2.1}, {1000, 1000, 0.5}, 0, 0}};

static const struct {
    const char *name;
    const struct placed *shapes;
    size_t n_shapes;
} scenes[] = {
    {"room", room, sizeof room / sizeof *room},
    {"corridor", corridor, sizeof corridor / sizeof *corridor},
    {"wall", wall, sizeof wall / sizeof *wall},
    {"nothing", NULL, 0},
};

struct scene {
    struct intrinsics camera;
    struct shape *shapes;
    size_t n_shapes;
    float *x_norm; // (u - cx) / fx
    float *z_m;
    struct kinect_noise *noise;
    enum scene_sensor sensor;
    struct sensor_error *error; // NULL: kind
};

struct intrinsics scene_default_camera(void)
{
    return (struct intrinsics){525, 525, 319.5, 239.5, 640, 480};
}

void scene_set_lens(struct scene *scene, const struct intrinsics *lens)
{
    scene->camera = *lens;
    for (uint32_t u = 0; u < lens->width_px + ROW_SLACK; u++)
        scene->x_norm[u] = (float)((u - lens->cx_px) / lens->fx_px);
}

static int create(struct scene **out, size_t n_shapes, const struct intrinsics *camera)
{
    const uint32_t width = camera->width_px, height = camera->height_px;
    *out = NULL;
    if (width - 1 >= MAX_SIDE_PX || height - 1 >= MAX_SIDE_PX)
        return -EINVAL;
    struct scene *scene = calloc(1, sizeof *scene);
    if (!scene)
        return -ENOMEM;
    scene->n_shapes = n_shapes;
    scene->shapes = calloc(scene->n_shapes + 1, sizeof *scene->shapes);
    scene->x_norm = malloc((width + ROW_SLACK) * sizeof *scene->x_norm);
    scene->z_m = malloc((size_t)width * height * sizeof *scene->z_m);
    if (!scene->shapes || !scene->x_norm || !scene->z_m ||
        kinect_noise_create(&scene->noise, camera) < 0) {
        scene_destroy(&scene);
        return -ENOMEM;
    }
    scene_set_lens(scene, camera);
    *out = scene;
    return 0;
}

int scene_create(struct scene **out, const char *name, const struct intrinsics *camera)
{
    *out = NULL;
    size_t s = 0;
    while (s < sizeof scenes / sizeof *scenes && strcmp(scenes[s].name, name) != 0)
        s++;
    if (s == sizeof scenes / sizeof *scenes)
        return -ENOENT;
    int status = create(out, scenes[s].n_shapes, camera);
    for (size_t i = 0; status == 0 && i < scenes[s].n_shapes; i++) {
        const struct placed *p = &scenes[s].shapes[i];
        struct shape *shape = &(*out)->shapes[i];
        shape->kind = p->kind;
        memcpy(shape->half_m, p->half_m, sizeof shape->half_m);
        shape->T_world_shape =
            motion_pose(p->at_m[0], p->at_m[1], p->at_m[2], p->yaw_deg, p->pitch_deg, 0);
    }
    return status;
}

int scene_create_of(struct scene **out, const struct shape *shapes, size_t n_shapes,
                    const struct intrinsics *camera)
{
    int status = create(out, n_shapes, camera);
    if (status == 0)
        memcpy((*out)->shapes, shapes, n_shapes * sizeof *shapes);
    return status;
}

void scene_destroy(struct scene **scene)
{
    if (!*scene)
        return;
    free((*scene)->shapes);
    free((*scene)->x_norm);
    free((*scene)->z_m);
    kinect_noise_destroy(&(*scene)->noise);
    sensor_error_destroy(&(*scene)->error);
    free(*scene);
    *scene = NULL;
}

int scene_set_sensor(struct scene *scene, enum scene_sensor sensor, uint64_t camera_seed)
{
    sensor_error_destroy(&scene->error);
    scene->sensor = SCENE_SENSOR_KIND;
    int status = sensor == SCENE_SENSOR_KIND
                     ? 0
                     : sensor_error_create(&scene->error, &scene->camera, camera_seed);
    if (status == 0)
        scene->sensor = sensor;
    return status;
}

struct pixel_rect {
    uint32_t u0, u1, v0, v1; // half open
};

static uint32_t clamp_pixel(double value, uint32_t size)
{
    return value < 0 ? 0 : value > size ? size : (uint32_t)value;
}

// Pixels that the shape's bounding box may cover; all of them when it reaches behind the camera.
static struct pixel_rect covered_pixels(const struct shape *shape, const struct intrinsics *camera,
                                        const struct se3 *T_shape_camera)
{
    struct pixel_rect all = {0, camera->width_px, 0, camera->height_px};
    struct se3 T_camera_shape = se3_inverse(T_shape_camera);
    double low_u = 1e9, high_u = -1e9, low_v = 1e9, high_v = -1e9, high_z = 0;
    bool crosses = false;
    for (int corner = 0; corner < 8; corner++) {
        double p[3], q[3];
        for (int k = 0; k < 3; k++)
            p[k] = corner >> k & 1 ? shape->half_m[k] : -shape->half_m[k];
        se3_apply(&T_camera_shape, p, q);
        high_z = fmax(high_z, q[2]);
        if (q[2] < 0.02) {
            crosses = true;
            continue;
        }
        double u = camera->fx_px * q[0] / q[2] + camera->cx_px;
        double v = camera->fy_px * q[1] / q[2] + camera->cy_px;
        low_u = fmin(low_u, u), high_u = fmax(high_u, u);
        low_v = fmin(low_v, v), high_v = fmax(high_v, v);
    }
    if (high_z <= 0)
        return (struct pixel_rect){0, 0, 0, 0};
    if (crosses)
        return all;
    return (struct pixel_rect){
        clamp_pixel(low_u - 1, camera->width_px), clamp_pixel(high_u + 2, camera->width_px),
        clamp_pixel(low_v - 1, camera->height_px), clamp_pixel(high_v + 2, camera->height_px)};
}

void scene_render_exact(struct scene *scene, const struct se3 *T_world_camera, float *out_z_m)
{
    const struct intrinsics *camera = &scene->camera;
    const size_t width = camera->width_px;
    for (size_t i = 0; i < width * camera->height_px; i++)
        out_z_m[i] = INFINITY;
    for (size_t i = 0; i < scene->n_shapes; i++) {
        const struct shape *shape = &scene->shapes[i];
        struct se3 T_shape_camera = se3_between(&shape->T_world_shape, T_world_camera);
        struct pixel_rect rect = covered_pixels(shape, camera, &T_shape_camera);
        for (uint32_t v = rect.v0; v < rect.v1; v++) {
            float y_norm = (float)((v - camera->cy_px) / camera->fy_px);
            shape_trace_row(shape, &T_shape_camera, scene->x_norm, y_norm, rect.u0, rect.u1,
                            out_z_m + v * width);
        }
    }
}

void scene_render_clean(struct scene *scene, const struct se3 *T_world_camera, uint16_t *out_depth)
{
    scene_render_exact(scene, T_world_camera, scene->z_m);
    if (scene->error)
        sensor_error_apply_field(scene->error, scene->z_m);
    const float units = (float)SCENE_UNITS_PER_M;
    size_t n = (size_t)scene->camera.width_px * scene->camera.height_px;
    for (size_t i = 0; i < n; i++) {
        float value = scene->z_m[i] * units + 0.5f;
        out_depth[i] = (uint16_t)(value < 65001 ? value : 0);
    }
}

void scene_render_noisy(struct scene *scene, const struct se3 *T_world_camera, uint64_t seed,
                        uint64_t frame, uint16_t *out_depth)
{
    scene_render_exact(scene, T_world_camera, scene->z_m);
    if (scene->sensor == SCENE_SENSOR_FIELD)
        sensor_error_apply_field(scene->error, scene->z_m);
    else if (scene->error)
        sensor_error_apply(scene->error, T_world_camera, seed, frame, scene->z_m);
    kinect_noise_apply(scene->noise, scene->z_m, seed, frame, SCENE_UNITS_PER_M, out_depth);
    if (scene->sensor == SCENE_SENSOR_SPARSE)
        sensor_error_thin(scene->error, frame, out_depth);
}

void scene_render_nothing(struct scene *scene, uint16_t *out_depth)
{
    size_t n = (size_t)scene->camera.width_px * scene->camera.height_px;
    memset(out_depth, 0, n * sizeof *out_depth);
}

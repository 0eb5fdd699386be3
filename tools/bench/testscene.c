// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/testscene.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/search/cpu/raster.h"
#include "gpu/search/kernels/raster.h"
#include "proto/se3.h"
#include "tools/bench/household.h"
#include "tools/bench/placement.h"
#include "tools/bench/testmesh.h"
#include "tools/bench/testrandom.h"
#include "tools/bench/testsensor.h"

#define WIDTH     640
#define HEIGHT    480
#define N_PIXELS  (WIDTH * HEIGHT)
#define FOCAL_PX  TESTSENSOR_CHIP_FOCAL_PX
#define ZOOM_MOST 1.9 // of a colour camera that depth is registered to

// The camera's height above the table when things rest as real ones do [rad].
#define ELEVATION_FROM 0.3
#define ELEVATION_TO   1.25

// How far the surface of such a thing lies off its model, besides, at most: of some a scan is the
// model, of others a drawing.
#define WARP_MOST_M 0.002

struct canvas {
    double focal_px;
    float *depth; // -1/z of all that is drawn so far
    float *alone; // the object without anything else
    float *table; // the table without anything else
    struct raster_point *corners;
    float *value;
    size_t n_vertices; // capacity
};

static int canvas_draw(struct canvas *c, const struct testscene_mesh *mesh, const struct se3 *T,
                       float *depth)
{
    if (mesh->n_vertices > c->n_vertices) {
        free(c->corners);
        free(c->value);
        c->corners = malloc(mesh->n_vertices * sizeof *c->corners);
        c->value = malloc(mesh->n_vertices * sizeof *c->value);
        c->n_vertices = mesh->n_vertices;
        if (!c->corners || !c->value)
            return -ENOMEM;
    }
    for (size_t i = 0; i < mesh->n_vertices; i++) {
        double p[3], q[3];
        for (int k = 0; k < 3; k++)
            p[k] = (double)mesh->vertices_m[3 * i + (size_t)k];
        se3_apply(T, p, q);
        bool front = q[2] > 0.05;
        c->corners[i].x =
            raster_snap(front ? (float)(c->focal_px * q[0] / q[2] + (WIDTH - 1) / 2.0) : 1e9f);
        c->corners[i].y =
            raster_snap(front ? (float)(c->focal_px * q[1] / q[2] + (HEIGHT - 1) / 2.0) : 1e9f);
        c->value[i] = (float)(-1 / q[2]);
    }
    struct raster_mesh raster = {c->corners, c->value, mesh->triangles,
                                 (uint32_t)mesh->n_triangles};
    raster_draw(&raster, WIDTH, HEIGHT, depth, NULL);
    return 0;
}

// The camera looks at the world's origin from `distance`, `elevation` above the table.
static struct se3 camera_from_world(double distance, double elevation)
{
    double c = cos(elevation), s = sin(elevation);
    // Rows: right, down, forward of the camera in the world.
    struct se3 T = {{0, 1, 0, s, 0, -c, -c, 0, -s}, {0, 0, distance}};
    return T;
}

static int add_table(struct canvas *canvas, const struct se3 *T_camera_world)
{
    struct testscene_mesh table = {0};
    int err = testmesh_add_box(&table, (double[6]){-0.2, 0, -0.02, 0.7, 0.8, 0.02});
    if (!err)
        err = testmesh_add_box(&table, (double[6]){-1.3, 0, 0.2, 0.02, 2, 1.2}); // a wall behind
    if (!err)
        err = canvas_draw(canvas, &table, T_camera_world, canvas->depth);
    testscene_mesh_free(&table);
    return err;
}

// A thing at (x, y) of the table, with what it stands on.
static int draw_placed(struct canvas *canvas, const struct testscene_mesh *mesh,
                       const struct placement *placed, const struct se3 *T_camera_world, double x,
                       double y)
{
    const double shift[3] = {x, y, 0};
    struct se3 W = placed->T_world_mesh, prop = *T_camera_world;
    W.t_m[0] += x;
    W.t_m[1] += y;
    se3_apply(T_camera_world, shift, prop.t_m);
    const struct se3 T = se3_compose(T_camera_world, &W);
    int err = canvas_draw(canvas, mesh, &T, canvas->depth);
    if (!err && placed->prop.n_triangles > 0)
        err = canvas_draw(canvas, &placed->prop, &prop, canvas->depth);
    return err;
}

// One piece on the table, around the object at its origin.
static int add_on_table(struct canvas *canvas, const struct testscene_settings *settings,
                        const struct se3 *T_camera_world, const struct placement_footprint *object,
                        int i, bool hide, const struct testscene_mesh *mesh, uint64_t *random)
{
    const bool unkind = settings->sensor != TESTSCENE_SENSOR_KIND;
    struct placement placed;
    int err = placement_draw(mesh, settings->placement, random, &placed);
    double angle = testrandom_uniform(random, 0, 2 * M_PI),
           r = testrandom_uniform(random, 0.12, 0.45);
    // Towards the camera (+x) when it is to hide something.
    if (hide && i < 3) {
        angle = testrandom_uniform(random, -0.7, 0.7);
        r = testrandom_uniform(random, 0.07, 0.16);
    }
    if (unkind && i % 3 == 0 && !hide) // beside it, often in contact
        r = testrandom_uniform(random, 0.05, 0.14);
    if (!err && settings->placement == TESTSCENE_PLACEMENT_RESTING) {
        struct placement_footprint own;
        placement_footprint_of(mesh, &placed, &own);
        r = fmax(r, placement_contact_m(object, &own, angle));
    }
    if (!err)
        err = draw_placed(canvas, mesh, &placed, T_camera_world, r * cos(angle), r * sin(angle));
    placement_free(&placed);
    return err;
}

static int add_clutter(struct canvas *canvas, const struct testscene_settings *settings,
                       const struct se3 *T_camera_world, const struct placement_footprint *object,
                       const struct se3 *T_camera_model, bool hide, uint64_t *random)
{
    const bool unkind = settings->sensor != TESTSCENE_SENSOR_KIND;
    const bool rests = settings->placement == TESTSCENE_PLACEMENT_RESTING;
    int n = (int)testrandom_uniform(random, unkind ? 8 : 4, unkind ? 17 : 9);
    for (int i = 0; i < n; i++) {
        struct testscene_mesh mesh;
        const bool household = rests && testrandom_next(random) % 3 == 0;
        int err = household ? household_make(testrandom_next(random), &mesh)
                            : testmesh_clutter(random, &mesh);
        if (err)
            return err;
        if (settings->kind == TESTSCENE_KIND_TABLE) {
            err = add_on_table(canvas, settings, T_camera_world, object, i, hide, &mesh, random);
        } else {
            struct se3 T = placement_rotation(random);
            double angle = testrandom_uniform(random, 0, 2 * M_PI),
                   r = testrandom_uniform(random, 0.05, 0.4);
            bool front = hide && i < 2;
            T.t_m[0] = T_camera_model->t_m[0] + (front ? 0.3 * r : r) * cos(angle);
            T.t_m[1] = T_camera_model->t_m[1] + (front ? 0.3 * r : r) * sin(angle);
            T.t_m[2] = T_camera_model->t_m[2] + testrandom_uniform(random, 0.22, 0.6);
            err = canvas_draw(canvas, &mesh, &T, canvas->depth);
        }
        testscene_mesh_free(&mesh);
        if (err)
            return err;
    }
    return 0;
}

// Whether pixel u of a row is in the projector's shadow: of the pixels in a row only those are
// reached whose column in the projector lies beyond that of all before. z: -1/z of the scene.
static bool in_shadow(int u, float z, double *reached)
{
    const double baseline_px_m = FOCAL_PX * 0.075;
    double seen = u + baseline_px_m * (double)z;
    bool shadow = seen < *reached - 1;
    *reached = seen > *reached ? seen : *reached;
    return shadow;
}

#define RANGE_MIN_M 0.4
#define RANGE_MAX_M 4

// Pixels at which the object that stands alone in `alone` is seen in `depth`.
static int count_shown(const struct canvas *canvas, bool noise)
{
    int n = 0;
    for (int v = 0; v < HEIGHT; v++) {
        double reached = -INFINITY;
        for (int u = 0; u < WIDTH; u++) {
            const float alone = canvas->alone[v * WIDTH + u], all = canvas->depth[v * WIDTH + u];
            const float z = alone < all ? alone : all;
            if (!(z < INFINITY))
                continue;
            bool shadow = in_shadow(u, z, &reached);
            bool out_of_range = z < -1 / RANGE_MIN_M || z > -1 / RANGE_MAX_M;
            n += alone <= all && !(noise && (shadow || out_of_range));
        }
    }
    return n;
}

// Whether a surface ends within `reach` pixels of (u, v): depth jumps by 3 cm or more.
static bool near_edge(const float *depth, int u, int v, int reach)
{
    static const int du[4] = {1, -1, 0, 0}, dv[4] = {0, 0, 1, -1};
    const float here = -1 / depth[v * WIDTH + u];
    for (int k = 0; k < 4 && reach > 0; k++) {
        const int x = u + reach * du[k], y = v + reach * dv[k];
        if (x < 0 || y < 0 || x >= WIDTH || y >= HEIGHT)
            continue;
        const float there = depth[y * WIDTH + x];
        if (!(there < INFINITY) || fabsf(-1 / there - here) > 0.03f)
            return true;
    }
    return false;
}

// Depth as a Kinect v1 gives it: pixels that the projector (7.5 cm to the side) does not reach are
// invalid, the rest is a disparity with half a step of noise, whole steps of 2.85 mm at 1 m; edges
// fray by a pixel, and of those within 0 to 3 pixels of an edge, another number for each scene,
// two in three are lost. Returns at how many pixels the object is seen.
static int expose(const struct canvas *canvas, bool noise, uint64_t *random, struct testscene *out)
{
    const float *depth = canvas->depth;
    const int lost_px = noise ? (int)(testrandom_next(random) % 4) : 0;
    int n_shown = 0;
    for (int v = 0; v < HEIGHT; v++) {
        double reached = -INFINITY;
        for (int u = 0; u < WIDTH; u++) {
            int su = u, sv = v;
            if (noise) {
                su += (int)lrint(0.6 * testrandom_normal(random));
                sv += (int)lrint(0.4 * testrandom_normal(random));
                su = su < 0 ? 0 : su >= WIDTH ? WIDTH - 1 : su;
                sv = sv < 0 ? 0 : sv >= HEIGHT ? HEIGHT - 1 : sv;
            }
            float value = depth[sv * WIDTH + su], straight = depth[v * WIDTH + u];
            uint16_t *pixel = &out->depth[v * WIDTH + u];
            *pixel = 0;
            out->shown[v * WIDTH + u] = 0;
            out->z_m[v * WIDTH + u] = straight < INFINITY ? -1 / straight : 0;
            if (!(value < INFINITY) || !(straight < INFINITY))
                continue;
            double z = -1 / (double)value;
            if (noise) {
                bool shadow = in_shadow(u, straight, &reached);
                double step = 1 / (0.00285 * z) + 0.45 * testrandom_normal(random);
                z = 1 / (0.00285 * floor(step + 0.5));
                const double luck = testrandom_uniform(random, 0, 1);
                if (shadow || z > RANGE_MAX_M || z < RANGE_MIN_M || luck < 0.005 ||
                    (luck < 0.67 && near_edge(depth, u, v, lost_px)))
                    continue;
            }
            *pixel = (uint16_t)lrint(z * 1000);
            out->shown[v * WIDTH + u] = canvas->alone[v * WIDTH + u] <= straight;
            n_shown += canvas->alone[sv * WIDTH + su] <= value;
        }
    }
    return n_shown;
}

// The same by a sensor of testsensor.h. A pixel shows the object where its depth is the object's.
static int expose_unkind(const struct canvas *canvas, const struct testscene_settings *settings,
                         uint64_t *random, struct testscene *out, int *out_n_shown)
{
    const enum testscene_sensor sensor = settings->sensor;
    // Where things lie as real ones do, only they have gloss: tables are dull, and found as planes.
    const bool rests = settings->placement == TESTSCENE_PLACEMENT_RESTING;
    uint8_t *object = malloc(N_PIXELS), *matt = malloc(N_PIXELS);
    int err = object && matt ? 0 : -ENOMEM;
    for (int i = 0; i < N_PIXELS && !err; i++) {
        matt[i] = canvas->depth[i] == canvas->table[i];
        object[i] = canvas->alone[i] < INFINITY && canvas->alone[i] <= canvas->depth[i];
        out->z_m[i] = canvas->depth[i] < INFINITY ? -1 / canvas->depth[i] : 0;
    }
    const struct testsensor_scene scene = {out->z_m, object, rests ? matt : NULL,
                                           WIDTH,    HEIGHT, canvas->focal_px};
    const bool tof = sensor == TESTSCENE_SENSOR_TOF ||
                     (sensor == TESTSCENE_SENSOR_UNKIND && testrandom_next(random) % 3 == 0);
    if (!err)
        err = sensor == TESTSCENE_SENSOR_MATCHED ? testsensor_matched(&scene, random, out->depth)
              : tof                              ? testsensor_tof(&scene, random, out->depth)
                    : testsensor_registered(&scene, random, out->depth);
    *out_n_shown = 0;
    for (int i = 0; i < N_PIXELS && !err; i++) {
        const float off = fabsf((float)out->depth[i] * 1e-3f - out->z_m[i]);
        out->shown[i] = object[i] && out->depth[i] > 0 && off < 0.02f;
        *out_n_shown += out->shown[i];
    }
    free(object);
    free(matt);
    return err;
}

// The object among its clutter, in the canvas's two images.
static int arrange(const struct testscene_mesh *object, const struct testscene_settings *settings,
                   uint64_t *random, struct canvas *canvas, struct testscene *out, int *out_n_alone)
{
    const bool table = settings->kind == TESTSCENE_KIND_TABLE;
    const bool rests = table && settings->placement == TESTSCENE_PLACEMENT_RESTING;
    const bool hide = settings->visible_max < 0.9f;
    struct placement placed;
    struct placement_footprint footprint;
    for (int i = 0; i < N_PIXELS; i++)
        canvas->depth[i] = canvas->alone[i] = canvas->table[i] = INFINITY;
    int err = placement_draw(object, table ? settings->placement : TESTSCENE_PLACEMENT_FREE, random,
                             &placed);
    struct se3 T_camera_world = camera_from_world(
        testrandom_uniform(random, 0.55, 1.1),
        testrandom_uniform(random, rests ? ELEVATION_FROM : 0.5, rests ? ELEVATION_TO : 1.1));
    if (table) {
        const double y = testrandom_uniform(random, -0.2, 0.2);
        const double shift[3] = {testrandom_uniform(random, -0.12, 0.12), y, 0};
        // Clutter is arranged around the origin: the world is moved so that the object is there.
        se3_apply(&T_camera_world, shift, T_camera_world.t_m);
        out->T_camera_model = se3_compose(&T_camera_world, &placed.T_world_mesh);
        err = err ? err : add_table(canvas, &T_camera_world);
        memcpy(canvas->table, canvas->depth, N_PIXELS * sizeof *canvas->table);
        if (!err && placed.prop.n_triangles > 0)
            err = canvas_draw(canvas, &placed.prop, &T_camera_world, canvas->depth);
    } else {
        out->T_camera_model = placed.T_world_mesh;
        out->T_camera_model.t_m[0] = testrandom_uniform(random, -0.12, 0.12);
        out->T_camera_model.t_m[1] = testrandom_uniform(random, -0.1, 0.1);
        out->T_camera_model.t_m[2] = testrandom_uniform(random, 0.6, 0.9);
    }
    if (!err && rests)
        placement_footprint_of(object, &placed, &footprint);
    if (!err)
        err = add_clutter(canvas, settings, &T_camera_world, &footprint, &out->T_camera_model, hide,
                          random);
    placement_free(&placed);
    if (!err)
        err = canvas_draw(canvas, object, &out->T_camera_model, canvas->alone);
    const int n_shown =
        count_shown(canvas, settings->noise && settings->sensor == TESTSCENE_SENSOR_KIND);
    int n_alone = 0;
    for (int i = 0; i < N_PIXELS; i++) {
        n_alone += canvas->alone[i] < INFINITY;
        if (!settings->absent && canvas->alone[i] < canvas->depth[i])
            canvas->depth[i] = canvas->alone[i];
    }
    out->visible = n_alone ? (float)n_shown / (float)n_alone : 0;
    *out_n_alone = n_alone;
    return err;
}

int testscene_create(const struct testscene_mesh *object, const struct testscene_settings *settings,
                     struct testscene *out)
{
    memset(out, 0, sizeof *out);
    if (object->n_triangles == 0)
        return -EINVAL;
    // Mixed first: the generator walks in equal steps, so that seeds that follow each other would
    // give one stream shifted by a number, and the same arrangement again.
    uint64_t random = settings->seed;
    random = testrandom_next(&random);
    const bool zooms = settings->sensor == TESTSCENE_SENSOR_MATCHED;
    struct canvas canvas = {.focal_px =
                                FOCAL_PX * (zooms ? testrandom_uniform(&random, 1, ZOOM_MOST) : 1),
                            .depth = malloc(N_PIXELS * sizeof *canvas.depth),
                            .alone = malloc(N_PIXELS * sizeof *canvas.alone),
                            .table = malloc(N_PIXELS * sizeof *canvas.table)};
    out->camera = (struct intrinsics){canvas.focal_px,    canvas.focal_px, (WIDTH - 1) / 2.0,
                                      (HEIGHT - 1) / 2.0, WIDTH,           HEIGHT};
    out->depth = malloc(N_PIXELS * sizeof *out->depth);
    out->z_m = malloc(N_PIXELS * sizeof *out->z_m);
    out->shown = malloc(N_PIXELS * sizeof *out->shown);
    int err = canvas.depth && canvas.alone && canvas.table && out->depth && out->z_m && out->shown
                  ? 0
                  : -ENOMEM;
    struct testscene_mesh warped = {0};
    if (!err && settings->placement == TESTSCENE_PLACEMENT_RESTING &&
        settings->sensor != TESTSCENE_SENSOR_KIND) {
        const double off_m = testrandom_uniform(&random, 0, WARP_MOST_M);
        err = testmesh_warp(object, off_m, &random, &warped);
    }
    const struct testscene_mesh *shown = warped.n_triangles > 0 ? &warped : object;
    for (int attempt = 0; attempt < 200 && !err; attempt++) {
        int n_alone;
        err = arrange(shown, settings, &random, &canvas, out, &n_alone);
        // Noise only takes away: what is below is not worth the exposure.
        if (err || (attempt < 199 && out->visible < settings->visible_min))
            continue;
        int n_shown = 0;
        if (settings->noise && settings->sensor != TESTSCENE_SENSOR_KIND)
            err = expose_unkind(&canvas, settings, &random, out, &n_shown);
        else
            n_shown = expose(&canvas, settings->noise, &random, out);
        if (!settings->absent)
            out->visible = n_alone ? (float)n_shown / (float)n_alone : 0;
        if (out->visible >= settings->visible_min && out->visible <= settings->visible_max)
            break;
    }
    testscene_mesh_free(&warped);
    free(canvas.depth);
    free(canvas.alone);
    free(canvas.table);
    free(canvas.corners);
    free(canvas.value);
    if (err)
        testscene_free(out);
    return err;
}

void testscene_free(struct testscene *scene)
{
    free(scene->depth);
    free(scene->z_m);
    free(scene->shown);
    scene->depth = NULL;
    scene->z_m = NULL;
    scene->shown = NULL;
}

// SPDX-License-Identifier: Apache-2.0
// Two cameras on one body go through a corner of a room, each with a smooth error of its own, their
// odometry drifts, and one sits a little elsewhere than is said: all images adjusted at once come
// to lie where they were taken.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/camera.h"
#include "gpu/track/rig_adjustment.h"
#include "proto/se3.h"

#define WIDTH     160
#define HEIGHT    120
#define LEVEL     2
#define N         40u // images of each camera
#define FIELD     3e-3
#define TURN      6.283185307179586
#define PLACE_M   0.0025
#define PLACE_RAD 0.0016

static const struct intrinsics cameras[2] = {{525, 525, 319.5, 239.5, 640, 480},
                                             {560, 555, 310.0, 250.0, 640, 480}};
// n . p = d: floor, two walls, a table's top and front, a box.
static const double planes[][4] = {{0, -1, 0, -1.2},
                                   {0, 0, -1, -3},
                                   {-0.7071, 0, -0.7071, -2.6},
                                   {0.6, 0, -0.8, -2.9},
                                   {0.8, 0, -0.6, -2.2}};

static struct se3 T_true[2 * N], T_from[2 * N]; // of the cameras, in turn
static float *maps[2 * N];
static struct rig_adjustment_step steps[4 * N];
static uint32_t n_steps;

// What a camera sees, its inverse depth too small by its field.
static float *see(uint32_t camera, const struct se3 *T)
{
    const struct level_camera level = camera_level(&cameras[camera], LEVEL);
    float *map = calloc((size_t)WIDTH * HEIGHT, 4 * sizeof *map);
    assert_non_null(map);
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++) {
            const double ray[3] = {(x - (double)level.cx_px) / (double)level.fx_px,
                                   (y - (double)level.cy_px) / (double)level.fy_px, 1};
            float *out = map + 4 * (y * WIDTH + x);
            double nearest = INFINITY;
            for (size_t p = 0; p < sizeof planes / sizeof *planes; p++) {
                double n[3], d = planes[p][3];
                for (int k = 0; k < 3; k++) {
                    n[k] = T->r[k] * planes[p][0] + T->r[3 + k] * planes[p][1] +
                           T->r[6 + k] * planes[p][2];
                    d -= planes[p][k] * T->t_m[k];
                }
                const double z = d / (n[0] * ray[0] + n[1] * ray[1] + n[2] * ray[2]);
                if (!(z > 0.2 && z < nearest))
                    continue;
                nearest = z;
                for (int k = 0; k < 3; k++)
                    out[k] = (float)n[k];
            }
            // Of whole waves: no mean, which is not learnt.
            const double f =
                FIELD * (sin(TURN * x / WIDTH + camera) + cos(TURN * y / HEIGHT - camera));
            out[3] = isfinite(nearest) ? (float)(1 / (1 / nearest - f)) : 0;
        }
    return map;
}

static struct se3 body_at(double s)
{
    const double way[6] = {0.3 * sin(0.31 * s), 0.1 * sin(0.47 * s), 0.2 * sin(0.23 * s),
                           0.2 * sin(0.29 * s), 0.4 * sin(0.37 * s), 0.2 * sin(0.19 * s)};
    return se3_exp(way);
}

// As odometry has it, 5 mm and 5 mrad a step; of one time as well as nothing moves.
static void add_step(uint32_t i, uint32_t j, const struct se3 *said_j)
{
    struct rig_adjustment_step *step = &steps[n_steps++];
    *step = (struct rig_adjustment_step){.i = i, .j = j, .T_j_i = se3_between(said_j, &T_from[i])};
    for (int k = 0; k < 36; k += 7)
        step->information[k] = 1 / (0.005 * 0.005);
    if (i / 2 == j / 2)
        for (int k = 0; k < 36; k += 7)
            step->information[k] = 1e8;
}

// Image 2 k is the first camera's, 2 k + 1 the second's at the same time.
static int load(void **state)
{
    (void)state;
    const double mount[6] = {0.2, 0.03, -0.05, 0.1, -0.25, 0.08};
    const double away[6] = {0.002, -0.0015, 0.001, 0.001, -0.001, 0.0005};
    const double drift[6] = {0.001, -0.001, 0.002, 0.0005, 0.002, -0.001}; // of each step
    const struct se3 said = se3_exp(mount), moved = se3_exp(away), off = se3_exp(drift);
    const struct se3 T_body_side = se3_compose(&said, &moved);
    struct se3 T_odom = body_at(0);
    for (uint32_t k = 0; k < N; k++) {
        const struct se3 T_body = body_at(k);
        if (k > 0) {
            const struct se3 last = body_at(k - 1), step = se3_between(&last, &T_body);
            const struct se3 T = se3_compose(&T_odom, &step);
            T_odom = se3_compose(&T, &off);
        }
        T_true[2 * k] = T_body;
        T_true[2 * k + 1] = se3_compose(&T_body, &T_body_side);
        T_from[2 * k] = T_odom;
        T_from[2 * k + 1] = se3_compose(&T_odom, &said);
        for (uint32_t i = 0; i < 2; i++) {
            maps[2 * k + i] = see(i, &T_true[2 * k + i]);
            if (k > 0)
                add_step(2 * k - 2 + i, 2 * k + i, &T_from[2 * k + i]);
        }
        add_step(2 * k, 2 * k + 1, &T_from[2 * k + 1]);
    }
    return 0;
}

static int drop(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2 * N; i++)
        free(maps[i]);
    return 0;
}

static struct rig_adjustment make(struct rig_adjustment_image *images)
{
    for (uint32_t i = 0; i < 2 * N; i++)
        images[i] = (struct rig_adjustment_image){i % 2, maps[i], T_from[i]};
    return (struct rig_adjustment){.cameras = {cameras[0], cameras[1]},
                                   .n_cameras = 2,
                                   .map_level = LEVEL,
                                   .place_m = PLACE_M,
                                   .place_rad = PLACE_RAD,
                                   .images = images,
                                   .n_images = 2 * N,
                                   .steps = steps,
                                   .n_steps = n_steps};
}

// RMS over the images.
static double off_m(const struct rig_adjustment_image *images)
{
    double sum = 0;
    for (uint32_t i = 0; i < 2 * N; i++) {
        const struct se3 e = se3_between(&T_true[i], &images[i].T_world_image);
        for (int k = 0; k < 3; k++)
            sum += e.t_m[k] * e.t_m[k];
    }
    return sqrt(sum / (2 * N));
}

static void all_come_to_lie_where_they_were(void **state)
{
    (void)state;
    struct rig_adjustment_image images[2 * N];
    struct rig_adjustment what = make(images);
    struct rig_adjustment_report report;
    const double before_m = off_m(images);
    assert_int_equal(rig_adjustment_solve(&what, &report), 0);
    const double *t = report.moved[1].t_m;
    print_message("%.1f mm off, then %.2f; residual %.2f e-3 /m, then %.2f; %u pairs; the second "
                  "sits %.2f %.2f %.2f mm elsewhere (2.00 -1.50 1.00)\n",
                  before_m * 1e3, off_m(images) * 1e3, report.before_per_m * 1e3,
                  report.after_per_m * 1e3, report.n_pairs, t[0] * 1e3, t[1] * 1e3, t[2] * 1e3);
    assert_int_equal(report.n_pairs, 2400); // half of them of two cameras
    assert_true(before_m > 0.04);
    assert_true(off_m(images) < 0.001);
    assert_true(report.after_per_m < 0.1 * report.before_per_m);
    assert_true(hypot(hypot(t[0] - 0.002, t[1] + 0.0015), t[2] - 0.001) < 0.0005);
    for (int k = 0; k < 3; k++)
        assert_true(fabs(report.moved[0].t_m[k]) < 1e-12);
}

static bool at_once(void *user)
{
    ++*(int *)user;
    return true;
}

static void else_all_stays(void **state)
{
    (void)state;
    struct rig_adjustment_image images[2 * N];
    struct rig_adjustment_report report;
    struct rig_adjustment what = make(images);
    int n_asked = 0;
    what.stop = at_once;
    what.user = &n_asked;
    assert_int_equal(rig_adjustment_solve(&what, &report), -ECANCELED);
    assert_int_equal(n_asked, 1);
    what = make(images);
    what.n_images = 2 * N - 1; // one camera has an image less than is wanted
    assert_int_equal(rig_adjustment_solve(&what, &report), -ENODATA);
    what = make(images);
    what.n_images = RIG_ADJUSTMENT_MAX_IMAGES + 1;
    assert_int_equal(rig_adjustment_solve(&what, &report), -E2BIG);
    what = make(images);
    what.n_cameras = RIG_ADJUSTMENT_MAX_CAMERAS + 1;
    assert_int_equal(rig_adjustment_solve(&what, &report), -E2BIG);
    // Nobody sees what another sees.
    what = make(images);
    float *nothing = calloc((size_t)WIDTH * HEIGHT, 4 * sizeof *nothing);
    assert_non_null(nothing);
    for (uint32_t i = 0; i < 2 * N; i++)
        images[i].map = nothing;
    assert_int_equal(rig_adjustment_solve(&what, &report), -ENODATA);
    free(nothing);
    for (uint32_t i = 0; i < 2 * N; i++)
        assert_memory_equal(&images[i].T_world_image, &T_from[i], sizeof T_from[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_come_to_lie_where_they_were),
        cmocka_unit_test(else_all_stays),
    };
    return cmocka_run_group_tests(tests, load, drop);
}

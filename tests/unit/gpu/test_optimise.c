// SPDX-License-Identifier: Apache-2.0
// All keyframes adjusted at once, by a turn through the furnished room with an unkind camera whose
// exact poses are known: the camera's own error is found, the keyframes come to lie where they
// belong, and a graph that went on meanwhile takes it over.
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "capture/synth/motion.h"
#include "capture/synth/scene.h"
#include "gpu/model/optimise.h"
#include "proto/se3.h"

#define CAMERA  1 // which unkind one
#define SEED    1 // of its noise
#define SIDE    4u
#define WIDTH   160u
#define HEIGHT  120u
#define N_PX    (WIDTH * HEIGHT)
#define N       82u // a turn of 80, and two that see the start again
#define LATER   3u  // of them come while the others are adjusted
#define STEP_S  0.25
#define DRIFT_M 0.003 // a step, and as much in rad

static float z_m[N][N_PX];
static struct se3 T_true[N], T_odom[N];
static struct intrinsics camera;
static const struct log_sink quiet = {NULL, NULL};

// Means of 4 x 4 pixels, of those that have depth.
static void shrink(const uint16_t *depth, float *out_z_m)
{
    for (uint32_t i = 0; i < N_PX; i++) {
        double sum = 0;
        uint32_t n = 0;
        for (uint32_t k = 0; k < SIDE * SIDE; k++) {
            uint32_t u = SIDE * (i % WIDTH) + k % SIDE, v = SIDE * (i / WIDTH) + k / SIDE;
            uint16_t d = depth[v * SIDE * WIDTH + u];
            sum += d;
            n += d > 0;
        }
        out_z_m[i] = n > 0 ? (float)(sum / n / SCENE_UNITS_PER_M) : 0;
    }
}

static int load(void **state)
{
    (void)state;
    static uint16_t depth[SIDE * WIDTH * SIDE * HEIGHT];
    struct intrinsics whole = scene_default_camera();
    struct scene *scene;
    print_message("camera %d, seed %d\n", CAMERA, SEED);
    assert_int_equal(scene_create(&scene, "room", &whole), 0);
    assert_int_equal(scene_set_sensor(scene, SCENE_SENSOR_UNKIND, CAMERA), 0);
    camera = (struct intrinsics){whole.fx_px / SIDE,
                                 whole.fy_px / SIDE,
                                 (whole.cx_px + 0.5) / SIDE - 0.5,
                                 (whole.cy_px + 0.5) / SIDE - 0.5,
                                 WIDTH,
                                 HEIGHT};
    const double twist[6] = {DRIFT_M, 0, 0, 0, DRIFT_M, 0};
    const struct se3 drift = se3_exp(twist);
    for (uint32_t k = 0; k < N; k++) {
        T_true[k] = motion_at(MOTION_LOOP, STEP_S * k);
        scene_render_noisy(scene, &T_true[k], SEED, k, depth);
        shrink(depth, z_m[k]);
        T_odom[k] = T_true[k];
        if (k > 0) {
            struct se3 step = se3_between(&T_true[k - 1], &T_true[k]);
            struct se3 T = se3_compose(&T_odom[k - 1], &step);
            T_odom[k] = se3_compose(&T, &drift);
        }
    }
    scene_destroy(&scene);
    return 0;
}

static struct graph *make(void)
{
    struct graph *graph;
    struct graph_settings settings;
    graph_settings_default(&settings);
    assert_int_equal(graph_create(&graph, &camera, &settings, &quiet), 0);
    return graph;
}

static void add(struct graph *graph, uint32_t begin, uint32_t end)
{
    for (uint32_t k = begin; k < end; k++)
        assert_int_equal(graph_add(graph, k, (int64_t)(k * STEP_S * 1e9), z_m[k], &T_odom[k]), 0);
}

static double worst_m(const struct graph *graph)
{
    const struct graph_keyframe *keyframes;
    uint32_t n = graph_keyframes(graph, &keyframes);
    double worst = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct se3 e = se3_between(&T_true[keyframes[i].seq], &keyframes[i].T_map_camera);
        worst = fmax(worst, sqrt(e.t_m[0] * e.t_m[0] + e.t_m[1] * e.t_m[1] + e.t_m[2] * e.t_m[2]));
    }
    return worst;
}

static void all_are_put_right(void **state)
{
    (void)state;
    struct graph *graph = make(), *copy;
    struct optimise_report report;
    const atomic_bool go_on = false;
    add(graph, 0, N - LATER);
    assert_int_equal(graph_copy(&copy, graph, NULL), 0);
    add(graph, N - LATER, N);
    double before_m = worst_m(graph);
    assert_int_equal(optimise(copy, &go_on, NULL, &report), 0);
    print_message("worst keyframe %.1f mm, then %.1f; residual %.2f mm, then %.2f; a field that "
                  "lowers that of pairs aside by %.0f %%\n",
                  before_m * 1e3, worst_m(copy) * 1e3, report.before * 1e3, report.after * 1e3,
                  report.reduction * 100);
    assert_int_equal(report.n_keyframes, N - LATER);
    assert_true(report.has_field);
    assert_true(report.after < report.before);
    print_message("apart %.1f mm %.2f degrees, then %.1f mm %.2f degrees\n",
                  report.apart_before_m * 1e3, report.apart_before_rad * 57.3, report.apart_m * 1e3,
                  report.apart_rad * 57.3);
    assert_true(report.apart_m < report.apart_before_m / 2);
    assert_true(report.apart_rad < report.apart_before_rad / 2);
    assert_true(report.moved_m > 0.02);
    assert_true(before_m > 0.06);      // what was put in is there
    assert_true(worst_m(copy) < 0.03); // twice what surfaces and noise leave
    assert_int_equal(graph_take(graph, copy), 0);
    graph_destroy(&copy);
    // Those that came meanwhile hang on the others, with the drift of their steps.
    assert_true(worst_m(graph) < 0.03 + LATER * 2 * DRIFT_M);
    const struct graph_keyframe *keyframes;
    assert_int_equal(graph_keyframes(graph, &keyframes), N);
    struct se3 T = graph_T_map_odom(graph), newest = se3_compose(&T, &T_odom[N - 1]);
    struct se3 none = se3_between(&newest, &keyframes[N - 1].T_map_camera);
    assert_true(se3_angle(&none) < 1e-6);
    graph_destroy(&graph);
}

static void it_can_be_stopped(void **state)
{
    (void)state;
    struct graph *graph = make();
    struct optimise_report report;
    const atomic_bool stop = true;
    add(graph, 0, 2);
    assert_int_equal(optimise(graph, &stop, NULL, &report), -ENODATA); // too few
    add(graph, 2, 6);
    assert_int_equal(optimise(graph, &stop, NULL, &report), -ECANCELED);
    graph_destroy(&graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_put_right),
        cmocka_unit_test(it_can_be_stopped),
    };
    return cmocka_run_group_tests(tests, load, NULL);
}

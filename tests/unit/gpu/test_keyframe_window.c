// SPDX-License-Identifier: Apache-2.0
// The graph of keyframes against exact poses: a tracker that drifts by a known twist a keyframe is
// put right where the camera looks at the same place again, a bounded graph stays bounded, and the
// same input gives the same bits.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "capture/capture.h"
#include "gpu/model/pose_graph.h"
#include "proto/se3.h"

#define SIDE      4u // every so many pixels
#define STEP      6u // frames from one keyframe to the next
#define N         40u
#define MAX_PX    (640u / SIDE * 480u / SIDE)
#define DRIFT_M   0.001
#define DRIFT_RAD 0.001

static struct intrinsics camera; // of the small images
static float z_m[N][MAX_PX];
static struct se3 T_true[N], T_odom[N];
static const struct log_sink quiet = {NULL, NULL};

static int load(void **state)
{
    (void)state;
    struct capture *capture;
    struct capture_frame frame;
    const struct capture_settings settings = {.source = "synth:room-rotation,noise=off",
                                              .rate = CAPTURE_RATE_MAX};
    assert_int_equal(capture_open(&capture, &settings), 0);
    const struct capture_info *info = capture_info(capture);
    struct stamped_pose *truth = NULL;
    assert_true(capture_ground_truth(capture, &truth) >= (long)(N * STEP));
    camera = info->camera;
    camera.fx_px /= SIDE;
    camera.fy_px /= SIDE;
    camera.cx_px /= SIDE;
    camera.cy_px /= SIDE;
    camera.width_px /= SIDE;
    camera.height_px /= SIDE;
    for (uint32_t i = 0; i < N * STEP; i++) {
        assert_int_equal(capture_read(capture, -1, &frame), 0);
        if (i % STEP != 0)
            continue;
        const uint32_t k = i / STEP;
        for (uint32_t v = 0; v < camera.height_px; v++)
            for (uint32_t u = 0; u < camera.width_px; u++)
                z_m[k][v * camera.width_px + u] =
                    (float)(frame.image.depth[v * SIDE * info->camera.width_px + u * SIDE] /
                            info->units_per_m);
        T_true[k] = truth[i].T_world_camera;
    }
    free(truth);
    capture_close(&capture);
    // The drift: the same small twist with each step, as a real camera's error is.
    const double twist[6] = {DRIFT_M, 0, 0, 0, DRIFT_RAD, 0};
    const struct se3 drift = se3_exp(twist);
    T_odom[0] = T_true[0];
    for (uint32_t k = 1; k < N; k++) {
        struct se3 step = se3_between(&T_true[k - 1], &T_true[k]);
        struct se3 T = se3_compose(&T_odom[k - 1], &step);
        T_odom[k] = se3_compose(&T, &drift);
    }
    return 0;
}

static struct graph *make(uint32_t max_keyframes)
{
    struct graph *graph;
    struct graph_settings settings;
    graph_settings_default(&settings);
    settings.max_keyframes = max_keyframes;
    assert_int_equal(graph_create(&graph, &camera, &settings, &quiet), 0);
    return graph;
}

static void add_all(struct graph *graph)
{
    for (uint32_t k = 0; k < N; k++)
        assert_int_equal(graph_add(graph, k, 0, z_m[k], &T_odom[k]), 0);
}

static double error_m(const struct se3 *T, const struct se3 *truth)
{
    struct se3 e = se3_between(truth, T);
    return sqrt(e.t_m[0] * e.t_m[0] + e.t_m[1] * e.t_m[1] + e.t_m[2] * e.t_m[2]);
}

static void drift_is_taken_out(void **state)
{
    (void)state;
    struct graph *graph = make(N);
    const struct graph_keyframe *keyframes;
    double odom_m = 0, map_m = 0, odom_rad = 0, map_rad = 0;
    add_all(graph);
    assert_int_equal(graph_keyframes(graph, &keyframes), N);
    for (uint32_t k = 0; k < N; k++) {
        struct se3 o = se3_between(&T_true[k], &T_odom[k]);
        struct se3 m = se3_between(&T_true[k], &keyframes[k].T_map_camera);
        odom_m = fmax(odom_m, error_m(&T_odom[k], &T_true[k]));
        map_m = fmax(map_m, error_m(&keyframes[k].T_map_camera, &T_true[k]));
        odom_rad = fmax(odom_rad, se3_angle(&o));
        map_rad = fmax(map_rad, se3_angle(&m));
        assert_int_equal(keyframes[k].seq, k);
    }
    print_message("worst keyframe: %.1f mm, %.2f degrees as tracked; %.1f mm, %.2f degrees\n",
                  odom_m * 1e3, odom_rad * 57.3, map_m * 1e3, map_rad * 57.3);
    assert_true(odom_m > 0.02 && odom_rad > 0.03); // what was put in is there
    assert_true(map_m < 0.25 * odom_m);
    assert_true(map_rad < 0.25 * odom_rad);
    // T_map_odom is of the newest keyframe.
    struct se3 T = graph_T_map_odom(graph), newest = se3_compose(&T, &T_odom[N - 1]);
    assert_true(error_m(&newest, &keyframes[N - 1].T_map_camera) < 1e-9);
    graph_destroy(&graph);
    assert_null(graph);
}

static void the_same_bits(void **state)
{
    (void)state;
    struct graph *one = make(N), *two = make(N);
    const struct graph_keyframe *a, *b;
    add_all(one);
    add_all(two);
    graph_clear(two); // and again in the same memory
    add_all(two);
    assert_int_equal(graph_keyframes(one, &a), graph_keyframes(two, &b));
    for (uint32_t k = 0; k < N; k++)
        assert_memory_equal(&a[k].T_map_camera, &b[k].T_map_camera, sizeof a[k].T_map_camera);
    graph_destroy(&one);
    graph_destroy(&two);
}

static void memory_is_bounded(void **state)
{
    (void)state;
    struct graph *graph = make(12);
    const struct graph_keyframe *keyframes;
    add_all(graph);
    uint32_t n = graph_keyframes(graph, &keyframes);
    assert_int_equal(n, 12);
    assert_int_equal(keyframes[0].seq, 0); // what the map hangs on
    for (uint32_t k = 1; k < n; k++)
        assert_true(keyframes[k].seq > keyframes[k - 1].seq);
    assert_true(error_m(&keyframes[n - 1].T_map_camera, &T_true[N - 1]) <
                0.5 * error_m(&T_odom[N - 1], &T_true[N - 1]));
    graph_destroy(&graph);
}

static void no_depth_is_left_out(void **state)
{
    (void)state;
    static float nothing[MAX_PX];
    struct graph *graph = make(8);
    const struct graph_keyframe *keyframes;
    assert_int_equal(graph_add(graph, 0, 0, nothing, &T_odom[0]), 0);
    assert_int_equal(graph_keyframes(graph, &keyframes), 0);
    assert_int_equal(graph_add(graph, 1, 0, z_m[0], &T_odom[0]), 0);
    assert_int_equal(graph_add(graph, 2, 0, nothing, &T_odom[1]), 0);
    assert_int_equal(graph_keyframes(graph, &keyframes), 1);
    graph_destroy(&graph);
}

static void wrong_settings(void **state)
{
    (void)state;
    struct graph *graph = NULL;
    struct graph_settings settings;
    graph_settings_default(&settings);
    settings.max_keyframes = 3;
    assert_int_equal(graph_create(&graph, &camera, &settings, &quiet), -22);
    settings.max_keyframes = 8;
    settings.max_links = 17;
    assert_int_equal(graph_create(&graph, &camera, &settings, &quiet), -22);
    assert_null(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drift_is_taken_out), cmocka_unit_test(the_same_bits),
        cmocka_unit_test(memory_is_bounded),  cmocka_unit_test(no_depth_is_left_out),
        cmocka_unit_test(wrong_settings),
    };
    return cmocka_run_group_tests(tests, load, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// All keyframes adjusted at once: what is measured anew and what is kept, what is reported, and how
// the camera's own error is learnt and taken out. Links and that error are what the test says.
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/model/optimise.h"
#include "gpu/track/calibrate.h"
#include "tests/unit/gpu/fake_links.h"

#define N 6u

static const atomic_bool go_on = false, stop = true;

// What was asked of the calibration, and what it finds.
static uint32_t n_learnt_from;
static float learnt_map[CALIBRATE_MAX_FRAMES][4 * FAKE_PX];
static struct se3 T_learnt[CALIBRATE_MAX_FRAMES];
static int64_t time_learnt_ns[CALIBRATE_MAX_FRAMES];
static double reduction;
static int solve_rc;

int calibrate_create(struct calibrate **out, const struct intrinsics *camera,
                     const struct log_sink *log)
{
    (void)log;
    assert_true(camera->fx_px == 40 && camera->width_px == 12 && camera->height_px == 8);
    assert_true(camera->fy_px == 40 && camera->cx_px == 0 && camera->cy_px == 0);
    *out = NULL;
    return 0;
}

void calibrate_destroy(struct calibrate **calibrate)
{
    *calibrate = NULL;
}

void calibrate_set_limits(struct calibrate *calibrate, uint32_t map_level, uint32_t min_frames,
                          double max_apart_s, const atomic_bool *stopped, const struct yield *yield)
{
    (void)calibrate;
    (void)stopped;
    (void)yield;
    assert_true(map_level == 2 && min_frames == 40 && isinf(max_apart_s));
}

int calibrate_add(struct calibrate *calibrate, uint32_t group, int64_t time_ns, const float *map,
                  const struct se3 *T_world_camera)
{
    (void)calibrate;
    assert_int_equal(group, 0);
    memcpy(learnt_map[n_learnt_from], map, sizeof *learnt_map);
    time_learnt_ns[n_learnt_from] = time_ns;
    T_learnt[n_learnt_from++] = *T_world_camera;
    return 0;
}

int calibrate_solve(struct calibrate *calibrate, struct depth_error *out,
                    struct calibrate_report *out_report)
{
    (void)calibrate;
    (void)out;
    *out_report = (struct calibrate_report){.reduction = reduction};
    return solve_rc;
}

double depth_error_at(const struct depth_error *field, double u_px, double v_px)
{
    (void)field;
    return u_px + 100 * v_px;
}

float depth_error_mended_m(float z_m, float per_m)
{
    return z_m + per_m;
}

static uint32_t n_measured[N + 1][N + 1];
static double pulled_m;

static void count(uint32_t image, uint32_t other, struct link *inout)
{
    n_measured[image][other]++;
    inout->T_j_i.t_m[0] -= pulled_m * (image - other);
    inout->rms_m = 0.003;
}

// Keyframes 0.1 m apart, chained, each far on by ways of its own: links are all news.
static struct graph *line(uint32_t n)
{
    struct graph *g = fake_graph(200, 5);
    for (uint32_t i = 0; i < n; i++) {
        const struct se3 T = fake_pose(0.1 * i, 0, 0, 0);
        fake_keyframe(g, &T, &T);
        g->keyframes[i].time_ns = 1000 * i;
        g->keyframes[i].walked = 1e9 * i;
        if (i > 0)
            fake_edge(g, i - 1, i, true);
    }
    memset(n_measured, 0, sizeof n_measured);
    fake_measure = count;
    n_learnt_from = 0;
    pulled_m = 0;
    reduction = 0;
    solve_rc = -ENODATA;
    return g;
}

// Links that all err alike: keyframes that stood right are fitted to them and are wrong then, and
// fit. So the fit is no judge of the poses.
static void wrong_poses_fit_links_that_err_alike(void **state)
{
    (void)state;
    struct graph *g = line(N);
    struct optimise_report report;
    pulled_m = 0.03; // a step
    assert_int_equal(optimise(g, &go_on, NULL, &report), 0);
    assert_true(fabs(g->keyframes[N - 1].T_map_camera.t_m[0] - 0.1 * (N - 1)) > 0.09);
    assert_true(report.apart_m < report.apart_before_m);
    graph_destroy(&g);
}

static void every_keyframe_is_measured_twice(void **state)
{
    (void)state;
    struct graph *g = line(N);
    struct optimise_report report;
    fake_edge(g, 0, 2, false)->link.rms_m = 0.005;
    fake_edge(g, 1, 4, false)->link.rms_m = 0.007;
    const struct edge first = g->edges[0]; // in whatever order they stand
    g->edges[0] = g->edges[g->n_edges - 1];
    g->edges[g->n_edges - 1] = first;
    pulled_m = 0.01; // a step
    assert_int_equal(optimise(g, &go_on, NULL, &report), 0);
    for (uint32_t j = 0; j < N; j++)
        for (uint32_t i = 0; i < N; i++)
            assert_int_equal(n_measured[j][i], i + 1 < j ? 2 : 0);
    assert_int_equal(report.n_keyframes, N);
    assert_int_equal(report.n_links, 10);
    assert_true(fabs(report.before - 0.006) < 1e-12 && fabs(report.after - 0.003) < 1e-12);
    assert_int_equal(report.n_links_before, 2);
    double apart_m[2] = {0, 0}; // from what was measured last: where they were, where they are
    for (uint32_t k = 0; k < g->n_edges; k++) {
        const struct edge *e = &g->edges[k];
        const double x_m = e->link.T_j_i.t_m[0];
        if (!edge_is_measured(e))
            continue;
        apart_m[0] += fabs(0.1 * e->i - 0.1 * e->j - x_m) / 10;
        apart_m[1] += fabs(g->keyframes[e->i].T_map_camera.t_m[0] -
                           g->keyframes[e->j].T_map_camera.t_m[0] - x_m) /
                      10;
    }
    assert_true(apart_m[0] > 0.02 && apart_m[1] < apart_m[0]);
    assert_true(fabs(report.apart_before_m - apart_m[0]) < 1e-9);
    assert_true(fabs(report.apart_m - apart_m[1]) < 1e-9);
    assert_true(report.apart_before_rad < 1e-9 && report.apart_rad < 1e-9);
    assert_false(report.has_field);
    assert_true(report.reduction == 0);
    assert_int_equal(g->n, N);
    double moved_m = g->keyframes[N - 1].T_map_camera.t_m[0] - 0.1 * (N - 1);
    assert_true(moved_m > 0.02);
    assert_true(fabs(report.moved_m - moved_m) < 1e-12);
    assert_true(report.moved_rad < 1e-9);
    graph_destroy(&g);
}

static void turn_last(uint32_t image, uint32_t other, struct link *inout)
{
    (void)other;
    const struct se3 turn = fake_pose(0, 0.02, 0, image == N - 1 ? 0.02 : 0);
    inout->T_j_i = image == N - 1 ? se3_compose(&turn, &inout->T_j_i) : inout->T_j_i;
}

static void the_one_that_moved_most_is_told(void **state)
{
    (void)state;
    struct graph *g = line(N);
    struct optimise_report report;
    double most_m = 0, most_rad = 0;
    fake_measure = turn_last;
    assert_int_equal(optimise(g, &go_on, NULL, &report), 0);
    for (uint32_t i = 0; i < N; i++) {
        const struct se3 before = fake_pose(0.1 * i, 0, 0, 0);
        const struct se3 moved = se3_between(&before, &g->keyframes[i].T_map_camera);
        most_m = fmax(most_m, hypot(hypot(moved.t_m[0], moved.t_m[1]), moved.t_m[2]));
        most_rad = fmax(most_rad, se3_angle(&moved));
    }
    assert_true(most_m > 0.005 && most_rad > 0.005);
    assert_true(fabs(report.moved_m - most_m) < 1e-12);
    assert_true(fabs(report.moved_rad - most_rad) < 1e-9);
    graph_destroy(&g);
}

// A loop's links and those that were taken over from a keyframe that went, unless measured anew.
static void what_holds_a_loop_is_kept(void **state)
{
    (void)state;
    struct graph *g = line(N);
    struct optimise_report report;
    for (int i = 0; i < FAKE_KEYFRAMES; i++)
        fake_overlaps[i] = i == 1;
    fake_edge(g, 0, 4, false);
    fake_edge(g, 0, 5, false)->loop = true;
    fake_edge(g, 2, 5, false)->inherited = true;
    struct edge *anew = fake_edge(g, 1, 5, false);
    anew->loop = true;
    anew->link.rms_m = 0.1;
    assert_int_equal(optimise(g, &go_on, NULL, &report), 0);
    assert_null(graph_find_edge(g, g->n_edges, 0, 4));
    assert_true(graph_find_edge(g, g->n_edges, 0, 5)->loop);
    assert_true(graph_find_edge(g, g->n_edges, 2, 5)->inherited);
    assert_true(graph_find_edge(g, g->n_edges, 1, 5)->link.rms_m == 0.003);
    assert_false(graph_find_edge(g, g->n_edges, 1, 5)->loop);
    // 1 with 3, 4 and 5, and the two.
    assert_int_equal(report.n_links, 5);
    assert_int_equal(g->n_edges, N - 1 + 5);
    graph_destroy(&g);
}

// Neighbours whose chain goes over keyframes that went are known as well as the way that was walked
// between them, however near to each other they stand.
static void a_detour_is_no_short_step(void **state)
{
    (void)state;
    struct graph *g = line(N);
    struct optimise_report report;
    for (uint32_t i = 0; i < N; i++) {
        g->keyframes[i].walked = 0.1 * i + (i >= 3 ? 0.9 : 0);
        g->arrival[i] = i + (i >= 3 ? 9 : 0);
    }
    fake_detour_tells = true;
    assert_int_equal(optimise(g, &go_on, NULL, &report), 0);
    for (uint32_t i = 0; i + 1 < N; i++) {
        const struct edge *chain = graph_find_edge(g, g->n_edges, i, i + 1);
        assert_int_equal(chain->span, i == 2 ? 10 : 1);
        assert_true(fabs(chain->link.information[0] - (i == 2 ? 1e2 : 1e4)) < 1e-6);
    }
    g->n = 4; // the detour's end comes last
    g->n_edges = 0;
    assert_int_equal(graph_link_again(g), 0);
    assert_int_equal(fake_chain_steps, 10);
    g->n = N;
    graph_destroy(&g);
}

// What a camera was found by after a loss holds what came then: it is kept, as an edge of its own,
// as the chain, or as what was measured anew between the two.
static void what_found_a_camera_is_kept(void **state)
{
    (void)state;
    for (uint32_t by = 1; by < 4; by++) {
        struct graph *g = line(N);
        struct optimise_report report;
        for (int i = 0; i < FAKE_KEYFRAMES; i++)
            fake_overlaps[i] = i == 1;
        g->keyframes[4].is_found = true;
        struct edge *find = by == 3 ? graph_find_edge(g, g->n_edges, 3, 4) : NULL;
        if (!find)
            find = fake_edge(g, by, 4, false);
        find->find = true;
        find->link.rms_m = 0.1;
        assert_int_equal(optimise(g, &go_on, NULL, &report), 0);
        const struct edge *e = graph_edge_of_find(g, 4);
        assert_true(e && e->i == by && !e->lost && e->chain == (by == 3));
        assert_true(e->link.rms_m == (by == 1 ? 0.003 : 0.1));
        const struct edge *chain = graph_find_edge(g, g->n_edges, 3, 4);
        assert_true(chain->chain && chain->lost == (by != 3));
        graph_destroy(&g);
    }
}

static void it_ends_early(void **state)
{
    (void)state;
    struct optimise_report report;
    for (uint32_t n = 2; n <= 3; n++) {
        struct graph *g = line(n);
        assert_int_equal(optimise(g, &stop, NULL, &report), n == 2 ? -ENODATA : -ECANCELED);
        assert_int_equal(report.n_keyframes, n);
        assert_int_equal(g->n, n);
        graph_destroy(&g);
    }
    struct graph *g = line(3);
    solve_rc = -ENOMEM;
    assert_int_equal(optimise(g, &go_on, NULL, &report), -ENOMEM);
    graph_destroy(&g);
}

static void hold_along_x_alone(uint32_t image, uint32_t other, struct link *inout)
{
    (void)image;
    (void)other;
    for (int k = 7; k < 35; k += 7)
        inout->information[k] = 0;
}

// Where the links leave a direction free that is told, and nobody takes it for a map that was right
// already.
static void what_cannot_be_solved_for_is_an_error(void **state)
{
    (void)state;
    struct graph *g = line(N);
    struct optimise_report report;
    fake_chain_worth = 0;
    fake_measure = hold_along_x_alone;
    assert_int_equal(optimise(g, &go_on, NULL, &report), -EDOM);
    for (uint32_t k = 0; k < N; k++) {
        const struct se3 T = fake_pose(0.1 * k, 0, 0, 0);
        assert_same_pose(&g->keyframes[k].T_map_camera, &T);
    }
    graph_destroy(&g);
}

// The chain alone says nothing against where its keyframes are: they fit no links, and not to 0 mm.
static void where_nothing_is_measured_nothing_is_solved_for(void **state)
{
    (void)state;
    struct graph *g = line(3);
    struct optimise_report report;
    for (int i = 0; i < FAKE_KEYFRAMES; i++)
        fake_overlaps[i] = false;
    assert_int_equal(optimise(g, &go_on, NULL, &report), -ENOLINK);
    assert_int_equal(report.n_links, 0);
    graph_destroy(&g);
}

// Two vertices of an image whose cropped grid begins one pixel to the right and below.
static void give_vertices(struct align_image *image)
{
    float *const n[3] = {calloc(2, sizeof(float)), calloc(2, sizeof(float)),
                         calloc(2, sizeof(float))};
    for (int i = 0; i < 6; i++)
        n[i / 2][i % 2] = 0.1f * (float)(1 + i);
    image->nx = n[0];
    image->ny = n[1];
    image->nz = n[2];
    image->cell = calloc(2, sizeof *image->cell);
    image->cell[1] = 1;
    image->width = 2;
    image->height = image->left = image->top = 1;
    image->n_level[0] = 2;
}

static void the_cameras_error_is_learnt_from_all(void **state)
{
    (void)state;
    struct graph *g = line(4);
    struct optimise_report report;
    give_vertices(g->images[2]);
    solve_rc = 0;
    reduction = 0.05;
    assert_int_equal(optimise(g, &go_on, NULL, &report), 0);
    assert_int_equal(n_learnt_from, 4);
    for (uint32_t k = 0; k < 4; k++) {
        const struct se3 T = fake_pose(0.1 * k, 0, 0, 0);
        assert_same_pose(&T_learnt[k], &T);
        assert_int_equal(time_learnt_ns[k], 1000 * k);
        for (uint32_t i = 0; i < 4 * FAKE_PX; i++) {
            const uint32_t px = i / 4; // of 3 x 2
            float expected = 0;
            if (k == 2 && px >= 4)
                expected = i % 4 == 3 ? (float)(2 + px) : 0.1f * (float)(1 + 2 * (i % 4) + px - 4);
            assert_true(fabsf(learnt_map[k][i] - expected) < 1e-6f);
        }
    }
    // Taken out of all images, at each pixel what is there in the whole one.
    assert_true(report.has_field && report.reduction == 0.05);
    for (uint32_t px = 0; px < FAKE_PX; px++) {
        const float per_m = (float)(4 * (px % 3) + 400 * (px / 3));
        assert_true(g->field_per_m[px] == per_m);
        assert_true(fake_image_m[px] == (float)(3 + px) + per_m);
    }
    graph_destroy(&g);
    g = line(4);
    solve_rc = 0;
    reduction = 0.996 * 0.05;
    assert_int_equal(optimise(g, &go_on, NULL, &report), 0);
    assert_true(!report.has_field && report.reduction == reduction);
    assert_null(g->field_per_m);
    graph_destroy(&g);
}

// With the camera's own error taken out, now or before, each keyframe is measured against all
// before it.
static void without_that_error_more_is_measured(void **state)
{
    (void)state;
    struct optimise_report report;
    const float per_m[FAKE_PX] = {0};
    for (int has_field = 0; has_field < 4; has_field++) {
        struct graph *g = line(N);
        g->max_links = 2;
        if (has_field == 2)
            assert_int_equal(graph_set_field(g, per_m), 0);
        g->settings.is_mended = has_field == 3; // by whoever gave the images
        solve_rc = 0;
        reduction = has_field == 1 ? 0.3 : 0;
        assert_int_equal(optimise(g, &go_on, NULL, &report), 0);
        assert_int_equal(report.n_links, has_field ? 10 : 7);
        assert_int_equal(g->n_edges, N - 1 + report.n_links);
        graph_destroy(&g);
    }
}

// Frames between the keyframes: in order of time, where the camera was in the map, each once, and
// none with too little depth.
static void and_from_frames_between(void **state)
{
    (void)state;
    struct graph *g = line(4);
    struct optimise_report report;
    // A step before the first keyframe, between, a keyframe itself, beside one, without depth,
    // after the last.
    static const int64_t at_ns[] = {-500, 1500, 2000, 2001, 2500, 3500};
    static const double x_m[] = {-0.05, 0.15, 0.2, 0.2, 0.25, 0.35};
    static const int64_t expected_ns[] = {-500, 0, 1000, 1500, 2000, 2001, 3000, 3500};
    static const double expected_m[] = {-0.05, 0, 0.1, 0.15, 1.2, 1.2, 1.3, 1.35};
    assert_int_equal(between_frames_create(&g->between, FAKE_PX), 0);
    g->between.step = 1;
    for (int i = 0; i < 6; i++) {
        const struct se3 T = fake_pose(x_m[i], 0, 0, 0);
        float *z_m = between_frames_offer(&g->between, at_ns[i], &T);
        for (int px = 0; px < FAKE_PX; px++)
            z_m[px] = i == 4 ? -1 : (float)i;
    }
    // From its keyframe 2 on the map lies a metre off odometry.
    for (int i = 2; i < 4; i++)
        g->keyframes[i].T_map_camera.t_m[0] += 1;
    solve_rc = 0;
    assert_int_equal(optimise(g, &go_on, NULL, &report), 0);
    assert_int_equal(n_learnt_from, 8);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(time_learnt_ns[i], expected_ns[i]);
        assert_true(fabs(T_learnt[i].t_m[0] - expected_m[i]) < 1e-12);
    }
    graph_destroy(&g);
}

// After a find a frame is in odom as the keyframe after it is; before the loss as the one before.
static void a_frame_hangs_on_its_side_of_a_loss(void **state)
{
    (void)state;
    static const int64_t at_ns[] = {1200, 1400, 1401, 1800};
    struct graph *g = line(4);
    struct optimise_report report;
    assert_int_equal(between_frames_create(&g->between, FAKE_PX), 0);
    g->between.step = 1;
    for (int i = 0; i < 4; i++) {
        const struct se3 T = fake_pose(0.15, 0, 0, 0);
        float *z_m = between_frames_offer(&g->between, at_ns[i], &T);
        for (int px = 0; px < FAKE_PX; px++)
            z_m[px] = (float)i;
    }
    for (int i = 2; i < 4; i++)
        g->keyframes[i].T_map_camera.t_m[0] += 1;
    g->keyframes[2].is_found = true;
    g->keyframes[2].found_ns = 1400;
    solve_rc = 0;
    assert_int_equal(optimise(g, &go_on, NULL, &report), 0);
    assert_int_equal(n_learnt_from, 8);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(time_learnt_ns[2 + i], at_ns[i]);
        assert_true(fabs(T_learnt[2 + i].t_m[0] - (i < 2 ? 0.15 : 1.15)) < 1e-12);
    }
    graph_destroy(&g);
}

// Of more frames than the calibration takes, as many as it takes, evenly.
static void of_many_some_are_enough(void **state)
{
    (void)state;
    struct optimise_report report;
    for (uint32_t n = CALIBRATE_MAX_FRAMES - 1; n <= CALIBRATE_MAX_FRAMES + 1; n++) {
        struct graph *g = line(n);
        fake_measure = NULL;
        for (int i = 0; i < FAKE_KEYFRAMES; i++)
            fake_overlaps[i] = 0;
        assert_int_equal(optimise(g, &go_on, NULL, &report), -ENOLINK); // it has learnt before
        assert_int_equal(n_learnt_from, n < CALIBRATE_MAX_FRAMES ? n : CALIBRATE_MAX_FRAMES);
        for (uint32_t i = 0; i < n_learnt_from; i++)
            assert_int_equal(time_learnt_ns[i], 1000 * (i * n / n_learnt_from));
        graph_destroy(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_keyframe_is_measured_twice),
        cmocka_unit_test(wrong_poses_fit_links_that_err_alike),
        cmocka_unit_test(the_one_that_moved_most_is_told),
        cmocka_unit_test(what_holds_a_loop_is_kept),
        cmocka_unit_test(a_detour_is_no_short_step),
        cmocka_unit_test(what_found_a_camera_is_kept),
        cmocka_unit_test(it_ends_early),
        cmocka_unit_test(what_cannot_be_solved_for_is_an_error),
        cmocka_unit_test(where_nothing_is_measured_nothing_is_solved_for),
        cmocka_unit_test(the_cameras_error_is_learnt_from_all),
        cmocka_unit_test(without_that_error_more_is_measured),
        cmocka_unit_test(and_from_frames_between),
        cmocka_unit_test(a_frame_hangs_on_its_side_of_a_loss),
        cmocka_unit_test(of_many_some_are_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// One keyframe measured against another: gates, steps, what makes a link good and what it is worth,
// on sums of pairs that are what the test says; and what two walls say of each other.
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/align/ops.h"
#include "gpu/model/keyframe_constraint.h"
#include "proto/se3.h"

#define INSIDE  0.996
#define OUTSIDE 1.004
#define CALLS   15 // of a measurement
#define NOISE_M 0.002f

static const struct log_sink quiet = {NULL, NULL};
static struct link_maker *maker;
static struct align_image image = {.n_level = {1000, 250, 60}, .noise = {NOISE_M, 0}};
static struct align_image others[2] = {{.n_level = {800, 200, 50}}, {.n_level = {600, 150, 40}}};

// What the device was asked, and what both directions of a link add up to.
static const struct align_image *loaded[3];
static struct align_task tasks[CALLS][4];
static uint32_t levels[CALLS], n_calls, n_tasks_asked;
static double there[PAIR_N_SUMS], back[PAIR_N_SUMS];
static int fails_at;
static uint32_t leads_at; // the call whose gradient is not 0

int align_device_open(struct align_device **out, enum gpu_backend backend,
                      const struct align_device_settings *settings)
{
    assert_true(backend == GPU_BACKEND_CPU && settings->n_slots == LINK_MAX + 1 &&
                settings->n_tasks == 2 * LINK_MAX);
    *out = NULL;
    return 0;
}

void align_device_close(struct align_device **device)
{
    *device = NULL;
}

int align_device_load(struct align_device *device, uint32_t slot, const struct align_image *of)
{
    (void)device;
    if (fails_at < 0)
        return -ENOMEM;
    loaded[slot] = of;
    return 0;
}

int align_device_sum(struct align_device *device, const struct align_task *of, uint32_t n_tasks,
                     uint32_t level, double *out_sums)
{
    (void)device;
    assert_true(n_calls < CALLS && n_tasks <= 4);
    n_tasks_asked = n_tasks;
    for (uint32_t k = 0; k < n_tasks; k++) {
        tasks[n_calls][k] = of[k];
        double *sums = out_sums + k * PAIR_N_SUMS;
        memcpy(sums, k % 2 ? back : there, sizeof there);
        if (n_calls != leads_at)
            memset(sums + PAIR_SUM_G, 0, 6 * sizeof *sums);
    }
    levels[n_calls++] = level;
    return (int)n_calls == fails_at ? -EIO : 0;
}

static double *diagonal(double *sums, int axis) // of H's upper triangle, row by row
{
    return sums + PAIR_SUM_H + axis * 6 - axis * (axis - 1) / 2;
}

static void set_all(enum pair_sum which, double total)
{
    there[which] = 0.75 * total;
    back[which] = 0.25 * total;
}

// All is well: 1200 of 1800 vertices have a partner, and nothing moves.
static void reset(void)
{
    memset(there, 0, sizeof there);
    memset(back, 0, sizeof back);
    set_all(PAIR_SUM_TW, 1000);
    set_all(PAIR_SUM_N, 1200);
    set_all(PAIR_SUM_ABS, 100);
    set_all(PAIR_SUM_RR, 1000 * 0.003 * 0.003);
    for (int axis = 0; axis < 6; axis++)
        *diagonal(there, axis) = 1e6 * (1 + axis);
    fails_at = 0;
    leads_at = UINT32_MAX;
}

static int measure(struct link *inout, uint32_t n)
{
    const struct align_image *const of[2] = {&others[0], &others[1]};
    n_calls = 0;
    return link_measure(maker, &image, of, n, inout);
}

static struct link measured(const struct se3 *T, double doubt_m)
{
    struct link link = {.T_j_i = *T, .doubt_m = doubt_m};
    assert_int_equal(measure(&link, 1), 0);
    return link;
}

static struct link measured_here(void)
{
    const struct se3 none = se3_identity();
    return measured(&none, 0);
}

static void near(double got, double expected)
{
    assert_true(fabs(got - expected) <= 1e-6 * fabs(expected));
}

static int begin(void **state)
{
    (void)state;
    return link_maker_create(&maker, &quiet);
}

static int end(void **state)
{
    (void)state;
    link_maker_destroy(&maker);
    return maker != NULL;
}

static void coarse_to_fine_in_both_directions(void **state)
{
    (void)state;
    const double twist[6] = {0.1, -0.2, 0.3, 0.2, 0.1, -0.3};
    const struct se3 T[2] = {se3_exp(twist), se3_identity()}, back_T = se3_inverse(&T[0]);
    struct link links[2] = {{.T_j_i = T[0]}, {.T_j_i = T[1]}};
    reset();
    assert_int_equal(measure(links, 2), 0);
    assert_int_equal(n_calls, CALLS);
    for (uint32_t i = 0; i < CALLS; i++)
        assert_int_equal(levels[i], i < 8 ? 2 : i < 12 ? 1 : 0);
    assert_true(loaded[0] == &image && loaded[1] == &others[0] && loaded[2] == &others[1]);
    assert_int_equal(n_tasks_asked, 4);
    for (uint32_t k = 0; k < 4; k++) {
        assert_int_equal(tasks[0][k].source, k % 2 ? 0 : k / 2 + 1);
        assert_int_equal(tasks[0][k].target, k % 2 ? k / 2 + 1 : 0);
    }
    for (int i = 0; i < 9; i++) {
        near((double)tasks[0][0].T_target_source.r[i], T[0].r[i]);
        near((double)tasks[0][1].T_target_source.r[i], back_T.r[i]);
    }
    near((double)tasks[0][0].T_target_source.t_m[2], T[0].t_m[2]);
    near((double)tasks[0][1].T_target_source.t_m[1], back_T.t_m[1]);
    assert_true(links[0].good && links[1].good);
    near(links[0].overlap, 1200 / 1800.0);
    near(links[1].overlap, 1200 / 1600.0);
    near(links[0].rms_m, 0.003);
}

// Wide at first, at least as the pose is in doubt; then ten times the scale of the residuals.
static void gates_close(void **state)
{
    (void)state;
    const struct se3 none = se3_identity();
    static const double doubts_m[] = {0, 0.0996, 0.15};
    for (int i = 0; i < 3; i++) {
        const double first_m = fmax(0.1, doubts_m[i]);
        reset();
        set_all(PAIR_SUM_ABS, 1000 * 2 / 1.2533); // a scale of 2
        measured(&none, doubts_m[i]);
        near((double)tasks[0][0].gates.distance_m, first_m);
        near((double)tasks[0][0].gates.cos_angle, cos(0.6));
        near((double)tasks[0][0].gates.inv_cut2, pow((double)NOISE_M / first_m, 2));
        near((double)tasks[1][1].gates.distance_m, 10 * 2 * (double)NOISE_M);
        near((double)tasks[1][1].gates.inv_cut2, pow(4.685 * 2, -2));
    }
    reset(); // a scale of one at least, a gate of 2 cm at least
    image.noise.a_m = 0.0019f;
    measured(&none, 0);
    near((double)tasks[1][0].gates.distance_m, 0.02);
    near((double)tasks[1][0].gates.inv_cut2, pow(4.685, -2));
    image.noise.a_m = 0.02f;
    measured(&none, 0);
    near((double)tasks[1][0].gates.distance_m, 0.1); // never wider again
    image.noise.a_m = NOISE_M;
}

static void what_makes_a_link_good(void **state)
{
    (void)state;
    reset();
    set_all(PAIR_SUM_TW, 100.1);
    set_all(PAIR_SUM_ABS, 0);
    assert_true(measured_here().good);
    set_all(PAIR_SUM_TW, 99.9);
    assert_false(measured_here().good);
    // A small camera has no hundred vertices: a quarter of them do.
    const struct align_image whole[2] = {image, others[0]};
    image.n_level[0] = others[0].n_level[0] = image.n_level[1] = others[0].n_level[1] = 120;
    set_all(PAIR_SUM_N, 200);
    set_all(PAIR_SUM_TW, 60.1);
    assert_true(measured_here().good);
    set_all(PAIR_SUM_TW, 59.9);
    assert_false(measured_here().good);
    image = whole[0];
    others[0] = whole[1];
    reset();
    set_all(PAIR_SUM_N, 541); // 0.3 of 1800
    assert_true(measured_here().good);
    set_all(PAIR_SUM_N, 539);
    assert_false(measured_here().good);
    reset();
    set_all(PAIR_SUM_ABS, INSIDE * 4 * 1000 / 1.2533);
    assert_true(measured_here().good);
    set_all(PAIR_SUM_ABS, OUTSIDE * 4 * 1000 / 1.2533);
    assert_false(measured_here().good);
    reset();
    *diagonal(there, 4) = 0; // not held
    assert_false(measured_here().good);
}

// Of the information what the weakest direction has of it: with diagonal d 2d 3d 4d 5d 6d and an
// arm of sqrt(15 / 6), x has a sixth and the turns 4, 5 and 6 of 15. Less than 0.001 is not held,
// nor three that one surface leaves free.
static void how_well_the_weakest_direction_is_held(void **state)
{
    (void)state;
    reset();
    near(measured_here().weakest, 1.0 / 6);
    *diagonal(there, 0) = INSIDE * 0.003 * 5e6;
    near(measured_here().weakest, INSIDE * 0.003 / (1 + INSIDE * 0.003));
    *diagonal(there, 0) = OUTSIDE * 0.001 / 0.999 * 5e6;
    assert_true(measured_here().weakest > 0.001);
    *diagonal(there, 0) = INSIDE * 0.001 / 0.999 * 5e6;
    assert_true(measured_here().weakest == 0);
    reset();
    *diagonal(there, 0) = *diagonal(there, 1) = *diagonal(there, 5) = 0.01 * 3e6;
    assert_true(measured_here().weakest == 0);
}

// Forty vertices count as one; beside their noise what the sensor errs with the motion, most of it
// along what is held least.
static void what_a_link_is_worth(void **state)
{
    (void)state;
    static const double motions[][2] = {{0, 0}, {0.3, 0}, {0.3, 0.2}};
    static const double held[6] = {1e6, 2e6, 3e6, 4e6, 5e6, 6e6}; // both directions' sums
    for (int i = 0; i < 3; i++)
        for (double scale = 1; scale < 4; scale += 2) {
            const double motion = motions[i][0] + motions[i][1];
            const double twist[6] = {0, 0, 0, 0, motions[i][1], 0};
            struct se3 T = se3_exp(twist);
            T.t_m[0] = motions[i][0];
            const double std_m = 0.001 + 0.1 * motion, std_rad = 0.0007 + 0.07 * motion;
            reset();
            set_all(PAIR_SUM_ABS, 1000 * scale / 1.2533);
            const struct link link = measured(&T, 0);
            near(link_motion(&T), motion);
            struct link chain;
            link_chain(&chain, &T, motion, 1);
            assert_true(chain.good && chain.overlap == 1 && chain.T_j_i.t_m[0] == T.t_m[0]);
            // Over many steps, straight and by a detour of as many.
            struct link straight, detour;
            link_chain(&straight, &T, motion, 5);
            link_chain(&detour, &T, 2, 20);
            assert_memory_equal(straight.T_j_i.t_m, T.t_m, sizeof T.t_m);
            const double detour_m = fmax(std_m, sqrt(20) * 0.011);
            const double detour_rad = fmax(std_rad, sqrt(20) * 0.0077);
            struct link tie;
            link_tie(&tie, &chain.T_j_i, 0.04 + motion);
            assert_true(tie.good && tie.overlap == 1 && tie.T_j_i.t_m[0] == T.t_m[0]);
            double times = 1; // the systematic variances, of what is held: geometric mean
            for (int axis = 0; axis < 6; axis++)
                times *= pow((axis < 3 ? std_m * std_m : std_rad * std_rad) * held[axis], 1.0 / 6);
            for (int k = 0; k < 36; k++) {
                const int axis = k / 7;
                const double tied = axis < 3
                                        ? pow((0.005 + 0.1 * motion) / 4, 2) + 0.0025 * 0.0025
                                        : pow((0.0035 + 0.07 * motion) / 4, 2) + 0.0016 * 0.0016;
                near(tie.information[k], k % 7 == 0 ? 1 / tied : 0);
                const double systematic = axis < 3 ? std_m * std_m : std_rad * std_rad;
                if (k % 7 == 0) {
                    const double variance =
                        (40 * scale * scale + 0.8 * times) / held[axis] + 0.2 * systematic;
                    near(link.information[k], 1 / variance);
                    near(chain.information[k], 16 / systematic);
                    near(detour.information[k], 16 / pow(axis < 3 ? detour_m : detour_rad, 2));
                    if (motion > 0) // five steps that are none err by their floor
                        near(straight.information[k], 16 / systematic);
                } else {
                    assert_true(fabs(link.information[k]) < 1e-6);
                    assert_true(chain.information[k] == 0);
                }
            }
        }
}

static void assert_pose(const struct se3 *got, const struct se3 *expected)
{
    for (int i = 0; i < 9; i++)
        assert_true(fabs(got->r[i] - expected->r[i]) < 1e-9);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(got->t_m[i] - expected->t_m[i]) < 1e-9);
}

// What the new keyframe's vertices say moves T from the left, what the other's say against them
// from the right.
static void steps_of_either_direction(void **state)
{
    (void)state;
    static const double twist[6] = {0.1, -0.2, 0.3, 0.2, 0.1, -0.3};
    static const double move[6] = {0.02, -0.01, 0.03, 0.01, -0.02, 0.015};
    const struct se3 T = se3_exp(twist), step = se3_exp(move);
    for (int backwards = 0; backwards < 2; backwards++) {
        double *sums = backwards ? back : there;
        reset();
        leads_at = 3;
        for (int axis = 0; axis < 6; axis++) {
            *diagonal(there, axis) = 0;
            *diagonal(sums, axis) = 1e6 * (1 + axis);
            sums[PAIR_SUM_G + axis] = 1e6 * (1 + axis) * (backwards ? move[axis] : -move[axis]);
        }
        // Rows hang together.
        sums[PAIR_SUM_H + 1] = 2e5;
        sums[PAIR_SUM_G] += (backwards ? 1 : -1) * 2e5 * move[1];
        sums[PAIR_SUM_G + 1] += (backwards ? 1 : -1) * 2e5 * move[0];
        const struct link link = measured(&T, 0);
        const struct se3 expected = backwards ? se3_compose(&T, &step) : se3_compose(&step, &T);
        assert_pose(&link.T_j_i, &expected);
        assert_true(link.good);
    }
}

static void failures_are_told(void **state)
{
    (void)state;
    struct link link = {.T_j_i = se3_identity()};
    reset();
    fails_at = -1;
    assert_int_equal(measure(&link, 1), -ENOMEM);
    fails_at = 9;
    assert_int_equal(measure(&link, 1), -EIO);
    assert_int_equal(n_calls, 9);
}

// --- Two walls at 2 m, square to the camera

static struct align_image *wall(void)
{
    static const struct intrinsics camera = {60, 60, 39.5, 29.5, 80, 60};
    static float z_m[80 * 60];
    struct align_image *out;
    for (int i = 0; i < 80 * 60; i++)
        z_m[i] = 2;
    assert_int_equal(link_image(&out, z_m, &camera), 0);
    return out;
}

// Of the first wall on the second, which stands away_m farther on and is turned.
static void on_each_other(double away_m, double turn_rad, double doubt_m, double *out_overlap,
                          double *out_conflict)
{
    struct align_image *a = wall(), *b = wall();
    const double twist[6] = {0, 0, 0, 0, turn_rad, 0};
    struct se3 T = se3_exp(twist);
    T.t_m[2] = -away_m;
    if (turn_rad != 0) { // about the wall's middle
        T.t_m[0] = -2 * T.r[2];
        T.t_m[2] = 2 - 2 * T.r[8];
    }
    *out_overlap = link_overlap(a, b, &T, doubt_m);
    *out_conflict = link_conflict(a, b, &T);
    align_image_destroy(&a);
    align_image_destroy(&b);
}

static void walls_lie_on_each_other(void **state)
{
    (void)state;
    double overlap, conflict;
    on_each_other(0, 0, 0, &overlap, &conflict);
    assert_true(overlap == 1 && conflict == 0);
    static const double doubts_m[] = {0, 0.3};
    for (int i = 0; i < 2; i++)
        for (int side = -1; side <= 1; side += 2) {
            const double gate_m = fmax(0.1, doubts_m[i]);
            on_each_other(side * INSIDE * gate_m, 0, doubts_m[i], &overlap, &conflict);
            assert_true(overlap > 0.6);
            on_each_other(side * OUTSIDE * gate_m, 0, doubts_m[i], &overlap, &conflict);
            assert_true(overlap == 0);
        }
    // What stands before it, it would have seen; what is behind, not: both look.
    on_each_other(INSIDE * 0.1, 0, 0, &overlap, &conflict);
    assert_true(conflict == 0);
    on_each_other(OUTSIDE * 0.1, 0, 0, &overlap, &conflict);
    assert_true(conflict > 0.4 && conflict < 0.6);
    on_each_other(-OUTSIDE * 0.1, 0, 0, &overlap, &conflict);
    assert_true(conflict > 0.4 && conflict < 0.6);
    // Up to 0.6 rad they are one surface.
    on_each_other(0, INSIDE * 0.6, 2, &overlap, &conflict);
    assert_true(overlap > 0.6);
    on_each_other(0, OUTSIDE * 0.6, 2, &overlap, &conflict);
    assert_true(overlap == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coarse_to_fine_in_both_directions),
        cmocka_unit_test(gates_close),
        cmocka_unit_test(what_makes_a_link_good),
        cmocka_unit_test(how_well_the_weakest_direction_is_held),
        cmocka_unit_test(what_a_link_is_worth),
        cmocka_unit_test(steps_of_either_direction),
        cmocka_unit_test(failures_are_told),
        cmocka_unit_test(walls_lie_on_each_other),
    };
    return cmocka_run_group_tests(tests, begin, end);
}

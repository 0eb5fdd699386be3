// SPDX-License-Identifier: Apache-2.0
// proto/evaluate against cases computed by hand.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "proto/evaluate.h"
#include "proto/se3.h"

#define FRAME_NS INT64_C(33333333)

static void assert_close(double a, double b, double limit)
{
    if (!(fabs(a - b) <= limit))
        fail_msg("%.17g differs from %.17g, limit %.3g", a, b, limit);
}

static struct se3 shift(double x, double y, double z)
{
    struct se3 T = se3_identity();
    T.t_m[0] = x, T.t_m[1] = y, T.t_m[2] = z;
    return T;
}

// A curve that fills space and turns.
static struct se3 curve(int i)
{
    double twist[6] = {0, 0, 0, 0.02 * i, -0.01 * i, 0.5 * sin(0.1 * i)};
    struct se3 T = se3_exp(twist);
    T.t_m[0] = sin(0.05 * i), T.t_m[1] = cos(0.08 * i), T.t_m[2] = 0.01 * i;
    return T;
}

// The same trajectory seen from another world has no error, and the alignment is that world.
static void test_alignment_is_found(void **state)
{
    (void)state;
    double twist[6] = {1, -2, 3, 0.5, 2, -1};
    struct se3 T_estimate_truth = se3_exp(twist), T_truth_estimate = se3_inverse(&T_estimate_truth);
    struct stamped_pose truth[100], estimate[100];
    for (int i = 0; i < 100; i++) {
        truth[i] = (struct stamped_pose){i * FRAME_NS, curve(i)};
        estimate[i] = (struct stamped_pose){
            i * FRAME_NS, se3_compose(&T_estimate_truth, &truth[i].T_world_camera)};
    }
    struct evaluation e;
    assert_int_equal(evaluate_trajectory(&(struct trajectory){truth, 100, NULL, NULL},
                                         &(struct trajectory){estimate, 100, NULL, NULL}, 0, 30,
                                         &e),
                     0);
    assert_int_equal(e.n_matched, 100);
    assert_int_equal(e.rpe_m.n, 70);
    assert_close(e.ate_m.max, 0, 1e-13);
    assert_close(e.rpe_m.max, 0, 1e-13);
    assert_close(e.rpe_rad.max, 0, 1e-7); // an angle from a rotation has sqrt(epsilon)
    for (int i = 0; i < 9; i++)
        assert_close(e.T_truth_estimate.r[i], T_truth_estimate.r[i], 1e-13);
    for (int i = 0; i < 3; i++)
        assert_close(e.T_truth_estimate.t_m[i], T_truth_estimate.t_m[i], 1e-13);
    evaluation_free(&e);
}

// A mirrored square: no rotation maps corners (+-1, +-1, 0) of one hand to the other, except by
// turning it over, which Horn's method finds; a mirrored cube corner cannot be turned over.
static void test_alignment_never_mirrors(void **state)
{
    (void)state;
    double a[4][3] = {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, b[4][3];
    for (int i = 0; i < 4; i++) {
        b[i][0] = -a[i][0];
        b[i][1] = a[i][1];
        b[i][2] = a[i][2];
    }
    struct se3 T = evaluate_align((const double(*)[3])a, (const double(*)[3])b, 4);
    const double *r = T.r;
    double determinant = r[0] * (r[4] * r[8] - r[5] * r[7]) - r[1] * (r[3] * r[8] - r[5] * r[6]) +
                         r[2] * (r[3] * r[7] - r[4] * r[6]);
    assert_close(determinant, 1, 1e-12);
    double square[4][3] = {{1, 1, 0}, {1, -1, 0}, {-1, 1, 0}, {-1, -1, 0}};
    double turned[4][3] = {{-1, 1, 0}, {-1, -1, 0}, {1, 1, 0}, {1, -1, 0}};
    T = evaluate_align((const double(*)[3])square, (const double(*)[3])turned, 4);
    for (int i = 0; i < 4; i++) {
        double p[3];
        se3_apply(&T, turned[i], p);
        for (int k = 0; k < 3; k++)
            assert_close(p[k], square[i][k], 1e-12);
    }
    T = evaluate_align((const double(*)[3])square, (const double(*)[3])square, 1); // one point
    assert_close(T.r[0] + T.r[4] + T.r[8], 3, 0);
}

// Truth: four corners of a square with side 2 and a camera that never turns. Estimate: the same
// corners pushed outwards along the diagonal to half side 1.1, 1.1, 1.2, 1.2 (in pairs opposite
// each other): by symmetry the best alignment is the identity, the errors are sqrt(2) times 0.1 and
// 0.2.
static void test_errors_by_hand(void **state)
{
    (void)state;
    const double half[4] = {1.1, 1.2, 1.1, 1.2};
    const double sign[4][2] = {{1, 1}, {-1, 1}, {-1, -1}, {1, -1}};
    struct stamped_pose truth[4], estimate[4];
    for (int i = 0; i < 4; i++) {
        truth[i] = (struct stamped_pose){i * FRAME_NS, shift(sign[i][0], sign[i][1], 5)};
        estimate[i] = (struct stamped_pose){i * FRAME_NS,
                                            shift(half[i] * sign[i][0], half[i] * sign[i][1], 5)};
    }
    struct evaluation e;
    assert_int_equal(evaluate_trajectory(&(struct trajectory){truth, 4, NULL, NULL},
                                         &(struct trajectory){estimate, 4, NULL, NULL}, 0, 2, &e),
                     0);
    const double s = sqrt(2);
    assert_close(e.ate_m.rmse, s * sqrt((0.01 + 0.04) / 2), 1e-14);
    assert_close(e.ate_m.mean, s * 0.15, 1e-14);
    assert_close(e.ate_m.median, s * 0.15, 1e-14);
    assert_close(e.ate_m.max, s * 0.2, 1e-14);
    // Over two frames the truth crosses the square, 2 sqrt(2); the estimate 2.2 and 2.4 of them.
    assert_int_equal(e.rpe_m.n, 2);
    assert_close(e.rpe_m.mean, s * 0.3, 1e-14);
    assert_close(e.rpe_m.max, s * 0.4, 1e-14);
    assert_close(e.rpe_rad.max, 0, 0);
    evaluation_free(&e);
}

// A camera that stands still and an estimate that turns by 1 degree a frame about z: over 10 frames
// 10 degrees. The position, 0.5 m off the axis of rotation in the camera's frame, must not move.
static void test_rotation_error(void **state)
{
    (void)state;
    struct stamped_pose truth[30], estimate[30];
    for (int i = 0; i < 30; i++) {
        double twist[6] = {0, 0, 0, 0, 0, i * M_PI / 180};
        truth[i] = (struct stamped_pose){i * FRAME_NS, shift(0.5, 0, 0)};
        estimate[i] = (struct stamped_pose){i * FRAME_NS, se3_exp(twist)};
    }
    struct evaluation e;
    assert_int_equal(evaluate_trajectory(&(struct trajectory){truth, 30, NULL, NULL},
                                         &(struct trajectory){estimate, 30, NULL, NULL}, 0, 10, &e),
                     0);
    assert_close(e.ate_m.max, 0, 1e-14);
    assert_int_equal(e.rpe_rad.n, 20);
    assert_close(e.rpe_rad.rmse, M_PI / 18, 1e-14);
    assert_close(e.rpe_rad.median, M_PI / 18, 1e-14);
    assert_close(e.rpe_m.max, 0, 1e-14);
    evaluation_free(&e);
}

// Times between the truth's samples are interpolated, beyond them or in its gaps left out.
static void test_matching(void **state)
{
    (void)state;
    struct stamped_pose truth[3] = {
        {0, shift(0, 0, 0)}, {100, shift(1, 0, 0)}, {900, shift(2, 0, 0)}};
    struct stamped_pose estimate[5] = {{-5, shift(9, 9, 9)},
                                       {25, shift(0.25, 0, 0)},
                                       {100, shift(1, 0, 0)},
                                       {500, shift(9, 9, 9)},
                                       {901, shift(9, 9, 9)}};
    struct evaluation e;
    struct trajectory true_trajectory = {truth, 3, NULL, NULL};
    assert_int_equal(evaluate_trajectory(&true_trajectory,
                                         &(struct trajectory){estimate, 5, NULL, NULL}, 100, 1, &e),
                     0);
    assert_int_equal(e.n_poses, 5);
    assert_int_equal(e.n_matched, 2);
    assert_int_equal(e.rpe_m.n, 1);
    assert_close(e.ate_m.max, 0, 1e-14);
    assert_close(e.rpe_m.max, 0, 1e-14);
    evaluation_free(&e);
    assert_int_equal(evaluate_trajectory(&true_trajectory,
                                         &(struct trajectory){estimate, 1, NULL, NULL}, 100, 1, &e),
                     -ENODATA);
    assert_null(e.poses);
    assert_int_equal(evaluate_trajectory(&true_trajectory, &(struct trajectory){0}, 100, 1, &e),
                     -ENODATA);
    assert_int_equal(evaluate_trajectory(&true_trajectory,
                                         &(struct trajectory){estimate, 5, NULL, NULL}, 100, 9, &e),
                     0);
    assert_int_equal(e.rpe_m.n, 0); // fewer frames than delta
    evaluation_free(&e);
}

// A truth stamped by a clock that is 23.4 ms late, seen by a camera that wanders: the offset is
// found, also where the estimate has noise of its own, and nothing else of the truth is used.
static void test_time_offset(void **state)
{
    (void)state;
    const int64_t late_ns = 23400000;
    struct stamped_pose truth[800], estimate[150];
    for (int i = 0; i < 800; i++) {
        double t = 0.01 * i;
        truth[i] = (struct stamped_pose){
            i * INT64_C(10000000) + late_ns,
            shift(0.3 * sin(2 * t), 0.2 * cos(3 * t), 0.1 * sin(t) + 0.05 * t)};
    }
    for (int i = 0; i < 150; i++) {
        double t = (double)(i * FRAME_NS + 500000000) * 1e-9, noise = 0.002 * sin(977.0 * i);
        estimate[i] = (struct stamped_pose){
            i * FRAME_NS + 500000000, shift(0.3 * sin(2 * t) + noise, 0.2 * cos(3 * t) - noise,
                                            0.1 * sin(t) + 0.05 * t + noise)};
    }
    int64_t offset_ns;
    struct trajectory true_trajectory = {truth, 800, NULL, NULL},
                      other = {estimate, 150, NULL, NULL};
    assert_int_equal(
        evaluate_time_offset(&true_trajectory, &other, 100000000, EVALUATE_SEARCH_NS, &offset_ns),
        0);
    assert_close((double)offset_ns, (double)late_ns, 1e5);
    // Beyond the range the nearest end of it is the answer, never farther.
    assert_int_equal(
        evaluate_time_offset(&true_trajectory, &other, 100000000, 10000000, &offset_ns), 0);
    assert_int_equal(offset_ns, 10000000);
    other.n_poses = 0;
    assert_int_equal(
        evaluate_time_offset(&true_trajectory, &other, 100000000, EVALUATE_SEARCH_NS, &offset_ns),
        -ENODATA);
    assert_int_equal(offset_ns, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alignment_is_found), cmocka_unit_test(test_alignment_never_mirrors),
        cmocka_unit_test(test_errors_by_hand),     cmocka_unit_test(test_rotation_error),
        cmocka_unit_test(test_matching),           cmocka_unit_test(test_time_offset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

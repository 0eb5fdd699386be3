// SPDX-License-Identifier: Apache-2.0
// Conditioning and covariance: the formulas against answers that are known in closed form, to nine
// digits.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/track/covariance.h"
#include "gpu/track/residual.h"
#include "proto/pose_error.h"
#include "proto/se3.h"

static void near(double got, double expected)
{
    if (!(fabs(got - expected) <= 1e-9 * (1 + fabs(expected))))
        fail_msg("%.12g instead of %.12g", got, expected);
}

static void near_pose(const struct se3 *got, const struct se3 *expected)
{
    for (int i = 0; i < 9; i++)
        near(got->r[i], expected->r[i]);
    for (int i = 0; i < 3; i++)
        near(got->t_m[i], expected->t_m[i]);
}

static void set(double m[36], int i, int j, double value)
{
    m[6 * i + j] = m[6 * j + i] = value;
}

// Weight 50, pairs at 2 m: the three rotations add up to 50 * 2^2.
static struct gpu_alignment diagonal(const double shares[6])
{
    struct gpu_alignment a;
    memset(&a, 0, sizeof a);
    a.information_weight = 50;
    for (int i = 0; i < 6; i++)
        a.information[7 * i] = 50 * shares[i] * (i < 3 ? 1 : 4);
    return a;
}

static void eigenvalues_are_shares_of_the_weight(void **state)
{
    (void)state;
    const double shares[6] = {0.35, 0.001, 0.649, 0.1, 0.3, 0.6};
    const double ascending[6] = {0.001, 0.1, 0.3, 0.35, 0.6, 0.649};
    const int axes[6] = {1, 3, 4, 0, 5, 2};
    struct gpu_alignment a = diagonal(shares);
    struct conditioning c;
    conditioning_of(&a, 0.002, &c);
    near(c.arm_m, 2);
    for (int k = 0; k < 6; k++) {
        near(c.eigenvalues[k], ascending[k]);
        for (int i = 0; i < 6; i++)
            near(fabs(c.vectors[6 * k + i]), i == axes[k]);
    }
    assert_int_equal(c.n_degenerate, 1);
    assert_int_equal(c.degenerate_mask, 1 << 1);
    conditioning_of(&a, 0.00101, &c);
    assert_int_equal(c.n_degenerate, 1);
    conditioning_of(&a, 0.00099, &c);
    assert_int_equal(c.n_degenerate, 0);
    assert_int_equal(c.degenerate_mask, 0);
    conditioning_of(&a, 0.31, &c);
    assert_int_equal(c.n_degenerate, 3);
    assert_int_equal(c.degenerate_mask, 1 << 1 | 1 << 3 | 1 << 4);
    conditioning_of(&a, 2, &c);
    assert_int_equal(c.n_degenerate, 6);
    assert_int_equal(c.degenerate_mask, 0x3f);
}

// A wall whose error is fixed to it: three shares above the limit, all far below the fourth.
static void one_surface_holds_three_directions(void **state)
{
    (void)state;
    const double wall[6] = {0.006, 0.004, 0.99, 0.31, 0.684, 0.0092};
    const double room[6] = {0.006, 0.004, 0.99, 0.18, 0.811, 0.0092};
    struct conditioning c;
    struct gpu_alignment a = diagonal(wall);
    conditioning_of(&a, 0.0024, &c);
    assert_int_equal(c.n_degenerate, 3);
    assert_int_equal(c.degenerate_mask, 1 << 0 | 1 << 1 | 1 << 5);
    conditioning_of(&a, 0, &c); // nothing is asked for
    assert_int_equal(c.n_degenerate, 0);
    a = diagonal(room); // 0.051 of the fourth
    conditioning_of(&a, 0.0024, &c);
    assert_int_equal(c.n_degenerate, 0);
    conditioning_of(&a, 0.005, &c);
    assert_int_equal(c.n_degenerate, 1);
    // A 25th of the fourth is where it ends.
    for (int above = 0; above < 2; above++) {
        const double third = above ? 0.00804 : 0.00796;
        const double shares[6] = {0.006, 0.004, 0.99, 0.2, 0.8 - third, third};
        a = diagonal(shares);
        conditioning_of(&a, 0.0024, &c);
        assert_int_equal(c.n_degenerate, above ? 0 : 3);
    }
}

// A corridor along x whose eigenvector leans into the turns that it hardly holds: the camera may be
// shifted along it, not turned.
static void a_shift_is_free_without_the_turns_it_leans_to(void **state)
{
    (void)state;
    const double shares[6] = {2e-5, 0.4, 0.6, 0.3, 0.69, 0.01};
    struct gpu_alignment a = diagonal(shares);
    struct conditioning c;
    set(a.information, 0, 5, 50 * 2e-4 * 2); // 0.02 of the turn about z
    set(a.information, 0, 1, 50 * 4e-4);     // and 0.001 across, which is the shift's
    conditioning_of(&a, 0.0024, &c);
    assert_int_equal(c.n_degenerate, 1);
    assert_true(fabs(c.vectors[5]) > 0.019);
    near(fabs(c.free[0]), 1 / sqrt(1 + 1e-6));
    assert_true(fabs(c.free[1] / c.free[0] + 0.001) < 1e-6);
    for (int i = 2; i < 6; i++)
        near(c.free[i], 0);
    set(a.information, 0, 5, 0); // hardly held is no symmetry: two eigenvectors
    a.information[35] = 50 * 0.002 * 4;
    conditioning_of(&a, 0.0024, &c);
    assert_int_equal(c.n_degenerate, 2);
    for (int i = 0; i < 36; i++)
        near(c.free[i], c.vectors[i]);
}

// A wall z = const beside which the camera turns about an axis that noise has tilted: it is the
// wall's own. And a tube along x whose axis is 0.5 m above the camera.
static void a_turn_is_about_its_shift_or_across_two(void **state)
{
    (void)state;
    const double wall[6] = {1e-4, 1e-4, 0.99, 0.31, 0.69, 1e-4};
    const double tube[6] = {1e-4, 0.5, 0.5, 1e-4, 0.5, 0.5};
    struct conditioning c;
    struct gpu_alignment a = diagonal(wall);
    set(a.information, 3, 5, 50 * 4 * 3e-3);
    set(a.information, 0, 2, 50 * 1e-3);
    conditioning_of(&a, 0.0024, &c);
    assert_int_equal(c.n_degenerate, 3);
    double across[3] = {0}, most = 0;
    for (int k = 0; k < 3; k++)
        for (int i = 3; i < 6; i++)
            across[i - 3] += c.free[6 * k + i] * c.free[6 * k + i];
    for (int k = 0; k < 3; k++)
        most = fmax(most, fabs(c.vectors[6 * k + 3]));
    assert_true(most > 9e-3 && across[0] < 2e-6 && across[1] < 1e-12);
    assert_true(fabs(across[2] - 1) < 1e-5);
    a = diagonal(tube);
    set(a.information, 2, 3, -50 * 0.5 * 0.5); // z moves by y times the turn, y = 0.5
    a.information[21] = 50 * (4e-4 + 0.5 * 0.25);
    conditioning_of(&a, 0.0024, &c);
    assert_int_equal(c.n_degenerate, 2);
    near(fabs(c.free[0]), 1);
    near(c.free[8] / c.free[9], 0.5 / c.arm_m);
    near(c.free[6], 0);
    near(c.free[7], 0);
}

// Below the limit, not at it; and an arm below a metre is one.
static void a_share_at_the_limit_is_held(void **state)
{
    (void)state;
    struct gpu_alignment a;
    struct conditioning c;
    memset(&a, 0, sizeof a);
    a.information_weight = 1;
    for (int i = 0; i < 6; i++)
        a.information[7 * i] = i < 3 ? 0.25 : 0.0625;
    a.information[21] = 0.125;
    conditioning_of(&a, 0.25, &c);
    near(c.arm_m, 0.5);
    assert_int_equal(c.n_degenerate, 0);
}

// What couples translation and rotation counts in the arm's units: once the arm, not its square.
static void coupling_counts_in_the_arms_units(void **state)
{
    (void)state;
    const double shares[6] = {0.3, 0.2, 0.5, 0.4, 0.3, 0.3};
    struct gpu_alignment a = diagonal(shares);
    set(a.information, 0, 4, 50 * 0.28 * 2); // v_x and w_y: eigenvalues 0.3 -+ 0.28
    set(a.information, 1, 2, -50 * 0.2);     // v_y and v_z
    struct conditioning c;
    conditioning_of(&a, 0.03, &c);
    near(c.arm_m, 2);
    const double low = 0.35 - sqrt(0.15 * 0.15 + 0.04), high = 0.35 + sqrt(0.15 * 0.15 + 0.04);
    const double ascending[6] = {0.02, low, 0.3, 0.4, 0.58, high};
    for (int k = 0; k < 6; k++)
        near(c.eigenvalues[k], ascending[k]);
    // (v_x - w_y) / sqrt 2 is not held: half of each axis, which is not more than half.
    assert_int_equal(c.n_degenerate, 1);
    near(fabs(c.vectors[0]), sqrt(0.5));
    near(c.vectors[0], -c.vectors[4]);
    // Its square: 0.36 and 0.64 of the axes.
    set(a.information, 1, 2, 0);
    set(a.information, 0, 4, 50 * 0.24 * 2);
    a.information[7 * 4] = 50 * 4 * (0.3 + 0.14);
    a.information[7 * 3] -= 50 * 4 * 0.14;
    conditioning_of(&a, 0.13, &c);
    near(c.eigenvalues[0], 0.37 - 0.25);
    assert_int_equal(c.degenerate_mask, 1 << 0);
    near(c.vectors[0] * c.vectors[0], 0.64);
    near(c.vectors[4] * c.vectors[4], 0.36);
}

static void nothing_is_held_without_information(void **state)
{
    (void)state;
    struct gpu_alignment a;
    struct conditioning c;
    memset(&a, 0, sizeof a);
    a.information[0] = 1;
    for (int i = 0; i < 2; i++) {
        a.information_weight = i ? NAN : 0;
        conditioning_of(&a, 0.002, &c);
        near(c.arm_m, 1);
        assert_int_equal(c.n_degenerate, 6);
        assert_int_equal(c.degenerate_mask, 0x3f);
    }
    a.information_weight = 1; // no lever: the arm is 1 m
    conditioning_of(&a, 0.002, &c);
    near(c.arm_m, 1);
    near(c.eigenvalues[5], 1);
    assert_int_equal(c.n_degenerate, 5);
    assert_int_equal(c.degenerate_mask, 0x3e);
}

// Residuals weighted with (sigma0 / sigma)^2: divided by sigma0 = 1.2 mm they are in sigmas.
static void residuals_count_in_sigmas(void **state)
{
    (void)state;
    struct gpu_alignment a;
    memset(&a, 0, sizeof a);
    a.residual_rms_m = 0.006;
    a.weight_sum = 2500;
    a.n_pairs = 10000;
    assert_true(fabs(residual_sigmas(&a) - 2.5) < 1e-6);
    a.weight_sum = 40000;
    assert_true(fabs(residual_sigmas(&a) - 10) < 1e-6);
    a.n_pairs = 0;
    assert_true(residual_sigmas(&a) == 0);
}

static void directions_that_are_not_held_follow_the_prediction(void **state)
{
    (void)state;
    const double predicted_twist[6] = {0.1, -0.2, 0.3, 0.4, -0.3, 0.2};
    const double twist[6] = {0.01, 0.02, -0.03, 0.05, -0.04, 0.02};
    struct se3 T_predicted = se3_exp(predicted_twist), step = se3_exp(twist);
    struct se3 T_frame = se3_compose(&step, &T_predicted);
    struct conditioning c;
    memset(&c, 0, sizeof c);
    c.arm_m = 2.5;
    // Not held: 0.6 v_y + 0.8 arm w_x, and v_z.
    double *v = c.vectors;
    v[1] = 0.6, v[3] = 0.8;
    v[6 + 2] = 1;
    v[12 + 0] = 1;
    v[18 + 1] = 0.8, v[18 + 3] = -0.6;
    v[24 + 4] = 1;
    v[30 + 5] = 1;
    c.n_degenerate = 2;
    struct se3 got = conditioning_hold(&c, &T_predicted, &T_frame);
    const double along = 0.8 * twist[1] - 0.6 * twist[3] * 2.5;
    const double held[6] = {twist[0], 0.8 * along, 0, -0.6 * along / 2.5, twist[4], twist[5]};
    struct se3 left = se3_exp(held), expected = se3_compose(&left, &T_predicted);
    near_pose(&got, &expected);
    c.n_degenerate = 6;
    got = conditioning_hold(&c, &T_predicted, &T_frame);
    near_pose(&got, &T_predicted);
    c.n_degenerate = 0;
    got = conditioning_hold(&c, &T_predicted, &T_frame);
    assert_memory_equal(&got, &T_frame, sizeof got);
}

// Against the inverse of the normal matrix that the weights make, in the sensor's variance.
static void covariance_is_the_inverse_of_the_information(void **state)
{
    (void)state;
    struct gpu_alignment a;
    struct conditioning c;
    double got[36];
    memset(&a, 0, sizeof a);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            a.information[6 * i + j] = (i == j ? 900 + 100 * i : 60 * cos(i * j + 1));
    a.information_weight = 4000;
    a.weight_sum = 5000;
    conditioning_of(&a, 0.001, &c);
    assert_int_equal(c.n_degenerate, 0);
    covariance_of_twist(&a, &c, 40, got);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++) {
            double sum = 0;
            for (int k = 0; k < 6; k++)
                sum += got[6 * i + k] * a.information[6 * k + j] * (5000.0 / 4000);
            assert_true(fabs(sum / (40 * 0.0012 * 0.0012) - (i == j)) < 1e-6);
        }
}

// A direction that the scene does not hold is in the one and not in the other.
static void what_is_not_held_has_its_own_covariance(void **state)
{
    (void)state;
    struct gpu_alignment a;
    struct conditioning c;
    double held[36], unheld[36];
    memset(&a, 0, sizeof a);
    memset(&c, 0, sizeof c);
    a.weight_sum = 1000;
    c.arm_m = 2;
    c.n_degenerate = 1;
    for (int i = 0; i < 6; i++)
        c.eigenvalues[i] = 0.1;
    double *v = c.vectors;
    v[0] = 0.6, v[4] = 0.8; // not held
    v[6 + 1] = v[12 + 2] = v[18 + 3] = v[30 + 5] = 1;
    v[24 + 0] = 0.8, v[24 + 4] = -0.6;
    c.free[0] = 0.6, c.free[4] = 0.8;
    covariance_of_twist(&a, &c, 40, held);
    covariance_unheld(&c, 0.02, unheld);
    const double one = 40 * 0.0012 * 0.0012 / (0.1 * 1000), free = 0.02 * 0.02;
    double expected[2][36] = {{0}, {0}};
    set(expected[0], 1, 1, one);
    set(expected[0], 2, 2, one);
    set(expected[0], 3, 3, one / 4);
    set(expected[0], 5, 5, one / 4);
    set(expected[0], 0, 0, 0.64 * one);
    set(expected[0], 4, 4, 0.36 * one / 4);
    set(expected[0], 0, 4, -0.48 * one / 2);
    set(expected[1], 0, 0, 0.36 * free);
    set(expected[1], 4, 4, 0.64 * free / 4);
    set(expected[1], 0, 4, 0.48 * free / 2);
    for (int i = 0; i < 36; i++) {
        assert_true(fabs(held[i] - expected[0][i]) <= 1e-6 * fabs(expected[0][i]) + 1e-18);
        assert_true(fabs(unheld[i] - expected[1][i]) <= 1e-6 * fabs(expected[1][i]) + 1e-18);
    }
    // What recedes is seen tilted by 5 mrad: a shift along the view is uncertain across it.
    c.free[4] = 0, c.free[2] = 0.8;
    covariance_unheld(&c, 0.02, unheld);
    near(unheld[7], free * 0.64 * 25e-6);
    near(unheld[0], free * (0.36 + 0.64 * 25e-6));
    near(unheld[2], free * 0.48);
    near(unheld[28], 0);
}

// Residuals of the sensor's noise make no drift, however far the camera has moved; above it the
// drift goes with the step, by the rate over the flow that the residual grew in.
static void variances_follow_the_residual(void **state)
{
    (void)state;
    struct gpu_alignment a;
    memset(&a, 0, sizeof a);
    a.n_pairs = 1000;
    a.weight_sum = 1000;
    a.residual_rms_m = 0.3 * 0.0012;
    assert_true(fabs(covariance_own_variance(&a) - 30 * 0.09) < 1e-4);
    assert_true(covariance_drift_variance(&a, 0.1, 0.01) == 0);
    a.residual_rms_m = 0;
    assert_true(fabs(covariance_own_variance(&a) - 30 * 0.14 * 0.14) < 1e-6);
    a.residual_rms_m = 0.0012;
    assert_true(fabs(covariance_own_variance(&a) - 30 * 0.16 - 50 * 0.84) < 1e-4);
    const double excess = 36000 * (1 - 0.4 * 0.4);
    assert_true(fabs(covariance_drift_variance(&a, 0.1, 0.01) / (excess * 0.1) - 1) < 1e-4);
    assert_true(fabs(covariance_drift_variance(&a, 0.02, 0.01) / (excess * 0.5) - 1) < 1e-4);
    assert_true(covariance_drift_variance(&a, 0.1, 0) == 0);
    assert_true(fabs(covariance_excess_share(&a) - 0.84) < 1e-6);
    a.residual_rms_m = 0.3 * 0.0012;
    assert_true(covariance_excess_share(&a) == 0);
    a.residual_rms_m = 0;
    assert_true(covariance_excess_share(&a) == 0);
}

// The camera's pose when the reference errs by `error` (position, rotation, along odom's axes) and
// the twist by `twist`, as the camera's error along odom's axes.
static void swing(const struct se3 *T_odom_reference, const struct se3 *T_odom_camera,
                  const double error[6], const double twist[6], double out[6])
{
    const double turn[6] = {0, 0, 0, error[3], error[4], error[5]};
    struct se3 R = se3_exp(turn), reference = *T_odom_reference;
    struct se3 T_reference_camera = se3_between(T_odom_reference, T_odom_camera);
    memset(reference.t_m, 0, sizeof reference.t_m);
    reference = se3_compose(&R, &reference);
    for (int i = 0; i < 3; i++)
        reference.t_m[i] = T_odom_reference->t_m[i] + error[i];
    struct se3 step = se3_exp(twist), T = se3_compose(&reference, &step);
    T = se3_compose(&T, &T_reference_camera);
    struct se3 was = *T_odom_camera, is = T;
    for (int i = 0; i < 3; i++) {
        out[i] = T.t_m[i] - T_odom_camera->t_m[i];
        was.t_m[i] = is.t_m[i] = 0;
    }
    struct se3 back = se3_inverse(&was), off = se3_compose(&is, &back);
    se3_rotation_vector(&off, out + 3);
}

static void covariance_is_carried_as_errors_are(void **state)
{
    (void)state;
    const double twists[2][6] = {{1, -2, 0.5, 0.4, -0.8, 0.3}, {1.5, 0.2, -0.4, -0.2, 0.9, 0.5}};
    struct se3 T_odom_reference = se3_exp(twists[0]), T_odom_camera = se3_exp(twists[1]);
    double reference[36], own[36], got[36], jacobian[2][36], expected[36] = {0};
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++) {
            reference[6 * i + j] = (i == j) + 0.1 * cos(i * j + 1);
            own[6 * i + j] = (i == j ? 2 + i : 0.2 * sin(i * j + 2));
        }
    const double h = 1e-6;
    for (int which = 0; which < 2; which++)
        for (int j = 0; j < 6; j++) {
            double errors[2][6] = {{0}}, plus[6], minus[6];
            errors[which][j] = h;
            swing(&T_odom_reference, &T_odom_camera, errors[0], errors[1], plus);
            errors[which][j] = -h;
            swing(&T_odom_reference, &T_odom_camera, errors[0], errors[1], minus);
            for (int i = 0; i < 6; i++)
                jacobian[which][6 * i + j] = (plus[i] - minus[i]) / (2 * h);
        }
    for (int which = 0; which < 2; which++)
        for (int i = 0; i < 6; i++)
            for (int j = 0; j < 6; j++)
                for (int k = 0; k < 6; k++)
                    for (int m = 0; m < 6; m++)
                        expected[6 * i + j] += jacobian[which][6 * i + k] *
                                               (which ? own : reference)[6 * k + m] *
                                               jacobian[which][6 * j + m];
    const double arm_m[3] = {T_odom_camera.t_m[0] - T_odom_reference.t_m[0],
                             T_odom_camera.t_m[1] - T_odom_reference.t_m[1],
                             T_odom_camera.t_m[2] - T_odom_reference.t_m[2]};
    memset(got, 0, sizeof got);
    pose_error_carry(arm_m, reference, got);
    covariance_add(&T_odom_reference, &T_odom_camera, own, got);
    for (int i = 0; i < 36; i++)
        if (!(fabs(got[i] - expected[i]) < 1e-6))
            fail_msg("element %d: %.9g instead of %.9g", i, got[i], expected[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eigenvalues_are_shares_of_the_weight),
        cmocka_unit_test(one_surface_holds_three_directions),
        cmocka_unit_test(a_shift_is_free_without_the_turns_it_leans_to),
        cmocka_unit_test(a_turn_is_about_its_shift_or_across_two),
        cmocka_unit_test(a_share_at_the_limit_is_held),
        cmocka_unit_test(coupling_counts_in_the_arms_units),
        cmocka_unit_test(nothing_is_held_without_information),
        cmocka_unit_test(residuals_count_in_sigmas),
        cmocka_unit_test(directions_that_are_not_held_follow_the_prediction),
        cmocka_unit_test(covariance_is_the_inverse_of_the_information),
        cmocka_unit_test(what_is_not_held_has_its_own_covariance),
        cmocka_unit_test(variances_follow_the_residual),
        cmocka_unit_test(covariance_is_carried_as_errors_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

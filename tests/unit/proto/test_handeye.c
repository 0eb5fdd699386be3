// SPDX-License-Identifier: Apache-2.0
// Hand-eye calibration: exact motions give the exact transform; with noise the error is what the
// covariance says (normalised squared errors over many seeds, six degrees of freedom); outliers and
// motions about one axis.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>

#include "proto/eigen.h"
#include "proto/handeye.h"
#include "proto/se3.h"

#define N 40

static uint64_t seed;

static double uniform(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 11) / 9007199254740992.0;
}

static double normal(void)
{
    return sqrt(-2 * log(1 - uniform())) * cos(6.283185307179586 * uniform());
}

static struct se3 random_pose(double range_m, double range_rad)
{
    double twist[6];
    for (int k = 0; k < 6; k++)
        twist[k] = (2 * uniform() - 1) * (k < 3 ? range_m : range_rad);
    return se3_exp(twist);
}

static struct se3 noisy(const struct se3 *T, double sigma_m, double sigma_rad)
{
    double twist[6];
    for (int k = 0; k < 6; k++)
        twist[k] = normal() * (k < 3 ? sigma_m : sigma_rad);
    struct se3 error = se3_exp(twist);
    return se3_compose(&error, T);
}

// B = X^-1 A X, by which a point that the body carries moves as both cameras see it.
static void make(const struct se3 *X, double sigma_m, double sigma_rad,
                 struct handeye_motion motions[N])
{
    struct se3 X_inverse = se3_inverse(X);
    for (int i = 0; i < N; i++) {
        struct se3 A = random_pose(0.4, 0.4), AX = se3_compose(&A, X);
        struct se3 B = se3_compose(&X_inverse, &AX);
        motions[i].A = noisy(&A, sigma_m, sigma_rad);
        motions[i].B = noisy(&B, sigma_m, sigma_rad);
    }
}

// From the estimate to the truth, as the covariance has it.
static void error_of(const struct handeye_result *result, const struct se3 *X, double out[6])
{
    struct se3 inverse = se3_inverse(&result->T_a_b), E = se3_compose(X, &inverse);
    se3_log(&E, out);
}

static void exact_motions_give_the_exact_transform(void **state)
{
    (void)state;
    for (seed = 1; seed < 50; seed += 7) {
        struct se3 X = random_pose(0.5, 1.7);
        struct handeye_motion motions[N];
        struct handeye_result result;
        double error[6];
        make(&X, 0, 0, motions);
        assert_int_equal(handeye_solve(motions, N, 1, &result), 0);
        error_of(&result, &X, error);
        for (int k = 0; k < 6; k++)
            assert_true(fabs(error[k]) < 1e-9);
    }
}

// e^T C^-1 e is chi-squared with six degrees of freedom: mean 6, standard deviation of the mean
// over 200 seeds 0.25. The noise of A and B is the residual's only to first order, and its size is
// estimated from N motions: 30 % of room.
static void covariance_is_right(void **state)
{
    (void)state;
    double sum = 0, worst = 0;
    enum { N_SEEDS = 200 };
    for (int i = 0; i < N_SEEDS; i++) {
        seed = 1000 + (uint64_t)i * 977;
        struct se3 X = random_pose(0.3, 1.7);
        struct handeye_motion motions[N];
        struct handeye_result result;
        double error[6], values[6], vectors[36], length2 = 0;
        make(&X, 0.002, 0.002, motions);
        assert_int_equal(handeye_solve(motions, N, 1, &result), 0);
        error_of(&result, &X, error);
        eigen_symmetric(result.covariance, 6, values, vectors);
        for (int k = 0; k < 6; k++) {
            double along = 0;
            for (int l = 0; l < 6; l++)
                along += vectors[6 * k + l] * error[l];
            length2 += along * along / values[k];
        }
        sum += length2 / N_SEEDS;
        worst = fmax(worst, length2);
    }
    print_message("normalised squared error: mean %.2f, worst %.1f\n", sum, worst);
    assert_true(sum > 6 * 0.7 && sum < 6 * 1.3);
    assert_true(worst < 60);
}

// A tracker that jumped: every eighth motion is anything.
static void outliers_do_not_count(void **state)
{
    (void)state;
    seed = 5;
    struct se3 X = random_pose(0.3, 1.5);
    struct handeye_motion motions[N];
    struct handeye_result result;
    double error[6];
    make(&X, 0.001, 0.001, motions);
    for (int i = 0; i < N; i += 8)
        motions[i].B = random_pose(0.4, 0.4);
    assert_int_equal(handeye_solve(motions, N, 1, &result), 0);
    error_of(&result, &X, error);
    for (int k = 0; k < 6; k++)
        assert_true(fabs(error[k]) < 0.005);
    assert_true(result.n_used <= N - N / 8);
}

static void what_cannot_be_known_is_refused(void **state)
{
    (void)state;
    seed = 9;
    struct se3 X = random_pose(0.3, 1.5), X_inverse = se3_inverse(&X);
    struct handeye_motion motions[N];
    struct handeye_result result;
    for (int i = 0; i < N; i++) {
        const double about_y[6] = {uniform(), 0, uniform(), 0, uniform() - 0.5, 0};
        motions[i].A = se3_exp(about_y);
        struct se3 AX = se3_compose(&motions[i].A, &X);
        motions[i].B = se3_compose(&X_inverse, &AX);
    }
    assert_int_equal(handeye_solve(motions, N, 1, &result), -EDOM);
    assert_true(result.spread_rad < 1e-9);
    assert_int_equal(handeye_solve(motions, HANDEYE_MIN_MOTIONS - 1, 1, &result), -ENODATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_motions_give_the_exact_transform),
        cmocka_unit_test(covariance_is_right),
        cmocka_unit_test(outliers_do_not_count),
        cmocka_unit_test(what_cannot_be_known_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

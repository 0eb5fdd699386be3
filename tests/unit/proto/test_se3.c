// SPDX-License-Identifier: Apache-2.0
// proto/se3.h: group laws, exp/log round trips (tiny angles and close to pi included), quaternions,
// adjoint. Limits are a few hundred ulp of a double; close to pi the logarithm is conditioned by
// the sine of the angle and gets a wider one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/se3.h"

#define LIMIT 1e-13

static uint64_t random_state = 20261120;

static double random_uniform(double low, double high)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(random_state >> 11) / 9007199254740992.0;
}

static void random_twist(double angle_rad, double out[6])
{
    double n = 0;
    for (int i = 0; i < 6; i++)
        out[i] = random_uniform(-1, 1);
    for (int i = 3; i < 6; i++)
        n += out[i] * out[i];
    for (int i = 3; i < 6; i++)
        out[i] *= angle_rad / sqrt(n);
}

static void assert_close(double a, double b, double limit)
{
    if (!(fabs(a - b) <= limit))
        fail_msg("%.17g differs from %.17g by %.3g, limit %.3g", a, b, fabs(a - b), limit);
}

static void assert_se3_close(const struct se3 *a, const struct se3 *b, double limit)
{
    for (int i = 0; i < 9; i++)
        assert_close(a->r[i], b->r[i], limit);
    for (int i = 0; i < 3; i++)
        assert_close(a->t_m[i], b->t_m[i], limit);
}

static void test_exp_of_known_twists(void **state)
{
    (void)state;
    double quarter[6] = {0, 0, 0, 0, 0, M_PI / 2}; // x -> y about z
    struct se3 T = se3_exp(quarter);
    double x[3] = {1, 0, 0}, out[3];
    se3_apply(&T, x, out);
    assert_close(out[0], 0, LIMIT);
    assert_close(out[1], 1, LIMIT);
    // A half turn about z while moving along x: a half circle of diameter 2 v / w = 2/pi.
    double screw[6] = {1, 0, 0, 0, 0, M_PI};
    T = se3_exp(screw);
    assert_close(T.t_m[0], 0, LIMIT);
    assert_close(T.t_m[1], 2 / M_PI, LIMIT);
    double slide[6] = {1, -2, 3, 0, 0, 0};
    T = se3_exp(slide);
    struct se3 expected = {{1, 0, 0, 0, 1, 0, 0, 0, 1}, {1, -2, 3}};
    assert_se3_close(&T, &expected, 0);
}

static void test_exp_log_round_trips(void **state)
{
    (void)state;
    static const struct {
        double angle_rad, limit; // of the twist that comes back
    } cases[] = {
        {0.0, LIMIT},     {1e-12, LIMIT},       {1e-8, LIMIT},       {9.9e-5, LIMIT},
        {1.01e-4, 1e-12}, {1e-3, 1e-12},        {0.1, LIMIT},        {1.0, LIMIT},
        {3.0, 1e-12},     {M_PI - 1e-3, 1e-12}, {M_PI - 1e-6, 1e-9},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int k = 0; k < 200; k++) {
            double twist[6], back[6];
            random_twist(cases[c].angle_rad, twist);
            struct se3 T = se3_exp(twist);
            se3_log(&T, back);
            for (int i = 0; i < 6; i++)
                assert_close(back[i], twist[i], cases[c].limit);
            assert_close(se3_angle(&T), cases[c].angle_rad, cases[c].limit);
        }
}

// At pi itself the axis may come back with either sign; the transform must not change.
static void test_log_exp_at_pi(void **state)
{
    (void)state;
    for (int k = 0; k < 200; k++) {
        double twist[6], back[6];
        random_twist(M_PI, twist);
        struct se3 T = se3_exp(twist);
        se3_log(&T, back);
        struct se3 again = se3_exp(back);
        assert_se3_close(&again, &T, 1e-12);
    }
}

static void test_group_laws(void **state)
{
    (void)state;
    struct se3 identity = se3_identity();
    for (int k = 0; k < 200; k++) {
        double a[6], b[6];
        random_twist(random_uniform(0, M_PI), a);
        random_twist(random_uniform(0, M_PI), b);
        struct se3 A = se3_exp(a), B = se3_exp(b), inverse = se3_inverse(&A);
        struct se3 one = se3_compose(&A, &inverse);
        assert_se3_close(&one, &identity, LIMIT);
        struct se3 between = se3_between(&A, &B), again = se3_compose(&A, &between);
        assert_se3_close(&again, &B, LIMIT);
        struct se3 AB = se3_compose(&A, &B);
        double p[3] = {a[0], b[1], a[2]}, q[3], direct[3], step[3];
        se3_apply(&B, p, q);
        se3_apply(&A, q, step);
        se3_apply(&AB, p, direct);
        for (int i = 0; i < 3; i++)
            assert_close(step[i], direct[i], LIMIT);
    }
}

static void test_quaternions(void **state)
{
    (void)state;
    // Half turns about each axis drive every branch of Shepperd's method.
    for (int axis = 0; axis < 3; axis++) {
        double twist[6] = {0}, q[4];
        twist[3 + axis] = M_PI;
        struct se3 T = se3_exp(twist);
        se3_to_quaternion(&T, q);
        assert_close(fabs(q[axis]), 1, LIMIT);
        assert_close(q[3], 0, LIMIT);
    }
    for (int k = 0; k < 500; k++) {
        double twist[6], q[4];
        random_twist(random_uniform(0, M_PI), twist);
        struct se3 T = se3_exp(twist);
        se3_to_quaternion(&T, q);
        assert_true(q[3] >= 0);
        assert_close(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3], 1, LIMIT);
        double scaled[4] = {-3 * q[0], -3 * q[1], -3 * q[2], -3 * q[3]};
        struct se3 back = se3_from_quaternion(scaled, T.t_m);
        assert_se3_close(&back, &T, LIMIT);
    }
}

static void test_normalized_repairs_drift(void **state)
{
    (void)state;
    double twist[6];
    random_twist(2, twist);
    struct se3 T = se3_exp(twist), dirty = T;
    for (int i = 0; i < 9; i++)
        dirty.r[i] += random_uniform(-1e-9, 1e-9);
    struct se3 clean = se3_normalized(&dirty);
    assert_se3_close(&clean, &T, 1e-8);
    struct se3 inverse = se3_inverse(&clean), one = se3_compose(&clean, &inverse);
    struct se3 identity = se3_identity();
    assert_se3_close(&one, &identity, LIMIT);
}

// T exp(x) T^-1 = exp(Ad(T) x)
static void test_adjoint(void **state)
{
    (void)state;
    for (int k = 0; k < 200; k++) {
        double a[6], x[6], ad[36], moved[6];
        random_twist(random_uniform(0, 3), a);
        random_twist(random_uniform(0, 3), x);
        struct se3 T = se3_exp(a), X = se3_exp(x), inverse = se3_inverse(&T);
        struct se3 TX = se3_compose(&T, &X), left = se3_compose(&TX, &inverse);
        se3_adjoint(&T, ad);
        for (int i = 0; i < 6; i++) {
            moved[i] = 0;
            for (int j = 0; j < 6; j++)
                moved[i] += ad[6 * i + j] * x[j];
        }
        struct se3 right = se3_exp(moved);
        assert_se3_close(&left, &right, 1e-12);
    }
}

// Where the series take over from the closed forms: each term that a double still sees.
static void test_small_angles(void **state)
{
    (void)state;
    static const double angles[] = {9.9e-5, 1.01e-4, 3e-5, 1e-6};
    for (int i = 0; i < 4; i++) {
        const double a = angles[i], twist[6] = {0, 0.7, 0, a, 0, 0}, half = sin(a / 2);
        const struct se3 T = se3_exp(twist);
        assert_close(T.r[7] / sin(a), 1, 1e-14);
        assert_close((1 - T.r[4]) / (2 * half * half), 1, 1e-4);
        assert_close(T.t_m[2] / 0.7 / (2 * half * half / a), 1, 1e-12);
        assert_close(T.t_m[1], 0.7 * (1 - a * a / 6), 3e-16);
        double back[6];
        se3_log(&T, back);
        for (int k = 0; k < 6; k++)
            assert_close(back[k], twist[k], 1e-15);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp_of_known_twists),
        cmocka_unit_test(test_exp_log_round_trips),
        cmocka_unit_test(test_log_exp_at_pi),
        cmocka_unit_test(test_group_laws),
        cmocka_unit_test(test_quaternions),
        cmocka_unit_test(test_normalized_repairs_drift),
        cmocka_unit_test(test_adjoint),
        cmocka_unit_test(test_small_angles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

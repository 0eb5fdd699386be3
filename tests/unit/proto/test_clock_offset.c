// SPDX-License-Identifier: Apache-2.0
// The difference of two cameras' clocks: a made-up hand that turns, sampled by two cameras at rates
// and phases of their own, with noise; errors are what the standard deviation says. What cannot
// tell is refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>

#include "proto/clock_offset.h"

#define N     600  // 20 s
#define NOISE 0.05 // rad/s of one turn, as 0.1 degree a frame
#ifdef POSED_SANITIZED
#define SEEDS 4
#else
#define SEEDS 20
#endif

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

// The rotation vector that has been turned through until t, of motions that do not repeat.
static double turned(int axis, double t)
{
    return 0.3 * sin((1.3 + axis) * t + axis) + 0.1 * sin(3.71 * t + 2 * axis);
}

static double speed(int axis, double t)
{
    return 0.3 * (1.3 + axis) * cos((1.3 + axis) * t + axis) + 0.371 * cos(3.71 * t + 2 * axis);
}

// `ahead_s`: how far the camera's clock is ahead.
static void make(struct clock_offset_turn turns[N], double period_s, double ahead_s, bool is_vector)
{
    for (int i = 0; i < N; i++) {
        const double begin = i * period_s, end = begin + period_s, middle = 0.5 * (begin + end);
        double v[3], length2 = 0;
        for (int k = 0; k < 3; k++) {
            v[k] = (turned(k, end) - turned(k, begin)) / period_s;
            length2 += speed(k, middle) * speed(k, middle);
            v[k] += NOISE * normal();
        }
        if (!is_vector) {
            v[0] = sqrt(length2) + NOISE * normal();
            v[1] = v[2] = 0;
        }
        turns[i] = (struct clock_offset_turn){(int64_t)((begin + ahead_s) * 1e9),
                                              (int64_t)((end + ahead_s) * 1e9),
                                              {v[0], v[1], v[2]}};
    }
}

static void test_found(void **state)
{
    static struct clock_offset_turn a[N], b[N];
    (void)state;
    for (int is_vector = 0; is_vector < 2; is_vector++) {
        double sum2 = 0;
        for (int s = 0; s < SEEDS; s++) {
            struct clock_offset found;
            seed = (uint64_t)s + 1;
            const double ahead_s = 3 * uniform() - 1.5;
            make(a, 1 / 30.0, 0, is_vector);
            make(b, 1 / 28.7, ahead_s, is_vector);
            assert_int_equal(clock_offset_find(a, N, b, N, &found), 0);
            const double error_s = found.offset_s - ahead_s;
            assert_true(fabs(error_s) < 0.004); // an eighth of a frame
            assert_true(found.correlation > 0.9);
            sum2 += error_s * error_s / (found.std_s * found.std_s);
        }
        print_message("%s: squared error in units of its variance %.2f\n",
                      is_vector ? "vectors" : "lengths", sum2 / SEEDS);
        assert_true(sum2 / SEEDS < 2); // 1 is right; less: it is surer than it says
    }
}

// The same turns at another time, whatever the rest beside whole steps of the grid: to the
// microsecond.
static void test_rests(void **state)
{
    static struct clock_offset_turn a[N], b[N];
    (void)state;
    seed = 3;
    make(a, 1 / 30.0, 0, true);
    for (int64_t ahead_ns = 100000000; ahead_ns < 105000000; ahead_ns += 600000) {
        struct clock_offset found;
        for (int i = 0; i < N; i++) {
            b[i] = a[i];
            b[i].begin_ns += ahead_ns;
            b[i].end_ns += ahead_ns;
        }
        assert_int_equal(clock_offset_find(a, N, b, N, &found), 0);
        assert_true(fabs(found.offset_s - (double)ahead_ns * 1e-9) < 1e-6);
        assert_int_equal(clock_offset_find(b, N, a, N, &found), 0);
        assert_true(fabs(found.offset_s + (double)ahead_ns * 1e-9) < 1e-6);
    }
}

static void test_refused(void **state)
{
    static struct clock_offset_turn a[N], b[N];
    struct clock_offset found;
    (void)state;
    seed = 7;
    make(a, 1 / 30.0, 0, true);
    make(b, 1 / 30.0, 100, true); // nothing in common
    assert_int_equal(clock_offset_find(a, N, b, N, &found), -ENODATA);
    assert_int_equal(clock_offset_find(a, 0, b, N, &found), -ENODATA);
    for (int i = 0; i < N; i++) { // another body
        b[i] = a[N - 1 - i];
        b[i].begin_ns = a[i].begin_ns;
        b[i].end_ns = a[i].end_ns;
    }
    assert_int_equal(clock_offset_find(a, N, b, N, &found), -EDOM);
    for (int i = 0; i < N; i++) // a turntable
        for (int k = 0; k < 3; k++)
            a[i].rad_s[k] = b[i].rad_s[k] = 0.5 + 0.001 * normal();
    assert_int_equal(clock_offset_find(a, N, b, N, &found), -EDOM);
    for (int i = 0; i < N; i++) // an epoch that broke off at each frame
        a[i].rad_s[0] = NAN;
    assert_int_equal(clock_offset_find(a, N, b, N, &found), -ENODATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_rests),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

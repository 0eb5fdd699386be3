// SPDX-License-Identifier: Apache-2.0
// The covariance of a velocity: known answers of motions whose covariance is known, and where none
// is.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/twist_error.h"
#include "proto/se3.h"

#define PERIOD_NS 100000000 // a tenth of a second: variances of a motion count a hundredfold

static const double moving[6] = {0.1, 0, 0, 0, 0, 0}, at_rest[6] = {0};

// A sight whose own error is this on every axis but the first, of which it is four times that.
static struct twist_sight sight_of(struct pose_error *error, int frame, double variance)
{
    *error = (struct pose_error){0};
    for (int i = 0; i < 6; i++)
        error->own[7 * i] = i == 0 ? 4 * variance : variance;
    return (struct twist_sight){.time_ns = (int64_t)frame * PERIOD_NS,
                                .T_odom_body = se3_identity(),
                                .error = error,
                                .velocity = moving};
}

static void assert_near(double got, double wanted)
{
    if (!(fabs(got - wanted) < 1e-12))
        print_error("%g, wanted %g\n", got, wanted);
    assert_true(fabs(got - wanted) < 1e-12);
}

// Both poses' own errors, in the frame of a body that looks along odom's y.
static void of_a_step(void **state)
{
    (void)state;
    struct twist_error twist = {0};
    struct pose_error a, b;
    double out[36];
    struct twist_sight sight = sight_of(&a, 0, 1e-6);
    sight.velocity = at_rest;
    assert_false(twist_error_next(&twist, &sight, out)); // no pose before
    sight = sight_of(&b, 1, 1e-6);
    sight.T_odom_body = (struct se3){{0, -1, 0, 1, 0, 0, 0, 0, 1}, {0, 0, 0}};
    assert_true(twist_error_next(&twist, &sight, out));
    assert_near(out[0], 2e-4);
    assert_near(out[7], 8e-4); // odom's x is the body's -y
    assert_near(out[14], 2e-4);
    assert_near(out[1], 0);
    assert_near(out[35], 2e-4);
}

static void where_none_is_known(void **state)
{
    (void)state;
    double out[36];
    for (int how = 0; how < 5; how++) {
        struct twist_error twist = {0};
        struct pose_error a, b;
        struct twist_sight first = sight_of(&a, 0, 1e-6), next = sight_of(&b, 1, 2e-6);
        first.is_lost = how == 0;
        next.is_lost = how == 1;
        next.epoch = how == 2;
        next.n_finds = how == 3;
        next.velocity = how == 4 ? at_rest : moving; // after a gap
        assert_false(twist_error_next(&twist, &first, out));
        assert_false(twist_error_next(&twist, &next, out));
        next = sight_of(&a, 2, 1e-6);
        next.epoch = how == 2;
        next.n_finds = how == 3;
        assert_true(twist_error_next(&twist, &next, out) == (how != 1)); // from `next` on
    }
}

// An image once more has its velocity's; one that stays has none, and the next is since then. A
// prediction is nothing that the next velocity is from.
static void of_frames_without_a_measurement(void **state)
{
    (void)state;
    struct twist_error twist = {0};
    struct pose_error a, b, c;
    double out[36];
    struct twist_sight sight = sight_of(&a, 0, 1e-6);
    assert_false(twist_error_next(&twist, &sight, out));
    sight = sight_of(&b, 1, 2e-6);
    assert_true(twist_error_next(&twist, &sight, out));
    sight.time_ns += PERIOD_NS;
    out[7] = 0;
    assert_true(twist_error_next(&twist, &sight, out));
    assert_near(out[7], 3e-4);
    sight.time_ns += 8 * (int64_t)PERIOD_NS;
    sight.velocity = at_rest;
    assert_false(twist_error_next(&twist, &sight, out));
    sight = sight_of(&c, 11, 1e-3);
    sight.is_predicted = true;
    assert_true(twist_error_next(&twist, &sight, out));
    assert_near(out[7], 0.1002);
    sight = sight_of(&c, 12, 6e-6);
    assert_true(twist_error_next(&twist, &sight, out));
    assert_near(out[7], 2e-4); // two tenths of a second
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_a_step),
        cmocka_unit_test(where_none_is_known),
        cmocka_unit_test(of_frames_without_a_measurement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

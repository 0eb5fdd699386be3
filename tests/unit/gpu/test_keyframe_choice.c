// SPDX-License-Identifier: Apache-2.0
// Which frames become keyframes, and whether two finds are one place: each threshold just inside
// and just outside.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/model/keyframe_choice.h"
#include "gpu/model/loop_closure.h"
#include "proto/se3.h"

#define INSIDE  0.996
#define OUTSIDE 1.004

static struct se3 moved(double x_m, double turn_rad)
{
    const double turn[6] = {0, 0, 0, 0, turn_rad, 0};
    struct se3 T = se3_exp(turn);
    T.t_m[0] = x_m;
    return T;
}

static bool chosen_at(double x_m, double turn_rad, double map_moved_m, bool sparing)
{
    const struct se3 last = se3_identity();
    struct track_result result;
    memset(&result, 0, sizeof result);
    result.state = TRACK_STATE_TRACKING;
    result.T_odom_camera = moved(x_m, turn_rad);
    return keyframe_choice(&result, &last, map_moved_m, sparing);
}

static bool chosen(double x_m, double turn_rad, double map_moved_m)
{
    return chosen_at(x_m, turn_rad, map_moved_m, false);
}

static void motion_makes_a_keyframe(void **state)
{
    (void)state;
    assert_false(chosen(INSIDE * 0.06, 0, 0));
    assert_true(chosen(OUTSIDE * 0.06, 0, 0));
    assert_false(chosen(0, INSIDE * 0.1, 0));
    assert_true(chosen(0, OUTSIDE * 0.1, 0));
    assert_true(chosen(0, -OUTSIDE * 0.1, 0));
    // Way and turn count each alone.
    assert_false(chosen(INSIDE * 0.06, INSIDE * 0.1, 0));
    assert_true(chosen(OUTSIDE * 0.06, INSIDE * 0.1, 0));
}

static void a_map_that_moves_wants_them_sooner(void **state)
{
    (void)state;
    assert_false(chosen(0.04, 0, INSIDE * 0.005));
    assert_true(chosen(0.04, 0, OUTSIDE * 0.005));
    assert_false(chosen(INSIDE * 0.03, INSIDE * 0.05, 0.1));
    assert_true(chosen(OUTSIDE * 0.03, 0, 0.1));
    assert_true(chosen(0, OUTSIDE * 0.05, 0.1));
}

static void where_time_is_short_they_come_later(void **state)
{
    (void)state;
    assert_false(chosen_at(INSIDE * 0.18, INSIDE * 0.3, 0, true));
    assert_true(chosen_at(OUTSIDE * 0.18, 0, 0, true));
    assert_true(chosen_at(0, OUTSIDE * 0.3, 0, true));
    assert_false(chosen_at(INSIDE * 0.18, 0, 0.1, true)); // also where the map moves
}

static void only_frames_that_are_tracking(void **state)
{
    (void)state;
    const struct se3 last = se3_identity();
    struct track_result result;
    memset(&result, 0, sizeof result);
    result.T_odom_camera = moved(1, 1);
    result.state = TRACK_STATE_DEGRADED;
    assert_false(keyframe_choice(&result, &last, 0, false));
    assert_false(keyframe_choice(&result, NULL, 0, false));
    result.state = TRACK_STATE_LOST;
    assert_false(keyframe_choice(&result, &last, 0, false));
    result.state = TRACK_STATE_TRACKING;
    assert_true(keyframe_choice(&result, NULL, 0, false));
    result.state = TRACK_STATE_INIT;
    result.reason = TRACK_REASON_FIRST_FRAME;
    assert_true(keyframe_choice(&result, NULL, 0, false));
    assert_false(keyframe_choice(&result, &last, 0, false));
    result.reason = TRACK_REASON_NO_DEPTH;
    assert_false(keyframe_choice(&result, NULL, 0, false));
}

static bool agree(double x_m, double turn_rad, double motion)
{
    const struct se3 here = moved(0.3, 0.2), step = moved(x_m, turn_rad);
    const struct se3 there = se3_compose(&here, &step);
    return revisit_agree(&here, &there, motion);
}

static void finds_agree_within_what_links_err(void **state)
{
    (void)state;
    assert_true(agree(INSIDE * 0.04, 0, 0));
    assert_false(agree(OUTSIDE * 0.04, 0, 0));
    assert_true(agree(0, INSIDE * 0.03, 0));
    assert_false(agree(0, OUTSIDE * 0.03, 0));
    assert_true(agree(INSIDE * 0.14, 0, 1));
    assert_false(agree(OUTSIDE * 0.14, 0, 1));
    assert_true(agree(0, INSIDE * 0.13, 1));
    assert_false(agree(0, OUTSIDE * 0.13, 1));
    assert_true(agree(INSIDE * 0.04, INSIDE * 0.03, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(motion_makes_a_keyframe),
        cmocka_unit_test(a_map_that_moves_wants_them_sooner),
        cmocka_unit_test(where_time_is_short_they_come_later),
        cmocka_unit_test(only_frames_that_are_tracking),
        cmocka_unit_test(finds_agree_within_what_links_err),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

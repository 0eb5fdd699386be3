// SPDX-License-Identifier: Apache-2.0
// A map that was loaded: when the camera is believed to be found in it, each limit from both sides;
// what happens until then, and what is left when it is given up.
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/gpu/fake_map_parts.h"

static void load(void)
{
    const struct map_contents contents = {.n_blocks = 1};
    const struct se3 none = se3_identity();
    const uint32_t n = n_forgotten;
    assert_int_equal(map_load(map, &contents), 0);
    assert_true(map_is_loaded(map) && map_is_searching(map));
    assert_int_equal(n_forgotten, n); // its keyframes are there
    const struct se3 T = map_T_map_odom(map);
    assert_pose(&T, &none);
    map_enter(map, 1);
}

// Five frames: the first of them is looked for, at x_m and turned by turn_rad.
static void searched_at(enum relocalise_trust trust, double x_m, double turn_rad)
{
    answer = trust;
    T_answer = moved(x_m, turn_rad);
    const uint32_t n = n_finds;
    for (int i = 0; i < 5; i++)
        tracked(0.1);
    assert_int_equal(n_finds, n + 1);
}

// The same, of a camera at x_m in odom, which lies at map_m in the map.
static void searched_to(double map_m, double x_m)
{
    T_answer = moved(map_m + x_m, 0);
    for (int i = 0; i < 5; i++)
        tracked(x_m);
}

static void a_loaded_map_is_searched(void **state)
{
    (void)state;
    const struct se3 odom = moved(0.1, 0), found = moved(2, 0.5);
    const struct se3 back = se3_inverse(&odom), T_map_odom = se3_compose(&found, &back);
    load();
    searched_at(RELOCALISE_SURE, 2, 0.5);
    assert_int_equal(attempt, 0);
    searched_at(RELOCALISE_FAIR, 9, 0.5);
    assert_int_equal(attempt, 1);
    searched_at(RELOCALISE_SURE, 2, 0.5);
    assert_false(has_guess);
    assert_int_equal(n_integrated, 0); // the file's still
    assert_true(map_is_searching(map));
    assert_null(view_set);
    searched_at(RELOCALISE_NOT_FOUND, 9, 0.5);
    answer = RELOCALISE_SURE;
    T_answer = found;
    tracked(0.1);
    assert_false(map_is_searching(map));
    assert_int_equal(n_said, 1);
    const struct se3 got = map_T_map_odom(map);
    assert_pose(&got, &T_map_odom);
    // From here it is fused and seen there.
    tracked(0.1);
    assert_int_equal(n_integrated, 1);
    assert_pose(&T_integrated, &found);
    const struct se3 next = se3_compose(&T_map_odom, &T_expected);
    assert_pose(&T_viewed, &next);
    assert_pose(&T_view, &T_expected);
    // A lost one is found in the map and told in odom.
    lost_at(RELOCALISE_SURE, 2, 0.5);
    assert_pose(&T_relocated, &odom);
    // What is lost is not searched for in the meantime.
    const struct se3 none = se3_identity();
    map_enter(map, 2);
    n_finds = 0;
    for (int i = 0; i < 5; i++)
        follow(TRACK_STATE_LOST, TRACK_REASON_FEW_PAIRS, &none, 2);
    assert_int_equal(n_finds, 0);
}

// Three finds that agree, the camera's own motion between them taken out.
static void finds_agree_on_where_odom_lies(void **state)
{
    (void)state;
    for (int turns = 0; turns < 2; turns++)
        for (int outside = 0; outside < 2; outside++) {
            const double apart = 0.03 * (outside ? OUTSIDE : INSIDE);
            const double x_m = turns ? 0 : apart, rad = turns ? apart : 0;
            load();
            for (int i = 0; i < 3; i++) {
                answer = RELOCALISE_SURE;
                T_answer = moved(2 + 0.4 * i + x_m * i, rad * i);
                for (int k = 0; k < 5 && map_is_searching(map); k++)
                    tracked(0.4 * i);
            }
            assert_int_equal(map_is_searching(map), outside);
        }
}

// Twice as many finds that are only FAIR; from where the camera has moved to, as one that stands
// still finds the same wrong place again. One elsewhere begins anew.
static void what_is_fair_counts_half(void **state)
{
    (void)state;
    load();
    for (int i = 0; i < 9; i++) {
        const double x_m = 0.021 * (i / 2); // every second one is from the same place
        answer = RELOCALISE_FAIR;
        searched_to(2, x_m);
    }
    assert_true(map_is_searching(map)); // five of them count
    searched_to(9, 0.2);
    for (int i = 0; i < 5; i++)
        searched_to(2, 0.3 + 0.021 * i);
    assert_true(map_is_searching(map));
    answer = RELOCALISE_SURE; // worth two
    searched_to(2, 0.3 + 0.021 * 4);
    assert_false(map_is_searching(map));
}

// The same place in the map again and again while the camera moves on: there the map does not tell
// the way. Each find agrees with the one before it, the last not with the first.
static void what_is_fair_and_stays_is_not_believed(void **state)
{
    (void)state;
    load();
    answer = RELOCALISE_FAIR;
    for (int i = 0; i < 12; i++)
        searched_to(2 - 0.025 * i, 0.025 * i);
    assert_true(map_is_searching(map));
    for (int i = 0; i < 6; i++) // to and fro about one place: they agree
        searched_to(5 + 0.01 * (i % 2), 0.3 + 0.025 * i);
    assert_false(map_is_searching(map));
}

static void a_loaded_map_can_be_given_up(void **state)
{
    (void)state;
    const struct se3 T = se3_identity();
    struct map_contents contents = {0};
    load();
    assert_int_equal(map_read(map, &contents), -EAGAIN);
    assert_true(contents.is_loaded);
    map_enter(map, 1); // the same
    map_give_up(map);
    assert_int_equal(n_said, 1);
    assert_false(map_is_loaded(map) || map_is_searching(map));
    map_give_up(map);
    assert_int_equal(n_said, 1);
    map_enter(map, 5); // no map to search
    assert_false(map_is_searching(map));
    assert_int_equal(map_read(map, &contents), -ENOBUFS);
    assert_true(contents.is_loaded); // still there
    follow(TRACK_STATE_TRACKING, TRACK_REASON_NONE, &T, 5);
    assert_int_equal(n_cleared, 1);
    assert_int_equal(map_read(map, &contents), -ENOBUFS);
    assert_false(contents.is_loaded);
    assert_int_equal(contents.epoch, 5);
}

// The camera that was lost and began anew is looked for again.
static void a_new_epoch_is_searched_again(void **state)
{
    (void)state;
    const struct se3 none = se3_identity();
    load();
    for (int i = 0; i < 3; i++)
        searched_at(RELOCALISE_SURE, 2, 0);
    assert_false(map_is_searching(map));
    map_enter(map, 1);
    assert_false(map_is_searching(map));
    map_enter(map, 2);
    assert_true(map_is_searching(map));
    const struct se3 T = map_T_map_odom(map);
    assert_pose(&T, &none);
    n_finds = 0;
    searched_at(RELOCALISE_SURE, 2, 0);
    searched_at(RELOCALISE_SURE, 2, 0);
    assert_true(map_is_searching(map)); // from one on
}

// Where odom lay in it is forgotten with it, and with the next one that is loaded.
static void a_map_that_is_found_can_be_given_up(void **state)
{
    (void)state;
    const struct se3 none = se3_identity();
    for (int again = 0; again < 2; again++) {
        load();
        for (int i = 0; i < 3; i++)
            searched_at(RELOCALISE_SURE, 2, 0.1);
        assert_false(map_is_searching(map));
        const struct se3 found = map_T_map_odom(map);
        assert_true(fabs(found.t_m[0]) > 1);
    }
    load();
    for (int i = 0; i < 3; i++)
        searched_at(RELOCALISE_SURE, 2, 0.1);
    map_give_up(map);
    const struct se3 T = map_T_map_odom(map);
    assert_pose(&T, &none);
}

static void what_does_not_load(void **state)
{
    (void)state;
    struct map_contents contents = {.n_keyframes = RELOCALISE_MAX_KEYFRAMES + 1};
    tracked(0);
    n_forgotten = 0;
    assert_int_equal(map_load(map, &contents), -ENOSPC);
    contents.n_keyframes = RELOCALISE_MAX_KEYFRAMES;
    write_rc = -ENOSPC;
    assert_int_equal(map_load(map, &contents), -ENOSPC);
    assert_int_equal(map_read(map, &contents), -ENOBUFS); // what was there is
    assert_int_equal(n_forgotten, 0);
    write_rc = -EINVAL;
    assert_int_equal(map_load(map, &contents), -EINVAL);
    assert_int_equal(n_forgotten, 1);
    assert_int_equal(map_read(map, &contents), -ENODATA);
    assert_false(map_is_loaded(map) || map_is_searching(map));
}

// Where time is short a frame is looked for in parts, beside those that come after it: one part
// with every fourth, or all that fit. What is found is of the frame that it began with.
static void a_search_takes_what_time_there_is(void **state)
{
    (void)state;
    const struct se3 T_map_odom = moved(3, 0);
    const struct se3 none = se3_identity();
    load();
    n_parts = 3;
    answer = RELOCALISE_SURE;
    map_set_time(map, 0);
    for (int k = 0; k < MAP_AGREEING; k++) {
        T_answer = moved(3 + 0.1 * k, 0);
        for (int i = 0; i < 12; i++) {
            tracked(0.1 * k + 0.001 * i); // the camera goes on
            assert_int_equal(n_left, 3 - (i + 1) / 4);
        }
        assert_int_equal(n_begun, k + 1);
        assert_int_equal(attempt, k);
        assert_false(is_held);
    }
    assert_false(map_is_searching(map));
    const struct se3 T = map_T_map_odom(map);
    assert_pose(&T, &T_map_odom);
    assert_int_equal(n_finds, 0);

    map_set_time(map, INT64_MAX - 1); // all parts fit, of every frame
    map_enter(map, 7);
    for (int i = 0; i < 2; i++)
        tracked(0.2);
    assert_int_equal(n_begun, MAP_AGREEING + 2);
    // A look that is under way ends with its epoch, and where time no longer counts.
    map_set_time(map, 0);
    for (int i = 0; i < 4; i++)
        tracked(0.2);
    assert_true(is_held && n_left == 2);
    map_enter(map, 8);
    for (int i = 0; i < 4; i++)
        tracked(0.2);
    assert_int_equal(n_begun, MAP_AGREEING + 4);
    map_set_time(map, INT64_MAX);
    tracked(0.2);
    assert_int_equal(n_finds, 1);
    assert_false(is_held);
    const struct se3 T_now = map_T_map_odom(map);
    assert_pose(&T_now, &none);
}

static void a_loaded_map_has_room_of_its_own(void **state)
{
    (void)state;
    stats.n_refused = 3;
    stats.n_far = 1;
    tracked_often(32);
    assert_int_equal(n_said, 2);
    load();
    for (int i = 0; i < 3; i++)
        searched_at(RELOCALISE_SURE, 2, 0.1);
    assert_int_equal(n_said, 3); // found
    tracked_often(32);
    assert_int_equal(n_said, 5);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(a_loaded_map_is_searched),
        TEST(finds_agree_on_where_odom_lies),
        TEST(what_is_fair_counts_half),
        TEST(what_is_fair_and_stays_is_not_believed),
        TEST(a_loaded_map_can_be_given_up),
        TEST(a_new_epoch_is_searched_again),
        TEST(a_map_that_is_found_can_be_given_up),
        TEST(what_does_not_load),
        TEST(a_search_takes_what_time_there_is),
        TEST(a_loaded_map_has_room_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// The map's decisions: which frames it takes in, when a lost camera is believed to be found (each
// limit from both sides), what the tracker sees, what is copied, what is said when memory is full.
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

static void frames_that_are_surely_there_are_taken_in(void **state)
{
    (void)state;
    const struct se3 T = moved(0.2, 0.3);
    const struct track_result key = {
        .state = TRACK_STATE_TRACKING, .T_odom_camera = T, .new_keyframe = true, .map_epoch = 1};
    follow(TRACK_STATE_INIT, TRACK_REASON_NO_DEPTH, &T, 1);
    assert_int_equal(n_integrated, 0);
    follow(TRACK_STATE_INIT, TRACK_REASON_FIRST_FRAME, &T, 1);
    assert_int_equal(n_integrated, 1);
    assert_pose(&T_integrated, &T);
    assert_int_equal(n_added, 0);
    follow(TRACK_STATE_DEGRADED, TRACK_REASON_DEGENERATE, &T, 1);
    follow(TRACK_STATE_LOST, TRACK_REASON_FIRST_FRAME, &T, 1);
    assert_int_equal(n_integrated, 1);
    assert_int_equal(map_follow(map, &track, &key), 0);
    assert_int_equal(n_integrated, 2);
    assert_int_equal(n_added, 1);
    assert_pose(&T_added, &T);
    has_frame = false;
    assert_int_equal(map_follow(map, &track, &key), 0);
    assert_int_equal(n_integrated, 2);
    assert_true(map_model(map) == &model);
}

static void the_first_frame_is_a_keyframe(void **state)
{
    (void)state;
    const struct track_result first = {.state = TRACK_STATE_INIT,
                                       .reason = TRACK_REASON_FIRST_FRAME,
                                       .T_odom_camera = se3_identity(),
                                       .new_keyframe = true,
                                       .map_epoch = 1};
    wants_view = false;
    assert_int_equal(map_follow(map, &track, &first), 0);
    assert_int_equal(n_added, 1);
}

// A keyframe of the tracker that is not taken in has its view with the next frame that is: else
// a camera would be found in the map by next to nothing where a machine is slow.
static void a_keyframe_that_is_not_taken_in_has_a_view_too(void **state)
{
    (void)state;
    const struct se3 T = moved(0.2, 0), later = moved(0.3, 0);
    const struct track_result doubtful = {.state = TRACK_STATE_DEGRADED,
                                          .reason = TRACK_REASON_DEGENERATE,
                                          .T_odom_camera = T,
                                          .new_keyframe = true,
                                          .map_epoch = 1};
    tracked(0);
    assert_int_equal(n_added, 0);
    map_expect_view(map);
    tracked(0.3);
    assert_int_equal(n_added, 1);
    assert_pose(&T_added, &later);
    tracked(0.4);
    assert_int_equal(n_added, 1);
    assert_int_equal(map_follow(map, &track, &doubtful), 0);
    assert_int_equal(n_added, 1);
    tracked(0.5);
    tracked(0.6);
    assert_int_equal(n_added, 2);
}

static void what_comes_next_is_seen(void **state)
{
    (void)state;
    tracked(0);
    assert_int_equal(n_viewed, 1);
    assert_true(view_set == &fake_frames[0]);
    assert_pose(&T_viewed, &T_expected);
    assert_pose(&T_view, &T_expected);
    // With a keyframe as reference nothing is seen until the camera is lost.
    wants_view = false;
    tracked(0);
    assert_int_equal(n_integrated, 2);
    assert_int_equal(n_viewed, 1);
    assert_null(view_set);
    lost_at(RELOCALISE_SURE, 0, 0);
    assert_int_equal(n_finds, 1);
    assert_int_equal(n_relocated, 1);
    assert_int_equal(n_viewed, 2);
    assert_true(view_set == &fake_frames[0]);
    tracked(0);
    assert_int_equal(n_viewed, 2);
    assert_null(view_set);
}

static void an_epoch_is_a_map(void **state)
{
    (void)state;
    const struct se3 T = se3_identity();
    tracked(0);
    assert_int_equal(n_cleared, 1);
    assert_int_equal(n_forgotten, 1);
    assert_int_equal(n_said, 0); // nothing is given up
    tracked(0);
    assert_int_equal(n_cleared, 1);
    stats.n_blocks = 40;
    stats.n_far = 2;
    follow(TRACK_STATE_TRACKING, TRACK_REASON_NONE, &T, 2);
    assert_int_equal(n_cleared, 2);
    assert_int_equal(n_said, 1);
    assert_non_null(strstr(said, "epoch 2 begins"));
    assert_non_null(strstr(said, "epoch 1 (42 blocks)"));
}

// A lost camera is looked for in parts, one with each frame at least, and placed at the frame that
// was looked at; one that is followed again is no longer looked for.
static void a_lost_camera_is_looked_for_in_parts(void **state)
{
    (void)state;
    tracked(0);
    n_parts = 3;
    map_set_time(map, 0);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(n_relocated_held, i / 3);
        lost_at(RELOCALISE_SURE, 0.7, 0.2);
    }
    assert_int_equal(n_relocated_held, 2);
    assert_int_equal(n_relocated, 2);
    assert_int_equal(n_begun, 2);
    assert_int_equal(attempt, 1);
    lost_at(RELOCALISE_SURE, 0.7, 0.2);
    assert_true(is_held);
    tracked(0.7);
    assert_false(is_held);
    lost_at(RELOCALISE_SURE, 0.7, 0.2);
    assert_int_equal(n_begun, 4);
    assert_int_equal(n_left, 2);
    assert_int_equal(n_finds, 0);
}

static void a_sure_find_is_believed_at_once(void **state)
{
    (void)state;
    const struct se3 T = moved(0.7, 0.2), here = se3_identity();
    tracked(0);
    lost_at(RELOCALISE_NOT_FOUND, 0, 0);
    lost_at(RELOCALISE_NOT_FOUND, 0, 0);
    assert_int_equal(attempt, 1); // the second
    assert_false(has_guess);
    assert_int_equal(n_relocated, 0);
    lost_at(RELOCALISE_SURE, 0.7, 0.2);
    assert_int_equal(n_relocated, 1);
    assert_pose(&T_relocated, &T);
    assert_int_equal(n_said, 1);
    assert_non_null(strstr(said, "a place is tried: 0.70"));
    tracked(0.7); // it holds
    assert_int_equal(n_said, 2);
    assert_non_null(strstr(said, "found again, at 0.70"));
    tracked(0.7);
    assert_int_equal(n_said, 2);
    lost_at(RELOCALISE_NOT_FOUND, 0, 0);
    assert_int_equal(attempt, 0);
    // Not where there is nothing to see.
    n_finds = 0;
    follow(TRACK_STATE_LOST, TRACK_REASON_NO_DEPTH, &here, 1);
    follow(TRACK_STATE_LOST, TRACK_REASON_DEVICE, &here, 1);
    follow(TRACK_STATE_DEGRADED, TRACK_REASON_FEW_PAIRS, &here, 1);
    assert_int_equal(n_finds, 0);
    relocate_rc = -ENODATA;
    lost_at(RELOCALISE_SURE, 0.7, 0.2);
    assert_int_equal(n_said, 2);
    tracked(0.7);
    assert_int_equal(n_said, 2);
}

// What the keyframes have found is not looked for; what comes next is seen there.
static void who_is_found_already_is_not_looked_for(void **state)
{
    (void)state;
    tracked(0);
    const uint32_t n = n_viewed;
    is_found = true;
    lost_at(RELOCALISE_SURE, 0.7, 0.2);
    assert_int_equal(n_finds, 0);
    assert_int_equal(n_relocated, 0);
    assert_int_equal(n_viewed, n + 1);
}

// A find that is only fair is tried first with the next frame, and believed the third time, each
// near the one before.
static void fair_finds_are_believed_when_three_agree(void **state)
{
    (void)state;
    const struct se3 first = moved(1, 0.1);
    for (int turns = 0; turns < 2; turns++)
        for (int outside = 0; outside < 2; outside++) {
            const double apart = 0.15 * (outside ? OUTSIDE : INSIDE);
            const double x_m = turns ? 0 : apart, rad = turns ? apart : 0;
            tracked(0);
            n_relocated = 0;
            lost_at(RELOCALISE_FAIR, 1, 0.1);
            assert_false(has_guess);
            lost_at(RELOCALISE_FAIR, 1 + x_m, 0.1 + rad);
            assert_true(has_guess);
            assert_pose(&T_guess, &first);
            assert_int_equal(n_relocated, 0);
            lost_at(RELOCALISE_FAIR, 1 + 2 * x_m, 0.1 + 2 * rad);
            assert_int_equal(n_relocated, outside ? 0 : 1);
        }
    for (int axis = 0; axis < 3; axis++)
        for (int outside = 0; outside < 2; outside++) {
            tracked(0);
            n_relocated = 0;
            for (int k = 0; k < 3; k++) {
                const struct se3 T = se3_identity();
                answer = RELOCALISE_FAIR;
                T_answer = se3_identity();
                T_answer.t_m[axis] = k * 0.15 * (outside ? OUTSIDE : INSIDE);
                follow(TRACK_STATE_LOST, TRACK_REASON_FEW_PAIRS, &T, 1);
            }
            assert_int_equal(n_relocated, outside ? 0 : 1);
        }
    tracked(0);
    n_relocated = 0;
    lost_at(RELOCALISE_FAIR, 1, 0);
    lost_at(RELOCALISE_FAIR, 1, 0);
    lost_at(RELOCALISE_NOT_FOUND, 1, 0);
    lost_at(RELOCALISE_FAIR, 1, 0);
    assert_false(has_guess);
    assert_int_equal(n_relocated, 0);
}

// An image that comes again says nothing more, wherever it is looked for this time.
static void a_frozen_image_is_one_find(void **state)
{
    (void)state;
    tracked(0);
    for (int i = 0; i < 3; i++) {
        is_repeat = false;
        lost_at(RELOCALISE_FAIR, 1, 0);
        assert_int_equal(n_relocated, i == 2);
        is_repeat = i < 2;
        for (int k = 0; k < 4 && is_repeat; k++)
            lost_at(k % 2 ? RELOCALISE_NOT_FOUND : RELOCALISE_FAIR, 1, 0);
    }
}

static void a_copy(void **state)
{
    (void)state;
    struct map_contents contents = {.n_blocks = 80};
    assert_int_equal(map_read(map, &contents), -ENODATA);
    kept[1].T_map_camera = moved(3, 0);
    tracked(0);
    contents.n_blocks = 80;
    assert_int_equal(map_contents_reserve(&contents), 0);
    assert_int_equal(contents.room, 80 + 10 + 256);
    assert_int_equal(map_read(map, &contents), 0);
    assert_int_equal(contents.n_blocks, 2);
    assert_int_equal(contents.n_keyframes, 2);
    assert_true(contents.keyframes[1].T_map_camera.t_m[0] == 3);
    assert_false(contents.is_loaded);
    map_contents_order(&contents);
    assert_int_equal(contents.blocks[0].x, 5);
    const struct model_settings settings = {.voxel_m = 0.5f};
    contents.correction.n = 1;
    deform_rc = -ENOMEM;
    assert_int_equal(map_contents_correct(&contents, &settings), -ENOMEM);
    assert_int_equal(contents.correction.n, 1);
    assert_int_equal(n_places_moved, 0);
    deform_rc = 0;
    assert_int_equal(map_contents_correct(&contents, &settings), 0);
    assert_int_equal(contents.correction.n, 0);
    assert_int_equal(n_blocks_deformed, 2);
    assert_int_equal(n_places_moved, 2);
    n_freed = 0;
    map_contents_free(&contents);
    assert_int_equal(n_freed, 1);
    assert_null(contents.blocks);
}

// Asked with the first frame and every 32nd; each is said once an epoch.
static void a_full_memory_is_told(void **state)
{
    (void)state;
    const struct se3 T = se3_identity();
    stats.n_refused = 3;
    tracked_often(1);
    assert_int_equal(n_stats, 2); // with the epoch's beginning
    assert_int_equal(n_said, 1);
    tracked_often(64);
    assert_int_equal(n_stats, 2); // said is said
    assert_int_equal(n_said, 1);
    assert_int_equal(map_n_left_out(map), 3); // until the epoch ends
    follow(TRACK_STATE_TRACKING, TRACK_REASON_NONE, &T, 2);
    assert_int_equal(n_said, 2); // the epoch
    assert_int_equal(map_n_left_out(map), 0);
    stats.n_blocks = 50;
    stats.n_far = 1;
    // Counted from the beginning of an epoch.
    n_said = 0;
    tracked_often(32);
    assert_int_equal(n_said, 3); // an epoch, full, and what waits on the host
    assert_non_null(strstr(said, "at least 3 new blocks"));
    assert_non_null(strstr(said, "beside the 51"));
}

// Where blocks can go to the host, only when that has not helped until the next time.
static void a_full_host_is_told_the_second_time(void **state)
{
    (void)state;
    stats.n_refused = stats.max_far = 3;
    tracked_often(32);
    assert_int_equal(n_stats, 2);
    assert_int_equal(n_said, 0);
    stats.n_refused = 0;
    tracked_often(32);
    stats.n_refused = 1;
    tracked_often(32);
    assert_int_equal(n_said, 0);
    tracked_often(1);
    assert_int_equal(n_stats, 5);
    assert_int_equal(n_said, 1);
}

static void what_waits_on_the_host_is_told_once(void **state)
{
    (void)state;
    stats.max_far = 10;
    tracked_often(32);
    assert_int_equal(n_said, 0);
    stats.n_far = 1;
    tracked_often(33);
    assert_int_equal(n_said, 1);
    tracked_often(64);
    assert_int_equal(n_said, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(frames_that_are_surely_there_are_taken_in),
        TEST(the_first_frame_is_a_keyframe),
        TEST(a_keyframe_that_is_not_taken_in_has_a_view_too),
        TEST(what_comes_next_is_seen),
        TEST(an_epoch_is_a_map),
        TEST(a_lost_camera_is_looked_for_in_parts),
        TEST(a_sure_find_is_believed_at_once),
        TEST(who_is_found_already_is_not_looked_for),
        TEST(fair_finds_are_believed_when_three_agree),
        TEST(a_frozen_image_is_one_find),
        TEST(a_copy),
        TEST(a_full_memory_is_told),
        TEST(a_full_host_is_told_the_second_time),
        TEST(what_waits_on_the_host_is_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

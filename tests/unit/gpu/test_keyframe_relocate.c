// SPDX-License-Identifier: Apache-2.0
// A lost camera and the window of keyframes: when it is looked for among them, when a find is
// believed, and what the tracker and the graph are told of it.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/gpu/fake_window_parts.h"

static bool is_repeat;      // of the next lost frame
static bool goes_by;        // it does: the keyframes do not follow it
static double moved_then_m; // as the newest one was told
static int64_t until_ns = INT64_MAX;

// A lost frame as the daemon hands it over, found at x_m or not.
static void lost(enum relocalise_trust trust, double x_m, uint64_t seq)
{
    struct track_result result;
    double moved_m;
    memset(&result, 0, sizeof result);
    result.state = TRACK_STATE_LOST;
    result.reason = TRACK_REASON_FEW_PAIRS;
    result.is_repeat = is_repeat;
    result.T_odom_camera = se3_identity();
    answer = trust;
    T_answer = se3_identity();
    T_answer.t_m[0] = x_m;
    if (!goes_by)
        assert_int_equal(keyframe_window_follow(window, &fake_device, &track, &result, seq,
                                                (int64_t)seq * 1000, &moved_m),
                         0);
    assert_int_equal(keyframe_window_relocate(window, &fake_device, &track, &result,
                                              (int64_t)seq * 1000, until_ns, &moved_then_m),
                     0);
}

// A frame that is not, which nothing is done with.
static void not_lost(void)
{
    assert_int_equal(keyframe_window_relocate(window, &fake_device, &track,
                                              &(struct track_result){.state = TRACK_STATE_TRACKING},
                                              0, until_ns, &moved_then_m),
                     0);
}

// The frame after a keyframe is lost: it is looked for among all that came, also where the worker
// has not done; T_map_odom is that of the keyframe that found it, and the next frame that is
// followed is a keyframe of which the graph knows.
static void a_lost_camera_is_found_among_them(void **state)
{
    (void)state;
    assert_false(keyframe_window_has_any(window));
    follow_many(5, 0);
    assert_true(keyframe_window_has_any(window));
    T_graph.t_m[0] = 0.5;
    answer_seq = 4;
    first_z_m = 7;
    lost(RELOCALISE_NOT_FOUND, 3, 5);
    assert_int_equal(n_finds, 1);
    assert_int_equal(n_added_then, 2);
    assert_true(lies_at_m() == 0.5); // the result of 4 has entered
    assert_true(moved_then_m == 0.5);
    lost(RELOCALISE_NOT_FOUND, 3, 6);
    assert_true(moved_then_m == 0);
    assert_int_equal(attempt, 1);
    assert_int_equal(n_relocated, 0);
    lost(RELOCALISE_SURE, 4, 7); // where the last keyframe was
    assert_true(moved_then_m == 0);
    assert_int_equal(n_relocated, 1);
    assert_true(T_relocated.t_m[0] == 4);
    assert_true(lies_at_m() == 104);
    assert_int_equal(n_said, 1);
    assert_non_null(strstr(said, "a place is tried: by that of frame 4"));
    follow(4, 8);
    not_lost(); // it holds
    assert_int_equal(n_said, 2);
    assert_non_null(strstr(said, "found again by that of frame 4"));
    not_lost();
    assert_int_equal(n_said, 2);
    follow_many(4, 9);
    assert_int_equal(n_told_found, 1);
    assert_int_equal(told_find.seq, 4);
    assert_int_equal(told_find_ns, 7000);
    assert_true(told_find.T_odom_camera.t_m[0] == 4 && told_find.link.rms_m == 0.5);
    assert_int_equal(added[2].seq, 8);
    assert_true(lies_at_m() == 0.5);
    lost(RELOCALISE_NOT_FOUND, 3, 13);
    assert_int_equal(attempt, 0); // of another loss
    follow_many(9, 14);
    assert_int_equal(n_told_found, 1);
}

// A find holds until there is a keyframe, whatever is lost after it: the tracker goes on from the
// frame that was found. Not one of which the tracker knows no frame, or of another epoch.
static void a_find_holds_until_the_next_keyframe(void **state)
{
    (void)state;
    follow_many(5, 0);
    answer_seq = 0;
    relocate_rc = -ENODATA;
    lost(RELOCALISE_SURE, 3, 5);
    assert_int_equal(n_relocated, 1);
    assert_true(lies_at_m() == 0);
    relocate_rc = 0;
    find_rc = -ENOMEM;
    lost(RELOCALISE_SURE, 3, 6);
    assert_int_equal(n_relocated, 1);
    find_rc = 0;
    lost(RELOCALISE_SURE, 3, 7);
    assert_true(lies_at_m() == 100);
    lost(RELOCALISE_NOT_FOUND, 3, 8);
    assert_true(lies_at_m() == 100);
    assert_int_equal(n_said, 1);
    follow_many(5, 9);
    assert_int_equal(n_told_found, 1);
    n_told_found = 0;
    // Nor is that of another epoch.
    lost(RELOCALISE_SURE, 3, 20);
    keyframe_window_enter(window, 1);
    follow_many(5, 21);
    assert_int_equal(n_told_found, 0);
    lost(RELOCALISE_NOT_FOUND, 3, 26);
    keyframe_window_enter(window, 2);
    lost(RELOCALISE_NOT_FOUND, 3, 27);
    assert_int_equal(attempt, 0);
}

// What the map has found is so by the keyframe that stands nearest in odom, and holds as long; it
// takes the place of what was found among the keyframes before.
static void the_map_may_find_it(void **state)
{
    (void)state;
    const struct se3 T = {{0, 0, 0, 1}, {1.25, 0, 0}};
    keyframe_window_found(window, &T, 1000); // none is there that could have
    follow_many(9, 0);
    assert_int_equal(told_find.trust, RELOCALISE_NOT_FOUND);
    n_told_found = 0;
    answer_seq = 0;
    lost(RELOCALISE_SURE, 3, 9);
    assert_true(lies_at_m() == 100);
    lost(RELOCALISE_NOT_FOUND, 3, 10);
    keyframe_window_found(window, &T, 10000);
    assert_true(lies_at_m() == 108);
    follow(1.3, 11);
    lost(RELOCALISE_NOT_FOUND, 3, 12);
    assert_int_equal(n_told_found, 1);
    assert_int_equal(told_find.seq, 8);
    assert_int_equal(told_find_ns, 10000);
    assert_true(told_find.T_odom_camera.t_m[0] == 1.25 && told_find.link.rms_m == 0.25);
    add_rc = -ENOMEM;
    follow_many(9, 13);
    assert_false(keyframe_window_has_any(window));
    n_told_found = 0;
    keyframe_window_found(window, &T, 10000); // and then there are none any more
    follow_many(5, 22);
    assert_int_equal(n_told_found, 0);
}

// With the least effort the keyframes follow few frames, and a lost one that they do not is looked
// for all the same: what was tracked before it was not tracked since.
static void a_find_is_of_the_frame_that_was_found(void **state)
{
    (void)state;
    follow_many(5, 0);
    answer_seq = 4;
    goes_by = true;
    lost(RELOCALISE_SURE, 4, 9);
    goes_by = false;
    assert_int_equal(n_relocated, 1);
    follow_many(5, 10);
    assert_int_equal(n_told_found, 1);
    assert_int_equal(told_find_ns, 9000);
}

// No keyframe tells yet where a frame was that was tracked since a find: nothing is learnt from it.
static void nothing_is_learnt_between_a_find_and_a_keyframe(void **state)
{
    (void)state;
    struct optimise_report report;
    follow_many(12, 0);
    assert_true(keyframe_window_is_ready(window, INT64_MAX - 1));
    waits = true;
    for (uint64_t i = 12; i < 15; i++)
        follow((double)i, i);
    assert_int_equal(keyframe_window_optimise(window), 0);
    waits = false;
    sem_post(&go_on);
    answer_seq = 4;
    lost(RELOCALISE_SURE, 4, 15);
    follow(4, 16); // is copied, and the worker has no time for the keyframe
    while (keyframe_window_optimised(window, &report) == -EAGAIN)
        ;
    assert_int_equal(between.n, 5);
    assert_int_equal(between.frames[4].time_ns, 12000);
}

// Two keyframes of one place may lie far apart in odom: finds agree or not in the map.
static void finds_agree_where_the_keyframes_do(void **state)
{
    (void)state;
    for (int agree = 0; agree < 2; agree++) {
        follow_many(5, (uint64_t)agree * 20);
        for (uint64_t i = 0; i < 3; i++) {
            answer_seq = i % 2 ? 0 : 4; // 100 and 104 m off in the map
            lost(RELOCALISE_FAIR, agree && i % 2 ? 5 : 1, (uint64_t)agree * 20 + 5 + i);
        }
        assert_int_equal(n_relocated, agree);
        not_lost();
    }
}

static void fair_finds_among_them_are_believed_in_a_row(void **state)
{
    (void)state;
    follow_many(5, 0);
    for (int far = 0; far < 2; far++) {
        const double step_m = far ? 0.151 : 0.149;
        n_relocated = 0;
        for (uint64_t i = 0; i < 3; i++) {
            assert_int_equal(n_relocated, 0);
            lost(RELOCALISE_FAIR, step_m * (double)i, 5 + i);
        }
        assert_int_equal(n_relocated, far ? 0 : 1);
        follow(0, 9);
        not_lost();
    }
    // Nothing to see, or nothing that sees.
    const enum track_reason reasons[] = {TRACK_REASON_NO_DEPTH, TRACK_REASON_DEVICE};
    const uint32_t n = n_finds;
    for (int i = 0; i < 2; i++)
        assert_int_equal(keyframe_window_relocate(window, &fake_device, &track,
                                                  &(struct track_result){.state = TRACK_STATE_LOST,
                                                                         .reason = reasons[i]},
                                                  0, until_ns, &moved_then_m),
                         0);
    assert_int_equal(n_finds, n);
    read_rc = -EIO;
    assert_int_equal(keyframe_window_relocate(window, &fake_device, &track,
                                              &(struct track_result){.state = TRACK_STATE_LOST}, 0,
                                              until_ns, &moved_then_m),
                     -EIO);
}

// An image that comes again says nothing more, wherever it is looked for this time; one that was
// not found when it came may be then, and is believed at once where that is sure.
static void a_frozen_image_is_one_find(void **state)
{
    (void)state;
    follow_many(5, 0);
    answer_seq = 4;
    for (uint64_t i = 0; i < 3; i++) {
        is_repeat = false;
        lost(RELOCALISE_FAIR, 1, 5 + 10 * i);
        assert_int_equal(n_relocated, i == 2);
        is_repeat = i < 2;
        for (uint64_t k = 0; k < 4 && is_repeat; k++)
            lost(k % 2 ? RELOCALISE_NOT_FOUND : RELOCALISE_FAIR, 1, 6 + 10 * i + k);
    }
    n_relocated = 0;
    follow(1, 40);
    not_lost();
    lost(RELOCALISE_NOT_FOUND, 1, 50);
    is_repeat = true;
    for (uint64_t k = 0; k < 4; k++)
        lost(RELOCALISE_FAIR, 1, 51 + k);
    assert_int_equal(n_relocated, 0);
    lost(RELOCALISE_SURE, 1, 55);
    assert_int_equal(n_relocated, 1);
    is_repeat = false;
}

// The next frame after a find is a keyframe, however few came since the last one: it is not
// followed while the worker copies.
static void a_copy_is_not_waited_for_after_a_find(void **state)
{
    (void)state;
    follow_many(13, 0);
    answer_seq = 4;
    lost(RELOCALISE_SURE, 4, 13);
    assert_true(keyframe_window_is_ready(window, clock_monotonic_ns()));
    copy_waits = true;
    assert_int_equal(keyframe_window_optimise(window), 0);
    assert_false(keyframe_window_is_ready(window, clock_monotonic_ns()));
    copy_waits = false;
    sem_post(&go_on);
    assert_true(keyframe_window_is_ready(window, INT64_MAX - 1));
}

// What the worker has not handed over is not looked at where a find is believed: it may be writing
// it.
static void what_has_not_entered_is_not_read(void **state)
{
    (void)state;
    follow_many(5, 0);
    T_graph.t_m[0] = 0.5;
    answer_seq = 4;
    lost(RELOCALISE_SURE, 4, 5);
    T_graph.t_m[0] = 9;
    assert_true(lies_at_m() == 104);
    waits = true;
    follow(4, 7);
    until_ns = clock_monotonic_ns();
    lost(RELOCALISE_NOT_FOUND, 4, 8);
    assert_true(lies_at_m() == 104);
    keyframe_window_found(window, &T_answer, 8000);
    assert_true(lies_at_m() == 104);
    until_ns = INT64_MAX;
    waits = false;
    sem_post(&go_on);
    lost(RELOCALISE_NOT_FOUND, 4, 9);
    assert_int_equal(n_told_found, 1);
    assert_int_equal(told_find_ns, 5000);
    follow_many(5, 10);
    assert_int_equal(n_told_found, 2);
    assert_int_equal(told_find_ns, 8000);
    assert_true(lies_at_m() == 9);
}

// A find that comes while the worker has not yet looked at the one before is not that one.
static void the_worker_has_its_own_find(void **state)
{
    (void)state;
    follow_many(5, 0);
    answer_seq = 4;
    lost(RELOCALISE_SURE, 4, 5);
    found_waits = true;
    follow(4, 6);
    keyframe_window_found(window, &T_answer, 8000);
    found_waits = false;
    sem_post(&go_on);
    lost(RELOCALISE_NOT_FOUND, 4, 9);
    assert_int_equal(n_told_found, 1);
    assert_int_equal(told_find_ns, 5000);
}

// A worker that does not come to an end is waited for until then; the frame goes on as lost, the
// next ones too, and when it has ended the camera is looked for as if they had not been.
static void a_worker_that_hangs_is_not_waited_for(void **state)
{
    (void)state;
    const int64_t wait_ns = 20000000;
    follow(0, 0);
    follow_many(3, 1);
    assert_true(keyframe_window_is_ready(window, INT64_MAX - 1));
    waits = true;
    follow(4, 4);
    for (uint64_t i = 0; i < 2; i++) {
        const int64_t began_ns = clock_monotonic_ns();
        until_ns = began_ns + wait_ns;
        lost(RELOCALISE_SURE, 4, 5 + i);
        assert_true(clock_monotonic_ns() - began_ns >= wait_ns);
        assert_int_equal(n_finds, 0);
        assert_int_equal(n_relocated, 0);
    }
    waits = false;
    sem_post(&go_on);
    until_ns = INT64_MAX;
    answer_seq = 4;
    lost(RELOCALISE_SURE, 4, 7);
    assert_int_equal(n_added_then, 2);
    assert_int_equal(attempt, 0);
    assert_int_equal(n_relocated, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_lost_camera_is_found_among_them),
        TEST(a_find_holds_until_the_next_keyframe),
        TEST(the_map_may_find_it),
        TEST(a_find_is_of_the_frame_that_was_found),
        TEST(finds_agree_where_the_keyframes_do),
        TEST(nothing_is_learnt_between_a_find_and_a_keyframe),
        TEST(fair_finds_among_them_are_believed_in_a_row),
        TEST(a_frozen_image_is_one_find),
        TEST(the_worker_has_its_own_find),
        TEST(a_worker_that_hangs_is_not_waited_for),
        TEST(what_has_not_entered_is_not_read),
        TEST(a_copy_is_not_waited_for_after_a_find),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

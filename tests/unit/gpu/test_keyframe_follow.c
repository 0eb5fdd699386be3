// SPDX-License-Identifier: Apache-2.0
// The window of keyframes: what the graph gets of a frame, when its results enter and by how much
// that moves the camera, and what becomes of an adjustment of all of them. The graph and that
// adjustment are what the test says.
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "tests/unit/gpu/fake_window_parts.h"

// The worker has done what they gave it.
static void follow_many_and_wait(uint32_t n)
{
    follow_many(n, 0);
    assert_true(keyframe_window_is_ready(window, INT64_MAX - 1));
}

static void results_enter_four_frames_later(void **state)
{
    (void)state;
    const struct graph_keyframe *listed;
    assert_true(follow(0, 7) == 0);
    T_graph.t_m[0] = 0.04;
    T_graph.t_m[1] = 0.03;
    for (uint64_t seq = 8; seq < 11; seq++) {
        assert_true(follow(1, seq) == 0);
        assert_true(lies_at_m() == 0);
        assert_int_equal(keyframe_window_list(window, &listed), 0);
    }
    assert_true(fabs(follow(2, 11) - 0.05) < 1e-12);
    assert_true(lies_at_m() == 0.04);
    assert_int_equal(keyframe_window_list(window, &listed), 1);
    assert_int_equal(listed[0].seq, 7);
    assert_int_equal(listed[0].time_ns, 7000);
    assert_true(listed[0].T_odom_camera.t_m[0] == 0);
    for (int i = 0; i < N_PX; i++)
        assert_true(added_z_m[0][i] == (float)(1 + i));
    // Frame 11 is the next, and its result moves nothing more.
    for (uint64_t seq = 12; seq < 16; seq++)
        assert_true(follow(2, seq) == 0);
    assert_int_equal(keyframe_window_list(window, &listed), 2);
    assert_int_equal(listed[1].seq, 11);
    assert_true(listed[1].T_odom_camera.t_m[0] == 2);
}

// Where time is short the next keyframe comes when nine times as long has gone by as the last one
// took, and not before.
static void where_time_is_short_they_rest(void **state)
{
    (void)state;
    const struct timespec took = {0, 50000000}, pause = {0, 5000000};
    const int64_t began_ns = clock_monotonic_ns();
    const struct graph_keyframe *listed;
    waits = true;
    keyframe_window_spare(window, true);
    follow(0, 0);
    nanosleep(&took, NULL);
    waits = false;
    sem_post(&go_on);
    uint64_t seq = 1;
    while (keyframe_window_list(window, &listed) < 2) {
        assert_true(clock_monotonic_ns() - began_ns < 60000000000);
        nanosleep(&pause, NULL);
        follow((double)seq, seq);
        seq++;
    }
    assert_true(began_add_ns[1] - ended_add_ns[0] >= 9 * (ended_add_ns[0] - began_add_ns[0]));
    // Not short any more: with the next frame, and what it gives enters four later.
    keyframe_window_spare(window, false);
    follow_many(5, seq);
    assert_int_equal(keyframe_window_list(window, &listed), 3);
}

// Where the map moved the next keyframe comes at half the motion.
static void a_map_that_moves_wants_them_sooner(void **state)
{
    (void)state;
    const struct graph_keyframe *listed;
    for (int moves = 0; moves < 2; moves++) {
        follow(10 * moves, 1);
        T_graph.t_m[0] += moves ? 0.01 : 0;
        for (int i = 0; i < 4; i++)
            follow(10 * moves + 0.04, 2); // of 0.06
        const uint32_t n = keyframe_window_list(window, &listed);
        for (int i = 0; i < 4; i++)
            follow(10 * moves + 0.04, 3);
        assert_int_equal(keyframe_window_list(window, &listed) - n, moves);
    }
}

static void another_epoch_begins_empty(void **state)
{
    (void)state;
    const struct graph_keyframe *listed;
    keyframe_window_enter(window, 0); // the same
    assert_int_equal(n_cleared, 0);
    T_graph.t_m[0] = 0.5;
    follow_many(5, 0);
    assert_true(lies_at_m() == 0.5);
    keyframe_window_enter(window, 3);
    assert_int_equal(keyframe_window_epoch(window), 3);
    assert_int_equal(n_cleared, 1);
    assert_true(lies_at_m() == 0);
    assert_int_equal(keyframe_window_list(window, &listed), 0);
    follow(4, 9); // the first is a keyframe wherever it is
    follow_many(4, 10);
    assert_int_equal(keyframe_window_list(window, &listed), 1);
    assert_int_equal(listed[0].seq, 9);
}

// What the camera's own error is learnt from: frames of this epoch that were tracked, keyframes or
// not.
static void frames_between_are_kept(void **state)
{
    (void)state;
    const atomic_bool stop = false;
    struct optimise_report report;
    follow_many(4, 0); // of another epoch
    keyframe_window_enter(window, 1);
    tracked = TRACK_STATE_DEGRADED;
    follow_many(5, 10);
    tracked = TRACK_STATE_TRACKING;
    for (uint32_t i = 0; i < 20; i++) {
        first_z_m = (float)i;
        follow(0.1 * i, 100 + i);
    }
    assert_int_equal(keyframe_window_finish(window, true, &stop, NULL, &report), 0);
    assert_int_equal(between.n, 7);
    for (uint32_t i = 0; i < 7; i++) {
        assert_int_equal(between.frames[i].time_ns, 1000 * (100 + 3 * i));
        assert_true(fabs(between.frames[i].T_odom_camera.t_m[0] - 0.3 * i) < 1e-12);
        assert_true(first_between_m[i] == (float)(3 * i));
    }
}

static void a_failing_device_is_told(void **state)
{
    (void)state;
    double moved_m;
    read_rc = -EIO;
    assert_int_equal(follow_rc(0, 1, &moved_m), -EIO);
    read_rc = 0;
    const struct graph_keyframe *listed;
    follow_many(5, 0);
    assert_int_equal(keyframe_window_list(window, &listed), 1);
}

static void without_memory_keyframes_end(void **state)
{
    (void)state;
    const atomic_bool stop = false;
    struct optimise_report report;
    follow_many_and_wait(16);
    add_rc = -ENOMEM;
    follow_many(5, 16); // 20 learns what became of 16
    assert_int_equal(n_said, 1);
    add_rc = 0;
    follow_many(9, 21);
    assert_int_equal(n_added, 4);
    assert_int_equal(n_said, 1);
    assert_int_equal(keyframe_window_optimise(window), -ENODATA);
    assert_int_equal(keyframe_window_finish(window, true, &stop, NULL, &report), -ENODATA);
}

static void who_waits_says_until_when(void **state)
{
    (void)state;
    waits = true;
    follow(0, 0);
    assert_true(keyframe_window_is_ready(window, 1)); // nothing would be waited for yet
    follow(0, 1);
    follow(0, 2);
    assert_true(keyframe_window_is_ready(window, 1));
    follow(0, 3);
    assert_false(keyframe_window_is_ready(window, 1)); // the next would
    assert_true(keyframe_window_is_ready(window, INT64_MAX));
    sem_post(&go_on);
    waits = false;
    assert_true(keyframe_window_is_ready(window, INT64_MAX - 1));
    follow(0, 4);
}

// Asks until it is no longer under way.
static int optimised(struct optimise_report *report)
{
    int rc;
    while ((rc = keyframe_window_optimised(window, report)) == -EAGAIN)
        sched_yield();
    return rc;
}

static void all_are_adjusted_when_asked(void **state)
{
    (void)state;
    struct optimise_report report;
    assert_int_equal(keyframe_window_optimised(window, &report), -ENODATA);
    follow_many(12, 0);
    assert_int_equal(keyframe_window_optimise(window), -ENODATA); // two have entered
    follow_many(1, 12);
    waits = true;
    assert_int_equal(keyframe_window_optimise(window), 0);
    assert_int_equal(keyframe_window_optimise(window), -EALREADY);
    assert_int_equal(keyframe_window_optimised(window, &report), -EAGAIN);
    waits = false;
    for (int i = 0; i < 4; i++)
        sem_post(&go_on);
    assert_int_equal(optimised(&report), 0);
    assert_int_equal(report.n_links, 77);
    assert_int_equal(n_taken, 1);
    const struct se3 T = keyframe_window_T_map_odom(window);
    assert_true(T.t_m[1] == 0.25);
    assert_int_equal(keyframe_window_optimise(window), 0); // once more
    assert_int_equal(optimised(&report), 0);
    assert_int_equal(n_taken, 2);
}

static void what_fails_is_told(void **state)
{
    (void)state;
    struct optimise_report report;
    int *const fails[] = {&copy_rc, &optimise_rc, &take_rc, &optimise_rc};
    follow_many(13, 0);
    for (int i = 0; i < 4; i++) {
        const int error = i < 3 ? -ENOMEM : -EDOM;
        *fails[i] = error;
        assert_int_equal(keyframe_window_optimise(window), 0);
        assert_int_equal(optimised(&report), error);
        *fails[i] = 0;
        assert_int_equal(keyframe_window_finish(window, false, NULL, NULL, &report), 0);
    }
    assert_int_equal(keyframe_window_optimise(window), 0);
    assert_int_equal(optimised(&report), 0);
}

static void an_epoch_ends_it(void **state)
{
    (void)state;
    struct optimise_report report;
    follow_many(14, 0); // and a job under way
    waits = true;
    sem_post(&go_on);
    assert_int_equal(keyframe_window_optimise(window), 0);
    keyframe_window_enter(window, 2);
    for (int i = 0; i < 4; i++)
        sem_post(&go_on);
    assert_int_equal(optimised(&report), -ECANCELED);
    assert_int_equal(n_taken, 0);
}

static void the_end_of_a_recording(void **state)
{
    (void)state;
    struct optimise_report report;
    const struct graph_keyframe *listed;
    atomic_bool stop = false;
    T_graph.t_m[0] = 0.5;
    follow_many(9, 0);
    assert_int_equal(keyframe_window_list(window, &listed), 2);
    assert_int_equal(keyframe_window_finish(window, false, &stop, NULL, &report), 0);
    assert_int_equal(keyframe_window_list(window, &listed), 3); // the newest result
    assert_int_equal(report.n_links, 0);
    stop = true;
    assert_int_equal(keyframe_window_finish(window, true, &stop, NULL, &report), -ECANCELED);
    assert_int_equal(n_taken, 0);
    stop = false;
    assert_int_equal(keyframe_window_finish(window, true, &stop, NULL, &report), 0);
    assert_int_equal(report.n_links, 77);
    assert_int_equal(n_taken, 1);
    const struct se3 T = keyframe_window_T_map_odom(window);
    assert_true(T.t_m[1] == 0.25);
}

// What keyframes saw stays as long as they do: every second pixel, in millimetres.
static void what_they_saw_is_kept(void **state)
{
    (void)state;
    struct deformation_field field;
    for (int i = 0; i < 12; i++) {
        first_z_m = (float)(1 + i);
        follow(i, (uint64_t)i);
    }
    assert_true(keyframe_window_is_ready(window, INT64_MAX - 1));
    n_listed = 2;
    added[1] = added[2]; // the second goes
    follow(12, 12);
    assert_int_equal(keyframe_window_correction(window, &field), 0);
    assert_int_equal(field.n, 2);
    assert_int_equal(field.camera.width_px, WIDTH / 2);
    assert_int_equal(field.camera.height_px, HEIGHT / 2);
    assert_true(field.camera.fx_px == 3.5 && field.camera.cy_px == 1.25);
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t i = 0; i < N_PX / 4; i++) {
            const uint32_t px = 2 * (i / (WIDTH / 2)) * WIDTH + 2 * (i % (WIDTH / 2));
            assert_int_equal(field.z_mm[k * N_PX / 4 + i], 1000 * (1 + 8 * k + px));
            assert_true(field.keyframes[k].T_odom_camera.t_m[0] == 8 * k);
        }
    deformation_field_free(&field);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(results_enter_four_frames_later),
        TEST(where_time_is_short_they_rest),
        TEST(a_map_that_moves_wants_them_sooner),
        TEST(another_epoch_begins_empty),
        TEST(frames_between_are_kept),
        TEST(a_failing_device_is_told),
        TEST(without_memory_keyframes_end),
        TEST(who_waits_says_until_when),
        TEST(all_are_adjusted_when_asked),
        TEST(what_fails_is_told),
        TEST(an_epoch_ends_it),
        TEST(the_end_of_a_recording),
        TEST(what_they_saw_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

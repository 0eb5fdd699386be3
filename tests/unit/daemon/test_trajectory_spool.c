// SPDX-License-Identifier: Apache-2.0
// daemon/trajectory_spool: how much of the keyframes before and behind it a frame has, on its way
// between them, around a loss, and of its own.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/trajectory_spool.h"
#include "proto/se3.h"
#include "tests/unit/scratch.h"

static struct scratch scratch;

static int make(void **state)
{
    (void)state;
    scratch_create(&scratch);
    return 0;
}

static int clean(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    return 0;
}

// What the spool writes at its end, read again.
static void write_and_read(struct trajectory_spool **spool, const char *path,
                           struct trajectory *out)
{
    const struct log_sink log = scratch_log(&scratch);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(trajectory_spool_write(*spool, file, TRAJECTORY_FORMAT_TUM), 0);
    fclose(file);
    trajectory_spool_destroy(spool);
    assert_int_equal(trajectory_read_tum(path, &log, out), 0);
}

static struct graph_keyframe keyframe_at(uint64_t seq, double x_m, double turn_rad, double moved_m)
{
    const double twist[6] = {x_m, 0, 0, 0, 0, turn_rad};
    struct graph_keyframe k = {.seq = seq, .T_odom_camera = se3_exp(twist)};
    k.T_map_camera = k.T_odom_camera;
    k.T_map_camera.t_m[1] += moved_m;
    return k;
}

// Shares that can be told: the second keyframe is moved by 1 m along y and the first is not, so
// that a frame's y is its share of the way. A turn of a radian is a metre of way.
static void test_shares(void **state)
{
    (void)state;
    static const struct {
        double x_m, turn_rad, wanted_m;
    } ways[] = {{0.25, 0, 0.25}, {0.5, 0, 0.5}, {0.9, 0, 0.9}, {0, 0, 0}, {1, 0, 1}};
    const uint32_t n = sizeof ways / sizeof *ways;
    char path[256];
    scratch_name(&scratch, "shares.txt", path);
    for (int turns = 0; turns < 2; turns++) {
        // Turning on the spot for the first metre of way of two, then going.
        const struct graph_keyframe k[2] = {keyframe_at(0, 0, 0, 0),
                                            keyframe_at(9, turns ? 0 : 1, turns, 1)};
        struct trajectory_spool *spool;
        assert_int_equal(trajectory_spool_create(&spool, path), 0);
        assert_int_equal(trajectory_spool_keyframes(spool, 3, k, 2), 0);
        for (uint32_t i = 0; i < n; i++) {
            const double twist[6] = {turns ? 0 : ways[i].x_m, 0, 0, 0, 0, turns ? ways[i].x_m : 0};
            const struct trajectory_frame frame = {.time_ns = (int64_t)i * 1000000000,
                                                   .epoch = 3,
                                                   .T_odom_camera = se3_exp(twist),
                                                   .T_map_odom = se3_identity()};
            assert_int_equal(trajectory_spool_frame(spool, &frame), 0);
        }
        struct trajectory t;
        write_and_read(&spool, path, &t);
        for (uint32_t i = 0; i < n; i++)
            assert_true(fabs(t.poses[i].T_world_camera.t_m[1] - ways[i].wanted_m) < 1e-8);
        trajectory_free(&t);
    }
}

// Of a way that turns first and then goes the first half is the turn.
static void test_turns_are_way(void **state)
{
    (void)state;
    const struct graph_keyframe k[2] = {keyframe_at(0, 0, 0, 0), keyframe_at(9, 0, 1, 1)};
    struct graph_keyframe last = k[1];
    char path[256];
    scratch_name(&scratch, "turns.txt", path);
    last.T_odom_camera.t_m[0] = 1; // turned by 1 rad at the start, then 1 m along x
    last.T_map_camera.t_m[0] = 1;
    const struct graph_keyframe both[2] = {k[0], last};
    struct trajectory_frame frame = {.epoch = 0, .T_map_odom = se3_identity()};
    frame.T_odom_camera = k[1].T_odom_camera; // turned, and not gone
    struct trajectory_spool *spool;
    assert_int_equal(trajectory_spool_create(&spool, path), 0);
    assert_int_equal(trajectory_spool_keyframes(spool, 0, both, 2), 0);
    assert_int_equal(trajectory_spool_frame(spool, &frame), 0);
    struct trajectory t;
    write_and_read(&spool, path, &t);
    assert_true(fabs(t.poses[0].T_world_camera.t_m[1] - 0.5) < 1e-8);
    trajectory_free(&t);
}

// What was tracked before a loss is in the odom of the keyframe before it, what was tracked since
// the camera was found in that of the next one, if that is of the same find; else it is as
// published.
static void test_around_a_loss(void **state)
{
    (void)state;
    static const struct {
        uint32_t n_keyframes; // at frames 0 and 3; their corrections move by 0 and 1 m
        uint32_t n_finds[4];
        double wanted_m[4]; // as published: 5 m
    } cases[] = {
        {2, {0, 0, 0, 0}, {0, 0.25, 0.5, 1}}, {2, {0, 1, 1, 1}, {0, 1, 1, 1}},
        {2, {0, 0, 1, 1}, {0, 0, 1, 1}},      {2, {0, 0, 0, 1}, {0, 0, 0, 1}},
        {2, {0, 1, 2, 2}, {0, 5, 1, 1}},      {1, {0, 0, 1, 1}, {0, 0, 5, 5}},
        {1, {7, 7, 8, 9}, {0, 0, 5, 5}},
    };
    char path[256];
    scratch_name(&scratch, "loss.txt", path);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const struct graph_keyframe k[2] = {keyframe_at(0, 0, 0, 0), keyframe_at(3, 4, 0, 1)};
        struct trajectory_spool *spool;
        assert_int_equal(trajectory_spool_create(&spool, path), 0);
        assert_int_equal(trajectory_spool_keyframes(spool, 0, k, cases[c].n_keyframes), 0);
        for (int i = 0; i < 4; i++) {
            struct trajectory_frame frame = {.time_ns = i,
                                             .n_finds = cases[c].n_finds[i],
                                             .T_odom_camera = se3_identity(),
                                             .T_map_odom = se3_identity()};
            frame.T_odom_camera.t_m[0] = i < 3 ? i : 4;
            frame.T_map_odom.t_m[1] = 5;
            assert_int_equal(trajectory_spool_frame(spool, &frame), 0);
        }
        struct trajectory t;
        write_and_read(&spool, path, &t);
        for (int i = 0; i < 4; i++)
            assert_true(fabs(t.poses[i].T_world_camera.t_m[1] - cases[c].wanted_m[i]) < 1e-8);
        trajectory_free(&t);
    }
}

// A frame that is a keyframe belongs to what comes behind it, also where it was tracked elsewhere
// than the keyframe stands now.
static void test_own_frame(void **state)
{
    (void)state;
    const struct graph_keyframe k[2] = {keyframe_at(0, 0, 0, 0), keyframe_at(1, 1, 0, 1)};
    char path[256];
    scratch_name(&scratch, "own.txt", path);
    struct trajectory_spool *spool;
    assert_int_equal(trajectory_spool_create(&spool, path), 0);
    assert_false(trajectory_spool_has_keyframes(spool));
    assert_int_equal(trajectory_spool_keyframes(spool, 0, k, 2), 0);
    assert_true(trajectory_spool_has_keyframes(spool));
    for (int i = 0; i < 2; i++) {
        struct trajectory_frame frame = {
            .time_ns = i, .T_odom_camera = se3_identity(), .T_map_odom = se3_identity()};
        frame.T_odom_camera.t_m[0] = 0.5;
        assert_int_equal(trajectory_spool_frame(spool, &frame), 0);
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(trajectory_spool_write(spool, file, TRAJECTORY_FORMAT_TUM), 0);
    fclose(file);
    struct trajectory t;
    const struct log_sink log = scratch_log(&scratch);
    assert_int_equal(trajectory_read_tum(path, &log, &t), 0);
    assert_true(fabs(t.poses[0].T_world_camera.t_m[1] - 0.5) < 1e-8);
    assert_true(fabs(t.poses[1].T_world_camera.t_m[1] - 1) < 1e-8);
    trajectory_free(&t);
    // Room to the last keyframe.
    struct graph_keyframe *many = calloc(TRAJECTORY_SPOOL_KEYFRAMES, sizeof *many);
    assert_non_null(many);
    for (uint32_t i = 0; i < TRAJECTORY_SPOOL_KEYFRAMES; i++)
        many[i] = k[0];
    assert_int_equal(trajectory_spool_keyframes(spool, 1, many, TRAJECTORY_SPOOL_KEYFRAMES - 1),
                     -ENOSPC);
    assert_int_equal(trajectory_spool_keyframes(spool, 1, many, TRAJECTORY_SPOOL_KEYFRAMES - 2), 0);
    assert_int_equal(trajectory_spool_keyframes(spool, 2, many, 1), -ENOSPC);
    free(many);
    trajectory_spool_destroy(&spool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_shares, make, clean),
        cmocka_unit_test_setup_teardown(test_turns_are_way, make, clean),
        cmocka_unit_test_setup_teardown(test_around_a_loss, make, clean),
        cmocka_unit_test_setup_teardown(test_own_frame, make, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

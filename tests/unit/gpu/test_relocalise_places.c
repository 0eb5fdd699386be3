// SPDX-License-Identifier: Apache-2.0
// Which frames become places where a lost camera is looked for, what is kept of them, and in which
// order they are tried: each limit from both sides.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/gpu/fake_views.h"

static uint32_t kept_with(double x_m, double turn_rad)
{
    const struct relocalise_keyframe *kept;
    const struct se3 here = moved(0.3, 0.4), step = moved(x_m, turn_rad);
    const struct se3 there = se3_compose(&here, &step);
    relocalise_forget(relocaliser);
    assert_int_equal(relocalise_add(relocaliser, &lost, &here), 0);
    assert_int_equal(relocalise_add(relocaliser, &lost, &there), 0);
    return relocalise_keyframes(relocaliser, &kept);
}

static void keyframes_stand_apart(void **state)
{
    (void)state;
    reset();
    assert_int_equal(kept_with(INSIDE * 0.12, 0), 1);
    assert_int_equal(kept_with(OUTSIDE * 0.12, 0), 2);
    assert_int_equal(kept_with(0, INSIDE * 0.15), 1);
    assert_int_equal(kept_with(0, OUTSIDE * 0.15), 2);
    const struct relocalise_keyframe *kept;
    struct se3 T = se3_identity();
    for (int axis = 0; axis < 3; axis++)
        for (int outside = 0; outside < 2; outside++) {
            relocalise_forget(relocaliser);
            T.t_m[axis] = 1;
            assert_int_equal(relocalise_add(relocaliser, &lost, &T), 0);
            T.t_m[axis] += 0.12 * (outside ? OUTSIDE : INSIDE);
            assert_int_equal(relocalise_add(relocaliser, &lost, &T), 0);
            assert_int_equal(relocalise_keyframes(relocaliser, &kept), outside ? 2 : 1);
        }
}

static void as_many_as_may_be(void **state)
{
    (void)state;
    const struct relocalise_keyframe *kept;
    const struct se3 T = moved(9, 0);
    struct relocalise_keyframe *many = calloc(RELOCALISE_MAX_KEYFRAMES + 1, sizeof *many);
    reset();
    assert_int_equal(relocalise_set(relocaliser, many, RELOCALISE_MAX_KEYFRAMES + 1), -EINVAL);
    assert_int_equal(relocalise_keyframes(relocaliser, &kept), 1);
    assert_int_equal(relocalise_set(relocaliser, many, RELOCALISE_MAX_KEYFRAMES), 0);
    assert_int_equal(relocalise_add(relocaliser, &lost, &T), 0);
    assert_int_equal(relocalise_keyframes(relocaliser, &kept), RELOCALISE_MAX_KEYFRAMES);
    free(many);
}

// Cells of 7 x 8 pixels: the mean of those with depth, where these are a quarter at least.
static void a_cell_is_the_mean_of_its_depths(void **state)
{
    (void)state;
    const struct relocalise_keyframe *kept;
    const struct se3 T = se3_identity();
    reset();
    has_own = true;
    memset(frame_map_m, 0, sizeof frame_map_m);
    for (int cell = 0; cell < DEPTH_CELLS; cell++)
        for (int k = 0; k < 13 + cell % 2; k++) {
            const int at = 56 - 14 + k; // the last ones
            const int u = 7 * (cell % DEPTH_CELLS_X) + at % 7;
            const int v = 8 * (cell / DEPTH_CELLS_X) + at / 7;
            frame_map_m[v * WIDTH + u] = (float)(1 + 0.01 * cell + (k % 2 ? 0.5 : 0));
        }
    relocalise_forget(relocaliser);
    assert_int_equal(relocalise_add(relocaliser, &lost, &T), 0);
    assert_int_equal(relocalise_keyframes(relocaliser, &kept), 1);
    for (int cell = 0; cell < DEPTH_CELLS; cell++)
        if (cell % 2 == 0)
            assert_true(isnan(kept->log_z[cell]));
        else
            assert_true(fabs((double)kept->log_z[cell] - log(1.25 + 0.01 * cell)) < 1e-6);
}

// The most like one, and another of the eight in turn.
static void likely_places_are_tried_in_turn(void **state)
{
    (void)state;
    static const double unlike[10] = {.30, .10, -.20, .05, -.40, .35, .15, -.25, -.10, .45};
    static const int order[8] = {3, 1, 8, 6, 2, 7, 0, 5}; // of equal ones the first
    struct se3 T[10];
    reset();
    n_starts = 0;
    for (int i = 0; i < 10; i++)
        T[i] = moved(i, 0);
    keyframes_at(T, unlike, 10);
    for (uint32_t attempt = 0; attempt < 9; attempt++) {
        assert_int_equal(find_with(attempt, NULL), 0);
        assert_int_equal(trust, RELOCALISE_NOT_FOUND);
        assert_int_equal(n_views, 2);
        assert_at(&seen_from[0], order[0]);
        assert_at(&seen_from[1], order[1 + attempt % 7]);
    }
    keyframes_at(T, unlike, 1);
    assert_int_equal(find_with(3, NULL), 0);
    assert_int_equal(n_views, 1);
    relocalise_forget(relocaliser);
    find();
    assert_int_equal(n_views, 0);
}

// A guess comes first, and the keyframes only where nothing is there.
static void a_guess_comes_first(void **state)
{
    (void)state;
    const struct se3 guess = moved(5, 0);
    reset();
    assert_int_equal(find_with(0, &guess), 0);
    assert_int_equal(trust, RELOCALISE_SURE);
    assert_int_equal(n_views, 2);
    assert_at(&seen_from[0], 5);
    assert_at(&T_found, 5);
    views[0].n_agree = 0;
    assert_int_equal(find_with(0, &guess), 0);
    assert_int_equal(trust, RELOCALISE_SURE);
    assert_int_equal(n_views, 3);
    assert_at(&seen_from[1], 1);
    assert_at(&T_found, 1);
}

// Which of two keyframes is tried first: a cell counts half a factor e at most.
static void one_cell_says_so_much(void **state)
{
    (void)state;
    static struct relocalise_keyframe two[2];
    reset();
    n_starts = 0;
    two[0].T_map_camera = moved(0, 0);
    two[1].T_map_camera = moved(1, 0);
    for (int outside = 0; outside < 2; outside++) {
        for (int cell = 0; cell < DEPTH_CELLS; cell++) {
            two[0].log_z[cell] = (float)(log(2) + (cell % 2 ? 3 : 0)); // 0.25 in the mean
            two[1].log_z[cell] = (float)(log(2) + 0.25 * (outside ? OUTSIDE : INSIDE));
        }
        assert_int_equal(relocalise_set(relocaliser, two, 2), 0);
        find();
        assert_at(&seen_from[0], outside ? 0 : 1);
    }
}

// Half of the cells that either has must be shared.
static void too_little_is_shared(void **state)
{
    (void)state;
    static struct relocalise_keyframe one;
    for (int sides = 0; sides < 2; sides++)
        for (int n = 95; n <= 96; n++) {
            reset();
            n_starts = 0;
            has_own = true;
            for (int i = 0; i < N_PX; i++) {
                const int cell = i / WIDTH / 8 * DEPTH_CELLS_X + i % WIDTH / 7;
                frame_map_m[i] = !sides || cell < n ? 2 : 0;
            }
            one.T_map_camera = moved(0, 0);
            for (int cell = 0; cell < DEPTH_CELLS; cell++)
                one.log_z[cell] = sides || cell < n ? 1 : NAN;
            assert_int_equal(relocalise_set(relocaliser, &one, 1), 0);
            find();
            assert_int_equal(n_views, n == 96);
        }
    // A frame without depth is like nothing, not even like a keyframe without.
    memset(frame_map_m, 0, sizeof frame_map_m);
    for (int cell = 0; cell < DEPTH_CELLS; cell++)
        one.log_z[cell] = NAN;
    assert_int_equal(relocalise_set(relocaliser, &one, 1), 0);
    find();
    assert_int_equal(n_views, 0);
}

static void a_failing_device_is_told(void **state)
{
    (void)state;
    reset();
    find();
    const int n = n_device_calls;
    assert_true(n > 5);
    for (fails_at = 0; fails_at < n; fails_at++) {
        assert_int_equal(find_with(0, NULL), -EIO);
        assert_int_equal(n_device_calls, fails_at + 1);
        assert_int_equal(trust, RELOCALISE_NOT_FOUND);
    }
    const struct se3 T = moved(7, 0);
    n_device_calls = fails_at = 0;
    assert_int_equal(relocalise_add(relocaliser, &lost, &T), -EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keyframes_stand_apart),
        cmocka_unit_test(as_many_as_may_be),
        cmocka_unit_test(a_cell_is_the_mean_of_its_depths),
        cmocka_unit_test(likely_places_are_tried_in_turn),
        cmocka_unit_test(a_guess_comes_first),
        cmocka_unit_test(one_cell_says_so_much),
        cmocka_unit_test(too_little_is_shared),
        cmocka_unit_test(a_failing_device_is_told),
    };
    return cmocka_run_group_tests(tests, load, unload);
}

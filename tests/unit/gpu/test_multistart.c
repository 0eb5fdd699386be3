// SPDX-License-Identifier: Apache-2.0
// Where else an alignment may start: which poses are tried, how, and which are kept.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/track/multistart.h"
#include "tests/unit/gpu/fake_gpu.h"

#define N_TRIES 10 // two guesses, and the second turned in eight ways

static struct gpu_frame frame, reference;
static uint32_t pairs_of[N_TRIES]; // of the narrow alignment; 0: not solvable
static int wide_fails = -1, rc_of = -1;

// The wide alignment moves by 1 cm along x times its number, the narrow one by 1 mm along y.
static int fake_answer(int i, const struct fake_call *call, struct gpu_alignment *out)
{
    struct se3 T = call->T_start;
    const bool narrow = call->settings.iterations[GPU_LEVELS - 1] == 3;
    static int n_tries;
    n_tries = i == 0 ? 0 : n_tries;
    T.t_m[0] += narrow ? 0 : 0.01 * (n_tries + 1);
    T.t_m[1] += narrow ? 0.001 : 0;
    *out = fake_alignment(&T);
    out->n_pairs = narrow ? pairs_of[n_tries] : 5;
    out->solvable = narrow ? pairs_of[n_tries] > 0 : n_tries != wide_fails;
    n_tries += narrow || !out->solvable;
    return i == rc_of ? -EIO : 0;
}

static const double guess_twists[2][6] = {{0.1, 0.2, 0.3, 0.1, 0, 0}, {0.4, -0.1, 0, 0, 0.3, 0.2}};
static struct se3 starts[MULTISTART_MAX];
static int n_starts;

static int find(int n_guesses)
{
    struct gpu_align_settings settings = {{10, 5, 4}, false, 0.12f, 0.5f};
    struct se3 guesses[2] = {se3_exp(guess_twists[0]), se3_exp(guess_twists[1])};
    fake_n_calls = 0;
    n_starts = -1;
    return multistart_find(&fake_device, &frame, &reference, &settings, guesses + 2 - n_guesses,
                           n_guesses, starts, &n_starts);
}

static void reset(void)
{
    wide_fails = rc_of = -1;
    for (int i = 0; i < N_TRIES; i++)
        pairs_of[i] = 100;
}

static void assert_pose(const struct se3 *got, const struct se3 *expected)
{
    for (int i = 0; i < 9; i++)
        assert_true(fabs(got->r[i] - expected->r[i]) < 1e-12);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(got->t_m[i] - expected->t_m[i]) < 1e-12);
}

// Try 0 is the first guess, 1 the second, the others the second turned about x and y by 0.1 rad.
static struct se3 expected_start(int try)
{
    static const int turns[8][2] = {{1, 0}, {-1, 0}, {0, 1},  {0, -1},
                                    {1, 1}, {1, -1}, {-1, 1}, {-1, -1}};
    struct se3 T = se3_exp(guess_twists[try > 0]);
    if (try < 2)
        return T;
    const double turn[6] = {0, 0, 0, 0.1 * turns[try - 2][0], 0.1 * turns[try - 2][1], 0};
    struct se3 T_turn = se3_exp(turn);
    return se3_compose(&T, &T_turn);
}

static void guesses_and_turns_are_tried_coarsely(void **state)
{
    (void)state;
    reset();
    assert_int_equal(find(2), 0);
    assert_int_equal(fake_n_calls, 2 * N_TRIES);
    for (int i = 0; i < 2 * N_TRIES; i++) {
        const struct fake_call *call = &fake_calls[i];
        const bool narrow = i % 2;
        struct se3 expected = expected_start(i / 2);
        expected.t_m[0] += narrow ? 0.01 * (i / 2 + 1) : 0; // goes on where the wide one ended
        assert_pose(&call->T_start, &expected);
        assert_true(call->frame == &frame && call->reference == &reference && !call->prepares);
        for (int level = 0; level < GPU_LEVELS - 1; level++)
            assert_int_equal(call->settings.iterations[level], 0);
        assert_int_equal(call->settings.iterations[GPU_LEVELS - 1], narrow ? 3 : 20);
        assert_true(fabsf(call->settings.gate_distance_m - (narrow ? 0.03f : 0.12f)) < 1e-7f);
        assert_true(call->settings.gate_angle_rad == 0.5f);
        assert_true(call->settings.early_stop);
    }
    assert_int_equal(find(1), 0);
    assert_int_equal(fake_n_calls, 2 * (N_TRIES - 1));
    struct se3 expected = expected_start(2);
    assert_pose(&fake_calls[2].T_start, &expected);
}

static void assert_found(int place, int try)
{
    struct se3 expected = expected_start(try);
    expected.t_m[0] += 0.01 * (try + 1);
    expected.t_m[1] += 0.001;
    assert_pose(&starts[place], &expected);
}

static void the_three_with_most_pairs_are_kept(void **state)
{
    (void)state;
    reset();
    pairs_of[2] = 120;
    pairs_of[6] = 300;
    pairs_of[9] = 200;
    assert_int_equal(find(2), 0);
    assert_int_equal(n_starts, MULTISTART_MAX);
    assert_found(0, 6);
    assert_found(1, 9);
    assert_found(2, 2);
    // Of equal ones the earlier stands first.
    pairs_of[9] = pairs_of[2] = pairs_of[6] = 100;
    assert_int_equal(find(2), 0);
    for (int i = 0; i < MULTISTART_MAX; i++)
        assert_found(i, i);
    // A better one at the end pushes the others back.
    pairs_of[9] = 101;
    assert_int_equal(find(2), 0);
    assert_found(0, 9);
    assert_found(1, 0);
    assert_found(2, 1);
}

static void what_cannot_be_solved_is_no_start(void **state)
{
    (void)state;
    reset();
    for (int i = 0; i < N_TRIES; i++)
        pairs_of[i] = i == 4 ? 50 : 0;
    assert_int_equal(find(2), 0);
    assert_int_equal(n_starts, 1);
    assert_found(0, 4);
    // The narrow alignment is left out where the wide one had no solution.
    reset();
    wide_fails = 0;
    assert_int_equal(find(2), 0);
    assert_int_equal(fake_n_calls, 2 * N_TRIES - 1);
    assert_found(0, 1);
    for (int i = 0; i < N_TRIES; i++)
        pairs_of[i] = 0;
    assert_int_equal(find(2), 0);
    assert_int_equal(n_starts, 0);
}

static void a_failing_device_ends_it(void **state)
{
    (void)state;
    for (rc_of = 0; rc_of < 4; rc_of++) {
        const int at = rc_of;
        reset();
        rc_of = at;
        assert_int_equal(find(2), -EIO);
        assert_int_equal(fake_n_calls, at + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guesses_and_turns_are_tried_coarsely),
        cmocka_unit_test(the_three_with_most_pairs_are_kept),
        cmocka_unit_test(what_cannot_be_solved_is_no_start),
        cmocka_unit_test(a_failing_device_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

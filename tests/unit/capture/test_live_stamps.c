// SPDX-License-Identifier: Apache-2.0
// Which stamps of a live source are taken: those that grow, not a lone wrong one, and those of a
// clock that was set back after a while, of another program at once.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "capture/live_stamps.h"

#define MS     INT64_C(1000000)
#define PERIOD (33 * MS)
#define T      (1700000000000 * MS)

static struct live_stamps stamps;
static int64_t arrived_ns, stamp_ns; // of the newest image

// An image a period later, its stamp off by so much.
static enum live_stamp next(int64_t off_ns)
{
    arrived_ns += PERIOD;
    stamp_ns += PERIOD;
    return live_stamps_judge(&stamps, stamp_ns + off_ns, arrived_ns);
}

static int setup(void **state)
{
    (void)state;
    stamps = (struct live_stamps){0};
    arrived_ns = 5000 * MS;
    stamp_ns = T;
    for (int i = 0; i < 5; i++)
        assert_int_equal(next(0), LIVE_STAMP_TAKEN);
    return 0;
}

static void a_lone_wrong_stamp(void **state)
{
    (void)state;
    static const int64_t off_ms[] = {3600000, 2500, -40, -5000, -1000000};
    for (size_t i = 0; i < sizeof off_ms / sizeof *off_ms; i++) {
        assert_int_equal(next(off_ms[i] * MS), off_ms[i] > 0 ? LIVE_STAMP_AHEAD : LIVE_STAMP_BACK);
        assert_int_equal(next(0), LIVE_STAMP_TAKEN);
    }
    // again and again, between good ones: none of them is another clock
    for (int i = 0; i < 100; i++) {
        assert_int_equal(next(-5000 * MS), LIVE_STAMP_BACK);
        assert_int_equal(next(0), LIVE_STAMP_TAKEN);
    }
}

static void a_clock_that_is_set_back(void **state)
{
    (void)state;
    static const int64_t back_ms[] = {1000, 5000, 1000000, 100000000};
    for (size_t i = 0; i < sizeof back_ms / sizeof *back_ms; i++) {
        const int64_t begin_ns = arrived_ns + PERIOD;
        stamp_ns -= back_ms[i] * MS;
        enum live_stamp got;
        while ((got = next(0)) == LIVE_STAMP_BACK)
            assert_true(arrived_ns - begin_ns < LIVE_STAMPS_BACK_NS);
        assert_int_equal(got, LIVE_STAMP_NEW_CLOCK);
        assert_true(arrived_ns - begin_ns >= LIVE_STAMPS_BACK_NS);
        for (int k = 0; k < 50; k++)
            assert_int_equal(next(0), LIVE_STAMP_TAKEN);
    }
}

// By less than one waits for: time goes on where the stamps have caught up.
static void a_clock_that_is_set_back_a_little(void **state)
{
    (void)state;
    stamp_ns -= 300 * MS;
    int n_left_out = 0;
    while (next(0) == LIVE_STAMP_BACK)
        n_left_out++;
    assert_int_equal(n_left_out, 9);
    assert_int_equal(stamps.odd.arrived_ns, 0);
}

static void a_clock_that_is_set_forward(void **state)
{
    (void)state;
    stamp_ns += 5000000 * MS;
    assert_int_equal(next(0), LIVE_STAMP_AHEAD);
    for (int i = 0; i < 50; i++)
        assert_int_equal(next(0), LIVE_STAMP_TAKEN);
}

// Wrong stamps that do not go on from each other are none of another clock.
static void stamps_that_do_not_go_on(void **state)
{
    (void)state;
    const int64_t stands_ns = stamp_ns;
    for (int i = 0; i < 100; i++)
        assert_int_equal(live_stamps_judge(&stamps, stands_ns, arrived_ns += PERIOD),
                         LIVE_STAMP_BACK);
    for (int i = 0; i < 100; i++) // backwards
        assert_int_equal(live_stamps_judge(&stamps, stands_ns - i * PERIOD, arrived_ns += PERIOD),
                         LIVE_STAMP_BACK);
}

static void another_program(void **state)
{
    (void)state;
    live_stamps_new_source(&stamps);
    stamp_ns -= 5000000 * MS;
    assert_int_equal(next(0), LIVE_STAMP_NEW_CLOCK);
    assert_int_equal(next(0), LIVE_STAMP_TAKEN);
    live_stamps_new_source(&stamps);
    stamp_ns += 5000000 * MS;
    assert_int_equal(next(0), LIVE_STAMP_TAKEN);
    live_stamps_new_source(&stamps); // of the same clock, after a minute
    arrived_ns += 60000 * MS;
    stamp_ns += 60000 * MS;
    assert_int_equal(next(0), LIVE_STAMP_TAKEN);
    assert_int_equal(next(-5000 * MS), LIVE_STAMP_BACK);
}

// A pause, a camera that is slow, a recording that is played slowly or fast.
static void stamps_that_are_right(void **state)
{
    (void)state;
    arrived_ns += 600000 * MS;
    assert_int_equal(next(0), LIVE_STAMP_TAKEN);
    for (int i = 0; i < 100; i++) {
        stamp_ns += 9 * PERIOD;
        assert_int_equal(next(0), LIVE_STAMP_TAKEN);
    }
    for (int i = 0; i < 10; i++) {
        stamp_ns += 5000 * MS;
        arrived_ns += 5000 * MS;
        assert_int_equal(next(0), LIVE_STAMP_TAKEN);
    }
}

// An image without a stamp, so much later or earlier than a period after the one before it.
static int64_t fill(int64_t late_ns)
{
    int64_t filled_ns;
    arrived_ns += PERIOD;
    stamp_ns += PERIOD;
    assert_int_equal(live_stamps_fill(&stamps, 5 * T, arrived_ns + late_ns, &filled_ns),
                     LIVE_STAMP_TAKEN);
    return filled_ns;
}

// They have a time of the others' clock, whatever that is, and none is lost for it.
static void images_without_a_stamp_among_others(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        assert_true(fill(0) == stamp_ns);
        assert_int_equal(next(0), LIVE_STAMP_TAKEN);
    }
    for (int i = 0; i < 20; i++)
        assert_true(fill(0) == stamp_ns);
    assert_int_equal(next(0), LIVE_STAMP_TAKEN);
    for (int i = 0; i < 20; i++) { // they come late, or early, and the next one in time
        const int64_t late_ns = (i % 2 ? 25 : -25) * MS, filled_ns = fill(late_ns);
        assert_true(filled_ns <= stamp_ns && filled_ns > stamp_ns - PERIOD);
        assert_int_equal(next(0), LIVE_STAMP_TAKEN);
    }
    arrived_ns += 10 * PERIOD; // others were lost on the way
    stamp_ns += 10 * PERIOD;
    const int64_t filled_ns = fill(0);
    assert_true(filled_ns <= stamp_ns && filled_ns >= stamp_ns - PERIOD);
    assert_int_equal(next(0), LIVE_STAMP_TAKEN);
}

// Where one alone has a stamp so far no period is known.
static void the_second_image_without_a_stamp(void **state)
{
    (void)state;
    stamps = (struct live_stamps){0};
    assert_int_equal(next(0), LIVE_STAMP_TAKEN);
    assert_true(fill(0) == stamp_ns);
    assert_int_equal(next(0), LIVE_STAMP_TAKEN);
}

// The wall's time until stamps begin; these are taken from the first one on.
static void stamps_that_begin_later(void **state)
{
    (void)state;
    static const int64_t clocks_ns[] = {T, T / 1000, 2 * T};
    for (size_t i = 0; i < sizeof clocks_ns / sizeof *clocks_ns; i++) {
        int64_t filled_ns;
        stamps = (struct live_stamps){0};
        for (int k = 0; k < 10; k++) {
            arrived_ns += PERIOD;
            assert_int_equal(live_stamps_fill(&stamps, T + k * PERIOD, arrived_ns, &filled_ns),
                             LIVE_STAMP_TAKEN);
            assert_true(filled_ns == T + k * PERIOD);
        }
        stamp_ns = clocks_ns[i] + 10 * PERIOD;
        assert_int_equal(next(0), i == 1 ? LIVE_STAMP_NEW_CLOCK : LIVE_STAMP_TAKEN);
        assert_int_equal(next(0), LIVE_STAMP_TAKEN);
        assert_true(fill(0) == stamp_ns);
    }
}

// None has a stamp, and the wall's clock is set back by less than is told of: until it has caught
// up they are left out, and it is no other clock. A stamp that comes then may be of one at once.
static void a_small_step_of_the_walls_clock(void **state)
{
    (void)state;
    static const int64_t back_ms[] = {34, 60, 125};
    int64_t filled_ns, wall_ns = T;
    stamps = (struct live_stamps){0};
    for (size_t i = 0; i < sizeof back_ms / sizeof *back_ms; i++) {
        wall_ns -= back_ms[i] * MS;
        for (int k = 0; k < 40; k++) {
            const enum live_stamp got =
                live_stamps_fill(&stamps, wall_ns += PERIOD, arrived_ns += PERIOD, &filled_ns);
            assert_int_equal(got,
                             i > 0 && k < back_ms[i] / 33 ? LIVE_STAMP_BACK : LIVE_STAMP_TAKEN);
        }
    }
    stamp_ns = T / 2;
    assert_int_equal(next(0), LIVE_STAMP_NEW_CLOCK);
}

// The machine's clock is set, and the stamps with it, or not: those of a simulation.
static void stamps_that_follow_the_machines_clock(void **state)
{
    (void)state;
    static const int64_t step_ms[] = {130, -130, 900, -900, 3600000, -3600000, 170000000000};
    int64_t set_ns = 0;
    for (size_t i = 0; i < sizeof step_ms / sizeof *step_ms; i++) {
        const int64_t step_ns = step_ms[i] * MS;
        live_stamps_clock_set(&stamps, step_ns, arrived_ns);
        if (i % 2) // one that was stamped before
            assert_int_equal(next(0), LIVE_STAMP_TAKEN);
        assert_true(stamps.set_ns == set_ns);
        stamp_ns += step_ns;
        set_ns += step_ns;
        assert_int_equal(next(0), LIVE_STAMP_TAKEN);
        assert_true(stamps.set_ns == set_ns);
        for (int k = 0; k < 10; k++)
            assert_int_equal(next(0), LIVE_STAMP_TAKEN);
        live_stamps_clock_set(&stamps, step_ns, arrived_ns);
        for (int k = 0; k < 100; k++)
            assert_int_equal(next((k % 3 - 1) * 10 * MS), LIVE_STAMP_TAKEN);
        assert_true(stamps.set_ns == set_ns && stamps.owed_ns == 0);
    }
}

// An image comes late, just before or after the machine's clock is set, which the stamps do not
// follow: that the next one comes in time, or that one is late, is no step of theirs.
static void a_late_image_is_no_step(void **state)
{
    static const int64_t step_ms[] = {130, 200, -200, -200, 200},
                         late_ms[] = {120, 120, 120, 90, 0};
    for (size_t i = 0; i < sizeof step_ms / sizeof *step_ms; i++) {
        for (int n_before = 0; n_before < 3; n_before++) {
            assert_int_equal(setup(state), 0);
            const int64_t late_ns = late_ms[i] * MS;
            assert_int_equal(
                live_stamps_judge(&stamps, stamp_ns += PERIOD, (arrived_ns += PERIOD) + late_ns),
                LIVE_STAMP_TAKEN);
            for (int k = 0; k < n_before; k++)
                assert_int_equal(next(0), LIVE_STAMP_TAKEN);
            live_stamps_clock_set(&stamps, step_ms[i] * MS, arrived_ns + late_ns);
            for (int k = 0; k < 100; k++)
                assert_int_equal(next(0), LIVE_STAMP_TAKEN);
            assert_true(stamps.set_ns == 0 && stamps.owed_ns == 0);
        }
    }
    assert_int_equal(setup(state), 0); // the first after it is late by less than the step
    live_stamps_clock_set(&stamps, -200 * MS, arrived_ns);
    assert_int_equal(
        live_stamps_judge(&stamps, stamp_ns += PERIOD, (arrived_ns += PERIOD) + 120 * MS),
        LIVE_STAMP_TAKEN);
    for (int k = 0; k < 100; k++)
        assert_int_equal(next(0), LIVE_STAMP_TAKEN);
    assert_true(stamps.set_ns == 0);
}

// As they come over a network, and yet the stamps follow the machine's clock.
static void stamps_that_jitter_follow_it(void **state)
{
    static const int64_t step_ms[] = {150, -150, 900, -900, 3600000, -3600000};
    static const int64_t late_ms[] = {0, 20, 5, 30, 10, 25, 0};
    for (size_t i = 0; i < sizeof step_ms / sizeof *step_ms; i++) {
        for (int first = 0; first < 7; first++) {
            assert_int_equal(setup(state), 0);
            for (int k = 0; k < 60; k++) {
                if (k == 30) {
                    stamp_ns += step_ms[i] * MS;
                    live_stamps_clock_set(&stamps, step_ms[i] * MS, arrived_ns);
                }
                const int64_t late_ns = late_ms[(first + k) % 7] * MS;
                assert_int_equal(live_stamps_judge(&stamps, stamp_ns += PERIOD,
                                                   (arrived_ns += PERIOD) + late_ns),
                                 LIVE_STAMP_TAKEN);
            }
            assert_true(stamps.set_ns == step_ms[i] * MS);
        }
    }
}

// A recording that is played slowly or fast is ahead or behind by more from image to image.
static void a_step_at_another_rate(void **state)
{
    static const int64_t step_ms[] = {130, -130, 400, -400};
    for (size_t i = 0; i < 2 * sizeof step_ms / sizeof *step_ms; i++) {
        assert_int_equal(setup(state), 0);
        for (int k = 0; k < 100; k++) {
            if (k == 20)
                live_stamps_clock_set(&stamps, step_ms[i / 2] * MS, arrived_ns);
            stamp_ns += i % 2 ? PERIOD : -PERIOD / 2;
            assert_int_equal(next(0), LIVE_STAMP_TAKEN);
        }
        assert_true(stamps.set_ns == 0);
    }
}

// The machine's clock was set before the first image: by so much is their even time behind, where
// they are of that clock; not those of a simulation.
static void stamps_that_begin_after_the_clock_was_set(void **state)
{
    (void)state;
    const int64_t set_ns = 20000 * MS;
    static const int64_t off_ms[] = {0, -300, 100, -3600000, 3600000};
    for (size_t i = 0; i < sizeof off_ms / sizeof *off_ms; i++) {
        const int64_t off_ns = off_ms[i] * MS, expected_ns = i < 3 ? set_ns : 0;
        live_stamps_clock_set(&stamps, set_ns, arrived_ns);
        live_stamps_begin(&stamps, stamp_ns + off_ns, stamp_ns, set_ns);
        for (int k = 0; k < 10; k++) {
            assert_int_equal(next(off_ns), LIVE_STAMP_TAKEN);
            assert_true(stamps.set_ns == expected_ns);
        }
        stamp_ns += 300 * MS;
        live_stamps_clock_set(&stamps, 300 * MS, arrived_ns);
        assert_int_equal(next(off_ns), LIVE_STAMP_TAKEN);
        assert_true(stamps.set_ns == expected_ns + 300 * MS);
    }
    live_stamps_begin(&stamps, 0, stamp_ns, set_ns); // the wall's time is theirs
    assert_true(stamps.set_ns == set_ns);
}

#define TEST(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_lone_wrong_stamp),
        TEST(a_clock_that_is_set_back),
        TEST(a_clock_that_is_set_back_a_little),
        TEST(a_clock_that_is_set_forward),
        TEST(stamps_that_do_not_go_on),
        TEST(another_program),
        TEST(stamps_that_are_right),
        TEST(images_without_a_stamp_among_others),
        TEST(the_second_image_without_a_stamp),
        TEST(stamps_that_begin_later),
        TEST(a_small_step_of_the_walls_clock),
        TEST(stamps_that_follow_the_machines_clock),
        TEST(a_late_image_is_no_step),
        TEST(stamps_that_jitter_follow_it),
        TEST(a_step_at_another_rate),
        TEST(stamps_that_begin_after_the_clock_was_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// Frames before requests: when a request's threads stand still, and that they go on.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/base/yield.h"
#include "proto/clock.h"

#define MS        INT64_C(1000000)
#define AT_ONCE   (1 * MS) // nothing sleeps in between; a busy machine may take the processor
#define N_TRIES   20
#define LONGEST   (50 * MS)
#define FAR_AHEAD (1000 * MS)

static int64_t time_to_give_way(struct yield_frames *yield_frames)
{
    int64_t begin_ns = clock_monotonic_ns();
    yield_frames_wait(yield_frames, YIELD_PIECE_NS);
    return clock_monotonic_ns() - begin_ns;
}

// The shortest of some tries: what it takes where nobody interferes.
static int64_t shortest(struct yield_frames *yield_frames)
{
    int64_t best_ns = INT64_MAX;
    for (int i = 0; i < N_TRIES; i++) {
        int64_t took_ns = time_to_give_way(yield_frames);
        best_ns = took_ns < best_ns ? took_ns : best_ns;
    }
    return best_ns;
}

static void goes_on_where_no_frame_is_near(void **state)
{
    (void)state;
    struct yield_frames yield_frames = {0};
    assert_true(shortest(&yield_frames) < AT_ONCE);
    yield_frames_begin(&yield_frames);
    yield_frames_end(&yield_frames, 0);
    assert_true(shortest(&yield_frames) < AT_ONCE);
    yield_frames_end(&yield_frames, clock_monotonic_ns() + FAR_AHEAD);
    assert_true(shortest(&yield_frames) < AT_ONCE);
    yield_frames_end(&yield_frames, clock_monotonic_ns() - FAR_AHEAD);
    assert_true(shortest(&yield_frames) < AT_ONCE);
}

static void waits_for_a_frame_but_not_for_ever(void **state)
{
    (void)state;
    struct yield_frames yield_frames = {0};
    yield_frames_begin(&yield_frames);
    assert_true(time_to_give_way(&yield_frames) >= LONGEST);
}

static void stands_still_before_a_frame_and_goes_on_when_none_comes(void **state)
{
    (void)state;
    struct yield_frames yield_frames = {0};
    int64_t expected_ns = clock_monotonic_ns() + 1 * MS;
    yield_frames_end(&yield_frames, expected_ns);
    assert_true(time_to_give_way(&yield_frames) >= 1 * MS);
    assert_true(clock_monotonic_ns() > expected_ns);
    assert_true(shortest(&yield_frames) < AT_ONCE);
}

static void what_takes_long_begins_earlier(void **state)
{
    (void)state;
    struct yield_frames yield_frames = {0};
    int64_t best_ns = INT64_MAX;
    for (int i = 0; i < N_TRIES; i++) {
        int64_t expected_ns = clock_monotonic_ns() + YIELD_LONG_PIECE_NS;
        yield_frames_end(&yield_frames, expected_ns);
        int64_t took_ns = time_to_give_way(&yield_frames);
        best_ns = took_ns < best_ns ? took_ns : best_ns;
        yield_frames_wait(&yield_frames, YIELD_LONG_PIECE_NS);
        assert_true(clock_monotonic_ns() > expected_ns);
    }
    assert_true(best_ns < AT_ONCE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on_where_no_frame_is_near),
        cmocka_unit_test(waits_for_a_frame_but_not_for_ever),
        cmocka_unit_test(what_takes_long_begins_earlier),
        cmocka_unit_test(stands_still_before_a_frame_and_goes_on_when_none_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

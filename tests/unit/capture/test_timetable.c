// SPDX-License-Identifier: Apache-2.0
// Which frames of a recording are played, when each is due and what time it has: the table alone,
// frame by frame, on recordings of a few stamps.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "capture/replay.h"
#include "capture/timetable.h"

#define S INT64_C(1000000000)

static char said[400]; // the last line

static void hear(void *user, enum log_level level, const char *line)
{
    (void)user;
    (void)level;
    snprintf(said, sizeof said, "%s", line);
}

static void stamp(const void *state, uint64_t i, int64_t *out_time_ns, uint64_t *out_index)
{
    *out_time_ns = ((const int64_t *)state)[i];
    *out_index = 100 + i;
}

static const struct capture_driver driver = {.stamp = stamp};

static void make(struct timetable *out, const int64_t *stamps, uint64_t n,
                 struct capture_settings settings)
{
    assert_int_equal(timetable_make(out, &driver, stamps, n, &settings), 0);
}

// Start and duration hold their first moment and not their last.
static void bounds(void **state)
{
    (void)state;
    int64_t stamps[10];
    struct timetable t;
    for (int i = 0; i < 10; i++)
        stamps[i] = 7 * S + i * S;
    make(&t, stamps, 10, (struct capture_settings){.start_s = 2, .duration_s = 3});
    assert_int_equal(t.first, 2);
    assert_int_equal(t.n_round, 3);
    make(&t, stamps, 10, (struct capture_settings){.start_s = 2.5, .duration_s = 3.001});
    assert_int_equal(t.first, 3);
    assert_int_equal(t.n_round, 3); // up to 5.501: 3, 4, 5
    make(&t, stamps, 10, (struct capture_settings){.duration_s = 9});
    assert_int_equal(t.n_round, 9);
    make(&t, stamps, 10, (struct capture_settings){.duration_s = 9.5});
    assert_int_equal(t.n_round, 10);
    make(&t, stamps, 10, (struct capture_settings){.start_s = 9});
    assert_int_equal(t.n_round, 1);
    const struct capture_settings late = {.start_s = 9.5, .log = {hear, NULL}};
    assert_int_equal(timetable_make(&t, &driver, stamps, 10, &late), -ENOENT);
    assert_non_null(strstr(said, "from 9.5 s on: it is 9.000 s long, with 10 frames"));
    const struct capture_settings part = {.start_s = 2.1, .duration_s = 0.4, .log = {hear, NULL}};
    assert_int_equal(timetable_make(&t, &driver, stamps, 10, &part), -ENOENT);
    assert_non_null(strstr(said, "from 2.1 s to 2.5 s: it is 9.000 s long, with 10 frames"));
    for (uint32_t step = 0; step < 12; step++) {
        make(&t, stamps, 10, (struct capture_settings){.step = step});
        const uint64_t by = step ? step : 1;
        assert_int_equal(t.n_round, (10 + by - 1) / by);
        assert_int_equal(timetable_entry(&t, t.n_round - 1), (t.n_round - 1) * by);
        assert_int_equal(timetable_entry(&t, t.n_round), 0); // the next round
    }
    make(&t, stamps, 10, (struct capture_settings){.n_frames = 10});
    assert_int_equal(t.n_round, 10);
    make(&t, stamps, 10, (struct capture_settings){.n_frames = 9});
    assert_int_equal(t.n_round, 9);
}

static void rounds(void **state)
{
    (void)state;
    static const int64_t stamps[] = {5 * S, 6 * S, 8 * S, 9 * S};
    struct timetable t;
    uint64_t index;
    make(&t, stamps, 4, (struct capture_settings){.step = 1});
    assert_true(t.period_ns == S);
    assert_true(t.round_ns == 5 * S); // one period behind the last
    for (uint64_t q = 0; q < 12; q++) {
        const int64_t in_round = stamps[q % 4] - 5 * S, round = (int64_t)(q / 4);
        assert_true(timetable_stamp_ns(&t, q, &index) == stamps[q % 4] + round * 5 * S);
        assert_int_equal(index, 100 + q % 4);
        assert_true(timetable_paced_ns(&t, q) == in_round + round * 5 * S);
        assert_true(timetable_position_ns(&t, q) == in_round);
    }
}

// Two pauses of an hour are ten seconds each; one of exactly ten stays, as does that of a recording
// whose frames all are far apart.
static void pauses(void **state)
{
    (void)state;
    static const int64_t stamps[] = {0, S, 11 * S, 12 * S, 3612 * S, 3613 * S, 7213 * S};
    static const int64_t due_s[] = {0, 1, 11, 12, 22, 23, 33};
    struct timetable t;
    uint64_t index;
    make(&t, stamps, 7, (struct capture_settings){.step = 1});
    assert_int_equal(t.n_jumps, 2);
    for (uint64_t q = 0; q < 14; q++) {
        const int64_t round = (int64_t)(q / 7);
        // The median period is 10 s: of 1, 1, 1, 10, 3600, 3600.
        assert_true(timetable_paced_ns(&t, q) == (due_s[q % 7] + 43 * round) * S);
        assert_true(timetable_stamp_ns(&t, q, &index) == stamps[q % 7] + 7223 * round * S);
    }
    int64_t rare[4];
    for (int i = 0; i < 4; i++)
        rare[i] = i * 60 * S; // one a minute
    make(&t, rare, 4, (struct capture_settings){.step = 1});
    assert_int_equal(t.n_jumps, 0);
    assert_true(timetable_paced_ns(&t, 3) == 180 * S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bounds), cmocka_unit_test(rounds),
                                       cmocka_unit_test(pauses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// Sums over rounds are unsigned: whoever loops a recording of centuries gets a wrapped time, not a
// crash.
#include "capture/timetable.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "capture/replay.h"

// Times go up to 9e18 ns; three years more still fit.
#define LONGEST_PERIOD_NS INT64_C(100000000000000000)

uint64_t timetable_entry(const struct timetable *t, uint64_t q)
{
    return t->first + q % t->n_round * t->step;
}

static int64_t entry_time_ns(const struct timetable *t, uint64_t entry)
{
    int64_t time_ns;
    uint64_t index;
    t->driver->stamp(t->state, entry, &time_ns, &index);
    return time_ns;
}

static int compare_ns(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// Median over (at most) the first 1024 steps of the round.
static int64_t median_period_ns(const struct timetable *t)
{
    static const int64_t unknown_ns = 1000000000 / 30;
    int64_t periods_ns[1024];
    size_t n = 0;
    for (uint64_t q = 1; q < t->n_round && n < 1024; q++)
        periods_ns[n++] =
            entry_time_ns(t, timetable_entry(t, q)) - entry_time_ns(t, timetable_entry(t, q - 1));
    if (n == 0)
        return unknown_ns;
    qsort(periods_ns, n, sizeof *periods_ns, compare_ns);
    return periods_ns[n / 2] < LONGEST_PERIOD_NS ? periods_ns[n / 2] : LONGEST_PERIOD_NS;
}

// Which entries are played: those within start and duration, every step-th.
static int choose_entries(struct timetable *t, const struct capture_settings *settings,
                          uint64_t n_entries)
{
    int64_t origin_ns = entry_time_ns(t, 0);
    double from_ns = settings->start_s * 1e9;
    double to_ns = settings->duration_s > 0 ? from_ns + settings->duration_s * 1e9 : INFINITY;
    uint64_t first = 0, end;
    while (first < n_entries && (double)(entry_time_ns(t, first) - origin_ns) < from_ns)
        first++;
    for (end = first; end < n_entries; end++)
        if (!((double)(entry_time_ns(t, end) - origin_ns) < to_ns))
            break;
    if (first == end)
        return -ENOENT;
    t->first = first;
    t->step = settings->step > 1 ? settings->step : 1;
    t->n_round = (end - first + t->step - 1) / t->step;
    if (settings->n_frames && t->n_round > settings->n_frames)
        t->n_round = settings->n_frames;
    t->first_ns = entry_time_ns(t, first);
    t->period_ns = median_period_ns(t);
    return 0;
}

static void find_jumps(struct timetable *t, const struct log_sink *log)
{
    int64_t excess_ns = 0, before_ns = t->first_ns;
    for (uint64_t q = 1; q < t->n_round; q++) {
        uint64_t entry = timetable_entry(t, q);
        int64_t time_ns = entry_time_ns(t, entry), pause_ns = time_ns - before_ns;
        before_ns = time_ns;
        if (pause_ns <= REPLAY_LONGEST_PAUSE_NS || pause_ns / 4 <= t->period_ns ||
            t->n_jumps == TIMETABLE_MAX_JUMPS)
            continue;
        excess_ns += pause_ns - REPLAY_LONGEST_PAUSE_NS;
        t->jumps[t->n_jumps++] = (struct timetable_jump){entry, excess_ns};
        log_to(log, LOG_LEVEL_WARNING,
               "the recording pauses for %.1f s before frame %llu; a paced replay waits %.0f s",
               (double)pause_ns * 1e-9, (unsigned long long)entry,
               (double)REPLAY_LONGEST_PAUSE_NS * 1e-9);
    }
    t->round_ns = before_ns - t->first_ns + t->period_ns;
    t->paced_round_ns = t->round_ns - excess_ns;
}

static void tell_of_none(const struct timetable *t, const struct capture_settings *settings,
                         uint64_t n_entries)
{
    const uint64_t last = n_entries ? n_entries - 1 : 0;
    char end[40] = "on";
    if (settings->duration_s > 0)
        snprintf(end, sizeof end, "to %g s", settings->start_s + settings->duration_s);
    log_to(
        &settings->log, LOG_LEVEL_ERROR,
        "no frame of the recording lies within capture.start_s and capture.duration_s, from %g s "
        "%s: it is %.3f s long, with %llu frames",
        settings->start_s, end, (double)(entry_time_ns(t, last) - entry_time_ns(t, 0)) * 1e-9,
        (unsigned long long)n_entries);
}

int timetable_make(struct timetable *out, const struct capture_driver *driver, const void *state,
                   uint64_t n_entries, const struct capture_settings *settings)
{
    *out = (struct timetable){.driver = driver, .state = state};
    int err = choose_entries(out, settings, n_entries);
    if (err)
        tell_of_none(out, settings, n_entries);
    else
        find_jumps(out, &settings->log);
    return err;
}

int64_t timetable_ahead_ns(const struct timetable *t, uint64_t q)
{
    return (int64_t)(q / t->n_round * (uint64_t)t->round_ns);
}

int64_t timetable_stamp_ns(const struct timetable *t, uint64_t q, uint64_t *out_index)
{
    int64_t time_ns;
    t->driver->stamp(t->state, timetable_entry(t, q), &time_ns, out_index);
    return (int64_t)((uint64_t)time_ns + (uint64_t)timetable_ahead_ns(t, q));
}

int64_t timetable_paced_ns(const struct timetable *t, uint64_t q)
{
    uint64_t round = q / t->n_round, entry = timetable_entry(t, q);
    int64_t excess_ns = 0;
    for (size_t i = 0; i < t->n_jumps && t->jumps[i].entry <= entry; i++)
        excess_ns = t->jumps[i].excess_ns;
    int64_t in_round_ns = entry_time_ns(t, entry) - t->first_ns - excess_ns;
    return (int64_t)((uint64_t)in_round_ns + round * (uint64_t)t->paced_round_ns);
}

int64_t timetable_position_ns(const struct timetable *t, uint64_t q)
{
    return entry_time_ns(t, timetable_entry(t, q)) - t->first_ns;
}

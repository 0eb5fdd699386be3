// SPDX-License-Identifier: Apache-2.0
#include "capture/live_stamps.h"

#include <stdlib.h>

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

// What is between two stamps more than between their arrivals.
static int64_t ahead_ns(const struct live_time *from, const struct live_time *to)
{
    return to->stamp_ns - from->stamp_ns - (to->arrived_ns - from->arrived_ns);
}

static bool goes_on(const struct live_time *from, const struct live_time *to)
{
    return to->stamp_ns > from->stamp_ns && ahead_ns(from, to) <= LIVE_STAMPS_AHEAD_NS;
}

static enum live_stamp take(struct live_stamps *stamps, const struct live_time *time,
                            bool does_go_on, enum live_stamp as)
{
    if (does_go_on && stamps->has_stamp)
        stamps->step_ns = (time->stamp_ns - stamps->stamp_ns) / (stamps->n_filled + 1);
    if (!does_go_on)
        stamps->n_recent = 0;
    stamps->recent_ns[stamps->n_recent++ % LIVE_STAMPS_RECENT] = time->stamp_ns - time->arrived_ns;
    stamps->newest = *time;
    stamps->odd = stamps->first_odd = (struct live_time){0};
    stamps->is_new_source = false;
    stamps->has_stamp = true;
    stamps->stamp_ns = time->stamp_ns;
    stamps->n_filled = 0;
    return as;
}

void live_stamps_begin(struct live_stamps *stamps, int64_t stamp_ns, int64_t wall_ns,
                       int64_t clock_set_ns)
{
    const int64_t apart_ns = stamp_ns > 0 ? stamp_ns - wall_ns : 0;
    const bool is_near = apart_ns > -LIVE_STAMPS_NEAR_NS && apart_ns < LIVE_STAMPS_NEAR_NS;
    *stamps = (struct live_stamps){.set_ns = is_near ? clock_set_ns : 0};
}

// Whether this stamp has made the step that the clock made: against the recent image with the least
// delay, as the newest may have been late itself, and by as much as delays differ. Against the
// newest, too, as stamps that run at another rate leave the recent ones behind.
static bool is_step(const struct live_stamps *stamps, const struct live_time *now)
{
    const int64_t owed_ns = stamps->owed_ns, size_ns = llabs(owed_ns);
    const unsigned n =
        stamps->n_recent < LIVE_STAMPS_RECENT ? stamps->n_recent : LIVE_STAMPS_RECENT;
    int64_t least_ns = INT64_MAX, most_ns = INT64_MIN;
    for (unsigned i = 0; i < n; i++) {
        least_ns = smaller(least_ns, stamps->recent_ns[i]);
        most_ns = larger(most_ns, stamps->recent_ns[i]);
    }
    const int64_t by_newest_ns = ahead_ns(&stamps->newest, now);
    if (owed_ns > 0 ? by_newest_ns <= owed_ns / 2 : by_newest_ns >= owed_ns / 2)
        return false;
    const int64_t off_ns = now->stamp_ns - now->arrived_ns - most_ns - owed_ns;
    return llabs(off_ns) <= smaller(size_ns / 2, size_ns / 4 + most_ns - least_ns);
}

static void follow_clock(struct live_stamps *stamps, const struct live_time *now)
{
    struct live_time *newest = &stamps->newest;
    const int64_t owed_ns = stamps->owed_ns;
    if (owed_ns == 0 || newest->arrived_ns == 0)
        return;
    const bool is_over = now->arrived_ns - stamps->owed_at_ns > LIVE_STAMPS_OWED_NS;
    const bool is_set = !is_over && is_step(stamps, now);
    if (is_set) {
        newest->stamp_ns += owed_ns;
        stamps->stamp_ns += owed_ns;
        stamps->set_ns += owed_ns;
        for (unsigned i = 0; i < LIVE_STAMPS_RECENT; i++)
            stamps->recent_ns[i] += owed_ns;
    }
    if (is_set || is_over)
        stamps->owed_ns = 0;
}

enum live_stamp live_stamps_judge(struct live_stamps *stamps, int64_t stamp_ns, int64_t arrived_ns)
{
    const struct live_time now = {stamp_ns, arrived_ns};
    const struct live_time *newest = &stamps->newest;
    follow_clock(stamps, &now);
    if (newest->arrived_ns == 0 || goes_on(newest, &now))
        return take(stamps, &now, true, LIVE_STAMP_TAKEN);
    const bool is_back = stamp_ns <= newest->stamp_ns;
    const bool agrees = stamps->odd.arrived_ns != 0 && goes_on(&stamps->odd, &now);
    if (!is_back && (agrees || stamps->is_new_source))
        return take(stamps, &now, false, LIVE_STAMP_TAKEN);
    stamps->odd = now;
    if (!agrees)
        stamps->first_odd = now;
    if (is_back &&
        (stamps->is_new_source || arrived_ns - stamps->first_odd.arrived_ns >= LIVE_STAMPS_BACK_NS))
        return take(stamps, &now, false, LIVE_STAMP_NEW_CLOCK);
    return is_back ? LIVE_STAMP_BACK : LIVE_STAMP_AHEAD;
}

enum live_stamp live_stamps_fill(struct live_stamps *stamps, int64_t wall_ns, int64_t arrived_ns,
                                 int64_t *out_stamp_ns)
{
    *out_stamp_ns = wall_ns;
    if (!stamps->has_stamp) { // nor had those before it: all are of the wall's clock
        stamps->is_new_source = false;
        const enum live_stamp stamp = live_stamps_judge(stamps, wall_ns, arrived_ns);
        stamps->has_stamp = false;
        live_stamps_new_source(stamps);
        return stamp;
    }
    struct live_time *newest = &stamps->newest;
    const int64_t passed_ns = larger(arrived_ns - newest->arrived_ns, 1);
    const bool is_next = passed_ns < 2 * stamps->step_ns; // else some were lost on the way
    newest->stamp_ns += is_next ? smaller(passed_ns, stamps->step_ns) : passed_ns - stamps->step_ns;
    newest->arrived_ns = arrived_ns;
    stamps->n_filled++;
    *out_stamp_ns = newest->stamp_ns;
    return LIVE_STAMP_TAKEN;
}

void live_stamps_new_source(struct live_stamps *stamps)
{
    stamps->is_new_source = stamps->newest.arrived_ns != 0;
}

void live_stamps_clock_set(struct live_stamps *stamps, int64_t step_ns, int64_t now_ns)
{
    stamps->owed_ns += step_ns;
    stamps->owed_at_ns = now_ns;
}

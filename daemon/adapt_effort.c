// SPDX-License-Identifier: Apache-2.0
#include "daemon/adapt_effort.h"

#include <stdio.h>

#define SLOW_COSTS    4 // good frames
#define PERIOD_FRAMES 8 // that the mean period weighs
#define LONGEST       2 // periods: longer ones count as so long, as a source may be silent

void adapt_init(struct adapt *adapt)
{
    *adapt = (struct adapt){.hold = ADAPT_HOLD, .n_max_waiting = CAPTURE_MAX_WAITING};
}

static void learn_period(struct adapt *adapt, int64_t capture_ns)
{
    int64_t ns = capture_ns - adapt->capture_ns;
    if (adapt->capture_ns && adapt->period_ns == 0)
        adapt->period_ns = ns;
    else if (adapt->capture_ns)
        adapt->period_ns += ((ns < LONGEST * adapt->period_ns ? ns : LONGEST * adapt->period_ns) -
                             adapt->period_ns) /
                            PERIOD_FRAMES;
    adapt->capture_ns = capture_ns;
}

static void fail_trial(struct adapt *adapt)
{
    adapt->n_trial = 0;
    adapt->failed_ns = adapt->took_ns;
    adapt->hold = 2 * adapt->hold < ADAPT_HOLD_MAX ? 2 * adapt->hold : ADAPT_HOLD_MAX;
    if (adapt->effort < TRACK_EFFORT_LEAST)
        adapt->effort++;
}

void adapt_frame(struct adapt *adapt, const struct capture_frame *frame)
{
    if (!frame->paced) {
        const struct adapt before = *adapt;
        adapt_init(adapt);
        adapt->is_said = before.is_said;
        adapt->n_full = before.n_full;
        return;
    }
    learn_period(adapt, frame->capture_mono_ns);
    if (adapt->took_ns == 0 && frame->flags & CAPTURE_LATE) {
        adapt->n_max_waiting = 0; // from before anybody read: old, as are those behind it
        return;
    }
    if (adapt->took_ns == 0)
        adapt->n_max_waiting = CAPTURE_MAX_WAITING;
    if (frame->n_waiting == 0) {
        adapt->n_dropped = 0;
        adapt->is_searching = false;
        return;
    }
    if (adapt->is_searching && adapt->took_ns <= adapt->period_ns)
        return;
    bool was_too_slow = adapt->took_effort == adapt->effort && adapt->took_ns > adapt->period_ns;
    adapt->n_good = 0;
    if (adapt->n_trial > 0)
        fail_trial(adapt);
    else if (adapt->effort == TRACK_EFFORT_FULL)
        adapt->effort = TRACK_EFFORT_HALF;
    else if (was_too_slow)
        adapt->effort = TRACK_EFFORT_LEAST;
    if (frame->n_waiting > 1)
        adapt->effort = TRACK_EFFORT_LEAST;
    if (frame->flags & CAPTURE_LATE && ++adapt->n_dropped >= ADAPT_HOPELESS)
        adapt->n_max_waiting = 0;
}

static void judge_trial(struct adapt *adapt)
{
    adapt->n_trial--;
    if (adapt->took_ns > adapt->period_ns)
        fail_trial(adapt);
}

// Work that fits now, as far as is known, need not be waited for.
static uint32_t wanted(const struct adapt *adapt)
{
    return (double)adapt->failed_ns < ADAPT_SPARE * (double)adapt->period_ns ? ADAPT_HOLD
                                                                             : adapt->hold;
}

static void begin_trial(struct adapt *adapt)
{
    adapt->effort--;
    adapt->n_trial = ADAPT_TRIAL;
    adapt->n_good = 0;
}

static enum adapt_news news(struct adapt *adapt)
{
    adapt->n_full = adapt->took_effort == TRACK_EFFORT_FULL ? adapt->n_full + 1 : 0;
    if (!adapt->is_said && adapt->n_full == 0) {
        adapt->is_said = true;
        return ADAPT_BEGINS;
    }
    if (adapt->is_said && adapt->n_full >= ADAPT_CALM) {
        adapt->is_said = false;
        return ADAPT_ENDS;
    }
    return ADAPT_NOTHING;
}

enum adapt_news adapt_done(struct adapt *adapt, int64_t took_ns, int64_t search_ns)
{
    adapt->is_searching = adapt->is_searching || search_ns > 0;
    adapt->took_ns = took_ns;
    adapt->took_effort = adapt->effort;
    if (adapt->effort == TRACK_EFFORT_FULL)
        adapt->full_ns = took_ns;
    if ((double)took_ns < ADAPT_SPARE * (double)adapt->period_ns)
        adapt->n_good++;
    else
        adapt->n_good -= adapt->n_good < SLOW_COSTS ? adapt->n_good : SLOW_COSTS;
    if (adapt->n_good >= ADAPT_HOLD)
        adapt->n_max_waiting = CAPTURE_MAX_WAITING;
    if (adapt->n_trial > 0) {
        judge_trial(adapt);
    } else if (adapt->effort > TRACK_EFFORT_FULL && adapt->n_good >= wanted(adapt)) {
        begin_trial(adapt);
    } else if (adapt->effort == TRACK_EFFORT_FULL && adapt->n_good >= adapt->hold) {
        adapt->hold = adapt->hold > 2 * ADAPT_HOLD ? adapt->hold / 2 : ADAPT_HOLD;
        adapt->n_good = 0;
    }
    return news(adapt);
}

void adapt_explain(const struct adapt *adapt, char *out, size_t size_bytes)
{
    const double full_ms = (double)adapt->full_ns * 1e-6;
    const double period_ms = (double)adapt->period_ns * 1e-6;
    if (adapt->full_ns == 0)
        snprintf(out, size_bytes,
                 "frames wait from the first on: less is done on each (tracker.adapt)");
    else if (adapt->full_ns > adapt->period_ns)
        snprintf(out, size_bytes,
                 "frames wait, as work on one took %.1f ms and the mean between two is %.1f: less "
                 "is done on each (tracker.adapt)",
                 full_ms, period_ms);
    else
        snprintf(out, size_bytes,
                 "frames wait, though work on one took %.1f ms and the mean between two is %.1f: "
                 "they came late together, or another program had the processor; less is done on "
                 "each (tracker.adapt)",
                 full_ms, period_ms);
}

int64_t adapt_due_ns(const struct adapt *adapt)
{
    return adapt->capture_ns ? adapt->capture_ns + adapt->period_ns : INT64_MAX;
}

int64_t adapt_until_ns(const struct adapt *adapt)
{
    return adapt->period_ns ? adapt->capture_ns + 2 * adapt->period_ns : INT64_MAX;
}

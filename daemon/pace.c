// SPDX-License-Identifier: Apache-2.0
#include "daemon/pace.h"

#define SLOW_COSTS    4 // good frames
#define PERIOD_FRAMES 8 // that the mean period weighs
#define LONGEST       2 // periods: longer ones count as so long, as a source may be silent

void pace_init(struct pace *pace)
{
    *pace = (struct pace){.hold = PACE_HOLD, .n_patience = CAPTURE_MAX_WAIT};
}

static void learn_period(struct pace *pace, int64_t capture_ns)
{
    int64_t ns = capture_ns - pace->capture_ns;
    if (pace->capture_ns && pace->period_ns == 0)
        pace->period_ns = ns;
    else if (pace->capture_ns)
        pace->period_ns +=
            ((ns < LONGEST * pace->period_ns ? ns : LONGEST * pace->period_ns) - pace->period_ns) /
            PERIOD_FRAMES;
    pace->capture_ns = capture_ns;
}

static void fail_trial(struct pace *pace)
{
    pace->n_trial = 0;
    pace->failed_ns = pace->took_ns;
    pace->hold = 2 * pace->hold < PACE_HOLD_MAX ? 2 * pace->hold : PACE_HOLD_MAX;
    if (pace->effort < TRACK_EFFORT_LEAST)
        pace->effort++;
}

void pace_frame(struct pace *pace, const struct capture_frame *frame)
{
    if (!frame->paced) {
        const struct pace before = *pace;
        pace_init(pace);
        pace->is_said = before.is_said;
        pace->n_full = before.n_full;
        return;
    }
    learn_period(pace, frame->capture_mono_ns);
    if (frame->n_waiting == 0) {
        pace->n_dropped = 0;
        return;
    }
    bool was_too_slow = pace->took_effort == pace->effort && pace->took_ns > pace->period_ns;
    pace->n_good = 0;
    if (pace->n_trial > 0)
        fail_trial(pace);
    else if (pace->effort == TRACK_EFFORT_FULL)
        pace->effort = TRACK_EFFORT_HALF;
    else if (was_too_slow)
        pace->effort = TRACK_EFFORT_LEAST;
    if (frame->n_waiting > 1)
        pace->effort = TRACK_EFFORT_LEAST;
    if (frame->flags & CAPTURE_LATE && ++pace->n_dropped >= PACE_HOPELESS)
        pace->n_patience = 0;
}

static void judge_trial(struct pace *pace)
{
    pace->n_trial--;
    if (pace->took_ns > pace->period_ns)
        fail_trial(pace);
}

// Work that fits now, as far as is known, need not be waited for.
static uint32_t wanted(const struct pace *pace)
{
    return (double)pace->failed_ns < PACE_SPARE * (double)pace->period_ns ? PACE_HOLD : pace->hold;
}

static void begin_trial(struct pace *pace)
{
    pace->effort--;
    pace->n_trial = PACE_TRIAL;
    pace->n_good = 0;
}

static enum pace_news news(struct pace *pace)
{
    pace->n_full = pace->took_effort == TRACK_EFFORT_FULL ? pace->n_full + 1 : 0;
    if (!pace->is_said && pace->n_full == 0) {
        pace->is_said = true;
        return PACE_BEGINS;
    }
    if (pace->is_said && pace->n_full >= PACE_CALM) {
        pace->is_said = false;
        return PACE_ENDS;
    }
    return PACE_NOTHING;
}

enum pace_news pace_done(struct pace *pace, int64_t took_ns)
{
    pace->took_ns = took_ns;
    pace->took_effort = pace->effort;
    if ((double)took_ns < PACE_SPARE * (double)pace->period_ns)
        pace->n_good++;
    else
        pace->n_good -= pace->n_good < SLOW_COSTS ? pace->n_good : SLOW_COSTS;
    if (pace->n_good >= PACE_HOLD)
        pace->n_patience = CAPTURE_MAX_WAIT;
    if (pace->n_trial > 0) {
        judge_trial(pace);
    } else if (pace->effort > TRACK_EFFORT_FULL && pace->n_good >= wanted(pace)) {
        begin_trial(pace);
    } else if (pace->effort == TRACK_EFFORT_FULL && pace->n_good >= pace->hold) {
        pace->hold = pace->hold > 2 * PACE_HOLD ? pace->hold / 2 : PACE_HOLD;
        pace->n_good = 0;
    }
    return news(pace);
}

int64_t pace_until_ns(const struct pace *pace)
{
    return pace->period_ns ? pace->capture_ns + 2 * pace->period_ns : INT64_MAX;
}

// SPDX-License-Identifier: Apache-2.0
#include "capture/live_clock.h"

#include <math.h>

#include "proto/clock.h"

static int64_t offset_ns(const struct live_clock_reading *now)
{
    return now->wall_ns - now->before_ns - (now->after_ns - now->before_ns) / 2;
}

struct live_clock_reading live_clock_read(void)
{
    struct live_clock_reading now;
    now.before_ns = clock_monotonic_ns();
    now.wall_ns = clock_wall_ns();
    now.after_ns = clock_monotonic_ns();
    return now;
}

void live_clock_begin(struct live_clock *clock, const char *name, const struct log_sink *log,
                      const struct live_clock_reading *now)
{
    *clock = (struct live_clock){*log, name, offset_ns(now), now->after_ns};
}

bool live_clock_is_set(struct live_clock *clock, const struct live_clock_reading *now)
{
    if (now->before_ns - clock->looked_ns < LIVE_CLOCK_LOOK_NS ||
        now->after_ns - now->before_ns > LIVE_CLOCK_READ_NS)
        return false;
    clock->looked_ns = now->after_ns;
    const int64_t step_ns = offset_ns(now) - clock->offset_ns;
    if (step_ns >= -LIVE_CLOCK_APART_NS && step_ns <= LIVE_CLOCK_APART_NS)
        return false;
    clock->offset_ns += step_ns;
    log_to(&clock->log, LOG_LEVEL_WARNING,
           "%s: the machine's clock was set %.3f s %s%s: the frames' times follow it from here on, "
           "in a new map epoch",
           clock->name, fabs((double)step_ns * 1e-9), step_ns < 0 ? "back" : "forward",
           step_ns < 0 ? "" : " (or the machine slept)");
    return true;
}

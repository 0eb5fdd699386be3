// SPDX-License-Identifier: Apache-2.0
#include "capture/live_clock.h"

#include <math.h>
#include <stdbool.h>

#include "proto/clock.h"

// Of another clock and CLOCK_MONOTONIC, when that was read before and after it.
static int64_t offset_ns(const struct live_clock_reading *now, int64_t other_ns)
{
    return other_ns - now->before_ns - (now->after_ns - now->before_ns) / 2;
}

struct live_clock_reading live_clock_read(void)
{
    struct live_clock_reading now;
    now.before_ns = clock_monotonic_ns();
    now.wall_ns = clock_wall_ns();
    now.boot_ns = clock_read_ns(CLOCK_BOOTTIME);
    now.after_ns = clock_monotonic_ns();
    return now;
}

void live_clock_begin(struct live_clock *clock, const char *name, const struct log_sink *log,
                      const struct live_clock_reading *now)
{
    *clock = (struct live_clock){
        .log = *log,
        .name = name,
        .offset_ns = offset_ns(now, now->wall_ns),
        .slept_ns = offset_ns(now, now->boot_ns),
    };
}

static bool is_apart(int64_t step_ns)
{
    return step_ns < -LIVE_CLOCK_APART_NS || step_ns > LIVE_CLOCK_APART_NS;
}

void live_clock_follow(struct live_clock *clock, const struct live_clock_reading *now)
{
    if (now->after_ns - now->before_ns > LIVE_CLOCK_READ_NS)
        return;
    const int64_t step_ns = offset_ns(now, now->wall_ns) - clock->offset_ns;
    const int64_t slept_ns = offset_ns(now, now->boot_ns) - clock->slept_ns;
    const int64_t set_ns = step_ns - slept_ns;
    if (!is_apart(set_ns) && !is_apart(slept_ns))
        return;
    clock->offset_ns += step_ns;
    clock->slept_ns += slept_ns;
    if (is_apart(slept_ns))
        log_to(&clock->log, LOG_LEVEL_WARNING, "%s: the machine slept for %.3f s", clock->name,
               (double)slept_ns * 1e-9);
    if (!is_apart(set_ns))
        return;
    clock->set_ns += set_ns;
    log_to(&clock->log, LOG_LEVEL_WARNING,
           "%s: the machine's clock was set %.3f s %s: the frames' times follow it from here on, "
           "and tracking goes on",
           clock->name, fabs((double)set_ns * 1e-9), set_ns < 0 ? "back" : "forward");
}

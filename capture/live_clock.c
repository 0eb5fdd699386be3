// SPDX-License-Identifier: Apache-2.0
#include "capture/live_clock.h"

#include <math.h>
#include <pthread.h>
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

static bool is_apart(int64_t step_ns)
{
    return step_ns < -LIVE_CLOCK_APART_NS || step_ns > LIVE_CLOCK_APART_NS;
}

// Of the whole process, so that all sources have the same times, whenever they began.
static struct {
    pthread_mutex_t lock;
    struct live_offsets offsets;
    int64_t read_ns; // of the newest reading, 0: none
} machine = {.lock = PTHREAD_MUTEX_INITIALIZER};

// With the lock held. Another thread may have been faster with a newer reading.
static void follow_machine(const struct live_clock_reading *now)
{
    struct live_offsets *offsets = &machine.offsets;
    const int64_t wall_ns = offset_ns(now, now->wall_ns), slept_ns = offset_ns(now, now->boot_ns);
    if (machine.read_ns == 0)
        *offsets = (struct live_offsets){.wall_ns = wall_ns, .slept_ns = slept_ns};
    else if (now->after_ns - now->before_ns > LIVE_CLOCK_READ_NS || now->after_ns < machine.read_ns)
        return;
    machine.read_ns = now->after_ns;
    const int64_t step_ns = wall_ns - offsets->wall_ns, more_ns = slept_ns - offsets->slept_ns;
    const int64_t set_ns = step_ns - more_ns;
    if (!is_apart(set_ns) && !is_apart(more_ns))
        return;
    offsets->wall_ns = wall_ns;
    offsets->slept_ns = slept_ns;
    if (is_apart(set_ns))
        offsets->set_ns += set_ns;
}

static struct live_offsets offsets_at(const struct live_clock_reading *now)
{
    pthread_mutex_lock(&machine.lock);
    follow_machine(now);
    const struct live_offsets offsets = machine.offsets;
    pthread_mutex_unlock(&machine.lock);
    return offsets;
}

void live_clock_begin(struct live_clock *clock, const char *name, const struct log_sink *log,
                      const struct live_clock_reading *now)
{
    *clock = (struct live_clock){.log = *log, .name = name, .offsets = offsets_at(now)};
}

void live_clock_follow(struct live_clock *clock, const struct live_clock_reading *now)
{
    const struct live_offsets before = clock->offsets;
    clock->offsets = offsets_at(now);
    const int64_t slept_ns = clock->offsets.slept_ns - before.slept_ns;
    const int64_t set_ns = clock->offsets.set_ns - before.set_ns;
    if (is_apart(slept_ns))
        log_to(&clock->log, LOG_LEVEL_WARNING, "%s: the machine slept for %.3f s", clock->name,
               (double)slept_ns * 1e-9);
    if (is_apart(set_ns))
        log_to(&clock->log, LOG_LEVEL_WARNING,
               "%s: the machine's clock was set %.3f s %s: the frames' times follow it from here "
               "on, and tracking goes on",
               clock->name, fabs((double)set_ns * 1e-9), set_ns < 0 ? "back" : "forward");
}

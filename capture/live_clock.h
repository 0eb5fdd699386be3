// SPDX-License-Identifier: Apache-2.0
// Inside capture/ only: the wall's time of a live camera's frames, whose moments are known on
// CLOCK_MONOTONIC. The difference of the two clocks is taken once in a process and kept, so that
// times grow as evenly as the camera's, and those of several cameras stay together. Where the
// wall's clock is set meanwhile (NTP on a machine that starts without the time, somebody's hand),
// the frames follow it: what else speaks of now, as tf and diagnostics of ROS do, has the wall's
// time, too. By how much it was set goes with each frame, as that is no time that passed. The time
// that a machine slept did pass: CLOCK_BOOTTIME tells it.
#ifndef POSED_CAPTURE_LIVE_CLOCK_H
#define POSED_CAPTURE_LIVE_CLOCK_H

#include <stdint.h>

#include "proto/log.h"

// Further apart, the wall's clock was set. ntpd sets it from 128 ms on; what NTP does smoothly it
// does to both.
#define LIVE_CLOCK_APART_NS INT64_C(125000000)
// A comparison between whose readings more time passed tells nothing: the thread stood still.
#define LIVE_CLOCK_READ_NS  INT64_C(20000000)

struct live_offsets {
    int64_t wall_ns;  // CLOCK_REALTIME - CLOCK_MONOTONIC
    int64_t slept_ns; // CLOCK_BOOTTIME - CLOCK_MONOTONIC
    int64_t set_ns;   // by how much the wall's clock was set since the process's first source began
};

struct live_clock {
    struct log_sink log;
    const char *name; // of the source, which outlives it
    struct live_offsets offsets;
};

// What the machine's clocks say: CLOCK_MONOTONIC before and after the others were read.
struct live_clock_reading {
    int64_t before_ns, wall_ns, boot_ns, after_ns;
};
struct live_clock_reading live_clock_read(void);

void live_clock_begin(struct live_clock *clock, const char *name, const struct log_sink *log,
                      const struct live_clock_reading *now);

// For each frame, before its time is taken. Where the wall's clock was set, which this source or
// another has seen, times follow it from this frame on, and set_ns has it, after a warning. Any
// thread, one for each clock.
void live_clock_follow(struct live_clock *clock, const struct live_clock_reading *now);

// The wall's time of a moment of CLOCK_MONOTONIC.
static inline int64_t live_clock_wall_ns(const struct live_clock *clock, int64_t monotonic_ns)
{
    return monotonic_ns + clock->offsets.wall_ns;
}

#endif

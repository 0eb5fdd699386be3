// SPDX-License-Identifier: Apache-2.0
// Inside capture/ only: the wall's time of a live camera's frames, whose moments are known on
// CLOCK_MONOTONIC. The difference of the two clocks is taken once and kept, so that times grow as
// evenly as the camera's. Where the wall's clock is set meanwhile (NTP on a machine that starts
// without the time, somebody's hand, a machine that slept), the frames follow it: what else speaks
// of now, as tf and diagnostics of ROS do, has the wall's time, too.
#ifndef POSED_CAPTURE_LIVE_CLOCK_H
#define POSED_CAPTURE_LIVE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/log.h"

// Further apart, the wall's clock was set. What NTP does smoothly it does to both.
#define LIVE_CLOCK_APART_NS INT64_C(1000000000)
#define LIVE_CLOCK_LOOK_NS  INT64_C(1000000000) // between two comparisons
// A comparison between whose readings more time passed tells nothing: the thread stood still.
#define LIVE_CLOCK_READ_NS  INT64_C(100000000)

struct live_clock {
    struct log_sink log;
    const char *name;  // of the source, which outlives it
    int64_t offset_ns; // CLOCK_REALTIME - CLOCK_MONOTONIC
    int64_t looked_ns; // when they were compared, on CLOCK_MONOTONIC
};

// What the machine's clocks say: CLOCK_MONOTONIC before and after the wall's was read.
struct live_clock_reading {
    int64_t before_ns, wall_ns, after_ns;
};
struct live_clock_reading live_clock_read(void);

void live_clock_begin(struct live_clock *clock, const char *name, const struct log_sink *log,
                      const struct live_clock_reading *now);

// For each frame, before its time is taken. Returns true when the wall's clock was set, after a
// warning: the times from this frame on are of another clock (CAPTURE_NEW_CLOCK), before or behind
// the one so far. Compares once a second at most.
bool live_clock_is_set(struct live_clock *clock, const struct live_clock_reading *now);

// The wall's time of a moment of CLOCK_MONOTONIC.
static inline int64_t live_clock_wall_ns(const struct live_clock *clock, int64_t monotonic_ns)
{
    return monotonic_ns + clock->offset_ns;
}

#endif

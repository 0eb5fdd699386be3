// SPDX-License-Identifier: Apache-2.0
// What the daemon says of itself every second beside its messages: ROS diagnostics, a hint while
// frames are dropped, a line of progress on a terminal. The frame loop's; plain data, all zero to
// begin with.
#ifndef POSED_DAEMON_HEALTH_H
#define POSED_DAEMON_HEALTH_H

#include "daemon/log.h"
#include "daemon/ros/ros.h"
#include "daemon/shared_state.h"

// What to do against frames that are dropped.
#define HEALTH_TOO_SLOW                                                                        \
    "this machine is too slow or too busy for their rate: fewer tracker.iterations, the GPU, " \
    "or for a recording --speed max, which drops none"

struct health {
    uint64_t n_captured, n_dropped; // at the last beat
    uint32_t n_slow;                // beats in a row with too many dropped frames
    uint32_t n_silent;              // beats for which the hint is not repeated
};

struct health_outputs {
    struct shared *shared;
    struct ros *ros;            // NULL: none
    uint32_t camera;            // its number there
    struct log *terminal;       // for the progress, NULL: none
    const struct log_sink *log; // for the hint
};

// Each second. `rate_hz` is that of the last one. Says the hint in the third second in a row in
// which more than one frame in twenty was dropped, then once a minute.
void health_beat(struct health *health, const struct health_outputs *outputs, posed_State state,
                 double rate_hz);

#endif

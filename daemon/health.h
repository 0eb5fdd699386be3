// SPDX-License-Identifier: Apache-2.0
// What the daemon says of itself every second beside its messages: ROS diagnostics, a hint while
// frames are dropped, a line of progress on a terminal. The frame loop's; plain data, all zero to
// begin with.
#ifndef POSED_DAEMON_HEALTH_H
#define POSED_DAEMON_HEALTH_H

#include "daemon/epoch_link.h"
#include "daemon/log.h"
#include "daemon/ros/ros.h"
#include "daemon/shared_state.h"

// What to do against frames that are dropped.
#define HEALTH_TOO_SLOW                                                                        \
    "this machine is too slow or too busy for their rate: fewer tracker.iterations, the GPU, " \
    "or for a recording --speed max, which drops none"

#define HEALTH_FAULT_BEATS 2 // in which frames come and none has a pose

// Counted since the start.
struct health_frames {
    uint64_t n_captured, n_dropped, n_damaged;
    uint64_t n_tracked; // that the tracker was given, whatever came of them
};

struct health {
    struct health_frames last[HEALTH_FAULT_BEATS]; // at the last beats, the newest first
    uint32_t n_beats;                              // of them, that have been
    uint64_t n_searched;                           // frames since the last beat that a camera was
    int64_t search_ns;                             // looked for at, and how long
    uint32_t n_slow;                               // in a row with too many dropped frames
    uint32_t n_silent;                             // for which the hint is not repeated
    bool is_told;                                  // that none of the frames could be tracked
    uint32_t n_fault_silent;                       // for which that is not repeated
};

struct health_outputs {
    struct shared *shared;
    struct ros *ros;            // NULL: none
    uint32_t camera;            // its number there
    struct log *terminal;       // for the progress, NULL: none
    const struct log_sink *log; // for the hint
    const struct epoch_link *link;
};

// So much of the work on a frame was the search for a camera; 0: none was looked for.
void health_searched(struct health *health, int64_t search_ns);

// Each second. `rate_hz` is that of the last one. Says the hint in the third second in a row in
// which more than one frame in twenty was dropped, then once a minute: that this machine is too
// slow, or where a search took a quarter of the last second or more, that it is that. Where frames
// came in the last two seconds and none could be tracked, that is the camera's fault (shared_fault)
// until one is, and said at once and then once a minute.
void health_beat(struct health *health, const struct health_outputs *outputs, posed_State state,
                 double rate_hz);

// What diagnostics say in this state: `is_error` where no poses come, or it is lost.
void health_diagnose(const struct health_outputs *outputs, posed_State state, double rate_hz,
                     struct ros_health *out);

#endif

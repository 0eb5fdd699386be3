// SPDX-License-Identifier: Apache-2.0
// How far the machine's clock had been set with each frame of a source (capture_frame's
// clock_set_ns): what is kept of frames for long has even times, and is told with the times that
// the frames had. One thread.
#ifndef POSED_DAEMON_CLOCK_SETS_H
#define POSED_DAEMON_CLOCK_SETS_H

#include <stdint.h>

#define CLOCK_SETS_MAX 256 // changes that are known at once

// {0} at the beginning.
struct clock_sets {
    struct clock_set {
        uint64_t seq; // the first frame with it
        int64_t set_ns;
    } sets[CLOCK_SETS_MAX]; // in order
    uint32_t n;
};

// The next frame, seq ascending. Beyond CLOCK_SETS_MAX changes the oldest is forgotten.
void clock_sets_put(struct clock_sets *sets, uint64_t seq, int64_t set_ns);

// Of a frame that was put; what is known of the oldest where that has been forgotten.
int64_t clock_sets_at(const struct clock_sets *sets, uint64_t seq);

#endif

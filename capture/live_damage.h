// SPDX-License-Identifier: Apache-2.0
// Inside capture/ only: what is said of damaged frames of a live camera. A bad cable damages thirty
// a second: the first one is told of, then now and then how many there were meanwhile, and at the
// end the count.
#ifndef POSED_CAPTURE_LIVE_DAMAGE_H
#define POSED_CAPTURE_LIVE_DAMAGE_H

#include <stdint.h>

#include "proto/log.h"

#define LIVE_DAMAGE_QUIET_NS INT64_C(10000000000) // between two lines

struct live_damage { // begins as all zero, but for log and name
    struct log_sink log;
    const char *name; // of the source, which outlives it
    uint64_t n, n_told;
    int64_t told_ns;
};

// Frame number `index`, which came at now_ns (CLOCK_MONOTONIC), and what is wrong with it.
__attribute__((format(printf, 4, 5))) void live_damage_note(struct live_damage *damage,
                                                            int64_t now_ns, uint64_t index,
                                                            const char *format, ...);

// At the end: how many there were, where that were more than one.
void live_damage_end(const struct live_damage *damage);

#endif

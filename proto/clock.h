// SPDX-License-Identifier: Apache-2.0
// The clocks of the house, in nanoseconds. All but the client library, which stands alone
// (tools/client), read them here.
#ifndef POSED_PROTO_CLOCK_H
#define POSED_PROTO_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_read_ns(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline int64_t clock_monotonic_ns(void)
{
    return clock_read_ns(CLOCK_MONOTONIC);
}

static inline double clock_monotonic_ms(void)
{
    return (double)clock_monotonic_ns() * 1e-6;
}

static inline int64_t clock_wall_ns(void)
{
    return clock_read_ns(CLOCK_REALTIME);
}

// The same as the C library's functions want it, and ROS: the nanoseconds are from 0 on, also of
// what was before the clock began.
static inline struct timespec clock_timespec(int64_t time_ns)
{
    const int64_t ns = time_ns % 1000000000, below = ns < 0;
    return (struct timespec){time_ns / 1000000000 - below, ns + below * 1000000000};
}

// CLOCK_MONOTONIC from_now_ns from now: until when one of these functions waits.
static inline struct timespec clock_until(int64_t from_now_ns)
{
    return clock_timespec(clock_monotonic_ns() + from_now_ns);
}

// Milliseconds since *since_ns (CLOCK_MONOTONIC), which becomes now: the time of one stage after
// the other.
static inline float clock_lap_ms(int64_t *since_ns)
{
    const int64_t before_ns = *since_ns;
    *since_ns = clock_monotonic_ns();
    return (float)(*since_ns - before_ns) * 1e-6f;
}

#endif

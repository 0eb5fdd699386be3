// SPDX-License-Identifier: Apache-2.0
#include "gpu/base/yield.h"

#include <stdbool.h>
#include <time.h>

#include "proto/clock.h"

// A piece of work must be over when the frame comes. The next one begins when the frame is late by
// more than a camera's jitter.
#define MARGIN_NS  500000
#define LATE_NS    4000000
#define PAUSE_NS   200000
#define LONGEST_NS 50000000

void yield_frames_begin(struct yield_frames *frames)
{
    __atomic_store_n(&frames->begun_ns, clock_monotonic_ns(), __ATOMIC_SEQ_CST);
}

void yield_frames_end(struct yield_frames *frames, int64_t expected_ns)
{
    __atomic_store_n(&frames->expected_ns, expected_ns, __ATOMIC_SEQ_CST);
    __atomic_store_n(&frames->begun_ns, 0, __ATOMIC_SEQ_CST);
}

static bool frame_is_near(const struct yield_frames *frames, int64_t now_ns, int64_t piece_ns)
{
    int64_t expected_ns = __atomic_load_n(&frames->expected_ns, __ATOMIC_SEQ_CST);
    return __atomic_load_n(&frames->begun_ns, __ATOMIC_SEQ_CST) != 0 ||
           (now_ns > expected_ns - piece_ns - MARGIN_NS && now_ns < expected_ns + LATE_NS);
}

void yield_frames_wait(void *user, int64_t piece_ns)
{
    const struct yield_frames *frames = user;
    const struct timespec pause = {0, PAUSE_NS};
    int64_t now_ns = clock_monotonic_ns(), end_ns = now_ns + LONGEST_NS;
    while (now_ns < end_ns && frame_is_near(frames, now_ns, piece_ns)) {
        nanosleep(&pause, NULL);
        now_ns = clock_monotonic_ns();
    }
}

// SPDX-License-Identifier: Apache-2.0
#include "gpu/precedence.h"

#include <stdbool.h>
#include <time.h>

// A piece of work must be over when the frame comes. The next one begins when the frame is late by
// more than a camera's jitter.
#define MARGIN_NS  500000
#define LATE_NS    4000000
#define PAUSE_NS   200000
#define LONGEST_NS 50000000

static int64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void precedence_begin(struct precedence *precedence)
{
    precedence->begun_ns = monotonic_ns();
}

void precedence_end(struct precedence *precedence, int64_t expected_ns)
{
    precedence->expected_ns = expected_ns;
    precedence->begun_ns = 0;
}

static bool frame_is_near(const struct precedence *precedence, int64_t now_ns, int64_t piece_ns)
{
    int64_t expected_ns = precedence->expected_ns;
    return precedence->begun_ns != 0 ||
           (now_ns > expected_ns - piece_ns - MARGIN_NS && now_ns < expected_ns + LATE_NS);
}

void precedence_give_way(void *user, int64_t piece_ns)
{
    const struct precedence *precedence = user;
    const struct timespec pause = {0, PAUSE_NS};
    int64_t now_ns = monotonic_ns(), end_ns = now_ns + LONGEST_NS;
    while (now_ns < end_ns && frame_is_near(precedence, now_ns, piece_ns)) {
        nanosleep(&pause, NULL);
        now_ns = monotonic_ns();
    }
}

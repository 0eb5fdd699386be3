// SPDX-License-Identifier: Apache-2.0
// In front of the C library's clock: a wall that is set while the program runs. CLOCK_REALTIME
// is so many seconds and milliseconds further than the machine's. Linked into a test, or as a
// shared library preloaded into the daemon; FAKE_WALL then names a file of sizeof(struct
// fake_wall) bytes that is mapped.
#ifndef POSED_TESTS_FAKE_WALL_H
#define POSED_TESTS_FAKE_WALL_H

#include <stdatomic.h>

struct fake_wall {
    atomic_int set_s, set_ms;
};

extern struct fake_wall *fake_wall;

#endif

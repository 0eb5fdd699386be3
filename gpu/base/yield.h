// SPDX-License-Identifier: Apache-2.0
// Frames go before requests: registration and search share processor and GPU with a tracker that
// must not wait for them. The frame loop says when a frame is under way and when the next is
// expected (struct yield_frames); the threads of a request ask before each piece of work (struct
// yield) and stand still meanwhile. That is sooner than the scheduler would have it, and frees what
// is no processor: caches, memory, the GPU.
#ifndef POSED_GPU_BASE_YIELD_H
#define POSED_GPU_BASE_YIELD_H

#include <stdint.h>

#define YIELD_PIECE_NS      1000000 // work between two questions takes about so long
#define YIELD_LONG_PIECE_NS 5000000 // and where it cannot be cut: memory taken from a driver

// Each thread of the work calls wait before it goes on with a piece that takes about piece_ns; it
// returns when the piece may begin. No lock is held meanwhile. NULL: nobody is waited for.
struct yield {
    void (*wait)(void *user, int64_t piece_ns);
    void *user;
};

static inline void yield_now(const struct yield *yield)
{
    if (yield->wait)
        yield->wait(yield->user, YIELD_PIECE_NS);
}

// Before memory is taken from a device's driver or given back: that holds locks which a launch on
// another thread waits for, and what is given back waits for the device.
static inline void yield_long(const struct yield *yield)
{
    if (yield->wait)
        yield->wait(yield->user, YIELD_LONG_PIECE_NS);
}

// Shared by both sides through the functions below, atomically (not _Atomic: CUDA sources include
// this header as C++).
struct yield_frames {
    int64_t expected_ns; // CLOCK_MONOTONIC, 0 = nobody knows
    int64_t begun_ns;    // of the frame under way, 0 = none
};

// The loop's thread: a frame that was waited for begins; it is done, and the next one is expected
// (0 = at no known time). Frames that follow each other without a pause are not announced: requests
// would stand still for ever.
void yield_frames_begin(struct yield_frames *frames);
void yield_frames_end(struct yield_frames *frames, int64_t expected_ns);

// Any other thread; `user` is a struct yield_frames. Returns when no frame is under way or about to
// come within a piece of work's time, at the latest after 50 ms. The `wait` of a struct yield.
void yield_frames_wait(void *user, int64_t piece_ns);

#endif

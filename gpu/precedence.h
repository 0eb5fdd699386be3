// SPDX-License-Identifier: Apache-2.0
// Frames go before requests. The loop says when a frame is under way and when the next is expected;
// a request's threads (gpu/courtesy.h) stand still meanwhile. That is sooner than the scheduler
// would have it, and frees what is no processor: caches, memory, the GPU.
#ifndef POSED_GPU_PRECEDENCE_H
#define POSED_GPU_PRECEDENCE_H

#include <stdint.h>

struct precedence {
    _Atomic int64_t expected_ns; // CLOCK_MONOTONIC, 0 = nobody knows
    _Atomic int64_t begun_ns;    // of the frame under way, 0 = none
};

// The loop's thread: a frame that was waited for begins; it is done, and the next one is expected
// (0 = at no known time). Frames that follow each other without a pause are not announced: requests
// would stand still for ever.
void precedence_begin(struct precedence *precedence);
void precedence_end(struct precedence *precedence, int64_t expected_ns);

// Any other thread; `user` is a struct precedence. Returns when no frame is under way or about to
// come within a piece of work's time, at the latest after 50 ms.
void precedence_give_way(void *user, int64_t piece_ns);

#endif

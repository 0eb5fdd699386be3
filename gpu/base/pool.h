// SPDX-License-Identifier: Apache-2.0
// A fork-join pool for loops of a few hundred microseconds, several dozen a frame. Workers spin a
// little between loops and sleep between frames. Which thread runs which chunk is left to chance;
// the caller makes chunks independent of the number of threads, and so the results.
//
// Rejected: OpenMP. Its threads spin or sleep by an environment variable of the whole process, and
// ThreadSanitizer cannot see into its barriers.
#ifndef POSED_GPU_BASE_POOL_H
#define POSED_GPU_BASE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/base/yield.h"

struct pool;

// n_threads counts the caller; 0 = one per core this process may run on (affinity and control
// group). Returns 0, -ENOMEM or -EAGAIN (threads).
__attribute__((warn_unused_result)) int pool_create(struct pool **out, uint32_t n_threads);
void pool_destroy(struct pool **pool);
uint32_t pool_n_threads(const struct pool *pool);

// From the next pool_run on, the threads give way before each chunk. A chunk that takes longer than
// a millisecond calls pool_yield in between.
void pool_set_yield(struct pool *pool, const struct yield *yield);
void pool_yield(const struct pool *pool);

// From the next pool_run on, pool_stopped says what `stopped` does (NULL: nobody asks), which any
// of the threads calls. Loops that take long ask for it and leave the rest undone.
void pool_set_stop(struct pool *pool, bool (*stopped)(void *user), void *user);
bool pool_stopped(const struct pool *pool);

// Runs work(context, chunk) for every chunk in [0, n_chunks) and returns when all are done. One
// thread at a time calls it. n_chunks < 2^20.
void pool_run(struct pool *pool, void (*work)(void *context, uint32_t chunk), void *context,
              uint32_t n_chunks);

#endif

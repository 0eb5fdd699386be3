// SPDX-License-Identifier: Apache-2.0
// A loop over independent, uneven items on a pool: items are taken one by one. Each writes only its
// own output, so that the result does not depend on who took it.
#ifndef POSED_GPU_BASE_PARALLEL_H
#define POSED_GPU_BASE_PARALLEL_H

#include "gpu/base/pool.h"

// Calls body(user, item, thread) for item 0 .. n_items - 1 and returns when all are done.
// `thread` < pool_n_threads(pool) names per-thread memory.
void parallel_for(struct pool *pool, uint32_t n_items,
                  void (*body)(void *user, uint32_t item, uint32_t thread), void *user);

// One function for the instruction sets that matter, chosen when the program is loaded; plain
// where a sanitizer's runtime is not ready for that early. For static functions: what clang calls
// one from another file by is not there.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CPU_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CPU_CLONES
#endif

#endif

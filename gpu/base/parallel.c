// SPDX-License-Identifier: Apache-2.0
#include "gpu/base/parallel.h"

#include <stdatomic.h>

struct parallel_loop {
    void (*body)(void *user, uint32_t item, uint32_t thread);
    void *user;
    const struct pool *pool;
    uint32_t n_items;
    atomic_uint next;
};

static void work(void *context, uint32_t thread)
{
    struct parallel_loop *loop = context;
    uint32_t item;
    while ((item = atomic_fetch_add(&loop->next, 1)) < loop->n_items) {
        pool_yield(loop->pool);
        loop->body(loop->user, item, thread);
    }
}

void parallel_for(struct pool *pool, uint32_t n_items,
                  void (*body)(void *user, uint32_t item, uint32_t thread), void *user)
{
    struct parallel_loop loop = {.body = body, .user = user, .pool = pool, .n_items = n_items};
    uint32_t n_threads = pool_n_threads(pool);
    pool_run(pool, work, &loop, n_threads < n_items ? n_threads : n_items);
}

// SPDX-License-Identifier: Apache-2.0
#include "gpu/base/pool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

// One word holds the whole claim, so that a late worker can never take a chunk of a job that it did
// not mean: generation << 40 | number of chunks << 20 | next chunk.
#define TICKET_BITS 20
#define TICKET_MASK ((1u << TICKET_BITS) - 1)

// About 40 us: longer than the serial part between two loops, shorter than anybody's patience.
#define SPIN_ROUNDS 1500

struct pool {
    _Alignas(64) _Atomic uint64_t ticket;
    _Alignas(64) _Atomic uint32_t n_done;
    void (*work)(void *context, uint32_t chunk);
    void *context;
    struct yield yield;
    bool (*stopped)(void *user);
    void *stopped_user;

    pthread_mutex_t mutex;
    pthread_cond_t wake;
    _Atomic uint32_t n_sleeping;
    _Atomic bool stop;
    uint32_t n_workers;
    pthread_t *workers;
};

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

// Takes chunks of generation `generation` until none is left.
static void pool_drain(struct pool *pool, uint64_t generation)
{
    uint64_t ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
    for (;;) {
        uint32_t next = (uint32_t)ticket & TICKET_MASK;
        uint32_t n_chunks = (uint32_t)(ticket >> TICKET_BITS) & TICKET_MASK;
        if (ticket >> (2 * TICKET_BITS) != generation || next >= n_chunks)
            return;
        if (!atomic_compare_exchange_weak_explicit(&pool->ticket, &ticket, ticket + 1,
                                                   memory_order_acquire, memory_order_acquire))
            continue;
        yield_now(&pool->yield);
        pool->work(pool->context, next);
        atomic_fetch_add_explicit(&pool->n_done, 1, memory_order_release);
        ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
    }
}

static uint64_t pool_await(struct pool *pool, uint64_t seen)
{
    uint64_t generation = seen;
    for (int i = 0; i < SPIN_ROUNDS; i++) {
        generation = atomic_load_explicit(&pool->ticket, memory_order_acquire) >> (2 * TICKET_BITS);
        if (generation != seen)
            return generation;
        cpu_relax();
    }
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->n_sleeping, 1);
    while ((generation = atomic_load(&pool->ticket) >> (2 * TICKET_BITS)) == seen)
        pthread_cond_wait(&pool->wake, &pool->mutex);
    atomic_fetch_sub(&pool->n_sleeping, 1);
    pthread_mutex_unlock(&pool->mutex);
    return generation;
}

static void *pool_worker(void *argument)
{
    struct pool *pool = argument;
    uint64_t seen = 0;
    for (;;) {
        seen = pool_await(pool, seen);
        if (atomic_load(&pool->stop))
            return NULL;
        pool_drain(pool, seen);
    }
}

// Publishes a job (0 chunks: only wakes everybody) and returns its generation.
static uint64_t pool_publish(struct pool *pool, uint32_t n_chunks)
{
    uint64_t generation = (atomic_load(&pool->ticket) >> (2 * TICKET_BITS)) + 1;
    generation &= (1u << 24) - 1;
    atomic_store(&pool->ticket,
                 generation << (2 * TICKET_BITS) | (uint64_t)n_chunks << TICKET_BITS);
    if (atomic_load(&pool->n_sleeping) > 0) {
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->mutex);
    }
    return generation;
}

void pool_run(struct pool *pool, void (*work)(void *context, uint32_t chunk), void *context,
              uint32_t n_chunks)
{
    if (pool->n_workers == 0 || n_chunks < 2) {
        for (uint32_t i = 0; i < n_chunks; i++) {
            yield_now(&pool->yield);
            work(context, i);
        }
        return;
    }
    pool->work = work;
    pool->context = context;
    atomic_store_explicit(&pool->n_done, 0, memory_order_relaxed);
    pool_drain(pool, pool_publish(pool, n_chunks));
    for (int i = 0; atomic_load_explicit(&pool->n_done, memory_order_acquire) < n_chunks; i++) {
        if (i < SPIN_ROUNDS)
            cpu_relax();
        else
            sched_yield(); // more threads than cores: let the one that holds a chunk run
    }
}

// The processor time that the control group grants, in cores (docker --cpus, CPUQuota=): threads
// beyond it would spin away each other's share. UINT32_MAX without a limit.
static uint32_t granted_cores(void)
{
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    double quota_us, period_us;
    bool limited = file && fscanf(file, "%lf %lf", &quota_us, &period_us) == 2 && period_us > 0;
    if (file)
        fclose(file);
    double cores = limited ? quota_us / period_us : UINT32_MAX;
    return cores >= UINT32_MAX ? UINT32_MAX : cores < 1 ? 1 : (uint32_t)cores;
}

static uint32_t usable_cores(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    uint32_t cores = sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
    uint32_t granted = granted_cores();
    return granted < cores ? granted : cores;
}

int pool_create(struct pool **out, uint32_t n_threads)
{
    *out = NULL;
    if (n_threads == 0)
        n_threads = usable_cores();
    struct pool *pool = aligned_alloc(64, (sizeof *pool + 63) / 64 * 64);
    if (!pool)
        return -ENOMEM;
    *pool = (struct pool){.n_workers = 0};
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pool->workers = calloc(n_threads, sizeof *pool->workers);
    int rc = pool->workers ? 0 : -ENOMEM;
    for (uint32_t i = 1; rc == 0 && i < n_threads; i++) {
        rc = -pthread_create(&pool->workers[i - 1], NULL, pool_worker, pool);
        if (rc == 0)
            pool->n_workers++;
    }
    if (rc < 0) {
        pool_destroy(&pool);
        return rc;
    }
    *out = pool;
    return 0;
}

void pool_destroy(struct pool **pool)
{
    if (!pool || !*pool)
        return;
    struct pool *p = *pool;
    atomic_store(&p->stop, true);
    pool_publish(p, 0);
    for (uint32_t i = 0; i < p->n_workers; i++)
        pthread_join(p->workers[i], NULL);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->mutex);
    free(p->workers);
    free(p);
    *pool = NULL;
}

void pool_set_yield(struct pool *pool, const struct yield *yield)
{
    pool->yield = *yield;
}

void pool_yield(const struct pool *pool)
{
    yield_now(&pool->yield);
}

void pool_set_stop(struct pool *pool, bool (*stopped)(void *user), void *user)
{
    pool->stopped = stopped;
    pool->stopped_user = user;
}

bool pool_stopped(const struct pool *pool)
{
    return pool->stopped && pool->stopped(pool->stopped_user);
}

uint32_t pool_n_threads(const struct pool *pool)
{
    return pool->n_workers + 1;
}

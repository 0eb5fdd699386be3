// SPDX-License-Identifier: Apache-2.0
#include "capture/buffers.h"
#include "proto/clock.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

struct buffer_users {
    bool source;
    uint32_t n_keepers;
};

int buffers_create(struct buffers *out, size_t n, size_t n_kept, size_t frame_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n_all = n + n_kept;
    out->frame_bytes = frame_bytes;
    out->pitch_bytes = (frame_bytes + page - 1) / page * page;
    out->block = aligned_alloc(page, n_all * out->pitch_bytes);
    out->users = calloc(n_all, sizeof *out->users);
    out->free = calloc(n_all, sizeof *out->free);
    if (!out->block || !out->users || !out->free) {
        free(out->block);
        free(out->users);
        free(out->free);
        out->block = NULL;
        return -ENOMEM;
    }
    out->n_bytes = n_all * out->pitch_bytes;
    memset(out->block, 0, out->n_bytes); // page faults now, not while frames come
    pthread_mutex_init(&out->lock, NULL);
    out->n_left = n;
    out->n_keepable = n_kept;
    out->n_free = 0;
    while (out->n_free < n_all) {
        out->free[out->n_free] = (uint32_t)(n_all - 1 - out->n_free);
        out->n_free++;
    }
    return 0;
}

void buffers_destroy(struct buffers *buffers)
{
    if (!buffers->block)
        return;
    pthread_mutex_destroy(&buffers->lock);
    free(buffers->block);
    free(buffers->users);
    free(buffers->free);
    buffers->block = NULL;
    buffers->n_bytes = 0;
}

static uint32_t number_of(const struct buffers *buffers, const uint16_t *pixels)
{
    size_t offset = (size_t)((const char *)pixels - buffers->block);
    assert(offset < buffers->n_bytes && offset % buffers->pitch_bytes == 0);
    return (uint32_t)(offset / buffers->pitch_bytes);
}

// Lock held.
static void free_unused(struct buffers *buffers, uint32_t i)
{
    if (!buffers->users[i].source && buffers->users[i].n_keepers == 0)
        buffers->free[buffers->n_free++] = i;
}

uint16_t *buffers_take(struct buffers *buffers)
{
    char *pixels = NULL;
    pthread_mutex_lock(&buffers->lock);
    if (buffers->n_left > 0) { // then there is a free one
        uint32_t i = buffers->free[--buffers->n_free];
        buffers->n_left--;
        buffers->users[i].source = true;
        pixels = buffers->block + i * buffers->pitch_bytes;
    }
    pthread_mutex_unlock(&buffers->lock);
    return (uint16_t *)(void *)pixels;
}

void buffers_give(struct buffers *buffers, const uint16_t *pixels)
{
    if (!pixels)
        return;
    uint32_t i = number_of(buffers, pixels);
    pthread_mutex_lock(&buffers->lock);
    assert(buffers->users[i].source);
    buffers->users[i].source = false;
    buffers->n_left++;
    free_unused(buffers, i);
    pthread_mutex_unlock(&buffers->lock);
}

bool buffers_keep(struct buffers *buffers, const uint16_t *pixels)
{
    uint32_t i = number_of(buffers, pixels);
    pthread_mutex_lock(&buffers->lock);
    struct buffer_users *users = &buffers->users[i];
    bool kept = users->n_keepers > 0 || buffers->n_keepable > 0;
    assert(users->source || users->n_keepers > 0);
    if (kept) {
        buffers->n_keepable -= users->n_keepers == 0;
        users->n_keepers++;
    }
    pthread_mutex_unlock(&buffers->lock);
    return kept;
}

void buffers_release(struct buffers *buffers, const uint16_t *pixels)
{
    uint32_t i = number_of(buffers, pixels);
    pthread_mutex_lock(&buffers->lock);
    assert(buffers->users[i].n_keepers > 0);
    buffers->n_keepable += --buffers->users[i].n_keepers == 0;
    free_unused(buffers, i);
    pthread_mutex_unlock(&buffers->lock);
}

void buffers_written(struct buffers *buffers, const uint16_t *pixels)
{
    void (*written)(const void *pixels, size_t bytes) = atomic_load(&buffers->written);
    if (written)
        written(pixels, buffers->frame_bytes);
}

void buffers_tell(struct buffers *buffers, sem_t *wake, enum buffers_writing writing)
{
    if (!atomic_load(&buffers->polls))
        return;
    atomic_store(&buffers->writing, writing);
    sem_post(wake);
}

void buffers_set_hooks(struct buffers *buffers, const struct capture_hooks *hooks)
{
    buffers->hooks = hooks ? *hooks : (struct capture_hooks){0};
    atomic_store(&buffers->written, buffers->hooks.written);
    atomic_store(&buffers->polls, buffers->hooks.soon != NULL);
    atomic_store(&buffers->writing, BUFFERS_IDLE);
}

static bool has_passed(int64_t until_ns)
{
    return clock_monotonic_ns() >= until_ns;
}

void buffers_wait(sem_t *wake, int64_t until_ns, bool soon)
{
    const struct timespec until = clock_timespec(until_ns);
    if (soon) {
        while (sem_trywait(wake) != 0 && !has_passed(until_ns)) {
#if defined(__SSE2__)
            _mm_pause();
#endif
        }
    } else if (until_ns == INT64_MAX) {
        sem_wait(wake);
    } else {
        sem_clockwait(wake, CLOCK_MONOTONIC, &until);
    }
}

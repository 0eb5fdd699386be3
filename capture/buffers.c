// SPDX-License-Identifier: Apache-2.0
#include "capture/buffers.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

int buffers_create(struct buffers *out, size_t n, size_t frame_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t pitch = (frame_bytes + page - 1) / page * page;
    assert(n > 0 && n <= BUFFERS_MAX);
    out->block = aligned_alloc(page, n * pitch);
    if (!out->block)
        return -ENOMEM;
    memset(out->block, 0, n * pitch); // page faults now, not while frames come
    out->n_bytes = n * pitch;
    out->frame_bytes = frame_bytes;
    out->n_free = 0;
    for (size_t i = 0; i < n; i++)
        buffers_give(out, (uint16_t *)(void *)(out->block + i * pitch));
    return 0;
}

void buffers_destroy(struct buffers *buffers)
{
    free(buffers->block);
    buffers->block = NULL;
    buffers->n_bytes = buffers->n_free = 0;
}

uint16_t *buffers_take(struct buffers *buffers)
{
    return buffers->n_free > 0 ? buffers->free[--buffers->n_free] : NULL;
}

void buffers_give(struct buffers *buffers, uint16_t *pixels)
{
    if (pixels)
        buffers->free[buffers->n_free++] = pixels;
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
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec >= until_ns;
}

void buffers_wait(sem_t *wake, int64_t until_ns, bool soon)
{
    const struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
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

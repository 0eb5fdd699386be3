// SPDX-License-Identifier: Apache-2.0
#include "capture/buffers.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

int buffers_create(struct buffers *out, size_t n, size_t frame_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t pitch = (frame_bytes + page - 1) / page * page;
    assert(n > 0 && n <= BUFFERS_MAX);
    out->block = aligned_alloc(page, n * pitch);
    if (!out->block)
        return -ENOMEM;
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

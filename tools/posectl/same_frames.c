// SPDX-License-Identifier: Apache-2.0
#include "tools/posectl/same_frames.h"

#include <errno.h>
#include <stdlib.h>

#include "capture/io/unzip.h"

int same_frames_add(struct same_frames *frames, const uint16_t *depth, size_t n_pixels)
{
    if (frames->n == frames->room) {
        const size_t room = frames->room ? 2 * frames->room : 1024;
        uint32_t *grown = realloc(frames->sums, room * sizeof *grown);
        if (!grown)
            return -ENOMEM;
        frames->sums = grown;
        frames->room = room;
    }
    frames->sums[frames->n++] = unzip_crc32(depth, n_pixels * sizeof *depth);
    return 0;
}

static int compare(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

void same_frames_end(struct same_frames *frames)
{
    if (frames->n > 0)
        qsort(frames->sums, frames->n, sizeof *frames->sums, compare);
}

size_t same_frames_count(const struct same_frames *a, const struct same_frames *b)
{
    size_t n = 0;
    for (size_t i = 0; i < a->n && b->n > 0; i++)
        n += bsearch(&a->sums[i], b->sums, b->n, sizeof *b->sums, compare) != NULL;
    return n;
}

void same_frames_free(struct same_frames *frames)
{
    free(frames->sums);
    *frames = (struct same_frames){0};
}

// SPDX-License-Identifier: Apache-2.0
#include "capture/io/chunk_places.h"

#include <errno.h>
#include <stdlib.h>

int chunk_places_add(struct chunk_places *places, uint64_t offset)
{
    if (places->n == places->capacity) {
        const size_t more = 2 * places->capacity + 256;
        uint64_t *grown = realloc(places->offsets, more * sizeof *grown);
        if (!grown)
            return -ENOMEM;
        places->offsets = grown;
        places->capacity = more;
    }
    places->offsets[places->n++] = offset;
    return 0;
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

bool chunk_places_finish(struct chunk_places *places, uint64_t begin, uint64_t end)
{
    bool is_good = places->n > 0;
    if (is_good)
        qsort(places->offsets, places->n, sizeof *places->offsets, compare);
    for (size_t i = 0; is_good && i < places->n; i++)
        is_good = places->offsets[i] >= begin && places->offsets[i] < end &&
                  (i == 0 || places->offsets[i] != places->offsets[i - 1]);
    if (is_good)
        places->end = end;
    else
        chunk_places_free(places);
    return is_good;
}

void chunk_places_free(struct chunk_places *places)
{
    free(places->offsets);
    *places = (struct chunk_places){0};
}

// The number of the first one at `offset` or beyond.
static size_t first_from(const struct chunk_places *places, uint64_t offset)
{
    size_t from = 0, to = places->n;
    while (from < to) {
        const size_t middle = from + (to - from) / 2;
        if (places->offsets[middle] < offset)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

bool chunk_places_has(const struct chunk_places *places, uint64_t offset)
{
    const size_t i = first_from(places, offset);
    return i < places->n && places->offsets[i] == offset;
}

uint64_t chunk_places_after(const struct chunk_places *places, uint64_t offset)
{
    if (offset >= places->end)
        return UINT64_MAX;
    const size_t i = first_from(places, offset + 1);
    return i < places->n ? places->offsets[i] : places->end;
}

// SPDX-License-Identifier: Apache-2.0
#include "capture/mcap/index_order.h"

#include <stdlib.h>

static int compare_frames(const void *a, const void *b)
{
    const struct mcap_frame *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    if (x->chunk != y->chunk)
        return x->chunk < y->chunk ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static int compare_offsets(const void *a, const void *b)
{
    const struct mcap_frame *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

struct stamp_order mcap_order_as_written(struct mcap_index *index)
{
    struct stamp_order order = {0};
    for (size_t i = 0, n; i < index->n_frames; i += n) {
        for (n = 1;
             i + n < index->n_frames && index->frames[i + n].chunk == index->frames[i].chunk;)
            n++;
        qsort(index->frames + i, n, sizeof *index->frames, compare_offsets);
        for (size_t k = i; k < i + n; k++)
            stamp_order_add(&order, index->frames[k].time_ns);
    }
    return order;
}

void mcap_put_in_order(struct mcap_index *index)
{
    size_t n_kept = 0;
    if (index->n_frames)
        qsort(index->frames, index->n_frames, sizeof *index->frames, compare_frames);
    for (size_t i = 0; i < index->n_frames; i++)
        if (i == 0 || index->frames[i].time_ns != index->frames[n_kept - 1].time_ns)
            index->frames[n_kept++] = index->frames[i];
    index->n_skipped += index->n_frames - n_kept;
    index->n_frames = n_kept;
}

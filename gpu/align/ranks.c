// SPDX-License-Identifier: Apache-2.0
#include "gpu/align/ranks.h"

#include <string.h>

static void keep(void *data, size_t n_bytes, uint32_t from)
{
    (void)data;
    (void)n_bytes;
    (void)from;
}

static void copy(const void *data, size_t n_bytes, void *out, const size_t *all_bytes)
{
    (void)all_bytes;
    if (n_bytes)
        memcpy(out, data, n_bytes);
}

void align_ranks_one(struct align_ranks *out)
{
    *out = (struct align_ranks){.id = 0, .n = 1, .local_id = 0, .n_local = 1, keep, copy};
}

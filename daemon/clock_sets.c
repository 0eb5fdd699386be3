// SPDX-License-Identifier: Apache-2.0
#include "daemon/clock_sets.h"

#include <string.h>

void clock_sets_put(struct clock_sets *sets, uint64_t seq, int64_t set_ns)
{
    const int64_t newest_ns = sets->n > 0 ? sets->sets[sets->n - 1].set_ns : 0;
    if (set_ns == newest_ns)
        return;
    if (sets->n == CLOCK_SETS_MAX) {
        memmove(sets->sets, sets->sets + 1, (CLOCK_SETS_MAX - 1) * sizeof sets->sets[0]);
        sets->n--;
        sets->sets[0].seq = 0; // of the frames before, too, as far as is known
    }
    sets->sets[sets->n++] = (struct clock_set){seq, set_ns};
}

int64_t clock_sets_at(const struct clock_sets *sets, uint64_t seq)
{
    for (uint32_t i = sets->n; i-- > 0;)
        if (sets->sets[i].seq <= seq)
            return sets->sets[i].set_ns;
    return 0;
}

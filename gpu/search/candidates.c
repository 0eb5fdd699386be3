// SPDX-License-Identifier: Apache-2.0
// Lists of candidates: the best one, and those that are different poses.
#include <string.h>

#include "gpu/search/context.h"

// Equal scores do happen: they are made of counts.
uint32_t search_best(const struct search_candidate *c, uint32_t n, uint32_t from)
{
    uint32_t best = from;
    for (uint32_t i = from + 1; i < n; i++)
        best = c[i].score > c[best].score ? i : best;
    return best;
}

uint32_t search_keep_one(const struct search_rotations *rotations,
                         const struct search_nearness *nearness, struct search_candidate *c,
                         uint32_t n, uint32_t place, uint32_t which)
{
    const struct search_candidate kept = c[which];
    uint32_t n_left = place + 1;
    memmove(c + place + 1, c + place, (which - place) * sizeof *c);
    c[place] = kept;
    for (uint32_t i = place + 1; i < n; i++)
        if (!search_same_pose(rotations, nearness, &c[i], &kept))
            c[n_left++] = c[i];
    return n_left;
}

// The best one is kept, all that are the same pose are dropped, and so on.
uint32_t search_keep_distinct(const struct search_object *object,
                              const struct search_nearness *nearness, struct search_candidate *c,
                              uint32_t n, uint32_t n_most, float behind)
{
    struct search_rotations rotations;
    search_rotations_of(&object->info, &rotations);
    uint32_t n_kept = 0;
    for (; n_kept < n_most && n_kept < n; n_kept++) {
        const uint32_t best = search_best(c, n, n_kept);
        if (n_kept > 0 && c[best].score < c[0].score - behind)
            break;
        n = search_keep_one(&rotations, nearness, c, n, n_kept, best);
    }
    return n_kept;
}

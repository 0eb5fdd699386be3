// SPDX-License-Identifier: Apache-2.0
#include "gpu/search/instances.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/search/host.h"

static uint8_t *copy_mask(const struct search_image *image)
{
    const size_t n = (size_t)image->frame.width_px * image->frame.height_px;
    uint8_t *mask = malloc(n);
    if (mask && image->mask)
        memcpy(mask, image->mask, n);
    else if (mask)
        memset(mask, 1, n);
    return mask;
}

// The best answer that is accepted, or n_poses.
static uint32_t first_accepted(const struct search_answer *answer)
{
    uint32_t i = 0;
    while (i < answer->n_poses && !answer->poses[i].accepted)
        i++;
    return i;
}

static void add_work(const struct search_answer *from, struct search_answer *to)
{
    to->n_starts += from->n_starts;
    to->n_compared += from->n_compared;
    for (int s = 0; s < SEARCH_N_STAGES; s++)
        to->stage_ms[s] += from->stage_ms[s];
}

int search_run_instances(struct search *search, const struct search_object *object,
                         const struct search_image *image, const struct search_query *query,
                         struct search_answer *out, char *out_field)
{
    struct search_answer *found = calloc(1, sizeof *found);
    struct search_image left = *image;
    uint8_t *mask = NULL;
    int err = found ? 0 : -ENOMEM;
    while (!err && out->n_poses < query->top) {
        memset(found, 0, sizeof *found);
        if (mask && pool_stopped(search->pool)) { // the first one was asked for
            err = -ECANCELED;
            break;
        }
        err = search_run_default(search, object, &left, query, found, out_field);
        if (err == -ENODATA && mask) { // nothing is left of the image
            err = 0;
            break;
        }
        add_work(found, out);
        const uint32_t best = first_accepted(found);
        if (err || best == found->n_poses)
            break;
        out->poses[out->n_poses++] = found->poses[best];
        if (out->n_poses == query->top)
            break;
        mask = mask ? mask : copy_mask(image);
        left.mask = mask;
        err = mask ? search_take_out(search, object, image, &out->poses[out->n_poses - 1], mask)
                   : -ENOMEM;
        found->n_poses = 0;
    }
    for (uint32_t i = 0; !err && i < found->n_poses && out->n_poses < query->top; i++)
        out->poses[out->n_poses++] = found->poses[i];
    free(mask);
    free(found);
    return err;
}

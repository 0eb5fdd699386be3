// SPDX-License-Identifier: Apache-2.0
// The default search on the host, up to the polished candidates: what a backend that has ops.find
// does on its device, to the bit.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/cpu/parallel.h"
#include "gpu/kernels/search_icp.h"
#include "gpu/search_device.h"
#include "gpu/search_start.h"

struct refine_job {
    struct search *search;
    const struct search_scene *scene;
    const struct search_object *object;
    struct search_candidate *candidates;
    uint32_t n_rounds;
};

static void refine_points(void *user, uint32_t item, uint32_t thread)
{
    (void)thread;
    struct refine_job *job = user;
    if (!pool_stopped(job->search->pool))
        search_refine_points(job->scene, job->object, &job->candidates[item]);
}

static void refine_drawn(void *user, uint32_t item, uint32_t thread)
{
    struct refine_job *job = user;
    if (!pool_stopped(job->search->pool))
        search_refine_drawn(job->scene, job->object, &job->candidates[item], job->n_rounds,
                            &job->search->drawings[thread]);
}

void search_refine_all_points(struct search *search, const struct search_scene *scene,
                              const struct search_object *object,
                              struct search_candidate *candidates, uint32_t n)
{
    struct refine_job job = {search, scene, object, candidates, 0};
    parallel_for(search->pool, n, refine_points, &job);
}

void search_refine_all_drawn(struct search *search, const struct search_scene *scene,
                             const struct search_object *object,
                             struct search_candidate *candidates, uint32_t n, uint32_t n_rounds)
{
    struct refine_job job = {search, scene, object, candidates, n_rounds};
    parallel_for(search->pool, n, refine_drawn, &job);
}

// Equal scores do happen: they are made of counts.
uint32_t search_best(const struct search_candidate *c, uint32_t n, uint32_t from)
{
    uint32_t best = from;
    for (uint32_t i = from + 1; i < n; i++)
        best = c[i].score > c[best].score ? i : best;
    return best;
}

uint32_t search_keep_one(const struct search_turns *turns, const struct search_nearness *nearness,
                         struct search_candidate *c, uint32_t n, uint32_t place, uint32_t which)
{
    const struct search_candidate kept = c[which];
    uint32_t n_left = place + 1;
    memmove(c + place + 1, c + place, (which - place) * sizeof *c);
    c[place] = kept;
    for (uint32_t i = place + 1; i < n; i++)
        if (!search_same_pose(turns, nearness, &c[i], &kept))
            c[n_left++] = c[i];
    return n_left;
}

// The best one is kept, all that are the same pose are dropped, and so on.
uint32_t search_keep_distinct(const struct search_object *object,
                              const struct search_nearness *nearness, struct search_candidate *c,
                              uint32_t n, uint32_t n_most)
{
    struct search_turns turns;
    search_turns_of(&object->info, &turns);
    uint32_t n_kept = 0;
    for (; n_kept < n_most && n_kept < n; n_kept++)
        n = search_keep_one(&turns, nearness, c, n, n_kept, search_best(c, n, n_kept));
    return n_kept;
}

static void from_hit(const struct search_object *object, const struct search_frame *frames,
                     const struct search_hit *hit, struct search_candidate *out)
{
    const struct search_coarse *map = &object->coarse[hit->view];
    const uint32_t a = hit->anchor;
    search_from_hit(&frames[hit->start], object->views[hit->view].rotation, map->anchor_u[a],
                    map->anchor_v[a], map->anchor_z[a], out);
    out->view = hit->view;
}

int search_find_on_host(struct search *search, const struct search_object *object,
                        const struct search_scene *scene, uint32_t n_polished,
                        struct search_found *out)
{
    struct timespec clock;
    clock_gettime(CLOCK_MONOTONIC, &clock);
    struct search_frame *frames = malloc(SEARCH_STARTS_MAX * sizeof *frames);
    struct search_hit *hits = malloc(SEARCH_HITS_MAX * sizeof *hits);
    struct search_candidate *candidates = malloc(SEARCH_HITS_MAX * sizeof *candidates);
    const struct search_nearness nearness = search_nearness_to_draw(object->info.radius_m);
    int err = frames && hits && candidates ? 0 : -ENOMEM;
    if (err)
        goto out;
    out->n_starts = search_starts(search->z_m, search->normal_z, &scene->camera, object, frames);
    out->stage_ms[SEARCH_STAGE_PREPARE] = search_elapsed_ms(&clock);

    const uint32_t keep = search_keep_per_start(out->n_starts);
    err = search->ops->scan(search->device, object, frames, out->n_starts, keep, hits);
    if (err)
        goto out;
    err = pool_stopped(search->pool) ? -ECANCELED : 0;
    if (err)
        goto out;
    uint32_t n = 0;
    for (uint32_t i = 0; i < out->n_starts * keep; i++)
        if (hits[i].score > INT32_MIN)
            from_hit(object, frames, &hits[i], &candidates[n++]);
    out->stage_ms[SEARCH_STAGE_COARSE] = search_elapsed_ms(&clock);

    search_refine_all_points(search, scene, object, candidates, n);
    uint32_t n_left = 0;
    for (uint32_t i = 0; i < n; i++)
        if (candidates[i].score > SEARCH_GIVEN_UP)
            candidates[n_left++] = candidates[i];
    n = search_keep_distinct(object, &nearness, candidates, n_left, SEARCH_SCREENED);
    out->stage_ms[SEARCH_STAGE_FIT] = search_elapsed_ms(&clock);

    search_refine_all_drawn(search, scene, object, candidates, n, 0);
    n = search_keep_distinct(object, &nearness, candidates, n, n_polished + SEARCH_DRAWN_MORE);
    search_refine_all_drawn(search, scene, object, candidates, n, SEARCH_DRAWN_ROUNDS);
    n = search_keep_distinct(object, &nearness, candidates, n, n_polished);
    search_refine_all_drawn(search, scene, object, candidates, n, SEARCH_POLISHED_ROUNDS);
    const uint32_t n_turned = n > 0 ? object->alikes.n : 0;
    const uint32_t best = search_best(candidates, n, 0);
    for (uint32_t i = 0; i < n_turned; i++)
        search_alike_pose(&object->alikes.of[i], &candidates[best], &candidates[n + i]);
    search_refine_all_drawn(search, scene, object, candidates + n, n_turned, SEARCH_TURNED_ROUNDS);
    n += n_turned;
    err = pool_stopped(search->pool) ? -ECANCELED : 0;
    if (err)
        goto out;
    out->n = n;
    memcpy(out->candidates, candidates, n * sizeof *candidates);
    out->stage_ms[SEARCH_STAGE_REFINE] = search_elapsed_ms(&clock);
out:
    free(frames);
    free(hits);
    free(candidates);
    return err;
}

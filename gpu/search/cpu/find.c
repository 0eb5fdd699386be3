// SPDX-License-Identifier: Apache-2.0
// The default search up to the polished candidates, on the CPU: the same bits as the CUDA twin's.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/search/cpu/device.h"
#include "gpu/search/cpu/start_points.h"
#include "gpu/search/host.h"
#include "gpu/search/kernels/icp.h"

static void from_hit(const struct search_object *object, const struct search_frame *frames,
                     const struct search_hit *hit, struct search_candidate *out)
{
    const struct search_coarse *map = &object->coarse[hit->view];
    const uint32_t a = hit->anchor;
    search_from_hit(&frames[hit->start], object->views[hit->view].rotation, map->anchor_u[a],
                    map->anchor_v[a], map->anchor_z[a], out);
    out->view = hit->view;
}

static int find_prepared(struct search *search, const struct search_object *object,
                         const struct search_scene *scene, uint32_t n_polished,
                         struct search_found *out)
{
    int64_t clock_ns = clock_monotonic_ns();
    struct search_frame *frames = malloc(SEARCH_STARTS_MAX * sizeof *frames);
    struct search_hit *hits = malloc(SEARCH_HITS_MAX * sizeof *hits);
    struct search_candidate *candidates = malloc(SEARCH_HITS_MAX * sizeof *candidates);
    const struct search_nearness nearness = search_nearness_to_draw(object->info.radius_m);
    int err = frames && hits && candidates ? 0 : -ENOMEM;
    if (err)
        goto out;
    out->n_starts = search_starts(search->z_m, search->normal_z, &scene->camera, object, frames);
    out->stage_ms[SEARCH_STAGE_PREPARE] += clock_lap_ms(&clock_ns);

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
    out->stage_ms[SEARCH_STAGE_COARSE] = clock_lap_ms(&clock_ns);

    search_refine_all_points(search, scene, object, candidates, n);
    uint32_t n_left = 0;
    for (uint32_t i = 0; i < n; i++)
        if (candidates[i].score > SEARCH_GIVEN_UP)
            candidates[n_left++] = candidates[i];
    n = search_keep_distinct(object, &nearness, candidates, n_left, SEARCH_SCREENED,
                             SEARCH_SCREENED_BEHIND);
    out->stage_ms[SEARCH_STAGE_FIT] = clock_lap_ms(&clock_ns);

    search_refine_all_drawn(search, scene, object, candidates, n, 0, NULL);
    n = search_keep_distinct(object, &nearness, candidates, n, n_polished + SEARCH_DRAWN_MORE,
                             INFINITY);
    search_refine_all_drawn(search, scene, object, candidates, n, SEARCH_DRAWN_ROUNDS, NULL);
    n = search_keep_distinct(object, &nearness, candidates, n, n_polished, INFINITY);
    struct search_slides slides[SEARCH_POLISHED_MAX];
    search_refine_all_drawn(search, scene, object, candidates, n, SEARCH_POLISHED_ROUNDS, slides);
    const uint32_t n_slid = search_slide_best(object, candidates, slides, n,
                                              n_polished - SEARCH_NOT_SLID, candidates + n);
    search_refine_all_drawn(search, scene, object, candidates + n, n_slid, 0, NULL);
    out->n_polished = n;
    out->n_slid = n_slid;
    n += n_slid;
    const uint32_t n_turned = n > 0 ? object->near_symmetries.n : 0;
    const uint32_t best = search_best(candidates, n, 0);
    for (uint32_t i = 0; i < n_turned; i++)
        search_near_symmetry_pose(&object->near_symmetries.of[i], &candidates[best],
                                  &candidates[n + i]);
    search_refine_all_drawn(search, scene, object, candidates + n, n_turned, SEARCH_TURNED_ROUNDS,
                            NULL);
    n += n_turned;
    err = pool_stopped(search->pool) ? -ECANCELED : 0;
    if (err)
        goto out;
    out->n = n;
    memcpy(out->candidates, candidates, n * sizeof *candidates);
    out->stage_ms[SEARCH_STAGE_REFINE] = clock_lap_ms(&clock_ns);
out:
    free(frames);
    free(hits);
    free(candidates);
    return err;
}

int search_cpu_find(struct search *search, const struct search_object *object,
                    const struct search_image *image, uint32_t n_polished, struct search_found *out)
{
    int64_t clock_ns = clock_monotonic_ns();
    struct search_scene scene;
    int err = search_prepare(search, image, object, &scene);
    if (err)
        return err == -ENODATA ? 0 : err;
    out->n_valid = 1;
    err = search_ensure_drawings(search, object, image->frame.width_px * image->frame.height_px);
    out->stage_ms[SEARCH_STAGE_PREPARE] = clock_lap_ms(&clock_ns);
    err = err ? err : find_prepared(search, object, &scene, n_polished, out);
    if (!err)
        search_find_supports(image, object->info.radius_m, &out->supports);
    return err;
}

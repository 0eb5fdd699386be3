// SPDX-License-Identifier: Apache-2.0
// The paper's search (Germann et al. 2007): one start point, one simplex for each view, the
// smallest error wins.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/search/confidence.h"
#include "gpu/search/host.h"
#include "gpu/search/kernels/germann_error.h"
#include "gpu/search/kernels/icp.h"

// The views worth fitting when not all of them are: the children of the seeds that the coarse pass
// likes best at this start point. Returns their number or a negative errno.
static long choose_views(struct search *search, const struct search_object *object,
                         const struct search_frame *frame, uint32_t n_wanted, uint32_t *out)
{
    enum { KEEP_MAX = 256 };
    struct search_hit hits[KEEP_MAX];
    uint32_t n = 0, keep = (uint32_t)((uint64_t)n_wanted * object->n_seeds / object->n_views);
    keep = keep < 8 ? 8 : keep < KEEP_MAX ? keep : KEEP_MAX;
    keep = keep < object->n_seeds ? keep : object->n_seeds;
    int err = search->ops->scan(search->device, object, frame, 1, keep, hits);
    if (err)
        return err;
    for (uint32_t k = 0; k < keep && hits[k].score > INT32_MIN; k++) {
        uint32_t seed = 0; // of the view; seeds are few and this is once a request
        while (object->seeds[seed] != hits[k].view)
            seed++;
        for (uint32_t i = object->child_first[seed]; i < object->child_first[seed + 1]; i++)
            out[n++] = object->children[i];
    }
    return n;
}

// The paper's winner is right in two cases of three, and near it in error when it is not.
#define VIEWS_REFINED  16
#define VIEWS_POLISHED 12
_Static_assert(VIEWS_REFINED >= SEARCH_TOP_MAX, "the bare views that may be wanted");

// What the paper's section 7 proposes: rendering and fitting, from the best views on. Returns how
// many distinct poses there are, best first; at least one.
static uint32_t refine_views(struct search *search, const struct search_object *object,
                             const struct search_scene *scene, struct search_candidate *c,
                             uint32_t n)
{
    const struct search_nearness to_draw = search_nearness_to_draw(object->info.radius_m);
    const struct search_nearness of_answers = search_nearness_of_answers(object->info.radius_m);
    const struct search_candidate best = c[0];
    search_refine_all_points(search, scene, object, c, n);
    n = search_keep_distinct(object, &to_draw, c, n, VIEWS_POLISHED, INFINITY);
    while (n > 0 && c[n - 1].score <= SEARCH_GIVEN_UP)
        n--;
    if (n == 0)
        c[n++] = best;
    search_refine_all_drawn(search, scene, object, c, n, SEARCH_POLISHED_ROUNDS, NULL);
    return search_keep_distinct(object, &of_answers, c, n, n, INFINITY);
}

static int run_views(struct search *search, const struct search_object *object,
                     const struct search_scene *scene, const struct search_query *query,
                     struct search_answer *out)
{
    int64_t clock_ns = clock_monotonic_ns();
    struct search_frame frame;
    int err = search_start_nearest(search->z_m, &scene->camera, object->info.map_px_m, &frame);
    if (err)
        return err;
    out->n_starts = 1;
    out->stage_ms[SEARCH_STAGE_PREPARE] += clock_lap_ms(&clock_ns);
    long n = object->n_views;
    uint32_t *views = query->n_coarse ? malloc((size_t)n * sizeof *views) : NULL;
    err = views || !query->n_coarse ? 0 : -ENOMEM;
    if (!err && views) {
        n = choose_views(search, object, &frame, query->n_coarse, views);
        err = n < 0 ? (int)n : 0;
        out->stage_ms[SEARCH_STAGE_COARSE] = clock_lap_ms(&clock_ns);
    }
    uint32_t best[VIEWS_REFINED], n_best = query->refine ? VIEWS_REFINED : query->top;
    n_best = !err && n < n_best ? (uint32_t)n : n_best;
    struct search_fit fits[VIEWS_REFINED];
    struct search_candidate bare[VIEWS_REFINED], refined[VIEWS_REFINED];
    if (!err)
        err = search->ops->fit_best(search->device, object, &frame, views, (uint32_t)n,
                                    query->n_iterations, n_best, best, fits);
    n_best = err ? 0 : n_best;
    out->stage_ms[SEARCH_STAGE_FIT] = clock_lap_ms(&clock_ns);
    for (uint32_t k = 0; k < n_best; k++) {
        uint32_t view = views ? views[best[k]] : best[k];
        const float half = SEARCH_WINDOW_PX / 2;
        search_from_frame(&frame, object->views[view].rotation,
                          (float)search_shift(fits[k].x) + SEARCH_CENTRE_PX - half,
                          (float)search_shift(fits[k].y) + SEARCH_CENTRE_PX - half, fits[k].z,
                          &bare[k]);
        bare[k].view = view;
    }
    // cppcheck-suppress uninitvar; n_best of them are
    memcpy(refined, bare, n_best * sizeof *bare);
    const uint32_t n_refined =
        query->refine && n_best ? refine_views(search, object, scene, refined, n_best) : 0;
    if (!err && pool_stopped(search->pool)) {
        err = -ECANCELED;
        n_best = 0;
    }
    for (uint32_t k = 0; k < query->top && k < n_best && (k < n_refined || !query->refine); k++) {
        struct search_pose *pose = &out->poses[out->n_poses++];
        if (!query->refine) // scored, for its confidence
            search_score_drawing(search, scene, object, &refined[k]);
        search_report(object, &refined[k],
                      query->refine ? search_rival(object, refined, n_refined, k) : SEARCH_NO_RIVAL,
                      query->threshold, 1, pose);
        pose->T_camera_view = search_pose_outward(object, &bare[k]);
        // cppcheck-suppress uninitvar; fit_best filled n_best of them
        pose->error_px = fits[k].error_px;
        pose->view = bare[k].view;
    }
    out->stage_ms[SEARCH_STAGE_REFINE] = clock_lap_ms(&clock_ns);
    out->n_compared = (uint64_t)(n > 0 ? n : 0) * query->n_iterations;
    free(views);
    return err;
}

int search_run_germann(struct search *search, const struct search_object *object,
                       const struct search_image *image, const struct search_query *query,
                       struct search_answer *out, char *out_field)
{
    int64_t clock_ns = clock_monotonic_ns();
    struct search_scene scene;
    int err = search_check_image(search, image, out_field);
    err = err ? err : search_prepare(search, image, NULL, &scene);
    if (err == -ENODATA)
        return search_refuse_empty(search, out_field);
    if (!err)
        err =
            search_ensure_drawings(search, object, image->frame.width_px * image->frame.height_px);
    if (err)
        return err;
    out->stage_ms[SEARCH_STAGE_PREPARE] = clock_lap_ms(&clock_ns);
    return run_views(search, object, &scene, query, out);
}

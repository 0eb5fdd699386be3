// SPDX-License-Identifier: Apache-2.0
// The default search: start points all over the image, a coarse pass over all views, refinement of
// what it finds (ops.find), and the last choice.
#include "gpu/search/confidence.h"
#include "gpu/search/image_reduction.h"

int search_run_default(struct search *search, const struct search_object *object,
                       const struct search_image *image, const struct search_query *query,
                       struct search_answer *out, char *out_field)
{
    int64_t clock_ns = clock_monotonic_ns();
    struct search_found found = {0};
    struct search_image searched;
    const uint32_t n_polished = query->top + SEARCH_POLISHED - 1;
    int err = search_check_image(search, image, out_field);
    err = err ? err : search_reduce_image(search, image, &searched);
    out->stage_ms[SEARCH_STAGE_PREPARE] += clock_lap_ms(&clock_ns);
    err = err ? err : search->ops->find(search, object, &searched, n_polished, &found);
    if (!err && found.n_valid == 0)
        err = search_refuse_empty(search, out_field);
    if (err)
        return err;
    for (int s = 0; s < SEARCH_N_STAGES; s++)
        out->stage_ms[s] += found.stage_ms[s];
    out->n_starts = found.n_starts;
    // As measured, two anchors in five face as the surface does.
    out->n_compared = (uint64_t)out->n_starts * object->n_seeds * SEARCH_ANCHORS * 2 / 5;
    clock_ns = clock_monotonic_ns();
    for (uint32_t i = 0; i < found.n; i++)
        if (i < found.n_polished || i >= found.n_polished + found.n_slid)
            found.candidates[i].sure = found.candidates[i].score;
    search_add_support(&found.supports, object, &searched, found.candidates, found.n);
    uint32_t n = search_keep_answers(object, found.candidates, found.n, query->top);
    for (uint32_t i = 0; i < n && i < query->top; i++)
        search_report(object, &found.candidates[i], search_rival(object, found.candidates, n, i),
                      query->threshold, search_reduction(&image->camera),
                      &out->poses[out->n_poses++]);
    out->stage_ms[SEARCH_STAGE_REFINE] += clock_lap_ms(&clock_ns);
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/search_choices.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/search/cpu/refine_points.h"
#include "gpu/search/cpu/start_points.h"
#include "gpu/search/host.h"
#include "gpu/search/image_reduction.h"
#include "gpu/search/kernels/icp.h"
#include "proto/se3.h"

#define N_ASKED         400 // of a scene's hypotheses are scored loosely, the coarse pass' best,
#define N_RANDOM        200 // and as many others
#define N_POINTS        600 // of those that settled are scored by their points
#define WEIGHT_SCREENED 0.5 // of what is drawn where it is, beside what is polished

void search_choices_begin(struct search_choices *f, uint32_t group, uint64_t random)
{
    *f = (struct search_choices){.group = group, .random = random};
    for (int i = 0; i < SEARCH_N_SCORES; i++)
        f->scores[i].n_features = SEARCH_N_FEATURES;
}

void search_choices_end(struct search_choices *f)
{
    for (int i = 0; i < SEARCH_N_SCORES; i++)
        fit_free(&f->scores[i]);
}

int search_choices_append(struct search_choices *f, const struct search_choices *more)
{
    int err = 0;
    for (int i = 0; i < SEARCH_N_SCORES && !err; i++)
        err = fit_append(&f->scores[i], &more->scores[i]);
    return err;
}

static uint32_t next_random(struct search_choices *f)
{
    f->random = f->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(f->random >> 33);
}

// ADD-S of a candidate as a share of the object's diameter; what is far away is not measured.
static double add_share(const struct search_choices *f, const struct search_candidate *c,
                        const struct se3 *T_truth)
{
    double turned[3], centre[3], off2 = 0;
    struct search_object_info info;
    struct se3 T;
    if (!T_truth)
        return 1;
    search_object_describe(f->object, &info);
    for (int i = 0; i < 9; i++)
        T.r[i] = (double)c->rotation[i];
    for (int i = 0; i < 3; i++)
        turned[i] = T.r[3 * i] * info.centre_m[0] + T.r[3 * i + 1] * info.centre_m[1] +
                    T.r[3 * i + 2] * info.centre_m[2];
    se3_apply(T_truth, info.centre_m, centre);
    for (int i = 0; i < 3; i++) {
        T.t_m[i] = (double)c->t_m[i] - turned[i];
        off2 += ((double)c->t_m[i] - centre[i]) * ((double)c->t_m[i] - centre[i]);
    }
    if (off2 > 0.25 * f->diameter * f->diameter)
        return 1;
    return metric_add_s(&f->points, f->points.n_points / 200 + 1, &T, T_truth) / f->diameter;
}

// The row of candidate c, NULL: of nothing.
static int add_row(struct fit_data *data, const struct search_candidate *c, bool taken)
{
    double row[SEARCH_N_FEATURES] = {0};
    if (c) {
        float features[SEARCH_N_FEATURES];
        search_features(c, features);
        for (int k = 0; k < SEARCH_N_FEATURES; k++)
            row[k] = (double)features[k];
    }
    if (taken)
        data->choices[data->n_choices - 1].taken = data->choices[data->n_choices - 1].n;
    return fit_add_row(data, row);
}

// One choice of a scene: the nearest right candidate, or nothing, against all that are wrong. None
// when no candidate is right.
static int add_choice(struct search_choices *f, enum search_evidence score, double weight,
                      const struct search_candidate *c, uint32_t n, const struct se3 *T_truth)
{
    const double right_share = score == SEARCH_SCORE_LOOSE ? SEARCH_LOOSE_ADD : SEARCH_RIGHT_ADD;
    const bool nothing = score == SEARCH_SCORE_DRAWN;
    struct fit_data *data = &f->scores[score];
    double *share = malloc((n + 1) * sizeof *share);
    uint32_t best = 0;
    int err = share ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < n && !err; i++) {
        share[i] = add_share(f, &c[i], T_truth);
        best = share[i] < share[best] ? i : best;
    }
    if (err || n < 2 || (T_truth ? share[best] >= right_share : !nothing))
        goto out;
    err = fit_add_choice(data, f->group, weight);
    for (uint32_t i = 0; i < n && !err; i++)
        if (share[i] >= right_share || i == best)
            err = add_row(data, &c[i], T_truth && i == best);
    if (nothing && !err)
        err = add_row(data, NULL, !T_truth);
out:
    free(share);
    return err;
}

// The hypotheses of the coarse pass as candidates, best first.
static int hypotheses(struct search *search, const struct search_object *object,
                      const struct search_scene *scene, struct search_candidate *out,
                      uint32_t *out_n)
{
    struct search_frame *frames = malloc(SEARCH_STARTS_MAX * sizeof *frames);
    struct search_hit *hits = malloc(SEARCH_HITS_MAX * sizeof *hits);
    int err = frames && hits ? 0 : -ENOMEM;
    *out_n = 0;
    if (err)
        goto out;
    const uint32_t n_starts =
        search_starts(search->z_m, search->normal_z, &scene->camera, object, frames);
    const uint32_t keep = search_keep_per_start(n_starts);
    err = search->ops->scan(search->device, object, frames, n_starts, keep, hits);
    for (uint32_t i = 0; i < n_starts * keep && !err; i++) {
        const struct search_coarse *map = &object->coarse[hits[i].view];
        const uint32_t a = hits[i].anchor;
        if (hits[i].score == INT32_MIN)
            continue;
        struct search_candidate *c = &out[(*out_n)++];
        search_from_hit(&frames[hits[i].start], object->views[hits[i].view].rotation,
                        map->anchor_u[a], map->anchor_v[a], map->anchor_z[a], c);
        c->view = hits[i].view;
        c->score = (float)hits[i].score;
    }
out:
    free(frames);
    free(hits);
    return err;
}

static int compare_scores(const void *a, const void *b)
{
    const struct search_candidate *x = a, *y = b;
    return (x->score < y->score) - (x->score > y->score);
}

// all: room for SEARCH_HITS_MAX + 1. By the first three steps, then by the points of those that
// settled, then by the pixels of those that are screened.
static int add_stages(struct search_choices *f, struct search *search,
                      const struct search_scene *scene, const struct se3 *T_truth,
                      struct search_candidate *all)
{
    struct search_candidate *some = malloc((N_ASKED + N_RANDOM + 1) * sizeof *some);
    uint32_t n, n_loose = 0, n_points = 0;
    int err = some ? hypotheses(search, f->object, scene, all, &n) : -ENOMEM;
    if (err)
        goto out;
    // Those near the truth come first, then the best by the coarse pass, then any.
    for (uint32_t i = 0; i < n; i++)
        all[i].score += add_share(f, &all[i], T_truth) < 2 * SEARCH_LOOSE_ADD ? 1e6f : 0;
    qsort(all, n, sizeof *all, compare_scores);
    for (uint32_t i = 0; i < N_ASKED + N_RANDOM && i < n && T_truth; i++) {
        some[n_loose] = all[i < N_ASKED ? i : next_random(f) % n];
        n_loose += search_score_loosely(scene, f->object, &some[n_loose]);
    }
    if (T_truth) {
        search_pose_inward(f->object, T_truth, &some[n_loose]);
        n_loose += search_score_loosely(scene, f->object, &some[n_loose]);
        err = add_choice(f, SEARCH_SCORE_LOOSE, f->weight, some, n_loose, T_truth);
    }
    search_refine_all_points(search, scene, f->object, all, n);
    for (uint32_t i = 0; i < n; i++)
        if (all[i].score > SEARCH_GIVEN_UP)
            all[n_points++] = all[i];
    const struct search_nearness nearness = search_nearness_to_draw(f->object->info.radius_m);
    n_points = search_keep_distinct(f->object, &nearness, all, n_points, N_POINTS, INFINITY);
    if (T_truth && !err) {
        search_pose_inward(f->object, T_truth, &all[n_points]);
        search_refine_points(scene, f->object, &all[n_points]);
        err = add_choice(f, SEARCH_SCORE_POINTS, f->weight, all,
                         n_points + (all[n_points].score > SEARCH_GIVEN_UP), T_truth);
    }
    n = n_points < SEARCH_SCREENED ? n_points : SEARCH_SCREENED;
    while (n > 0 && all[n - 1].score < all[0].score - SEARCH_SCREENED_BEHIND)
        n--;
    search_refine_all_drawn(search, scene, f->object, all, n, 0, NULL);
    err =
        err ? err : add_choice(f, SEARCH_SCORE_DRAWN, WEIGHT_SCREENED * f->weight, all, n, T_truth);
out:
    free(some);
    return err;
}

// What the search polishes, and the truth likewise.
static int add_polished(struct search_choices *f, struct search *search,
                        const struct search_image *image, const struct search_scene *scene,
                        const struct se3 *T_truth)
{
    struct search_found found = {0};
    struct search_candidate polished[SEARCH_FOUND_MAX + 1 + SEARCH_SLIDE_WAYS];
    struct search_slides slides;
    int err = search->ops->find(search, f->object, image, SEARCH_POLISHED, &found);
    if (err)
        return err;
    memcpy(polished, found.candidates, found.n * sizeof *polished);
    if (T_truth) {
        struct search_candidate *truth = &polished[found.n], *slid = truth + 1;
        search_pose_inward(f->object, T_truth, truth);
        search_refine_all_drawn(search, scene, f->object, truth, 1, SEARCH_POLISHED_ROUNDS,
                                &slides);
        const uint32_t n_slid = search_slide_best(f->object, truth, &slides, 1, 1, slid);
        search_refine_all_drawn(search, scene, f->object, slid, n_slid, 0, NULL);
        found.n += 1 + n_slid;
    }
    return add_choice(f, SEARCH_SCORE_DRAWN, f->weight, polished, found.n, T_truth);
}

int search_choices_add(struct search_choices *f, struct search *search,
                       const struct search_image *image, const struct se3 *T_truth)
{
    struct search_candidate *all = malloc((SEARCH_HITS_MAX + 1) * sizeof *all);
    struct search_scene scene;
    struct search_image searched;
    int err = all ? search_reduce_image(search, image, &searched) : -ENOMEM;
    err = err ? err : search_prepare(search, &searched, f->object, &scene);
    err = err ? err
              : search_ensure_drawings(search, f->object,
                                       searched.camera.width_px * searched.camera.height_px);
    err = err ? err : add_stages(f, search, &scene, T_truth, all);
    err = err ? err : add_polished(f, search, &searched, &scene, T_truth);
    free(all);
    return err;
}

// SPDX-License-Identifier: Apache-2.0
// Fits what gpu/search/kernels/score.h and gpu/search/confidence.c hold as numbers: the weights of
// the three scores, as a conditional logit (the right candidate among the others of its scene), and
// the logistic curve of the confidence. Over assembled objects in generated scenes; what is printed
// of quality is of objects that the weights were not fitted on, both ways.
//
// Prints, changes nothing: new numbers go into score.h and confidence.c, and into the copy that
// tests/check/search/score.c holds against them.
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/search/confidence.h"
#include "gpu/search/cpu/refine_points.h"
#include "gpu/search/cpu/start_points.h"
#include "gpu/search/host.h"
#include "gpu/search/kernels/icp.h"
#include "gpu/search/kernels/score.h"
#include "proto/se3.h"
#include "tools/bench/bench.h"
#include "tools/bench/fit.h"
#include "tools/bench/search.h"
#include "tools/bench/search_features.h"
#include "tools/bench/search_metrics.h"

#define N_SCORES     3
#define N_CONFIDENCE 5
#define N_ASKED      400 // of a scene's hypotheses are scored loosely: the best by the coarse pass,
#define N_RANDOM     200 // and as many others
#define N_DRAWN      96  // are drawn
#define RIDGE        0.08
#define WEIGHT_SEEN  2 // of scenes in which most of the object is seen: what is asked for most
#define SEEN         0.6
#define LOOSE_ADD    0.2 // of the diameter: three steps are no end yet
#define RIGHT_ADD    0.1

// Of scenes without the object, in the confidence: an answer there is not to be accepted.
#define WEIGHT_ABSENT 6

static const char *const score_names[N_SCORES] = {"loose", "points", "drawn"};
struct fitting {
    struct fit_data scores[N_SCORES], confidence;
    const struct testscene_mesh *mesh;
    const struct search_object *object;
    struct metric_points points;
    double diameter;
    uint32_t group, n_scenes, n_found;
    double weight; // of the scene
    uint64_t random;
};

static uint32_t next_random(struct fitting *f)
{
    f->random = f->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(f->random >> 33);
}

// ADD-S of a candidate as a share of the object's diameter; what is far away is not measured.
static double add_share(const struct fitting *f, const struct search_candidate *c,
                        const struct se3 *T_truth)
{
    double turned[3], centre[3], off2 = 0;
    struct search_object_info info;
    struct se3 T;
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

static int add_features(struct fit_data *data, const struct search_candidate *c)
{
    float features[SEARCH_N_FEATURES];
    double row[SEARCH_N_FEATURES];
    search_features(c, features);
    for (int k = 0; k < SEARCH_N_FEATURES; k++)
        row[k] = (double)features[k];
    return fit_add_row(data, row);
}

// One choice of a scene: the nearest right candidate against all that are wrong. None when no
// candidate is right.
static int add_choice(struct fitting *f, struct fit_data *data, const struct search_candidate *c,
                      uint32_t n, double right_share, const struct se3 *T_truth)
{
    double *share = malloc((n + 1) * sizeof *share);
    uint32_t best = 0;
    int err = share ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < n && !err; i++) {
        share[i] = add_share(f, &c[i], T_truth);
        best = share[i] < share[best] ? i : best;
    }
    if (err || n < 2 || share[best] >= right_share)
        goto out;
    err = fit_add_choice(data, f->group, f->weight);
    for (uint32_t i = 0; i < n && !err; i++) {
        if (i == best)
            data->choices[data->n_choices - 1].taken = data->choices[data->n_choices - 1].n;
        if (i == best || share[i] >= right_share)
            err = add_features(data, &c[i]);
    }
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

// The three scores' candidates of one scene; where the search has passed over the true pose, that
// is what ought to be taken. all: room for SEARCH_HITS_MAX + 1, some: for N_ASKED + N_RANDOM + 1.
static int add_candidates(struct fitting *f, struct search *search,
                          const struct search_scene *scene, const struct se3 *T_truth,
                          struct search_candidate *all, struct search_candidate *some)
{
    uint32_t n, n_loose = 0, n_points = 0;
    int err = hypotheses(search, f->object, scene, all, &n);
    if (err)
        return err;
    // Those near the truth come first, then the best by the coarse pass, then any.
    for (uint32_t i = 0; i < n; i++)
        all[i].score += add_share(f, &all[i], T_truth) < 2 * LOOSE_ADD ? 1e6f : 0;
    qsort(all, n, sizeof *all, compare_scores);
    for (uint32_t i = 0; i < N_ASKED + N_RANDOM && i < n; i++) {
        some[n_loose] = all[i < N_ASKED ? i : next_random(f) % n];
        n_loose += search_score_loosely(scene, f->object, &some[n_loose]);
    }
    search_pose_inward(f->object, T_truth, &some[n_loose]);
    n_loose += search_score_loosely(scene, f->object, &some[n_loose]);
    err = add_choice(f, &f->scores[0], some, n_loose, LOOSE_ADD, T_truth);
    if (err)
        return err;
    search_refine_all_points(search, scene, f->object, all, n);
    for (uint32_t i = 0; i < n; i++)
        if (all[i].score > SEARCH_GIVEN_UP)
            all[n_points++] = all[i];
    const struct search_nearness nearness = search_nearness_to_draw(f->object->info.radius_m);
    n_points = search_keep_distinct(f->object, &nearness, all, n_points, 4 * N_DRAWN);
    search_pose_inward(f->object, T_truth, &all[n_points]);
    search_refine_points(scene, f->object, &all[n_points]);
    err = add_choice(f, &f->scores[1], all, n_points + (all[n_points].score > SEARCH_GIVEN_UP),
                     RIGHT_ADD, T_truth);
    if (err)
        return err;
    n = n_points < N_DRAWN ? n_points : N_DRAWN;
    search_pose_inward(f->object, T_truth, &all[n++]);
    search_refine_all_drawn(search, scene, f->object, all, n, SEARCH_POLISHED_ROUNDS);
    return add_choice(f, &f->scores[2], all, n, RIGHT_ADD, T_truth);
}

// The answer of a whole search: right, or nothing to choose (a row of zeros is the other way).
static int add_answer(struct fitting *f, struct search *search, const struct search_image *image,
                      bool absent, const struct se3 *T_truth)
{
    struct search_query query;
    struct search_answer answer;
    search_query_default(&query);
    int err = search_run(search, f->object, image, &query, &answer, NULL);
    if (err || answer.n_poses == 0)
        return err == -ENODATA ? 0 : err;
    const struct search_pose *pose = &answer.poses[0];
    double centre[3], row[N_CONFIDENCE];
    struct search_object_info info;
    search_object_describe(f->object, &info);
    se3_apply(&pose->T_camera_model, info.centre_m, centre);
    const double add =
        metric_add_s(&f->points, f->points.n_points / 500 + 1, &pose->T_camera_model, T_truth);
    const bool right = !absent && add < RIGHT_ADD * f->diameter;
    row[0] = 1;
    row[1] = (double)pose->score;
    row[2] = (double)(search_drawn_gate_m(info.radius_m, (float)centre[2]) / info.radius_m);
    row[3] = log1p(exp(fmin((double)pose->rival, 10)));
    row[4] = (double)pose->continued;
    static const double zeros[N_CONFIDENCE] = {0};
    err = fit_add_choice(&f->confidence, f->group, absent ? WEIGHT_ABSENT : 1);
    err = err ? err : fit_add_row(&f->confidence, row);
    err = err ? err : fit_add_row(&f->confidence, zeros);
    if (!err)
        f->confidence.choices[f->confidence.n_choices - 1].taken = !right;
    f->n_found += right;
    return err;
}

static int add_scenes(struct fitting *f, struct search *search,
                      const struct bench_search_options *o, const struct bench_search_model *model)
{
    struct search_candidate *all = malloc((SEARCH_HITS_MAX + 1) * sizeof *all);
    struct search_candidate *some = malloc((N_ASKED + N_RANDOM + 1) * sizeof *some);
    int err = all && some ? 0 : -ENOMEM;
    f->mesh = &model->mesh;
    f->object = model->object;
    f->points = (struct metric_points){model->mesh.vertices_m, model->mesh.n_vertices};
    f->diameter = metric_diameter(&f->points);
    for (uint32_t i = 0; i < (o->n_scenes ? o->n_scenes : 8) && !err; i++) {
        struct bench_search_options mixed = *o;
        mixed.mixed = true;
        const struct testscene_settings settings = bench_search_scene(&mixed, i);
        struct testscene scene;
        err = testscene_create(f->mesh, &settings, &scene);
        if (err)
            break;
        const struct search_image image = {
            .frame = {scene.depth, scene.camera.width_px, scene.camera.height_px, 1000, 0},
            .camera = scene.camera};
        const bool wanted = settings.absent || (scene.visible >= settings.visible_min &&
                                                scene.visible <= settings.visible_max);
        struct search_scene prepared;
        f->weight = scene.visible >= SEEN ? WEIGHT_SEEN : 1;
        if (wanted)
            err = add_answer(f, search, &image, settings.absent, &scene.T_camera_model);
        if (wanted && !settings.absent && !o->curve && !err) {
            err = search_prepare(search, &image, f->object, &prepared);
            err = err ? err
                      : search_ensure_drawings(search, f->object,
                                               scene.camera.width_px * scene.camera.height_px);
            err =
                err ? err : add_candidates(f, search, &prepared, &scene.T_camera_model, all, some);
        }
        f->n_scenes += wanted;
        testscene_free(&scene);
    }
    free(all);
    free(some);
    return err;
}

// The present weights, read off the score of random shares.
static void present_weights(enum search_evidence which, double out[SEARCH_N_FEATURES])
{
    enum { N = 2000 };
    double *rows = malloc(N * SEARCH_N_FEATURES * sizeof *rows), *worth = malloc(N * sizeof *worth);
    struct fitting f = {.random = 1};
    for (int i = 0; i < N && rows && worth; i++) {
        struct search_candidate c = {.score = 0};
        float *const shares[] = {&c.match,  &c.tight,     &c.free,  &c.wrong, &c.plane, &c.ended,
                                 &c.smooth, &c.continued, &c.floor, &c.sharp, &c.gate,  &c.merged,
                                 &c.spread, &c.volume,    &c.area,  &c.shown, &c.edged};
        float features[SEARCH_N_FEATURES];
        for (size_t k = 0; k < sizeof shares / sizeof *shares; k++)
            *shares[k] = (float)(next_random(&f) % 10000) / 10000;
        c.area *= 2;
        search_features(&c, features);
        for (int k = 0; k < SEARCH_N_FEATURES; k++)
            rows[i * SEARCH_N_FEATURES + k] = (double)features[k];
        worth[i] = (double)search_likelihood(which, &c);
    }
    memset(out, 0, SEARCH_N_FEATURES * sizeof *out);
    if (rows && worth)
        fit_read_off(rows, worth, N, SEARCH_N_FEATURES, out);
    free(rows);
    free(worth);
}

static int compare_numbers(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// 5 %, half and 95 % of a feature among what was taken where most of the object is seen.
static void quantiles_taken(const struct fit_data *data, uint32_t feature, double out[3])
{
    double *taken = malloc((data->n_choices + 1) * sizeof *taken);
    size_t n = 0;
    out[0] = out[1] = out[2] = 0;
    for (size_t c = 0; taken && c < data->n_choices; c++) {
        const struct fit_choice *choice = &data->choices[c];
        if (choice->weight >= WEIGHT_SEEN)
            taken[n++] = data->rows[(choice->first + choice->taken) * data->n_features + feature];
    }
    if (n > 0) {
        qsort(taken, n, sizeof *taken, compare_numbers);
        for (size_t k = 0; k < 3; k++)
            out[k] = taken[(size_t)((double)(n - 1) * (0.05 + 0.45 * (double)k))];
    }
    free(taken);
}

// Fitted on all; the quality of what was fitted on one half of the objects is the other's.
static void fit_and_print(const char *name, const struct fit_data *data, const double *present,
                          const char *const *names)
{
    double all[FIT_FEATURES_MAX], half[2][FIT_FEATURES_MAX], mean_log[3] = {0}, first[3] = {0};
    fit_weights(data, 2, RIDGE, all);
    for (uint32_t k = 0; k < 2; k++) {
        double one_log, one_first;
        fit_weights(data, k, RIDGE, half[k]);
        fit_quality(data, k, half[k], &one_log, &one_first);
        mean_log[1] += one_log / 2;
        first[1] += one_first / 2;
    }
    fit_quality(data, 2, present, &mean_log[0], &first[0]);
    printf("\n%s: %zu choices of %zu rows\n", name, data->n_choices, data->n_rows);
    printf(
        "present: first in %.1f %%, mean log-likelihood %.3f; refitted, on the other half of the "
        "objects: %.1f %%, %.3f; correlation of the two %.3f\n",
        100 * first[0], mean_log[0], 100 * first[1], mean_log[1],
        fit_correlation(data, present, all));
    printf("%-18s %9s %9s %9s %9s   %s\n", "", "present", "refitted", "half", "other half",
           "right and mostly seen: 5, 50, 95 %");
    for (uint32_t k = 0; k < data->n_features; k++) {
        double quantiles[3];
        quantiles_taken(data, k, quantiles);
        printf("%-18s %9.2f %9.2f %9.2f %9.2f   %9.3f %9.3f %9.3f\n", names[k], present[k], all[k],
               half[1][k], half[0][k], quantiles[0], quantiles[1], quantiles[2]);
    }
}

static double row_worth(const struct fit_data *data, size_t row, const double *weights)
{
    double sum = 0;
    for (uint32_t k = 0; k < data->n_features; k++)
        sum += weights[k] * data->rows[row * data->n_features + k];
    return sum;
}

// SEARCH_LOOSE_SCORE by the refitted weights: one right hypothesis in a hundred lies below.
static void print_given_up(const struct fit_data *data)
{
    double weights[FIT_FEATURES_MAX], *right = malloc((data->n_choices + 1) * sizeof *right);
    size_t n_below = 0;
    if (!right)
        return;
    fit_weights(data, 2, RIDGE, weights);
    for (size_t c = 0; c < data->n_choices; c++) {
        const struct fit_choice *choice = &data->choices[c];
        right[c] = row_worth(data, choice->first + choice->taken, weights);
    }
    qsort(right, data->n_choices, sizeof *right, compare_numbers);
    const double limit = data->n_choices ? right[data->n_choices / 100] : 0;
    for (size_t i = 0; i < data->n_rows; i++)
        n_below += row_worth(data, i, weights) < limit;
    printf("given up below %.2f: 1 %% of the right, %.0f %% of all\n", limit,
           100.0 * (double)n_below / (double)(data->n_rows ? data->n_rows : 1));
    free(right);
}

static void print_all(const struct fitting *f)
{
    // gpu/search/confidence.c
    static const double curve[N_CONFIDENCE] = {-10.64, 0.71, -18.9, -1.95, -5.1};
    static const char *const names[N_CONFIDENCE] = {"1", "score", "gate", "log(1 + e^rival)",
                                                    "continued"};
    printf("%u scenes, %u answers right\n", f->n_scenes, f->n_found);
    for (int i = 0; i < N_SCORES && f->scores[i].n_choices > 0; i++) {
        double weights[SEARCH_N_FEATURES];
        present_weights((enum search_evidence)i, weights);
        fit_and_print(score_names[i], &f->scores[i], weights, search_feature_names);
        if (i == SEARCH_SCORE_LOOSE)
            print_given_up(&f->scores[i]);
    }
    fit_and_print("confidence (first: told right from wrong)", &f->confidence, curve, names);
}

static void fitting_begin(struct fitting *f, uint64_t random)
{
    *f = (struct fitting){.confidence = {.n_features = N_CONFIDENCE}, .random = random};
    for (int i = 0; i < N_SCORES; i++)
        f->scores[i].n_features = SEARCH_N_FEATURES;
}

static void fitting_end(struct fitting *f)
{
    for (int i = 0; i < N_SCORES; i++)
        fit_free(&f->scores[i]);
    fit_free(&f->confidence);
}

static int fitting_append(struct fitting *all, const struct fitting *more)
{
    int err = fit_append(&all->confidence, &more->confidence);
    for (int i = 0; i < N_SCORES && !err; i++)
        err = fit_append(&all->scores[i], &more->scores[i]);
    all->n_scenes += more->n_scenes;
    all->n_found += more->n_found;
    return err;
}

// Each object on its own, by as many threads as there are; then together in their order.
struct objects_job {
    const struct bench_search_options *o;
    struct fitting *of;
    _Atomic uint32_t next, n_done;
    _Atomic int err;
};

static int fit_object(struct search *search, const struct bench_search_options *o, uint32_t number,
                      struct fitting *out)
{
    char name[32];
    struct bench_search_model model;
    struct bench_search_options one = *o;
    snprintf(name, sizeof name, "random:%u", number);
    one.seed = o->seed + number;
    fitting_begin(out, o->seed + number);
    out->group = number;
    int err = bench_search_open(search, name, o, &model) ? -EINVAL : 0;
    err = err ? err : add_scenes(out, search, &one, &model);
    bench_search_close(search, &model);
    return err;
}

static void *fit_objects(void *user)
{
    struct objects_job *job = user;
    struct search_settings settings;
    struct search *search;
    search_settings_default(&settings);
    settings.backend = job->o->backend;
    settings.n_threads = 1;
    settings.log.write = bench_log_write;
    int err = search_open(&search, &settings);
    for (uint32_t i; !err && (i = job->next++) < job->o->n_fitted;) {
        err = fit_object(search, job->o, i + 1, &job->of[i]);
        fprintf(stderr, "%u of %u objects\n", ++job->n_done, job->o->n_fitted);
    }
    search_close(&search);
    if (err)
        job->err = err;
    return NULL;
}

int bench_search_fit(struct search *search, const struct bench_search_options *o)
{
    enum { THREADS_MAX = 256 };
    pthread_t threads[THREADS_MAX];
    uint32_t n_threads = 0;
    struct fitting all;
    struct objects_job job = {.o = o, .of = calloc(o->n_fitted, sizeof *job.of)};
    int err = job.of ? 0 : -ENOMEM;
    fitting_begin(&all, 0);
    while (!err && n_threads < search->n_threads && n_threads < THREADS_MAX &&
           n_threads < o->n_fitted &&
           pthread_create(&threads[n_threads], NULL, fit_objects, &job) == 0)
        n_threads++;
    for (uint32_t i = 0; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    err = err ? err : n_threads == 0 ? -EAGAIN : job.err;
    for (uint32_t i = 0; job.of && i < o->n_fitted; i++) {
        err = err ? err : fitting_append(&all, &job.of[i]);
        fitting_end(&job.of[i]);
    }
    if (err)
        fprintf(stderr, "posed-bench: %s\n", strerror(-err));
    else
        print_all(&all);
    fitting_end(&all);
    free(job.of);
    return err ? 1 : 0;
}

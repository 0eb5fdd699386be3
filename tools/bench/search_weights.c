// SPDX-License-Identifier: Apache-2.0
// Fits what gpu/search/kernels/score.h, score_trees.h and gpu/search/confidence.c hold as numbers:
// the weights of the three scores, as a conditional logit (the right candidate among the others of
// its scene), the trees of the last one, and the logistic curve of the confidence. Over assembled
// objects in generated scenes; what is printed of quality is of objects that the weights were not
// fitted on, both ways.
//
// Prints, changes nothing: new numbers go into these files, and the weights into the copy that
// tests/check/search/score.c holds against them.
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/search/confidence.h"
#include "gpu/search/context.h"
#include "gpu/search/kernels/score.h"
#include "proto/se3.h"
#include "tools/bench/bench.h"
#include "tools/bench/fit_trees.h"
#include "tools/bench/search.h"
#include "tools/bench/search_choices.h"
#include "tools/bench/search_features.h"
#include "tools/bench/testrandom.h"

#define N_CONFIDENCE 4
#define RIDGE        0.08
#define RIDGE_DRAWN  1 // thrice the choices, and trees say the rest
#define WEIGHT_SEEN  3 // of scenes in which most of the object is seen: what is asked for most
#define SEEN         0.6

// Of scenes without the object, in the confidence: an answer there is not to be accepted.
#define WEIGHT_ABSENT 16

// What a tree makes of more of each feature: all else alike a pose is no worse for matching more
// and no better for being hidden, whatever generated scenes are like. Of the gate, spread, what can
// be told, crossed and jumps nothing is known beforehand.
static const int8_t sense[SEARCH_N_FEATURES] = {1, 1,  -1, -1, -1, -1, 1, -1, 0, -1, -1,
                                                1, -1, -1, 1,  1,  0,  0, 1,  1, 1,  1,
                                                0, -1, -1, 1,  0,  0,  0, 1,  -1};

static const char *const score_names[SEARCH_N_SCORES] = {"loose", "points", "drawn"};

struct fitting {
    struct search_choices choices;
    struct fit_data confidence;
    uint32_t n_scenes, n_found;
};

// The answer of a whole search: right, or nothing to choose (a row of zeros is the other way).
static int add_answer(struct fitting *f, struct search *search, const struct search_image *image,
                      bool absent, const struct se3 *T_truth)
{
    const struct search_choices *choices = &f->choices;
    struct search_query query;
    struct search_answer answer;
    search_query_default(&query);
    int err = search_run(search, choices->object, image, &query, &answer, NULL);
    if (err || answer.n_poses == 0)
        return err == -ENODATA ? 0 : err;
    const struct search_pose *pose = &answer.poses[0];
    double row[N_CONFIDENCE];
    const double add = metric_add_s(&choices->points, choices->points.n_points / 500 + 1,
                                    &pose->T_camera_model, T_truth);
    const bool right = !absent && add < SEARCH_RIGHT_ADD * choices->diameter;
    row[0] = 1;
    row[1] = (double)pose->score;
    row[2] = log1p(exp(fmin((double)pose->rival, 10)));
    row[3] = (double)pose->continued;
    static const double zeros[N_CONFIDENCE] = {0};
    err = fit_add_choice(&f->confidence, choices->group, absent ? WEIGHT_ABSENT : 1);
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
    int err = 0;
    f->choices.object = model->object;
    f->choices.points = (struct metric_points){model->mesh.vertices_m, model->mesh.n_vertices};
    f->choices.diameter = metric_diameter(&f->choices.points);
    for (uint32_t i = 0; i < (o->n_scenes ? o->n_scenes : 8) && !err; i++) {
        struct bench_search_options mixed = *o;
        mixed.mixed = true;
        const struct testscene_settings settings = bench_search_scene(&mixed, i);
        struct testscene scene;
        err = testscene_create(&model->mesh, &settings, &scene);
        if (err)
            break;
        const struct search_image image = {
            .frame = {scene.depth, scene.camera.width_px, scene.camera.height_px, 1000, 0},
            .camera = scene.camera};
        const struct se3 *T_truth = settings.absent ? NULL : &scene.T_camera_model;
        const bool wanted = settings.absent || (scene.visible >= settings.visible_min &&
                                                scene.visible <= settings.visible_max);
        f->choices.weight = T_truth && scene.visible >= SEEN ? WEIGHT_SEEN : 1;
        if (wanted)
            err = add_answer(f, search, &image, settings.absent, &scene.T_camera_model);
        if (wanted && !o->curve && !err)
            err = search_choices_add(&f->choices, search, &image, T_truth);
        f->n_scenes += wanted;
        testscene_free(&scene);
    }
    return err;
}

// The present weights, read off the score of random shares.
static void present_weights(enum search_evidence which, double out[SEARCH_N_FEATURES])
{
    enum { N = 2000 };
    double *rows = malloc(N * SEARCH_N_FEATURES * sizeof *rows), *worth = malloc(N * sizeof *worth);
    uint64_t random = 1;
    for (int i = 0; i < N && rows && worth; i++) {
        struct search_candidate c = {.score = 0};
        float *const shares[] = {&c.match,  &c.tight,     &c.free,   &c.wrong,  &c.plane,
                                 &c.ended,  &c.smooth,    &c.floor,  &c.sharp,  &c.gate,
                                 &c.merged, &c.continued, &c.spread, &c.volume, &c.area,
                                 &c.shown,  &c.edged,     &c.hidden, &c.rough,  &c.agreed,
                                 &c.told,   &c.crossed,   &c.jumps,  &c.deep,   &c.just};
        float features[SEARCH_N_FEATURES];
        for (size_t k = 0; k < sizeof shares / sizeof *shares; k++)
            *shares[k] = (float)testrandom_uniform(&random, 0, 1);
        c.area *= 2;
        search_features(&c, features);
        for (int k = 0; k < SEARCH_N_FEATURES; k++)
            rows[i * SEARCH_N_FEATURES + k] = (double)features[k];
        worth[i] = (double)search_worth(which, features, 0);
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
static void fit_and_print(const char *name, const struct fit_data *data, double ridge,
                          const double *present, const char *const *names)
{
    double all[FIT_FEATURES_MAX], half[2][FIT_FEATURES_MAX], mean_log[3] = {0}, first[3] = {0};
    fit_weights(data, 2, ridge, all);
    for (uint32_t k = 0; k < 2; k++) {
        double one_log, one_first;
        fit_weights(data, k, ridge, half[k]);
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

// The trees of the last score, as score_trees.h holds them: on top of weights that are fitted on
// the same choices. Quality is of those that were held out.
static int fit_and_print_trees(const struct fit_data *data)
{
    static const struct fit_boosting how = {SEARCH_N_TREES, 0.2, 15, 0.5, sense};
    struct fit_tree trees[SEARCH_N_TREES];
    double weights[FIT_FEATURES_MAX], mean_log[2] = {0}, first[2] = {0};
    int err = 0;
    for (uint32_t k = 0; k < 2 && !err; k++) {
        fit_weights(data, k, RIDGE_DRAWN, weights);
        err = fit_trees(data, k, weights, &how, trees);
        for (uint32_t with = 0; with < 2 && !err; with++) {
            double one_log, one_first;
            fit_trees_quality(data, k, weights, trees, with * SEARCH_N_TREES, &one_log, &one_first);
            mean_log[with] += one_log / 2;
            first[with] += one_first / 2;
        }
    }
    fit_weights(data, 2, RIDGE_DRAWN, weights);
    err = err ? err : fit_trees(data, 2, weights, &how, trees);
    if (err)
        return err;
    printf("trees, on the other half of the objects: first in %.1f %%, mean log-likelihood %.3f; "
           "without %.1f %%, %.3f\n",
           100 * first[1], mean_log[1], 100 * first[0], mean_log[0]);
    for (uint32_t t = 0; t < SEARCH_N_TREES; t++) {
        printf("        {{");
        for (int q = 0; q < FIT_TREE_DEPTH; q++)
            printf("%s%u", q ? ", " : "", trees[t].feature[q]);
        printf("}, {");
        for (int q = 0; q < FIT_TREE_DEPTH; q++)
            printf("%s%#.4gf", q ? ", " : "", trees[t].above[q]);
        printf("}, {");
        for (int leaf = 0; leaf < 1 << FIT_TREE_DEPTH; leaf++)
            printf("%s%ld", leaf ? ", " : "", lround(SEARCH_TREE_UNIT * trees[t].worth[leaf]));
        printf("}},\n");
    }
    return 0;
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
    static const double curve[N_CONFIDENCE] = {-3.17, 0.83, -1.70, -1.81};
    static const char *const names[N_CONFIDENCE] = {"1", "score", "log(1 + e^rival)", "continued"};
    printf("%u scenes, %u answers right\n", f->n_scenes, f->n_found);
    for (int i = 0; i < SEARCH_N_SCORES && f->choices.scores[i].n_choices > 0; i++) {
        const struct fit_data *data = &f->choices.scores[i];
        double weights[SEARCH_N_FEATURES];
        present_weights((enum search_evidence)i, weights);
        fit_and_print(score_names[i], data, i == SEARCH_SCORE_DRAWN ? RIDGE_DRAWN : RIDGE, weights,
                      search_feature_names);
        if (i == SEARCH_SCORE_LOOSE)
            print_given_up(data);
        if (i == SEARCH_SCORE_DRAWN && fit_and_print_trees(data))
            fprintf(stderr, "posed-bench: no memory for the trees\n");
    }
    fit_and_print("confidence (first: told right from wrong)", &f->confidence, RIDGE, curve, names);
}

static void fitting_begin(struct fitting *f, uint32_t group, uint64_t random)
{
    *f = (struct fitting){.confidence = {.n_features = N_CONFIDENCE}};
    search_choices_begin(&f->choices, group, random);
}

static void fitting_end(struct fitting *f)
{
    fit_free(&f->confidence);
    search_choices_end(&f->choices);
}

static int fitting_append(struct fitting *all, const struct fitting *more)
{
    int err = fit_append(&all->confidence, &more->confidence);
    err = err ? err : search_choices_append(&all->choices, &more->choices);
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
    // Both sorts in both halves of the objects, which are those of odd and of even numbers.
    snprintf(name, sizeof name, number / 2 % 2 ? "household:%u" : "random:%u", number);
    one.seed = o->seed + number;
    fitting_begin(out, number, o->seed + number);
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
    fitting_begin(&all, 0, 0);
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

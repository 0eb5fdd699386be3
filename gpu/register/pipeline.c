// SPDX-License-Identifier: Apache-2.0
// What a registration does, in order. The authors' program (preset tamaki) stands alone. All else
// has two sources of poses, each good where the other is not: features with GICP on the surfaces
// (scans, rooms, partial overlap), and the anneal of the soft methods (few points, many outliers,
// much noise). Both are judged alike, and the given pose, finished, is always among them.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/register/annealing_schedule.h"
#include "gpu/register/choose_method.h"
#include "gpu/register/multistart.h"
#include "gpu/register/register_context.h"
#include "gpu/register/result.h"
#include "gpu/register/settings.h"
#include "gpu/register/validate_points.h"
#include "gpu/register/verdict.h"
#include "proto/clock.h"

// One registration under way.
struct job {
    struct registration *registration;
    const struct point_set *source, *target;
    const struct register_settings *settings;
    struct register_stop *stop;
    struct register_local local;
    struct register_task task; // once the sets are loaded
    bool loaded;
    struct register_result *out;
    const char *field;
    double start_ms;
};

// How many points of a set the all-pairs stages use.
static uint32_t all_pairs_points(const struct register_settings *settings, size_t n)
{
    bool all = register_only_on_points(settings);
    size_t most = settings->n_points ? settings->n_points : all ? REGISTER_MAX_POINTS : 4096;
    return (uint32_t)(n < most ? n : most);
}

// Checks, normalises and loads the sets for the methods on points; once.
static int load_sets(struct job *job)
{
    struct registration *registration = job->registration;
    enum register_side side;
    const char *why = NULL;
    if (job->loaded)
        return 0;
    int rc = register_sets_fill(&registration->sets, registration->pool, job->source, job->target,
                                job->stop, &side, &why);
    if (rc == -EINVAL) {
        job->field = side == REGISTER_SOURCE ? "source" : "target";
        registration->why = why;
    }
    for (int i = 0; rc == 0 && i < 2; i++) {
        const struct register_set *set = &registration->sets.side[i];
        struct point_set points = {set->x, set->y, set->z, NULL, NULL, NULL, set->n};
        if (set->nx) {
            points.nx = set->nx;
            points.ny = set->ny;
            points.nz = set->nz;
        }
        rc = registration->ops->load(registration->device, (enum register_side)i, &points);
    }
    job->task = (struct register_task){
        .ops = registration->ops,
        .device = registration->device,
        .sets = &registration->sets,
        .settings = job->settings,
        .stop = job->stop,
        .n_source = all_pairs_points(job->settings, job->source->n_points),
        .n_target = all_pairs_points(job->settings, job->target->n_points),
        .planes = job->settings->point_to_plane && job->target->nx != NULL,
    };
    job->loaded = rc == 0;
    return rc;
}

// Checks both sets for the methods on surfaces.
static int check_points(struct job *job)
{
    struct registration *registration = job->registration;
    const struct point_set *const sets[2] = {job->source, job->target};
    for (int i = 0; i < 2; i++) {
        int rc = register_points_check(sets[i], registration->pool, &registration->why);
        if (rc == -EINVAL)
            job->field = i == 0 ? "source" : "target";
        if (rc < 0)
            return rc;
    }
    return 0;
}

// The soft methods and ICP from their starts; *out: best first.
static int run_points(struct job *job, struct register_run **out, uint32_t *out_n)
{
    const struct register_task *task = &job->task;
    const bool many = task->settings->start == REGISTER_START_MANY;
    int rc = 0;
    *out_n = 1;
    if (many)
        rc = register_multistart(task, out, out_n);
    if (rc < 0)
        return rc;
    if (task->settings->method == REGISTER_METHOD_ICP) {
        *out_n = 1;
        return register_stage_icp(task, *out);
    }
    if (!many)
        rc = register_stage_wide(task, *out);
    register_report(task, 0.7, "finish");
    if (rc == 0)
        rc = register_stage_finish(task, *out, *out_n);
    if (rc < 0)
        return rc;
    qsort(*out, *out_n, sizeof **out, register_compare_scores);
    if (task->n_source < task->sets->side[0].n || task->n_target < task->sets->side[1].n) {
        register_report(task, 0.9, "refine");
        return register_stage_refine(task, *out);
    }
    return 0;
}

// The methods on points, with their own judging. The result is filled.
static int on_points(struct job *job)
{
    int rc = load_sets(job);
    if (rc < 0)
        return rc;
    const struct register_sets *sets = &job->registration->sets;
    const struct register_settings *settings = job->settings;
    const double loaded_ms = clock_monotonic_ms();
    uint32_t n_runs = 1;
    struct register_run pair[2] = {
        {.T = register_sets_normalise(sets, &settings->T_target_source)}};
    struct register_run *runs = settings->start == REGISTER_START_MANY ? NULL : pair;
    if (settings->preset == REGISTER_PRESET_TAMAKI)
        rc = register_stage_tamaki(&job->task, runs);
    else
        rc = run_points(job, &runs, &n_runs);
    if (rc == 0 && runs == pair && settings->preset == REGISTER_PRESET_DEFAULT &&
        !register_by_chance(&pair[0])) {
        rc = register_multistart_rival(&job->task, pair);
        n_runs = rc > 0 ? 2 : 1;
        rc = rc < 0 ? rc : 0;
    }
    if (rc == 0) {
        register_result_fill(sets, runs, n_runs, job->out);
        job->out->anneal_ms = clock_monotonic_ms() - loaded_ms;
    }
    if (runs != pair)
        free(runs);
    return rc;
}

// The winner on the surfaces as the answer.
static void answer(struct job *job, const struct register_candidates *candidates)
{
    register_result_candidates(&job->registration->surfaces, candidates, job->out);
}

// Sets that all pairs of points can be taken of: the method itself moves the winner on at small
// sigma. What comes out is kept where the surfaces agree with it as well.
static int polish(struct job *job, struct register_candidates *candidates)
{
    const struct register_settings *settings = job->settings;
    struct register_surfaces *surfaces = &job->registration->surfaces;
    struct register_candidate *best = &candidates->best[0];
    if (settings->method == REGISTER_METHOD_GICP || settings->method == REGISTER_METHOD_ICP ||
        all_pairs_points(settings, job->source->n_points) < job->source->n_points ||
        all_pairs_points(settings, job->target->n_points) < job->target->n_points)
        return 0;
    int rc = load_sets(job);
    if (rc < 0)
        return rc;
    const struct se3 T_m = register_surfaces_metric(surfaces, &best->fit.T);
    struct register_run run = {.T = register_sets_normalise(&job->registration->sets, &T_m)};
    job->task.sigma_first = 2 * fmax(surfaces->info[0][0].noise_m, 0.5 * surfaces->cell_m) /
                            job->registration->sets.radius_m;
    rc = register_stage_finish(&job->task, &run, 1);
    if (rc < 0 || !run.determined)
        return rc;
    const struct se3 moved_m = register_sets_metric(&job->registration->sets, &run.T);
    struct register_fit fit = best->fit;
    struct register_worth worth;
    fit.T = register_surfaces_local(surfaces, &moved_m);
    rc = register_local_judge(&job->local, 0, &fit, 1, &worth);
    if (rc == 0 && worth.score > 0.97 * best->worth.score) {
        fit.converged = run.converged;
        fit.n_iterations += run.n_iterations;
        best->fit = fit;
        best->worth = worth;
    }
    return rc;
}

// From everywhere: features; where they do not convince, the anneal too.
static int from_everywhere(struct job *job)
{
    struct register_candidates candidates;
    struct register_surfaces *surfaces = &job->registration->surfaces;
    const struct se3 given = register_surfaces_local(surfaces, &job->settings->T_target_source);
    register_report(&job->task, 0.1, "features");
    int rc = register_candidates_find(&job->local, job->registration->pool, &given, &candidates);
    // The given pose, finished without coarse cells, which may lead away from it; and the anneal.
    if (rc == 0 && !register_candidates_convince(&candidates))
        rc = register_candidates_add(&job->local, &given, &candidates);
    if (rc == 0 && !register_candidates_convince(&candidates)) {
        rc = on_points(job);
        const struct se3 T = register_surfaces_local(surfaces, &job->out->T_target_source);
        if (rc == 0)
            rc = register_candidates_add(&job->local, &T, &candidates);
    }
    if (rc == 0 && register_candidates_trust(&candidates) >= REGISTER_TRUST)
        rc = register_local_settle(&job->local, &candidates.best[0].fit);
    if (rc == 0 && register_candidates_trust(&candidates) >= REGISTER_TRUST)
        rc = polish(job, &candidates);
    if (rc == 0)
        answer(job, &candidates);
    register_candidates_free(&candidates);
    return rc;
}

// GICP from the given pose, coarse to fine; where that fits poorly also at the finest level alone:
// coarse cells may lead away from a pose that was nearly right.
static int gicp_near(struct job *job, struct register_candidates *out)
{
    const struct register_surfaces *surfaces = &job->registration->surfaces;
    struct register_candidate *best = &out->best[0];
    memset(out, 0, sizeof *out);
    best->fit.T = register_surfaces_local(surfaces, &job->settings->T_target_source);
    int rc = register_local_align(&job->local, surfaces->n_levels - 1, 0, &best->fit, 1);
    if (rc == 0)
        rc = register_local_judge(&job->local, 0, &best->fit, 1, &best->worth);
    out->n = 1;
    if (rc < 0 || register_candidates_trust(out) >= REGISTER_SURE_NEAR)
        return rc;
    struct register_candidate fine = {
        .fit.T = register_surfaces_local(surfaces, &job->settings->T_target_source)};
    rc = register_local_align(&job->local, 0, 0, &fine.fit, 1);
    if (rc == 0)
        rc = register_local_judge(&job->local, 0, &fine.fit, 1, &fine.worth);
    if (rc == 0 && fine.worth.score > best->worth.score)
        *best = fine;
    return rc;
}

// A poor answer that began at one pose: what features find elsewhere doubts it, or does not.
static int look_elsewhere(struct job *job, struct register_candidates *candidates)
{
    struct register_candidates others;
    if (register_candidates_trust(candidates) >= REGISTER_SURE_NEAR)
        return 0;
    register_report(&job->task, 0.8, "elsewhere");
    int rc = register_candidates_find(&job->local, job->registration->pool,
                                      &candidates->best[0].fit.T, &others);
    for (uint32_t i = 0; rc == 0 && i < candidates->n; i++)
        register_candidates_support(&others, &candidates->best[i]);
    for (uint32_t i = 0; rc == 0 && i < others.n && candidates->n < REGISTER_MOST_CANDIDATES; i++)
        if (register_rotation_between(&others.best[i].fit.T, &candidates->best[0].fit.T) >
            REGISTER_ELSEWHERE_RAD)
            candidates->best[candidates->n++] = others.best[i];
    register_candidates_free(&others);
    return rc;
}

// From the given pose: GICP, which does not walk away from a pose that is nearly right. Where it
// fits poorly, the soft methods' wide anneal, and the better of both.
static int from_given(struct job *job)
{
    struct register_candidates candidates;
    const struct register_surfaces *surfaces = &job->registration->surfaces;
    const enum register_method method = job->settings->method;
    int rc = gicp_near(job, &candidates);
    if (rc == 0 && method != REGISTER_METHOD_GICP &&
        register_candidates_trust(&candidates) < REGISTER_SURE_NEAR) {
        rc = on_points(job);
        const struct se3 T = register_surfaces_local(surfaces, &job->out->T_target_source);
        if (rc == 0)
            rc = register_candidates_add(&job->local, &T, &candidates);
    }
    if (rc == 0)
        rc = look_elsewhere(job, &candidates);
    if (rc == 0 && register_candidates_trust(&candidates) >= REGISTER_TRUST)
        rc = polish(job, &candidates);
    if (rc == 0)
        answer(job, &candidates);
    return rc;
}

static int on_surfaces(struct job *job)
{
    return job->settings->start == REGISTER_START_MANY ? from_everywhere(job) : from_given(job);
}

// ICP converges wherever it stands: what the surfaces say of its answer counts.
static int doubt_icp(struct job *job)
{
    const struct register_surfaces *surfaces = &job->registration->surfaces;
    struct register_fit fit = {.T = register_surfaces_local(surfaces, &job->out->T_target_source)};
    struct register_worth worth;
    int rc = register_local_judge(&job->local, 0, &fit, 1, &worth);
    if (rc == 0 && register_has_surfaces(surfaces) && worth.score < REGISTER_SURE) {
        job->out->ambiguous = true;
        job->out->ambiguity = 1;
    }
    return rc;
}

int registration_run(struct registration *registration, const struct point_set *source,
                     const struct point_set *target, const struct register_settings *settings,
                     struct register_stop *stop, struct register_result *out,
                     const char **out_field)
{
    struct job job = {.registration = registration,
                      .source = source,
                      .target = target,
                      .settings = settings,
                      .stop = stop,
                      .task.stop = stop,
                      .out = out};
    const double start_ms = clock_monotonic_ms();
    memset(out, 0, sizeof *out);
    job.field = register_settings_check(settings, &registration->why);
    int rc = job.field ? -EINVAL : 0;
    if (rc == 0 && register_only_on_points(settings)) {
        rc = on_points(&job);
        if (rc == 0)
            register_doubt_points((const double[]){register_surfaces_extent(source),
                                                   register_surfaces_extent(target)},
                                  out);
    } else if (rc == 0) {
        rc = check_points(&job);
        if (rc == 0)
            rc = register_surfaces_build(&registration->surfaces, registration->ops,
                                         registration->device, registration->pool, source, target,
                                         stop);
        job.local = (struct register_local){registration->ops, registration->device,
                                            &registration->surfaces, stop};
        const double built_ms = clock_monotonic_ms();
        if (rc == 0)
            rc = register_on_surfaces(settings, &registration->surfaces) ? on_surfaces(&job)
                                                                         : on_points(&job);
        if (rc == 0 && settings->method == REGISTER_METHOD_ICP)
            rc = doubt_icp(&job);
        if (rc == 0) {
            out->anneal_ms = clock_monotonic_ms() - built_ms;
            register_doubt(&registration->surfaces, settings, out);
        }
    }
    if (rc == -EINVAL)
        log_to(&registration->log, LOG_LEVEL_ERROR, "register: %s: %s", job.field,
               registration->why);
    if (out_field)
        *out_field = job.field;
    out->elapsed_ms = clock_monotonic_ms() - start_ms;
    return rc;
}

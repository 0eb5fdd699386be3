// SPDX-License-Identifier: Apache-2.0
#include "gpu/register/annealing_schedule.h"

#include <math.h>

#define COARSE_POINTS 384u  // of each set
#define POLISH_POINTS 1600u // of each set
#define ICP_POINTS    4096u // of the source: ICP's first stage
// A run has converged when less than this is left, in standard deviations of the pose: what more
// iterations would change is a tenth of what the points' noise does.
#define TOLERANCE     0.1

void register_report(const struct register_task *task, double share, const char *stage)
{
    if (task->stop && task->stop->progress)
        task->stop->progress(task->stop->user, share, stage);
}

static uint32_t at_most(size_t n, size_t limit)
{
    return (uint32_t)(n < limit ? n : limit);
}

// Points of a stage: at most n of each set.
static struct register_anneal stage(const struct register_task *task, uint32_t n)
{
    const struct register_sets *sets = task->sets;
    struct register_anneal anneal = {
        .weighting = REGISTER_WEIGHTING_SINKHORN,
        .n_source = at_most(sets->side[REGISTER_SOURCE].n, n),
        .n_target = at_most(sets->side[REGISTER_TARGET].n, n),
        .n_inner = 1,
        // EM-ICP: one row and one column normalisation an iteration, v kept from the last one.
        // Softassign: as published, from scratch each time; sweeps as in the authors' program.
        .n_sweeps = task->settings->method == REGISTER_METHOD_SOFTASSIGN ? 3 : 1,
        .cold = task->settings->method == REGISTER_METHOD_SOFTASSIGN,
        .tolerance = TOLERANCE,
    };
    anneal.slack_spacing = register_sets_spacing(sets, anneal.n_source, anneal.n_target);
    anneal.presence_spacing = anneal.slack_spacing;
    return anneal;
}

static int anneal(const struct register_task *task, const struct register_anneal *settings,
                  struct register_run *runs, uint32_t n_runs)
{
    return task->ops->anneal(task->device, settings, runs, n_runs, task->stop);
}

// Few points and one sweep a step, without a cold start: what all the starts of a batch go through.
static int anneal_many(const struct register_task *task, uint32_t n_points, double sigma2_first,
                       double factor, double sigma2_last, struct register_run *runs, uint32_t n)
{
    struct register_anneal settings = stage(task, n_points);
    settings.n_sweeps = 1;
    settings.cold = false;
    settings.slack = 0.1;
    settings.sigma2_first = sigma2_first;
    settings.factor = factor;
    settings.sigma2_last = settings.presence_sigma2 = sigma2_last;
    settings.n_hold = 1;
    return anneal(task, &settings, runs, n);
}

int register_stage_coarse(const struct register_task *task, struct register_run *runs, uint32_t n)
{
    return anneal_many(task, COARSE_POINTS, 0.1, 0.75, 0.02, runs, n);
}

int register_stage_polish(const struct register_task *task, struct register_run *runs, uint32_t n)
{
    return anneal_many(task, POLISH_POINTS, 0.02, 0.7, 0.004, runs, n);
}

int register_stage_wide(const struct register_task *task, struct register_run *run)
{
    struct register_anneal wide = stage(task, POLISH_POINTS);
    const double *t = run->T.t_m;
    double apart2 = t[0] * t[0] + t[1] * t[1] + t[2] * t[2];
    wide.slack = 0.1;
    wide.sigma2_first = fmax(0.5, 0.25 * apart2);
    wide.factor = 0.85;
    wide.sigma2_last = 0.004;
    register_report(task, 0, "anneal");
    return anneal(task, &wide, run, 1);
}

int register_stage_finish(const struct register_task *task, struct register_run *runs,
                          uint32_t n_runs)
{
    const struct register_settings *settings = task->settings;
    struct register_anneal last = stage(task, 0);
    last.n_source = task->n_source;
    last.n_target = task->n_target;
    double spacing = register_sets_spacing(task->sets, last.n_source, last.n_target);
    double sigma = spacing * (settings->sigma_last > 0 ? settings->sigma_last : 0.3);
    last.form = settings->form;
    last.slack_spacing = last.presence_spacing = spacing;
    last.slack = settings->slack > 0 ? settings->slack : 0.03;
    last.sigma2_last = sigma * sigma;
    last.sigma2_first = task->sigma_first > 0 ? task->sigma_first * task->sigma_first : 0.004;
    last.sigma2_first = fmax(last.sigma2_first, last.sigma2_last);
    last.factor = 0.85;
    last.residual_ratio = 1.35;
    last.n_hold = settings->n_iterations ? settings->n_iterations : 150;
    last.presence_sigma2 = fmax(spacing * spacing, last.sigma2_last);
    last.planes = task->planes;
    if (last.form == REGISTER_FORM_STREAMING)
        return anneal(task, &last, runs, n_runs);
    int rc = 0;
    for (uint32_t i = 0; i < n_runs && rc == 0; i++)
        rc = anneal(task, &last, &runs[i], 1);
    return rc;
}

// How many points of a set lie about sigma apart; not fewer than the all-pairs stages used. Only
// the first REGISTER_SETS_SHUFFLED are a subsample.
static uint32_t points_for(const struct register_set *set, double sigma, uint32_t least)
{
    double n = (double)set->n * set->spacing * set->spacing / (sigma * sigma);
    n = n > least ? n : least;
    return n < fmin((double)set->n, REGISTER_SETS_SHUFFLED) ? (uint32_t)n : (uint32_t)set->n;
}

int register_stage_refine(const struct register_task *task, struct register_run *run)
{
    const struct register_sets *sets = task->sets;
    const struct register_set *source = &sets->side[REGISTER_SOURCE];
    const struct register_set *target = &sets->side[REGISTER_TARGET];
    uint32_t most_source = at_most(source->n, REGISTER_SETS_SHUFFLED);
    double spacing = register_sets_spacing(sets, most_source, target->n);
    struct register_nearest nearest = {
        .kind = REGISTER_NEAREST_TRUNCATED,
        .n_iterations = 60,
        .tolerance = TOLERANCE,
        .slack = 0.3,
        .planes = task->planes,
    };
    // The coarser points before this stage are right to a fraction of their spacing.
    double coarse = register_sets_spacing(sets, task->n_source, task->n_target);
    struct register_run kept = *run;
    for (double sigma = 0.5 * coarse; sigma > 0.7 * spacing; sigma *= 0.5) {
        nearest.sigma2 = sigma * sigma;
        nearest.n_source = at_most(points_for(source, sigma, task->n_source), most_source);
        nearest.n_target = points_for(target, sigma, task->n_target);
        // A level that another one follows need not go to the end of its way, and is not worth more
        // points than it asks for: all of them, where so many are not in random order.
        bool is_last = !(0.5 * sigma > 0.7 * spacing);
        if (!is_last && nearest.n_target > REGISTER_SETS_SHUFFLED)
            continue;
        nearest.tolerance = is_last ? TOLERANCE : 10 * TOLERANCE;
        int rc = task->ops->nearest(task->device, &nearest, run, task->stop);
        if (rc < 0)
            return rc;
    }
    run->presence_source = kept.presence_source;
    run->presence_target = kept.presence_target;
    return 0;
}

int register_stage_icp(const struct register_task *task, struct register_run *run)
{
    const struct register_sets *sets = task->sets;
    uint32_t most = at_most(sets->side[REGISTER_SOURCE].n, REGISTER_SETS_SHUFFLED);
    uint32_t limit = task->settings->n_iterations ? task->settings->n_iterations : 100;
    uint32_t before = run->n_iterations;
    struct register_nearest icp = {
        .kind = REGISTER_NEAREST_ICP,
        .n_target = (uint32_t)sets->side[REGISTER_TARGET].n,
        .planes = task->planes,
    };
    register_report(task, 0.5, "icp");
    // Few source points lead near the place where many do; all of them are only averaged over.
    for (uint32_t n = ICP_POINTS, done = 0; done < limit; n *= 8) {
        bool is_last = n > most / 4;
        icp.n_source = is_last ? most : n;
        icp.n_iterations = limit - done;
        icp.tolerance = is_last ? TOLERANCE : 10 * TOLERANCE;
        int rc = task->ops->nearest(task->device, &icp, run, task->stop);
        if (rc < 0)
            return rc;
        done = run->n_iterations - before;
        run->converged = run->converged && is_last;
        if (is_last)
            break;
    }
    // Overlap as the soft methods measure it.
    struct register_anneal measure = stage(task, 4096);
    measure.sigma2_first = measure.sigma2_last = measure.slack_spacing * measure.slack_spacing;
    measure.factor = 1;
    measure.slack = 0.03;
    measure.presence_sigma2 = measure.sigma2_last;
    struct register_run probe = *run;
    int rc = anneal(task, &measure, &probe, 1);
    run->presence_source = probe.presence_source;
    run->presence_target = probe.presence_target;
    return rc;
}

int register_stage_tamaki(const struct register_task *task, struct register_run *run)
{
    const struct register_sets *sets = task->sets;
    double unit2 = sets->radius_m * sets->radius_m;
    double spacing = sets->side[REGISTER_SOURCE].spacing;
    struct register_anneal paper = {
        .form = task->settings->form,
        .n_source = task->n_source,
        .n_target = task->n_target,
        .n_inner = 1,
        .tolerance = TOLERANCE,
        .presence_spacing = spacing,
        .presence_sigma2 = spacing * spacing,
    };
    if (task->settings->method == REGISTER_METHOD_EMICP) {
        paper.weighting = REGISTER_WEIGHTING_PAPER;
        paper.sigma2_first = 0.01 / unit2;
        paper.sigma2_last = 0.00001 / unit2;
        paper.factor = 0.9;
        paper.outlier_d2 = 0.01 / unit2;
    } else {
        // beta = 1 / T and m = exp(-beta (d^2 - alpha)): sigma^2 = T / 2.
        paper.weighting = REGISTER_WEIGHTING_SINKHORN;
        paper.sigma2_first = 50 * spacing * spacing;
        paper.factor = 0.95;
        paper.sigma2_last = paper.sigma2_first * pow(0.95, 99.5);
        paper.n_inner = 5;
        paper.n_sweeps = 3;
        paper.cold = true;
        paper.slack = 1;
        paper.slack_alpha = 3 * spacing * spacing;
    }
    register_report(task, 0, "anneal");
    return anneal(task, &paper, run, 1);
}

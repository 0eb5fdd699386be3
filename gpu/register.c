// SPDX-License-Identifier: Apache-2.0
// Which stages a registration is made of. All distances are in the unit of gpu/register_sets.h (the
// smaller robust radius); the stages hand a transform on, each with more points and a smaller
// sigma.
//
// Where the numbers come from: chosen on trials 00, 04, 08, 12, 16 of bunny_robustness by what
// still finds overlap 0.4 (the hardest level), then checked on the others. sigma^2 0.1 is the
// widest start that does not pull a partial view onto the other set's centre; the six shifted
// starts beside each rotation are what a partial view needs, whose centre is not the object's.
#include "gpu/register.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu/kernels/register_solve.h"
#include "gpu/register_sets.h"

#define START_SHIFT     0.7   // of the shifted starts, along the axes
#define N_SHIFTS        7     // none, and both ways along three axes
#define COARSE_POINTS   384u  // of each set
#define POLISH_POINTS   1600u // of each set
#define N_POLISHED      32u   // distinct basins that are polished ...
#define N_FINISHED      3u    // ... and finished with all points
#define BASIN_RAD       0.25  // nearer rotations are one basin while candidates are chosen
#define FINISH_RAD      0.35  // 20 degrees: what is nearer runs into one basin when polished
#define ELSEWHERE_RAD   0.175 // 10 degrees: another basin, for the ambiguity figure
#define RIVAL_STARTS    3u    // a start at one place looks for others from every third start only
#define RIVALS_POLISHED 12u
#define RIVAL_SHARE     0.6 // of the found pose's score: what comes nearer than that is finished

struct registration {
    const struct register_ops *ops;
    void *device;
    char description[160];
    struct log_sink log;
    const char *why; // of the last -EINVAL
    struct register_sets sets;
};

// One registration under way.
struct task {
    struct registration *registration;
    const struct register_settings *settings;
    struct register_stop *stop;
    uint32_t n_source, n_target; // points of the last all-pairs stage
    bool planes;
};

void register_config_default(struct register_config *out)
{
    *out = (struct register_config){.backend = GPU_BACKEND_AUTO, .cuda_device = -1};
}

void register_settings_default(struct register_settings *out)
{
    *out = (struct register_settings){.point_to_plane = true};
    out->T_target_source = se3_identity();
}

static const char *const method_names[] = {"emicp", "softassign", "icp"};

const char *register_method_name(enum register_method method)
{
    return (unsigned)method < 3 ? method_names[method] : NULL;
}

int register_method_parse(const char *name)
{
    for (int i = 0; i < 3; i++)
        if (!strcmp(name, method_names[i]))
            return i;
    return -1;
}

int registration_open(struct registration **out, const struct register_config *config)
{
    *out = NULL;
    struct registration *registration = calloc(1, sizeof *registration);
    if (!registration)
        return -ENOMEM;
    registration->log = config->log;
    registration->ops = &register_cpu_ops;
    int rc = -ENOTSUP;
#ifdef POSED_REGISTER_CUDA
    if (config->backend != GPU_BACKEND_CPU) {
        rc = register_cuda_ops.open(&registration->device, config);
        if (rc == 0)
            registration->ops = &register_cuda_ops;
    }
#endif
    if (rc < 0 && config->backend != GPU_BACKEND_CUDA)
        rc = register_cpu_ops.open(&registration->device, config);
    if (rc < 0) {
        if (rc == -ENOTSUP)
            log_to(&config->log, LOG_LEVEL_ERROR,
                   "registration: CUDA asked for, but this build has none");
        else
            log_to(&config->log, LOG_LEVEL_ERROR, "registration: no such device: %s",
                   strerror(-rc));
        free(registration);
        return rc;
    }
    registration->ops->describe(registration->device, registration->description,
                                sizeof registration->description);
    *out = registration;
    return 0;
}

void registration_close(struct registration **registration)
{
    if (!*registration)
        return;
    (*registration)->ops->close((*registration)->device);
    register_sets_free(&(*registration)->sets);
    free(*registration);
    *registration = NULL;
}

enum gpu_backend registration_backend(const struct registration *registration)
{
    return registration->ops->backend;
}

const char *registration_description(const struct registration *registration)
{
    return registration->description;
}

const char *registration_why(const struct registration *registration)
{
    return registration->why ? registration->why : "";
}

size_t registration_device_bytes(const struct registration *registration)
{
    const struct register_ops *ops = registration->ops;
    return ops->memory_bytes ? ops->memory_bytes(registration->device) : 0;
}

int register_stopped(const struct register_stop *stop)
{
    if (!stop)
        return 0;
    if (__atomic_load_n(&stop->requested, __ATOMIC_RELAXED))
        return -ECANCELED;
    if (stop->deadline_mono_ns) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((int64_t)now.tv_sec * 1000000000 + now.tv_nsec > stop->deadline_mono_ns)
            return -ETIME;
    }
    return 0;
}

static void report(const struct task *task, double share, const char *stage)
{
    if (task->stop && task->stop->progress)
        task->stop->progress(task->stop->user, share, stage);
}

static uint32_t at_most(size_t n, size_t limit)
{
    return (uint32_t)(n < limit ? n : limit);
}

// Points of a stage: at most n of each set.
static struct register_anneal stage(const struct task *task, uint32_t n)
{
    const struct register_sets *sets = &task->registration->sets;
    struct register_anneal anneal = {
        .weighting = REGISTER_WEIGHTING_SINKHORN,
        .n_source = at_most(sets->side[REGISTER_SOURCE].n, n),
        .n_target = at_most(sets->side[REGISTER_TARGET].n, n),
        .n_inner = 1,
        // EM-ICP: one row and one column normalisation an iteration, v kept from the last one.
        // Softassign: as published, from scratch each time; sweeps as in the authors' program.
        .n_sweeps = task->settings->method == REGISTER_METHOD_SOFTASSIGN ? 3 : 1,
        .cold = task->settings->method == REGISTER_METHOD_SOFTASSIGN,
        .tolerance = 1e-6,
    };
    anneal.slack_spacing = register_sets_spacing(sets, anneal.n_source, anneal.n_target);
    anneal.presence_spacing = anneal.slack_spacing;
    return anneal;
}

// Evenly spread rotations: the super-Fibonacci spiral (Alexa 2022).
static struct se3 start_rotation(uint32_t i, uint32_t n)
{
    double s = i + 0.5, r = sqrt(s / n), q = sqrt(1 - s / n);
    double a = 2 * M_PI * s / 1.4142135623730951, b = 2 * M_PI * s / 1.5337511687552043;
    const double xyzw[4] = {r * sin(a), r * cos(a), q * sin(b), q * cos(b)}, zero[3] = {0, 0, 0};
    return se3_from_quaternion(xyzw, zero);
}

static double score(const struct register_run *run)
{
    return run->determined ? run->presence_source * run->presence_target : 0;
}

// Whether a wrong pose would score as much: then no rival is needed to doubt it.
static bool by_chance(const struct register_run *run)
{
    return REGISTER_CHANCE_SCORE > REGISTER_AMBIGUOUS * score(run);
}

static int compare_runs(const void *a, const void *b)
{
    double x = score(a), y = score(b);
    return (x < y) - (x > y);
}

static double rotation_between(const struct se3 *a, const struct se3 *b)
{
    struct se3 d = se3_between(a, b);
    return se3_angle(&d);
}

// Best first, those that repeat a better one left out. Returns how many remain, at most `most`.
static uint32_t keep_distinct(struct register_run *runs, uint32_t n, uint32_t most,
                              double apart_rad)
{
    qsort(runs, n, sizeof *runs, compare_runs);
    uint32_t n_kept = 0;
    for (uint32_t i = 0; i < n && n_kept < most; i++) {
        bool repeated = false;
        for (uint32_t k = 0; k < n_kept && !repeated; k++)
            repeated = rotation_between(&runs[i].T, &runs[k].T) < apart_rad;
        if (!repeated)
            runs[n_kept++] = runs[i];
    }
    return n_kept;
}

static int anneal(const struct task *task, const struct register_anneal *settings,
                  struct register_run *runs, uint32_t n_runs)
{
    return task->registration->ops->anneal(task->registration->device, settings, runs, n_runs,
                                           task->stop);
}

// From everywhere: a coarse anneal of all starts. *out has room for one run more than *out_n, which
// are the best of distinct basins; the caller frees it, also after an error.
static int coarse_starts(const struct task *task, uint32_t n_starts, uint32_t n_kept,
                         struct register_run **out, uint32_t *out_n)
{
    uint32_t n_rotations = (n_starts + N_SHIFTS - 1) / N_SHIFTS;
    struct register_run *runs = calloc((size_t)n_rotations * N_SHIFTS + 1, sizeof *runs);
    *out = runs;
    if (!runs)
        return -ENOMEM;
    for (uint32_t i = 0; i < n_rotations * N_SHIFTS; i++) {
        uint32_t shift = i % N_SHIFTS;
        runs[i].T = start_rotation(i / N_SHIFTS, n_rotations);
        if (shift)
            runs[i].T.t_m[(shift - 1) / 2] = shift & 1 ? START_SHIFT : -START_SHIFT;
    }
    // This stage and the next work with a wider slack than the last one: they have to keep a basin.
    struct register_anneal coarse = stage(task, COARSE_POINTS);
    coarse.n_sweeps = 1;
    coarse.cold = false;
    coarse.slack = 0.1;
    coarse.sigma2_first = 0.1;
    coarse.factor = 0.75;
    coarse.sigma2_last = coarse.presence_sigma2 = 0.02;
    coarse.n_hold = 1;
    int rc = anneal(task, &coarse, runs, n_rotations * N_SHIFTS);
    if (rc == 0)
        *out_n = keep_distinct(runs, n_rotations * N_SHIFTS, n_kept, BASIN_RAD);
    return rc;
}

static int polish(const struct task *task, struct register_run *runs, uint32_t n)
{
    struct register_anneal fine = stage(task, POLISH_POINTS);
    fine.n_sweeps = 1;
    fine.cold = false;
    fine.slack = 0.1;
    fine.sigma2_first = 0.02;
    fine.factor = 0.7;
    fine.sigma2_last = fine.presence_sigma2 = 0.004;
    fine.n_hold = 1;
    return anneal(task, &fine, runs, n);
}

static uint32_t starts_wanted(const struct task *task)
{
    return task->settings->n_starts ? task->settings->n_starts : 1344;
}

static int search_starts(const struct task *task, struct register_run **out, uint32_t *out_n)
{
    report(task, 0, "starts");
    int rc = coarse_starts(task, starts_wanted(task), N_POLISHED, out, out_n);
    if (rc < 0)
        return rc;
    report(task, 0.5, "polish");
    rc = polish(task, *out, *out_n);
    if (rc == 0)
        *out_n = keep_distinct(*out, *out_n, N_FINISHED, FINISH_RAD);
    return rc;
}

// From one start: the anneal begins wide enough to reach over the distance between the centres.
static int search_from_start(const struct task *task, struct register_run *run)
{
    struct register_anneal wide = stage(task, POLISH_POINTS);
    const double *t = run->T.t_m;
    double apart2 = t[0] * t[0] + t[1] * t[1] + t[2] * t[2];
    wide.slack = 0.1;
    wide.sigma2_first = fmax(0.5, 0.25 * apart2);
    wide.factor = 0.85;
    wide.sigma2_last = 0.004;
    report(task, 0, "anneal");
    return anneal(task, &wide, run, 1);
}

// All points (of the all-pairs limit), down to the last sigma, until the steps are small.
static int finish(const struct task *task, struct register_run *runs, uint32_t n_runs)
{
    const struct register_settings *settings = task->settings;
    struct register_anneal last = stage(task, 0);
    last.n_source = task->n_source;
    last.n_target = task->n_target;
    double spacing = register_sets_spacing(&task->registration->sets, last.n_source, last.n_target);
    double sigma = spacing * (settings->sigma_last > 0 ? settings->sigma_last : 0.3);
    last.form = settings->form;
    last.slack_spacing = last.presence_spacing = spacing;
    last.slack = settings->slack > 0 ? settings->slack : 0.03;
    last.sigma2_last = sigma * sigma;
    last.sigma2_first = fmax(0.004, last.sigma2_last);
    last.factor = 0.95;
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

// Sets larger than the all-pairs limit: more points, near pairs only. As sigma falls, points are
// taken that lie about as far apart: a stage costs what its points cost, and a point about thirty
// pairs. Of the source 131,072 are enough, they are averaged over.
static int refine(const struct task *task, struct register_run *run)
{
    const struct register_sets *sets = &task->registration->sets;
    const struct register_set *source = &sets->side[REGISTER_SOURCE];
    const struct register_set *target = &sets->side[REGISTER_TARGET];
    uint32_t most_source = at_most(source->n, REGISTER_SETS_SHUFFLED);
    double spacing = register_sets_spacing(sets, most_source, target->n);
    struct register_nearest nearest = {
        .kind = REGISTER_NEAREST_TRUNCATED,
        .n_iterations = 30,
        .tolerance = 1e-5,
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
        int rc =
            task->registration->ops->nearest(task->registration->device, &nearest, run, task->stop);
        if (rc < 0)
            return rc;
    }
    run->presence_source = kept.presence_source;
    run->presence_target = kept.presence_target;
    return 0;
}

// A start at one place says nothing about others: a coarse look at them, the found pose among them.
// One that comes near is finished like it and becomes runs[1]. Returns 1 when there is one, 0 when
// there is none, or a negative errno.
static int find_rival(const struct task *task, struct register_run runs[2])
{
    struct register_run *others;
    uint32_t n = 0;
    report(task, 0.95, "elsewhere");
    int rc =
        coarse_starts(task, starts_wanted(task) / RIVAL_STARTS + 1, RIVALS_POLISHED, &others, &n);
    if (rc == 0) {
        others[n] = (struct register_run){.T = runs[0].T};
        rc = polish(task, others, n + 1);
    }
    double best = rc == 0 ? RIVAL_SHARE * score(&others[n]) : 0;
    bool found = false;
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        if (score(&others[i]) > best &&
            rotation_between(&others[i].T, &runs[0].T) > ELSEWHERE_RAD) {
            best = score(&others[i]);
            runs[1] = others[i];
            found = true;
        }
    free(others);
    if (rc == 0 && found)
        rc = finish(task, &runs[1], 1);
    return rc < 0 ? rc : found && rotation_between(&runs[1].T, &runs[0].T) > ELSEWHERE_RAD;
}

static int run_soft(const struct task *task, struct register_run **out, uint32_t *out_n)
{
    if (task->settings->start == REGISTER_START_MANY) {
        int rc = search_starts(task, out, out_n);
        if (rc < 0)
            return rc;
    } else {
        int rc = search_from_start(task, *out);
        if (rc < 0)
            return rc;
        *out_n = 1;
    }
    report(task, 0.7, "finish");
    int rc = finish(task, *out, *out_n);
    if (rc < 0)
        return rc;
    qsort(*out, *out_n, sizeof **out, compare_runs);
    const struct register_sets *sets = &task->registration->sets;
    if (task->n_source < sets->side[0].n || task->n_target < sets->side[1].n) {
        report(task, 0.9, "refine");
        return refine(task, *out);
    }
    return 0;
}

static int run_icp(const struct task *task, struct register_run **out, uint32_t *out_n)
{
    *out_n = 1;
    if (task->settings->start == REGISTER_START_MANY) {
        int rc = search_starts(task, out, out_n);
        if (rc < 0)
            return rc;
        *out_n = 1;
    }
    struct register_nearest icp = {
        .kind = REGISTER_NEAREST_ICP,
        .n_source = (uint32_t)task->registration->sets.side[REGISTER_SOURCE].n,
        .n_target = (uint32_t)task->registration->sets.side[REGISTER_TARGET].n,
        .n_iterations = task->settings->n_iterations ? task->settings->n_iterations : 100,
        .tolerance = 1e-6,
        .planes = task->planes,
    };
    report(task, 0.5, "icp");
    int rc = task->registration->ops->nearest(task->registration->device, &icp, *out, task->stop);
    if (rc < 0)
        return rc;
    // Overlap as the soft methods measure it.
    struct register_anneal measure = stage(task, 4096);
    measure.sigma2_first = measure.sigma2_last = measure.slack_spacing * measure.slack_spacing;
    measure.factor = 1;
    measure.slack = 0.03;
    measure.presence_sigma2 = measure.sigma2_last;
    struct register_run probe = **out;
    rc = anneal(task, &measure, &probe, 1);
    (*out)->presence_source = probe.presence_source;
    (*out)->presence_target = probe.presence_target;
    return rc;
}

// The authors' program: their schedule, all points, one start.
static int run_tamaki(const struct task *task, struct register_run *run)
{
    const struct register_sets *sets = &task->registration->sets;
    double unit2 = sets->radius_m * sets->radius_m;
    double spacing = sets->side[REGISTER_SOURCE].spacing;
    struct register_anneal paper = {
        .form = task->settings->form,
        .n_source = task->n_source,
        .n_target = task->n_target,
        .n_inner = 1,
        .tolerance = 1e-6,
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
    report(task, 0, "anneal");
    return anneal(task, &paper, run, 1);
}

// The negative of a rounding: what may not be negative, NaN or too large.
static bool in_range(double value, double most)
{
    return value >= 0 && value <= most;
}

// NULL, or the field that is wrong and why.
static const char *check_settings(const struct register_settings *settings, const char **out_why)
{
    *out_why = "unknown value";
    if ((unsigned)settings->method > REGISTER_METHOD_ICP)
        return "method";
    if ((unsigned)settings->form > REGISTER_FORM_DENSE)
        return "form";
    if ((unsigned)settings->preset > REGISTER_PRESET_TAMAKI)
        return "preset";
    if ((unsigned)settings->start > REGISTER_START_MANY)
        return "start";
    *out_why = "the preset tamaki is for emicp and softassign";
    if (settings->preset == REGISTER_PRESET_TAMAKI && settings->method == REGISTER_METHOD_ICP)
        return "preset";
    *out_why = "the preset tamaki has one start";
    if (settings->preset == REGISTER_PRESET_TAMAKI && settings->start == REGISTER_START_MANY)
        return "start";
    *out_why = "0 (the default) to 10 is wanted";
    if (!in_range(settings->slack, 10))
        return "slack";
    *out_why = "0 (the default) or 0.05 to 10 is wanted";
    if (settings->sigma_last != 0 &&
        (!in_range(settings->sigma_last, 10) || settings->sigma_last < 0.05))
        return "sigma_last";
    *out_why = "0 (the default) to 10000 is wanted";
    if (settings->n_iterations > 10000)
        return "n_iterations";
    *out_why = "0 (the default) or at least 64 is wanted";
    if (settings->n_points != 0 && settings->n_points < 64)
        return "n_points";
    *out_why = "0 (the default) to 100000 is wanted";
    if (settings->n_starts > 100000)
        return "n_starts";
    *out_why = "no rotation and finite translation";
    const struct se3 *T = &settings->T_target_source;
    for (int i = 0; i < 3; i++) {
        double dot = 0;
        for (int k = 0; k < 3; k++)
            dot += T->r[3 * i + k] * T->r[3 * i + k];
        if (!(fabs(dot - 1) < 1e-3) || !isfinite(T->t_m[i]))
            return "initial";
    }
    return NULL;
}

static void invert6(const double a[36], double out[36])
{
    for (int j = 0; j < 6; j++) {
        double unit[6] = {0}, column[6];
        unit[j] = 1;
        bool solved = register_solve6(a, unit, column);
        for (int i = 0; i < 6; i++)
            out[6 * i + j] = solved ? column[i] : (i == j ? 1e6 : 0);
    }
}

// Covariance in metres about the target's origin: of the normalised twist, scaled, then moved by
// the adjoint of the shift to the target's centre.
static void fill_covariance(const struct register_sets *sets, const struct register_run *run,
                            double out[36])
{
    double c[36], ad[36], unit = sets->radius_m;
    invert6(run->information, c);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            c[6 * i + j] *= run->residual2 / 3 * (i < 3 ? unit : 1) * (j < 3 ? unit : 1);
    struct se3 shift = se3_identity();
    memcpy(shift.t_m, sets->side[REGISTER_TARGET].centre_m, sizeof shift.t_m);
    se3_adjoint(&shift, ad);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++) {
            double sum = 0;
            for (int k = 0; k < 6; k++)
                for (int l = 0; l < 6; l++)
                    sum += ad[6 * i + k] * c[6 * k + l] * ad[6 * j + l];
            out[6 * i + j] = sum;
        }
}

static void fill_result(const struct register_sets *sets, const struct register_run *runs,
                        uint32_t n_runs, struct register_result *out)
{
    memset(out, 0, sizeof *out);
    out->T_target_source = register_sets_metric(sets, &runs[0].T);
    out->residual_rms_m = sets->radius_m * sqrt(runs[0].residual2);
    out->overlap_source = runs[0].presence_source;
    out->overlap_target = runs[0].presence_target;
    out->n_iterations = runs[0].n_iterations;
    out->converged = runs[0].converged && runs[0].determined;
    fill_covariance(sets, &runs[0], out->covariance);
    out->T_second = se3_identity();
    double second = REGISTER_CHANCE_SCORE, best = out->overlap_source * out->overlap_target;
    for (uint32_t i = 1; i < n_runs; i++)
        if (rotation_between(&runs[i].T, &runs[0].T) > ELSEWHERE_RAD) {
            second = fmax(second, score(&runs[i]));
            out->has_second = true;
            out->T_second = register_sets_metric(sets, &runs[i].T);
            break;
        }
    out->ambiguity = second < best ? second / best : 1;
    out->ambiguous = out->ambiguity > REGISTER_AMBIGUOUS;
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

// Checks, normalises and loads the sets. *out_field names what is wrong.
static int load_sets(struct registration *registration, const struct point_set *source,
                     const struct point_set *target, const struct register_stop *stop,
                     const char **out_field)
{
    enum register_side side;
    const char *why = NULL;
    int rc = register_sets_fill(&registration->sets, source, target, stop, &side, &why);
    if (rc == -EINVAL) {
        *out_field = side == REGISTER_SOURCE ? "source" : "target";
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
    return rc;
}

int registration_run(struct registration *registration, const struct point_set *source,
                     const struct point_set *target, const struct register_settings *settings,
                     struct register_stop *stop, struct register_result *out,
                     const char **out_field)
{
    double start_ms = now_ms();
    const char *field = check_settings(settings, &registration->why);
    int rc = field ? -EINVAL : load_sets(registration, source, target, stop, &field);
    if (rc == -EINVAL)
        log_to(&registration->log, LOG_LEVEL_ERROR, "register: %s: %s", field, registration->why);
    if (out_field)
        *out_field = field;
    if (rc < 0)
        return rc;
    const struct register_sets *sets = &registration->sets;
    bool all = settings->preset == REGISTER_PRESET_TAMAKI || settings->form == REGISTER_FORM_DENSE;
    size_t most = settings->n_points ? settings->n_points : all ? REGISTER_MAX_POINTS : 4096;
    struct task task = {
        .registration = registration,
        .settings = settings,
        .stop = stop,
        .n_source = at_most(sets->side[REGISTER_SOURCE].n, most),
        .n_target = at_most(sets->side[REGISTER_TARGET].n, most),
        .planes = settings->point_to_plane && sets->side[REGISTER_TARGET].nx != NULL,
    };
    uint32_t n_runs = 1;
    double loaded_ms = now_ms();
    struct register_run pair[2] = {
        {.T = register_sets_normalise(sets, &settings->T_target_source)}};
    struct register_run *runs = settings->start == REGISTER_START_MANY ? NULL : pair;
    if (settings->preset == REGISTER_PRESET_TAMAKI)
        rc = run_tamaki(&task, runs);
    else if (settings->method == REGISTER_METHOD_ICP)
        rc = run_icp(&task, &runs, &n_runs);
    else
        rc = run_soft(&task, &runs, &n_runs);
    if (rc == 0 && runs == pair && settings->preset == REGISTER_PRESET_DEFAULT &&
        !by_chance(&pair[0])) {
        rc = find_rival(&task, pair);
        n_runs = rc > 0 ? 2 : 1;
        rc = rc < 0 ? rc : 0;
    }
    if (rc == 0) {
        fill_result(sets, runs, n_runs, out);
        out->elapsed_ms = now_ms() - start_ms;
        out->anneal_ms = now_ms() - loaded_ms;
    }
    if (runs != pair)
        free(runs);
    return rc;
}

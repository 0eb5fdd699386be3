// SPDX-License-Identifier: Apache-2.0
// posed-bench pairs: registers the pairs of a folder whose truth is known and says how many are
// right, which of the wrong ones are flagged, and what a pair costs.
//
// Folders: `groundtruth.txt` with `i j overlap` and a 4x4 for each pair (cloud j into i) beside
// cloud_bin_<i>.ply, or a `.conf` of scans (`bmesh file tx ty tz qx qy qz qw`, the CONJUGATE
// rotation), whose neighbours up to --apart places away are the pairs. --rooms and --statues
// generate them (register_pairs.h); what is printed of them is what the flags' thresholds rest on.
#include <argp.h>
#include <errno.h>
#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "capture/cloud/cloud.h"
#include "gpu/register/register.h"
#include "gpu/register/verdict.h"
#include "proto/clock.h"
#include "proto/se3.h"
#include "tools/argument.h"
#include "tools/bench/bench.h"
#include "tools/bench/register_clutter.h"
#include "tools/bench/register_pairs.h"

#define MOST_PAIRS  512u
#define MOST_CLOUDS 512u

struct pair {
    unsigned source, target; // clouds
    double overlap;          // NAN: unknown
    struct se3 truth;        // T_target_source
};

struct pairs {
    char *paths[MOST_CLOUDS];
    struct cloud clouds[MOST_CLOUDS];
    struct pair pair[MOST_PAIRS];
    unsigned n_clouds, n_pairs;
};

struct options {
    struct register_config config;
    struct register_settings settings;
    const char *folder;
    unsigned n_apart, n_rooms, n_statues, seed;
    double limit_deg, limit_m, start_deg, start_m, least_overlap;
    bool verbose, from_truth, clutter;
};

static void print_log(void *user, enum log_level level, const char *line)
{
    (void)user;
    if (level <= LOG_LEVEL_WARNING)
        fprintf(stderr, "posed-bench: %s\n", line);
}

static double clock_ms(clockid_t id)
{
    return (double)clock_read_ns(id) * 1e-6;
}

static unsigned add_cloud(struct pairs *pairs, const char *path)
{
    for (unsigned i = 0; i < pairs->n_clouds; i++)
        if (!strcmp(pairs->paths[i], path))
            return i;
    if (pairs->n_clouds == MOST_CLOUDS)
        return MOST_CLOUDS;
    pairs->paths[pairs->n_clouds] = strdup(path);
    return pairs->n_clouds++;
}

static int read_groundtruth(const char *folder, FILE *file, struct pairs *pairs)
{
    char line[256], path[1024];
    unsigned i, j;
    double overlap;
    while (fgets(line, sizeof line, file)) {
        if (line[0] == '#' || sscanf(line, "%u %u %lf", &i, &j, &overlap) != 3)
            continue;
        if (pairs->n_pairs == MOST_PAIRS)
            return -EFBIG;
        struct pair *pair = &pairs->pair[pairs->n_pairs];
        pair->overlap = overlap;
        for (int row = 0; row < 4; row++) {
            double v[4];
            if (!fgets(line, sizeof line, file) ||
                sscanf(line, "%lf %lf %lf %lf", &v[0], &v[1], &v[2], &v[3]) != 4)
                return -EINVAL;
            for (int a = 0; row < 3 && a < 3; a++)
                pair->truth.r[3 * row + a] = v[a];
            if (row < 3)
                pair->truth.t_m[row] = v[3];
        }
        snprintf(path, sizeof path, "%s/cloud_bin_%u.ply", folder, i);
        pair->target = add_cloud(pairs, path);
        snprintf(path, sizeof path, "%s/cloud_bin_%u.ply", folder, j);
        pair->source = add_cloud(pairs, path);
        if (pair->source == MOST_CLOUDS || pair->target == MOST_CLOUDS)
            return -EFBIG;
        pairs->n_pairs++;
    }
    return 0;
}

static int read_conf(const char *folder, FILE *file, unsigned n_apart, struct pairs *pairs)
{
    char line[512], name[256], path[1024];
    static struct se3 world[MOST_CLOUDS];
    while (fgets(line, sizeof line, file)) {
        double t[3], q[4];
        if (sscanf(line, "bmesh %255s %lf %lf %lf %lf %lf %lf %lf", name, &t[0], &t[1], &t[2],
                   &q[0], &q[1], &q[2], &q[3]) != 8)
            continue;
        for (int a = 0; a < 3; a++)
            q[a] = -q[a];
        snprintf(path, sizeof path, "%s/%s", folder, name);
        const unsigned i = add_cloud(pairs, path);
        if (i == MOST_CLOUDS)
            return -EFBIG;
        world[i] = se3_from_quaternion(q, t);
    }
    for (unsigned i = 0; i < pairs->n_clouds; i++)
        for (unsigned j = i + 1; j < pairs->n_clouds && j - i <= n_apart; j++) {
            if (pairs->n_pairs == MOST_PAIRS)
                return -EFBIG;
            pairs->pair[pairs->n_pairs++] =
                (struct pair){j, i, NAN, se3_between(&world[i], &world[j])};
        }
    return 0;
}

static int read_pairs(const struct options *options, struct pairs *pairs)
{
    char path[1024];
    glob_t found;
    snprintf(path, sizeof path, "%s/*.conf", options->folder);
    const bool has_conf = glob(path, 0, NULL, &found) == 0 && found.gl_pathc > 0;
    snprintf(path, sizeof path, "%s/groundtruth.txt", options->folder);
    FILE *file = fopen(has_conf ? found.gl_pathv[0] : path, "r");
    int rc = file ? 0 : -errno;
    if (has_conf || rc == 0)
        globfree(&found);
    if (rc < 0)
        return rc;
    rc = has_conf ? read_conf(options->folder, file, options->n_apart, pairs)
                  : read_groundtruth(options->folder, file, pairs);
    fclose(file);
    for (unsigned i = 0; rc == 0 && i < pairs->n_clouds; i++)
        rc = cloud_read(pairs->paths[i], &options->config.log, &pairs->clouds[i]);
    return rc;
}

// How far T moves the source's points from where they belong, at their mean.
static double error_m(const struct cloud *source, const struct se3 *T, const struct se3 *truth)
{
    double mean[3] = {0, 0, 0}, a[3], b[3], sum = 0;
    for (size_t i = 0; i < source->n_points; i++) {
        mean[0] += source->x_m[i];
        mean[1] += source->y_m[i];
        mean[2] += source->z_m[i];
    }
    for (int k = 0; k < 3; k++)
        mean[k] /= (double)source->n_points;
    se3_apply(T, mean, a);
    se3_apply(truth, mean, b);
    for (int k = 0; k < 3; k++)
        sum += (a[k] - b[k]) * (a[k] - b[k]);
    return sqrt(sum);
}

// The truth, turned about the source's middle and shifted: where a local method starts.
static struct se3 start_near(const struct options *options, const struct se3 *truth, unsigned seed)
{
    double twist[6];
    for (int a = 0; a < 6; a++) {
        seed = seed * 1664525u + 1013904223u;
        twist[a] = ((seed >> 8 & 1) ? 1 : -1) / sqrt(3.0) *
                   (a < 3 ? options->start_m : options->start_deg * M_PI / 180);
    }
    const struct se3 moved = se3_exp(twist);
    return se3_compose(truth, &moved);
}

// What was counted, and the trust of each answer (register_candidates_trust, read off ambiguity).
struct outcome {
    unsigned n, n_right, n_wrong_silent, n_right_flagged;
    double sum_ms, sum_cpu_ms, sum_deg, sum_m;
    double right_trust[MOST_PAIRS], wrong_trust[MOST_PAIRS];
    unsigned n_wrong;
};

static double trust_of(const struct register_result *result)
{
    return REGISTER_AMBIGUOUS * REGISTER_TRUST / fmax(result->ambiguity, 1e-9);
}

// --clutter: what stands in the pieces, instead of registering them.
static int print_clutter(const struct bench_pair *pair)
{
    struct bench_clutter of[2];
    int rc = bench_clutter_of(pair->target, &of[0]);
    rc = rc < 0 ? rc : bench_clutter_of(pair->source, &of[1]);
    for (int k = 0; k < 2 && rc == 0; k++)
        printf("%-28s %zu points, %.0f surfaces, %.0f %% in three planes, %.0f %% bent\n",
               k ? pair->source_name : pair->target_name,
               k ? pair->source->n_points : pair->target->n_points, of[k].n_surfaces,
               1e2 * of[k].walls, 1e2 * of[k].bent);
    fflush(stdout);
    return rc;
}

static int judge(struct registration *registration, const struct options *options,
                 const struct bench_pair *pair, struct outcome *io)
{
    if (options->clutter)
        return print_clutter(pair);
    const struct point_set source = cloud_points(pair->source);
    const struct point_set target = cloud_points(pair->target);
    struct register_settings settings = options->settings;
    struct register_result result;
    if (options->from_truth && !pair->strangers)
        settings.T_target_source = start_near(options, &pair->truth, io->n);
    const double start_ms = clock_ms(CLOCK_MONOTONIC);
    const double start_cpu_ms = clock_ms(CLOCK_PROCESS_CPUTIME_ID);
    int rc = registration_run(registration, &source, &target, &settings, NULL, &result, NULL);
    const double ms = clock_ms(CLOCK_MONOTONIC) - start_ms;
    const double cpu_ms = clock_ms(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ms;
    if (rc < 0)
        return rc;
    const struct se3 apart = se3_between(&pair->truth, &result.T_target_source);
    const double deg = pair->strangers ? NAN : se3_angle(&apart) * 180 / M_PI;
    const double m =
        pair->strangers ? NAN : error_m(pair->source, &result.T_target_source, &pair->truth);
    const bool right = deg < options->limit_deg && m < options->limit_m;
    const bool flagged = result.ambiguous || !result.converged;
    io->n++;
    if (right)
        io->right_trust[io->n_right++] = trust_of(&result);
    else
        io->wrong_trust[io->n_wrong++] = trust_of(&result);
    io->n_wrong_silent += !right && !flagged;
    io->n_right_flagged += right && flagged;
    io->sum_ms += ms;
    io->sum_cpu_ms += cpu_ms;
    io->sum_deg += right ? deg : 0;
    io->sum_m += right ? m : 0;
    if (options->verbose)
        printf("%-28s %-28s %.3f %s %7.3f deg %7.1f mm, overlap %.3f %.3f, ambiguity %.2f%s%s, "
               "trust %.3f, %u iterations, %.0f ms (%.0f of CPU)\n",
               pair->target_name, pair->source_name, pair->overlap, right ? "right" : "WRONG", deg,
               1e3 * m, result.overlap_source, result.overlap_target, result.ambiguity,
               result.ambiguous ? " ambiguous" : "", result.converged ? "" : " not converged",
               trust_of(&result), result.n_iterations, ms, cpu_ms);
    fflush(stdout);
    return 0;
}

static void print_outcome(const char *what, const struct outcome *o)
{
    const unsigned n = o->n ? o->n : 1, n_right = o->n_right ? o->n_right : 1;
    printf("%s%u pairs, right %u (mean %.3f deg, %.2f mm), wrong not flagged %u of %u, right "
           "flagged %u of %u, %.1f ms a pair, %.1f of CPU\n",
           what, o->n, o->n_right, o->sum_deg / n_right, 1e3 * o->sum_m / n_right,
           o->n_wrong_silent, o->n - o->n_right, o->n_right_flagged, o->n_right, o->sum_ms / n,
           o->sum_cpu_ms / n);
}

// What other thresholds would flag: REGISTER_TRUST rests on this.
static void print_thresholds(const struct outcome *o)
{
    for (double limit = 0.07; limit < 0.36; limit += limit < 0.12 ? 0.01 : 0.04) {
        unsigned n_silent = 0, n_flagged = 0;
        for (unsigned i = 0; i < o->n_wrong; i++)
            n_silent += o->wrong_trust[i] >= limit;
        for (unsigned i = 0; i < o->n_right; i++)
            n_flagged += o->right_trust[i] < limit;
        printf("trust below %.2f flagged: wrong not flagged %u of %u, right flagged %u of %u\n",
               limit, n_silent, o->n_wrong, n_flagged, o->n_right);
    }
}

static int run(struct registration *registration, const struct options *options,
               struct pairs *pairs)
{
    static struct outcome outcome;
    int rc = 0;
    for (unsigned i = 0; i < pairs->n_pairs && rc == 0; i++) {
        const struct pair *pair = &pairs->pair[i];
        const struct bench_pair named = {strrchr(pairs->paths[pair->source], '/') + 1,
                                         strrchr(pairs->paths[pair->target], '/') + 1,
                                         &pairs->clouds[pair->source],
                                         &pairs->clouds[pair->target],
                                         pair->overlap,
                                         false,
                                         pair->truth};
        if (!(pair->overlap < options->least_overlap))
            rc = judge(registration, options, &named, &outcome);
    }
    if (rc == 0 && !options->clutter)
        print_outcome("", &outcome);
    return rc;
}

// Pairs that can be registered, strangers, and what overlaps less than 0.3, counted apart.
static int run_generated(struct registration *registration, const struct options *options)
{
    static struct outcome outcomes[3], all;
    static const char *const names[3] = {"overlap 0.3 and more: ", "less: ", "strangers: "};
    const unsigned n = options->n_rooms ? options->n_rooms : options->n_statues;
    int rc = 0;
    for (unsigned i = 0; i < n && rc == 0; i++) {
        struct bench_generated made;
        const uint64_t seed = (uint64_t)options->seed * 100000 + i;
        rc = options->n_rooms ? bench_generate_rooms(seed, &made)
                              : bench_generate_statues(seed, &made);
        if (rc < 0)
            break;
        const struct bench_pair pair = {"source",     "target",       &made.source, &made.target,
                                        made.overlap, made.strangers, made.truth};
        struct outcome *outcome = &outcomes[made.strangers ? 2 : made.overlap < 0.3];
        rc = judge(registration, options, &pair, outcome);
        bench_generated_free(&made);
    }
    for (int k = 0; k < 3 && !options->clutter; k++) {
        print_outcome(names[k], &outcomes[k]);
        memcpy(all.right_trust + all.n_right, outcomes[k].right_trust,
               outcomes[k].n_right * sizeof *all.right_trust);
        memcpy(all.wrong_trust + all.n_wrong, outcomes[k].wrong_trust,
               outcomes[k].n_wrong * sizeof *all.wrong_trust);
        all.n_right += outcomes[k].n_right;
        all.n_wrong += outcomes[k].n_wrong;
    }
    if (!options->clutter)
        print_thresholds(&all);
    return rc;
}

enum {
    KEY_METHOD = 256,
    KEY_START,
    KEY_BACKEND,
    KEY_THREADS,
    KEY_APART,
    KEY_LIMIT_DEG,
    KEY_LIMIT_M,
    KEY_START_DEG,
    KEY_START_M,
    KEY_OVERLAP,
    KEY_ROOMS,
    KEY_STATUES,
    KEY_SEED,
    KEY_CLUTTER,
};

static const struct argp_option argp_options[] = {
    {"method", KEY_METHOD, "emicp|softassign|icp|gicp", 0, "what registers them (default emicp)",
     0},
    {"start", KEY_START, "identity|many", 0, "where it starts (default identity)", 0},
    {"backend", KEY_BACKEND, "auto|cpu|cuda", 0, "what computes (default auto)", 0},
    {"threads", KEY_THREADS, "N", 0, "CPU threads (default: all cores)", 0},
    {"apart", KEY_APART, "N", 0, "of scans in a .conf: so many places apart (default 1)", 0},
    {"limit-deg", KEY_LIMIT_DEG, "DEG", 0, "right below this (default 5)", 0},
    {"limit-m", KEY_LIMIT_M, "M", 0, "and below this (default 0.05)", 0},
    {"near-deg", KEY_START_DEG, "DEG", 0, "start so far from the truth", 0},
    {"near-m", KEY_START_M, "M", 0, "and shifted by so much", 0},
    {"overlap", KEY_OVERLAP, "SHARE", 0, "only pairs that overlap by this at least", 0},
    {"rooms", KEY_ROOMS, "N", 0, "N generated pairs of pieces of rooms instead of FOLDER", 0},
    {"statues", KEY_STATUES, "N", 0, "N generated pairs of scans of objects", 0},
    {"seed", KEY_SEED, "N", 0, "of what is generated (default 1)", 0},
    {"clutter", KEY_CLUTTER, NULL, 0,
     "how much stands in the pieces (register_clutter.h), instead of registering them", 0},
    {"verbose", 'v', NULL, 0, "a line for each pair", 0},
    {0},
};

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct options *options = state->input;
    switch (key) {
    case KEY_METHOD:
        options->settings.method =
            (enum register_method)argument_choose(state, "method", value, bench_methods);
        return 0;
    case KEY_START:
        options->settings.start =
            (enum register_start)argument_choose(state, "start", value, bench_starts);
        return 0;
    case KEY_BACKEND:
        options->config.backend =
            (enum gpu_backend)argument_choose(state, "backend", value, bench_backends);
        return 0;
    case KEY_THREADS:
        options->config.n_threads = (unsigned)argument_count(state, "threads", value, 0, 1024);
        return 0;
    case KEY_APART:
        options->n_apart = (unsigned)argument_count(state, "apart", value, 1, MOST_CLOUDS);
        return 0;
    case KEY_LIMIT_DEG:
        options->limit_deg = argument_number(state, "limit-deg", value, 0, 180);
        return 0;
    case KEY_LIMIT_M:
        options->limit_m = argument_number(state, "limit-m", value, 0, 1e6);
        return 0;
    case KEY_START_DEG:
        options->start_deg = argument_number(state, "near-deg", value, 0, 180);
        options->from_truth = true;
        return 0;
    case KEY_START_M:
        options->start_m = argument_number(state, "near-m", value, 0, 1e6);
        options->from_truth = true;
        return 0;
    case KEY_OVERLAP:
        options->least_overlap = argument_number(state, "overlap", value, 0, 1);
        return 0;
    case KEY_CLUTTER:
        options->clutter = true;
        return 0;
    case KEY_ROOMS:
        options->n_rooms = (unsigned)argument_count(state, "rooms", value, 1, MOST_PAIRS);
        return 0;
    case KEY_STATUES:
        options->n_statues = (unsigned)argument_count(state, "statues", value, 1, MOST_PAIRS);
        return 0;
    case KEY_SEED:
        options->seed = (unsigned)argument_count(state, "seed", value, 0, UINT32_MAX);
        return 0;
    case 'v':
        options->verbose = true;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 0)
            argp_error(state, "more than one FOLDER");
        options->folder = value;
        return 0;
    case ARGP_KEY_END:
        if (!options->folder && !options->n_rooms && !options->n_statues)
            argp_error(state, "FOLDER, --rooms or --statues is needed");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int bench_pairs(int argc, char **argv)
{
    static const struct argp argp = {.options = argp_options,
                                     .parser = parse_option,
                                     .args_doc = "[FOLDER]",
                                     .doc = "Registers pairs whose truth is known."};
    static struct pairs pairs;
    struct options options = {.n_apart = 1, .seed = 1, .limit_deg = 5, .limit_m = 0.05};
    register_config_default(&options.config);
    register_settings_default(&options.settings);
    options.config.log.write = print_log;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    struct registration *registration;
    if (registration_open(&registration, &options.config) < 0)
        return 1;
    int rc = options.folder ? read_pairs(&options, &pairs) : 0;
    if (rc == 0)
        rc = options.folder ? run(registration, &options, &pairs)
                            : run_generated(registration, &options);
    if (rc < 0)
        fprintf(stderr, "posed-bench: pairs: %s: %s\n",
                options.folder ? options.folder : "generated", strerror(-rc));
    for (unsigned i = 0; i < pairs.n_clouds; i++) {
        cloud_free(&pairs.clouds[i]);
        free(pairs.paths[i]);
    }
    registration_close(&registration);
    return rc < 0;
}

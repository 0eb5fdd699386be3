// SPDX-License-Identifier: Apache-2.0
// posed-bench register: times a registration on a synthetic pair, or runs the trials of a
// robustness folder (groundtruth.txt, source.ply, <level>_<trial>.ply; see --data) and prints the
// error of each level.
#include <argp.h>
#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "capture/cloud/cloud.h"
#include "gpu/register/register.h"
#include "proto/clock.h"
#include "proto/se3.h"
#include "tools/argument.h"
#include "tools/bench/bench.h"

struct options {
    struct register_config config;
    struct register_settings settings;
    unsigned n_points, n_repeats, n_stops;
    const char *data, *select;
    bool json, verbose;
};

static void print_log(void *user, enum log_level level, const char *line)
{
    (void)user;
    if (level <= LOG_LEVEL_WARNING)
        fprintf(stderr, "posed-bench: %s\n", line);
}

static double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

// A closed bumpy surface of the bunny's size (0.15 m), without symmetry.
static void surface_point(uint64_t *seed, double out[3])
{
    double z = 2 * uniform(seed) - 1, phi = 2 * M_PI * uniform(seed), s = sqrt(1 - z * z);
    double n[3] = {s * cos(phi), s * sin(phi), z};
    double r = 0.06 * (1 + 0.25 * sin(3 * n[0] + 1) + 0.2 * cos(4 * n[1] + 2 * n[2]) +
                       0.15 * sin(5 * n[2] - 2 * n[0]));
    out[0] = r * n[0];
    out[1] = 0.8 * r * n[1];
    out[2] = 1.2 * r * n[2] + 0.1;
}

// Different random points of one surface, the target moved by T.
static int make_cloud(struct cloud *out, size_t n, uint64_t seed, const struct se3 *T)
{
    int rc = cloud_alloc(out, n, false);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        double p[3], q[3];
        surface_point(&seed, p);
        se3_apply(T, p, q);
        out->x_m[i] = (float)q[0];
        out->y_m[i] = (float)q[1];
        out->z_m[i] = (float)q[2];
    }
    return rc;
}

static double error_deg(const struct se3 *a, const struct se3 *b)
{
    struct se3 d = se3_between(a, b);
    return se3_angle(&d) * 180 / M_PI;
}

static double error_m(const struct se3 *a, const struct se3 *b)
{
    double sum = 0;
    for (int i = 0; i < 3; i++)
        sum += (a->t_m[i] - b->t_m[i]) * (a->t_m[i] - b->t_m[i]);
    return sqrt(sum);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double peak_mb(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (double)usage.ru_maxrss / 1024 : NAN;
}

// Ends registrations by deadlines spread over the time that one takes. Returns the longest time
// from a deadline to the return, in ms, or a negative errno.
static double longest_reaction_ms(struct registration *registration, const struct options *options,
                                  const struct point_set *source, const struct point_set *target,
                                  double whole_ms)
{
    double longest_ms = 0;
    for (unsigned i = 0; i < options->n_stops; i++) {
        struct register_result result;
        double end_ms = clock_monotonic_ms() + whole_ms * (i + 0.5) / options->n_stops;
        struct register_stop stop = {.deadline_mono_ns = (int64_t)(end_ms * 1e6)};
        int rc = registration_run(registration, source, target, &options->settings, &stop, &result,
                                  NULL);
        if (rc < 0 && rc != -ETIME)
            return rc;
        if (rc == -ETIME)
            longest_ms = fmax(longest_ms, clock_monotonic_ms() - end_ms);
    }
    return longest_ms;
}

static int bench_time(struct registration *registration, const struct options *options)
{
    const double twist[6] = {0.01, -0.008, 0.012, 0.2, -0.15, 0.1};
    struct se3 T = se3_exp(twist), identity = se3_identity();
    struct cloud source = {0}, target = {0};
    struct register_result result = {0};
    double *times = calloc(options->n_repeats, sizeof *times);
    int rc = times ? make_cloud(&source, options->n_points, 1, &identity) : -ENOMEM;
    if (rc == 0)
        rc = make_cloud(&target, options->n_points, 2, &T);
    struct point_set s = cloud_points(&source), t = cloud_points(&target);
    double stage_ms = INFINITY;
    for (unsigned i = 0; rc == 0 && i < options->n_repeats; i++) {
        double start_ms = clock_monotonic_ms();
        rc = registration_run(registration, &s, &t, &options->settings, NULL, &result, NULL);
        times[i] = clock_monotonic_ms() - start_ms;
        stage_ms = result.anneal_ms < stage_ms ? result.anneal_ms : stage_ms;
    }
    if (rc == 0) {
        qsort(times, options->n_repeats, sizeof *times, compare_doubles);
        double median_ms = times[options->n_repeats / 2];
        double reaction_ms = longest_reaction_ms(registration, options, &s, &t, median_ms);
        if (reaction_ms < 0)
            rc = (int)reaction_ms;
        const char *format =
            options->json
                ? "{\"method\": \"%s\", \"points\": %u, \"device\": \"%s\", \"median_ms\": %.4f, "
                  "\"min_ms\": %.4f, \"stages_ms\": %.4f, \"iterations\": %u, \"error_deg\": %.6f, "
                  "\"error_m\": %.3g, \"peak_mb\": %.1f, \"device_mb\": %.1f, "
                  "\"longest_reaction_ms\": %.2f}\n"
                : "%s, %u x: %s\n  call %.3f ms median, %.3f min; device stages %.3f ms min; %u "
                  "iterations; error %.5f deg, %.3g m\n  memory: %.1f MB at most, of the device "
                  "%.1f; a deadline took %.2f ms at most\n";
        printf(format, register_method_name(options->settings.method), options->n_points,
               registration_description(registration), median_ms, times[0], stage_ms,
               result.n_iterations, error_deg(&result.T_target_source, &T),
               error_m(&result.T_target_source, &T), peak_mb(),
               (double)registration_device_bytes(registration) / (1 << 20), reaction_ms);
    }
    cloud_free(&source);
    cloud_free(&target);
    free(times);
    return rc;
}

struct level {
    char name[64];
    unsigned n, n_below_5, n_below_1, n_unflagged;
    double sum_deg, most_deg, sum_ms, most_ms;
};

static void print_level(const struct level *level, bool json)
{
    if (level->n == 0)
        return;
    const char *format =
        json ? "{\"level\": \"%s\", \"trials\": %u, \"below_5_deg\": %u, \"below_1_deg\": %u, "
               "\"mean_deg\": %.4f, \"max_deg\": %.4f, \"unflagged_failures\": %u, "
               "\"mean_ms\": %.2f, \"max_ms\": %.2f}\n"
             : "%-14s %2u trials, < 5 deg %2u, < 1 deg %2u, mean %.3f, max %.3f deg, failures not "
               "flagged %u, %.1f ms (max %.1f)\n";
    printf(format, level->name, level->n, level->n_below_5, level->n_below_1,
           level->sum_deg / level->n, level->most_deg, level->n_unflagged, level->sum_ms / level->n,
           level->most_ms);
    fflush(stdout);
}

static int run_trial(struct registration *registration, const struct options *options,
                     const struct point_set *source, const char *name, const struct se3 *truth,
                     struct level *level)
{
    char path[1024];
    struct cloud target;
    struct register_result result;
    snprintf(path, sizeof path, "%s/%s", options->data, name);
    int rc = cloud_read(path, &options->config.log, &target);
    if (rc < 0)
        return rc;
    struct point_set t = cloud_points(&target);
    rc = registration_run(registration, source, &t, &options->settings, NULL, &result, NULL);
    cloud_free(&target);
    if (rc < 0)
        return rc;
    double deg = error_deg(&result.T_target_source, truth);
    if (options->verbose)
        printf("%s: %.3f deg, %.4f m, ambiguity %.3f, overlap %.2f %.2f, residual %.4f, %u "
               "iterations%s, %.1f ms\n",
               name, deg, error_m(&result.T_target_source, truth), result.ambiguity,
               result.overlap_source, result.overlap_target, result.residual_rms_m,
               result.n_iterations, result.converged ? "" : " (not converged)", result.elapsed_ms);
    level->n++;
    level->n_below_5 += deg < 5;
    level->n_below_1 += deg < 1;
    level->n_unflagged += deg >= 5 && !result.ambiguous;
    level->sum_deg += deg;
    level->most_deg = fmax(level->most_deg, deg);
    level->sum_ms += result.elapsed_ms;
    level->most_ms = fmax(level->most_ms, result.elapsed_ms);
    return 0;
}

static int bench_data(struct registration *registration, const struct options *options)
{
    char path[1024], line[1024];
    struct cloud source;
    snprintf(path, sizeof path, "%s/source.ply", options->data);
    int rc = cloud_read(path, &options->config.log, &source);
    if (rc < 0)
        return rc;
    struct point_set s = cloud_points(&source);
    snprintf(path, sizeof path, "%s/groundtruth.txt", options->data);
    FILE *file = fopen(path, "r");
    if (!file) {
        fprintf(stderr, "posed-bench: %s: %s\n", path, strerror(errno));
        cloud_free(&source);
        return -ENOENT;
    }
    struct level level = {0}, all = {.name = "all"};
    while (rc == 0 && fgets(line, sizeof line, file)) {
        char name[64], level_name[64];
        struct se3 T;
        if (sscanf(line, "%63s %lf %lf %lf %lf %lf %lf %lf %lf %lf %lf %lf %lf", name, &T.r[0],
                   &T.r[1], &T.r[2], &T.r[3], &T.r[4], &T.r[5], &T.r[6], &T.r[7], &T.r[8],
                   &T.t_m[0], &T.t_m[1], &T.t_m[2]) != 13 ||
            (options->select && fnmatch(options->select, name, 0) != 0))
            continue;
        snprintf(level_name, sizeof level_name, "%s", name);
        char *underscore = strrchr(level_name, '_');
        if (underscore)
            *underscore = 0;
        if (strcmp(level_name, level.name) != 0) {
            print_level(&level, options->json);
            memset(&level, 0, sizeof level);
            memcpy(level.name, level_name, sizeof level.name);
        }
        struct level before = level;
        rc = run_trial(registration, options, &s, name, &T, &level);
        all.n += level.n - before.n;
        all.n_below_5 += level.n_below_5 - before.n_below_5;
        all.n_below_1 += level.n_below_1 - before.n_below_1;
        all.n_unflagged += level.n_unflagged - before.n_unflagged;
        all.sum_deg += level.sum_deg - before.sum_deg;
        all.sum_ms += level.sum_ms - before.sum_ms;
        all.most_deg = fmax(all.most_deg, level.most_deg);
        all.most_ms = fmax(all.most_ms, level.most_ms);
    }
    print_level(&level, options->json);
    print_level(&all, options->json);
    fclose(file);
    cloud_free(&source);
    return rc;
}

enum {
    KEY_METHOD = 256,
    KEY_FORM,
    KEY_PRESET,
    KEY_START,
    KEY_BACKEND,
    KEY_POINTS,
    KEY_REPEATS,
    KEY_THREADS,
    KEY_STOPS,
    KEY_DATA,
    KEY_SELECT,
    KEY_JSON,
    KEY_STARTS,
    KEY_MOST,
};

static const struct argp_option argp_options[] = {
    {"method", KEY_METHOD, "emicp|softassign|icp|gicp", 0, "what registers them (default emicp)",
     0},
    {"form", KEY_FORM, "streaming|dense", 0,
     "streaming (default), or dense: the whole matrix of weights in memory", 0},
    {"preset", KEY_PRESET, "default|tamaki", 0, "tamaki: the authors' schedule", 0},
    {"start", KEY_START, "identity|many", 0, "where it starts (default identity)", 0},
    {"backend", KEY_BACKEND, "auto|cpu|cuda", 0, "what computes (default auto)", 0},
    {"points", KEY_POINTS, "N", 0, "points of each synthetic set (default 5000)", 0},
    {"repeats", KEY_REPEATS, "N", 0, "timed runs (default 5)", 0},
    {"stops", KEY_STOPS, "N", 0, "then end N more by a deadline each, at N times (default 0)", 0},
    {"threads", KEY_THREADS, "N", 0, "CPU threads (default: all cores)", 0},
    {"data", KEY_DATA, "FOLDER", 0, "run the trials of a robustness folder instead", 0},
    {"select", KEY_SELECT, "GLOB", 0, "only trials whose file name matches", 0},
    {"starts", KEY_STARTS, "N", 0, "starts of start many", 0},
    {"all-pairs", KEY_MOST, "N", 0, "most points of the all-pairs stages", 0},
    {"json", KEY_JSON, NULL, 0, "one JSON object a line", 0},
    {"verbose", 'v', NULL, 0, "a line for each trial", 0},
    {0},
};

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    static const char *const forms[] = {"streaming", "dense", NULL};
    static const char *const presets[] = {"default", "tamaki", NULL};
    struct options *options = state->input;
    switch (key) {
    case KEY_METHOD:
        options->settings.method =
            (enum register_method)argument_choose(state, "method", value, bench_methods);
        return 0;
    case KEY_FORM:
        options->settings.form = (enum register_form)argument_choose(state, "form", value, forms);
        return 0;
    case KEY_PRESET:
        options->settings.preset =
            (enum register_preset)argument_choose(state, "preset", value, presets);
        return 0;
    case KEY_START:
        options->settings.start =
            (enum register_start)argument_choose(state, "start", value, bench_starts);
        return 0;
    case KEY_BACKEND:
        options->config.backend =
            (enum gpu_backend)argument_choose(state, "backend", value, bench_backends);
        return 0;
    case KEY_POINTS:
        options->n_points = (unsigned)argument_count(state, "points", value, 3, 100000000);
        return 0;
    case KEY_REPEATS:
        options->n_repeats = (unsigned)argument_count(state, "repeats", value, 1, 1000000);
        return 0;
    case KEY_STOPS:
        options->n_stops = (unsigned)argument_count(state, "stops", value, 0, 1000000);
        return 0;
    case KEY_THREADS:
        options->config.n_threads = (unsigned)argument_count(state, "threads", value, 0, 1024);
        return 0;
    case KEY_DATA:
        options->data = value;
        return 0;
    case KEY_SELECT:
        options->select = value;
        return 0;
    case KEY_STARTS:
        options->settings.n_starts = (unsigned)argument_count(state, "starts", value, 0, 100000);
        return 0;
    case KEY_MOST:
        options->settings.n_points =
            (unsigned)argument_count(state, "all-pairs", value, 0, 100000000);
        return 0;
    case KEY_JSON:
        options->json = true;
        return 0;
    case 'v':
        options->verbose = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int bench_register(int argc, char **argv)
{
    static const struct argp argp = {.options = argp_options,
                                     .parser = parse_option,
                                     .doc = "Times the registration of two point sets."};
    struct options options = {.n_points = 5000, .n_repeats = 5};
    register_config_default(&options.config);
    register_settings_default(&options.settings);
    options.config.log.write = print_log;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    struct registration *registration;
    if (registration_open(&registration, &options.config) < 0)
        return 1;
    int rc = options.data ? bench_data(registration, &options) : bench_time(registration, &options);
    if (rc < 0)
        fprintf(stderr, "posed-bench: register: %s\n", strerror(-rc));
    registration_close(&registration);
    return rc < 0;
}

// SPDX-License-Identifier: Apache-2.0
// posed-align: many range images into one frame at once, alone or over MPI.
#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/se3.h"
#include "tools/align/align.h"
#include "tools/align/camera_error.h"
#include "tools/align/keyframes.h"
#include "tools/align/starts.h"
#include "tools/align/views.h"
#include "tools/argument.h"

enum {
    KEY_ITERATIONS = 256,
    KEY_BACKEND,
    KEY_GATE,
    KEY_OVERLAP,
    KEY_RELATIVE,
    KEY_THREADS,
    KEY_SEED,
    KEY_UNITS,
    KEY_TRUTH,
    KEY_EVERY,
    KEY_NO_MERGED,
    KEY_NO_PICTURES,
    KEY_FRESH,
    KEY_MOST,
    KEY_ANGLE,
    KEY_ROUNDS,
    KEY_FIXED,
    KEY_START,
    KEY_NO_FIELD
};

static const struct argp_option argp_options[] = {
    {"conf", 'c', "FILE.conf", 0, "Scans and start poses (Stanford; scans lie beside it)", 1},
    {"poses", 'p', "FILE", 0, "Start poses of depth images: TUM lines, or 4x4 matrices", 1},
    {"depth", 'd', "DIR", 0, "Depth images, in the order of their names", 1},
    {"calibration", 'C', "FILE", 0, "fx fy cx cy [width height [units]]", 1},
    {"units", KEY_UNITS, "N", 0, "Depth units a metre, where the calibration does not say it", 1},
    {"source", 's', "DRIVER:PLACE", 0, "A recording: its keyframes, as the tracker takes them", 1},
    {"every", KEY_EVERY, "N", 0, "With --source: every N-th frame instead of the keyframes", 1},
    {"start", KEY_START, "given|many", 0,
     "given (default): start poses as the input has them; many: none are known, neighbours are "
     "registered from everywhere",
     1},
    {"no-field", KEY_NO_FIELD, NULL, 0,
     "Leave the depth camera's own error in (--source and --depth, from 40 images on: it is "
     "learnt, "
     "and taken out where the residual of pairs kept aside falls by 15 %)",
     1},
    {"out", 'o', "DIR", 0, "Where the results go (made where it is missing)", 2},
    {"json", 'j', NULL, 0, "Print the report as JSON (it is in OUT/report.json, too)", 2},
    {"no-merged", KEY_NO_MERGED, NULL, 0, "Do not write the merged cloud", 2},
    {"no-pictures", KEY_NO_PICTURES, NULL, 0, "Do not draw residuals", 2},
    {"truth", KEY_TRUTH, "FILE", 0, "A .conf with the true poses: say how far off the result is",
     2},
    {"quiet", 'q', NULL, 0, "No progress", 2},
    {"fresh", KEY_FRESH, NULL, 0, "Do not go on from OUT/checkpoint.txt", 2},
    {"iterations", KEY_ITERATIONS, "K", 0, "At most K at full resolution (default 30)", 3},
    {"fixed", KEY_FIXED, NULL, 0, "Exactly --iterations, no coarse levels, no stop: for timing", 3},
    {"gate", KEY_GATE, "M", 0,
     "Start errors, in the images' unit (default 6 % of the images' size; recordings 0.1)", 3},
    {"angle", KEY_ANGLE, "DEG", 0, "Normals of a correspondence agree within (default 45)", 3},
    {"min-overlap", KEY_OVERLAP, "SHARE", 0, "Least sampled overlap of a pair (default 0.04)", 3},
    {"relative", KEY_RELATIVE, "SHARE", 0,
     "A pair goes when a third image is nearer to both than this share of its distance (default "
     "0.8, recordings 0; 1 the paper's; 0 off)",
     3},
    {"most", KEY_MOST, "N", 0, "Pairs an image, at most (default 12)", 3},
    {"rounds", KEY_ROUNDS, "N", 0, "Choose the pairs anew and align again N - 1 times", 3},
    {"backend", KEY_BACKEND, "auto|cpu|cuda", 0, "What computes (default auto)", 4},
    {"threads", KEY_THREADS, "N", 0, "CPU threads of a rank (default: cores / ranks)", 4},
    {"seed", KEY_SEED, "N", 0, "Of the partition (default 1)", 4},
    {0},
};

#define NOT_SAID         (-1.0)
#define RECORDING_GATE_M 0.1 // a tracker's drift

static const char *const start_names[] = {"given", "many", NULL};
static const char *const backend_names[] = {"auto", "cpu", "cuda", NULL};

static void check(struct argp_state *state, const struct align_options *o)
{
    int n = (o->conf != NULL) + (o->depth != NULL) + (o->source != NULL);
    if (n != 1)
        argp_error(state, "%s of --conf, --depth and --source is expected",
                   n == 0 ? "one" : "only one");
    const struct {
        const char *option;
        bool is_said, is_meant;
        const char *with;
    } belongs[] = {{"poses", o->poses != NULL, o->depth != NULL, "depth"},
                   {"calibration", o->calibration != NULL, o->depth != NULL, "depth"},
                   {"units", o->units_per_m > 0, o->depth != NULL, "depth"},
                   {"every", o->every > 0, o->source != NULL, "source"}};
    for (size_t i = 0; i < sizeof belongs / sizeof *belongs; i++)
        if (belongs[i].is_said && !belongs[i].is_meant)
            argp_error(state, "--%s is for --%s alone", belongs[i].option, belongs[i].with);
    if (o->depth && !o->calibration)
        argp_error(state, "--depth needs --calibration");
    if (o->depth && !o->poses && !o->start_many)
        argp_error(state, "--depth needs --poses, or --start many where none are known");
    if (o->source && o->start_many)
        argp_error(state, "--start many: the tracker knows where a recording's frames are");
    if (!o->out)
        argp_error(state, "--out is expected");
}

// What the alignment itself is told.
static error_t parse_setting(int key, char *arg, struct argp_state *state,
                             struct align_settings *settings)
{
    switch (key) {
    case KEY_FIXED:
        settings->solve.iterations[1] = settings->solve.iterations[2] = 0;
        settings->solve.early_stop = false;
        break;
    case KEY_GATE:
        settings->gate_m = argument_number(state, "gate", arg, 1e-9, 1e9);
        break;
    case KEY_ANGLE:
        settings->solve.max_angle_rad = argument_number(state, "angle", arg, 1, 89) * M_PI / 180;
        break;
    case KEY_OVERLAP:
        settings->pairs.min_overlap = argument_number(state, "min-overlap", arg, 0, 1);
        break;
    case KEY_RELATIVE:
        settings->pairs.relative = argument_number(state, "relative", arg, 0, 1);
        break;
    case KEY_MOST:
        settings->pairs.max_an_image = (uint32_t)argument_count(state, "most", arg, 1, 10000);
        break;
    case KEY_BACKEND:
        settings->backend = (enum gpu_backend)argument_choose(state, "backend", arg, backend_names);
        break;
    case KEY_THREADS:
        settings->n_threads = (uint32_t)argument_count(state, "threads", arg, 1, 1024);
        break;
    case KEY_SEED:
        settings->partition.seed = argument_count(state, "seed", arg, 0, UINT64_MAX);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct align_options *o = state->input;
    switch (key) {
    case 'c':
        o->conf = arg;
        break;
    case 'p':
        o->poses = arg;
        break;
    case 'd':
        o->depth = arg;
        break;
    case 'C':
        o->calibration = arg;
        break;
    case 's':
        o->source = arg;
        break;
    case 'o':
        o->out = arg;
        break;
    case 'j':
        o->json = true;
        break;
    case 'q':
        o->quiet = true;
        break;
    case KEY_START:
        o->start_many = argument_choose(state, "start", arg, start_names) == 1;
        break;
    case KEY_UNITS:
        o->units_per_m = argument_number(state, "units", arg, 1e-3, 1e6);
        break;
    case KEY_EVERY:
        o->every = (uint32_t)argument_count(state, "every", arg, 1, 100000);
        break;
    case KEY_TRUTH:
        o->truth = arg;
        break;
    case KEY_NO_MERGED:
        o->no_merged = true;
        break;
    case KEY_NO_FIELD:
        o->no_field = true;
        break;
    case KEY_NO_PICTURES:
        o->no_pictures = true;
        break;
    case KEY_FRESH:
        o->fresh = true;
        break;
    case KEY_ROUNDS:
        o->rounds = (uint32_t)argument_count(state, "rounds", arg, 1, 20);
        break;
    case KEY_ITERATIONS:
        o->iterations = (uint32_t)argument_count(state, "iterations", arg, 1, 100000);
        break;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument %s", arg);
        break;
    case ARGP_KEY_END:
        check(state, o);
        break;
    default:
        return parse_setting(key, arg, state, &o->settings);
    }
    return 0;
}

static uint32_t rank_for_log;

static void write_line(void *user, enum log_level level, const char *line)
{
    (void)user;
    if (level > LOG_LEVEL_NOTICE)
        return;
    const char *kind = level == LOG_LEVEL_WARNING ? "warning: " : "";
    if (rank_for_log)
        fprintf(stderr, "posed-align: rank %u: %s%s\n", rank_for_log, kind, line);
    else
        fprintf(stderr, "posed-align: %s%s\n", kind, line);
}

static const struct log_sink log_sink = {write_line, NULL};

struct watching {
    const struct align_options *options;
    const struct images *images;
    const struct se3 *T_world_image;
    uint32_t before; // iterations of earlier runs
};

#define CHECKPOINT_EVERY 5

static int watch(void *user, const struct align_progress *p)
{
    const struct watching *w = user;
    if (!w->options->quiet)
        fprintf(stderr,
                "level %u  iteration %2u  step %9.4f mm  residual %8.4f mm  pairs %7.1f ms  root "
                "%6.2f ms\n",
                p->level, p->iteration, 1e3 * p->step_m, 1e3 * p->rms_m, p->pairs_ms, p->solve_ms);
    if (p->n_iterations % CHECKPOINT_EVERY == 0)
        checkpoint_write(w->options->out, w->images, w->T_world_image, w->before + p->n_iterations);
    return 0;
}

static int open_images(const struct align_options *o, struct images *out)
{
    if (o->conf)
        return images_open_conf(out, o->conf, &log_sink);
    if (o->depth)
        return images_open_depth(out, o->depth, o->poses, o->calibration, o->units_per_m,
                                 &log_sink);
    return keyframes_open(out, o->source, o->every, &log_sink);
}

// Before the work, so that a wrong name does not cost it.
static int open_truth(const char *path, const struct images *images, struct images *out)
{
    int rc = images_open_conf(out, path, &log_sink);
    if (rc < 0)
        return rc;
    if (out->n == images->n)
        return 0;
    log_to(&log_sink, LOG_LEVEL_ERROR, "%s: %u poses for %u images", path, out->n, images->n);
    images_free(out);
    return -EINVAL;
}

static void compare_truth(const struct align_options *o, const struct images *images,
                          const struct align_result *result, const struct se3 *T_world_image,
                          const struct images *truth)
{
    struct pose_errors e =
        views_errors(result->sketches, images->n, T_world_image, truth->T_world_image);
    struct pose_errors s =
        views_errors(result->sketches, images->n, images->T_world_image, truth->T_world_image);
    fprintf(
        o->json ? stderr : stdout,
        "truth      mean vertex error %.4f mm (start %.4f), worst image %.4f mm, %.4f degrees\n",
        1e3 * e.mean_m, 1e3 * s.mean_m, 1e3 * e.worst_m, e.worst_rad * 180 / M_PI);
}

static int write_all(const struct align_options *o, const struct images *images,
                     const struct align_result *result, const struct camera_error *error,
                     const struct se3 *T_world_image, const struct align_ranks *ranks)
{
    char path[4200];
    double *regions_m = NULL;
    snprintf(path, sizeof path, "%s/%s", o->out, o->conf ? "aligned.conf" : "poses.txt");
    int rc = o->conf ? images_write_conf(images, T_world_image, path)
                     : images_write_tum(images, T_world_image, path);
    snprintf(path, sizeof path, "%s/trajectory.txt", o->out);
    if (rc == 0 && o->source)
        rc = keyframes_write_trajectory(images, T_world_image, path);
    if (rc == 0 && !o->no_pictures) {
        if (!o->quiet)
            fprintf(stderr, "the poses are written; drawing %u pictures (--no-pictures: not)\n",
                    images->n);
        regions_m = malloc(REPORT_REGIONS * (size_t)images->n * sizeof *regions_m);
        rc = regions_m ? report_residuals(o->out, images, result, T_world_image, regions_m)
                       : -ENOMEM;
    }
    snprintf(path, sizeof path, "%s/report.json", o->out);
    if (rc == 0)
        rc = report_write_json(path, o, images, result, error, T_world_image, regions_m, ranks);
    if (rc == 0 && o->json)
        rc = report_write_json(NULL, o, images, result, error, T_world_image, regions_m, ranks);
    else if (rc == 0)
        report_print(images, result, error, ranks);
    free(regions_m);
    snprintf(path, sizeof path, "%s/merged.ply", o->out);
    if (rc == 0 && !o->no_merged)
        rc = report_write_merged(path, images, T_world_image);
    return rc;
}

// Is the camera's own error asked for, and are there images enough to learn it from?
static bool camera_is_asked(const struct align_options *o, const struct images *images)
{
    bool is_coarse_wanted = o->settings.solve.iterations[ALIGN_LEVELS - 1] > 0;
    return !o->conf && !o->no_field && is_coarse_wanted && images->n >= CALIBRATE_MIN_KEYFRAMES;
}

// Brings the images together at a quarter of the resolution, where pairs are cheap, and learns the
// camera's error from where they then are.
static int find_camera_error(const struct align_options *o, struct images *images,
                             const struct align_ranks *ranks, struct se3 *poses,
                             struct watching *watching, struct camera_error *out)
{
    struct align_settings coarse = o->settings;
    struct align_result result;
    coarse.solve.iterations[0] = coarse.solve.iterations[1] = 0;
    int rc = align_run(&images->source, ranks, &coarse, poses, watch, watching, &result);
    if (rc < 0)
        return rc;
    watching->before += result.solution.n_iterations;
    align_result_free(&result);
    return camera_error_learn(images, poses, ranks, out);
}

// truth: NULL where there is none.
static int run(const struct align_options *o, struct images *images, const struct images *truth,
               const struct align_ranks *ranks)
{
    struct align_result result;
    struct camera_error error = {.is_tried = false};
    uint32_t before = 0;
    struct se3 *poses = malloc(images->n * sizeof *poses);
    if (!poses)
        return -ENOMEM;
    int rc = 0;
    memcpy(poses, images->T_world_image, images->n * sizeof *poses);
    if (ranks->id == 0 && !o->fresh && checkpoint_read(o->out, images, poses, &before))
        log_to(&log_sink, LOG_LEVEL_NOTICE, "going on from %s/checkpoint.txt (iteration %u)",
               o->out, before);
    else if (ranks->id == 0 && o->start_many)
        rc = align_starts_find(images, &o->settings, o->quiet, poses);
    if (rc < 0)
        goto free_poses;
    ranks->broadcast(poses, images->n * sizeof *poses, 0);
    if (o->start_many)
        memcpy(images->T_world_image, poses, images->n * sizeof *poses);
    struct watching watching = {o, images, poses, before};
    if (camera_is_asked(o, images))
        rc = find_camera_error(o, images, ranks, poses, &watching, &error);
    for (uint32_t round = 0; round < (o->rounds ? o->rounds : 1) && rc == 0; round++) {
        if (round)
            align_result_free(&result);
        rc = align_run(&images->source, ranks, &o->settings, poses, watch, &watching, &result);
    }
    if (rc < 0)
        goto free_poses;
    if (ranks->id == 0) {
        rc = write_all(o, images, &result, &error, poses, ranks);
        if (rc == 0 && truth)
            compare_truth(o, images, &result, poses, truth);
        if (rc == 0)
            checkpoint_remove(o->out);
    }
    align_result_free(&result);
free_poses:
    free(poses);
    return rc;
}

static int make_folder(const char *path)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return 0;
    log_to(&log_sink, LOG_LEVEL_ERROR, "%s: %s", path, strerror(errno));
    return -errno;
}

// What was not said. A recording's keyframes have nearer ones beside them at any time: the fourth
// rule would leave no link across time, and those take the drift out.
static void fill_in(struct align_options *o)
{
    struct align_settings usual;
    align_settings_default(&usual);
    if (o->settings.pairs.relative == NOT_SAID)
        o->settings.pairs.relative = o->source ? 0 : usual.pairs.relative;
    if (o->source && !(o->settings.gate_m > 0))
        o->settings.gate_m = RECORDING_GATE_M;
}

const char *argp_program_version = "posed-align " POSED_VERSION;

int main(int argc, char **argv)
{
    static const struct argp argp = {
        argp_options,
        parse_option,
        NULL,
        "Aligns many range images at once and writes their poses, residuals and the merged cloud. "
        "Over several processes: mpirun -n N posed-align ...\v"
        "posed-align generate --help: range images of a known model, to test with.\n"
        "Exit status: 0 done, 1 error, 2 usage.",
        NULL,
        NULL,
        NULL};
    argp_err_exit_status = 2;
    if (argc > 1 && !strcmp(argv[1], "generate"))
        return align_generate(argc - 1, argv + 1);
    struct align_ranks ranks;
    bool launched = getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMI_SIZE") || getenv("PMIX_RANK");
    align_ranks_start(&argc, &argv, launched, &ranks);
    rank_for_log = ranks.id;
    struct align_options options = {.units_per_m = 0};
    align_settings_default(&options.settings);
    options.settings.log = log_sink;
    options.settings.pairs.relative = NOT_SAID;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    fill_in(&options);
    if (options.iterations)
        options.settings.solve.iterations[0] = options.iterations;
    struct images images;
    int rc = ranks.id == 0 ? make_folder(options.out) : 0;
    if (rc == 0)
        rc = open_images(&options, &images);
    if (rc == 0) {
        struct images truth;
        bool has_truth = ranks.id == 0 && options.truth;
        rc = has_truth ? open_truth(options.truth, &images, &truth) : 0;
        if (rc == 0) {
            rc = run(&options, &images, has_truth ? &truth : NULL, &ranks);
            if (has_truth)
                images_free(&truth);
        }
        images_free(&images);
    }
    if (rc < 0 && ranks.n > 1)
        align_ranks_abort(1); // the others wait for what this one will not send
    align_ranks_end();
    return rc < 0 ? 1 : 0;
}

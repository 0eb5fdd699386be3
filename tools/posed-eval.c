// SPDX-License-Identifier: Apache-2.0
// posed-eval: compares a trajectory with the truth and says, draws or prints as JSON how far it is.
#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/clock_offset.h"
#include "proto/evaluate.h"
#include "proto/file_suffix.h"
#include "proto/nees.h"
#include "proto/se3.h"
#include "tools/argument.h"
#include "tools/eval_parts.h"
#include "tools/plot/trajectory.h"

#define DEG_PER_RAD       57.295779513082320877
#define OFFSET_STEP_NS    10000 // finer than ATE tells an offset
#define TURN_OFFSET_FAR_S 0.01  // from the offset that ATE asks for: it is told

static const size_t nees_windows[] = {1, 10, 30}; // frames
#define NEES_OFFSET_WINDOW 10
#define N_NEES             (sizeof nees_windows / sizeof *nees_windows)

struct options {
    const char *truth, *trajectory, *plot;
    size_t delta_frames;
    double max_gap_s;
    double offset_s; // added to the trajectory's times
    bool offset_auto,
        offset_at_limit;  // at_limit: the best one lies at the end of what was searched
    double nees_offset_s; // the same for NEES
    double turn_offset_s; // the same by how fast both turn; NaN: not asked, or they do not tell
    bool json, nees, has_reference;
    struct eval_parts parts; // of the trajectory; of more than one the longest is judged
    struct nees_reference reference;
};

static const struct argp_option argp_options[] = {
    {"groundtruth", 'g', "FILE|DIR", 0,
     "The truth: a TUM file, or a recording's folder (groundtruth.txt, or the pose files of "
     "7-Scenes)",
     0},
    {"trajectory", 't', "FILE", 0,
     "The trajectory to judge, a TUM file (for --nees one of posed "
     "with output.trajectory_format = covariance)",
     0},
    {"plot", 'p', "OUT.png", 0, "Draw both trajectories and the error over time", 0},
    {"json", 'j', NULL, 0, "Print JSON instead of text", 0},
    {"delta", 'd', "FRAMES", 0, "Frames between the poses of RPE (default 30)", 0},
    {"max-gap", 'G', "SECONDS", 0, "Longest gap of the truth to interpolate across (default 0.25)",
     0},
    {"time-offset", 'o', "SECONDS|auto", 0,
     "Read the truth so much later than the trajectory's stamps say (default 0); auto: what fits "
     "best within 0.1 s, for a reference that has a clock of its own. Compare systems with the "
     "same",
     0},
    {"nees", 'n', NULL, 0,
     "Also whether the trajectory is as wrong as it says: the normalised error squared per degree "
     "of freedom of the motion over 1, 10 and 30 frames. Right covariances have a mean of 1 (more: "
     "too sure of itself)",
     0},
    {"reference-error", 'r', "MM:DEG[:MS]", 0,
     "With --nees: what the truth itself is off by, standard deviations on each axis of every pose "
     "and of its stamps (default 0:0:0). Motion capture: 1.2:0.12:0",
     0},
    {0},
};

static void parse_reference(struct argp_state *state, const char *arg, struct nees_reference *out)
{
    double mm, deg, ms = 0;
    int n_used = 0;
    if ((sscanf(arg, "%lf:%lf%n:%lf%n", &mm, &deg, &n_used, &ms, &n_used) < 2 || arg[n_used]) ||
        !(mm >= 0 && mm <= 1e4 && deg >= 0 && deg <= 180 && ms >= 0 && ms <= 1e3))
        argp_error(state, "--reference-error %s: MM:DEG or MM:DEG:MS expected, none negative", arg);
    *out = (struct nees_reference){mm * 1e-3, deg / DEG_PER_RAD, ms * 1e-3};
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct options *options = state->input;
    switch (key) {
    case 'g':
        options->truth = arg;
        break;
    case 't':
        options->trajectory = arg;
        break;
    case 'p':
        if (!file_suffix_fits(arg, ".png"))
            argp_error(state, "--plot: %s: a picture is written as .png", arg);
        options->plot = arg;
        break;
    case 'j':
        options->json = true;
        break;
    case 'd':
        options->delta_frames = argument_count(state, "delta", arg, 1, 1000000);
        break;
    case 'G':
        options->max_gap_s = argument_number(state, "max-gap", arg, 0, 1e6);
        break;
    case 'o':
        options->offset_auto = strcmp(arg, "auto") == 0;
        options->offset_s =
            options->offset_auto ? 0 : argument_number(state, "time-offset", arg, -1e6, 1e6);
        break;
    case 'n':
        options->nees = true;
        break;
    case 'r':
        parse_reference(state, arg, &options->reference);
        options->has_reference = true;
        break;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument %s", arg);
        break;
    case ARGP_KEY_END:
        if (!options->truth || !options->trajectory)
            argp_error(state, "--groundtruth and --trajectory are expected");
        if (options->has_reference && !options->nees)
            argp_error(state, "--reference-error is what --nees reckons with: give that, too");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static void write_line(void *user, enum log_level level, const char *line)
{
    (void)user;
    fprintf(stderr, "posed-eval: %s%s\n", level == LOG_LEVEL_WARNING ? "warning: " : "", line);
}

static const struct log_sink log_sink = {write_line, NULL};

static int read_truth(const char *path, struct trajectory *out)
{
    struct stat status;
    if (stat(path, &status) < 0 || !S_ISDIR(status.st_mode))
        return trajectory_read_tum(path, &log_sink, out);
    char file[4200];
    if (snprintf(file, sizeof file, "%s/groundtruth.txt", path) >= (int)sizeof file) {
        log_to(&log_sink, LOG_LEVEL_ERROR, "%s: path too long", path);
        return -EINVAL;
    }
    if (stat(file, &status) == 0)
        return trajectory_read_tum(file, &log_sink, out);
    int result = trajectory_read_sevenscenes(path, &log_sink, out);
    if (result == -ENOENT)
        log_to(&log_sink, LOG_LEVEL_ERROR, "%s: no groundtruth.txt there either", path);
    return result;
}

static void print_summary(const char *name, const struct error_summary *s, double scale,
                          const char *unit)
{
    printf("%-16s rmse %9.4f  mean %9.4f  median %9.4f  max %9.4f  %s\n", name, s->rmse * scale,
           s->mean * scale, s->median * scale, s->max * scale, unit);
}

static void print_text(const struct options *options, const struct evaluation *e)
{
    if (options->parts.n > 1)
        eval_parts_print(&options->parts);
    printf("poses            %zu of %zu matched, %zu without ground truth\n", e->n_matched,
           e->n_poses, e->n_poses - e->n_matched);
    if (options->offset_auto || options->offset_s != 0)
        printf("time offset      %.6f s, %s\n", options->offset_s,
               options->offset_at_limit ? "estimated, at the limit of what is searched"
               : options->offset_auto   ? "estimated"
                                        : "as given");
    if (fabs(options->turn_offset_s - options->offset_s) > TURN_OFFSET_FAR_S)
        printf("                 turns agree best at %.3f s: rotations compare better with that\n",
               options->turn_offset_s);
    print_summary("ATE", &e->ate_m, 1000, "mm");
    if (e->rpe_m.n == 0) {
        printf("RPE              too few poses for %zu frames\n", options->delta_frames);
        return;
    }
    printf("RPE              over %zu frames, %zu pairs\n", options->delta_frames, e->rpe_m.n);
    print_summary("  translation", &e->rpe_m, 1000, "mm");
    print_summary("  rotation", &e->rpe_rad, DEG_PER_RAD, "deg");
}

static void print_nees(const struct options *options, const struct nees_summary nees[N_NEES])
{
    const struct nees_reference *r = &options->reference;
    printf(
        "NEES / 6         reference's own error %.4g mm, %.4g deg, %.4g ms; time offset %.6f s\n",
        r->sigma_m * 1e3, r->sigma_rad * DEG_PER_RAD, r->time_s * 1e3, options->nees_offset_s);
    for (size_t i = 0; i < N_NEES; i++) {
        const struct nees_summary *s = &nees[i];
        if (s->n_pairs)
            printf("  %2zu frames      mean %9.4f  median %9.4f  within 95 %% %6.1f %%  %zu pairs, "
                   "%zu of one image, %zu left out\n",
                   nees_windows[i], s->mean, s->median, 100 * s->share_95, s->n_pairs,
                   s->n_repeated, s->n_excluded);
        else
            printf("  %2zu frames      too few poses\n", nees_windows[i]);
    }
}

static json_t *nees_to_json(const struct options *options, const struct nees_summary nees[N_NEES])
{
    const struct nees_reference *r = &options->reference;
    json_t *windows = json_array();
    for (size_t i = 0; i < N_NEES; i++) {
        const struct nees_summary *s = &nees[i];
        json_array_append_new(windows, json_pack("{s:I, s:I, s:I, s:I, s:f, s:f, s:f}", "frames",
                                                 (json_int_t)nees_windows[i], "n_pairs",
                                                 (json_int_t)s->n_pairs, "n_repeated",
                                                 (json_int_t)s->n_repeated, "n_excluded",
                                                 (json_int_t)s->n_excluded, "mean", s->mean,
                                                 "median", s->median, "share_95", s->share_95));
    }
    return json_pack("{s:f, s:f, s:f, s:f, s:o}", "time_offset_s", options->nees_offset_s,
                     "reference_sigma_m", r->sigma_m, "reference_sigma_deg",
                     r->sigma_rad * DEG_PER_RAD, "reference_time_s", r->time_s, "windows", windows);
}

static json_t *summary_to_json(const struct error_summary *s, double scale)
{
    if (s->n == 0)
        return json_null();
    return json_pack("{s:f, s:f, s:f, s:f}", "rmse", s->rmse * scale, "mean", s->mean * scale,
                     "median", s->median * scale, "max", s->max * scale);
}

// nees: NULL when nobody asked.
static int print_json(const struct options *options, const struct evaluation *e,
                      const struct nees_summary *nees)
{
    json_t *root = json_pack(
        "{s:s, s:s, s:f, s:I, s:I, s:I, s:o, s:{s:I, s:I, s:o, s:o}}", "groundtruth",
        options->truth, "trajectory", options->trajectory, "time_offset_s", options->offset_s,
        "n_poses", (json_int_t)e->n_poses, "n_matched", (json_int_t)e->n_matched, "n_unmatched",
        (json_int_t)(e->n_poses - e->n_matched), "ate_m", summary_to_json(&e->ate_m, 1), "rpe",
        "delta_frames", (json_int_t)options->delta_frames, "n_pairs", (json_int_t)e->rpe_m.n,
        "translation_m", summary_to_json(&e->rpe_m, 1), "rotation_deg",
        summary_to_json(&e->rpe_rad, DEG_PER_RAD));
    if (!root) {
        log_to(&log_sink, LOG_LEVEL_ERROR, "a file name is not UTF-8: no JSON can hold it");
        return -EINVAL;
    }
    if (options->parts.n > 1)
        json_object_set_new(root, "map_epochs", eval_parts_to_json(&options->parts));
    if (options->offset_auto)
        json_object_set_new(root, "time_offset_at_limit", json_boolean(options->offset_at_limit));
    if (!isnan(options->turn_offset_s))
        json_object_set_new(root, "turn_offset_s", json_real(options->turn_offset_s));
    if (nees)
        json_object_set_new(root, "nees", nees_to_json(options, nees));
    int status = json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(root);
    return status;
}

static void explain_no_match(const struct options *options, const struct trajectory *truth,
                             const struct trajectory *estimate)
{
    const struct stamped_pose *t = truth->poses, *e = estimate->poses;
    log_to(&log_sink, LOG_LEVEL_ERROR,
           "no pose of %s (%.3f..%.3f s) lies within the times of %s (%.3f..%.3f s)",
           options->trajectory, (double)e[0].time_ns * 1e-9,
           (double)e[estimate->n_poses - 1].time_ns * 1e-9, options->truth,
           (double)t[0].time_ns * 1e-9, (double)t[truth->n_poses - 1].time_ns * 1e-9);
}

// How fast the camera turned from each pose to the next. NULL: no memory.
static struct clock_offset_turn *turns_of(const struct trajectory *trajectory)
{
    const struct stamped_pose *p = trajectory->poses;
    struct clock_offset_turn *turns = calloc(trajectory->n_poses + 1, sizeof *turns);
    for (size_t i = 0; turns && i + 1 < trajectory->n_poses; i++) {
        const struct se3 motion = se3_between(&p[i].T_world_camera, &p[i + 1].T_world_camera);
        const double seconds = (double)(p[i + 1].time_ns - p[i].time_ns) * 1e-9;
        turns[i] = (struct clock_offset_turn){
            p[i].time_ns, p[i + 1].time_ns, {se3_angle(&motion) / seconds, 0, 0}};
    }
    return turns;
}

// The offset that positions ask for (ATE) is loose where a camera turns on its spot.
static int find_turn_offset(struct options *options, const struct trajectory *truth,
                            const struct trajectory *estimate)
{
    struct clock_offset_turn *a = turns_of(truth), *b = turns_of(estimate);
    struct clock_offset found;
    int status = -ENOMEM;
    if (a && b && truth->n_poses > 1 && estimate->n_poses > 1)
        status = clock_offset_find(a, truth->n_poses - 1, b, estimate->n_poses - 1, &found);
    else if (a && b)
        status = -ENODATA;
    if (!status)
        options->turn_offset_s = -found.offset_s;
    free(a);
    free(b);
    return status == -ENOMEM ? status : 0;
}

// The trajectory's times become the truth's.
static int shift(struct options *options, const struct trajectory *truth,
                 struct trajectory *estimate)
{
    int64_t offset_ns = llround(options->offset_s * 1e9);
    if (options->offset_auto) {
        int status = evaluate_time_offset(truth, estimate, llround(options->max_gap_s * 1e9),
                                          EVALUATE_SEARCH_NS, &offset_ns);
        if (status < 0)
            return status;
        options->offset_s = (double)offset_ns * 1e-9;
        options->offset_at_limit = llabs(offset_ns) > EVALUATE_SEARCH_NS - OFFSET_STEP_NS;
        if (options->offset_at_limit)
            log_to(
                &log_sink, LOG_LEVEL_WARNING,
                "the time offset %.6f s lies at the limit of what is searched (0.1 s): the right "
                "one may be beyond it, or the positions do not tell it",
                options->offset_s);
        status = find_turn_offset(options, truth, estimate);
        if (status < 0)
            return status;
    }
    for (size_t i = 0; i < estimate->n_poses; i++)
        estimate->poses[i].time_ns += offset_ns;
    return 0;
}

// Times of the estimate are the truth's already, by the offset of ATE.
static int measure_nees(struct options *options, const struct trajectory *truth,
                        const struct trajectory *estimate, struct nees_summary out[N_NEES])
{
    const int64_t max_gap_ns = llround(options->max_gap_s * 1e9);
    int64_t offset_ns = 0;
    int status = 0;
    if (options->offset_auto)
        status = nees_time_offset(truth, estimate, max_gap_ns, &options->reference,
                                  NEES_OFFSET_WINDOW, EVALUATE_SEARCH_NS, &offset_ns);
    if (status == -ENODATA)
        status = 0;
    for (size_t i = 0; i < N_NEES && !status; i++)
        status = nees_evaluate(truth, estimate, max_gap_ns, &options->reference, nees_windows[i],
                               offset_ns, &out[i]);
    options->nees_offset_s = options->offset_s + (double)offset_ns * 1e-9;
    if (status == -EINVAL)
        log_to(&log_sink, LOG_LEVEL_ERROR,
               "%s has no covariances: --nees needs a trajectory that posed wrote with "
               "output.trajectory_format = covariance",
               options->trajectory);
    else if (status)
        log_to(&log_sink, LOG_LEVEL_ERROR, "%s", strerror(-status));
    return status;
}

// What is judged of a trajectory: all of it, or the longest of the parts that are not connected.
static int choose_part(struct options *options, const struct trajectory *all,
                       struct trajectory *out)
{
    *out = (struct trajectory){0};
    int status = eval_parts_find(all, &options->parts);
    if (status < 0)
        return status;
    const struct trajectory_part *part = &options->parts.parts[options->parts.longest].part;
    char name[EVAL_PART_NAME_BYTES];
    eval_part_name(part, name);
    if (options->parts.n > 1)
        log_to(&log_sink, LOG_LEVEL_WARNING,
               "%s: its %zu parts (map epochs) are not connected with each other: epoch %s, the "
               "longest, is judged alone",
               options->trajectory, options->parts.n, name);
    return trajectory_of_part(all, part, out);
}

// What is judged, with the truth's times, and the parts that it was chosen from.
static int judge(struct options *options, const struct trajectory *truth,
                 const struct trajectory *all, struct trajectory *estimate, struct evaluation *out)
{
    const int64_t max_gap_ns = llround(options->max_gap_s * 1e9);
    int status = choose_part(options, all, estimate);
    if (status == 0)
        status = shift(options, truth, estimate);
    if (status == 0)
        status = evaluate_trajectory(truth, estimate, max_gap_ns, options->delta_frames, out);
    if (status == 0 && options->parts.n > 1)
        status = eval_parts_judge(&options->parts, truth, all, llround(options->offset_s * 1e9),
                                  max_gap_ns);
    return status;
}

static int evaluate(struct options *options)
{
    struct trajectory truth = {0}, all = {0}, estimate = {0};
    struct evaluation e = {0};
    struct nees_summary nees[N_NEES];
    int status = read_truth(options->truth, &truth);
    if (!status)
        status = trajectory_read_tum(options->trajectory, &log_sink, &all);
    if (status < 0)
        goto free_trajectories;
    if (truth.parts)
        log_to(&log_sink, LOG_LEVEL_WARNING,
               "%s: its parts (map epochs) are not connected with each other: it is no truth as a "
               "whole",
               options->truth);
    status = judge(options, &truth, &all, &estimate, &e);
    if (status == -ENODATA)
        explain_no_match(options, &truth, &estimate);
    else if (status < 0)
        log_to(&log_sink, LOG_LEVEL_ERROR, "%s", strerror(-status));
    if (status < 0)
        goto free_trajectories;
    if (e.n_matched < 3)
        log_to(&log_sink, LOG_LEVEL_WARNING, "only %zu matched: the alignment takes up the error",
               e.n_matched);
    if (options->nees)
        status = measure_nees(options, &truth, &estimate, nees);
    if (status < 0)
        goto free_trajectories;
    if (options->json)
        status = print_json(options, &e, options->nees ? nees : NULL);
    else
        print_text(options, &e);
    if (options->nees && !options->json)
        print_nees(options, nees);
    if (!status && options->plot) {
        char title[600];
        snprintf(title, sizeof title, "%.200s against %.200s: ATE RMSE %.4g mm, %zu of %zu poses",
                 options->trajectory, options->truth, e.ate_m.rmse * 1000, e.n_matched, e.n_poses);
        status = plot_evaluation(options->plot, title, &e, &log_sink);
    }
free_trajectories:
    evaluation_free(&e);
    eval_parts_free(&options->parts);
    trajectory_free(&estimate);
    trajectory_free(&all);
    trajectory_free(&truth);
    return status;
}

const char *argp_program_version = "posed-eval " POSED_VERSION;

int main(int argc, char **argv)
{
    static const struct argp argp = {
        argp_options,
        parse_option,
        NULL,
        "Error of a camera trajectory: absolute (ATE, positions after the best rigid alignment) "
        "and "
        "relative (RPE, motion over a number of frames), against the truth interpolated to each "
        "pose's time.\v"
        "--nees: of every pair of frames i and j = i + 1, 10, 30, the difference e between the "
        "estimated and the true motion (position and rotation along odom's axes) against the "
        "covariance that is claimed for it: e^T Q^-1 e / 6, with\n"
        "  Q = own_j + A own_i A^T + (walk_j - A walk_i A^T)\n"
        "      + k (drift_j - A drift_i A^T) + the reference's own\n"
        "  k = 1 - (1 - exp(-x)) / x, x = (flow_j - flow_i) / 0.3\n"
        "own, walk, drift: the three parts of each pose's covariance (of the frame alone; of "
        "independent steps; of errors that go with the motion); flow: image motion travelled "
        "[rad]; "
        "all columns of the trajectory file: TUM's eight, flow, then the upper triangles of own, "
        "walk and drift. A carries an error of pose i to pose j. Where an image came twice, bit "
        "for "
        "bit, its frames have one pose and one error, and no motion between them is claimed: that "
        "pair is not judged. The reference's clock offset is "
        "taken out by --time-offset auto, here by the one that makes the mean over 10 frames "
        "least.\n\n"
        "Where the trajectory says that its parts are not connected with each other (the lines "
        "`# map epoch N` of posed's files), or have times of another clock (`# clock set N s`), "
        "the longest is judged, as in posed's log, and of each "
        "other its ATE alone is told (JSON: map_epochs).\n\n"
        "--time-offset auto takes the offset that makes ATE least. Of a camera that turns on its "
        "spot positions hardly tell it: where the offset at which both turn alike is 10 ms and "
        "more from it, that one is printed, too (JSON: turn_offset_s).",
        NULL,
        NULL,
        NULL};
    struct options options = {.turn_offset_s = NAN,
                              .delta_frames = EVALUATE_DELTA_FRAMES,
                              .max_gap_s = EVALUATE_MAX_GAP_NS * 1e-9};
    argp_err_exit_status = 2;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    if (evaluate(&options) < 0)
        return 1;
    return fflush(stdout) == 0 ? 0 : 1;
}

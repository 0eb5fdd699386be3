// SPDX-License-Identifier: Apache-2.0
// posed-bench kidnap: how often, how soon and how rightly a camera is found again. The recording is
// played once, which makes keyframes and, where one is wanted, a map; then, again and again, some
// seconds are cut out and it goes on at a random frame of what was seen. The truth is the pose that
// the first pass gave that frame in odom; beside it, as odom drifts, where the keyframes agree that
// it was. A frame of another recording must not be found at all.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/model/keyframe_window.h"
#include "gpu/model/map.h"
#include "proto/clock.h"
#include "proto/se3.h"
#include "tools/argument.h"
#include "tools/bench/map_options.h"

#define PERIOD_NS     33333333
#define FRAMES_A_TRY  60
#define FRAMES_AFTER  15   // it was found: then the trial ends
#define WITHIN_FRAMES 30   // one second
#define RIGHT_M       0.08 // the first pass drifts, and the map is the mean of what it saw
#define RIGHT_RAD     0.08
#define WRONG_M       0.15
#define WRONG_RAD     0.15

// What finds the camera; by default as the daemon with that reference: it always has keyframes.
enum finder { FINDER_KEYFRAMES, FINDER_MODEL, FINDER_BOTH, FINDER_DEFAULT };
static const char *const finders[] = {"keyframes", "model", "both", NULL};

struct kidnap_options {
    struct map_options map;
    struct graph_settings graph;
    enum finder finder;
    const char *foreign; // NULL: none
    enum track_reference reference;
    unsigned n_trials;
    uint64_t seed;
};

enum { OPTION_SEED = MAP_OPTIONS_KEY, OPTION_FIND, OPTION_FOREIGN, OPTION_KEYFRAMES };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct kidnap_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->map;
        return 0;
    case 't':
        o->n_trials = (unsigned)argument_count(state, "trials", arg, 1, 10000);
        return 0;
    case OPTION_SEED:
        o->seed = argument_count(state, "seed", arg, 1, 1000000000);
        return 0;
    case 'r':
        if (strcmp(arg, "keyframe") == 0)
            o->reference = TRACK_REFERENCE_KEYFRAME;
        else if (strcmp(arg, "model") == 0)
            o->reference = TRACK_REFERENCE_MODEL;
        else
            argp_error(state, "reference is keyframe or model, not \"%s\"", arg);
        return 0;
    case OPTION_FIND:
        o->finder = (enum finder)argument_choose(state, "find", arg, finders);
        return 0;
    case OPTION_KEYFRAMES:
        o->graph.max_keyframes =
            (uint32_t)argument_count(state, "keyframes", arg, GRAPH_KEYFRAMES_RANGE);
        return 0;
    case OPTION_FOREIGN:
        o->foreign = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option argp_options[] = {
    {"reference", 'r', "keyframe|model", 0,
     "What frames are aligned to while the camera is not lost (default model)", 0},
    {"trials", 't', "N", 0, "Times that it is carried off (default 50)", 0},
    {"seed", OPTION_SEED, "N", 0, "Of the frames and times (default 1)", 0},
    {"find", OPTION_FIND, "keyframes|model|both", 0,
     "What finds it (default: keyframes, with reference model both)", 0},
    {"keyframes", OPTION_KEYFRAMES, "N", 0,
     "So many are kept, the trials' included (default 96, the daemon's)", 0},
    {"foreign", OPTION_FOREIGN, "SOURCE", 0,
     "It is put back there, as many frames of it: TRACKING is wrong each time", 0},
    {0},
};

// Of all trials, and of the present one.
struct tally {
    unsigned n_found, n_in_time, n_wrong, n_wrong_frames;
    unsigned wrong_frames;
    int found_at; // -1: not yet
};

struct trials {
    struct gpu *gpu;
    struct track *track;
    struct map *map;                // NULL: none
    struct keyframe_window *window; // NULL: none
    const struct recording *recording, *foreign;
    uint16_t *depth; // of a foreign frame, in the recording's units
    uint64_t seq;
    // Of each frame as the first pass had it: in odom, and where the keyframes agreed at its end.
    struct se3 *truth, *truth_map;
    bool *known;
    int64_t time_ns;
    uint64_t random;
    unsigned n;
    struct tally odom, map_frame;
    double frames_to_find;
    unsigned n_looks;                // frames that were lost
    double look_s, look_keyframes_s; // all that was done for them, and among the keyframes
};

static uint32_t draw(struct trials *t, uint32_t below)
{
    t->random = t->random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)(t->random >> 33) % below;
}

static int look_among_keyframes(struct trials *t, const struct track_result *result)
{
    const int64_t begin_ns = clock_monotonic_ns();
    double moved_m;
    int rc = keyframe_window_relocate(t->window, t->gpu, t->track, result, t->time_ns, INT64_MAX,
                                      &moved_m);
    if (result->state == TRACK_STATE_LOST)
        t->look_keyframes_s += (double)(clock_monotonic_ns() - begin_ns) * 1e-9;
    return rc;
}

// What the daemon does with a frame.
static int step(struct trials *t, const uint16_t *depth, struct track_result *out)
{
    double moved_m;
    int rc = track_frame(t->track, depth, t->time_ns, out);
    if (rc == 0 && t->window)
        rc = keyframe_window_follow(t->window, t->gpu, t->track, out, t->seq, t->time_ns, &moved_m);
    if (rc == 0 && t->window)
        rc = look_among_keyframes(t, out);
    if (rc == 0 && t->map)
        rc = map_follow(t->map, t->track, out);
    track_set_map(t->track, true);
    t->time_ns += PERIOD_NS;
    t->seq++;
    return rc;
}

// Each frame as the keyframe says that came last before it.
static void set_truth_map(struct trials *t)
{
    const struct graph_keyframe *keyframes;
    const uint32_t n = keyframe_window_list(t->window, &keyframes);
    for (size_t i = 0, k = 0; i < t->recording->n_frames && n > 0; i++) {
        while (k + 1 < n && keyframes[k + 1].seq <= i)
            k++;
        const struct se3 T_map_odom = graph_keyframe_T_map_odom(&keyframes[k]);
        t->truth_map[i] = se3_compose(&T_map_odom, &t->truth[i]);
    }
}

static int first_pass(struct trials *t)
{
    struct optimise_report report;
    struct track_result result;
    int rc = 0;
    for (size_t i = 0; i < t->recording->n_frames && rc == 0; i++) {
        rc = step(t, t->recording->depth[i], &result);
        t->truth[i] = t->truth_map[i] = result.T_odom_camera;
        t->known[i] = result.state == TRACK_STATE_TRACKING;
    }
    t->n_looks = 0;
    t->look_s = t->look_keyframes_s = 0;
    if (rc < 0 || !t->window)
        return rc;
    rc = keyframe_window_finish(t->window, false, NULL, NULL, &report);
    set_truth_map(t);
    return rc;
}

static const uint16_t *foreign_frame(struct trials *t, size_t at)
{
    const double scale = t->recording->info.units_per_m / t->foreign->info.units_per_m;
    for (size_t i = 0; i < t->recording->frame_bytes / sizeof *t->depth; i++)
        t->depth[i] = (uint16_t)fmin(UINT16_MAX, t->foreign->depth[at][i] * scale + 0.5);
    return t->depth;
}

// A frame of a trial, the i-th, that is TRACKING. truth: NULL: of another recording.
static void judge(struct tally *tally, int i, const struct se3 *truth, const struct se3 *T)
{
    double off_m = INFINITY, off_rad = INFINITY;
    if (truth) {
        const struct se3 off = se3_between(truth, T);
        off_m = sqrt(off.t_m[0] * off.t_m[0] + off.t_m[1] * off.t_m[1] + off.t_m[2] * off.t_m[2]);
        off_rad = se3_angle(&off);
    }
    tally->wrong_frames += off_m > WRONG_M || off_rad > WRONG_RAD;
    if (tally->found_at < 0 && off_m < RIGHT_M && off_rad < RIGHT_RAD)
        tally->found_at = i;
}

static void end_trial(struct tally *tally)
{
    tally->n_wrong += tally->wrong_frames > 0;
    tally->n_wrong_frames += tally->wrong_frames;
    tally->n_found += tally->found_at >= 0;
    tally->n_in_time += tally->found_at >= 0 && tally->found_at < WITHIN_FRAMES;
}

// One kidnapping: frames from a random one on, 1 to 5 s later.
static int trial(struct trials *t)
{
    const size_t n = t->foreign ? t->foreign->n_frames : t->recording->n_frames;
    const size_t tail = n > 40 ? 30 : n / 4, from = draw(t, (uint32_t)(n - tail));
    struct track_result result;
    int rc = 0;
    t->odom.wrong_frames = t->map_frame.wrong_frames = 0;
    t->odom.found_at = t->map_frame.found_at = -1;
    t->time_ns += (1000 + (int64_t)draw(t, 4000)) * 1000000;
    for (int i = 0; i < FRAMES_A_TRY && rc == 0 &&
                    (t->odom.found_at < 0 || i <= t->odom.found_at + FRAMES_AFTER);
         i++) {
        // Forwards and back again: the camera stays where it was seen.
        size_t at = from + (size_t)((size_t)i < tail ? i : FRAMES_A_TRY - 1 - i) % tail;
        int64_t begin_ns = clock_monotonic_ns();
        rc = step(t, t->foreign ? foreign_frame(t, at) : t->recording->depth[at], &result);
        if (rc == 0 && result.state == TRACK_STATE_LOST) {
            t->n_looks++;
            t->look_s += (double)(clock_monotonic_ns() - begin_ns) * 1e-9;
        }
        if (rc < 0 || result.state != TRACK_STATE_TRACKING || (!t->foreign && !t->known[at]))
            continue;
        const struct se3 T_map_odom =
            t->window ? keyframe_window_T_map_odom(t->window) : se3_identity();
        const struct se3 T_map_camera = se3_compose(&T_map_odom, &result.T_odom_camera);
        judge(&t->odom, i, t->foreign ? NULL : &t->truth[at], &result.T_odom_camera);
        judge(&t->map_frame, i, t->foreign ? NULL : &t->truth_map[at], &T_map_camera);
    }
    t->n++;
    t->frames_to_find += t->odom.found_at >= 0 ? t->odom.found_at : 0;
    end_trial(&t->odom);
    end_trial(&t->map_frame);
    return rc;
}

static int trials_open(struct trials *t, const struct kidnap_options *o)
{
    struct gpu_settings settings;
    struct track_settings track;
    struct model_settings model;
    const bool by_model = o->reference == TRACK_REFERENCE_MODEL || o->finder == FINDER_MODEL ||
                          o->finder == FINDER_BOTH;
    const struct log_sink log = {bench_log_write, NULL}, quiet = {NULL, NULL};
    gpu_settings_default(&settings);
    settings.camera = t->recording->info.camera;
    settings.units_per_m = t->recording->info.units_per_m;
    settings.n_threads = o->map.n_threads;
    settings.log = log;
    track_settings_default(&track);
    track.reference = o->reference;
    track.restart_s = 1e6; // a new map would have a truth of its own
    model_settings_default(&model);
    model.voxel_m = (float)o->map.voxel_m;
    t->truth = calloc(t->recording->n_frames, sizeof *t->truth);
    t->truth_map = calloc(t->recording->n_frames, sizeof *t->truth_map);
    t->known = calloc(t->recording->n_frames, sizeof *t->known);
    t->depth = malloc(t->recording->frame_bytes);
    if (!t->truth || !t->truth_map || !t->known || !t->depth)
        return -ENOMEM;
    int rc = gpu_open(&t->gpu, o->map.track.backend, &settings);
    if (rc == 0)
        rc = track_create(&t->track, t->gpu, &track, &quiet);
    if (rc == 0 && by_model)
        rc = map_create(&t->map, t->gpu, &model, &track.align, &quiet);
    if (rc == 0 && o->finder != FINDER_MODEL)
        rc = keyframe_window_create(&t->window, &settings.camera, &o->graph, NULL, &quiet);
    return rc;
}

static void report(const struct trials *t, const struct kidnap_options *o)
{
    const struct tally *odom = &t->odom, *map = &t->map_frame;
    printf("%s\n%s: %u trials: found %u (%.0f %%), within 1 s %u (%.0f %%), after %.1f frames "
           "on average; wrong place called TRACKING in %u trials (%u frames); %.0f ms a lost "
           "frame",
           gpu_description(t->gpu), o->map.track.source, t->n, odom->n_found,
           1e2 * odom->n_found / t->n, odom->n_in_time, 1e2 * odom->n_in_time / t->n,
           odom->n_found ? t->frames_to_find / odom->n_found : 0.0, odom->n_wrong,
           odom->n_wrong_frames, t->n_looks ? 1e3 * t->look_s / t->n_looks : 0.0);
    if (t->window)
        printf(", %.0f of them among the keyframes; where the keyframes agree: found %u, within "
               "1 s %u, wrong in %u (%u frames)",
               t->n_looks ? 1e3 * t->look_keyframes_s / t->n_looks : 0.0, map->n_found,
               map->n_in_time, map->n_wrong, map->n_wrong_frames);
    printf("\n");
}

static int run(struct trials *t, const struct kidnap_options *o)
{
    int rc = trials_open(t, o);
    if (rc == 0)
        rc = first_pass(t);
    for (unsigned i = 0; i < o->n_trials && rc == 0; i++)
        rc = trial(t);
    if (rc == 0)
        report(t, o);
    keyframe_window_destroy(&t->window);
    map_destroy(&t->map);
    track_destroy(&t->track);
    if (t->gpu)
        gpu_close(&t->gpu);
    free(t->truth);
    free(t->truth_map);
    free(t->known);
    free(t->depth);
    return rc;
}

static int load(const struct options *options, struct recording **out)
{
    *out = calloc(1, sizeof **out);
    int rc = *out ? recording_load(options, *out) : -ENOMEM;
    if (rc == 0)
        return 0;
    fprintf(stderr, "posed-bench: %s: %s\n", options->source, strerror(-rc));
    free(*out);
    *out = NULL;
    return rc;
}

static void unload(struct recording *recording)
{
    if (recording)
        recording_free(recording);
    free(recording);
}

int bench_kidnap(int argc, char **argv)
{
    static const struct argp_child children[] = {{&map_options_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {.options = argp_options,
                                     .parser = parse,
                                     .children = children,
                                     .doc =
                                         "A camera that is carried off and put back where it "
                                         "was: how often, how soon and how rightly it is found."};
    struct kidnap_options options = {.map = map_options_default(300),
                                     .reference = TRACK_REFERENCE_MODEL,
                                     .finder = FINDER_DEFAULT,
                                     .n_trials = 50,
                                     .seed = 1};
    graph_settings_default(&options.graph);
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    struct recording *recording = NULL, *foreign = NULL;
    int rc = load(&options.map.track, &recording);
    if (rc == 0 && options.foreign) {
        struct options other = options.map.track;
        other.source = options.foreign;
        rc = load(&other, &foreign);
        if (rc == 0 && foreign->frame_bytes != recording->frame_bytes) {
            fprintf(stderr, "posed-bench: %s has frames of another size\n", options.foreign);
            rc = -EINVAL;
        }
    }
    struct trials trials = {.recording = recording, .foreign = foreign, .random = options.seed};
    int error = rc == 0 ? run(&trials, &options) : 0;
    if (error < 0)
        fprintf(stderr, "posed-bench: %s\n", strerror(-error));
    unload(recording);
    unload(foreign);
    return rc < 0 ? 4 : error < 0 ? 5 : 0;
}

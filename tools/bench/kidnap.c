// SPDX-License-Identifier: Apache-2.0
// posed-bench kidnap: how often, how soon and how rightly a camera is found again. The recording is
// played once, which makes the map; then, again and again, some seconds are cut out and it goes on
// at a random frame of what was seen. The truth is the pose that the first pass gave that frame, in
// the same map.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

struct kidnap_options {
    struct map_options map;
    enum track_reference reference;
    unsigned n_trials;
    uint64_t seed;
};

enum { OPTION_SEED = MAP_OPTIONS_KEY };

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
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option argp_options[] = {
    {"reference", 'r', "keyframe|model", 0,
     "What frames are aligned to while the camera is not lost (default model)", 0},
    {"trials", 't', "N", 0, "Times that it is carried off (default 50)", 0},
    {"seed", OPTION_SEED, "N", 0, "Of the frames and times (default 1)", 0},
    {0},
};

struct trials {
    struct gpu *gpu;
    struct track *track;
    struct map *map;
    const struct recording *recording;
    struct se3 *truth;
    bool *known;
    int64_t time_ns;
    uint64_t random;
    unsigned n, n_found, n_in_time, n_wrong, n_wrong_frames;
    double frames_to_find;
    unsigned n_looks; // frames that were lost
    double look_s;    // all that was done for them
};

static uint32_t draw(struct trials *t, uint32_t below)
{
    t->random = t->random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)(t->random >> 33) % below;
}

static int step(struct trials *t, size_t frame, struct track_result *out)
{
    int rc = track_frame(t->track, t->recording->depth[frame], t->time_ns, out);
    if (rc == 0)
        rc = map_follow(t->map, t->track, out);
    t->time_ns += PERIOD_NS;
    return rc;
}

static int first_pass(struct trials *t)
{
    struct track_result result;
    int rc = 0;
    for (size_t i = 0; i < t->recording->n_frames && rc == 0; i++) {
        rc = step(t, i, &result);
        t->truth[i] = result.T_odom_camera;
        t->known[i] = result.state == TRACK_STATE_TRACKING;
    }
    return rc;
}

// One kidnapping: frames from a random one on, 1 to 5 s later.
static int trial(struct trials *t)
{
    size_t n = t->recording->n_frames, tail = n > 40 ? 30 : n / 4;
    size_t from = draw(t, (uint32_t)(n - tail));
    struct track_result result;
    unsigned wrong_frames = 0;
    int found_at = -1, rc = 0;
    t->time_ns += (1000 + (int64_t)draw(t, 4000)) * 1000000;
    for (int i = 0; i < FRAMES_A_TRY && rc == 0 && (found_at < 0 || i <= found_at + FRAMES_AFTER);
         i++) {
        // Forwards and back again: the camera stays where it was seen.
        size_t at = from + (size_t)((size_t)i < tail ? i : FRAMES_A_TRY - 1 - i) % tail;
        int64_t begin_ns = clock_monotonic_ns();
        rc = step(t, at, &result);
        if (rc == 0 && result.state == TRACK_STATE_LOST) {
            t->n_looks++;
            t->look_s += (double)(clock_monotonic_ns() - begin_ns) * 1e-9;
        }
        if (rc < 0 || result.state != TRACK_STATE_TRACKING || !t->known[at])
            continue;
        struct se3 off = se3_between(&t->truth[at], &result.T_odom_camera);
        double off_m =
            sqrt(off.t_m[0] * off.t_m[0] + off.t_m[1] * off.t_m[1] + off.t_m[2] * off.t_m[2]);
        double off_rad = se3_angle(&off);
        wrong_frames += off_m > WRONG_M || off_rad > WRONG_RAD;
        if (found_at < 0 && off_m < RIGHT_M && off_rad < RIGHT_RAD)
            found_at = i;
    }
    t->n++;
    t->n_wrong += wrong_frames > 0;
    t->n_wrong_frames += wrong_frames;
    t->n_found += found_at >= 0;
    t->n_in_time += found_at >= 0 && found_at < WITHIN_FRAMES;
    t->frames_to_find += found_at >= 0 ? found_at : 0;
    return rc;
}

static int trials_open(struct trials *t, const struct kidnap_options *o)
{
    struct gpu_settings settings;
    struct track_settings track;
    struct model_settings model;
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
    t->known = calloc(t->recording->n_frames, sizeof *t->known);
    if (!t->truth || !t->known)
        return -ENOMEM;
    int rc = gpu_open(&t->gpu, o->map.track.backend, &settings);
    if (rc == 0)
        rc = track_create(&t->track, t->gpu, &track, &quiet);
    if (rc == 0)
        rc = map_create(&t->map, t->gpu, &model, &track.align, &quiet);
    return rc;
}

static int run(struct trials *t, const struct kidnap_options *o)
{
    int rc = trials_open(t, o);
    if (rc == 0)
        rc = first_pass(t);
    for (unsigned i = 0; i < o->n_trials && rc == 0; i++)
        rc = trial(t);
    if (rc == 0)
        printf("%s\n%s: %u trials: found %u (%.0f %%), within 1 s %u (%.0f %%), after %.1f frames "
               "on average; wrong place called TRACKING in %u trials (%u frames); %.0f ms a lost "
               "frame\n",
               gpu_description(t->gpu), o->map.track.source, t->n, t->n_found,
               1e2 * t->n_found / t->n, t->n_in_time, 1e2 * t->n_in_time / t->n,
               t->n_found ? t->frames_to_find / t->n_found : 0.0, t->n_wrong, t->n_wrong_frames,
               t->n_looks ? 1e3 * t->look_s / t->n_looks : 0.0);
    map_destroy(&t->map);
    track_destroy(&t->track);
    if (t->gpu)
        gpu_close(&t->gpu);
    free(t->truth);
    free(t->known);
    return rc;
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
                                     .n_trials = 50,
                                     .seed = 1};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    struct recording *recording = calloc(1, sizeof *recording);
    int rc = recording ? recording_load(&options.map.track, recording) : -ENOMEM;
    if (rc < 0) {
        fprintf(stderr, "posed-bench: %s: %s\n", options.map.track.source, strerror(-rc));
        free(recording);
        return 4;
    }
    struct trials trials = {.recording = recording, .random = options.seed};
    rc = run(&trials, &options);
    if (rc < 0)
        fprintf(stderr, "posed-bench: %s\n", strerror(-rc));
    recording_free(recording);
    free(recording);
    return rc < 0 ? 5 : 0;
}

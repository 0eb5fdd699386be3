// SPDX-License-Identifier: Apache-2.0
// posed-bench loops: synthetic walks that come back to where they began, each with a camera and
// noise of its own seed, at the daemon's settings: how far off the last pose is as tracked, in the
// map whose keyframes agree and whose loops are closed, and after all keyframes were adjusted at
// once; and how often what entered the map made it worse, as a wrong loop does.
//
// Seeds run beside each other, one processor each, so that a large machine does many; what comes of
// one does not depend on how many run.
#include <argp.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "capture/capture.h"
#include "gpu/model/keyframe_window.h"
#include "proto/se3.h"
#include "tools/argument.h"
#include "tools/bench/bench.h"

#define MAX_SEEDS 10000
#define WRONG_M   0.05 // the camera's error grows by so much with what enters the map
#define MUST_M    0.015

struct loops_options {
    const char *source; // without seed, camera and frames
    unsigned n_seeds, n_frames, n_jobs;
    uint64_t first;
    enum gpu_backend backend;
};

struct trial {
    uint64_t seed;
    int rc;
    uint32_t n_wrong;
    double odom_m, map_m, optimised_m; // of the last pose, seen from the first
    double worst_m;                    // of a keyframe, after all were adjusted
    struct optimise_report report;
};

struct loops {
    const struct loops_options *options;
    struct trial *trials;
    atomic_uint next;
    pthread_mutex_t print;
};

enum { OPTION_SEEDS = 1, OPTION_FIRST, OPTION_JOBS };

static const struct argp_option argp_options[] = {
    {"source", 's', "SOURCE", 0, "What is walked through (default synth:room,sensor=field)", 0},
    {"frames", 'n', "N", 0, "Of each walk (default 1800: three turns, 60 s)", 0},
    {"seeds", OPTION_SEEDS, "N", 0, "How many walks (default 50)", 0},
    {"first", OPTION_FIRST, "S", 0, "The first one's seed (default 1)", 0},
    {"jobs", OPTION_JOBS, "N", 0, "So many beside each other (default: the processors)", 0},
    {"backend", 'b', "auto|cpu|cuda", 0, "What computes (default cpu)", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct loops_options *o = state->input;
    switch (key) {
    case 's':
        if (strncmp(arg, "synth:", 6) != 0)
            argp_error(state, "--source %s: a synth: recording is wanted, of which all is known",
                       arg);
        o->source = arg;
        return 0;
    case 'n':
        o->n_frames = (unsigned)argument_count(state, "frames", arg, 2, 100000);
        return 0;
    case OPTION_SEEDS:
        o->n_seeds = (unsigned)argument_count(state, "seeds", arg, 1, MAX_SEEDS);
        return 0;
    case OPTION_FIRST:
        o->first = argument_count(state, "first", arg, 0, 1000000000);
        return 0;
    case OPTION_JOBS:
        o->n_jobs = (unsigned)argument_count(state, "jobs", arg, 1, 1024);
        return 0;
    case 'b':
        o->backend = (enum gpu_backend)argument_choose(state, "backend", arg, bench_backends);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument %s", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

struct walk {
    struct capture *capture;
    struct gpu *gpu;
    struct track *track;
    struct keyframe_window *window;
    struct stamped_pose *truth;
    uint64_t n_frames;
    struct se3 T_odom_first, T_odom_newest;
};

// How far the pose is off where that of frame `first` counts as exact.
static double error_m(const struct walk *w, const struct se3 *T_first, uint64_t first,
                      const struct se3 *T, uint64_t frame)
{
    struct se3 is = se3_between(T_first, T);
    struct se3 should =
        se3_between(&w->truth[first].T_world_camera, &w->truth[frame].T_world_camera);
    struct se3 e = se3_between(&should, &is);
    return sqrt(e.t_m[0] * e.t_m[0] + e.t_m[1] * e.t_m[1] + e.t_m[2] * e.t_m[2]);
}

static double error_in_map_m(const struct walk *w, uint64_t frame)
{
    struct se3 T_map_odom = keyframe_window_T_map_odom(w->window);
    struct se3 T = se3_compose(&T_map_odom, &w->T_odom_newest);
    return error_m(w, &w->T_odom_first, 0, &T, frame); // the first keyframe stays where odom has it
}

static int walk_open(struct walk *w, const struct loops_options *o, uint64_t seed)
{
    static const struct log_sink log = {bench_log_write, NULL};
    char source[512];
    snprintf(source, sizeof source, "%s,camera=%llu,seed=%llu,frames=%u", o->source,
             (unsigned long long)seed, (unsigned long long)seed, o->n_frames);
    const struct capture_settings settings = {
        .source = source, .rate = CAPTURE_RATE_MAX, .log = log};
    static const struct log_sink quiet = {NULL, NULL};
    struct gpu_settings with;
    struct track_settings tracking;
    struct graph_settings graph;
    int rc = capture_open(&w->capture, &settings);
    if (rc < 0)
        return rc;
    if (capture_ground_truth(w->capture, &w->truth) < (long)o->n_frames)
        return -ENODATA;
    gpu_settings_default(&with);
    track_settings_default(&tracking);
    graph_settings_default(&graph);
    with.camera = capture_info(w->capture)->camera;
    with.units_per_m = capture_info(w->capture)->units_per_m;
    with.n_threads = 1;
    with.log = log;
    rc = gpu_open(&w->gpu, o->backend, &with);
    if (rc == 0)
        rc = track_create(&w->track, w->gpu, &tracking, &quiet);
    return rc < 0 ? rc : keyframe_window_create(&w->window, &with.camera, &graph, NULL, &quiet);
}

static void walk_close(struct walk *w)
{
    keyframe_window_destroy(&w->window);
    track_destroy(&w->track);
    gpu_close(&w->gpu);
    if (w->capture)
        capture_close(&w->capture);
    free(w->truth);
}

static int go(struct walk *w, struct trial *trial)
{
    struct capture_frame frame;
    int rc;
    while ((rc = capture_read(w->capture, -1, &frame)) == 0) {
        struct track_result result;
        double moved_m = 0;
        rc = track_frame(w->track, frame.image.depth, frame.image.time_ns, &result);
        if (rc < 0)
            return rc;
        w->T_odom_newest = result.T_odom_camera;
        if (w->n_frames == 0)
            w->T_odom_first = result.T_odom_camera;
        keyframe_window_enter(w->window, result.map_epoch);
        double before_m = error_in_map_m(w, w->n_frames);
        rc = keyframe_window_follow(w->window, w->gpu, w->track, &result, w->n_frames,
                                    frame.image.time_ns, &moved_m);
        if (rc < 0)
            return rc;
        trial->n_wrong += error_in_map_m(w, w->n_frames) > before_m + WRONG_M;
        w->n_frames++;
    }
    return rc == -ENODATA ? 0 : rc;
}

static int optimise_all(struct walk *w, struct trial *trial)
{
    const struct timespec a_moment = {0, 10000000};
    const struct graph_keyframe *keyframes;
    int rc = keyframe_window_optimise(w->window);
    if (rc < 0)
        return rc;
    while ((rc = keyframe_window_optimised(w->window, &trial->report)) == -EAGAIN)
        nanosleep(&a_moment, NULL);
    uint32_t n = rc == 0 ? keyframe_window_list(w->window, &keyframes) : 0;
    for (uint32_t i = 0; i < n; i++)
        trial->worst_m =
            fmax(trial->worst_m, error_m(w, &keyframes[0].T_map_camera, keyframes[0].seq,
                                         &keyframes[i].T_map_camera, keyframes[i].seq));
    return rc;
}

static void run_trial(const struct loops_options *o, struct trial *trial)
{
    struct walk w = {.n_frames = 0};
    trial->rc = walk_open(&w, o, trial->seed);
    if (trial->rc == 0)
        trial->rc = go(&w, trial);
    if (trial->rc == 0) {
        trial->odom_m = error_m(&w, &w.T_odom_first, 0, &w.T_odom_newest, w.n_frames - 1);
        trial->map_m = error_in_map_m(&w, w.n_frames - 1);
        trial->rc = optimise_all(&w, trial);
    }
    if (trial->rc == 0)
        trial->optimised_m = error_in_map_m(&w, w.n_frames - 1);
    walk_close(&w);
}

static void print_trial(const struct trial *t)
{
    if (t->rc < 0)
        printf("%6llu  %s\n", (unsigned long long)t->seed, strerror(-t->rc));
    else
        printf("%6llu %9.1f %9.1f %9.1f %9.1f %7u %7.0f %6s\n", (unsigned long long)t->seed,
               1e3 * t->odom_m, 1e3 * t->map_m, 1e3 * t->optimised_m, 1e3 * t->worst_m, t->n_wrong,
               100 * t->report.reduction, t->report.has_field ? "taken" : "-");
    fflush(stdout);
}

static void *work(void *user)
{
    struct loops *loops = user;
    unsigned k;
    while ((k = atomic_fetch_add(&loops->next, 1)) < loops->options->n_seeds) {
        struct trial *trial = &loops->trials[k];
        trial->seed = loops->options->first + k;
        run_trial(loops->options, trial);
        pthread_mutex_lock(&loops->print);
        print_trial(trial);
        pthread_mutex_unlock(&loops->print);
    }
    return NULL;
}

static int print_sum(const struct loops *loops)
{
    const unsigned n = loops->options->n_seeds;
    double worst_map_m = 0, worst_m = 0;
    unsigned n_failed = 0, n_wrong = 0, n_good_map = 0, n_good = 0;
    for (unsigned k = 0; k < n; k++) {
        const struct trial *t = &loops->trials[k];
        n_failed += t->rc < 0;
        n_wrong += t->n_wrong;
        worst_map_m = fmax(worst_map_m, t->map_m);
        worst_m = fmax(worst_m, t->optimised_m);
        n_good_map += t->rc == 0 && t->map_m <= MUST_M;
        n_good += t->rc == 0 && t->optimised_m <= MUST_M;
    }
    printf("%u walks, %u failed: within %.0f mm at the end %u in the map (worst %.1f mm), %u when "
           "all was adjusted (worst %.1f); %u wrong loops\n",
           n, n_failed, 1e3 * MUST_M, n_good_map, 1e3 * worst_map_m, n_good, 1e3 * worst_m,
           n_wrong);
    return n_failed ? 1 : 0;
}

int bench_loops(int argc, char **argv)
{
    static const struct argp argp = {
        .options = argp_options,
        .parser = parse,
        .doc = "End error of synthetic walks that come back, each with another camera, at the "
               "daemon's settings: tracked, with loops closed, with all keyframes adjusted."};
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct loops_options o = {.source = "synth:room,sensor=field",
                              .n_seeds = 50,
                              .n_frames = 1800,
                              .n_jobs = cores > 0 ? (unsigned)cores : 1,
                              .first = 1,
                              .backend = GPU_BACKEND_CPU};
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    const unsigned n_jobs = o.n_jobs < o.n_seeds ? o.n_jobs : o.n_seeds;
    struct loops loops = {.options = &o, .print = PTHREAD_MUTEX_INITIALIZER};
    pthread_t *threads = calloc(n_jobs, sizeof *threads);
    loops.trials = calloc(o.n_seeds, sizeof *loops.trials);
    unsigned n_started = 0;
    int status = 1;
    if (threads && loops.trials) {
        printf("%s, %u frames; errors at the end [mm]\n%6s %9s %9s %9s %9s %7s %7s %6s\n", o.source,
               o.n_frames, "seed", "odom", "map", "adjusted", "worst kf", "wrong", "less %",
               "field");
        while (n_started < n_jobs && pthread_create(&threads[n_started], NULL, work, &loops) == 0)
            n_started++;
        if (n_started == 0)
            work(&loops);
        for (unsigned k = 0; k < n_started; k++)
            pthread_join(threads[k], NULL);
        status = print_sum(&loops);
    }
    free(threads);
    free(loops.trials);
    return status;
}

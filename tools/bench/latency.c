// SPDX-License-Identifier: Apache-2.0
// posed-bench latency: tracks frames that come at a camera's rate (or one after the other) while
// requests of one kind after the other run on a second thread, as in the daemon: same priorities,
// same rules of who goes first. Windows without and with requests take turns, so that whatever else
// the machine does falls on both alike. A frame's latency goes from when it is due to its pose.
#include <argp.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "capture/capture.h"
#include "gpu/base/yield.h"
#include "gpu/track/track.h"
#include "proto/clock.h"
#include "tools/argument.h"
#include "tools/bench/bench.h"
#include "tools/bench/latency.h"

#define MAX_FRAMES  60
#define MAX_SAMPLES 400000
#define WAKE_NS     300000 // awake so long before a frame is due, as the daemon is
#define SETTLE_NS   200000000

struct options {
    const char *source, *works;
    enum gpu_backend backend;
    double rate_hz, seconds, jitter_ms;
    unsigned n_rounds;
    bool json;
};

enum { KEY_RATE = 256, KEY_ROUNDS, KEY_WORK, KEY_JITTER };

static const struct argp_option argp_options[] = {
    {"source", 's', "SRC", 0, "Recording or scene (default synth:room-slow)", 0},
    {"backend", 'b', "auto|cpu|cuda", 0, "What computes (default auto)", 0},
    {"rate", KEY_RATE, "HZ", 0,
     "Frames a second (default 30); 0: one after the other, and requests wait for none", 0},
    {"jitter", KEY_JITTER, "MS", 0, "Frames come up to so much early or late (default 0)", 0},
    {"seconds", 't', "S", 0, "Length of a window (default 2)", 0},
    {"rounds", KEY_ROUNDS, "N", 0, "Pairs of windows of each kind (default 3)", 0},
    {"work", KEY_WORK, "NAME,...", 0, "Only these kinds of requests (default: all)", 0},
    {"json", 'J', NULL, 0, "Print JSON", 0},
    {0},
};

static bool is_wanted(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, n) == 0 && (at[n] == ',' || at[n] == '\0'))
            return true;
    }
    return !list;
}

// Of a list that is made of known names only.
static bool are_known(const char *list)
{
    size_t length = 0;
    for (const struct latency_work *work = latency_works; work->name; work++)
        length += is_wanted(list, work->name) ? strlen(work->name) + 1 : 0;
    return length == strlen(list) + 1;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case 's':
        o->source = arg;
        break;
    case 'b':
        o->backend = (enum gpu_backend)argument_choose(state, "backend", arg, bench_backends);
        break;
    case KEY_RATE:
        o->rate_hz = argument_number(state, "rate", arg, 0, 10000);
        break;
    case KEY_JITTER:
        o->jitter_ms = argument_number(state, "jitter", arg, 0, 1000);
        break;
    case 't':
        o->seconds = argument_number(state, "seconds", arg, 0.1, 3600);
        break;
    case KEY_ROUNDS:
        o->n_rounds = (unsigned)argument_count(state, "rounds", arg, 1, 1000);
        break;
    case KEY_WORK:
        o->works = arg;
        if (!are_known(arg))
            argp_error(state, "--work %s: kinds of requests are wanted, each once, as in icp,box",
                       arg);
        break;
    case 'J':
        o->json = true;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

struct tracker {
    struct gpu *gpu;
    struct track *track;
    uint16_t *depth[MAX_FRAMES];
    size_t n_frames, frame_bytes, position;
    int64_t period_ns, due_ns, came_ns, jitter_ns, time_ns;
    uint64_t random;
    struct yield_frames yield_frames;
};

static void tracker_close(struct tracker *t)
{
    if (t->track)
        track_destroy(&t->track);
    for (size_t i = 0; i < t->n_frames; i++)
        gpu_host_free(t->gpu, t->depth[i], t->frame_bytes);
    if (t->gpu)
        gpu_close(&t->gpu);
}

static int load_frames(struct tracker *t, struct capture *capture)
{
    struct capture_frame frame;
    int rc = 0;
    while (t->n_frames < MAX_FRAMES && (rc = capture_read(capture, -1, &frame)) == 0) {
        if (!frame.image.depth)
            continue;
        uint16_t *copy = gpu_host_alloc(t->gpu, t->frame_bytes);
        if (!copy)
            return -ENOMEM;
        memcpy(copy, frame.image.depth, t->frame_bytes);
        gpu_host_written(copy, t->frame_bytes);
        t->depth[t->n_frames++] = copy;
    }
    if (rc == -ENODATA)
        rc = 0;
    return rc == 0 && t->n_frames < 2 ? -ENODATA : rc;
}

// Returns 0 or an exit status (bench.h).
static int tracker_open(struct tracker *t, const struct options *o, const struct log_sink *log)
{
    const struct capture_settings from = {.source = o->source,
                                          .rate = CAPTURE_RATE_MAX,
                                          .n_frames = MAX_FRAMES,
                                          .seed = CAPTURE_SEED,
                                          .log = *log};
    struct capture *capture;
    struct gpu_settings settings;
    struct track_settings track_settings;
    if (capture_open(&capture, &from) != 0)
        return 4;
    const struct capture_info *info = capture_info(capture);
    gpu_settings_default(&settings);
    settings.camera = info->camera;
    settings.units_per_m = info->units_per_m;
    settings.log = *log;
    t->frame_bytes = (size_t)info->camera.width_px * info->camera.height_px * 2;
    track_settings_default(&track_settings);
    int status = gpu_open(&t->gpu, o->backend, &settings) == 0 &&
                         track_create(&t->track, t->gpu, &track_settings, log) == 0
                     ? 0
                     : 5;
    int rc = status ? 0 : load_frames(t, capture);
    if (rc) {
        fprintf(stderr, "posed-bench: %s: %s\n", o->source, strerror(-rc));
        status = 4;
    }
    capture_close(&capture);
    t->period_ns = o->rate_hz > 0 ? (int64_t)(1e9 / o->rate_hz) : 0;
    t->jitter_ns = (int64_t)(o->jitter_ms * 1e6);
    t->due_ns = t->came_ns = clock_monotonic_ns();
    return status;
}

// One frame, forwards and backwards through the recording; out_us: from when it came to its pose.
static int tracker_step(struct tracker *t, double *out_us)
{
    const size_t k = t->position++ % (2 * t->n_frames - 2);
    const uint16_t *depth = t->depth[k < t->n_frames ? k : 2 * t->n_frames - 2 - k];
    struct track_result result;
    int64_t came_ns = clock_monotonic_ns(), before_ns = t->came_ns;
    if (t->period_ns) {
        t->random = t->random * 6364136223846793005u + 1442695040888963407u;
        t->due_ns += t->period_ns;
        if (t->due_ns + t->period_ns < came_ns) // a machine too slow for the rate drops frames
            t->due_ns = came_ns;
        int64_t shift_ns = (int64_t)((double)(t->random >> 11) * 0x1p-52 * (double)t->jitter_ns);
        came_ns = t->due_ns + shift_ns - t->jitter_ns;
        const int64_t wake_ns = came_ns - WAKE_NS;
        const struct timespec until = clock_timespec(wake_ns);
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
            ;
        gpu_wake(t->gpu);
        while (clock_monotonic_ns() < came_ns)
            ;
        yield_frames_begin(&t->yield_frames);
    }
    t->time_ns += 33333333;
    int rc = track_frame(t->track, depth, t->time_ns, &result);
    *out_us = (double)(clock_monotonic_ns() - came_ns) * 1e-3;
    t->came_ns = came_ns;
    yield_frames_end(&t->yield_frames, t->period_ns ? came_ns + (came_ns - before_ns) : 0);
    return rc;
}

struct samples {
    double *us;
    size_t n;
};

// Frames until a time; those after `from_ns` count.
static int track_until(struct tracker *t, int64_t from_ns, int64_t until_ns, struct samples *out)
{
    int rc = 0;
    double us;
    while (rc == 0 && clock_monotonic_ns() < until_ns) {
        int64_t begin_ns = clock_monotonic_ns();
        rc = tracker_step(t, &us);
        if (begin_ns >= from_ns && out->n < MAX_SAMPLES)
            out->us[out->n++] = us;
    }
    return rc;
}

struct worker {
    pthread_t thread;
    const struct latency_work *work;
    struct latency_job job;
    int busy, idle, end, rc; // __atomic
    uint64_t n_done;
    double sum_ms;
};

static int get(const int *flag)
{
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static void set(int *flag, int value)
{
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

static void *run_requests(void *user)
{
    struct worker *w = user;
    const struct timespec pause = {0, 1000000};
    sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
    while (!get(&w->end)) {
        if (!get(&w->busy) || get(&w->rc)) {
            set(&w->idle, 1);
            nanosleep(&pause, NULL);
            continue;
        }
        set(&w->idle, 0);
        int64_t before_ns = clock_monotonic_ns();
        int rc = w->work->run(&w->job);
        if (rc == -ECANCELED)
            continue;
        if (rc)
            set(&w->rc, rc);
        w->n_done++;
        w->sum_ms += (double)(clock_monotonic_ns() - before_ns) * 1e-6;
    }
    return NULL;
}

static int run_windows(struct tracker *t, struct worker *w, const struct options *o,
                       struct samples out[2])
{
    int rc = 0;
    for (unsigned round = 0; rc == 0 && round < o->n_rounds; round++)
        for (int busy = 0; rc == 0 && busy < 2; busy++) {
            int64_t now_ns = clock_monotonic_ns();
            set(&w->job.stop.requested, 0);
            set(&w->busy, busy);
            rc = track_until(t, now_ns + SETTLE_NS,
                             now_ns + SETTLE_NS + (int64_t)(o->seconds * 1e9), &out[busy]);
            set(&w->busy, 0);
            set(&w->job.stop.requested, 1);
            struct samples none = {0};
            none.n = MAX_SAMPLES;
            do
                rc = rc ? rc
                        : track_until(t, INT64_MAX, clock_monotonic_ns() + SETTLE_NS / 10, &none);
            while (rc == 0 && !get(&w->idle));
        }
    return rc ? rc : get(&w->rc);
}

static void print_row(const struct options *o, const struct latency_work *work,
                      const struct worker *w, struct samples samples[2], bool first)
{
    struct bench_stats s[2];
    double p999_us = 0;
    for (int busy = 0; busy < 2; busy++)
        s[busy] = bench_stats(samples[busy].us, samples[busy].n);
    if (samples[1].n)
        p999_us = samples[1].us[samples[1].n * 999 / 1000]; // sorted by now
    const double request_ms = w->n_done ? w->sum_ms / (double)w->n_done : 0;
    if (o->json)
        printf(
            "%s{\"work\": \"%s\", \"requests\": %llu, \"request_ms\": %.3f, \"frames\": %zu, "
            "\"quiet_us\": {\"p50\": %.1f, \"p99\": %.1f, \"max\": %.1f}, \"busy_us\": {\"p50\": "
            "%.1f, \"p90\": %.1f, \"p99\": %.1f, \"p999\": %.1f, \"max\": %.1f}}\n",
            first ? "[" : ",", work->name, (unsigned long long)w->n_done, request_ms, s[1].n,
            s[0].p50_us, s[0].p99_us, s[0].max_us, s[1].p50_us, s[1].p90_us, s[1].p99_us, p999_us,
            s[1].max_us);
    else
        printf("%-14s %7.1f %7.1f %7.1f  %7.1f %7.1f %7.1f %7.1f %8.1f  %6llu %9.2f\n", work->name,
               s[0].p50_us, s[0].p99_us, s[0].max_us, s[1].p50_us, s[1].p90_us, s[1].p99_us,
               p999_us, s[1].max_us, (unsigned long long)w->n_done, request_ms);
    fflush(stdout);
}

static int measure(struct tracker *t, const struct latency_work *work, const struct options *o,
                   const struct log_sink *log, bool first)
{
    struct samples samples[2] = {{malloc(MAX_SAMPLES * sizeof(double)), 0},
                                 {malloc(MAX_SAMPLES * sizeof(double)), 0}};
    struct worker w = {.work = work};
    w.job.backend = gpu_backend(t->gpu);
    w.job.yield = (struct yield){yield_frames_wait, &t->yield_frames};
    w.job.log = *log;
    int rc = samples[0].us && samples[1].us ? work->open(&w.job) : -ENOMEM;
    if (rc == 0)
        rc = -pthread_create(&w.thread, NULL, run_requests, &w);
    if (rc == 0) {
        t->due_ns = t->came_ns = clock_monotonic_ns();
        rc = run_windows(t, &w, o, samples);
        set(&w.job.stop.requested, 1);
        set(&w.end, 1);
        pthread_join(w.thread, NULL);
    }
    if (rc == 0)
        print_row(o, work, &w, samples, first);
    else
        fprintf(stderr, "posed-bench: %s: %s\n", work->name, strerror(-rc));
    latency_work_close(&w.job);
    free(samples[0].us);
    free(samples[1].us);
    return rc;
}

static void print_head(const struct options *o, const struct tracker *t)
{
    if (o->json)
        return;
    printf("%s; frames ", gpu_description(t->gpu));
    if (t->period_ns)
        printf("%g a second\n", o->rate_hz);
    else
        printf("one after the other\n");
    printf("us from frame to pose:   without requests                          with them\n");
    printf("%-14s %7s %7s %7s  %7s %7s %7s %7s %8s  %6s %9s\n", "", "p50", "p99", "max", "p50",
           "p90", "p99", "p99.9", "max", "done", "ms each");
}

int bench_latency(int argc, char **argv)
{
    static const struct argp argp = {
        argp_options,
        parse_option,
        NULL,
        "What each kind of request adds to the time from a frame to its pose.\v"
        "Kinds: register, many, softassign, dense, icp, large, outlier, search, germann, box, "
        "wide, object, first-register, first-search.",
        NULL,
        NULL,
        NULL};
    struct options o = {.source = "synth:room-slow", .rate_hz = 30, .seconds = 2, .n_rounds = 3};
    if (argp_parse(&argp, argc, argv, 0, NULL, &o))
        return 2;
    const struct log_sink log = {bench_log_write, NULL};
    struct tracker t = {.random = 1};
    const int unopened = tracker_open(&t, &o, &log);
    int status = unopened;
    bool first = true;
    if (!unopened)
        print_head(&o, &t);
    for (const struct latency_work *work = latency_works; !unopened && work->name; work++)
        if (is_wanted(o.works, work->name)) {
            int failed = measure(&t, work, &o, &log, first);
            status = failed ? 1 : status;
            first = first && failed;
        }
    if (!unopened && o.json)
        printf("%s]\n", first ? "[" : "");
    tracker_close(&t);
    return status;
}

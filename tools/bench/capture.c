// SPDX-License-Identifier: Apache-2.0
// posed-bench capture: how fast a recording is read and decoded, nothing else; with --record, what
// recording costs the thread that hands the frames over, and what the disk gets. The frames are
// then paced at their own rate (--speed), as a camera would deliver them.
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "capture/capture.h"
#include "capture/recorder/recorder.h"
#include "proto/clock.h"
#include "tools/argument.h"
#include "tools/bench/bench.h"

struct options {
    const char *source, *record, *folder;
    size_t n_frames;
    double speed;
    bool json;
};

enum { OPTION_JSON = 1, OPTION_RECORD, OPTION_FOLDER, OPTION_SPEED };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *options = state->input;
    switch (key) {
    case 's':
        options->source = arg;
        return 0;
    case 'n':
        options->n_frames = argument_count(state, "frames", arg, 1, 1000000);
        return 0;
    case OPTION_SPEED:
        options->speed = argument_number(state, "speed", arg, 0.001, 1000);
        return 0;
    case OPTION_RECORD:
        options->record = arg;
        if (recorder_format_from_name(arg) < 0)
            argp_error(state, "--record %s: tum, klg, fakenect, mcap or ros2mcap is wanted", arg);
        return 0;
    case OPTION_FOLDER:
        options->folder = arg;
        return 0;
    case OPTION_JSON:
        options->json = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument %s", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static double thread_cpu_us(void)
{
    return (double)clock_read_ns(CLOCK_THREAD_CPUTIME_ID) * 1e-3;
}

static double process_cpu_s(void)
{
    return (double)clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) * 1e-9;
}

struct measured {
    uint64_t n_frames, n_damaged, n_late;
    double seconds, cpu_s;
    struct bench_stats push, push_cpu;
    struct recorder_status status;
};

static void print_stats(const char *name, const struct bench_stats *s)
{
    printf("%-22s p50 %7.1f us   p90 %7.1f us   p99 %7.1f us   max %7.1f us\n", name, s->p50_us,
           s->p90_us, s->p99_us, s->max_us);
}

static void report(const struct options *options, const struct measured *m)
{
    double rate = (double)m->n_frames / m->seconds;
    double cpu_ms = 1e3 * m->cpu_s / (double)m->n_frames;
    if (options->json) {
        printf("{\"source\": \"%s\", \"frames\": %llu, \"damaged\": %llu, \"late\": %llu, "
               "\"frames_per_s\": %.1f, \"cpu_ms_per_frame\": %.4f",
               options->source, (unsigned long long)m->n_frames, (unsigned long long)m->n_damaged,
               (unsigned long long)m->n_late, rate, cpu_ms);
        if (options->record)
            printf(", \"format\": \"%s\", \"push_p50_us\": %.2f, \"push_p99_us\": %.2f, "
                   "\"push_cpu_p99_us\": %.2f, \"dropped\": %llu, \"bytes\": %llu",
                   options->record, m->push.p50_us, m->push.p99_us, m->push_cpu.p99_us,
                   (unsigned long long)m->status.n_dropped, (unsigned long long)m->status.n_bytes);
        printf("}\n");
        return;
    }
    printf("%llu frames, %llu damaged, %llu late: %.1f frames/s, %.2f ms of processor time each\n",
           (unsigned long long)m->n_frames, (unsigned long long)m->n_damaged,
           (unsigned long long)m->n_late, rate, cpu_ms);
    if (!options->record)
        return;
    print_stats("push, elapsed", &m->push);
    print_stats("push, processor time", &m->push_cpu);
    printf("%s: %llu frames recorded, %llu dropped, %.1f kB each\n", options->record,
           (unsigned long long)m->status.n_frames, (unsigned long long)m->status.n_dropped,
           m->status.n_frames ? (double)m->status.n_bytes * 1e-3 / (double)m->status.n_frames : 0);
}

#define QUEUE_FRAMES 30 // the daemon's

static int start_recorder(struct recorder **out, const struct options *options,
                          const struct capture_info *info)
{
    struct recorder_settings settings = {
        .folder = options->folder, .queue_frames = QUEUE_FRAMES, .log = {bench_log_write, NULL}};
    int err = recorder_create(out, &settings);
    if (err || !options->record)
        return err;
    return recorder_start_one(
        *out, "bench", (enum recorder_format)recorder_format_from_name(options->record), info);
}

static int measure(const struct options *options, struct capture *capture,
                   struct recorder *recorder, struct measured *out)
{
    size_t capacity = options->n_frames;
    double *push_us = malloc(capacity * sizeof *push_us),
           *cpu_us = malloc(capacity * sizeof *cpu_us);
    struct capture_frame frame;
    int err = push_us && cpu_us ? 0 : -ENOMEM;
    int64_t begin_ns = clock_monotonic_ns();
    double begin_cpu_s = process_cpu_s();
    while (!err && out->n_frames < capacity && !(err = capture_read(capture, -1, &frame))) {
        out->n_damaged += (frame.flags & CAPTURE_DAMAGED) != 0;
        out->n_late += (frame.flags & CAPTURE_LATE) != 0;
        if (recorder) {
            int64_t push_ns = clock_monotonic_ns();
            double push_cpu_us = thread_cpu_us();
            recorder_push(recorder, 0, &frame);
            cpu_us[out->n_frames] = thread_cpu_us() - push_cpu_us;
            push_us[out->n_frames] = (double)(clock_monotonic_ns() - push_ns) * 1e-3;
        }
        out->n_frames++;
    }
    out->seconds = (double)(clock_monotonic_ns() - begin_ns) * 1e-9;
    out->cpu_s = process_cpu_s() - begin_cpu_s;
    if (recorder) {
        out->push = bench_stats(push_us, out->n_frames);
        out->push_cpu = bench_stats(cpu_us, out->n_frames);
    }
    free(push_us);
    free(cpu_us);
    return err == -ENODATA ? 0 : err;
}

int bench_capture(int argc, char **argv)
{
    static const struct argp_option argp_options[] = {
        {"source", 's', "DRIVER:PLACE", 0,
         "Frames to read (required); ros2:TOPIC on domain ROS_DOMAIN_ID", 0},
        {"frames", 'n', "N", 0, "At most this many (default 1000)", 0},
        {"record", OPTION_RECORD, "tum|klg|fakenect|mcap|ros2mcap", 0, "Record them in this format",
         0},
        {"folder", OPTION_FOLDER, "FOLDER", 0, "Where to (the recording is named bench)", 0},
        {"speed", OPTION_SPEED, "N", 0, "With --record: times real time (default 1)", 0},
        {"json", OPTION_JSON, NULL, 0, "One JSON object on stdout", 0},
        {0}};
    static const struct argp argp = {
        .options = argp_options,
        .parser = parse,
        .doc = "How fast a recording is read and decoded; what recording costs the frame loop."};
    struct options options = {.n_frames = 1000, .speed = 1};
    argp_err_exit_status = 2;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    if (!options.source || (options.record && !options.folder)) {
        fprintf(stderr, "posed-bench capture: --source is needed, and --folder with --record\n");
        return 2;
    }
    struct capture_settings settings = {.source = options.source,
                                        .rate = options.record ? options.speed : CAPTURE_RATE_MAX,
                                        .n_kept = options.record ? QUEUE_FRAMES : 0,
                                        .seed = CAPTURE_SEED,
                                        .log = {bench_log_write, NULL}};
    struct capture *capture;
    if (capture_open(&capture, &settings))
        return 4;
    struct recorder *recorder = NULL;
    struct measured measured = {0};
    int err = options.record ? start_recorder(&recorder, &options, capture_info(capture)) : 0;
    if (!err)
        err = measure(&options, capture, recorder, &measured);
    if (recorder) {
        if (recorder_stop(recorder) == 0)
            do
                recorder_status(recorder, &measured.status);
            while (measured.status.busy && nanosleep(&(struct timespec){0, 10000000}, NULL) == 0);
        recorder_destroy(&recorder);
    }
    capture_close(&capture);
    if (err) {
        fprintf(stderr, "posed-bench capture: %s\n", strerror(-err));
        return 1;
    }
    report(&options, &measured);
    return 0;
}

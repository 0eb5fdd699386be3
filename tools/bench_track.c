// SPDX-License-Identifier: Apache-2.0
// posed-bench track: depth in host memory -> pose in host memory, frame to frame, as gpu.h offers
// it. The frames are decoded into the device's host memory first and then played forwards and
// backwards, so that neighbours in time stay neighbours however long it runs. Or they come from the
// source's own thread, as the daemon gets them (--captured).
#include <argp.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "proto/se3.h"
#include "tools/bench_track.h"

#define MAX_STREAMS 64
#define MAX_SAMPLES 200000

static const char *const backend_names[] = {"auto", "cpu", "cuda"};
enum {
    KEY_BILATERAL = 256,
    KEY_EARLY_STOP,
    KEY_DIRTY,
    KEY_WRITTEN,
    KEY_CAPTURED,
    KEY_OVERLAP,
    KEY_AGREEMENT
};

static const struct argp_option argp_options[] = {
    {"source", 's', "SRC", 0, "Recording or scene, driver:location", 0},
    {"backend", 'b', "NAME", 0, "auto (default), cpu or cuda", 0},
    {"frames", 'n', "N", 0, "Frames to load (default 100)", 0},
    {"seconds", 't', "S", 0, "Time each figure for S seconds (default 3)", 0},
    {"iterations", 'i', "A,B,C", 0, "Per level, fine to coarse (default 10,5,4)", 0},
    {"early-stop", KEY_EARLY_STOP, "on|off", 0, "Leave a level when it converged (default off)", 0},
    {"bilateral", KEY_BILATERAL, "RADIUS", 0, "Radius of the filter in px (default 3 = 7x7)", 0},
    {"threads", 'j', "N", 0, "CPU backend: threads (default 0 = all cores)", 0},
    {"streams", 'm', "N", 0, "Instead: frames a second of N independent cameras in total", 0},
    {"dirty", KEY_DIRTY, NULL, 0, "Write each frame anew before it is timed, as a camera does", 0},
    {"written", KEY_WRITTEN, NULL, 0, "The same, and as gpu_host_written leaves it", 0},
    {"captured", KEY_CAPTURED, "HOW", OPTION_ARG_OPTIONAL,
     "Take the frames from the source's own thread as it finishes them, as the daemon does: HOW is "
     "written (default: page-locked, pushed out of that thread's cache, this thread awake), locked "
     "or copied",
     0},
    {"overlap", KEY_OVERLAP, NULL, 0, "Upload the next frame beside the work on this one", 0},
    {"agreement", KEY_AGREEMENT, NULL, 0, "Also compare each pose with the CPU backend's", 0},
    {"json", 'J', NULL, 0, "Print JSON", 0},
    {"verbose", 'v', NULL, 0, "Show the libraries' log lines", 0},
    {0},
};

static void parse_iterations(struct argp_state *state, const char *arg,
                             struct gpu_align_settings *align)
{
    unsigned n[GPU_LEVELS];
    int end = 0;
    if (sscanf(arg, "%3u,%3u,%3u%n", &n[0], &n[1], &n[2], &end) != GPU_LEVELS || arg[end] ||
        n[0] > 100 || n[1] > 100 || n[2] > 100)
        argp_error(state, "--iterations %s: three numbers 0..100 are expected, as in 10,5,4", arg);
    for (int i = 0; i < GPU_LEVELS; i++)
        align->iterations[i] = n[i];
}

static double parse_number(struct argp_state *state, const char *name, const char *arg, double low,
                           double high)
{
    double value;
    if (!bench_parse(arg, low, high, &value))
        argp_error(state, "--%s %s: a number %g..%g is expected", name, arg, low, high);
    return value;
}

static enum captured parse_captured(struct argp_state *state, const char *arg)
{
    for (int i = CAPTURED_COPIED; arg && i < N_CAPTURED; i++)
        if (strcmp(arg, captured_names[i]) == 0)
            return (enum captured)i;
    if (arg)
        argp_error(state, "--captured=%s: written, locked or copied is expected", arg);
    return CAPTURED_WRITTEN;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case 's':
        o->source = arg;
        break;
    case 'b':
        for (int i = 0; i < 3; i++)
            if (strcmp(arg, backend_names[i]) == 0) {
                o->backend = (enum gpu_backend)i;
                return 0;
            }
        argp_error(state, "--backend %s: auto, cpu or cuda is expected", arg);
        break;
    case 'n':
        o->n_frames = (size_t)parse_number(state, "frames", arg, 2, MAX_FRAMES);
        break;
    case 't':
        o->seconds = parse_number(state, "seconds", arg, 0.01, 3600);
        break;
    case 'i':
        parse_iterations(state, arg, &o->align);
        break;
    case KEY_EARLY_STOP:
        if (strcmp(arg, "on") != 0 && strcmp(arg, "off") != 0)
            argp_error(state, "--early-stop %s: on or off is expected", arg);
        o->align.early_stop = strcmp(arg, "on") == 0;
        break;
    case KEY_BILATERAL:
        o->bilateral_radius_px = parse_number(state, "bilateral", arg, 0, 6);
        break;
    case 'j':
        o->threads = parse_number(state, "threads", arg, 0, 1024);
        break;
    case 'm':
        o->n_streams = (size_t)parse_number(state, "streams", arg, 1, MAX_STREAMS);
        break;
    case KEY_DIRTY:
        o->dirty = true;
        break;
    case KEY_WRITTEN:
        o->dirty = o->written = true;
        break;
    case KEY_CAPTURED:
        o->captured = parse_captured(state, arg);
        break;
    case KEY_OVERLAP:
        o->overlap = true;
        break;
    case KEY_AGREEMENT:
        o->agreement = true;
        break;
    case 'J':
        o->json = true;
        break;
    case 'v':
        o->verbose = true;
        break;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument %s", arg);
        break;
    case ARGP_KEY_END:
        if (!o->source)
            argp_error(state, "--source is expected");
        if (o->captured && (o->dirty || o->overlap || o->agreement || o->n_streams > 0))
            argp_error(state, "--captured goes alone: no --dirty, --written, --overlap, "
                              "--agreement, --streams");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static void recording_free(struct recording *r)
{
    for (size_t i = 0; i < r->n_frames; i++)
        free(r->depth[i]);
}

static int recording_load(const struct options *o, struct recording *out)
{
    struct capture_settings settings = {.source = o->source, .rate = CAPTURE_RATE_MAX};
    settings.log = (struct log_sink){bench_log_write, NULL};
    struct capture *capture;
    int rc = capture_open(&capture, &settings);
    if (rc < 0)
        return rc;
    out->n_frames = 0;
    out->info = *capture_info(capture);
    out->frame_bytes = (size_t)out->info.camera.width_px * out->info.camera.height_px * 2;
    while (out->n_frames < o->n_frames) {
        struct capture_frame frame;
        rc = capture_read(capture, -1, &frame);
        if (rc < 0)
            break;
        if (!frame.image.depth)
            continue;
        uint16_t *copy = malloc(out->frame_bytes);
        if (!copy) {
            rc = -ENOMEM;
            break;
        }
        memcpy(copy, frame.image.depth, out->frame_bytes);
        out->depth[out->n_frames++] = copy;
    }
    capture_close(&capture);
    if (rc < 0 && rc != -ENODATA) {
        recording_free(out);
        return rc;
    }
    if (out->n_frames < 2) {
        fprintf(stderr, "posed-bench: %s has fewer than two frames\n", o->source);
        recording_free(out);
        return -ENODATA;
    }
    return 0;
}

// One camera: a device, two frames in turn, the recording in the device's host memory, or its
// source.
struct stream {
    const struct options *options;
    const struct recording *recording;
    struct gpu *gpu;
    struct gpu_frame *frames[2];
    uint16_t *depth[MAX_FRAMES];
    struct capture *capture; // --captured; else NULL
    size_t position;         // in the sequence 0 1 .. n-1 n-2 .. 1 0 1 ..
    uint64_t n_done;
    int rc;
    const bool *stop;
};

static void stream_close(struct stream *s)
{
    if (!s->gpu)
        return;
    gpu_frame_destroy(s->gpu, &s->frames[0]);
    gpu_frame_destroy(s->gpu, &s->frames[1]);
    for (size_t i = 0; i < s->recording->n_frames; i++)
        gpu_host_free(s->gpu, s->depth[i], s->recording->frame_bytes);
    if (s->capture) {
        size_t n_bytes;
        gpu_host_unregister(s->gpu, capture_memory(s->capture, &n_bytes));
        capture_close(&s->capture);
    }
    gpu_close(&s->gpu);
}

static void wake(void *gpu)
{
    gpu_wake(gpu);
}

// The source plays round and round, its memory at the device's disposal as --captured says.
static int source_open(struct stream *s)
{
    const struct capture_settings settings = {.source = s->options->source,
                                              .rate = CAPTURE_RATE_MAX,
                                              .loop = true,
                                              .log = {bench_log_write, NULL}};
    int rc = capture_open(&s->capture, &settings);
    if (rc < 0 || s->options->captured == CAPTURED_COPIED)
        return rc;
    size_t n_bytes;
    void *memory = capture_memory(s->capture, &n_bytes);
    rc = gpu_host_register(s->gpu, memory, n_bytes);
    const struct capture_hooks hooks = {gpu_host_written, wake, s->gpu};
    if (rc == 0 && s->options->captured == CAPTURED_WRITTEN)
        capture_set_hooks(s->capture, &hooks);
    return rc == -ENOTSUP ? 0 : rc; // what reads any memory alike needs neither
}

static int source_next(struct stream *s, const uint16_t **out_depth)
{
    struct capture_frame frame;
    int rc;
    do
        rc = capture_read(s->capture, -1, &frame);
    while (rc == 0 && !frame.image.depth);
    *out_depth = frame.image.depth;
    return rc;
}

static int recording_lock(struct stream *s)
{
    for (size_t i = 0; i < s->recording->n_frames; i++) {
        s->depth[i] = gpu_host_alloc(s->gpu, s->recording->frame_bytes);
        if (!s->depth[i])
            return -ENOMEM;
        memcpy(s->depth[i], s->recording->depth[i], s->recording->frame_bytes);
    }
    return 0;
}

static int stream_open(struct stream *s, const struct options *o, const struct recording *r,
                       enum gpu_backend backend)
{
    memset(s, 0, sizeof *s);
    s->options = o;
    s->recording = r;
    struct gpu_settings settings;
    gpu_settings_default(&settings);
    settings.camera = r->info.camera;
    settings.units_per_m = r->info.units_per_m;
    settings.bilateral_radius_px = (uint32_t)o->bilateral_radius_px;
    settings.n_threads = (uint32_t)o->threads;
    settings.n_sharing = o->n_streams > 0 ? (uint32_t)o->n_streams : 1;
    if (o->verbose)
        settings.log = (struct log_sink){bench_log_write, NULL};
    int rc = gpu_open(&s->gpu, backend, &settings);
    for (int i = 0; i < 2 && rc == 0; i++)
        rc = gpu_frame_create(s->gpu, &s->frames[i]);
    if (rc == 0)
        rc = o->captured ? source_open(s) : recording_lock(s);
    const uint16_t *first = s->depth[0];
    if (rc == 0 && o->captured)
        rc = source_next(s, &first);
    if (rc == 0)
        rc = gpu_prepare(s->gpu, first, s->frames[0]);
    if (rc < 0)
        stream_close(s);
    return rc;
}

static size_t stream_index(const struct stream *s, size_t position)
{
    size_t n = s->recording->n_frames, k = position % (2 * n - 2);
    return k < n ? k : 2 * n - 2 - k;
}

// The next frame, aligned to the one before; `out_us` is the wall time of the call.
static int stream_step(struct stream *s, struct gpu_alignment *out, double *out_us)
{
    struct se3 T = se3_identity();
    size_t index = stream_index(s, ++s->position);
    const uint16_t *depth = s->depth[index];
    int rc = s->capture ? source_next(s, &depth) : 0;
    if (rc < 0)
        return rc;
    if (s->options->dirty)
        memcpy(s->depth[index], s->recording->depth[index], s->recording->frame_bytes);
    if (s->options->written)
        gpu_host_written(s->depth[index], s->recording->frame_bytes);
    int64_t start_ns = bench_now_ns();
    if (s->options->overlap)
        gpu_prefetch(s->gpu, s->depth[stream_index(s, s->position + 1)]);
    rc = gpu_prepare_align(s->gpu, depth, s->frames[s->position % 2],
                           s->frames[(s->position + 1) % 2], &T, &s->options->align, out);
    *out_us = (double)(bench_now_ns() - start_ns) * 1e-3;
    return rc;
}

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t n_bytes)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < n_bytes; i++)
        hash = (hash ^ bytes[i]) * 1099511628211u; // FNV-1a
    return hash;
}

// Whole frames and their stages.
static int time_frames(struct stream *s, double *samples[GPU_N_STAGES + 1], struct report *out)
{
    struct gpu_alignment a;
    double us;
    size_t n = 0;
    out->pose_hash = 14695981039346656037u;
    for (size_t i = 1; i < s->recording->n_frames; i++) { // also warms up
        int rc = stream_step(s, &a, &us);
        if (rc < 0)
            return rc;
        out->pose_hash = hash_bytes(out->pose_hash, &a.T_reference_frame, sizeof(struct se3));
        for (int level = 0; level < GPU_LEVELS; level++)
            out->mean_iterations[level] += a.n_iterations[level];
        out->mean_rms_m += a.residual_rms_m;
        out->mean_pairs += a.n_pairs;
    }
    for (int level = 0; level < GPU_LEVELS; level++)
        out->mean_iterations[level] /= (double)(s->recording->n_frames - 1);
    out->mean_rms_m /= (double)(s->recording->n_frames - 1);
    out->mean_pairs /= (double)(s->recording->n_frames - 1);
    int64_t start_ns = bench_now_ns();
    double passed_s = 0;
    while (n < MAX_SAMPLES && passed_s < s->options->seconds) {
        int rc = stream_step(s, &a, &samples[GPU_N_STAGES][n]);
        if (rc < 0)
            return rc;
        for (int stage = 0; stage < GPU_N_STAGES; stage++)
            samples[stage][n] = (double)a.stage_us[stage];
        n++;
        passed_s = (double)(bench_now_ns() - start_ns) * 1e-9;
    }
    out->frames_per_s = (double)n / passed_s;
    for (int stage = 0; stage < GPU_N_STAGES; stage++)
        out->stages[stage] = bench_stats(samples[stage], n);
    out->frame = bench_stats(samples[GPU_N_STAGES], n);
    return 0;
}

// The loop of all iterations alone, between two prepared frames: on the device's own clock, and as
// the host sees the call.
static int time_loop(struct stream *s, double *device_us, double *call_us, struct report *out)
{
    size_t n = 0;
    int64_t start_ns = bench_now_ns();
    while (n < MAX_SAMPLES &&
           (double)(bench_now_ns() - start_ns) * 1e-9 < s->options->seconds / 2) {
        struct se3 T = se3_identity();
        struct gpu_alignment a;
        int64_t call_ns = bench_now_ns();
        int rc = gpu_align(s->gpu, s->frames[s->position % 2], s->frames[(s->position + 1) % 2], &T,
                           &s->options->align, &a);
        if (rc < 0)
            return rc;
        call_us[n] = (double)(bench_now_ns() - call_ns) * 1e-3;
        device_us[n++] = (double)a.stage_us[GPU_STAGE_ALIGN];
    }
    out->loop = bench_stats(device_us, n);
    out->loop_call = bench_stats(call_us, n);
    return 0;
}

static int compare_with_cpu(struct stream *s, const struct options *o, struct report *out)
{
    struct stream cpu;
    int rc = stream_open(&cpu, o, s->recording, GPU_BACKEND_CPU);
    if (rc < 0)
        return rc;
    s->position = 0;
    rc = gpu_prepare(s->gpu, s->depth[0], s->frames[0]);
    out->agreement_m = out->agreement_rad = 0;
    for (size_t i = 1; i < s->recording->n_frames && rc == 0; i++) {
        struct gpu_alignment a, b;
        double us;
        rc = stream_step(s, &a, &us);
        if (rc == 0)
            rc = stream_step(&cpu, &b, &us);
        if (rc < 0)
            break;
        struct se3 d = se3_between(&b.T_reference_frame, &a.T_reference_frame);
        double length_m = sqrt(d.t_m[0] * d.t_m[0] + d.t_m[1] * d.t_m[1] + d.t_m[2] * d.t_m[2]);
        out->agreement_m = fmax(out->agreement_m, length_m);
        out->agreement_rad = fmax(out->agreement_rad, se3_angle(&d));
    }
    stream_close(&cpu);
    return rc;
}

static void *stream_thread(void *argument)
{
    struct stream *s = argument;
    struct gpu_alignment a;
    double us;
    while (s->rc == 0 && !__atomic_load_n(s->stop, __ATOMIC_RELAXED)) {
        s->rc = stream_step(s, &a, &us);
        __atomic_fetch_add(&s->n_done, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

// N cameras at once: frames a second in total, after a warm-up of a fifth of the time.
static int time_streams(const struct options *o, const struct recording *r, char *description,
                        size_t description_bytes, double *out_frames_per_s)
{
    struct stream *streams = calloc(o->n_streams, sizeof *streams);
    pthread_t threads[MAX_STREAMS];
    bool stop = false;
    size_t n_open = 0, n_running = 0;
    int rc = streams ? 0 : -ENOMEM;
    for (; rc == 0 && n_open < o->n_streams; n_open++) {
        rc = stream_open(&streams[n_open], o, r, o->backend);
        streams[n_open].stop = &stop;
    }
    for (; rc == 0 && n_running < o->n_streams; n_running++) {
        rc = -pthread_create(&threads[n_running], NULL, stream_thread, &streams[n_running]);
        if (rc < 0)
            break;
    }
    if (rc == 0) {
        struct timespec warm = {0, (long)(fmin(o->seconds / 5, 0.9) * 1e9)};
        nanosleep(&warm, NULL);
        uint64_t before = 0, after = 0;
        for (size_t i = 0; i < o->n_streams; i++)
            before += __atomic_load_n(&streams[i].n_done, __ATOMIC_RELAXED);
        int64_t start_ns = bench_now_ns();
        struct timespec run = {(time_t)o->seconds, (long)(fmod(o->seconds, 1) * 1e9)};
        nanosleep(&run, NULL);
        for (size_t i = 0; i < o->n_streams; i++)
            after += __atomic_load_n(&streams[i].n_done, __ATOMIC_RELAXED);
        *out_frames_per_s = (double)(after - before) / ((double)(bench_now_ns() - start_ns) * 1e-9);
        snprintf(description, description_bytes, "%s", gpu_description(streams[0].gpu));
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (size_t i = 0; i < n_running; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < n_open; i++) {
        rc = rc < 0 ? rc : streams[i].rc;
        stream_close(&streams[i]);
    }
    free(streams);
    return rc;
}

static int run_single(const struct options *o, const struct recording *r)
{
    struct report report = {0};
    struct stream stream;
    double *samples[GPU_N_STAGES + 1] = {NULL};
    int rc = stream_open(&stream, o, r, o->backend);
    if (rc < 0)
        return rc;
    for (int i = 0; i <= GPU_N_STAGES && rc == 0; i++) {
        samples[i] = malloc(MAX_SAMPLES * sizeof *samples[i]);
        rc = samples[i] ? 0 : -ENOMEM;
    }
    if (rc == 0)
        rc = time_frames(&stream, samples, &report);
    if (rc == 0)
        rc = time_loop(&stream, samples[0], samples[1], &report);
    gpu_limits_get(stream.gpu, &report.limits);
    if (rc == 0 && o->agreement)
        rc = compare_with_cpu(&stream, o, &report);
    if (rc == 0)
        report_print(o, r, gpu_description(stream.gpu), &report);
    for (int i = 0; i <= GPU_N_STAGES; i++)
        free(samples[i]);
    stream_close(&stream);
    return rc;
}

static int run_streams(const struct options *o, const struct recording *r)
{
    char description[200] = "";
    double frames_per_s = 0;
    int rc = time_streams(o, r, description, sizeof description, &frames_per_s);
    if (rc < 0)
        return rc;
    report_print_streams(o, r, description, frames_per_s);
    return 0;
}

int bench_track(int argc, char **argv)
{
    struct options options = {.n_frames = 100, .seconds = 3, .bilateral_radius_px = 3};
    gpu_align_settings_default(&options.align);
    options.align.early_stop = false;
    const struct argp argp = {argp_options,
                              parse_option,
                              NULL,
                              "Times the tracker's work on a device: depth in host memory to pose "
                              "in host memory, frame to frame.",
                              NULL,
                              NULL,
                              NULL};
    argp_err_exit_status = 2;
    argp_parse(&argp, argc, argv, 0, NULL, &options);

    struct recording *recording = calloc(1, sizeof *recording);
    int rc = recording ? recording_load(&options, recording) : -ENOMEM;
    if (rc < 0) {
        fprintf(stderr, "posed-bench: %s: %s\n", options.source, strerror(-rc));
        free(recording);
        return 4;
    }
    rc = options.n_streams > 0 ? run_streams(&options, recording) : run_single(&options, recording);
    if (rc < 0)
        fprintf(stderr, "posed-bench: %s (--verbose shows why)\n", strerror(-rc));
    recording_free(recording);
    free(recording);
    return rc < 0 ? 5 : 0;
}

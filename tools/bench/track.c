// SPDX-License-Identifier: Apache-2.0
// posed-bench track: depth in host memory -> pose in host memory, frame to frame, as gpu.h offers
// it.
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/track/conditioning.h"
#include "gpu/track/track.h"
#include "proto/clock.h"
#include "proto/se3.h"
#include "tools/bench/track.h"

#define MAX_SAMPLES 200000

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
    int64_t start_ns = clock_monotonic_ns();
    double passed_s = 0;
    while (n < MAX_SAMPLES && passed_s < s->options->seconds) {
        int rc = stream_step(s, &a, &samples[GPU_N_STAGES][n]);
        if (rc < 0)
            return rc;
        for (int stage = 0; stage < GPU_N_STAGES; stage++)
            samples[stage][n] = (double)a.stage_us[stage];
        n++;
        passed_s = (double)(clock_monotonic_ns() - start_ns) * 1e-9;
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
    int64_t start_ns = clock_monotonic_ns();
    while (n < MAX_SAMPLES &&
           (double)(clock_monotonic_ns() - start_ns) * 1e-9 < s->options->seconds / 2) {
        struct se3 T = se3_identity();
        struct gpu_alignment a;
        int64_t call_ns = clock_monotonic_ns();
        int rc = gpu_align(s->gpu, s->frames[s->position % 2], s->frames[(s->position + 1) % 2], &T,
                           &s->options->align, &a);
        if (rc < 0)
            return rc;
        call_us[n] = (double)(clock_monotonic_ns() - call_ns) * 1e-3;
        device_us[n++] = (double)a.stage_us[GPU_STAGE_ALIGN];
    }
    out->loop = bench_stats(device_us, n);
    out->loop_call = bench_stats(call_us, n);
    return 0;
}

static void agreement_add(struct agreement *agreement, const struct se3 *a, const struct se3 *b)
{
    const struct se3 d = se3_between(b, a);
    agreement->m =
        fmax(agreement->m, sqrt(d.t_m[0] * d.t_m[0] + d.t_m[1] * d.t_m[1] + d.t_m[2] * d.t_m[2]));
    agreement->rad = fmax(agreement->rad, se3_angle(&d));
}

// Also of the part of each pose that lies in directions which the scene holds: in the others
// rounding alone decides, and the tracker takes nothing of them (gpu/README.md).
static int compare_with_cpu(struct stream *s, const struct options *o, struct report *out)
{
    struct stream cpu;
    int rc = stream_open(&cpu, o, s->recording, GPU_BACKEND_CPU);
    if (rc < 0)
        return rc;
    s->position = 0;
    rc = gpu_prepare(s->gpu, s->depth[0], s->frames[0]);
    struct track_settings track;
    track_settings_default(&track);
    for (size_t i = 1; i < s->recording->n_frames && rc == 0; i++) {
        struct gpu_alignment a, b;
        double us;
        rc = stream_step(s, &a, &us);
        if (rc == 0)
            rc = stream_step(&cpu, &b, &us);
        if (rc < 0)
            break;
        struct conditioning held_a, held_b;
        conditioning_of(&a, track.min_eigenvalue, &held_a);
        conditioning_of(&b, track.min_eigenvalue, &held_b);
        const struct se3 T_start = se3_identity();
        struct se3 T_a = conditioning_hold(&held_a, &T_start, &a.T_reference_frame);
        struct se3 T_b = conditioning_hold(&held_b, &T_start, &b.T_reference_frame);
        agreement_add(&out->whole, &a.T_reference_frame, &b.T_reference_frame);
        agreement_add(&out->held, &T_a, &T_b);
        out->n_not_held += held_b.n_degenerate > 0;
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
        int64_t start_ns = clock_monotonic_ns();
        struct timespec run = {(time_t)o->seconds, (long)(fmod(o->seconds, 1) * 1e9)};
        nanosleep(&run, NULL);
        for (size_t i = 0; i < o->n_streams; i++)
            after += __atomic_load_n(&streams[i].n_done, __ATOMIC_RELAXED);
        *out_frames_per_s =
            (double)(after - before) / ((double)(clock_monotonic_ns() - start_ns) * 1e-9);
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
    struct options options;
    options_parse(argc, argv, &options);

    struct recording *recording = calloc(1, sizeof *recording);
    int rc = recording ? recording_load(&options, recording) : -ENOMEM;
    if (rc < 0) {
        fprintf(stderr, "posed-bench: %s: %s\n", options.source, strerror(-rc));
        free(recording);
        return 4;
    }
    rc = options.n_streams > 0 ? run_streams(&options, recording) : run_single(&options, recording);
    if (rc < 0)
        fprintf(stderr, "posed-bench: %s\n", strerror(-rc));
    recording_free(recording);
    free(recording);
    return rc < 0 ? 5 : 0;
}

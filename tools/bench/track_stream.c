// SPDX-License-Identifier: Apache-2.0
// The cameras of posed-bench track. Frames are decoded into the device's host memory first and then
// played forwards and backwards, so that neighbours in time stay neighbours however long it runs.
// Or they come from the source's own thread, as the daemon gets them (--captured).
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/clock.h"
#include "proto/se3.h"
#include "tools/bench/track.h"

void recording_free(struct recording *r)
{
    for (size_t i = 0; i < r->n_frames; i++)
        free(r->depth[i]);
}

int recording_load(const struct options *o, struct recording *out)
{
    struct capture_settings settings = {
        .source = o->source, .rate = CAPTURE_RATE_MAX, .seed = CAPTURE_SEED};
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

void stream_close(struct stream *s)
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
                                              .seed = CAPTURE_SEED,
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

int stream_open(struct stream *s, const struct options *o, const struct recording *r,
                enum gpu_backend backend)
{
    memset(s, 0, sizeof *s);
    s->options = o;
    s->recording = r;
    struct gpu_settings settings;
    gpu_settings_default(&settings);
    settings.camera = r->info.camera;
    settings.units_per_m = r->info.units_per_m;
    settings.bilateral_radius_px = o->bilateral_radius_px;
    settings.n_threads = o->n_threads;
    settings.isa = o->isa;
    settings.path = o->path;
    settings.n_sharing = o->n_streams > 0 ? (uint32_t)o->n_streams : 1;
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

int stream_step(struct stream *s, struct gpu_alignment *out, double *out_us)
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
    int64_t start_ns = clock_monotonic_ns();
    if (s->options->overlap)
        gpu_prefetch(s->gpu, s->depth[stream_index(s, s->position + 1)]);
    rc = gpu_prepare_align(s->gpu, depth, s->frames[s->position % 2],
                           s->frames[(s->position + 1) % 2], &T, &s->options->align, out);
    *out_us = (double)(clock_monotonic_ns() - start_ns) * 1e-3;
    return rc;
}

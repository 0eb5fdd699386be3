// SPDX-License-Identifier: Apache-2.0
// posed-bench map: what a frame costs with a map, and what it costs with a keyframe, frame by frame
// in turns on one device: until the pose is there, and until the frame is fused and the next view
// made. With little memory for the map, also what a frame costs in which blocks go to the host or
// come back.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/model/map.h"
#include "proto/clock.h"
#include "tools/argument.h"
#include "tools/bench/map_options.h"

#define MAX_ROUNDS     1000
#define MAX_MEMORY_MIB 65536

struct bench_options {
    struct map_options map;
    size_t n_rounds;
    size_t memory_mib; // of voxels on the device
};

enum { OPTION_ROUNDS = MAP_OPTIONS_KEY, OPTION_MEMORY };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct bench_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->map;
        return 0;
    case OPTION_ROUNDS:
        o->n_rounds = argument_count(state, "rounds", arg, 1, MAX_ROUNDS);
        return 0;
    case OPTION_MEMORY:
        o->memory_mib = argument_count(state, "memory", arg, 1, MAX_MEMORY_MIB);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option argp_options[] = {
    {"rounds", OPTION_ROUNDS, "N", 0, "Forwards and backwards so many times (default 3)", 0},
    {"memory", OPTION_MEMORY, "MIB", 0,
     "For voxels on the device (default 512); what does not fit waits on the host", 0},
    {0},
};

struct player {
    struct gpu *gpu;
    struct track *keyframe, *model;
    struct map *map;
    uint16_t **depth; // pinned
    size_t n_frames;
    double *keyframe_us, *model_us, *all_us;
    double *exchange_us; // of all_us: frames in which blocks went to the host or came back
    size_t n, n_tracking, n_exchange, n_moved;
    uint32_t n_far;
};

static double us_since(int64_t start_ns)
{
    return (double)(clock_monotonic_ns() - start_ns) * 1e-3;
}

static int play(struct player *p, size_t frame, int64_t time_ns)
{
    struct track_result result;
    struct model_stats stats;
    int64_t start_ns = clock_monotonic_ns();
    int rc = track_frame(p->keyframe, p->depth[frame], time_ns, &result);
    p->keyframe_us[p->n] = us_since(start_ns);
    if (rc < 0)
        return rc;
    start_ns = clock_monotonic_ns();
    rc = track_frame(p->model, p->depth[frame], time_ns, &result);
    p->model_us[p->n] = us_since(start_ns);
    if (rc == 0)
        rc = map_follow(p->map, p->model, &result);
    track_set_map(p->model, true);
    if (rc == 0)
        rc = model_stats_get(map_model(p->map), &stats); // waits
    p->all_us[p->n++] = us_since(start_ns);
    if (rc == 0 && stats.n_far != p->n_far) {
        p->exchange_us[p->n_exchange++] = p->all_us[p->n - 1];
        p->n_moved += stats.n_far > p->n_far ? stats.n_far - p->n_far : p->n_far - stats.n_far;
        p->n_far = stats.n_far;
    }
    p->n_tracking += result.state == TRACK_STATE_TRACKING;
    return rc;
}

static void print(const char *name, double *times_us, size_t n)
{
    struct bench_stats s = bench_stats(times_us, n);
    printf("%-34s p50 %9.1f  p90 %9.1f  p99 %9.1f us\n", name, s.p50_us, s.p90_us, s.p99_us);
}

static int measure(struct player *p, const struct bench_options *o)
{
    int rc = 0;
    int64_t time_ns = 0;
    size_t n_all = o->n_rounds * 2 * p->n_frames;
    p->keyframe_us = calloc(n_all, sizeof(double));
    p->model_us = calloc(n_all, sizeof(double));
    p->all_us = calloc(n_all, sizeof(double));
    p->exchange_us = calloc(n_all, sizeof(double));
    if (!p->keyframe_us || !p->model_us || !p->all_us || !p->exchange_us)
        rc = -ENOMEM;
    for (size_t i = 0; i < n_all && rc == 0; i++, time_ns += 33333333) {
        size_t at = i % (2 * p->n_frames);
        rc = play(p, at < p->n_frames ? at : 2 * p->n_frames - 1 - at, time_ns);
    }
    if (rc == 0) {
        struct model_stats stats;
        rc = model_stats_get(map_model(p->map), &stats);
        printf("%s\n%zu frames, %zu tracking; voxel %.1f mm: %u blocks (%.1f MB), %u touched\n",
               gpu_description(p->gpu), p->n, p->n_tracking, 1e3 * o->map.voxel_m, stats.n_blocks,
               1e-6 * (double)stats.used_bytes, stats.n_touched);
        print("pose, reference keyframe", p->keyframe_us, p->n);
        print("pose, reference model", p->model_us, p->n);
        print("all work of a frame with the map", p->all_us, p->n);
        if (p->n_exchange) {
            printf(
                "%zu frames with more or fewer blocks on the host (%u now), by %.0f on average\n",
                p->n_exchange, p->n_far, (double)p->n_moved / (double)p->n_exchange);
            print("all work of such a frame", p->exchange_us, p->n_exchange);
        }
    }
    free(p->keyframe_us);
    free(p->model_us);
    free(p->all_us);
    free(p->exchange_us);
    return rc;
}

static int player_open(struct player *p, const struct bench_options *o, const struct recording *r)
{
    struct gpu_settings settings;
    struct track_settings track;
    struct model_settings model;
    const struct log_sink log = {bench_log_write, NULL};
    gpu_settings_default(&settings);
    settings.camera = r->info.camera;
    settings.units_per_m = r->info.units_per_m;
    settings.n_threads = o->map.n_threads;
    settings.log = log;
    track_settings_default(&track);
    track.reference = TRACK_REFERENCE_KEYFRAME;
    model_settings_default(&model);
    model.voxel_m = (float)o->map.voxel_m;
    model.memory_bytes = (uint64_t)o->memory_mib << 20;
    int rc = gpu_open(&p->gpu, o->map.track.backend, &settings);
    if (rc == 0)
        rc = track_create(&p->keyframe, p->gpu, &track, &log);
    track.reference = TRACK_REFERENCE_MODEL;
    if (rc == 0)
        rc = track_create(&p->model, p->gpu, &track, &log);
    if (rc == 0)
        rc = map_create(&p->map, p->gpu, &model, &track.align, &log);
    p->depth = calloc(r->n_frames, sizeof *p->depth);
    if (!p->depth)
        return rc < 0 ? rc : -ENOMEM;
    for (; p->n_frames < r->n_frames && rc == 0; p->n_frames++) {
        p->depth[p->n_frames] = gpu_host_alloc(p->gpu, r->frame_bytes);
        if (!p->depth[p->n_frames])
            return -ENOMEM;
        memcpy(p->depth[p->n_frames], r->depth[p->n_frames], r->frame_bytes);
    }
    return rc;
}

static void player_close(struct player *p, const struct recording *r)
{
    for (size_t i = 0; i < p->n_frames; i++)
        gpu_host_free(p->gpu, p->depth[i], r->frame_bytes);
    free(p->depth);
    map_destroy(&p->map);
    track_destroy(&p->model);
    track_destroy(&p->keyframe);
    gpu_close(&p->gpu);
}

int bench_map(int argc, char **argv)
{
    static const struct argp_child children[] = {{&map_options_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {.options = argp_options,
                                     .parser = parse,
                                     .children = children,
                                     .doc = "Time of the pose and of all work of a frame, with a "
                                            "keyframe and with the map as reference."};
    struct bench_options options = {
        .map = map_options_default(60), .n_rounds = 3, .memory_mib = 512};
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    struct recording *recording = calloc(1, sizeof *recording);
    int rc = recording ? recording_load(&options.map.track, recording) : -ENOMEM;
    if (rc < 0) {
        fprintf(stderr, "posed-bench: %s: %s\n", options.map.track.source, strerror(-rc));
        free(recording);
        return 4;
    }
    struct player player = {0};
    rc = player_open(&player, &options, recording);
    if (rc == 0)
        rc = measure(&player, &options);
    if (rc < 0)
        fprintf(stderr, "posed-bench: %s\n", strerror(-rc));
    player_close(&player, recording);
    recording_free(recording);
    free(recording);
    return rc < 0 ? 5 : 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/map_options.h"

#include "gpu/model/model.h"
#include "tools/argument.h"

enum { OPTION_VOXEL = 1, OPTION_THREADS };

static const struct argp_option argp_options[] = {
    {"source", 's', "SOURCE", 0, "Recording or scene (default synth:room)", 0},
    {"frames", 'n', "N", 0, "Frames of it (default: kidnap 300, map 60)", 0},
    {"backend", 'b', "auto|cpu|cuda", 0, "What computes (default auto)", 0},
    {"voxel", OPTION_VOXEL, "M", 0, "Edge of a voxel (default: map.voxel_m)", 0},
    {"threads", OPTION_THREADS, "N", 0, "CPU: threads, 0 = all cores", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct map_options *o = state->input;
    switch (key) {
    case 's':
        o->track.source = arg;
        return 0;
    case 'n':
        o->track.n_frames = argument_count(state, "frames", arg, 2, MAX_FRAMES);
        return 0;
    case 'b':
        o->track.backend = (enum gpu_backend)argument_choose(state, "backend", arg, bench_backends);
        return 0;
    case OPTION_VOXEL:
        o->voxel_m = argument_number(state, "voxel", arg, 0.002, 0.1);
        return 0;
    case OPTION_THREADS:
        o->n_threads = (uint32_t)argument_count(state, "threads", arg, 0, 1024);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument %s", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp map_options_argp = {.options = argp_options, .parser = parse};

struct map_options map_options_default(size_t n_frames)
{
    struct model_settings model;
    model_settings_default(&model);
    return (struct map_options){
        .track = {.source = "synth:room", .n_frames = n_frames, .backend = GPU_BACKEND_AUTO},
        .voxel_m = (double)model.voxel_m};
}

// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/map_options.h"

#include <string.h>

#include "gpu/model/model.h"

enum { OPTION_VOXEL = 1, OPTION_THREADS };

static const struct argp_option argp_options[] = {
    {"source", 's', "SOURCE", 0, "Recording or scene (default synth:room)", 0},
    {"frames", 'n', "N", 0, "Frames of it", 0},
    {"backend", 'b', "cpu|cuda", 0, "Default: CUDA where it works", 0},
    {"voxel", OPTION_VOXEL, "M", 0, "Edge of a voxel (default: map.voxel_m)", 0},
    {"threads", OPTION_THREADS, "N", 0, "CPU: threads, 0 = all cores", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct map_options *o = state->input;
    double n;
    switch (key) {
    case 's':
        o->track.source = arg;
        return 0;
    case 'n':
        if (!bench_parse(arg, 2, MAX_FRAMES, &n))
            argp_error(state, "--frames must be 2..%d", MAX_FRAMES);
        o->track.n_frames = (size_t)n;
        return 0;
    case 'b':
        if (strcmp(arg, "cpu") != 0 && strcmp(arg, "cuda") != 0)
            argp_error(state, "--backend must be cpu or cuda");
        o->track.backend = arg[1] == 'p' ? GPU_BACKEND_CPU : GPU_BACKEND_CUDA;
        return 0;
    case OPTION_VOXEL:
        if (!bench_parse(arg, 0.002, 0.1, &o->voxel_m))
            argp_error(state, "--voxel must be 0.002..0.1 m");
        return 0;
    case OPTION_THREADS:
        if (!bench_parse(arg, 0, 1024, &o->threads))
            argp_error(state, "--threads must be 0..1024");
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

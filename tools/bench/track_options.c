// SPDX-License-Identifier: Apache-2.0
// What posed-bench track can be asked for.
#include <argp.h>
#include <stdio.h>

#include "tools/argument.h"
#include "tools/bench/track.h"

static const char *const switch_names[] = {"off", "on", NULL};
static const char *const isa_names[] = {"auto", "baseline", "avx2", "avx512", NULL};
static const char *const path_names[] = {"auto", "fused", "plain", NULL};
enum {
    KEY_BILATERAL = 256,
    KEY_EARLY_STOP,
    KEY_DIRTY,
    KEY_WRITTEN,
    KEY_CAPTURED,
    KEY_OVERLAP,
    KEY_AGREEMENT,
    KEY_ISA,
    KEY_PATH
};

static const struct argp_option argp_options[] = {
    {"source", 's', "SRC", 0, "Recording or scene, driver:location", 0},
    {"backend", 'b', "auto|cpu|cuda", 0, "What computes (default auto)", 0},
    {"frames", 'n', "N", 0, "Frames to load (default 100)", 0},
    {"seconds", 't', "S", 0, "Time each figure for S seconds (default 3)", 0},
    {"iterations", 'i', "A,B,C", 0, "Per level, fine to coarse (default 10,5,4)", 0},
    {"early-stop", KEY_EARLY_STOP, "on|off", 0, "Leave a level when it converged (default off)", 0},
    {"bilateral", KEY_BILATERAL, "RADIUS", 0, "Radius of the filter in px (default 3 = 7x7)", 0},
    {"threads", 'j', "N", 0, "CPU backend: threads (default 0 = all cores)", 0},
    {"isa", KEY_ISA, "auto|baseline|avx2|avx512", 0,
     "CPU backend: vector instructions (default auto)", 0},
    {"path", KEY_PATH, "auto|fused|plain", 0, "CUDA: kernels of a frame (default auto)", 0},
    {"streams", 'm', "N", 0, "Instead: frames a second of N independent cameras in total", 0},
    {"dirty", KEY_DIRTY, NULL, 0, "Write each frame anew before it is timed, as a camera does", 0},
    {"written", KEY_WRITTEN, NULL, 0, "Like --dirty, and as gpu_host_written leaves it", 0},
    {"captured", KEY_CAPTURED, "HOW", OPTION_ARG_OPTIONAL,
     "Take the frames from the source's own thread as it finishes them, as the daemon does: HOW is "
     "written (default: page-locked, pushed out of that thread's cache, this thread awake), locked "
     "or copied",
     0},
    {"overlap", KEY_OVERLAP, NULL, 0, "Upload the next frame beside the work on this one", 0},
    {"agreement", KEY_AGREEMENT, NULL, 0, "Also compare each pose with the CPU backend's", 0},
    {"json", 'J', NULL, 0, "Print JSON", 0},
    {0},
};

static void parse_iterations(struct argp_state *state, const char *arg,
                             struct gpu_align_settings *align)
{
    unsigned n[GPU_LEVELS];
    int end = 0;
    if (sscanf(arg, "%3u,%3u,%3u%n", &n[0], &n[1], &n[2], &end) != GPU_LEVELS || arg[end] ||
        n[0] > 100 || n[1] > 100 || n[2] > 100)
        argp_error(state,
                   "--iterations %s: three whole numbers from 0 to 100 are wanted, as in 10,5,4",
                   arg);
    for (int i = 0; i < GPU_LEVELS; i++)
        align->iterations[i] = n[i];
}

static enum captured parse_captured(struct argp_state *state, const char *arg)
{
    static const char *const names[] = {"copied", "locked", "written", NULL};
    return arg ? (enum captured)(CAPTURED_COPIED + argument_choose(state, "captured", arg, names))
               : CAPTURED_WRITTEN;
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
    case KEY_ISA:
        o->isa = (enum gpu_isa)argument_choose(state, "isa", arg, isa_names);
        break;
    case KEY_PATH:
        o->path = (enum gpu_path)argument_choose(state, "path", arg, path_names);
        break;
    case 'n':
        o->n_frames = argument_count(state, "frames", arg, 2, MAX_FRAMES);
        break;
    case 't':
        o->seconds = argument_number(state, "seconds", arg, 0.01, 3600);
        break;
    case 'i':
        parse_iterations(state, arg, &o->align);
        break;
    case KEY_EARLY_STOP:
        o->align.early_stop = argument_choose(state, "early-stop", arg, switch_names) == 1;
        break;
    case KEY_BILATERAL:
        o->bilateral_radius_px = (uint32_t)argument_count(state, "bilateral", arg, 0, 6);
        break;
    case 'j':
        o->n_threads = (uint32_t)argument_count(state, "threads", arg, 0, 1024);
        break;
    case 'm':
        o->n_streams = argument_count(state, "streams", arg, 1, MAX_STREAMS);
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
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument %s", arg);
        break;
    case ARGP_KEY_END:
        if (!o->source)
            argp_error(state, "--source is wanted");
        if (o->captured && (o->dirty || o->overlap || o->agreement || o->n_streams > 0))
            argp_error(state, "--captured goes alone: no --dirty, --written, --overlap, "
                              "--agreement, --streams");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

void options_parse(int argc, char **argv, struct options *out)
{
    *out = (struct options){.n_frames = 100, .seconds = 3, .bilateral_radius_px = 3};
    gpu_align_settings_default(&out->align);
    out->align.early_stop = false;
    const struct argp argp = {argp_options,
                              parse_option,
                              NULL,
                              "Times the tracker's work on a device: depth in host memory to pose "
                              "in host memory, frame to frame.",
                              NULL,
                              NULL,
                              NULL};
    argp_err_exit_status = 2;
    argp_parse(&argp, argc, argv, 0, NULL, out);
}

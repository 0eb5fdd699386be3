// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/align_options.h"

#include <argp.h>
#include <math.h>

#include "tools/argument.h"
#include "tools/bench/bench.h"

enum {
    KEY_NOISE = 256,
    KEY_BACKEND,
    KEY_THREADS,
    KEY_ITERATIONS,
    KEY_SEED,
    KEY_CONF,
    KEY_SEEDS,
    KEY_DEGREES,
    KEY_SHARE,
    KEY_WRONG,
    KEY_PARTS,
    KEY_RELATIVE,
    KEY_GATE,
    KEY_OVERLAP
};

static const struct argp_option argp_options[] = {
    {"views", 'n', "N", 0, "Range images of the generator (default 50)", 0},
    {"vertices", 'v', "V", 0, "Vertices an image, on average (default 83000)", 0},
    {"noise", KEY_NOISE, "M", 0, "Noise along the ray, uniform within +-M (default 0.01)", 0},
    {"seed", KEY_SEED, "N", 0, "Of the generator and of the disturbances (default 1)", 0},
    {"iterations", KEY_ITERATIONS, "K", 0, "Timed ones at full resolution (default 20)", 0},
    {"conf", KEY_CONF, "FILE.conf", 0, "Scans with known poses instead of the generator", 0},
    {"seeds", KEY_SEEDS, "N", 0, "Disturbances tried (default 1; --conf: 50)", 0},
    {"degrees", KEY_DEGREES, "D", 0, "--conf: turned by D about a random axis (default 5)", 0},
    {"share", KEY_SHARE, "S", 0, "--conf: and moved by S of the scan's size (default 0.03)", 0},
    {"wrong", KEY_WRONG, "S", 0, "Adds S times as many wrong pairs (default 0)", 0},
    {"parts", KEY_PARTS, "N", 0, "Also shares the pairs out over N ranks", 0},
    {"relative", KEY_RELATIVE, "S", 0, "As posed-align", 0},
    {"min-overlap", KEY_OVERLAP, "S", 0, "As posed-align", 0},
    {"gate", KEY_GATE, "M", 0, "As posed-align", 0},
    {"backend", KEY_BACKEND, "auto|cpu|cuda", 0, "What computes (default auto)", 0},
    {"threads", KEY_THREADS, "N", 0, "CPU threads (default all)", 0},
    {"json", 'j', NULL, 0, "Print JSON", 0},
    {"verbose", 'V', NULL, 0, "Each iteration, each seed", 0},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct bench_align_options *o = state->input;
    switch (key) {
    case 'n':
        o->views.n_views = (uint32_t)argument_count(state, "views", arg, 2, 10000);
        break;
    case 'v':
        o->views.n_vertices = (uint32_t)argument_count(state, "vertices", arg, 500, 50000000);
        break;
    case KEY_NOISE:
        o->views.noise_m = argument_number(state, "noise", arg, 0, 1e6);
        break;
    case KEY_SEED:
        o->views.seed = argument_count(state, "seed", arg, 0, UINT64_MAX);
        break;
    case KEY_ITERATIONS:
        o->iterations = (uint32_t)argument_count(state, "iterations", arg, 0, 1000000);
        break;
    case KEY_CONF:
        o->conf = arg;
        break;
    case KEY_SEEDS:
        o->n_seeds = (uint32_t)argument_count(state, "seeds", arg, 1, 1000000);
        break;
    case KEY_DEGREES:
        o->disturb_rad = argument_number(state, "degrees", arg, 0, 180) * M_PI / 180;
        break;
    case KEY_SHARE:
        o->disturb_share = argument_number(state, "share", arg, 0, 1);
        break;
    case KEY_WRONG:
        o->wrong_share = argument_number(state, "wrong", arg, 0, 1);
        break;
    case KEY_PARTS:
        o->n_parts = (uint32_t)argument_count(state, "parts", arg, 1, 10000);
        break;
    case KEY_RELATIVE:
        o->settings.pairs.relative = argument_number(state, "relative", arg, 0, 1);
        break;
    case KEY_OVERLAP:
        o->settings.pairs.min_overlap = argument_number(state, "min-overlap", arg, 0, 1);
        break;
    case KEY_GATE:
        o->settings.gate_m = argument_number(state, "gate", arg, 1e-9, 1e9);
        break;
    case KEY_BACKEND:
        o->settings.backend =
            (enum gpu_backend)argument_choose(state, "backend", arg, bench_backends);
        break;
    case KEY_THREADS:
        o->settings.n_threads = (uint32_t)argument_count(state, "threads", arg, 1, 1024);
        break;
    case 'j':
        o->json = true;
        break;
    case 'V':
        o->verbose = true;
        break;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument %s", arg);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

void bench_align_options_read(int argc, char **argv, struct bench_align_options *out)
{
    static const struct argp argp = {
        argp_options,
        parse_option,
        NULL,
        "Aligns range images of a known model and says how long an iteration takes and how far "
        "off the poses end; with --conf, how often disturbed scans come back.",
        NULL,
        NULL,
        NULL};
    *out = (struct bench_align_options){.views = {.n_views = 50,
                                                  .n_vertices = 83000,
                                                  .noise_m = 0.01,
                                                  .start_m = 0.1,
                                                  .start_rad = 0.05,
                                                  .seed = 1},
                                        .disturb_rad = 5 * M_PI / 180,
                                        .disturb_share = 0.03,
                                        .iterations = 20};
    align_settings_default(&out->settings);
    out->settings.log = (struct log_sink){bench_log_write, NULL};
    argp_parse(&argp, argc, argv, 0, NULL, out);
    out->n_seeds = out->n_seeds ? out->n_seeds : out->conf ? 50 : 1;
}

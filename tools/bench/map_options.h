// SPDX-License-Identifier: Apache-2.0
// The options of all benches that play a recording through a map: --source, --frames, --backend,
// --voxel, --threads. A child parser of argp, whose input is a struct map_options.
#ifndef POSED_TOOLS_BENCH_MAP_OPTIONS_H
#define POSED_TOOLS_BENCH_MAP_OPTIONS_H

#include <argp.h>

#include "tools/bench/track.h"

#define MAP_OPTIONS_KEY 256 // keys of the parents' own long options begin here

struct map_options {
    struct options track; // source, n_frames, backend
    double voxel_m;
    uint32_t n_threads;
};

extern const struct argp map_options_argp;

// synth:room, the daemon's voxel, the best backend, all cores.
struct map_options map_options_default(size_t n_frames);

#endif

// SPDX-License-Identifier: Apache-2.0
// Random furnished rooms out of the solids of the synthetic scenes. How much stands in them, and
// how small, was set until pieces of them have what pieces of a real one have (register_clutter.h,
// MEASURED.md), before anything was registered.
#ifndef POSED_TOOLS_BENCH_REGISTER_FURNITURE_H
#define POSED_TOOLS_BENCH_REGISTER_FURNITURE_H

#include "capture/synth/shapes.h"

#define FURNITURE_MOST_SHAPES 2048

struct furnished_room {
    struct shape shapes[FURNITURE_MOST_SHAPES];
    int n;
    double half_m[3]; // of the room, y down, its middle in the origin; a metre around that is free
};

void furniture_make_room(uint64_t *random, struct furnished_room *out);

#endif

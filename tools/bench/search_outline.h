// SPDX-License-Identifier: Apache-2.0
// What a depth image shows along the outline of an object whose pose is known: how unkind a sensor
// is, in numbers that can be had of a real frame and of a generated scene alike.
#ifndef POSED_TOOLS_BENCH_SEARCH_OUTLINE_H
#define POSED_TOOLS_BENCH_SEARCH_OUTLINE_H

#include "gpu/search/search.h"

#define OUTLINE_RINGS   6      // 1, 2, 3, 4 to 5, 6 to 8 pixels inside of the outline, deeper
#define OUTLINE_OUTSIDE 3      // 1, 2, 3 pixels outside
#define OUTLINE_FAR_M   0.015f // from the model's surface
#define OUTLINE_BINS    61     // of millimetres, -30 to 30

struct outline_ring {
    uint32_t n, n_far, n_none; // seen: not behind something nearer; too far of them, without depth
};

struct outline_statistics {
    struct outline_ring inside[OUTLINE_RINGS];
    uint32_t n_outside[OUTLINE_OUTSIDE], n_bled[OUTLINE_OUTSIDE]; // measured; at the model's depth
    uint32_t off_mm[OUTLINE_BINS]; // of the deepest ring: measured less drawn depth
    uint32_t n_objects;
    double sum_far, sum_off_mm,
        sum_spread_mm; // of objects: share too far; median, half of 16..84 %
};

// Adds one object. model_z_m: search_draw's. Both images are width x height. Objects of which fewer
// than 200 pixels are seen are left out. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int
outline_add(const float *model_z_m, const struct depth_frame *frame, struct outline_statistics *io);
void outline_print(const struct outline_statistics *statistics);

#endif

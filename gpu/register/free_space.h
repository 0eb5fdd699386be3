// SPDX-License-Identifier: Apache-2.0
// What a set shows to be empty: the space between where its coordinates begin, which is where the
// sensor of a scan or of a piece's first frame stood, and the surfaces around. A pose that brings
// another set's points there is wrong. Sets that hide much of themselves from that place, or
// fill little of what is around it, were seen from elsewhere and show nothing. Private to gpu.
#ifndef POSED_GPU_REGISTER_FREE_SPACE_H
#define POSED_GPU_REGISTER_FREE_SPACE_H

#include "gpu/register/ops.h"

#define REGISTER_SIGHT_ROWS    60 // 3 degrees
#define REGISTER_SIGHT_COLUMNS 120

struct register_sight {
    bool valid;
    float from[3]; // local
    float margin_m;
    float nearest_m[REGISTER_SIGHT_ROWS][REGISTER_SIGHT_COLUMNS]; // 0: nothing is seen there
};

// Of n points, about one a cell, looked at from `from`; local coordinates.
void register_sight_make(const struct register_cell_point *points, uint32_t n, float cell_m,
                         const double from[3], struct register_sight *out);

// Share of n points, brought by T into the set's coordinates, that lie in its empty space.
double register_sight_before(const struct register_sight *sight, const struct se3 *T,
                             const struct register_cell_point *points, uint32_t n);

#endif

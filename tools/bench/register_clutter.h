// SPDX-License-Identifier: Apache-2.0
// How much stands in a piece of a room: what generated rooms are held against real ones by.
#ifndef POSED_TOOLS_BENCH_REGISTER_CLUTTER_H
#define POSED_TOOLS_BENCH_REGISTER_CLUTTER_H

#include "capture/cloud/cloud.h"

struct bench_clutter {
    double n_surfaces; // each plane counts once, however large: sum over points of 1 / (points of
                       // its plane: normals within 15 degrees, within 5 cm of it)
    double walls;      // share of the points in the three largest planes, walls and floor mostly
    double bent;       // share of the points whose surroundings (8 cm) are no plane: rms above 1 cm
};

// Of 2000 points drawn from the cloud, whose surroundings are taken from 40,000. Returns 0 or
// -ENOMEM.
__attribute__((warn_unused_result)) int bench_clutter_of(const struct cloud *cloud,
                                                         struct bench_clutter *out);

#endif

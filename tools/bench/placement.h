// SPDX-License-Identifier: Apache-2.0
// How the things of a synthetic scene are put on its table, z = 0 of the world with z up.
//
// Free: in any rotation, the lowest point on the table, as if held there. Resting: as real things
// are found, six in ten on the table (resting_pose.h), one in eight on a box, one in eight leaning
// on one, and the rest free.
#ifndef POSED_TOOLS_BENCH_PLACEMENT_H
#define POSED_TOOLS_BENCH_PLACEMENT_H

#include "tools/bench/testscene.h"

#define PLACEMENT_N_DIRECTIONS 32

struct placement {
    struct se3 T_world_mesh; // a point of it (free: its origin) at x = y = 0
    // What it stands or leans on, in the world's frame: touches it and the table. Without triangles
    // when there is nothing.
    struct testscene_mesh prop;
};

// Any rotation, each as likely.
struct se3 placement_rotation(uint64_t *random);

// Another one for each state of `random`. Returns 0 or -ENOMEM; free with placement_free.
__attribute__((warn_unused_result)) int placement_draw(const struct testscene_mesh *mesh,
                                                       enum testscene_placement how,
                                                       uint64_t *random, struct placement *out);
void placement_free(struct placement *placement);

// How far a thing and its prop reach over the table in each direction from x = y = 0 [m].
struct placement_footprint {
    double reach_m[PLACEMENT_N_DIRECTIONS];
};

void placement_footprint_of(const struct testscene_mesh *mesh, const struct placement *placement,
                            struct placement_footprint *out);

// How far from `still` `moved` has to stand in the direction of `angle` for the convex hulls of
// their footprints to touch [m].
double placement_contact_m(const struct placement_footprint *still,
                           const struct placement_footprint *moved, double angle);

#endif

// SPDX-License-Identifier: Apache-2.0
// What the scenes of testscene.c are made of, beside the objects that testscene.h names.
#ifndef POSED_TOOLS_BENCH_TESTMESH_H
#define POSED_TOOLS_BENCH_TESTMESH_H

#include "tools/bench/testscene.h"

// Adds a box (centre, half sides) [m]. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int testmesh_add_box(struct testscene_mesh *mesh,
                                                         const double shape[6]);

// One piece of clutter, 4 to 18 cm across. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int testmesh_clutter(uint64_t *random,
                                                         struct testscene_mesh *out);

#endif

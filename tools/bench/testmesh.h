// SPDX-License-Identifier: Apache-2.0
// What the scenes of testscene.c are made of, beside the objects that testscene.h names.
#ifndef POSED_TOOLS_BENCH_TESTMESH_H
#define POSED_TOOLS_BENCH_TESTMESH_H

#include "tools/bench/testscene.h"

// Adds a box (centre, half sides) [m]. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int testmesh_add_box(struct testscene_mesh *mesh,
                                                         const double shape[6]);

// Adds a grid of n_u x n_v quads over a surface p(u, v), u and v in 0..1; n_u across, n_v along.
// Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int
testmesh_add_surface(struct testscene_mesh *mesh, uint32_t n_u, uint32_t n_v,
                     void (*surface)(const double *shape, double u, double v, double out_m[3]),
                     const double *shape);

// Adds a closed tube (start, axis, radius at the start and at the end), an ellipsoid (centre,
// radii) or a part of a ring in a plane of x and z (centre, radius of the ring and of its tube,
// first and last angle [rad]) [m]. Return 0 or -ENOMEM.
__attribute__((warn_unused_result)) int testmesh_add_tube(struct testscene_mesh *mesh,
                                                          const double shape[8]);
__attribute__((warn_unused_result)) int testmesh_add_ellipsoid(struct testscene_mesh *mesh,
                                                               const double shape[6]);
__attribute__((warn_unused_result)) int testmesh_add_torus(struct testscene_mesh *mesh,
                                                           const double shape[7]);

// Makes the diagonal of the bounding box so long.
void testmesh_scale_to(struct testscene_mesh *mesh, double diagonal_m);

// A copy whose surface lies off by about so much, smoothly, over 3 to 10 cm, as what was measured
// or drawn lies beside the thing itself. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int testmesh_warp(const struct testscene_mesh *mesh,
                                                      double off_m, uint64_t *random,
                                                      struct testscene_mesh *out);

// One piece of clutter, 4 to 18 cm across. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int testmesh_clutter(uint64_t *random,
                                                         struct testscene_mesh *out);

#endif

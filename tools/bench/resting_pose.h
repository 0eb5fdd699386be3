// SPDX-License-Identifier: Apache-2.0
// How a rigid body comes to rest on a table, z = 0 of the world with z up: lowered in some attitude
// until it touches, it tips over what it touches until its centre of mass is above the polygon of
// its contacts. Faces on which things lie often are met often, none is listed. Slow and without
// friction or bounce, so that rolling ends on a facet of the mesh.
#ifndef POSED_TOOLS_BENCH_RESTING_POSE_H
#define POSED_TOOLS_BENCH_RESTING_POSE_H

#include "tools/bench/testscene.h"

#define RESTING_CONTACT_M 2e-5 // vertices this near the table touch it

// Centre of the surface, in the mesh's frame [m]: of a body of thin sheet, the same for any
// orientation of the triangles and however parts cut into each other.
void resting_centre(const struct testscene_mesh *mesh, double out_m[3]);

// The pose in which it comes to rest when it is lowered with the rotation of T_world_start. Its
// centre is at x = y = 0, its lowest vertex at z = 0.
struct se3 resting_pose(const struct testscene_mesh *mesh, const struct se3 *T_world_start);

// Distance from the point (0, 0) of the table to the polygon of the contacts [m], 0 inside; out_m:
// the polygon's nearest point. out_n: vertices that touch.
double resting_unsupported_m(const struct testscene_mesh *mesh, const struct se3 *T_world_mesh,
                             double out_m[2], size_t *out_n);

#endif

// SPDX-License-Identifier: Apache-2.0
// Planes that bound a set: walls, floors, the outer faces of what stands in a room. All points of
// the set lie on one side of such a plane, the sensor's, because no sensor looks through it; what
// another set has straight behind it speaks against the pose that brings it there. Two walls and
// the floor of a rectangular room coincide in many poses, and this tells them apart. Private to
// gpu.
#ifndef POSED_GPU_REGISTER_BOUNDING_PLANES_H
#define POSED_GPU_REGISTER_BOUNDING_PLANES_H

#include "gpu/register/ops.h"

#define REGISTER_MOST_WALLS 8u
#define REGISTER_WALL_SIDE  128 // cells of a wall's map

struct register_wall {
    float normal[3], offset; // the set lies at normal . p - offset >= 0
    float u[3], v[3];        // in the plane
    float middle[2];         // of the map, along u and v
    uint8_t seen[REGISTER_WALL_SIDE * REGISTER_WALL_SIDE]; // 1: the set shows the wall there
};

struct register_walls {
    uint32_t n;
    float cell_m;
    struct register_wall wall[REGISTER_MOST_WALLS];
};

// Of n points with normals (none: 0, 0, 0), about one a cell; local coordinates. sensor: where it
// stood, NULL where nobody knows. Where it is known, a wall has it on the set's side, which the
// nearest face of all has not, and not too near: a plane close below the sensor is a table's top,
// under which another set may well show something.
void register_walls_find(const struct register_cell_point *points,
                         const struct register_cell_point *normals, uint32_t n, float cell_m,
                         const float *sensor, struct register_walls *out);

// Share of n points, brought by T into the walls' coordinates, that lie behind a seen piece of one.
double register_walls_behind(const struct register_walls *walls, const struct se3 *T,
                             const struct register_cell_point *points, uint32_t n);

#endif

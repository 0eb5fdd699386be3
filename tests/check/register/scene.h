// SPDX-License-Identifier: Apache-2.0
// Generated point sets: a bumpy closed surface and scans of a room.
#ifndef POSED_TESTS_CHECK_REGISTER_SCENE_H
#define POSED_TESTS_CHECK_REGISTER_SCENE_H

#include <stdbool.h>

#include "proto/types.h"

#define SCENE_MOST_POINTS 17000

// Memory of a set, and the set over it.
struct scene_set {
    float memory[6][SCENE_MOST_POINTS];
    struct point_set points;
};

// n random points of a surface of about 0.8 m. lopsided 0: a half turn about x takes it onto
// itself.
struct scene_shape {
    double lopsided, noise_m;
    double low_x, high_x; // what is kept of it, along x
    bool normals;
};
void scene_bumpy(struct scene_set *out, size_t n, const struct scene_shape *shape,
                 const struct se3 *T);

// A scan of n rays in all directions, in the coordinates of a sensor at T_room_sensor. `which`: of
// two rooms.
void scene_room(struct scene_set *out, size_t n, int which, const struct se3 *T_room_sensor);

#endif

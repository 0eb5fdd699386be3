// SPDX-License-Identifier: Apache-2.0
// Walls of a set, and what a pose brings behind them: a corner of a room whose planes are known.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "gpu/register/bounding_planes.h"

#define CELL_M 0.1f
#define SIDE   30u // cells along each plane
#define MOST   (4u * SIDE * SIDE)

static struct register_cell_point points[MOST], normals[MOST];
static struct register_walls *walls;

// A plane at `offset_m` across `axis`, from 0 to its size along the others; the normal's sign
// changes from point to point, as that of a plane fit may.
static uint32_t add_plane(uint32_t n, int axis, float offset_m, uint32_t n_u, uint32_t n_v)
{
    for (uint32_t u = 0; u < n_u; u++)
        for (uint32_t v = 0; v < n_v; v++, n++) {
            float p[3], m[3] = {0, 0, 0};
            p[axis] = offset_m;
            p[(axis + 1) % 3] = ((float)u + 0.5f) * CELL_M;
            p[(axis + 2) % 3] = ((float)v + 0.5f) * CELL_M;
            m[axis] = (u + v) % 2 ? 1 : -1;
            points[n] = (struct register_cell_point){p[0], p[1], p[2], 1};
            normals[n] = (struct register_cell_point){m[0], m[1], m[2], 0};
        }
    return n;
}

static uint32_t corner(void)
{
    uint32_t n = 0;
    for (int axis = 0; axis < 3; axis++)
        n = add_plane(n, axis, 0, SIDE, SIDE);
    return n;
}

static double behind_at(double x_m, double y_m, double z_m)
{
    const struct register_cell_point at = {(float)x_m, (float)y_m, (float)z_m, 1};
    const struct se3 T = se3_identity();
    return register_walls_behind(walls, &T, &at, 1);
}

static void sides_of_a_corner(void **state)
{
    (void)state;
    register_walls_find(points, normals, corner(), CELL_M, NULL, walls);
    assert_int_equal(walls->n, 3);
    assert_true(behind_at(-1, 1.5, 1.5) == 1); // through each of the three
    assert_true(behind_at(1.5, -1, 1.5) == 1);
    assert_true(behind_at(1.5, 1.5, -1) == 1);
    assert_true(behind_at(1.5, 1.5, 1.5) == 0);  // in the room
    assert_true(behind_at(-0.1, 1.5, 1.5) == 0); // as near as drift brings it
    assert_true(behind_at(-1, 4, 4) == 0);       // past the wall's end: a door may be there
}

// A table's plane has the room on both its sides.
static void what_stands_inside_is_no_wall(void **state)
{
    (void)state;
    uint32_t n = corner();
    n = add_plane(n, 2, 1.5f, SIDE, SIDE / 3);
    register_walls_find(points, normals, n, CELL_M, NULL, walls);
    assert_int_equal(walls->n, 3);
    assert_true(behind_at(0.5, 0.5, 1) == 0);
    assert_true(behind_at(0.5, 0.5, 2.5) == 0);
}

// The front of a box before the sensor has all else behind it, and a table's top below the sensor
// all that stands on it: neither is a wall, though the set lies on one side of each.
static void the_sensors_side(void **state)
{
    (void)state;
    const float inside[3] = {2.5f, 2.5f, 2.5f}, outside[3] = {-1, 1.5f, 1.5f};
    const float near[3] = {2.5f, 2.5f, 0.5f};
    const uint32_t n = corner();
    register_walls_find(points, normals, n, CELL_M, inside, walls);
    assert_int_equal(walls->n, 3);
    register_walls_find(points, normals, n, CELL_M, outside, walls);
    assert_int_equal(walls->n, 2);
    assert_true(behind_at(-1, 1.5, 1.5) == 0);
    assert_true(behind_at(1.5, -1, 1.5) == 1);
    register_walls_find(points, normals, n, CELL_M, near, walls);
    assert_int_equal(walls->n, 2);
    assert_true(behind_at(1.5, 1.5, -1) == 0);
}

// The corner on itself has nothing behind; slid along one wall, a third of another's points stand
// behind it; T is the set's pose, not its inverse.
static void poses_of_the_corner(void **state)
{
    (void)state;
    const uint32_t n = corner();
    struct se3 T = se3_identity();
    register_walls_find(points, normals, n, CELL_M, NULL, walls);
    assert_true(register_walls_behind(walls, &T, points, n) == 0);
    T.t_m[0] = -1;
    const double slid = register_walls_behind(walls, &T, points, n);
    assert_true(slid > 0.3 && slid < 0.6);
    T.t_m[0] = 1;
    assert_true(register_walls_behind(walls, &T, points, n) == 0);
}

// Nothing to find, nothing behind: a cloud without planes, without normals, no points.
static void no_walls(void **state)
{
    (void)state;
    const uint32_t n = 900;
    for (uint32_t i = 0; i < n; i++) {
        const double z = 2 * (i + 0.5) / n - 1, phi = 2.39996 * i, s = sqrt(1 - z * z);
        const float m[3] = {(float)(s * cos(phi)), (float)(s * sin(phi)), (float)z};
        const float r = 0.5f + (float)(i * 7919 % n) / (float)n;
        points[i] = (struct register_cell_point){r * m[0], r * m[1], r * m[2], 1};
        normals[i] = (struct register_cell_point){m[0], m[1], m[2], 0};
    }
    register_walls_find(points, normals, n, CELL_M, NULL, walls);
    assert_int_equal(walls->n, 0);
    for (uint32_t i = 0; i < n; i++)
        normals[i] = (struct register_cell_point){0, 0, 0, 0};
    register_walls_find(points, normals, n, CELL_M, NULL, walls);
    assert_int_equal(walls->n, 0);
    assert_true(behind_at(-1, 1, 1) == 0);
    register_walls_find(points, normals, 0, CELL_M, NULL, walls);
    assert_int_equal(walls->n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sides_of_a_corner), cmocka_unit_test(what_stands_inside_is_no_wall),
        cmocka_unit_test(the_sensors_side),  cmocka_unit_test(poses_of_the_corner),
        cmocka_unit_test(no_walls),
    };
    walls = malloc(sizeof *walls);
    if (!walls)
        return 1;
    const int rc = cmocka_run_group_tests(tests, NULL, NULL);
    free(walls);
    return rc;
}

// SPDX-License-Identifier: Apache-2.0
// The empty space that a set shows: a closed room seen from a known place in it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "gpu/register/free_space.h"

#define CELL_M 0.05f
#define SIDE   60u
#define MOST   (7u * SIDE * SIDE)

static struct register_cell_point points[MOST];
static struct register_sight *sight;

static uint32_t add_plane(uint32_t n, int axis, float offset_m)
{
    for (uint32_t u = 0; u < SIDE; u++)
        for (uint32_t v = 0; v < SIDE; v++, n++) {
            float p[3];
            p[axis] = offset_m;
            p[(axis + 1) % 3] = ((float)u + 0.5f) * CELL_M;
            p[(axis + 2) % 3] = ((float)v + 0.5f) * CELL_M;
            points[n] = (struct register_cell_point){p[0], p[1], p[2], 1};
        }
    return n;
}

// 3 m long, wide and high.
static uint32_t room(void)
{
    uint32_t n = 0;
    for (int axis = 0; axis < 3; axis++)
        for (int side = 0; side < 2; side++)
            n = add_plane(n, axis, (float)side * SIDE * CELL_M);
    return n;
}

static double before_at(double x_m, double y_m, double z_m)
{
    const struct register_cell_point at = {(float)x_m, (float)y_m, (float)z_m, 1};
    const struct se3 T = se3_identity();
    return register_sight_before(sight, &T, &at, 1);
}

static void space_in_a_room(void **state)
{
    (void)state;
    register_sight_make(points, room(), CELL_M, (double[3]){1, 1.2, 1.5}, sight);
    assert_true(sight->valid);
    assert_true(before_at(2, 1, 2) == 1);
    assert_true(before_at(2.95, 1.2, 1.5) == 0); // as near to the wall as drift brings it
    assert_true(before_at(4, 1.2, 1.5) == 0);    // behind the wall: not seen
}

// The room on itself, and moved: T takes the points into the set's coordinates.
static void poses_of_a_room(void **state)
{
    (void)state;
    const uint32_t n = room();
    struct se3 T = se3_identity();
    register_sight_make(points, n, CELL_M, (double[3]){1, 1.2, 1.5}, sight);
    assert_true(register_sight_before(sight, &T, points, n) == 0);
    T.t_m[0] = 0.8; // the wall at 0 now crosses the room
    const double moved = register_sight_before(sight, &T, points, n);
    assert_true(moved > 0.12 && moved < 0.2);
}

// Half of the wall opposite is not there: what stands in that gap is in no empty space.
static void nothing_is_known_of_a_gap(void **state)
{
    (void)state;
    const uint32_t n = add_plane(0, 0, 3);
    register_sight_make(points, n, CELL_M, (double[3]){1, 1.2, 1.5}, sight);
    assert_true(sight->valid);
    assert_true(before_at(2, 1.2, 1.5) == 1);
    assert_true(before_at(0, 1.2, 1.5) == 0);
    assert_true(before_at(1, 2.5, 1.5) == 0);
}

// From where much of the set is hidden, or from far away, nothing is said.
static void not_from_elsewhere(void **state)
{
    (void)state;
    uint32_t n = room();
    register_sight_make(points, n, CELL_M, (double[3]){-2, 1.2, 1.5}, sight);
    assert_false(sight->valid);
    assert_true(before_at(-1, 1.2, 1.5) == 0);
    n = add_plane(0, 0, 3);
    register_sight_make(points, n, CELL_M, (double[3]){-9, 1.2, 1.5}, sight);
    assert_false(sight->valid);
    register_sight_make(points, 0, CELL_M, (double[3]){0, 0, 0}, sight);
    assert_false(sight->valid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(space_in_a_room),
        cmocka_unit_test(poses_of_a_room),
        cmocka_unit_test(nothing_is_known_of_a_gap),
        cmocka_unit_test(not_from_elsewhere),
    };
    sight = malloc(sizeof *sight);
    if (!sight)
        return 1;
    const int rc = cmocka_run_group_tests(tests, NULL, NULL);
    free(sight);
    return rc;
}

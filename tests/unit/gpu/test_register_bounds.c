// SPDX-License-Identifier: Apache-2.0
// Thresholds of what a set's planes, directions and empty space say: each just inside and just
// outside, on sets that hold exactly so many points.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/register/candidates.h"
#include "proto/se3.h"

#define N      12000u
#define CELL_M 0.1f

static struct register_cell_point points[N], normals[N];
static struct register_walls walls;
static struct register_sight sight;

static void put(uint32_t i, double x, double y, double z, double nx, double ny)
{
    points[i] = (struct register_cell_point){(float)x, (float)y, (float)z, 1};
    normals[i] = (struct register_cell_point){(float)nx, (float)ny, 0, 0};
}

// n_on points of the plane x = 0, n_behind behind it, the others before it, without normals.
static void wall_of(uint32_t n_on, uint32_t n_behind)
{
    for (uint32_t i = 0; i < N; i++) {
        const uint32_t at = (uint32_t)((uint64_t)i * 7919 % N); // spread over the order
        const double y = 0.05 * (i % 100), z = 0.05 * (double)(i / 100 % 100);
        if (i < n_on)
            put(at, 0, y, z, i % 2 ? 1 : -1, 0);
        else
            put(at, i < n_on + n_behind ? -1 : 2 + 0.01 * (i % 50), y, z, 0, 0);
    }
}

static uint32_t n_walls(uint32_t n_on, uint32_t n_behind)
{
    wall_of(n_on, n_behind);
    register_walls_find(points, normals, N, CELL_M, NULL, &walls);
    return walls.n;
}

static void what_is_a_wall(void **state)
{
    (void)state;
    assert_int_equal(n_walls(723, 0), 1); // of 720 points
    assert_int_equal(n_walls(717, 0), 0);
    assert_int_equal(n_walls(2000, 119), 1); // of 120 behind it
    assert_int_equal(n_walls(2000, 121), 0);
}

static bool is_behind(double x_m)
{
    const struct register_cell_point at = {(float)x_m, 2, 0.5f, 1};
    const struct se3 T = se3_identity();
    return register_walls_behind(&walls, &T, &at, 1) > 0;
}

static void what_is_behind(void **state)
{
    (void)state;
    assert_int_equal(n_walls(2000, 0), 1);
    assert_false(is_behind(-0.2988)); // three cells
    assert_true(is_behind(-0.3012));
    assert_false(is_behind(0.3012));
}

// Where the plane comes to lie with a fifth of its points at height_m, their normals off by so
// much.
static double plane_at(double height_m, double cosine)
{
    for (uint32_t i = 0; i < N; i++) {
        const double y = 0.05 * (i % 100), z = 0.05 * (double)(i / 100);
        if (i % 5 == 4)
            put(i, height_m, y, z, cosine, sqrt(1 - cosine * cosine));
        else
            put(i, 0, y, z, 1, 0);
    }
    register_walls_find(points, normals, N, CELL_M, NULL, &walls);
    assert_true(walls.n > 0);
    return fabs((double)walls.wall[0].offset);
}

static void what_is_on_a_plane(void **state)
{
    (void)state;
    assert_true(plane_at(0.0797, 1) > 0.01); // of 0.8 cells: their mean
    assert_true(plane_at(0.0803, 1) < 1e-4);
    assert_true(plane_at(0.05, 0.943) > 0.009);
    assert_true(plane_at(0.05, 0.937) < 1e-4);
}

// A wall stands far from the sensor, against the others; share: of their mean range.
static bool stands_far(double share)
{
    double low = 0, high = 10;
    wall_of(2000, 0);
    for (int k = 0; k < 60; k++) { // where it is that far
        const double x = 0.5 * (low + high);
        double mean = 0;
        for (uint32_t i = 0; i < N; i++)
            mean += sqrt(pow((double)points[i].x - x, 2) + pow((double)points[i].y - 2, 2) +
                         pow((double)points[i].z - 2, 2)) /
                    N;
        if (x / mean < share)
            low = x;
        else
            high = x;
    }
    const float sensor[3] = {(float)low, 2, 2};
    register_walls_find(points, normals, N, CELL_M, sensor, &walls);
    return walls.n > 0;
}

static void a_near_face_is_no_wall(void **state)
{
    (void)state;
    assert_true(stands_far(0.4515));
    assert_false(stands_far(0.4485));
}

static const double from[3] = {0, 0, 0};

// A point in the middle of a cell of the sphere, at r_m.
static void put_cell(uint32_t i, uint32_t row, uint32_t column, double r_m)
{
    const double up = (row + 0.5) * M_PI / REGISTER_SIGHT_ROWS;
    const double around = (column + 0.5) * 2 * M_PI / REGISTER_SIGHT_COLUMNS - M_PI;
    put(i, r_m * sin(up) * sin(around), r_m * cos(up), r_m * sin(up) * cos(around), 0, 0);
}

static uint32_t n_sphere(void)
{
    uint32_t n = 0;
    for (uint32_t row = 0; row < REGISTER_SIGHT_ROWS; row++)
        for (uint32_t column = 0; column < REGISTER_SIGHT_COLUMNS; column++)
            put_cell(n++, row, column, 2);
    return n;
}

static double before(double r_m)
{
    const struct register_cell_point at = {0, 0, (float)r_m, 1};
    const struct se3 T = se3_identity();
    return register_sight_before(&sight, &T, &at, 1);
}

static void what_stands_in_empty_space(void **state)
{
    (void)state;
    register_sight_make(points, n_sphere(), CELL_M, from, &sight);
    assert_true(sight.valid);
    assert_true(before(1.8495) == 1); // 1.5 cells before 2 m
    assert_true(before(1.8505) == 0);
    assert_true(before(2.5) == 0);
}

// Whether a set is taken as seen from there with so many of its points so far behind others.
static bool is_seen_from(uint32_t n_hidden, double r_m)
{
    const uint32_t n = n_sphere();
    for (uint32_t i = 0; i < n_hidden; i++)
        put_cell(n + i, 20 + i / 110, i % 110, r_m);
    register_sight_make(points, n + n_hidden, CELL_M, from, &sight);
    return sight.valid;
}

static void what_is_hidden(void **state)
{
    (void)state;
    // Of 7200 + n points 15 %: 1270.6.
    assert_true(is_seen_from(1266, 4));
    assert_false(is_seen_from(1276, 4));
    // Hidden is what lies 1.2 times as far and 1.5 cells: 2.55 m.
    assert_true(is_seen_from(1300, 2.545));
    assert_false(is_seen_from(1300, 2.555));
}

static void what_lies_around(void **state)
{
    (void)state;
    double all = 0, seen = 0;
    uint32_t n = 0;
    for (uint32_t row = 0; row < REGISTER_SIGHT_ROWS; row++)
        all += REGISTER_SIGHT_COLUMNS * sin((row + 0.5) * M_PI / REGISTER_SIGHT_ROWS);
    for (; seen < 0.04 * all; n++) {
        const uint32_t row = 25 + n / 40;
        seen += sin((row + 0.5) * M_PI / REGISTER_SIGHT_ROWS);
        put_cell(n, row, n % 40, 2);
    }
    register_sight_make(points, n, CELL_M, from, &sight);
    assert_true(sight.valid);
    register_sight_make(points, n - 1, CELL_M, from, &sight);
    assert_false(sight.valid);
}

// n_across normals along y, those of a tenth turned from x by this cosine, the rest along x.
static bool axes_of(uint32_t n_across, double cosine, double across_cosine, double *out_mean_y)
{
    struct register_axes axes;
    const double sine = sqrt(1 - cosine * cosine);
    const double across_sine = sqrt(1 - across_cosine * across_cosine);
    for (uint32_t i = 0; i < N; i++) {
        const uint32_t at = (uint32_t)((uint64_t)i * 7919 % N);
        if (i < n_across)
            put(at, 0, 0, 0, across_cosine, across_sine);
        else if (i < n_across + N / 10)
            put(at, 0, 0, 0, cosine, sine);
        else
            put(at, 0, 0, 0, i % 2 ? 1 : -1, 0);
    }
    register_axes_find(normals, N, &axes);
    *out_mean_y = axes.row[0][1];
    return axes.valid;
}

static void what_directions_a_room_has(void **state)
{
    (void)state;
    double y;
    assert_true(axes_of(400, 1, 0, &y));
    assert_true(axes_of(400, 1, 0.0997, &y)); // nearly at right angles
    assert_false(axes_of(400, 1, 0.1003, &y));
    axes_of(0, 0.9705, 0, &y); // they count, and the mean turns to them
    assert_true(fabs(y) > 0.02);
    axes_of(0, 0.9695, 0, &y);
    assert_true(fabs(y) < 1e-6);
}

static void how_many_make_a_direction(void **state)
{
    (void)state;
    double y;
    assert_true(axes_of(181, 1, 0, &y)); // of 180
    assert_false(axes_of(179, 1, 0, &y));
}

// Poses of n correspondences that a turn by 2 degrees off the axes takes onto each other; the angle
// that the best of them is off.
static int poses_of(uint32_t n, double *out_off_rad)
{
    static struct register_matched_pair pairs[8];
    struct register_axes axes = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, true};
    struct se3 found[REGISTER_MOST_TURNED];
    const double twist[6] = {0.3, -0.2, 0.1, 0.02, -0.02, 0.02};
    const struct se3 T = se3_exp(twist);
    for (uint32_t i = 0; i < n; i++) {
        const double p[3] = {i % 2 ? 1 : -1.3, i % 3 - 0.8, 0.7 * (i % 5) - 1};
        memcpy(pairs[i].source_m, p, sizeof p);
        se3_apply(&T, p, pairs[i].target_m);
    }
    const int n_found = register_axes_poses(&axes, &axes, pairs, n, 0.25, found);
    *out_off_rad = 1;
    for (int i = 0; i < n_found; i++) {
        const struct se3 d = se3_between(&T, &found[i]);
        *out_off_rad = fmin(*out_off_rad, se3_angle(&d));
    }
    return n_found;
}

static void how_many_make_a_pose(void **state)
{
    (void)state;
    double off_rad;
    assert_int_equal(poses_of(2, &off_rad), 0); // two agree by chance
    assert_true(poses_of(3, &off_rad) > 0 && off_rad > 0.03);
    assert_true(poses_of(5, &off_rad) > 0 && off_rad > 0.03); // as the axes lie
    assert_true(poses_of(6, &off_rad) > 0 && off_rad < 1e-6); // as the correspondences say
}

static uint32_t n_shared(double best_off_m)
{
    struct register_matched_pair pair = {{1, 2, 3}, {1, 2, 3}, 0.1};
    struct register_matched matched;
    struct se3 T = se3_identity(), T_best = T;
    memset(&matched, 0, sizeof matched);
    matched.pairs = &pair;
    matched.n = 1;
    T_best.t_m[1] = best_off_m;
    return register_candidates_shared(&matched, &T, &T_best);
}

static void what_the_best_nearly_does(void **state)
{
    (void)state;
    assert_int_equal(n_shared(0.398), 1); // four times what bounds the pair
    assert_int_equal(n_shared(0.402), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_a_wall),
        cmocka_unit_test(what_is_behind),
        cmocka_unit_test(what_is_on_a_plane),
        cmocka_unit_test(a_near_face_is_no_wall),
        cmocka_unit_test(what_stands_in_empty_space),
        cmocka_unit_test(what_is_hidden),
        cmocka_unit_test(what_lies_around),
        cmocka_unit_test(what_directions_a_room_has),
        cmocka_unit_test(how_many_make_a_direction),
        cmocka_unit_test(how_many_make_a_pose),
        cmocka_unit_test(what_the_best_nearly_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

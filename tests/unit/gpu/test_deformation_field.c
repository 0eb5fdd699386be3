// SPDX-License-Identifier: Apache-2.0
// How much each of two keyframes says of a point: one was moved by a metre along x, the other was
// not, so that the point's motion tells their shares; each limit from both sides.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "gpu/model/deformation_field.h"
#include "proto/se3.h"

#define INSIDE  0.996
#define OUTSIDE 1.004
#define WIDTH   40
#define HEIGHT  30

static const struct intrinsics camera = {30, 30, 19.5, 14.5, WIDTH, HEIGHT};
static struct deformation_field field;

static int begin(void **state)
{
    (void)state;
    return deformation_field_create(&field, &camera, 3);
}

static int end(void **state)
{
    (void)state;
    deformation_field_free(&field);
    return field.keyframes != NULL;
}

// A keyframe at (x_m, 0, at_m) that saw a wall at z_mm, and was moved.
static uint16_t *keyframe(double x_m, double at_m, uint16_t z_mm, double moved_m)
{
    struct se3 T_odom = se3_identity(), T_map;
    T_odom.t_m[0] = x_m;
    T_odom.t_m[2] = at_m;
    T_map = T_odom;
    T_map.t_m[0] += moved_m;
    uint16_t *z = deformation_field_add(&field, &T_odom, &T_map);
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        z[i] = z_mm;
    return z;
}

static double moved(double voxel_m, double x_m, double z_m)
{
    const double p_m[3] = {x_m, 0, z_m};
    double q_m[3];
    const struct se3 T = deformation_field_at(&field, voxel_m, p_m);
    se3_apply(&T, p_m, q_m);
    assert_true(fabs(q_m[1]) < 1e-12 && fabs(q_m[2] - z_m) < 1e-12);
    return q_m[0] - x_m;
}

static void assert_share(double moved_m, double share, double of_other)
{
    assert_true(fabs(moved_m - share / (share + of_other)) < 1e-9);
}

// Within three voxels, or the sensor's noise of 8 mm at a metre.
static void what_it_saw_lies_on_its_surface(void **state)
{
    (void)state;
    keyframe(0, 0, 1030, 1);
    keyframe(0, 0, 1000, 0);
    static const double ratios[] = {0.2, 0.5, INSIDE};
    for (int i = 0; i < 3; i++)
        assert_share(moved(0.01 / ratios[i], 0, 1), 1 - ratios[i] * ratios[i], 1);
    assert_true(moved(0.01 / OUTSIDE, 0, 1) == 0);
}

static void far_off_it_may_err_more(void **state)
{
    (void)state;
    keyframe(0, 0, 4128, 1);
    keyframe(0, 0, 4000, 0);
    static const double z_m[] = {4.0003, 4.05, 4.064};
    for (int i = 0; i < 3; i++) {
        const double limit_m = 0.008 * z_m[i] * z_m[i];
        const double off = (4.128 - z_m[i]) / limit_m, of_other = (z_m[i] - 4) / limit_m;
        assert_share(moved(0.001, 0, z_m[i]), 1 - off * off, 1 - of_other * of_other);
    }
    assert_true(moved(0.001, 0, 3.9996) == 0);
}

// (1/2 m / z)^4, from half a metre on.
static void the_nearer_counts_more(void **state)
{
    (void)state;
    static const struct {
        double back_m, z_m;
    } cases[] = {{1, 1}, {0.5, 1}, {0.3, 0.6}, {0.1, 0.3}, {1, 0.4}};
    for (int i = 0; i < 5; i++) {
        const double z_m = cases[i].z_m, back_m = cases[i].back_m;
        field.n = 0;
        keyframe(0, 0, (uint16_t)lrint(1000 * z_m), 1);
        keyframe(0, -back_m, (uint16_t)lrint(1000 * (z_m + back_m)), 0);
        assert_share(moved(0.01, 0, z_m), pow(0.5 / fmax(0.5, z_m), 4),
                     pow(0.5 / fmax(0.5, z_m + back_m), 4));
    }
}

// Fully from a tenth of the image on, seen from its edge.
static void less_at_the_images_edge(void **state)
{
    (void)state;
    for (int side = -1; side <= 1; side += 2) {
        static const double from_edge[] = {0.01, 0.05, 0.098, 0.102, 0.3};
        for (int i = 0; i < 5; i++) {
            // Columns from the middle of the image to there.
            const double columns = side * WIDTH * (0.5 - from_edge[i]), x_m = columns / 30;
            field.n = 0;
            keyframe(0, 0, 1000, 1);
            keyframe(x_m, 0, 1000, 0);
            assert_share(moved(0.01, x_m, 1), fmin(1, 10 * from_edge[i]), 1);
        }
        const double beyond_m = side * WIDTH * 0.5005 / 30;
        field.n = 0;
        keyframe(0, 0, 1000, 1);
        keyframe(beyond_m, 0, 1000, 0);
        assert_true(moved(0.01, beyond_m, 1) == 0);
    }
    // Rows likewise.
    field.n = 0;
    keyframe(0, 0, 1000, 1);
    keyframe(0, 0, 1000, 0);
    field.keyframes[1].T_camera_odom.t_m[1] = -HEIGHT * 0.45 / 30;
    const double p_m[3] = {0, HEIGHT * 0.45 / 30, 1};
    const struct se3 T = deformation_field_at(&field, 0.01, p_m);
    assert_true(fabs(T.t_m[0] - 0.5 / 1.5) < 1e-9);
}

// Beyond the last column and row there is nothing: not the first ones of what comes next.
static void the_image_ends_with_its_last_pixel(void **state)
{
    (void)state;
    const double off = 0.02 / 0.03, at_m = 1.02;
    for (int rows = 0; rows < 2; rows++) {
        const double from_edge = 0.01, half = rows ? HEIGHT * 0.5 : WIDTH * 0.5;
        const double a_m = at_m * half * (1 - 2 * from_edge) / 30;
        const double p_m[3] = {rows ? 0 : a_m, rows ? a_m : 0, at_m};
        field.n = 0;
        uint16_t *z = keyframe(0, 0, 1000, 1);
        for (int i = 0; i < WIDTH * HEIGHT; i++)
            z[i] = i % WIDTH == 0 && !rows ? 1050 : 1000;
        keyframe(0, 0, 1020, 0);
        field.keyframes[1].T_camera_odom.t_m[rows] = -a_m;
        const struct se3 T = deformation_field_at(&field, 0.01, p_m);
        assert_share(T.t_m[0], 10 * from_edge * (1 - off * off), 1);
    }
}

// Between pixels a tenth apart there is one surface, beyond there are two.
static void between_pixels_there_is_a_surface(void **state)
{
    (void)state;
    for (int apart_mm = 99; apart_mm <= 101; apart_mm += 2) {
        field.n = 0;
        uint16_t *z = keyframe(0, 0, 1000, 1);
        for (int i = 0; i < WIDTH * HEIGHT; i++)
            z[i] = (uint16_t)(i % WIDTH < 20 ? 1000 : 1000 + apart_mm);
        keyframe(0, 0, 1050, 0);
        // Between columns 19 and 20, nearer to 19.
        assert_share(moved(0.01, -0.001, 1.05), apart_mm == 99, 1);
        // What lies there is seen from the one side.
        field.n = 0;
        z = keyframe(0, 0, 1000, 1);
        for (int i = 0; i < WIDTH * HEIGHT; i++)
            z[i] = (uint16_t)(i % WIDTH < 20 ? 1000 : 1000 + apart_mm);
        keyframe(0, 0, 1000, 0);
        assert_share(moved(0.01, -0.001, 1), 1, 1);
    }
    // Beside a hole the other pixels say it.
    field.n = 0;
    uint16_t *z = keyframe(0, 0, 1000, 1);
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        z[i] = i % WIDTH < 20 ? 0 : 1000;
    keyframe(0, 0, 1000, 0);
    assert_share(moved(0.01, 0.001, 1), 1, 1);
    assert_share(moved(0.01, 0.1, 1), 1, 1);
    assert_true(moved(0.01, -0.1, 1) == 0);
}

// A point that none saw goes with the keyframe that stands nearest to it; one that has it out of
// sight stands twice as far.
static void what_none_saw_goes_with_the_nearest(void **state)
{
    (void)state;
    keyframe(0, 0, 4000, 1);
    keyframe(0, -0.5, 4000, 0);
    assert_true(fabs(moved(0.01, 0, 1) - 1) < 1e-12);
    assert_true(moved(0.01, 0, -1) == 0); // nearer to the other, out of sight of both
    assert_true(fabs(moved(0.01, 0, -0.16) - 1) < 1e-12); // twice that, or 0.34
    assert_true(moved(0.01, 0, -0.17) == 0);
    field.n = 0;
    keyframe(0, 0, 4000, 1);
    keyframe(0, 3.95, 4000, 0); // looks away from it
    assert_true(fabs(moved(0.01, 0, 2.6) - 1) < 1e-12);
    assert_true(moved(0.01, 0, 2.66) == 0);
}

static bool is_none(double moved_m, double turn_rad, double voxel_m)
{
    const double turn[6] = {0, 0, 0, 0, turn_rad, 0};
    struct se3 T_odom = se3_identity(), T_map = se3_exp(turn);
    field.n = 0;
    keyframe(0, 0, 1000, 0);
    T_map.t_m[1] = 0.6 * moved_m;
    T_map.t_m[2] = -0.8 * moved_m;
    deformation_field_add(&field, &T_odom, &T_map);
    return deformation_field_is_none(&field, voxel_m);
}

// An eighth of a voxel, three metres off.
static void so_little_is_no_motion(void **state)
{
    (void)state;
    assert_true(is_none(INSIDE * 0.08 / 8, 0, 0.08));
    assert_false(is_none(OUTSIDE * 0.08 / 8, 0, 0.08));
    assert_true(is_none(0, INSIDE * 0.08 / 24, 0.08));
    assert_false(is_none(0, OUTSIDE * 0.08 / 24, 0.08));
    assert_false(is_none(INSIDE * 0.08 / 8, 0.1 * 0.08 / 24, 0.08));
}

// A place is moved as its cells are: those on the left of its view by a metre. Cells without depth
// do not count.
static void places_go_as_what_they_saw(void **state)
{
    (void)state;
    struct relocalise_keyframe places[2];
    uint16_t *z = keyframe(0, 0, 2000, 1);
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < WIDTH * HEIGHT; i++)
            z[i] = (i % WIDTH < 15) == (k == 0) ? 2000 : 0;
        z = k == 0 ? keyframe(0, 0, 2000, 0) : z;
    }
    for (int k = 0; k < 2; k++) {
        places[k].T_map_camera = se3_identity();
        places[k].T_map_camera.t_m[2] = k; // the wall is nearer then
        for (int cell = 0; cell < DEPTH_CELLS; cell++)
            places[k].log_z[cell] = (float)log(2 - k);
    }
    for (int row = 0; row < 3; row++) // of a quarter of the rows
        for (int column = 0; column < 4; column++)
            places[0].log_z[DEPTH_CELLS_X * row + column] = NAN;
    deformation_field_of_places(&field, 0.01, places, 2);
    // 6 of 16 columns are left of column 15, less twelve cells; in a view from half as far, which
    // has the middle half of the image, 4 are.
    assert_true(fabs(places[0].T_map_camera.t_m[0] - (72 - 12) / (192.0 - 12)) < 1e-6);
    assert_true(fabs(places[1].T_map_camera.t_m[0] - 4 / 16.0) < 1e-6);
    assert_true(places[1].T_map_camera.t_m[2] == 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(what_it_saw_lies_on_its_surface),
        TEST(far_off_it_may_err_more),
        TEST(the_nearer_counts_more),
        TEST(less_at_the_images_edge),
        TEST(the_image_ends_with_its_last_pixel),
        TEST(between_pixels_there_is_a_surface),
        TEST(what_none_saw_goes_with_the_nearest),
        TEST(so_little_is_no_motion),
        TEST(places_go_as_what_they_saw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// What carries an object: which planes an image has, how far a pose is from them, what that says.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/search/object/corners.h"
#include "gpu/search/support.h"
#include "tools/bench/testrandom.h"

#define WIDTH    640
#define HEIGHT   480
#define FOCAL_PX 575.0
#define RADIUS_M 0.1

// A table 0.7 m below the camera that looks 40 degrees down: y is down in its frame.
#define PITCH   0.7
#define BELOW_M 0.7

static uint16_t depth[WIDTH * HEIGHT];
static uint64_t random_state;
static struct search_object object;
static float axes[3][2000];

static void ray_at(int u, int v, double out[3])
{
    out[0] = (u - (WIDTH - 1) / 2.0) / FOCAL_PX;
    out[1] = (v - (HEIGHT - 1) / 2.0) / FOCAL_PX;
    out[2] = 1;
}

// How far p is below the camera, along the table's normal.
static double depth_below(const double p[3])
{
    return cos(PITCH) * p[1] + sin(PITCH) * p[2];
}

// The table to `edge_m` away along it, a floor 0.6 m lower beyond; a Kinect's noise.
static struct search_image draw(double edge_m)
{
    for (int v = 0; v < HEIGHT; v++)
        for (int u = 0; u < WIDTH; u++) {
            double ray[3];
            ray_at(u, v, ray);
            const double down = depth_below(ray), along = cos(PITCH) - sin(PITCH) * ray[1];
            double z = down > 0.05 ? BELOW_M / down : 0;
            if (z * along > edge_m)
                z = (BELOW_M + 0.6) / down;
            z += 0.0015 * z * z * testrandom_normal(&random_state);
            depth[v * WIDTH + u] = z > 0.3 && z < 8 ? (uint16_t)lround(1000 * z) : 0;
        }
    return (struct search_image){.frame = {depth, WIDTH, HEIGHT, 1000, 0},
                                 .camera = {.fx_px = FOCAL_PX,
                                            .fy_px = FOCAL_PX,
                                            .cx_px = (WIDTH - 1) / 2.0,
                                            .cy_px = (HEIGHT - 1) / 2.0,
                                            .width_px = WIDTH,
                                            .height_px = HEIGHT}};
}

// A ball of vertices.
static int set_up(void **unused)
{
    (void)unused;
    random_state = 7;
    object = (struct search_object){.info = {.radius_m = (float)RADIUS_M, .map_px_m = 0.002f},
                                    .n_vertices = 2000};
    object.x = axes[0];
    object.y = axes[1];
    object.z = axes[2];
    for (int i = 0; i < 2000; i++) {
        double d[3], length = 0;
        for (int k = 0; k < 3; k++) {
            d[k] = testrandom_normal(&random_state);
            length += d[k] * d[k];
        }
        for (int k = 0; k < 3; k++)
            axes[k][i] = (float)(RADIUS_M / 0.002 * d[k] / sqrt(length));
    }
    search_find_corners(&object);
    return 0;
}

// Its centre `height_m` above the table, `along_m` away along it.
static struct search_candidate at(double height_m, double along_m)
{
    const double down = BELOW_M - height_m;
    return (struct search_candidate){.rotation = {1, 0, 0, 0, 1, 0, 0, 0, 1},
                                     .t_m = {0, (float)(cos(PITCH) * down - sin(PITCH) * along_m),
                                             (float)(sin(PITCH) * down + cos(PITCH) * along_m)}};
}

static void test_plane_is_found(void **unused)
{
    (void)unused;
    const struct search_image image = draw(INFINITY);
    struct search_supports supports;
    search_find_supports(&image, (float)RADIUS_M, &supports);
    assert_int_equal(supports.n, 1);
    const double *m = supports.of[0].m;
    const double length = sqrt(m[0] * m[0] + m[1] * m[1] + m[2] * m[2]);
    assert_true(fabs(1 / length - BELOW_M) < 0.002);
    assert_true(acos((cos(PITCH) * m[1] + sin(PITCH) * m[2]) / length) < 0.005);
}

// The floor beyond the edge is a second one; both are too small for what is as large as they are.
static void test_planes_are_larger_than_faces(void **unused)
{
    (void)unused;
    const struct search_image image = draw(0.8);
    struct search_supports supports;
    search_find_supports(&image, (float)RADIUS_M, &supports);
    assert_int_equal(supports.n, 2);
    search_find_supports(&image, 2, &supports);
    assert_int_equal(supports.n, 0);
    const struct search_candidate c = at(RADIUS_M, 0.6);
    assert_true(isinf(search_support_gap_m(&supports, &object, &image, &c)));
}

static void test_gap_is_where_it_stands(void **unused)
{
    (void)unused;
    const struct search_image image = draw(INFINITY);
    struct search_supports supports;
    search_find_supports(&image, (float)RADIUS_M, &supports);
    static const double gaps[] = {-0.05, -0.01, 0, 0.01, 0.05};
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++) {
        const struct search_candidate c = at(RADIUS_M + gaps[i], 0.6);
        const double gap = (double)search_support_gap_m(&supports, &object, &image, &c);
        // The plane is off by its noise, the ball by its corners.
        assert_true(fabs(gap - gaps[i]) < 0.003);
    }
}

// Beyond the edge it may well be lower than the table.
static void test_edge_ends_a_plane(void **unused)
{
    (void)unused;
    const struct search_image image = draw(0.8);
    struct search_supports supports;
    search_find_supports(&image, (float)RADIUS_M, &supports);
    const struct search_candidate beyond = at(-0.05, 1.3), through = at(-0.05, 0.6);
    assert_true(search_support_gap_m(&supports, &object, &image, &beyond) > -0.02f);
    assert_true(search_support_gap_m(&supports, &object, &image, &through) < -0.1f);
}

// From its definition, in double.
static double ratio(double gap, double r, double z)
{
    const double x = gap / r, s = (0.002 + 0.0025 * z * z) / r;
    const double right = 0.3 * exp(-x * x / (2 * s * s)) / sqrt(2 * M_PI * s * s) +
                         (x > 0 ? 0.6 * exp(-x / 0.6) / 0.6 : 0);
    const double wrong = 1 / (M_PI * 0.45 * (1 + pow((x + 0.15) / 0.45, 2)));
    return (right + 0.1 * wrong) / wrong;
}

static void test_worth_is_a_likelihood_ratio(void **unused)
{
    (void)unused;
    assert_true(search_support_worth(INFINITY, 0.1f, 1) == 0);
    assert_true(search_support_worth(0, 0.1f, 1) == 0);
    for (int i = -30; i <= 30; i++)
        for (int z = 1; z <= 3; z++)
            assert_true(fabs((double)search_support_worth(0.005f * (float)i, 0.1f, (float)z) -
                             log(ratio(0.005 * i, 0.1, z) / ratio(0, 0.1, z))) < 1e-4);
    // A pose that reaches through has not lost for good; one on a box loses little.
    assert_true(search_support_worth(-0.05f, 0.1f, 1) < -3);
    assert_true(search_support_worth(-1, 0.1f, 1) > -4.5f);
    assert_true(search_support_worth(0.05f, 0.1f, 1) > -1.5f);
}

static void test_it_decides_between_equals(void **unused)
{
    (void)unused;
    const struct search_image image = draw(INFINITY);
    struct search_candidate c[2] = {at(0.02, 0.6), at(RADIUS_M, 0.6)};
    c[0].score = c[0].sure = c[1].score = c[1].sure = 4;
    search_add_support(&object, &image, c, 2);
    assert_true(c[1].score > c[0].score + 2.5f);
    assert_true(c[0].score == c[0].sure && c[1].score == c[1].sure);
    memset(depth, 0, sizeof depth);
    c[0].score = 4;
    search_add_support(&object, &image, c, 1);
    assert_true(c[0].score == 4);
}

static void test_corners_reach_as_far_as_all(void **unused)
{
    (void)unused;
    assert_true(object.n_corners <= SEARCH_CORNERS_MAX);
    for (int n = 0; n < 200; n++) {
        float d[3], all = -INFINITY, some = -INFINITY;
        for (int k = 0; k < 3; k++)
            d[k] = (float)testrandom_normal(&random_state);
        const float length = sqrtf(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
        for (uint32_t i = 0; i < object.n_vertices; i++)
            all = fmaxf(all, 0.002f * (d[0] * axes[0][i] + d[1] * axes[1][i] + d[2] * axes[2][i]));
        for (uint32_t i = 0; i < object.n_corners; i++) {
            const float *p = object.corners_m[i];
            some = fmaxf(some, d[0] * p[0] + d[1] * p[1] + d[2] * p[2]);
        }
        assert_true((all - some) / length < 0.02f * (float)RADIUS_M);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_plane_is_found, set_up),
        cmocka_unit_test_setup(test_planes_are_larger_than_faces, set_up),
        cmocka_unit_test_setup(test_gap_is_where_it_stands, set_up),
        cmocka_unit_test_setup(test_edge_ends_a_plane, set_up),
        cmocka_unit_test_setup(test_worth_is_a_likelihood_ratio, set_up),
        cmocka_unit_test_setup(test_it_decides_between_equals, set_up),
        cmocka_unit_test_setup(test_corners_reach_as_far_as_all, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

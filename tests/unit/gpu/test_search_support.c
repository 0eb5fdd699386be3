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

static float z_m[WIDTH * HEIGHT];

static struct search_image image_of(void)
{
    for (int i = 0; i < WIDTH * HEIGHT; i++) {
        const double z = (double)z_m[i];
        const double noisy = z + 0.0015 * z * z * testrandom_normal(&random_state);
        depth[i] = z > 0.3 && z < 8 ? (uint16_t)lround(1000 * noisy) : 0;
    }
    return (struct search_image){.frame = {depth, WIDTH, HEIGHT, 1000, 0},
                                 .camera = {.fx_px = FOCAL_PX,
                                            .fy_px = FOCAL_PX,
                                            .cx_px = (WIDTH - 1) / 2.0,
                                            .cy_px = (HEIGHT - 1) / 2.0,
                                            .width_px = WIDTH,
                                            .height_px = HEIGHT}};
}

// The table to `edge_m` away along it, a floor 0.6 m lower beyond.
static void draw_table(double edge_m)
{
    for (int v = 0; v < HEIGHT; v++)
        for (int u = 0; u < WIDTH; u++) {
            double ray[3];
            ray_at(u, v, ray);
            const double down = depth_below(ray), along = cos(PITCH) - sin(PITCH) * ray[1];
            double z = down > 0.05 ? BELOW_M / down : 0;
            if (z * along > edge_m)
                z = (BELOW_M + 0.6) / down;
            z_m[v * WIDTH + u] = (float)z;
        }
}

static void draw_ball(const float centre[3], double radius_m)
{
    for (int v = 0; v < HEIGHT; v++)
        for (int u = 0; u < WIDTH; u++) {
            double ray[3], a = 0, b = 0, c = -radius_m * radius_m;
            ray_at(u, v, ray);
            for (int k = 0; k < 3; k++) {
                a += ray[k] * ray[k];
                b += ray[k] * (double)centre[k];
                c += (double)centre[k] * (double)centre[k];
            }
            float *z = &z_m[v * WIDTH + u];
            const float here = b * b > a * c ? (float)((b - sqrt(b * b - a * c)) / a) : INFINITY;
            if (here < *z || (*z == 0.f && here < INFINITY))
                *z = here;
        }
}

static struct search_image draw(double edge_m)
{
    draw_table(edge_m);
    return image_of();
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

// What all planes of an image say of the ball there.
static double worth_of(const struct search_image *image, struct search_candidate c)
{
    c.score = c.sure = 4;
    struct search_supports supports;
    search_find_supports(image, object.info.radius_m, &supports);
    search_add_support(&supports, &object, image, &c, 1);
    assert_true(c.score == c.sure);
    return (double)c.score - 4;
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
}

// Balls that lie about have no plane in common, whatever the size.
static void test_heap_is_no_plane(void **unused)
{
    (void)unused;
    static const double heaps[][2] = {{0.03, 0.06}, {0.05, 0.1}, {0.1, 0.2}, {0.05, 0.4}};
    for (size_t i = 0; i < sizeof heaps / sizeof *heaps; i++) {
        struct search_supports supports;
        memset(z_m, 0, sizeof z_m);
        for (int n = 0; n < 300; n++) {
            const float centre[3] = {
                (float)testrandom_uniform(&random_state, -0.6, 0.6),
                (float)testrandom_uniform(&random_state, -0.5, 0.5),
                (float)(1 + testrandom_uniform(&random_state, 0, heaps[i][1]))};
            draw_ball(centre, heaps[i][0]);
        }
        const struct search_image image = image_of();
        search_find_supports(&image, (float)heaps[i][0], &supports);
        assert_int_equal(supports.n, 0);
    }
}

// Of twelve boxes side by side, seen from above, one in the middle: its top lies in the plane of
// all, to within what a pose is exact to.
static void test_one_of_many_is_not_through_their_plane(void **unused)
{
    (void)unused;
    static const double half_m[3] = {0.1, 0.075, 0.02}, off_m[] = {-0.004, -0.001, 0, 0.004};
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < 3; k++)
            axes[k][i] = (float)((i >> k & 1 ? half_m[k] : -half_m[k]) / 0.002);
    object.n_vertices = 8;
    object.info.radius_m = 0.127f;
    search_find_corners(&object);
    for (int v = 0; v < HEIGHT; v++)
        for (int u = 0; u < WIDTH; u++) {
            double ray[3];
            ray_at(u, v, ray);
            const double x = 0.96 * ray[0] / 0.21, y = 0.96 * ray[1] / 0.16;
            const bool on = fabs(x) < 1.5 && fabs(y) < 2 && fabs(x - round(x)) * 0.21 < half_m[0] &&
                            fabs(y - floor(y) - 0.5) * 0.16 < half_m[1];
            z_m[v * WIDTH + u] = on ? 0.96f : 1;
        }
    const struct search_image image = image_of();
    struct search_supports supports;
    search_find_supports(&image, object.info.radius_m, &supports);
    assert_int_equal(supports.n, 2);
    for (size_t i = 0; i < sizeof off_m / sizeof *off_m; i++) {
        const struct search_candidate c = {.rotation = {1, 0, 0, 0, 1, 0, 0, 0, 1},
                                           .t_m = {0, 0.08f, (float)(0.98 + off_m[i])}};
        assert_true(worth_of(&image, c) > -0.35);
    }
}

static void test_gap_is_where_it_stands(void **unused)
{
    (void)unused;
    static const double gaps[] = {-0.05, -0.01, 0, 0.01, 0.05};
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++) {
        const struct search_candidate c = at(RADIUS_M + gaps[i], 0.6);
        struct search_supports supports;
        draw_table(INFINITY);
        draw_ball(c.t_m, RADIUS_M);
        const struct search_image image = image_of();
        search_find_supports(&image, (float)RADIUS_M, &supports);
        assert_int_equal(supports.n, 1);
        const double gap = (double)search_support_gap_m(&supports.of[0], &object, &image, &c);
        // The plane is off by its noise, the ball by its corners.
        assert_true(fabs(gap - gaps[i]) < 0.003);
    }
}

// Beyond the edge it may well be lower than the table, or wholly below it; through it not.
static void test_edge_ends_a_plane(void **unused)
{
    (void)unused;
    static const double beyond_m[] = {0.95, 1.1, 1.3};
    for (size_t i = 0; i < sizeof beyond_m / sizeof *beyond_m; i++)
        for (int k = 0; k < 2; k++) {
            const struct search_candidate c = at(k * -0.15, beyond_m[i]);
            draw_table(0.8);
            draw_ball(c.t_m, RADIUS_M);
            const struct search_image image = image_of();
            assert_true(worth_of(&image, c) > -0.35);
        }
    const struct search_image image = draw(0.8);
    assert_true(worth_of(&image, at(0.02, 0.6)) < -2.3);
}

// In a sink, 0.3 m each way and 0.15 m deep, it may be at any height; on the table beside it not.
static void test_hole_says_nothing(void **unused)
{
    (void)unused;
    static const double heights[] = {-0.05, 0, 0.05, 0.08};
    for (size_t i = 0; i < sizeof heights / sizeof *heights; i++) {
        const struct search_candidate in = at(heights[i], 0.6), beside = at(0.02, 0.9);
        for (int v = 0; v < HEIGHT; v++)
            for (int u = 0; u < WIDTH; u++) {
                double ray[3];
                ray_at(u, v, ray);
                const double down = depth_below(ray), away = cos(PITCH) - sin(PITCH) * ray[1];
                const double z = down > 0.05 ? BELOW_M / down : 0;
                const bool hole = fabs(z * ray[0]) < 0.15 && fabs(z * away - 0.6) < 0.15;
                const double deep = fmin((BELOW_M + 0.15) / down, 0.75 / away);
                z_m[v * WIDTH + u] = (float)(hole ? deep : z);
            }
        draw_ball(in.t_m, RADIUS_M);
        const struct search_image image = image_of();
        assert_true(worth_of(&image, in) > -0.35);
        assert_true(worth_of(&image, beside) < -2.3);
    }
}

// A wall far behind what is held in a hand says nothing.
static void test_far_wall_says_nothing(void **unused)
{
    (void)unused;
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        z_m[i] = 3;
    const struct search_candidate c = {.rotation = {1, 0, 0, 0, 1, 0, 0, 0, 1}, .t_m = {0, 0, 1}};
    draw_ball(c.t_m, RADIUS_M);
    const struct search_image image = image_of();
    assert_true(worth_of(&image, c) == 0);
}

// 65535 is no measurement, nor is what the caller does not want looked at.
static void test_only_used_pixels_count(void **unused)
{
    (void)unused;
    static uint8_t mask[WIDTH * HEIGHT];
    const struct search_candidate through = at(0.02, 0.6);
    struct search_image image = draw(INFINITY);
    assert_true(worth_of(&image, through) < -2.3);
    image.mask = mask;
    assert_true(worth_of(&image, through) == 0);
    image.mask = NULL;
    image.u1 = image.v1 = 40;
    assert_true(worth_of(&image, through) == 0);
    image.u1 = image.v1 = 0;
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        depth[i] = UINT16_MAX;
    struct search_supports supports;
    search_find_supports(&image, (float)RADIUS_M, &supports);
    assert_int_equal(supports.n, 0);
}

// Who reaches through the table is not pardoned for touching a wall.
static void test_the_worst_plane_counts(void **unused)
{
    (void)unused;
    const struct search_candidate c = at(0.02, 0.6);
    draw_table(INFINITY);
    for (int v = 0; v < HEIGHT; v++)
        for (int u = 0; u < WIDTH; u++) { // a wall on the right that the ball touches
            double ray[3];
            ray_at(u, v, ray);
            const float z = (float)(RADIUS_M / ray[0]);
            if (ray[0] > 0.02 && z < z_m[v * WIDTH + u])
                z_m[v * WIDTH + u] = z;
        }
    const struct search_image image = image_of();
    assert_true(worth_of(&image, c) < -2.3);
}

// The definition: log(5/54) where it reaches through, a third of log(15/34) where it is above.
static void test_worth_is_bounded(void **unused)
{
    (void)unused;
    assert_true(search_support_worth(INFINITY, 0.1f, 1) == 0);
    assert_true(fabs((double)search_support_worth(-1, 0.1f, 1) - log(5.0 / 54)) < 0.05);
    assert_true(fabs((double)search_support_worth(0.05f, 0.1f, 1) - log(15.0 / 34) / 3) < 0.05);
    for (int r = 1; r < 20; r++)
        for (int z = 1; z < 4; z++) {
            float before = search_support_worth(-1, 0.03f * (float)r, (float)z);
            for (int i = -1000; i <= 1000; i++) {
                const float worth =
                    search_support_worth(0.001f * (float)i, 0.03f * (float)r, (float)z);
                assert_true(worth <= 0 && worth >= -2.4f);
                assert_true(fabsf(worth - before) < 0.25f); // 1 mm of 4 to 29 in which it falls
                before = worth;
            }
        }
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
        cmocka_unit_test_setup(test_heap_is_no_plane, set_up),
        cmocka_unit_test_setup(test_one_of_many_is_not_through_their_plane, set_up),
        cmocka_unit_test_setup(test_hole_says_nothing, set_up),
        cmocka_unit_test_setup(test_far_wall_says_nothing, set_up),
        cmocka_unit_test_setup(test_only_used_pixels_count, set_up),
        cmocka_unit_test_setup(test_the_worst_plane_counts, set_up),
        cmocka_unit_test_setup(test_worth_is_bounded, set_up),
        cmocka_unit_test_setup(test_corners_reach_as_far_as_all, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// A surface through points without faces: closed where the sampled surface is, nowhere else.
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/search/object/point_surface.h"
#include "tools/bench/testrandom.h"

#define N_ACROSS 128
#define N_POINTS 3000

static uint64_t random_state;
static float points_m[3 * N_POINTS];

static void put(size_t i, double x, double y, double z)
{
    points_m[3 * i] = (float)x;
    points_m[3 * i + 1] = (float)y;
    points_m[3 * i + 2] = (float)z;
}

static double draw(double low, double high)
{
    return testrandom_uniform(&random_state, low, high);
}

static const float *corner(const struct point_surface *surface, size_t triangle, int k)
{
    return surface->vertices_m + 3 * (size_t)surface->triangles[3 * triangle + (size_t)k];
}

static double area(const struct point_surface *surface, size_t triangle)
{
    const float *a = corner(surface, triangle, 0), *b = corner(surface, triangle, 1),
                *c = corner(surface, triangle, 2);
    double n2 = 0;
    for (int k = 0; k < 3; k++) {
        int u = (k + 1) % 3, v = (k + 2) % 3;
        double n = (double)(b[u] - a[u]) * (double)(c[v] - a[v]) -
                   (double)(b[v] - a[v]) * (double)(c[u] - a[u]);
        n2 += n * n;
    }
    return sqrt(n2) / 2;
}

// Whether a line through the origin goes through a triangle, whatever way it is turned.
static bool is_hit(const struct point_surface *surface, const double ray[3])
{
    for (size_t i = 0; i < surface->n_triangles; i++) {
        double side[3];
        for (int k = 0; k < 3; k++) {
            const float *a = corner(surface, i, k), *b = corner(surface, i, (k + 1) % 3);
            side[k] = 0;
            for (int m = 0; m < 3; m++) {
                int u = (m + 1) % 3, v = (m + 2) % 3;
                side[k] += ((double)a[u] * (double)b[v] - (double)a[v] * (double)b[u]) * ray[m];
            }
        }
        const float *a = corner(surface, i, 0);
        bool ahead = (double)a[0] * ray[0] + (double)a[1] * ray[1] + (double)a[2] * ray[2] > 0;
        if (ahead && ((side[0] >= 0 && side[1] >= 0 && side[2] >= 0) ||
                      (side[0] <= 0 && side[1] <= 0 && side[2] <= 0)))
            return true;
    }
    return false;
}

static uint32_t count_gaps(const struct point_surface *surface, uint32_t n_rays)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_rays; i++) {
        double ray[3];
        for (int k = 0; k < 3; k++)
            ray[k] = testrandom_normal(&random_state);
        n += !is_hit(surface, ray);
    }
    return n;
}

// A ball of 10 cm, its points at random: some gaps are five times as wide as the mean spacing. The
// chords lie within the ball, so that its surface is a little smaller; flat triangles that share
// the corners of another pair may be there twice.
static void a_sphere_is_closed(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < N_POINTS; i++) {
        double p[3], r = 0;
        for (int k = 0; k < 3; k++) {
            p[k] = testrandom_normal(&random_state);
            r += p[k] * p[k];
        }
        r = 0.1 / sqrt(r);
        put(i, r * p[0], r * p[1], r * p[2]);
    }
    struct point_surface surface;
    assert_int_equal(point_surface_make(points_m, N_POINTS, N_ACROSS, &surface), 0);
    assert_int_equal(count_gaps(&surface, 2000), 0);
    double sum = 0;
    for (size_t i = 0; i < surface.n_triangles; i++)
        sum += area(&surface, i);
    print_message("%zu triangles, %.4f of the area\n", surface.n_triangles,
                  sum / (4 * M_PI * 0.01));
    assert_true(fabs(sum / (4 * M_PI * 0.01) - 1) < 0.03);
    point_surface_free(&surface);
}

// A ring of 10 cm whose tube is 3 cm thick: nothing closes the hole in its middle.
static void what_is_open_stays_open(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < N_POINTS; i++) {
        double a = draw(0, 2 * M_PI), b = draw(0, 2 * M_PI);
        put(i, (0.1 + 0.03 * cos(b)) * cos(a), (0.1 + 0.03 * cos(b)) * sin(a), 0.03 * sin(b));
    }
    struct point_surface surface;
    assert_int_equal(point_surface_make(points_m, N_POINTS, N_ACROSS, &surface), 0);
    assert_false(is_hit(&surface, (double[3]){0.01, 0.02, 1}));
    assert_false(is_hit(&surface, (double[3]){-0.3, 0.2, 1}));
    for (size_t i = 0; i < surface.n_triangles; i++) {
        double x = 0, y = 0;
        for (int k = 0; k < 3; k++) {
            x += (double)corner(&surface, i, k)[0] / 3;
            y += (double)corner(&surface, i, k)[1] / 3;
        }
        assert_true(hypot(x, y) > 0.06);
    }
    // all around, from its middle in its plane
    for (int i = 0; i < 500; i++) {
        double a = draw(0, 2 * M_PI);
        assert_true(is_hit(&surface, (double[3]){cos(a), sin(a), draw(-0.1, 0.1)}));
    }
    point_surface_free(&surface);
}

// A regular grid, where four points share every circle, on the six sides of a box of 8 cm.
static void a_grid_is_closed(void **unused)
{
    (void)unused;
    size_t n = 0;
    for (int side = 0; side < 6; side++)
        for (int i = 0; i < 20; i++)
            for (int k = 0; k < 20; k++) {
                double p[3] = {side % 2 ? 0.04 : -0.04, -0.04 + 0.08 / 19 * i,
                               -0.04 + 0.08 / 19 * k};
                put(n++, p[side / 2], p[(side / 2 + 1) % 3], p[(side / 2 + 2) % 3]);
            }
    struct point_surface surface;
    assert_int_equal(point_surface_make(points_m, n, N_ACROSS, &surface), 0);
    assert_int_equal(count_gaps(&surface, 2000), 0);
    for (size_t i = 0; i < surface.n_triangles; i++) // none goes through the box
        for (int k = 0; k < 3; k++) {
            const float *a = corner(&surface, i, k), *b = corner(&surface, i, (k + 1) % 3);
            assert_true(hypot(hypot((double)(a[0] - b[0]), (double)(a[1] - b[1])),
                              (double)(a[2] - b[2])) < 0.01);
        }
    point_surface_free(&surface);
}

// As many as an object of a sensible size has, of millions; a solid's inside does no harm.
static void many_points_are_thinned(void **unused)
{
    (void)unused;
    const size_t n = 1000000;
    float *solid_m = malloc(3 * n * sizeof *solid_m);
    assert_non_null(solid_m);
    for (size_t i = 0; i < 3 * n; i++)
        solid_m[i] = (float)draw(-0.05, 0.05);
    struct point_surface surface;
    assert_int_equal(point_surface_make(solid_m, n, N_ACROSS, &surface), 0);
    assert_in_range(surface.n_vertices, POINT_SURFACE_MOST / 3, POINT_SURFACE_MOST);
    assert_int_equal(count_gaps(&surface, 200), 0);
    point_surface_free(&surface);
    free(solid_m);
}

// A sphere that is sampled far more densely at one place, and one point far away: both are closed,
// and no coarser for it.
static void uneven_points_are_closed(void **unused)
{
    (void)unused;
    for (int far = 0; far < 2; far++) {
        for (size_t i = 0; i < N_POINTS; i++) {
            const bool dense = i % 3 == 0;
            double p[3], r = 0;
            for (int k = 0; k < 3; k++) {
                p[k] = testrandom_normal(&random_state) * (dense && k < 2 ? 0.05 : 1);
                r += p[k] * p[k];
            }
            r = 0.1 / sqrt(r);
            put(i, r * p[0], r * p[1], r * (dense ? fabs(p[2]) : p[2]));
        }
        if (far)
            put(0, 5, 0, 0);
        struct point_surface surface;
        assert_int_equal(point_surface_make(points_m, N_POINTS, far ? N_ACROSS : 2000, &surface),
                         0); // nearly nothing is thinned before the crowd is met
        assert_int_equal(count_gaps(&surface, 1000), 0);
        assert_true(surface.n_vertices > N_POINTS / 3);
        point_surface_free(&surface);
    }
}

static void bad_points_are_named(void **unused)
{
    (void)unused;
    struct point_surface surface;
    put(0, 0, 0, 0);
    put(1, 0.1, 0, 0);
    put(2, 0, 0.1, 0);
    assert_int_equal(point_surface_make(points_m, 3, N_ACROSS, &surface), 0);
    assert_int_equal(surface.n_triangles, 1);
    point_surface_free(&surface);
    assert_int_equal(point_surface_make(points_m, 2, N_ACROSS, &surface), -EINVAL);
    put(2, (double)NAN, 0, 0);
    assert_int_equal(point_surface_make(points_m, 3, N_ACROSS, &surface), -EINVAL);
    put(2, 0, -1e9, 0);
    assert_int_equal(point_surface_make(points_m, 3, N_ACROSS, &surface), -EINVAL);
    for (size_t i = 0; i < 100; i++)
        put(i, 0.1, 0.2, 0.3);
    assert_int_equal(point_surface_make(points_m, 100, N_ACROSS, &surface), -EINVAL);
    for (size_t i = 0; i < 100; i++)
        put(i, 0.001 * (double)i, 0, 0);
    assert_int_equal(point_surface_make(points_m, 100, N_ACROSS, &surface), 0);
    assert_int_equal(surface.n_triangles, 0);
    point_surface_free(&surface);
}

static int seed(void **unused)
{
    (void)unused;
    random_state = 5;
    print_message("seed %d\n", 5);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sphere_is_closed),       cmocka_unit_test(what_is_open_stays_open),
        cmocka_unit_test(a_grid_is_closed),         cmocka_unit_test(many_points_are_thinned),
        cmocka_unit_test(uneven_points_are_closed), cmocka_unit_test(bad_points_are_named),
    };
    return cmocka_run_group_tests(tests, seed, NULL);
}

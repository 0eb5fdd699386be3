// SPDX-License-Identifier: Apache-2.0
// The maps of the pose search: the distance transform against a brute-force one and against the
// paper's seven sweeps, the rasteriser against a ray caster, the spread of the rotations.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/search/context.h"
#include "gpu/search/cpu/edt.h"
#include "gpu/search/cpu/raster.h"
#include "gpu/search/kernels/depth_edges.h"
#include "gpu/search/kernels/raster.h"
#include "gpu/search/object/view_rotations.h"
#include "tools/bench/testscene.h"

static uint64_t state = 1;

static uint32_t next_random(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

// Blobs with edges as search_kinds finds them.
static void random_kinds(int size, int n_blobs, uint8_t *out)
{
    int16_t *z = malloc((size_t)(size * size) * sizeof *z);
    for (int i = 0; i < size * size; i++)
        z[i] = SEARCH_Z_NONE;
    for (int b = 0; b < n_blobs; b++) {
        int cu = (int)(next_random() % (uint32_t)size), cv = (int)(next_random() % (uint32_t)size);
        int r = 1 + (int)(next_random() % (uint32_t)(size / 3 + 1));
        int16_t depth = (int16_t)(next_random() % 2000);
        for (int i = 0; i < size * size; i++) {
            int du = i % size - cu, dv = i / size - cv;
            if (du * du + dv * dv <= r * r && depth < z[i])
                z[i] = depth;
        }
    }
    search_kinds(z, size, out);
    free(z);
}

static void brute_edt(const uint8_t *kind, int size, int16_t *out)
{
    for (int i = 0; i < size * size; i++) {
        double nearest = SEARCH_EDT_MAX_PX;
        for (int j = 0; j < size * size; j++) {
            double du = i % size - j % size, dv = i / size - j / size;
            if (kind[j] == SEARCH_KIND_EDGE)
                nearest = fmin(nearest, sqrt(du * du + dv * dv));
        }
        double value = floor(nearest * SEARCH_UNIT + 0.5);
        out[i] = (int16_t)(kind[i] == SEARCH_KIND_BACKGROUND ? -value : value);
    }
}

static void edt_is_the_brute_force_one(void **unused)
{
    (void)unused;
    static const int sizes[] = {1, 2, 17, 31, 64};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int blobs = 0; blobs < 6; blobs++) {
            int size = sizes[s];
            uint8_t kind[64 * 64];
            int16_t got[64 * 64], expected[64 * 64];
            random_kinds(size, blobs, kind);
            search_edt(kind, size, got);
            brute_edt(kind, size, expected);
            assert_memory_equal(got, expected, (size_t)(size * size) * sizeof *got);
        }
}

// Seven sweeps find the same distances up to 7 px but for the corners that propagation cuts, and
// leave 8 px beyond.
static void sweeps_come_close_to_the_exact_one(void **unused)
{
    (void)unused;
    uint8_t kind[64 * 64];
    int16_t exact[64 * 64], swept[64 * 64];
    int n = 0, n_off = 0, worst = 0;
    for (int i = 0; i < 20; i++) {
        random_kinds(64, 5, kind);
        search_edt(kind, 64, exact);
        search_edt_sweeps(kind, 64, 7, swept);
        for (int k = 0; k < 64 * 64; k++) {
            int off = abs(exact[k] - swept[k]);
            n++;
            n_off += off > 1;
            worst = off > worst ? off : worst;
        }
    }
    print_message("seven sweeps: %.3f %% of the pixels differ, by at most %.2f px\n",
                  100.0 * n_off / n, (double)worst / SEARCH_UNIT);
    assert_true(n_off * 100 < n);
    assert_true(worst <= SEARCH_UNIT);
}

// z of the nearest triangle under a point, in double; NaN: none. `clear` false: an edge is so near
// that rounding may decide.
static double cast_ray(const double (*corners)[3], const uint32_t *triangles, uint32_t n, double x,
                       double y, bool *clear)
{
    double nearest = NAN;
    *clear = true;
    for (uint32_t i = 0; i < n; i++) {
        const double *a = corners[triangles[3 * i]], *b = corners[triangles[3 * i + 1]],
                     *c = corners[triangles[3 * i + 2]];
        double area = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
        double wb = ((x - a[0]) * (c[1] - a[1]) - (y - a[1]) * (c[0] - a[0])) / area;
        double wc = ((y - a[1]) * (b[0] - a[0]) - (x - a[0]) * (b[1] - a[1])) / area;
        double least = fmin(fmin(wb, wc), 1 - wb - wc);
        // Corners are snapped to 1/256 px: a share of 1/128 px of the triangle's height is unclear.
        double height =
            fabs(area) / (hypot(b[0] - a[0], b[1] - a[1]) + hypot(c[0] - a[0], c[1] - a[1]) +
                          hypot(c[0] - b[0], c[1] - b[1]));
        if (fabs(least) < 0.02 / height)
            *clear = false;
        if (!(least >= 0))
            continue;
        double z = a[2] + wb * (b[2] - a[2]) + wc * (c[2] - a[2]);
        nearest = nearest < z ? nearest : z;
    }
    return nearest;
}

static void rasteriser_is_the_ray_caster(void **unused)
{
    (void)unused;
    struct testscene_mesh mesh;
    assert_int_equal(testscene_mesh_make(TESTSCENE_OBJECT_DUCK, &mesh), 0);
    struct search *search = NULL;
    struct search_settings settings;
    search_settings_default(&settings);
    settings.backend = GPU_BACKEND_CPU;
    assert_int_equal(search_open(&search, &settings), 0);
    struct search_mesh borrowed = {mesh.vertices_m, mesh.triangles, mesh.n_vertices,
                                   mesh.n_triangles};
    struct search_object_settings object_settings;
    search_object_settings_default(&object_settings);
    object_settings.n_views = 64;
    struct search_object *object = NULL;
    assert_int_equal(search_object_create(search, &borrowed, &object_settings, &object), 0);

    struct search_map *map = malloc(sizeof *map);
    double(*corners)[3] = malloc(object->n_vertices * sizeof *corners);
    int n_clear = 0, n_wrong = 0;
    for (uint32_t view = 0; view < 64; view += 21) {
        const float *r = object->views[view].rotation;
        assert_int_equal(search->ops->maps(search->device, object, r, 1, map), 0);
        for (uint32_t i = 0; i < object->n_vertices; i++)
            for (int k = 0; k < 3; k++)
                corners[i][k] = (double)r[3 * k] * (double)object->x[i] +
                                (double)r[3 * k + 1] * (double)object->y[i] +
                                (double)r[3 * k + 2] * (double)object->z[i] +
                                (k < 2 ? (double)SEARCH_CENTRE_PX : 0);
        for (int i = 0; i < SEARCH_MAP_PX * SEARCH_MAP_PX; i++) {
            bool clear;
            double z = cast_ray((const double(*)[3])corners, object->triangles, object->n_triangles,
                                i % SEARCH_MAP_PX, i / SEARCH_MAP_PX, &clear);
            if (isnan(z)) {
                n_wrong += clear && map->z[i] != SEARCH_Z_NONE;
            } else if (clear) {
                n_clear++;
                n_wrong += !(fabs((double)map->z[i] / SEARCH_UNIT - z) < 0.05);
            }
        }
    }
    print_message("%d clear foreground pixels\n", n_clear);
    assert_true(n_clear > 300);
    assert_int_equal(n_wrong, 0);
    free(map);
    free(corners);
    search_object_destroy(search, &object);
    search_close(&search);
    testscene_mesh_free(&mesh);
}

// Two triangles that share an edge leave no crack, whatever the order of their corners.
static void neighbours_leave_no_crack(void **unused)
{
    (void)unused;
    for (int round = 0; round < 2000; round++) {
        struct raster_point at[4];
        float value[4] = {1, 1, 1, 1};
        // A convex quadrilateral around pixel centres, split along a diagonal.
        for (int k = 0; k < 4; k++) {
            double angle = (k + 0.8 * (next_random() % 1000) / 1000.0) * M_PI / 2;
            at[k].x = raster_snap((float)(16 + 11 * cos(angle)));
            at[k].y = raster_snap((float)(16 + 11 * sin(angle)));
        }
        uint32_t halves[6] = {0, 1, 2, 2, 3, 0};
        if (round % 2) {
            halves[3] = 3;
            halves[4] = 2;
        }
        float drawn[32 * 32];
        for (int i = 0; i < 32 * 32; i++)
            drawn[i] = INFINITY;
        struct raster_mesh mesh = {at, value, halves, 2};
        raster_draw(&mesh, 32, 32, drawn, NULL);
        // Each pixel on the diagonal is inside of the quadrilateral, so it must be drawn.
        for (int v = 0; v < 32; v++)
            for (int u = 0; u < 32; u++) {
                bool inside = true;
                for (int k = 0; k < 4; k++) {
                    int j = (k + 1) % 4;
                    int64_t side = (int64_t)(at[j].x - at[k].x) * (v * RASTER_SUB - at[k].y) -
                                   (int64_t)(at[j].y - at[k].y) * (u * RASTER_SUB - at[k].x);
                    inside = inside && side >= 0;
                }
                assert_int_equal(inside, drawn[v * 32 + u] < INFINITY);
            }
    }
}

static void nearest_pixel_is_in_the_image(void **unused)
{
    (void)unused;
    for (int32_t size = 1; size <= 8192; size++) {
        assert_int_equal(search_nearest_pixel(nextafterf((float)size - 0.5f, 0), size), size - 1);
        assert_int_equal(search_nearest_pixel(nextafterf(-0.5f, 0), size), 0);
        assert_int_equal(search_nearest_pixel((float)(size / 2), size), size / 2);
    }
}

static void bad_corners_draw_nothing(void **unused)
{
    (void)unused;
    const float bad[] = {NAN, INFINITY, -INFINITY, 1e9f, -1e9f};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct raster_corner a = {raster_snap(1), raster_snap(1), 0};
        struct raster_corner b = {raster_snap(9), raster_snap(1), 0};
        struct raster_corner c = {raster_snap(bad[i]), raster_snap(9), 0};
        struct raster_triangle t;
        assert_int_equal(raster_setup(&a, &b, &c, 16, 16, &t), 0);
    }
}

static int32_t around(int32_t middle, uint32_t reach)
{
    return middle + (int32_t)(next_random() % (2 * reach + 1)) - (int32_t)reach;
}

// To the nearest, halves to even, as lrintf.
static void corners_are_rounded(void **unused)
{
    (void)unused;
    for (int i = 0; i < 1000000; i++) {
        // Halves of a step, and anything up to the limit.
        const float scaled =
            i % 2 == 0 ? (float)around(0, 20000) / 2
                       : (float)around(0, RASTER_LIMIT - 1) + (float)(next_random() % 64) / 64;
        const float px = scaled / RASTER_SUB;
        if (scaled > -RASTER_LIMIT && scaled < RASTER_LIMIT)
            assert_int_equal(raster_snap(px), lrintf(scaled));
    }
}

// Triangle by triangle, pixel by pixel.
static void draw_plainly(const struct raster_mesh *mesh, int size, float *value, uint32_t *index)
{
    for (uint32_t i = 0; i < mesh->n_triangles; i++) {
        struct raster_corner c[3];
        struct raster_triangle t;
        for (int k = 0; k < 3; k++) {
            const uint32_t vertex = mesh->triangles[3 * i + (uint32_t)k];
            c[k] = (struct raster_corner){mesh->corners[vertex].x, mesh->corners[vertex].y,
                                          mesh->value[vertex]};
        }
        if (!raster_setup(&c[0], &c[1], &c[2], size, size, &t))
            continue;
        for (int v = 0; v < size; v++)
            for (int u = 0; u < size; u++) {
                float here;
                if (raster_value(&t, u, v, &here) && here < value[v * size + u]) {
                    value[v * size + u] = here;
                    index[v * size + u] = i;
                }
            }
    }
}

// Few values, so that many are equal: the first triangle keeps the pixel.
static void blocks_draw_as_one_by_one_does(void **unused)
{
    (void)unused;
    enum { N = 24, MOST = 200 };
    static const uint32_t counts[] = {0, 1, 63, 64, 65, 128, 130, MOST};
    struct raster_point corners[3 * MOST];
    float value[3 * MOST];
    uint32_t triangles[3 * MOST];
    for (size_t round = 0; round < 100 * sizeof counts / sizeof *counts; round++) {
        for (uint32_t i = 0; i < 3 * MOST; i++) {
            const uint32_t reach = i / 3 % 3 == 0 ? 8 * RASTER_SUB : RASTER_SUB;
            corners[i] = i % 3 == 0 ? (struct raster_point){around(N / 2 * RASTER_SUB, 4096),
                                                            around(N / 2 * RASTER_SUB, 4096)}
                                    : (struct raster_point){around(corners[i - i % 3].x, reach),
                                                            around(corners[i - i % 3].y, reach)};
            value[i] = (float)(next_random() % 3);
            triangles[i] = i;
        }
        const struct raster_mesh mesh = {corners, value, triangles,
                                         counts[round % (sizeof counts / sizeof *counts)]};
        float drawn[N * N], plain[N * N];
        uint32_t index[N * N] = {0}, plain_index[N * N] = {0};
        for (int i = 0; i < N * N; i++)
            drawn[i] = plain[i] = INFINITY;
        raster_draw(&mesh, N, N, drawn, index);
        draw_plainly(&mesh, N, plain, plain_index);
        assert_memory_equal(drawn, plain, sizeof plain);
        assert_memory_equal(index, plain_index, sizeof plain_index);
    }
}

// raster_draw passes over triangles by raster_may_cover: over none that covers a pixel, and of the
// small ones within one pixel over each that does not.
static void passed_over_are_those_that_cover_nothing(void **unused)
{
    (void)unused;
    enum { N = 16 };
    uint32_t n_passed = 0, n_within = 0, n_drawn = 0;
    for (int round = 0; round < 200000; round++) {
        // From a fraction of a pixel to far beyond the grid; some without an area.
        const uint32_t reach = 1u << next_random() % 22;
        const int32_t u = around(N / 2 * RASTER_SUB, N / 2 * RASTER_SUB + 300),
                      v = around(N / 2 * RASTER_SUB, N / 2 * RASTER_SUB + 300);
        struct raster_point at[3];
        for (int k = 0; k < 3; k++)
            at[k] = (struct raster_point){around(u, reach), around(v, reach)};
        if (round % 4 == 0) // over a corner of the grid, from far outside
            at[0] = (struct raster_point){around(0, 128), around(0, 128)};
        for (int k = 1; k < 3 && round % 4 == 0; k++)
            at[k] = (struct raster_point){-(int32_t)(next_random() % reach),
                                          -(int32_t)(next_random() % reach)};
        if (round % 16 == 0)
            at[next_random() % 3] = at[next_random() % 3];
        if (round % 64 == 0)
            at[next_random() % 3].x = RASTER_LIMIT;
        const struct raster_corner a = {at[0].x, at[0].y, 0}, b = {at[1].x, at[1].y, 0},
                                   c = {at[2].x, at[2].y, 0};
        struct raster_triangle t = {0};
        int n_px = 0;
        float value;
        const bool set_up = raster_setup(&a, &b, &c, N, N, &t);
        for (int y = 0; y < N && set_up; y++)
            for (int x = 0; x < N; x++)
                n_px += raster_value(&t, x, y, &value);
        const struct raster_span across = raster_span_of(a.x, b.x, c.x, N),
                                 down = raster_span_of(a.y, b.y, c.y, N);
        const bool may = raster_may_cover(at[0], at[1], at[2], across, down);
        const bool within =
            across.first == across.last && down.first == down.last && reach <= 16 * RASTER_SUB;
        assert_true(may || n_px == 0);
        if (within)
            assert_int_equal(may, n_px > 0);
        n_passed += !may;
        n_within += within;
        n_drawn += n_px > 0;
    }
    print_message("%u passed over, %u within a pixel, %u drawn\n", n_passed, n_within, n_drawn);
    assert_true(n_passed > 5000 && n_within > 3000 && n_drawn > 5000);
}

// Every rotation has a near one among the views; none is left out by more than the covering radius
// of an even spread.
static void rotations_are_spread_evenly(void **unused)
{
    (void)unused;
    enum { N = 1024 };
    float rotations[N][9];
    for (uint32_t i = 0; i < N; i++)
        search_rotation(i, N, rotations[i]);
    double worst = 0, sum = 0;
    for (uint32_t i = 0; i < 500; i++) {
        float any[9];
        search_rotation(i, 500, any);
        double nearest = 4;
        for (uint32_t k = 0; k < N; k++)
            nearest = fmin(nearest, search_rotation_angle(any, rotations[k]));
        worst = fmax(worst, nearest);
        sum += nearest / 500;
    }
    print_message("1,024 views: nearest one %.1f degrees away in the mean, %.1f at worst\n",
                  sum * 180 / M_PI, worst * 180 / M_PI);
    // A ball of a 1024th of SO(3) has a radius of 15.1 degrees, its points lie 11.3 from the
    // middle.
    assert_true(sum < 0.225);
    assert_true(worst < 0.36);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edt_is_the_brute_force_one),
        cmocka_unit_test(sweeps_come_close_to_the_exact_one),
        cmocka_unit_test(rasteriser_is_the_ray_caster),
        cmocka_unit_test(neighbours_leave_no_crack),
        cmocka_unit_test(nearest_pixel_is_in_the_image),
        cmocka_unit_test(bad_corners_draw_nothing),
        cmocka_unit_test(corners_are_rounded),
        cmocka_unit_test(blocks_draw_as_one_by_one_does),
        cmocka_unit_test(passed_over_are_those_that_cover_nothing),
        cmocka_unit_test(rotations_are_spread_evenly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

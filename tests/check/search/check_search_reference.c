// SPDX-License-Identifier: Apache-2.0
// The pose search's geometry against references that share no formula with it (reference.h): frame,
// edges, Germann's error, simplex, triangles, coarse pass; poses: check_pose_reference.c. The same
// through the operations of both twins: check_search_stages.c.
//
// Decisions (which pixel, which side of a limit) are compared where they do not hang on the last
// digits of a float; what is left out so is counted and bounded.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/search/kernels/coarse.h"
#include "gpu/search/kernels/depth_edges.h"
#include "gpu/search/kernels/germann_error.h"
#include "gpu/search/kernels/hypothesis_counts.h"
#include "gpu/search/kernels/near_symmetry.h"
#include "gpu/search/kernels/raster.h"
#include "gpu/search/kernels/same_pose.h"
#include "gpu/search/kernels/simplex.h"
#include "gpu/search/kernels/start_points.h"
#include "tests/check/check.h"
#include "tests/check/search/reference.h"

static const struct check_limit limits[] = {
    {"float", 2e-6, 2e-6, "a dozen float operations"},
    {"metres", 2e-6, 0, "coordinates of a metre in float"},
    {"fixed", 0.51, 0, "one rounding to 1/64 px"},
    {"simplex", 2e-3, 1e-4, "15 iterations of float vertices on a smooth function"},
};
enum { LIMIT_FLOAT, LIMIT_METRES, LIMIT_FIXED, LIMIT_SIMPLEX };

static const struct search_camera camera = {580, -570, 311.5f, 245.25f, 640, 480};
static const struct reference_camera plain = {580, -570, 311.5, 245.25, 640, 480};

static void close_to(int limit, double got, double expected, const char *name)
{
    check_close(&limits[limit], got, expected, fabs(expected), name);
}

// ---- Formulas

static void check_map(void)
{
    check_case("pairs of depth and distance");
    static const int values[] = {-32768, -30000, -512, -1, 0, 1, 512, 30000, 32767};
    for (int i = 0; i < 9; i++)
        for (int k = 0; k < 9; k++) {
            const uint32_t pair = search_pair(values[i], values[k]);
            check_that(search_pair_z(pair) == values[i], "z %d", values[i]);
            check_that(search_pair_edt(pair) == values[k], "edt %d", values[k]);
        }
}

static void check_edges(void)
{
    check_case("edges");
    // 4 % of 64 px are 2.56 px: 163.84 steps of 1/64.
    for (int k = 0; k < 4; k++) {
        int around[4] = {100, 100, 100, 100};
        around[k] = 100 + 163;
        check_that(search_kind(100, around[0], around[1], around[2], around[3]) == 1, "163");
        around[k] = 100 + 164;
        check_that(search_kind(100, around[0], around[1], around[2], around[3]) == 2, "164");
        around[k] = -5000; // something in front is no edge of this
        check_that(search_kind(100, around[0], around[1], around[2], around[3]) == 1, "in front");
        around[k] = SEARCH_Z_NONE;
        check_that(search_kind(100, around[0], around[1], around[2], around[3]) == 2, "none");
        check_that(search_kind(SEARCH_Z_NONE, around[0], around[1], around[2], around[3]) == 0,
                   "background");
    }
    for (int i = 0; i <= 200; i++) {
        const double px = fmin(sqrt(i), 8);
        check_that(search_edt_distance(i) == (int)floor(px * 64 + 0.5), "distance of %d", i);
        check_that(search_edt_sign(i, 0) == -i && search_edt_sign(i, 1) == i &&
                       search_edt_sign(i, 2) == i,
                   "sign");
    }
    for (int i = 0; i < 2000; i++) {
        int16_t p[9], sorted[9];
        for (int k = 0; k < 9; k++) {
            const int16_t value = (int16_t)(check_random() % 12);
            int at = k;
            p[k] = value;
            for (; at > 0 && sorted[at - 1] > value; at--)
                sorted[at] = sorted[at - 1];
            sorted[at] = value;
        }
        check_that(search_median9(p) == sorted[4], "median");
    }
}

static void check_error_formula(void)
{
    check_case("error");
    for (int i = 0; i < 300; i++) {
        struct search_sums sums = {0, 0, 0};
        double cover = 0, range = 0;
        int n_cover = 0, n_range = 0;
        for (int k = 0; k < 40; k++) {
            const int input_z = (int)check_uniform(-2000, 2000), z = (int)check_uniform(-500, 500);
            const int map_z = (int)check_uniform(-2000, 2000);
            const int input = (int)check_uniform(-512, 512), map = (int)check_uniform(-200, 512);
            search_error_pixel(search_pair(input_z, input), search_pair(map_z, map), z, &sums);
            if (map < 0)
                continue;
            n_cover++;
            cover += abs(input - map) / 64.0;
            if (input < 0)
                continue;
            n_range++;
            range += abs(input_z - map_z - z) / 64.0;
        }
        close_to(LIMIT_FLOAT, (double)search_error_value(&sums, n_cover),
                 cover / n_cover + 3.125 * range / n_range, "error");
    }
    // At the limits of "over the object".
    struct search_sums sums = {0, 0, 0};
    search_error_pixel(search_pair(10, 0), search_pair(10, 0), 0, &sums);
    check_that(sums.n_range == 1 && sums.cover == 0, "an edge is of the object");
    search_error_pixel(search_pair(10, -1), search_pair(10, 5), 0, &sums);
    check_that(sums.n_range == 1 && sums.cover == 6, "beside it only the cover counts");
    const struct search_sums none = {100, 0, 0};
    check_that(search_error_value(&none, 3) >= 1e9f, "nothing in common");
    close_to(LIMIT_FLOAT, (double)SEARCH_LAMBDA, 10 / 3.2, "lambda");
    for (int i = 0; i < 400; i++) {
        const double px = check_uniform(-20, 90), z = check_uniform(-600, 600);
        const int shift = (int)fmin(fmax(floor(px + 0.5), 0), 64);
        const double fixed = fmin(fmax(z * 64, -30000), 30000);
        check_that(search_shift((float)px) == shift, "shift of %g", px);
        check_close(&limits[LIMIT_FIXED], search_depth_shift((float)z), fixed, 0, "depth shift");
        check_close(&limits[LIMIT_FIXED], search_depth_fixed((float)z), z * 64, 0, "depth");
    }
    check_that(search_depth_shift(1000) == 30000 && search_depth_shift(-1000) == -30000, "cut");
    check_that(search_depth_fixed(-0.5f / 64) == -1 && search_depth_fixed(0.5f / 64) == 1 &&
                   search_depth_shift(-0.5f / 64) == -1 && search_depth_shift(0.5f / 64) == 1 &&
                   search_depth_fixed(-0.497f / 64) == 0 && search_depth_shift(0.497f / 64) == 0,
               "halves away from 0");
}

struct bowl {
    double middle[3], bend, ripple;
};

static double bowl_at(void *context, const double at[3])
{
    const struct bowl *b = context;
    const double x = at[0] - b->middle[0], y = at[1] - b->middle[1], z = at[2] - b->middle[2];
    return x * x + 0.6 * y * y + 0.9 * z * z + 0.3 * x * y - 0.2 * y * z + b->bend * x * x * y +
           3 * fabs(b->bend * z) + b->ripple * sin(1.7 * x + 0.4) * cos(1.1 * y) * cos(1.3 * z);
}

static void check_simplex(void)
{
    check_case("simplex");
    for (int i = 0; i < 400; i++) {
        // Every other one is rough, so that no step helps and the simplex shrinks.
        struct bowl bowl = {{check_uniform(-9, 9), check_uniform(-9, 9), check_uniform(-9, 9)},
                            i % 2 ? 0 : check_uniform(-0.2, 0.2),
                            i % 4 < 2 ? 0 : check_uniform(5, 60)};
        const double start[3] = {i % 7, -(i % 5), 0.5};
        const int n = i % 17;
        struct simplex s;
        double expected[4];
        int n_asked = 0;
        simplex_begin(&s, (float)start[0], (float)start[1], (float)start[2], n);
        while (s.phase != SIMPLEX_PHASE_DONE && n_asked++ < 1000) {
            const double at[3] = {(double)s.trial.x, (double)s.trial.y, (double)s.trial.z};
            simplex_tell(&s, (float)bowl_at(&bowl, at));
        }
        reference_simplex(bowl_at, &bowl, start, 3.2, n, expected);
        close_to(LIMIT_SIMPLEX, (double)s.v0.x, expected[0], "x");
        close_to(LIMIT_SIMPLEX, (double)s.v0.y, expected[1], "y");
        close_to(LIMIT_SIMPLEX, (double)s.v0.z, expected[2], "z");
        close_to(LIMIT_SIMPLEX, (double)s.v0.error, expected[3], "error");
    }
    close_to(LIMIT_FLOAT, (double)SIMPLEX_STEP_PX, 3.2, "5 % of the width");
}

static void check_frames(void)
{
    check_case("frames");
    float *z_m = malloc(640 * 480 * sizeof *z_m);
    for (int i = 0; i < 640 * 480; i++) {
        const double u = i % 640, v = i / 640;
        z_m[i] = (float)(0.8 + 0.1 * sin(u / 40) + 0.05 * cos(v / 30) + 0.0003 * u);
        z_m[i] = i % 97 == 0 ? 0 : u > 500 ? -z_m[i] : z_m[i];
    }
    int n_left = 0, n_seen[3] = {0};
    for (int i = 0; i < 4000; i++) {
        const double point[3] = {check_uniform(-0.35, 0.35), check_uniform(-0.25, 0.25),
                                 check_uniform(0.6, 1.1)};
        const float ray[3] = {(float)point[0], (float)point[1], (float)point[2]};
        double r[9], start[3], margin = 1, z = 0;
        float rotation[9], start_m[3], got = 0;
        reference_look_along(point, r);
        search_frame_rotation(ray, rotation);
        for (int k = 0; k < 9; k++)
            close_to(LIMIT_FLOAT, (double)rotation[k], r[k], "look along");
        reference_turn(r, point, start);
        search_turn(rotation, ray, start_m);
        struct search_frame frame;
        search_start_frame(ray, 0.003f, &frame);
        for (int k = 0; k < 3; k++) {
            close_to(LIMIT_METRES, (double)frame.start_m[k], start[k], "start");
            check_that(frame.normal[k] == 0, "no normal");
        }
        check_that(frame.px_m == 0.003f, "pixel");
        const double x = check_uniform(-0.15, 0.15), y = check_uniform(-0.15, 0.15);
        const int expected = reference_sample(z_m, &plain, r, start, x, y, &z, &margin);
        const int seen =
            search_frame_sample(z_m, &camera, rotation, start_m, (float)x, (float)y, &got);
        if (margin < 1e-3) {
            n_left++;
            continue;
        }
        n_seen[expected]++;
        check_that(seen == expected, "seen %d, not %d", seen, expected);
        if (expected)
            check_close(&limits[LIMIT_METRES], (double)got, z, 0, "z of a cell");
        // The pixel alone.
        const double q[3] = {check_uniform(-0.7, 0.7), check_uniform(-0.6, 0.6),
                             check_uniform(-0.2, 1)};
        const float p[3] = {(float)q[0], (float)q[1], (float)q[2]};
        margin = 1;
        const int at = reference_pixel(&plain, q, &margin);
        if (margin > 1e-3)
            check_that(search_pixel_at(&camera, p) == at, "pixel %d", at);
    }
    check_that(n_left < 400, "%d left out", n_left);
    check_that(n_seen[0] > 100 && n_seen[1] > 1000 && n_seen[2] > 100, "all kinds");
    // The image's rim, to a hundredth of a pixel.
    static const double rims[][3] = {{-0.498, 200, 0}, {-0.502, 200, -1}, {639.498, 9, 0},
                                     {639.502, 9, -1}, {9, -0.498, 0},    {9, -0.502, -1},
                                     {9, 479.498, 0},  {9, 479.502, -1}};
    for (int i = 0; i < 8; i++) {
        const float z = 0.7f, p[3] = {(float)((rims[i][0] - 311.5) / 580 * 0.7),
                                      (float)((rims[i][1] - 245.25) / -570 * 0.7), z};
        const bool in = rims[i][2] == 0;
        check_that((search_pixel_at(&camera, p) >= 0) == in, "rim %d", i);
        const float identity[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
        check_that((search_frame_project(&camera, identity, p[0], p[1], p[2]).at >= 0) == in,
                   "rim %d of a frame", i);
    }
    for (int i = 0; i < 2; i++) { // 5 cm in front of the camera
        const float p[3] = {0, 0, i ? 0.0501f : 0.0499f}, identity[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
        check_that((search_pixel_at(&camera, p) >= 0) == i, "near");
        check_that((search_frame_project(&camera, identity, 0, 0, p[2]).at >= 0) == i, "near");
    }
    check_that(search_nearest_pixel(0.49999997f, 1) == 0, "rounding leads one too far");
    check_that(search_nearest_pixel(7.5f, 20) == 8 && search_nearest_pixel(7.49f, 20) == 7, "near");
    free(z_m);
}

static void check_coarse_formulas(void)
{
    check_case("coarse pass");
    for (int i = 0; i < 2000; i++) {
        int scene[16], model[16], ring[16], n_seen = 0, sum = 0, n_cells = 0;
        const int anchor = (int)check_uniform(-900, 900);
        for (int k = 0; k < 16; k++) {
            const bool cell = check_random() % 3 > 0;
            model[k] = cell ? (int)check_uniform(-1200, 1200) : 16000;
            ring[k] = cell ? 16000 : (int)check_uniform(-1200, 1200);
            // Around the limits of 4 px, exactly on them, unknown, far.
            const int base = (cell ? model[k] : ring[k]) - anchor;
            static const int offs[] = {-257, -256, -255, 255, 256, 257, 0, -30, 900, -900};
            scene[k] = check_random() % 8 == 0   ? -12000
                       : check_random() % 8 == 0 ? 12000
                                                 : base + offs[check_random() % 10];
            n_cells += cell;
            sum += search_coarse_cell(scene[k], model[k], ring[k], anchor, &n_seen);
        }
        check_that(search_coarse_score(sum, n_seen, n_cells) ==
                       reference_coarse_score(scene, model, ring, 16, anchor, n_cells),
                   "score");
    }
    // 0.82 of 127 is 104.14.
    for (int n = 100; n < 109; n++) {
        const int8_t anchor[4] = {0, 0, (int8_t)-n, 0}, tilted[4] = {(int8_t)n, 5, 0, 0};
        check_that(search_coarse_facing(0, 0, -1, anchor) == (n > 104), "facing %d", n);
        check_that(search_coarse_facing(1, 0, 0, tilted) == (n > 104), "facing %d", n);
        check_that(!search_coarse_facing(0, 0, 1, anchor), "away");
        check_that(search_coarse_facing(0, 0, 0, anchor), "unknown");
    }
    check_that(search_coarse_scene(0, 3) == -12000 && search_coarse_scene(2, 3) == 12000, "kinds");
    check_that(search_coarse_scene(1, 188) == 12000 && search_coarse_scene(1, -188) == -12000,
               "cut");
    check_that(search_coarse_scene(1, 187) == 11968 && search_coarse_scene(1, -187) == -11968,
               "px");
    check_that(search_coarse_scene(1, 1.5f / 64) == 2 && search_coarse_scene(1, -1.5f / 64) == -2 &&
                   search_coarse_scene(1, 1.497f / 64) == 1,
               "halves away from 0");
    check_that(search_coarse_score(8 * 40, 40, 40) == 320 * 1536 / 144, "forty that match");
    // So many hits at most, 8 to 48 of a start.
    check_that(search_keep_per_start(0) == 48 && search_keep_per_start(341) == 48 &&
                   search_keep_per_start(342) == 47 && search_keep_per_start(1000) == 16 &&
                   search_keep_per_start(1820) == 9 && search_keep_per_start(2100) == 8,
               "hits of a start");
    // What both twins hand on, stage by stage: other numbers are another search.
    check_that(SEARCH_HITS_MAX == 16384 && SEARCH_KEEP_LEAST == 8 && SEARCH_KEEP_MOST == 48 &&
                   SEARCH_SCREENED == 512 && SEARCH_DRAWN_MORE == 14 && SEARCH_POLISHED == 18 &&
                   SEARCH_DRAWN_ROUNDS == 2 && SEARCH_POLISHED_ROUNDS == 3 &&
                   SEARCH_TURNED_ROUNDS == 5 && SEARCH_NOT_SLID == 8 && SEARCH_SLIDE_WAYS == 4,
               "stages");
    check_that(SEARCH_START_STEP == 3 && SEARCH_STARTS_MAX == 1536 && SEARCH_START_TABLE == 4096,
               "starts");
    close_to(LIMIT_FLOAT, (double)SEARCH_START_CUBE, 0.22, "cube");
    close_to(LIMIT_FLOAT, (double)SEARCH_START_GROW, 1.2, "growth");
}

// ---- Triangles

static void check_raster(void)
{
    check_case("triangles");
    int n_covered = 0, n_triangles = 0, n_rejected = 0;
    for (int i = 0; i < 6000; i++) {
        enum { W = 24, H = 20 };
        // Large, small, smaller than a pixel, with corners on pixels, clipped to the grid's corner.
        static const double sizes[5] = {30, 3, 0.8, 6, 90};
        const double size = sizes[i % 5], grid = i % 5 == 3 ? 1 : 256;
        const double at[2] = {check_uniform(-4, 28) - (i % 5 == 4 ? 60 : 0),
                              check_uniform(-4, 24) - (i % 5 == 4 ? 60 : 0)};
        double corners[9], z[W * H];
        struct raster_corner c[3];
        struct raster_point p[3];
        static const uint32_t triangle[3] = {0, 1, 2};
        int index[W * H];
        for (int k = 0; k < 3; k++) {
            // On the grid of 1/256 px, so that both speak of the same triangle.
            for (int a = 0; a < 2; a++)
                corners[3 * k + a] = round((at[a] + check_uniform(-size, size)) * grid) / grid;
            corners[3 * k + 2] = (double)(float)check_uniform(-9, 9);
            c[k] = (struct raster_corner){raster_snap((float)corners[3 * k]),
                                          raster_snap((float)corners[3 * k + 1]),
                                          (float)corners[3 * k + 2]};
            p[k] = (struct raster_point){c[k].x, c[k].y};
            check_that(c[k].x == (int)lrint(corners[3 * k] * 256), "snapped");
        }
        reference_draw(corners, triangle, 1, W, H, z, index);
        struct raster_triangle t = {0};
        const int drawn = raster_setup(&c[0], &c[1], &c[2], W, H, &t);
        const int may =
            raster_may_cover(p[0], p[1], p[2], raster_span_of(p[0].x, p[1].x, p[2].x, W),
                             raster_span_of(p[0].y, p[1].y, p[2].y, H));
        bool any = false;
        const double area = fabs((corners[3] - corners[0]) * (corners[7] - corners[1]) -
                                 (corners[4] - corners[1]) * (corners[6] - corners[0]));
        for (int k = 0; k < W * H; k++) {
            const int u = k % W, v = k / W;
            float value = INFINITY;
            const bool in = drawn && u >= t.u0 && u <= t.u1 && v >= t.v0 && v <= t.v1 &&
                            raster_value(&t, u, v, &value);
            check_that(in == (index[k] == 0), "pixel %d %d", u, v);
            any = any || in;
            if (in && area > 0.5)
                check_that(fabs((double)value - z[k]) < 1e-4 * (10 + 900 / area),
                           "value %g, not %g", (double)value, z[k]);
            n_covered += in;
        }
        const struct raster_span su = raster_span_of(p[0].x, p[1].x, p[2].x, W);
        const struct raster_span sv = raster_span_of(p[0].y, p[1].y, p[2].y, H);
        if (size < 20 && su.first == su.last && sv.first == sv.last)
            check_that(may == any, "where it is one pixel the answer is exact");
        n_triangles++;
        n_rejected += !may;
        check_that(may || !any, "what covers a pixel is not rejected");
    }
    check_that(n_covered > 20000 && n_rejected > n_triangles / 5, "%d covered, %d rejected",
               n_covered, n_rejected);
    check_that(raster_snap(0.5f / 256 + 1e-4f / 256) == 1 && raster_snap(0.4f / 256) == 0,
               "nearest");
    check_that(raster_snap(16384) == RASTER_LIMIT && raster_snap(NAN) == RASTER_LIMIT &&
                   raster_snap(-16384) == RASTER_LIMIT && raster_snap(16383) == 16383 * 256,
               "what cannot be drawn");
    const struct raster_span none = raster_span_of(0, 256, RASTER_LIMIT, 9);
    check_that(none.last < none.first, "a corner that cannot be drawn");
}

static void check_triangle_normals(void)
{
    check_case("normals of triangles");
    for (int i = 0; i < 300; i++) {
        float ab[3], ac[3], r[9];
        double dr[9], dab[3], dac[3], n[3];
        int8_t got[3];
        reference_random_rotation(r, dr);
        for (int k = 0; k < 3; k++) {
            ab[k] = (float)(dab[k] = check_uniform(-3, 3));
            ac[k] = (float)(dac[k] = check_uniform(-3, 3));
        }
        reference_cross(dab, dac, n);
        reference_turn(dr, n, n);
        const double length = sqrt(reference_dot(n, n)) * (n[2] > 0 ? -1 : 1);
        search_normal(ab, ac, r, got);
        for (int k = 0; k < 3; k++)
            check_close(&limits[LIMIT_FIXED], got[k], 127 * n[k] / length, 0, "normal x 127");
    }
    const float none_ab[3] = {0, 0, 0}, r[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    int8_t got[3];
    search_normal(none_ab, none_ab, r, got);
    check_that(got[0] == 0 && got[1] == 0 && got[2] == 0, "no area, no normal");
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_map();
    check_edges();
    check_error_formula();
    check_simplex();
    check_frames();
    check_coarse_formulas();
    check_raster();
    check_triangle_normals();
    return check_end();
}

// SPDX-License-Identifier: Apache-2.0
// What the pose search reads from an image, against references that share no formula with it:
// depth, normals, planes larger than the object.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/search/kernels/normal.h"
#include "gpu/search/kernels/plane.h"
#include "tests/check/check.h"
#include "tests/check/search/reference.h"

static const struct check_limit limits[] = {
    {"float", 4e-6, 4e-6, "a dozen float operations"},
    {"normal", 3e-5, 0, "differences of depths in float, divided by a pixel"},
    {"plane", 2e-5, 1e-4, "a fit in double of floats"},
};
enum { LIMIT_FLOAT, LIMIT_NORMAL, LIMIT_PLANE };

#define WIDTH  160
#define HEIGHT 120

static const struct search_camera camera = {150, -140, 79.5f, 61.25f, WIDTH, HEIGHT};
static float z_m[WIDTH * (HEIGHT + 4)]; // and what lies behind the image

static void close_to(int limit, double got, double expected, const char *name)
{
    check_close(&limits[limit], got, expected, fabs(expected), name);
}

// ---- The image

static void check_depth(void)
{
    check_case("depth");
    check_that(search_depth_m(0, 1e-3f) == 0 && search_depth_m(65535, 1e-3f) == 0, "none");
    check_that(search_depth_m(99, 1e-3f) == 0 && search_depth_m(101, 1e-3f) == 101 * 1e-3f, "near");
    check_that(search_depth_m(9995, 1e-3f) > 0 && search_depth_m(10005, 1e-3f) == 0, "far");
    check_that(search_depth_m(65534, 1e-4f) == 65534 * 1e-4f, "tenths of a millimetre");
    check_that(search_depth_m(65535, 1e-4f) == 0, "none");
}

// A wavy scene with steps, holes and noise, alike at both sides.
static void make_image(double waves)
{
    for (int i = 0; i < WIDTH * (HEIGHT + 4); i++) {
        const double u = i % WIDTH, v = i / WIDTH;
        double z = 0.8 + waves * (0.06 * sin(u / 12.73) + 0.05 * cos(v / 9));
        z += (u > 100 && u < 140 ? 0.2 : 0) + 0.001 * check_gaussian();
        z_m[i] = check_random() % 40 == 0 || (u > 60 && u < 75 && v > 30 && v < 50) ? 0 : (float)z;
    }
}

static void compare_normals(const struct search_camera *c)
{
    const struct reference_camera wide = {(double)c->fx, (double)c->fy, (double)c->cx,
                                          (double)c->cy, WIDTH,         HEIGHT};
    int n = 0, n_left = 0, n_hidden = 0;
    for (int v = 0; v < HEIGHT; v++)
        for (int u = 0; u < WIDTH; u++) {
            float got[4];
            double expected[3] = {0}, margin = 1;
            search_normal_at(z_m, c, u, v, got);
            check_that(got[3] == z_m[v * WIDTH + u], "depth");
            if (got[3] == 0) {
                const double behind = reference_behind(z_m, WIDTH, u, v);
                check_that((double)got[0] == behind, "behind: %g, not %g", (double)got[0], behind);
                check_that(got[1] == 0 && got[2] == 0, "no normal");
                n_hidden += behind > 0;
                continue;
            }
            const bool there = reference_normal(z_m, &wide, u, v, expected, &margin);
            if (margin < 1e-6) {
                n_left++;
                continue;
            }
            n += there;
            for (int k = 0; k < 3; k++)
                close_to(LIMIT_NORMAL, (double)got[k], there ? expected[k] : 0, "normal");
        }
    check_that(n > 3000 && n_left < 100 && n_hidden > 100, "%d normals, %d left, %d hidden", n,
               n_left, n_hidden);
}

static void check_normals(void)
{
    check_case("normals");
    // v down and up, and so wide an angle that rays graze the waves.
    static const struct search_camera cameras[3] = {
        {150, -140, 79.5f, 61.25f, WIDTH, HEIGHT},
        {150, 140, 79.5f, 61.25f, WIDTH, HEIGHT},
        {30, 28, 79.5f, 61.25f, WIDTH, HEIGHT},
    };
    for (int i = 0; i < 3; i++) {
        make_image(i < 2 ? 1 : 1.5);
        compare_normals(&cameras[i]);
    }
    // A shadow reaches 64 pixels, to either side.
    for (int k = 0; k < WIDTH; k++)
        z_m[k] = k == 40 ? 0.9f : k == 130 ? 0.8f : 0;
    for (int u = 60; u < 110; u++)
        check_that(search_behind(z_m, &camera, u, 0) ==
                       (u - 40 <= 64 && 130 - u <= 64 ? 0.9f : 0.f),
                   "shadow at %d", u);
    // The step that still is one surface: 2 % of the depth and six sigmas.
    const double z = 0.8, step = 0.02 * z + 6 * reference_sigma(z);
    for (int side = 0; side < 4; side++)
        for (int over = 0; over < 2; over++) {
            float got[4];
            for (int i = 0; i < WIDTH * HEIGHT; i++)
                z_m[i] = (float)z;
            const int at = 50 * WIDTH + 50;
            z_m[at + (side == 0   ? 3
                      : side == 1 ? -3
                      : side == 2 ? 3 * WIDTH
                                  : -3 * WIDTH)] =
                (float)(z + (side % 2 ? -1 : 1) * step * (over ? 1.002 : 0.998));
            search_normal_at(z_m, &camera, 50, 50, got);
            check_that((got[2] == 0) == over, "step %d %d", side, over);
        }
}

// ---- Planes larger than the object

#define CELLS_U 40
#define CELLS_V 30

static float inverse[CELLS_U * CELLS_V];
static const struct search_planes planes = {
    {150, -140, 79.5f, 61.25f, WIDTH, HEIGHT}, 0.1f, inverse, CELLS_U, CELLS_V};

static double tolerance(double radius, double d)
{
    return 0.04 * radius * d * d + 2.5 * 0.00285;
}

static void check_plane_fits(void)
{
    check_case("planes");
    int n_fits = 0;
    for (int i = 0; i < 400; i++) {
        const double a = check_uniform(-0.02, 0.02), b = check_uniform(-0.02, 0.02);
        const double middle = check_uniform(0.9, 6);
        for (int k = 0; k < CELLS_U * CELLS_V; k++) {
            const double d = middle + a * (k % CELLS_U - 20) + b * (k / CELLS_U - 15);
            inverse[k] = check_random() % 7 == 0   ? 0
                         : check_random() % 9 == 0 ? (float)(d + check_uniform(-0.4, 0.4))
                                                   : (float)(d + 0.004 * check_gaussian());
        }
        const int u = (int)(check_random() % CELLS_U), v = (int)(check_random() % CELLS_V);
        const double centre = (double)inverse[v * CELLS_U + u];
        // A share of 0.4 of the radius around, in cells of 4 px, 2 to 6.
        const double reach = 0.4 * (double)planes.radius_m * 150 * centre / 4;
        const int r = reach < 2 ? 2 : reach > 6 ? 6 : (int)reach;
        double us[200], vs[200], ds[200], expected[3] = {0}, margin = 1;
        float got[3];
        int n = 0;
        for (int y = v - r; y <= v + r; y++)
            for (int x = u - r; x <= u + r; x++) {
                if (x < 0 || y < 0 || x >= CELLS_U || y >= CELLS_V)
                    continue;
                const double d = (double)inverse[y * CELLS_U + x];
                const double off = fabs(d - centre) - 8 * tolerance(0.1, centre);
                margin = d == 0 ? margin : fmin(margin, fabs(off));
                if (d == 0 || off > 0)
                    continue;
                us[n] = x - u;
                vs[n] = y - v;
                ds[n++] = d;
            }
        search_plane_fit(&planes, u, v, got);
        if (margin < 1e-6 || fabs(reach - r) < 1e-4)
            continue;
        const bool fits = centre > 0 && n >= 12 && reference_fit(us, vs, ds, n, expected);
        n_fits += fits;
        for (int k = 0; k < 3; k++)
            close_to(LIMIT_PLANE, (double)got[k], fits ? expected[k] : 0, "fit");
    }
    check_that(n_fits > 250, "%d fits", n_fits);
    // Twelve cells are enough, eleven not; nor are cells in a row.
    for (int few = 0; few < 3; few++) {
        float got[3];
        memset(inverse, 0, sizeof inverse);
        for (int k = 0; k < (few == 0 ? 12 : 11); k++)
            inverse[(14 + k / 4) * CELLS_U + 19 + k % 4] = 1.3f;
        for (int k = 0; k < 13 && few == 2; k++)
            inverse[(14 + k / 4) * CELLS_U + 19 + k % 4] = 0;
        for (int k = -6; k < 7 && few == 2; k++)
            inverse[15 * CELLS_U + 20 + k] = 1.3f;
        search_plane_fit(&planes, 20, 15, got);
        check_that((got[2] > 0) == (few == 0), "few %d: %g", few, (double)got[2]);
    }
    for (int i = 0; i < 100; i++) {
        const double d = check_uniform(0.2, 3), radius = check_uniform(0.02, 0.3);
        close_to(LIMIT_FLOAT, (double)search_plane_tolerance((float)radius, (float)d),
                 tolerance(radius, d), "tolerance");
        close_to(LIMIT_FLOAT, (double)search_plane_far_m((float)radius), 2.4 * radius, "too far");
    }
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        z_m[i] = (float)(i % WIDTH + 1) * 0.01f + (float)(i / WIDTH) * 0.1f;
    close_to(LIMIT_FLOAT, (double)search_plane_cell(z_m, WIDTH, 3, 5), 1 / (0.15 + 2.2), "cell");
    z_m[22 * WIDTH + 14] = 0;
    check_that(search_plane_cell(z_m, WIDTH, 3, 5) == 0, "no depth");
}

// How far the plane goes on, by the words of plane.h: on it, off it (four misses end the walk), or
// behind what stands on it, as long as that is not three cells more than was seen.
static double walk(const double fit[3], int u, int v, int du, int dv, double most)
{
    double reached = 0;
    int misses = 0, n_on = 0, n_behind = 0;
    for (int k = 1; misses <= 3 && reached < most; k++) {
        const int x = u + k * du, y = v + k * dv;
        if (x < 0 || y < 0 || x >= CELLS_U || y >= CELLS_V)
            break;
        const double d = fit[2] + k * (fit[0] * du + fit[1] * dv);
        const double there = (double)inverse[y * CELLS_U + x];
        if (there != 0 && fabs(there - d) < tolerance(0.1, d)) {
            const double p[3] = {(4 * x - 79.5) / 150 / d, (4 * y - 61.25) / -140 / d, 1 / d};
            const double o[3] = {(4 * u - 79.5) / 150 / fit[2], (4 * v - 61.25) / -140 / fit[2],
                                 1 / fit[2]};
            const double way[3] = {p[0] - o[0], p[1] - o[1], p[2] - o[2]};
            reached = sqrt(reference_dot(way, way));
            misses = 0;
            n_on++;
        } else if (there > d && n_behind < n_on + 3) {
            n_behind++;
        } else {
            misses++;
        }
    }
    return reached;
}

static void check_plane_walks(void)
{
    static const int lines[4][2] = {{1, 0}, {0, 1}, {1, 1}, {1, -1}};
    check_case("walks over planes");
    for (int i = 0; i < 600; i++) {
        const double fit[3] = {check_uniform(-0.01, 0.01), check_uniform(-0.01, 0.01),
                               check_uniform(0.9, 1.6)};
        float narrowed[3];
        const int u = 4 + i % 32, v = 4 + i % 22;
        reference_narrow(fit, 3, narrowed);
        for (int k = 0; k < CELLS_U * CELLS_V; k++) {
            const double d = fit[2] + fit[0] * (k % CELLS_U - u) + fit[1] * (k / CELLS_U - v);
            const double t = tolerance(0.1, d);
            static const double offs[] = {0, 0.5, -0.5, 0.97, -0.97, 1.03, -1.03, 6, -6};
            const uint32_t pick = check_random() % (i % 3 == 0 ? 9 : i % 3 == 1 ? 30 : 14);
            inverse[k] = (float)(d + (pick < 9 ? offs[pick] : pick == 10 ? 8 : 0) * t);
            inverse[k] = pick == 11 ? 0 : inverse[k];
        }
        for (int line = 0; line < 4; line++)
            for (int back = 0; back < 2; back++) {
                const int du = lines[line][0] * (back ? -1 : 1);
                const int dv = lines[line][1] * (back ? -1 : 1);
                const double expected = walk(fit, u, v, du, dv, 0.24);
                const double got = (double)search_plane_along(&planes, narrowed, u, v, line, back);
                check_close(&limits[LIMIT_PLANE], got, expected, 1, "reach");
            }
        // A pixel of the cell, counted from its middle.
        for (int k = 0; k < 16; k++) {
            const double d = fit[2] + fit[0] * (k % 4 - 2) / 4 + fit[1] * (k / 4 - 2) / 4;
            const double there = d + (k % 2 ? 0.98 : 1.02) * tolerance(0.1, d) * (k % 3 ? 1 : -1);
            const float z = (float)(1 / there);
            check_that(search_plane_mark(&planes, narrowed, k % 4, k / 4, z) == (k % 2 ? -z : z),
                       "mark %d", k);
        }
        check_that(search_plane_mark(&planes, narrowed, 0, 0, 0) == 0, "nothing to mark");
    }
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_depth();
    check_normals();
    check_plane_fits();
    check_plane_walks();
    return check_end();
}

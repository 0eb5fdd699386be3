// SPDX-License-Identifier: Apache-2.0
// How the pose search refines, against references that share no formula with it: the drawn model,
// ICP's rows, steps and schedules. What it reads from an image: check_image_reference.c.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/search/kernels/draw.h"
#include "gpu/search/kernels/icp.h"
#include "gpu/search/kernels/slide.h"
#include "tests/check/check.h"
#include "tests/check/search/reference.h"

static const struct check_limit limits[] = {
    {"float", 4e-6, 4e-6, "a dozen float operations"},
    {"normal", 3e-5, 0, "differences of depths in float, divided by a pixel"},
    {"sum", 2e-5, 1e-5, "float products cut to 2^-19"},
    {"step", 2e-6, 2e-5, "a 6x6 in float, its condition up to 50"},
};
enum { LIMIT_FLOAT, LIMIT_NORMAL, LIMIT_SUM, LIMIT_STEP };

#define WIDTH  160
#define HEIGHT 120

static const struct search_camera camera = {150, -140, 79.5f, 61.25f, WIDTH, HEIGHT};
static const struct reference_camera plain = {150, -140, 79.5, 61.25, WIDTH, HEIGHT};

static void close_to(int limit, double got, double expected, const char *name)
{
    check_close(&limits[limit], got, expected, fabs(expected), name);
}

// ---- The drawn model

// The rectangle of a sphere in the image: its nearest circle, from the middle as seen there and
// from its own depth. Returns how many of its points the image shows; all of them are inside.
static int check_rectangle(const double t[3], double radius)
{
    const float t_m[3] = {(float)t[0], (float)t[1], (float)t[2]};
    int n_inside = 0;
    const struct search_rectangle at = search_rectangle_of(&camera, (float)radius, t_m);
    const double z = fmax(t[2] - radius, 0.05);
    double ends[2][2];
    for (int a = 0; a < 2; a++) {
        const double f = a ? plain.fy : plain.fx, c = a ? plain.cy : plain.cx;
        const double one = f * t[a] / z + c, other = f * t[a] / t[2] + c;
        const double size = a ? HEIGHT : WIDTH, r = fabs(f) * radius / z + 6;
        ends[a][0] = floor(fmin(fmax(fmin(one, other) - r, 0), size));
        ends[a][1] = fmax(one, other) + r;
        ends[a][1] = ends[a][1] < size ? floor(fmax(ends[a][1], 0)) : size;
    }
    check_that(abs(at.u0 - (int)ends[0][0]) <= 0 && abs(at.v0 - (int)ends[1][0]) <= 0, "corner");
    check_that(at.width == (int)fmax(ends[0][1] - ends[0][0], 0) &&
                   at.height == (int)fmax(ends[1][1] - ends[1][0], 0),
               "size %d x %d", at.width, at.height);
    // All of the sphere that the image shows is inside.
    for (int k = 0; k < 20; k++) {
        double d[3];
        check_direction(d);
        for (int a = 0; a < 3; a++)
            d[a] = t[a] + radius * d[a];
        const int pixel = reference_pixel(&plain, d, NULL);
        if (pixel < 0)
            continue;
        const int u = pixel % WIDTH, v = pixel / WIDTH;
        n_inside++;
        check_that(u >= at.u0 && v >= at.v0 && u < at.u0 + at.width && v < at.v0 + at.height,
                   "inside");
    }
    return n_inside;
}

// A corner, to 1/256 px; what is behind the camera is not drawn. `near_m` not 0: moved to the
// camera's axis, so far behind the plane that divides what is drawn from what is not.
static void check_corner(const double r[9], const double translation[3], double near_m)
{
    float scaled[9], value;
    int32_t x, y;
    const double px = 0.004, p[3] = {check_uniform(-25, 25), check_uniform(-25, 25), 3};
    double t[3] = {translation[0], translation[1], translation[2]};
    for (int k = 0; k < 9; k++)
        scaled[k] = (float)(r[k] * px);
    double q[3];
    reference_turn(r, p, q);
    for (int k = 0; k < 3 && near_m != 0; k++)
        t[k] = (k == 2 ? 0.05 + near_m : 0.002) - q[k] * px;
    for (int k = 0; k < 3; k++)
        q[k] = q[k] * px + t[k];
    const float t_m[3] = {(float)t[0], (float)t[1], (float)t[2]};
    search_draw_corner(&camera, 40, 30, scaled, t_m, (float)p[0], (float)p[1], (float)p[2], &x, &y,
                       &value);
    if (fabs(q[2] - 0.05) < 1e-4)
        return;
    const double eu = (plain.fx * q[0] / q[2] + 40) * 256, ev = (plain.fy * q[1] / q[2] + 30) * 256;
    check_that(q[2] > 0.05 ? fabs(x - eu) < 0.6 && fabs(y - ev) < 0.6
                           : x == RASTER_LIMIT && y == RASTER_LIMIT,
               "corner %d %d", x, y);
    close_to(LIMIT_FLOAT, (double)value * q[2], -1, "-1/z");
}

// Normals towards the camera, points in the model's frame.
static void check_drawn_point(const double r[9], const double t[3])
{
    float a[3], b[3], c[3], rotation[9], n[3];
    double ab[3], ac[3], en[3];
    struct search_candidate candidate = {.t_m = {(float)t[0], (float)t[1], (float)t[2]}};
    for (int k = 0; k < 3; k++) {
        a[k] = (float)check_uniform(-1, 1);
        ab[k] = (double)((b[k] = (float)check_uniform(-1, 1)) - a[k]);
        ac[k] = (double)((c[k] = (float)check_uniform(-1, 1)) - a[k]);
    }
    reference_narrow(r, 9, rotation);
    reference_narrow(r, 9, candidate.rotation);
    const double ray[3] = {check_uniform(-0.5, 0.5), check_uniform(-0.5, 0.5), 1};
    const float fray[3] = {(float)ray[0], (float)ray[1], 1};
    search_drawn_normal(a, b, c, rotation, fray, n);
    reference_cross(ab, ac, en);
    reference_turn(r, en, en);
    const double length = sqrt(reference_dot(en, en)) * (reference_dot(en, ray) > 0 ? -1 : 1);
    float out_p[3], out_n[3];
    const float depth = (float)check_uniform(0.3, 1);
    search_drawn_point(&candidate, fray, depth, n, out_p, out_n);
    double ep[3], back[3];
    for (int k = 0; k < 3; k++) {
        en[k] /= length;
        ep[k] = ray[k] * (double)depth - t[k];
        close_to(LIMIT_NORMAL, (double)n[k], en[k], "drawn normal");
    }
    reference_turn_back(r, ep, ep);
    reference_turn_back(r, en, back);
    for (int k = 0; k < 3; k++) {
        close_to(LIMIT_FLOAT, (double)out_p[k], ep[k], "drawn point");
        close_to(LIMIT_NORMAL, (double)out_n[k], back[k], "its normal");
    }
}

static void check_drawing(void)
{
    check_case("drawing");
    int n_inside = 0;
    for (int i = 0; i < 500; i++) {
        const double radius = check_uniform(0.03, 0.2);
        const double t[3] = {check_uniform(-0.6, 0.6), check_uniform(-0.5, 0.5),
                             check_uniform(0.2, 1.5)};
        double axis[3], r[9];
        n_inside += check_rectangle(t, radius);
        check_direction(axis);
        reference_about(axis, check_uniform(0, 3), r);
        check_corner(r, t, 0);
        check_corner(r, t, (i % 2 ? 1 : -1) * check_uniform(1.5e-4, 4e-4));
        check_drawn_point(r, t);
    }
    check_that(n_inside > 1000, "%d inside", n_inside);
    // At most 2,457 points: every second pixel of every second row from there on, ...
    check_that(search_drawn_thinning(0) == 1 && search_drawn_thinning(2457) == 1 &&
                   search_drawn_thinning(2458) == 2 && search_drawn_thinning(9831) == 2 &&
                   search_drawn_thinning(9832) == 3,
               "thinning");
    const float same[3] = {1, 2, 3}, identity[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    float n[3];
    search_drawn_normal(same, same, same, identity, same, n);
    check_that(n[0] == 0 && n[1] == 0 && n[2] == 0, "no area, no normal");
}

// ---- ICP

static void check_icp_sums(const struct search_icp_row *row, const double j[6])
{
    int32_t sums[SEARCH_ICP_SUMS] = {0};
    search_icp_add(row, sums);
    for (int a = 0, k = 0; a < 6; a++) {
        close_to(LIMIT_FLOAT, (double)row->j[a], j[a], "row");
        for (int b = a; b < 6; b++, k++)
            check_close(&limits[LIMIT_SUM], sums[k] / 524288.0,
                        (double)(row->w * row->j[a] * row->j[b]), 1, "sum");
        check_close(&limits[LIMIT_SUM], sums[21 + a] / 524288.0,
                    (double)(row->w * row->j[a] * row->r), 1, "sum");
    }
}

// The weight of a pair fades with the square of its distance, squared; without a normal it is 0.3.
static void check_icp_rows(void)
{
    check_case("rows of ICP");
    int n_used = 0, n_dropped = 0;
    for (int i = 0; i < 6000; i++) {
        const double gate = check_uniform(0.01, 0.05), cosine = check_uniform(0.5, 0.8);
        const double radius = check_uniform(0.05, 0.2);
        double axis[3], r[9], p[3], m[3], s[3], t[3] = {check_uniform(-0.3, 0.3), 0.05, 0.8};
        double arm[3], n[3], q[3], margin = 1;
        check_direction(axis);
        reference_about(axis, check_uniform(0, 3), r);
        check_direction(m);
        check_direction(s);
        for (int k = 0; k < 3; k++)
            p[k] = check_uniform(-0.1, 0.1);
        reference_turn(r, p, arm);
        reference_turn(r, m, n);
        const bool none = i % 7 == 0;
        for (int k = 0; k < 3; k++) {
            q[k] = arm[k] + t[k];
            s[k] = none ? 0 : n[k] + 0.9 * s[k];
        }
        const double length = sqrt(reference_dot(s, s));
        for (int k = 0; k < 3 && !none; k++)
            s[k] /= length;
        float rotation[9], t_m[3];
        reference_narrow(r, 9, rotation);
        reference_narrow(t, 3, t_m);
        const struct search_icp_place at = search_icp_project(
            &camera, rotation, t_m, (struct search_vec3){(float)p[0], (float)p[1], (float)p[2]},
            (struct search_vec3){(float)m[0], (float)m[1], (float)m[2]});
        const int pixel = reference_pixel(&plain, q, &margin);
        const double facing = reference_dot(n, q);
        if (margin < 1e-3 || fabs(facing) < 1e-4)
            continue;
        check_that(at.use == (pixel >= 0 && facing < 0), "in the image, facing the camera");
        const double z = q[2] + check_uniform(-1.2, 1.2) * gate;
        const struct search_icp_gates gates = {(float)gate, (float)cosine};
        struct search_icp_row row =
            search_icp_pair(&camera, &gates, (float)(1 / radius), t_m, at,
                            (struct search_vec3){(float)s[0], (float)s[1], (float)s[2]},
                            (float)(i % 11 == 0 ? -z : z));
        double off[3], far = 0, j[6], agree = reference_dot(n, s);
        if (at.use) {
            const double seen[3] = {(pixel % WIDTH - 79.5) / 150 * z,
                                    (pixel / WIDTH - 61.25) / -140 * z, z};
            for (int k = 0; k < 3; k++)
                off[k] = seen[k] - q[k];
            far = reference_dot(off, off) / (gate * gate);
        }
        if (fabs(far - 1) < 1e-4 || fabs(agree - cosine) < 1e-5)
            continue;
        const bool use = at.use && i % 11 != 0 && far < 1 && (none || agree >= cosine);
        n_used += use;
        n_dropped += at.use && !use;
        if (!use) {
            check_that(row.w == 0 && row.r == 0, "no pair");
            continue;
        }
        const double w = (1 - far) * (1 - far) * (none ? 0.3 : 1);
        reference_cross(arm, n, j + 3);
        for (int k = 0; k < 3; k++) {
            j[k] = n[k];
            j[3 + k] /= radius;
        }
        const double residual = reference_dot(n, off) / gate;
        close_to(LIMIT_NORMAL, (double)row.w, w, "weight");
        check_close(&limits[LIMIT_NORMAL], (double)row.r, residual, 1, "residual");
        check_icp_sums(&row, j);
    }
    check_that(n_used > 300 && n_dropped > 300, "%d used, %d dropped", n_used, n_dropped);
}

// The rim of the image and 5 cm, as for every projection.
static void check_icp_rim(void)
{
    check_case("rim of ICP");
    const float identity[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    const struct search_vec3 towards = {0, 0, -1};
    static const double rims[][3] = {{-0.498, 60, 1},  {-0.502, 60, 0}, {159.498, 60, 1},
                                     {159.502, 60, 0}, {60, -0.498, 1}, {60, -0.502, 0},
                                     {60, 119.498, 1}, {60, 119.502, 0}};
    for (int i = 0; i < 10; i++) {
        const float z = i < 8 ? 0.6f : i == 8 ? 0.0502f : 0.0498f;
        const float t_m[3] = {i < 8 ? (float)((rims[i][0] - 79.5) / 150) * z : 0,
                              i < 8 ? (float)((rims[i][1] - 61.25) / -140) * z : 0, z};
        const struct search_icp_place at =
            search_icp_project(&camera, identity, t_m, (struct search_vec3){0, 0, 0}, towards);
        check_that(at.use == (i < 8 ? rims[i][2] > 0 : i == 8), "rim %d", i);
    }
}

// The scene beside an outline at z: 1 the surface, 0 behind it, -1 in front.
static void check_edge_rows(void)
{
    check_case("rows of the outline");
    const float z = 0.8f, gate_m = 0.02f;
    static const float scenes[][3] = {// depth, what lies behind a hole; the answer
                                      {0.8f, 0, 1},     {0.8198f, 0, 1},  {0.8202f, 0, 0},
                                      {0.7802f, 0, 1},  {0.7798f, 0, -1}, {-0.8f, 0, 1},
                                      {-0.83f, 0, 0},   {0, 0, 0},        {0, 0.8202f, 0},
                                      {0, 0.8198f, -1}, {0, 0.5f, -1}};
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        const float scene[4] = {scenes[i][0] == 0 ? scenes[i][1] : 0.1f, 0, 0, scenes[i][0]};
        check_that(search_edge_side(scene, z, gate_m) == (int)scenes[i][2], "side %zu", i);
    }
    int n_used = 0;
    for (int i = 0; i < 2000; i++) {
        const double radius = 0.1, gate = check_uniform(0.01, 0.2);
        double axis[3], r[9], p[3], arm[3], q[3], t[3] = {0.05, -0.03, i % 50 == 0 ? 0.01 : 0.7};
        check_direction(axis);
        reference_about(axis, check_uniform(0, 3), r);
        for (int k = 0; k < 3; k++)
            p[k] = check_uniform(-0.05, 0.05);
        reference_turn(r, p, arm);
        for (int k = 0; k < 3; k++)
            q[k] = arm[k] + t[k];
        struct search_candidate c = {.score = 0};
        reference_narrow(r, 9, c.rotation);
        reference_narrow(t, 3, c.t_m);
        const int a = i % 2;
        const double f = a ? plain.fy : plain.fx, at = f * q[a] / q[2] + (a ? plain.cy : plain.cx);
        struct search_edge edge = {.axis = a, .at_px = (float)(at + check_uniform(-12, 12))};
        reference_narrow(p, 3, edge.p);
        const double off = (double)edge.at_px - at, share = off / 10;
        const double residual = off * q[2] / f / gate;
        const struct search_icp_row row =
            search_edge_row(&camera, &edge, (float)radius, (float)gate, &c);
        if (fabs(fabs(share) - 1) < 1e-4 || fabs(fabs(residual) - 1) < 1e-4 ||
            fabs(q[2] - 0.05) < 1e-5)
            continue;
        if (q[2] <= 0.05 || fabs(share) >= 1 || fabs(residual) >= 1) {
            check_that(row.w == 0, "no edge there");
            continue;
        }
        // How the pixel coordinate moves with the point, in metres at its depth.
        double n[3] = {a == 0, a == 1, -q[a] / q[2]}, j[6];
        reference_cross(arm, n, j + 3);
        n_used++;
        check_close(&limits[LIMIT_NORMAL], (double)row.r, residual, 1, "residual");
        check_close(&limits[LIMIT_NORMAL], (double)row.w,
                    0.3 * (1 - share * share) * (1 - share * share), 1, "weight");
        for (int k = 0; k < 3; k++) {
            close_to(LIMIT_FLOAT, (double)row.j[k], n[k], "row");
            close_to(LIMIT_FLOAT, (double)row.j[3 + k], j[3 + k] / radius, "row");
        }
    }
    check_that(n_used > 300, "%d edges", n_used);
}

// (H + damping) x = g; translation in gates, rotation in gates a radius, at most a radian.
static void check_icp_steps(void)
{
    check_case("steps of ICP");
    int n_long = 0;
    for (int i = 0; i < 400; i++) {
        const double radius = check_uniform(0.05, 0.2), gate = check_uniform(0.01, 0.03);
        double h[6][6] = {{0}}, g[6] = {0}, x[6], axis[3], r[9], turn[9], expected[9];
        int64_t sums[SEARCH_ICP_SUMS] = {0};
        for (int k = 0; k < 40; k++) {
            double row[7];
            for (int a = 0; a < 7; a++)
                row[a] = check_uniform(-1, 1) * (a < 3 ? 1 : 0.6) + (a == 6 ? 0.2 : 0);
            for (int a = 0; a < 6; a++) {
                g[a] += row[a] * row[6];
                for (int b = 0; b < 6; b++)
                    h[a][b] += row[a] * row[b];
            }
        }
        const double push = i % 4 == 0 ? 40 : 1;
        for (int a = 0, k = 0; a < 6; a++) {
            for (int b = a; b < 6; b++, k++)
                sums[k] = llround(h[a][b] * 524288);
            g[a] *= push;
            sums[21 + a] = llround(g[a] * 524288);
        }
        const double damping = 0.002 * (h[0][0] + h[1][1] + h[2][2]) + 1e-9;
        for (int a = 0; a < 6; a++)
            h[a][a] += damping;
        reference_solve6(h, g, x);
        struct search_candidate c = {.t_m = {0.1f, 0.2f, 0.8f}}, moved = {.score = 0};
        check_direction(axis);
        reference_about(axis, 1, r);
        reference_narrow(r, 9, c.rotation);
        moved = c;
        const double size = (double)search_icp_step(sums, (float)radius, (float)gate, &moved);
        double w[3], angle, length = 0;
        for (int k = 0; k < 3; k++)
            w[k] = x[3 + k] * gate / radius;
        angle = sqrt(reference_dot(w, w));
        for (int k = 0; k < 3; k++)
            w[k] /= angle;
        n_long += angle > 1;
        angle = fmin(angle, 1);
        reference_about(w, angle, turn);
        reference_product(turn, r, expected);
        for (int k = 0; k < 9; k++)
            check_close(&limits[LIMIT_STEP], (double)moved.rotation[k], expected[k], angle, "turn");
        for (int k = 0; k < 3; k++) {
            length += x[k] * x[k];
            check_close(&limits[LIMIT_STEP], (double)(moved.t_m[k] - c.t_m[k]), x[k] * gate,
                        fabs(x[k] * gate), "move");
        }
        check_close(&limits[LIMIT_STEP], size, sqrt(length) * gate / radius + angle, size, "size");
    }
    check_that(n_long > 20, "%d long steps", n_long);
    // Too little holds the pose: the trace of the translation must exceed 4.
    for (int i = 0; i < 4; i++) {
        int64_t sums[SEARCH_ICP_SUMS] = {0};
        static const int diagonal[6] = {0, 6, 11, 15, 18, 20};
        const double trace = i == 0 ? 3.97 : 4.03;
        for (int a = 0; a < 6; a++)
            sums[diagonal[a]] = llround((a < 3 ? trace / 3 : 1) * 524288);
        sums[21] = 524288;
        if (i == 2)
            sums[1] = 524288 * 3; // not positive definite
        if (i == 3)
            sums[20] = 0; // a direction that nothing holds: the damping does
        struct search_candidate c = {.rotation = {1, 0, 0, 0, 1, 0, 0, 0, 1}}, before = c;
        const float size = search_icp_step(sums, 0.1f, 0.02f, &c);
        check_that((size >= 0) == (i % 2), "held %d: %g", i, (double)size);
        check_that(size >= 0 || memcmp(&c, &before, sizeof c) == 0, "then nothing moves");
    }
}

// Six orthonormal vectors of random direction.
static void random_basis(double out[6][6])
{
    for (int i = 0; i < 6; i++) {
        double length2 = 0;
        for (int k = 0; k < 6; k++)
            out[i][k] = check_uniform(-1, 1);
        for (int j = 0; j < i; j++) {
            double shared = 0;
            for (int k = 0; k < 6; k++)
                shared += out[i][k] * out[j][k];
            for (int k = 0; k < 6; k++)
                out[i][k] -= shared * out[j][k];
        }
        for (int k = 0; k < 6; k++)
            length2 += out[i][k] * out[i][k];
        for (int k = 0; k < 6; k++)
            out[i][k] /= sqrt(length2);
    }
}

// H is put together from the directions that are to be found: two that hold least, in their order.
static void check_slide_directions(void)
{
    check_case("directions that are held least");
    for (int i = 0; i < 300; i++) {
        const double held[6] = {i % 3 == 0 ? 0 : 3, 40, 300, 400, 700, 900};
        double basis[6][6];
        int64_t sums[SEARCH_ICP_SUMS] = {0};
        struct search_slides slides;
        random_basis(basis);
        for (int a = 0, k = 0; a < 6; a++)
            for (int b = a; b < 6; b++, k++) {
                double h = 0;
                for (int m = 0; m < 6; m++)
                    h += held[m] * basis[m][a] * basis[m][b];
                sums[k] = llround(h * 524288);
            }
        search_slides_of(sums, &slides);
        for (int d = 0; d < 2; d++) {
            double along = 0, length2 = 0, other = 0;
            for (int k = 0; k < 6; k++) {
                const double x = (double)slides.direction[d][k];
                along += x * basis[d][k];
                other += x * (double)slides.direction[1 - d][k];
                length2 += x * x;
            }
            check_that(fabs(along) > 0.999, "direction %d: %g", d, along);
            check_close(&limits[LIMIT_FLOAT], length2, 1, 1, "length");
            check_close(&limits[LIMIT_FLOAT], other, 0, 1, "at right angles");
        }
    }
    const int64_t nothing[SEARCH_ICP_SUMS] = {0};
    struct search_slides slides;
    search_slides_of(nothing, &slides);
    for (int k = 0; k < 12; k++)
        check_that(slides.direction[k / 6][k % 6] == 0, "of nothing");
}

// A tenth of the radius along a direction, both ways; the best candidates first.
static void check_slides(void)
{
    check_case("slides");
    check_that(SEARCH_SLIDE_WAYS == 4, "both ways of two directions");
    for (int i = 0; i < 100; i++) {
        const double radius = check_uniform(0.05, 0.2);
        struct search_slides slides;
        struct search_candidate c = {.t_m = {0.1f, 0.2f, 0.8f}, .score = 3}, moved;
        double basis[6][6], r[9], turn[9], expected[9];
        reference_random_rotation(c.rotation, r);
        random_basis(basis);
        for (int k = 0; k < 12; k++)
            slides.direction[k / 6][k % 6] = (float)basis[k / 6][k % 6];
        for (uint32_t way = 0; way < SEARCH_SLIDE_WAYS; way++) {
            const double *d = basis[way / 2], by = way % 2 ? -0.1 : 0.1;
            const double turned = sqrt(reference_dot(d + 3, d + 3));
            const double axis[3] = {d[3] / turned, d[4] / turned, d[5] / turned};
            reference_about(axis, by * turned, turn);
            reference_product(turn, r, expected);
            search_slide(&slides, way, (float)radius, &c, &moved);
            for (int k = 0; k < 9; k++)
                close_to(LIMIT_FLOAT, (double)moved.rotation[k], expected[k], "turned");
            for (int k = 0; k < 3; k++)
                check_close(&limits[LIMIT_FLOAT], (double)(moved.t_m[k] - c.t_m[k]),
                            by * radius * d[k], 1, "moved");
        }
    }
    const struct search_candidate of[5] = {
        {.score = 2}, {.score = -1}, {.score = 7}, {.score = 2}, {.score = 3}};
    static const uint32_t ranks[5] = {2, 4, 0, 3, 1};
    for (uint32_t i = 0; i < 5; i++)
        check_that(search_slide_rank(of, 5, i) == ranks[i], "rank %u", i);
}

// By the words and tables of icp.h.
static void check_schedules(void)
{
    check_case("schedules");
    static const double shares[15] = {0.2,  0.18, 0.16, 0.14, 0.12, 0.1,  0.08, 0.07,
                                      0.06, 0.05, 0.04, 0.03, 0.03, 0.03, 0.03};
    check_that(SEARCH_POINTS_STEPS == 15 && SEARCH_DRAWN_STEPS == 5, "steps");
    for (int i = 0; i < 15; i++) {
        const struct search_icp_gates gates = search_points_gates(i, 0.15f, 0.9f);
        close_to(LIMIT_FLOAT, (double)gates.distance_m, shares[i] * 0.15 + 2 * reference_sigma(0.9),
                 "gate");
        close_to(LIMIT_FLOAT, (double)gates.cosine, i < 3 ? 0.6 : 0.75, "cosine");
        check_that(search_points_new_view(i) == (i == 0 || i == 3 || i == 6 || i == 9 || i == 12),
                   "new view");
        check_that(search_points_give_up_here(i) == (i == 3), "give up");
    }
    static const double of_3[] = {0.05, 0.04, 0.03}, of_5[] = {0.12, 0.08, 0.05, 0.04, 0.03};
    for (uint32_t n = 1; n <= 6; n++)
        for (uint32_t i = 0; i < n; i++) {
            const struct search_icp_gates gates = search_drawn_gates(i, n, 0.15f, 0.9f);
            const int behind = (int)(n - i); // of more than three the last three close in
            const double share = n <= 3 ? of_3[i] : behind > 4 ? of_5[0] : of_5[5 - behind];
            close_to(LIMIT_FLOAT, (double)gates.distance_m, share * 0.15 + 2 * reference_sigma(0.9),
                     "gate");
            close_to(LIMIT_FLOAT, (double)gates.cosine, 0.6, "cosine");
        }
    close_to(LIMIT_FLOAT, (double)SEARCH_LOOSE_SCORE, 9.5, "less is given up");
    close_to(LIMIT_FLOAT, (double)SEARCH_DRAWN_SMALL * 1e5, 1, "a small step");
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_drawing();
    check_icp_rows();
    check_icp_rim();
    check_edge_rows();
    check_icp_steps();
    check_slide_directions();
    check_slides();
    check_schedules();
    return check_end();
}

// SPDX-License-Identifier: Apache-2.0
// The score of the pose search and its confidence against a reference that shares no formula with
// them (score.h): every rule of a pixel and of the outline at its limits, the features, the
// weights, which answers are kept.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/search/confidence.h"
#include "gpu/search/kernels/score.h"
#include "tests/check/check.h"
#include "tests/check/search/reference.h"
#include "tests/check/search/score.h"

static const struct check_limit limits[] = {
    {"float", 1e-5, 1e-5, "a dozen float operations"},
    {"share", 3e-6, 3e-6, "a ratio of counts in float"},
    {"score", 3e-4, 1e-5, "20 products of up to 60"},
    {"sum", 1e-4, 0, "integers of 1/65536"},
    {"agreement", 0.02, 1e-4, "cut to 1/64"},
};
enum { LIMIT_FLOAT, LIMIT_SHARE, LIMIT_SCORE, LIMIT_SUM, LIMIT_AGREE };

#define WIDTH  40
#define HEIGHT 30
static float normal_z[4 * WIDTH * HEIGHT];
static const struct search_scene scene = {normal_z, {570, -560, 19.5f, 14.25f, WIDTH, HEIGHT}};
static const struct reference_camera plain = {570, -560, 19.5, 14.25, WIDTH, HEIGHT};

static void close_to(int limit, double got, double expected, const char *name)
{
    check_close(&limits[limit], got, expected, fabs(expected), name);
}

static void widen(const float *from, int n, double *out)
{
    for (int i = 0; i < n; i++)
        out[i] = (double)from[i];
}

static void random_unit(double out[3])
{
    for (int i = 0; i < 3; i++)
        out[i] = check_gaussian();
    const double length = sqrt(reference_dot(out, out));
    for (int i = 0; i < 3; i++)
        out[i] /= length;
}

// A pixel of the scene, its depth off by so many gates from z: around all limits, 0.4 % to either
// side of them.
static void random_pixel(double z, double gate_m, const double like[3], float out[4])
{
    static const double limits_at[] = {0, 0.4, -0.4, 1, -1, -2, 3, -5};
    const double off = limits_at[check_random() % 8] + (check_random() % 2 ? 0.004 : -0.004);
    const double depth = z + off * gate_m;
    double n[3];
    random_unit(n);
    for (int k = 0; k < 3; k++) // mostly facing alike
        n[k] = like[k] + (check_random() % 3 ? 0.3 : 1.2) * n[k];
    const double length = sqrt(reference_dot(n, n)), none = check_random() % 6 == 0 ? 0 : 1;
    for (int k = 0; k < 3; k++)
        out[k] = (float)(none * n[k] / length);
    out[3] = (float)(check_random() % 5 == 0 ? -depth : depth);
    if (check_random() % 6 == 0) { // a hole: what lies behind it, or 0
        out[0] = (float)(check_random() % 2 ? depth : 0);
        out[1] = out[2] = out[3] = 0;
    }
}

// ---- One pixel

static void count_pixel(const float s[4], double z, const double n[3], double gate_m,
                        struct score_counts *c)
{
    double wide[4];
    widen(s, 4, wide);
    const double d = fabs(wide[3]) - z;
    c->n++;
    switch (score_pixel(wide, z, n, gate_m)) {
    case SCORE_PIXEL_HIDDEN:
        c->hidden++;
        break;
    case SCORE_PIXEL_FREE:
        c->free++;
        break;
    case SCORE_PIXEL_PLANE:
        c->plane++;
        break;
    case SCORE_PIXEL_WRONG:
        c->wrong++;
        break;
    case SCORE_PIXEL_MATCH:
        c->match++;
        c->tight += fabs(d) < 0.4 * gate_m;
        c->square_m2 += d * d;
        break;
    }
}

static bool normal_decides(const float s[4], const double n[3])
{
    double wide[4];
    widen(s, 4, wide);
    return fabs(reference_dot(wide, n) - 0.7) < 1e-5;
}

static void compare_counts(const struct search_tally *t, const struct score_counts *c)
{
    check_that(t->n == c->n && t->n_match == c->match && t->n_tight == c->tight &&
                   t->n_free == c->free && t->n_wrong == c->wrong && t->n_plane == c->plane &&
                   t->n_hidden == c->hidden,
               "%u: %u match %u tight %u free %u wrong %u plane %u hidden", t->n, t->n_match,
               t->n_tight, t->n_free, t->n_wrong, t->n_plane, t->n_hidden);
}

static void check_pixels(void)
{
    check_case("pixels");
    struct score_counts all = {0};
    for (int i = 0; i < 8000; i++) {
        const double z = check_uniform(0.5, 1.5), gate = check_uniform(0.005, 0.05);
        double n[3];
        float s[4], narrow[3];
        random_unit(n);
        random_pixel(z, gate, n, s);
        for (int k = 0; k < 3; k++)
            narrow[k] = (float)n[k];
        if (normal_decides(s, n))
            continue;
        struct search_tally tally = {0};
        struct score_counts counts = {0};
        const bool match = search_score_pixel(s, (float)z, narrow, (float)gate, &tally);
        count_pixel(s, z, n, gate, &counts);
        check_that(match == (counts.match > 0), "match");
        compare_counts(&tally, &counts);
        const double d = match ? fabs((double)s[3]) - z : 0, steps = fabs(d) * 1048576;
        check_that(fabs(sqrt((double)tally.square) - steps) < 2, "square");
        count_pixel(s, z, n, gate, &all);

        // Agreement, at any slant.
        double wide[4];
        const double slant = check_uniform(0.3, 1);
        widen(s, 4, wide);
        check_close(&limits[LIMIT_AGREE],
                    (double)search_score_agrees(s, (float)z, (float)slant, (float)gate),
                    score_agrees(wide, z, slant, gate), 100, "agreement");
    }
    check_that(all.match > 500 && all.tight > 200 && all.free > 500 && all.wrong > 500 &&
                   all.plane > 300 && all.hidden > 1000,
               "all kinds");
    for (int i = 0; i < 50; i++) {
        const double radius = check_uniform(0.03, 0.3), z = check_uniform(0.4, 2);
        close_to(LIMIT_FLOAT,
                 (double)search_points_gate_m(SEARCH_SCORE_LOOSE, (float)radius, (float)z),
                 0.15 * radius + 3 * reference_sigma(z), "loose gate");
        close_to(LIMIT_FLOAT,
                 (double)search_points_gate_m(SEARCH_SCORE_POINTS, (float)radius, (float)z),
                 0.03 * radius + 3 * reference_sigma(z), "gate of points");
        close_to(LIMIT_FLOAT, (double)search_drawn_gate_m((float)radius, (float)z),
                 0.012 * radius + 2.5 * reference_sigma(z), "gate of the drawn model");
    }
}

// A drawn pixel at a slant has a wider gate, and its normal counts where it matches.
static void check_drawn_pixels(void)
{
    check_case("drawn pixels");
    for (int i = 0; i < 3000; i++) {
        const double z = check_uniform(0.5, 1.2), radius = check_uniform(0.05, 0.2);
        double n[3], axis[3] = {check_uniform(-0.3, 0.3), check_uniform(-0.3, 0.3), 1};
        const double ray[3] = {axis[0], axis[1], 1};
        random_unit(n);
        if (reference_dot(n, ray) > 0)
            for (int k = 0; k < 3; k++)
                n[k] = -n[k];
        const double slant = fmax(-reference_dot(n, ray), 0.3);
        const double gate = (0.012 * radius + 2.5 * reference_sigma(z)) / slant;
        float s[4], fn[3], fray[3];
        random_pixel(z, gate, n, s);
        for (int k = 0; k < 3; k++) {
            fn[k] = (float)n[k];
            fray[k] = (float)ray[k];
        }
        if (normal_decides(s, n))
            continue;
        struct search_tally tally = {0};
        struct score_counts counts = {0};
        double wide[4];
        widen(s, 4, wide);
        search_score_drawn(s, (float)z, fn, fray, (float)radius, &tally);
        count_pixel(s, z, n, gate, &counts);
        compare_counts(&tally, &counts);
        check_close(&limits[LIMIT_AGREE], (double)tally.agree / 64,
                    score_agrees(wide, z, slant, gate), 100, "agreement");
        for (int a = 0, k = 0; a < 3; a++)
            for (int b = a; b < 3; b++, k++)
                check_close(&limits[LIMIT_SUM], (double)tally.normals[k] / 65536,
                            counts.match > 0 ? n[a] * n[b] : 0, 0, "normals");
    }
}

// ---- The outline

static void fill_scene(double z, double gate_m, const double like[3])
{
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        random_pixel(z, gate_m, like, normal_z + 4 * i);
}

static void scene_at(int u, int v, double out[4], double ray[3])
{
    widen(normal_z + 4 * (v * WIDTH + u), 4, out);
    ray[0] = (u - plain.cx) / plain.fx;
    ray[1] = (v - plain.cy) / plain.fy;
    ray[2] = 1;
}

static void count_beyond(enum score_beyond beyond, struct score_counts *c)
{
    c->outline++;
    c->ended += beyond == SCORE_BEYOND_ENDED;
    c->floor += beyond == SCORE_BEYOND_FLOOR;
    c->smooth += beyond == SCORE_BEYOND_SMOOTH;
    c->continued += beyond == SCORE_BEYOND_CONTINUED;
}

static void compare_outline(const struct search_outline *o, const struct score_counts *c)
{
    check_that(o->n == c->outline && o->n_ended == c->ended && o->n_floor == c->floor &&
                   o->n_smooth == c->smooth && o->n_continued == c->continued &&
                   o->n_sharp == c->sharp,
               "%u: %u ended %u floor %u smooth %u continued %u sharp", o->n, o->n_ended,
               o->n_floor, o->n_smooth, o->n_continued, o->n_sharp);
}

// Two pixels of one surface: b in the plane of a but for `off` sigmas, turned by an angle.
static void make_surface(int u_a, int v_a, int u_b, int v_b, double z, double off_m, double cosine)
{
    double n[3] = {0.2, -0.1, -0.97}, a[4], b[4], ray_a[3], ray_b[3], axis[3], turn[9], turned[3];
    const double length = sqrt(reference_dot(n, n));
    for (int k = 0; k < 3; k++)
        n[k] /= length;
    scene_at(u_a, v_a, a, ray_a);
    scene_at(u_b, v_b, b, ray_b);
    const double plane = z * reference_dot(n, ray_a) + off_m;
    axis[0] = -n[1];
    axis[1] = n[0];
    axis[2] = 0;
    const double across = sqrt(reference_dot(axis, axis));
    for (int k = 0; k < 3; k++)
        axis[k] /= across;
    reference_about(axis, acos(cosine), turn);
    reference_turn(turn, n, turned);
    float *to_a = normal_z + 4 * (v_a * WIDTH + u_a), *to_b = normal_z + 4 * (v_b * WIDTH + u_b);
    for (int k = 0; k < 3; k++) {
        to_a[k] = (float)n[k];
        to_b[k] = (float)turned[k];
    }
    to_a[3] = (float)z;
    to_b[3] = (float)(plane / reference_dot(n, ray_b));
}

// Both sides of what counts as smooth: 2 sigma off the plane, a cosine of 0.9 or 0.85.
static void check_smooth(void)
{
    check_case("smooth surfaces");
    for (int i = 0; i < 8; i++)
        for (int limit = 0; limit < 2; limit++) {
            const double z = 0.8, off = 2 * reference_sigma(z) * (i % 2 ? 1.005 : 0.995);
            const double least = limit ? 0.85 : 0.9, cosine = least + (i / 2 % 2 ? -0.004 : 0.004);
            const bool smooth = i % 2 == 0 && i / 2 % 2 == 0;
            double a[4], b[4], ray_a[3], ray_b[3];
            memset(normal_z, 0, sizeof normal_z);
            make_surface(10, 12, 14, 12, z, i / 4 ? off : -off, cosine);
            scene_at(10, 12, a, ray_a);
            scene_at(14, 12, b, ray_b);
            float fa[3], fb[3];
            for (int k = 0; k < 3; k++) {
                fa[k] = (float)ray_a[k];
                fb[k] = (float)ray_b[k];
            }
            const float *pa = normal_z + 4 * (12 * WIDTH + 10), *pb = pa + 16;
            check_that(search_is_smooth(pa, pb, fa, fb, (float)least, 2 * search_sigma((float)z)) ==
                           smooth,
                       "%d", i);
            check_that(score_smooth(a, b, ray_a, ray_b, least, 2 * reference_sigma(z)) == smooth,
                       "reference %d", i);
            // The same as the border of what hides: d of the first matches, the other is hidden.
            struct search_tally tally = {0};
            const float z_next = pb[3] + 0.2f;
            search_score_cross(&scene, 10, 12, false, (float)z, z_next, 0.1f, &tally);
            check_that(tally.n_crossed == 1, "crossed");
            if (limit)
                check_that(tally.n_merged == (smooth ? 1 : 0), "merged");
        }
    const float none[4] = {0, 0, 0, 1}, some[4] = {0, 0, -1, 1}, ray[3] = {0, 0, 1};
    check_that(!search_is_smooth(none, some, ray, ray, -1, 1), "no normal");
    const float short_[4] = {0, 0, -0.7054f, 1}, long_[4] = {0, 0, -0.7088f, 1};
    check_that(!search_is_smooth(short_, some, ray, ray, -1, 1) &&
                   search_is_smooth(long_, some, ray, ray, -1, 1),
               "a normal is longer than the root of a half");
}

static void check_outline(void)
{
    check_case("outlines");
    static const int du[4] = {1, -1, 0, 0}, dv[4] = {0, 0, 1, -1};
    struct score_counts all = {0};
    for (int i = 0; i < 3000; i++) {
        const double z = check_uniform(0.5, 1.2), radius = check_uniform(0.05, 0.2);
        const double gate = 0.048 * radius + 3 * reference_sigma(z), like[3] = {0.2, -0.1, -0.97};
        const int k = i % 4, u = 12 + i % 9, v = 11 + i % 7, in = 1 + i % 3;
        double inside[4], outside[4], sharp[4], ray_in[3], ray_out[3], ray[3];
        fill_scene(z, gate, like);
        if (i % 3 == 0)
            make_surface(u - in * du[k], v - in * dv[k], u + 4 * du[k], v + 4 * dv[k], z,
                         check_uniform(-3, 3) * reference_sigma(z), check_uniform(0.8, 1));
        const double z_in = z + check_uniform(-0.5, 0.5) * gate;
        struct search_outline outline = {0};
        struct score_counts c = {0};
        search_score_edge(&scene, u, v, du[k], dv[k], in, (float)z_in, (float)z, (float)radius,
                          &outline);
        scene_at(u - in * du[k], v - in * dv[k], inside, ray_in);
        scene_at(u + 4 * du[k], v + 4 * dv[k], outside, ray_out);
        scene_at(u + 2 * du[k], v + 2 * dv[k], sharp, ray);
        const double off = fabs(fabs(inside[3]) - z_in) - gate;
        if (fabs(off) < 1e-6)
            continue;
        count_beyond(score_beyond(inside, outside, ray_in, ray_out, z_in, z, gate), &c);
        c.sharp = inside[3] != 0 && off <= 0 && score_behind(sharp, z, gate);
        compare_outline(&outline, &c);
        all.ended += c.ended;
        all.floor += c.floor;
        all.smooth += c.smooth;
        all.continued += c.continued;
        all.sharp += c.sharp;
        // How far inwards the first measured pixel is, three at most.
        int nearest = 1;
        while (nearest < 3 &&
               normal_z[4 * ((v - nearest * dv[k]) * WIDTH + u - nearest * du[k]) + 3] == 0)
            nearest++;
        check_that(search_score_inside(&scene, u, v, du[k], dv[k]) == nearest, "inside");
    }
    check_that(all.ended > 100 && all.floor > 30 && all.smooth > 30 && all.continued > 30 &&
                   all.sharp > 100,
               "all kinds: %g %g %g %g %g", all.ended, all.floor, all.smooth, all.continued,
               all.sharp);
}

static void check_crossings(void)
{
    check_case("crossings");
    struct score_counts all = {0};
    for (int i = 0; i < 3000; i++) {
        const double z = check_uniform(0.5, 1.2), radius = check_uniform(0.05, 0.2);
        const double gate = 0.012 * radius + 2.5 * reference_sigma(z), like[3] = {0.2, -0.1, -0.97};
        const double z_next = z + check_uniform(-0.3, 0.3) * gate;
        const bool below = i % 2;
        const int u = 5 + i % 20, v = 5 + i % 15, u2 = u + (below ? 0 : 4),
                  v2 = v + (below ? 4 : 0);
        double here[4], next[4], ray[3], ray_next[3];
        fill_scene(z, gate, like);
        if (i % 3 == 0)
            make_surface(u, v, u2, v2, z, check_uniform(-3, 3) * reference_sigma(z),
                         check_uniform(0.75, 1));
        struct search_tally tally = {0};
        search_score_cross(&scene, u, v, below, (float)z, (float)z_next, (float)radius, &tally);
        scene_at(u, v, here, ray);
        scene_at(u2, v2, next, ray_next);
        const double d = fabs(here[3]) - z, d_next = fabs(next[3]) - z_next;
        const bool into = fabs(d) < gate && d_next < -2 * gate;
        const bool out_of = fabs(d_next) < gate && d < -2 * gate;
        const bool crossed = here[3] != 0 && next[3] != 0 && (into || out_of);
        const bool merged =
            crossed &&
            (into ? score_smooth(here, next, ray, ray_next, 0.85, 2 * reference_sigma(z))
                  : score_smooth(next, here, ray_next, ray, 0.85, 2 * reference_sigma(z)));
        if (fabs(fabs(d_next) - gate) < 1e-6 || fabs(d_next + 2 * gate) < 1e-6)
            continue;
        check_that(tally.n_crossed == crossed && tally.n_merged == merged, "crossed %u, merged %u",
                   tally.n_crossed, tally.n_merged);
        all.crossed += crossed;
    }
    check_that(all.crossed > 150, "%g crossings", all.crossed);
}

// A view's points and ring, through pose and projection.
static void check_points(void)
{
    check_case("points of a view");
    for (int i = 0; i < 3000; i++) {
        const double radius = check_uniform(0.05, 0.15);
        double axis[3], r[9], p[3], m[3], q[3], n[3], margin = 1;
        const double t[3] = {0.004, -0.003, 0.8};
        const enum search_evidence which = i % 2 ? SEARCH_SCORE_LOOSE : SEARCH_SCORE_POINTS;
        const double share = i % 2 ? 0.15 : 0.03;
        struct search_candidate c = {.t_m = {0.004f, -0.003f, 0.8f}};
        random_unit(axis);
        reference_about(axis, check_uniform(0, 3), r);
        random_unit(m);
        for (int k = 0; k < 9; k++)
            c.rotation[k] = (float)r[k];
        for (int k = 0; k < 3; k++)
            p[k] = check_uniform(-0.03, 0.03);
        reference_turn(r, p, q);
        reference_turn(r, m, n);
        for (int k = 0; k < 3; k++)
            q[k] += t[k];
        const double gate = share * radius + 3 * reference_sigma(q[2]);
        fill_scene(q[2], gate, n);
        const int at = reference_pixel(&plain, q, &margin);
        if (margin < 1e-3 || (at >= 0 && normal_decides(normal_z + 4 * at, n)))
            continue;
        const float nothing[4] = {0}, fp[3] = {(float)p[0], (float)p[1], (float)p[2]};
        const float fm[3] = {(float)m[0], (float)m[1], (float)m[2]};
        struct search_tally tally = {0};
        struct score_counts counts = {0};
        search_score_point(&scene, &c, fp, fm, which, (float)radius, &tally);
        count_pixel(at < 0 ? nothing : normal_z + 4 * at, q[2], n, gate, &counts);
        compare_counts(&tally, &counts);

        // The ring: a point outside and one inside, gates half as wide again.
        double inner[3], in[3], inside[4], outside[4], ray_in[3], ray_out[3];
        for (int k = 0; k < 3; k++)
            inner[k] = p[k] + check_uniform(-0.006, 0.006);
        reference_turn(r, inner, in);
        for (int k = 0; k < 3; k++)
            in[k] += t[k];
        const double wide = 1.5 * (share * radius + 3 * reference_sigma(in[2]));
        fill_scene(in[2], wide, n);
        const int at_in = reference_pixel(&plain, in, &margin);
        if (margin < 1e-3)
            continue;
        const float fin[3] = {(float)inner[0], (float)inner[1], (float)inner[2]};
        struct search_outline outline = {0};
        memset(&counts, 0, sizeof counts);
        search_score_ring(&scene, &c, fp, fin, which, (float)radius, &outline);
        if (at < 0 || at_in < 0) {
            counts.outline = 1;
        } else {
            scene_at(at_in % WIDTH, at_in / WIDTH, inside, ray_in);
            scene_at(at % WIDTH, at / WIDTH, outside, ray_out);
            count_beyond(score_beyond(inside, outside, ray_in, ray_out, in[2], in[2], wide),
                         &counts);
        }
        compare_outline(&outline, &counts);
    }
}

// ---- Shares, features, score

static void compare_shares(const struct search_candidate *c, const struct score_shares *s)
{
    const float got[] = {c->match, c->tight,  c->free,   c->wrong,     c->plane, c->hidden,
                         c->ended, c->smooth, c->floor,  c->continued, c->sharp, c->merged,
                         c->area,  c->gate,   c->spread, c->volume};
    const double expected[] = {s->match, s->tight,  s->free,   s->wrong,     s->plane, s->hidden,
                               s->ended, s->smooth, s->floor,  s->continued, s->sharp, s->merged,
                               s->area,  s->gate,   s->spread, s->volume};
    static const char *const names[] = {"match", "tight",  "free",   "wrong",     "plane", "hidden",
                                        "ended", "smooth", "floor",  "continued", "sharp", "merged",
                                        "area",  "gate",   "spread", "volume"};
    for (size_t k = 0; k < sizeof got / sizeof *got; k++)
        close_to(LIMIT_SHARE, (double)got[k], expected[k], names[k]);
}

static void check_scores(void)
{
    check_case("scores");
    for (int i = 0; i < 1000; i++) {
        struct search_tally t = {.n = i % 50 ? 200 + check_random() % 300 : 0};
        struct search_outline o = {.n = check_random() % 90};
        struct score_counts c = {.n = t.n, .outline = o.n};
        uint32_t left = t.n, rim = o.n;
        uint32_t *const parts[] = {&t.n_match, &t.n_free, &t.n_wrong, &t.n_plane, &t.n_hidden};
        uint32_t *const rims[] = {&o.n_ended, &o.n_floor, &o.n_smooth, &o.n_continued};
        for (int k = 0; k < 5; k++, left -= *parts[k - 1])
            *parts[k] = check_random() % (left + 1);
        for (int k = 0; k < 4; k++, rim -= *rims[k - 1])
            *rims[k] = check_random() % (i % 2 ? rim + 1 : rim / 6 + 1);
        t.n_tight = check_random() % (t.n_match + 1);
        o.n_sharp = check_random() % (o.n + 1);
        t.n_crossed = check_random() % 50;
        t.n_merged = check_random() % (t.n_crossed + 1);
        for (uint32_t k = 0; k < t.n_match; k++) {
            double n[3];
            random_unit(n);
            n[2] = i % 3 ? -fabs(n[2]) - 0.5 : n[2];
            const double length = sqrt(reference_dot(n, n));
            for (int a = 0, m = 0; a < 3; a++)
                for (int b = a; b < 3; b++, m++)
                    t.normals[m] += llround(65536 * n[a] * n[b] / length / length);
        }
        const double rms = check_uniform(0.0005, 0.01);
        t.square = llround(rms * rms * t.n_match * 1048576.0 * 1048576.0);
        t.agree = (int64_t)(check_random() % 100000) - 50000;
        c.match = t.n_match;
        c.tight = t.n_tight;
        c.free = t.n_free;
        c.wrong = t.n_wrong;
        c.plane = t.n_plane;
        c.hidden = t.n_hidden;
        c.crossed = t.n_crossed;
        c.merged = t.n_merged;
        c.ended = o.n_ended;
        c.floor = o.n_floor;
        c.smooth = o.n_smooth;
        c.continued = o.n_continued;
        c.sharp = o.n_sharp;
        c.square_m2 = rms * rms * t.n_match;
        for (int k = 0; k < 6; k++)
            c.normals[k] = (double)t.normals[k] / 65536;
        const double radius = check_uniform(0.05, 0.2), px = 0.004, depth = check_uniform(0.5, 1.5);
        const uint32_t n_cover = 500 + check_random() % 1000;
        for (int which = 0; which < 3; which++) {
            struct search_candidate got = {.t_m = {0, 0, (float)depth}};
            struct score_shares shares;
            float features[SEARCH_N_FEATURES];
            double expected[SCORE_N_FEATURES], unit, gate;
            if (which < 2) { // squares of the radius that a point stands for
                unit = px / radius * px / radius * n_cover / fmax(t.n, 1);
                gate = (which ? 0.03 : 0.15) * radius + 3 * reference_sigma(depth);
                search_conclude_points(which ? SEARCH_SCORE_POINTS : SEARCH_SCORE_LOOSE, &t, &o,
                                       (float)radius, (float)px, n_cover, &got);
            } else {
                unit = depth / 570 / radius * depth / 560 / radius;
                gate = 0.012 * radius + 2.5 * reference_sigma(depth);
                search_conclude_drawn(&scene.camera, &t, &o, (float)radius, &got);
            }
            score_conclude(&c, radius, gate, unit, &shares);
            compare_shares(&got, &shares);
            check_that(got.n_match == t.n_match, "matches");
            close_to(LIMIT_SHARE, (double)got.rms_m, shares.rms_m, "rms");
            close_to(LIMIT_SHARE, (double)got.agree, (double)t.agree / 64, "agreement");
            close_to(LIMIT_SCORE, (double)got.score, score_likelihood(which, &shares), "score");
            search_features(&got, features);
            score_features(&shares, expected);
            for (int k = 0; k < SCORE_N_FEATURES; k++)
                check_close(&limits[LIMIT_SHARE], (double)features[k], expected[k],
                            k == 11 || k >= 15 ? 100 : fabs(expected[k]), "feature");
        }
    }
}

// ---- What is concluded from candidates

// A cross of vertices about the centre, radius 0.1 m; its own unit is a map pixel of 5 mm.
static float axes[3][64];
static struct search_object object = {.info = {.radius_m = 0.1f, .map_px_m = 0.005f},
                                      .n_vertices = 60};

static void make_object(void)
{
    object.x = axes[0];
    object.y = axes[1];
    object.z = axes[2];
    for (int i = 0; i < 60; i++) // an arm each along x, y and z, of different lengths
        axes[i % 3][i] = (float)(i / 3 + 1) * (i % 3 == 0 ? 1 : i % 3 == 1 ? 0.6f : 0.3f);
}

static struct search_candidate candidate(double x, double y, double turn, double score,
                                         double agree)
{
    struct search_candidate c = {
        .t_m = {(float)x, (float)y, 0.8f}, .score = (float)score, .agree = (float)agree};
    const double axis[3] = {0, 0, 1};
    double r[9];
    reference_about(axis, turn, r);
    for (int k = 0; k < 9; k++)
        c.rotation[k] = (float)r[k];
    return c;
}

// Mean distance from each vertex in pose a to the nearest in pose b.
static double apart(const struct search_candidate *a, const struct search_candidate *b)
{
    double sum = 0;
    for (int i = 0; i < 60; i++) {
        double nearest = INFINITY, r[9], p[3], q[3];
        widen(a->rotation, 9, r);
        for (int k = 0; k < 3; k++)
            p[k] = 0.005 * (double)axes[k][i];
        reference_turn(r, p, p);
        for (int j = 0; j < 60; j++) {
            double d2 = 0;
            widen(b->rotation, 9, r);
            for (int k = 0; k < 3; k++)
                q[k] = 0.005 * (double)axes[k][j];
            reference_turn(r, q, q);
            for (int k = 0; k < 3; k++)
                d2 += pow(p[k] + (double)a->t_m[k] - q[k] - (double)b->t_m[k], 2);
            nearest = fmin(nearest, d2);
        }
        sum += sqrt(nearest) / 60;
    }
    return sum;
}

static void check_rivals(void)
{
    check_case("rivals");
    int n_rivals = 0;
    make_object();
    for (int i = 0; i < 800; i++) {
        struct search_candidate c[3];
        double expected = -20, decides = 1;
        for (int k = 0; k < 3; k++)
            c[k] = candidate(check_uniform(-0.08, 0.08), check_uniform(-0.08, 0.08),
                             check_uniform(0, 3), check_uniform(-3, 3), 0);
        for (int k = 1; k < 3; k++) {
            const double way[3] = {(double)(c[k].t_m[0] - c[0].t_m[0]),
                                   (double)(c[k].t_m[1] - c[0].t_m[1]), 0};
            const double there = sqrt(reference_dot(way, way)) - 0.1 * sqrt(2);
            const double contradicts = apart(&c[0], &c[k]) - 0.016;
            decides = fmin(decides, fmin(fabs(there), fabs(contradicts)));
            if (there < 0 && contradicts > 0)
                expected = fmax(expected, (double)(c[k].score - c[0].score));
        }
        if (decides < 1e-6)
            continue;
        n_rivals += expected > -20;
        close_to(LIMIT_FLOAT, (double)search_rival(&object, c, 3, 0), expected, "rival");
    }
    check_that(n_rivals > 200 && n_rivals < 796, "%d with a rival", n_rivals);
    for (int i = 0; i < 500; i++) {
        const struct search_candidate c = {.score = (float)check_uniform(0, 40),
                                           .gate = (float)check_uniform(0.02, 0.2)};
        const double rival = check_uniform(-20, 15);
        close_to(LIMIT_FLOAT, (double)search_confidence(&c, (float)rival),
                 score_confidence((double)c.score, (double)c.gate, rival), "confidence");
    }
}

// The best by score; of those at one place that are nearly as good the one that agrees most, with
// the best one's score. Near ones of what is kept are dropped.
static void check_answers(void)
{
    check_case("answers");
    int n_chosen = 0;
    make_object();
    for (int i = 0; i < 700; i++) {
        struct search_candidate c[5], got[5];
        const uint32_t top = (uint32_t)(i % 3);
        uint32_t n = 5;
        double decides = 1;
        bool gone[5] = {false};
        for (int k = 0; k < 5; k++)
            got[k] = c[k] = candidate(check_uniform(-0.05, 0.05), check_uniform(-0.03, 0.03),
                                      k * 1.1 + check_uniform(0, 0.2), check_uniform(-2, 2),
                                      check_uniform(0, 100));
        const uint32_t n_kept = search_keep_answers(&object, got, n, top);
        uint32_t kept = 0;
        for (; kept < 5; kept++) {
            int best = -1, chosen;
            for (int k = 0; k < 5; k++)
                best = !gone[k] && (best < 0 || c[k].score > c[best].score) ? k : best;
            if (best < 0)
                break;
            chosen = best;
            for (int k = 0; k < 5 && kept < top; k++) {
                const double behind = (double)(c[best].score - c[k].score);
                const double off = apart(&c[best], &c[k]) / 0.1;
                if (gone[k] || k == best)
                    continue;
                decides = fmin(decides, fmin(fabs(behind - 2.5), fabs(behind - 1)));
                decides = fmin(decides, fmin(fabs(off - 0.25), fabs(off - 0.5)));
                if (behind < 2.5 && (off < 0.25 || (off < 0.5 && behind < 1)) &&
                    c[k].agree > c[chosen].agree)
                    chosen = k;
            }
            const struct search_candidate answer = c[chosen];
            n_chosen += chosen != best;
            if (decides > 1e-4 && kept < n_kept) {
                check_that(got[kept].agree == answer.agree, "answer %u", kept);
                check_that(got[kept].score == c[best].score, "score of answer %u", kept);
            }
            gone[chosen] = true;
            for (int k = 0; k < 5; k++) {
                double way2 = 0, trace = 0;
                for (int a = 0; a < 9; a++)
                    trace += (double)(answer.rotation[a] * c[k].rotation[a]);
                for (int a = 0; a < 3; a++)
                    way2 += pow((double)(answer.t_m[a] - c[k].t_m[a]), 2);
                decides = fmin(decides, fabs(sqrt(way2) - 0.03));
                gone[k] = gone[k] || (sqrt(way2) < 0.03 && trace > 1 + 2 * cos(0.26));
            }
        }
        if (decides > 1e-4)
            check_that(n_kept == kept, "%u answers, not %u", n_kept, kept);
    }
    check_that(n_chosen > 25, "%d chosen", n_chosen);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_pixels();
    check_drawn_pixels();
    check_smooth();
    check_outline();
    check_crossings();
    check_points();
    check_scores();
    check_rivals();
    check_answers();
    return check_end();
}

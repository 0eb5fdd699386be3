// SPDX-License-Identifier: Apache-2.0
// The score of the pose search against a reference that shares no formula with it (score.h): every
// rule of a pixel at its limits, a view's points, the features, the weights. The outline:
// check_outline_reference.c; what is concluded from scores: check_confidence_reference.c.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/search/kernels/score.h"
#include "tests/check/check.h"
#include "tests/check/search/reference.h"
#include "tests/check/search/score.h"
#include "tests/check/search/score_scene.h"

static const struct check_limit limits[] = {
    {"float", 1e-5, 1e-5, "a dozen float operations"},
    {"share", 3e-6, 3e-6, "a ratio of counts in float"},
    {"score", 3e-4, 1e-5, "31 products of up to 60, sums of hundredths"},
    {"sum", 1e-4, 0, "integers of 1/65536"},
    {"agreement", 0.02, 1e-4, "cut to 1/64"},
};
enum { LIMIT_FLOAT, LIMIT_SHARE, LIMIT_SCORE, LIMIT_SUM, LIMIT_AGREE };

static void close_to(int limit, double got, double expected, const char *name)
{
    check_close(&limits[limit], got, expected, fabs(expected), name);
}

// ---- One pixel

static void count_pixel(const float s[4], double z, const double n[3], double gate_m,
                        struct score_counts *c)
{
    double wide[4];
    reference_widen(s, 4, wide);
    const double d = fabs(wide[3]) - z;
    c->n++;
    switch (score_pixel(wide, z, n, gate_m)) {
    case SCORE_PIXEL_HIDDEN:
        c->hidden++;
        c->just += wide[3] != 0 && d > -4 * gate_m;
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

static bool counts_match(const float s[4], double z, const double n[3], double gate_m)
{
    double wide[4];
    reference_widen(s, 4, wide);
    return score_pixel(wide, z, n, gate_m) == SCORE_PIXEL_MATCH;
}

static bool normal_decides(const float s[4], const double n[3])
{
    double wide[4];
    reference_widen(s, 4, wide);
    return fabs(reference_dot(wide, n) - 0.7) < 1e-5;
}

static void compare_counts(const struct search_tally *t, const struct score_counts *c)
{
    check_that(t->n == c->n && t->n_match == c->match && t->n_tight == c->tight &&
                   t->n_free == c->free && t->n_wrong == c->wrong && t->n_plane == c->plane &&
                   t->n_hidden == c->hidden && t->n_just == c->just,
               "%u: %u match %u tight %u free %u wrong %u plane %u hidden %u just", t->n,
               t->n_match, t->n_tight, t->n_free, t->n_wrong, t->n_plane, t->n_hidden, t->n_just);
}

static void check_pixels(void)
{
    check_case("pixels");
    struct score_counts all = {0};
    for (int i = 0; i < 8000; i++) {
        const double z = check_uniform(0.5, 1.5), gate = check_uniform(0.005, 0.05);
        double n[3];
        float s[4], narrow[3];
        check_direction(n);
        score_scene_pixel(z, gate, n, s);
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
        reference_widen(s, 4, wide);
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
        check_direction(n);
        if (reference_dot(n, ray) > 0)
            for (int k = 0; k < 3; k++)
                n[k] = -n[k];
        const double slant = fmax(-reference_dot(n, ray), 0.3);
        const double gate = (0.012 * radius + 2.5 * reference_sigma(z)) / slant;
        float s[4], fn[3], fray[3];
        score_scene_pixel(z, gate, n, s);
        for (int k = 0; k < 3; k++) {
            fn[k] = (float)n[k];
            fray[k] = (float)ray[k];
        }
        if (normal_decides(s, n))
            continue;
        struct search_tally tally = {0};
        struct score_counts counts = {0};
        double wide[4];
        reference_widen(s, 4, wide);
        const float match_gate = search_score_drawn(s, (float)z, fn, fray, (float)radius, &tally);
        close_to(LIMIT_FLOAT, (double)match_gate, counts_match(s, z, n, gate) ? gate : 0, "gate");
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
        check_direction(axis);
        reference_about(axis, check_uniform(0, 3), r);
        check_direction(m);
        for (int k = 0; k < 9; k++)
            c.rotation[k] = (float)r[k];
        for (int k = 0; k < 3; k++)
            p[k] = check_uniform(-0.03, 0.03);
        reference_turn(r, p, q);
        reference_turn(r, m, n);
        for (int k = 0; k < 3; k++)
            q[k] += t[k];
        const double gate = share * radius + 3 * reference_sigma(q[2]);
        score_scene_fill(q[2], gate, n);
        const int at = reference_pixel(&score_camera, q, &margin);
        if (margin < 1e-3 || (at >= 0 && normal_decides(score_normal_z + 4 * at, n)))
            continue;
        const float nothing[4] = {0}, fp[3] = {(float)p[0], (float)p[1], (float)p[2]};
        const float fm[3] = {(float)m[0], (float)m[1], (float)m[2]};
        struct search_tally tally = {0};
        struct score_counts counts = {0};
        search_score_point(&score_scene, &c, fp, fm, which, (float)radius, &tally);
        count_pixel(at < 0 ? nothing : score_normal_z + 4 * at, q[2], n, gate, &counts);
        compare_counts(&tally, &counts);

        // The ring: a point outside and one inside, gates half as wide again.
        double inner[3], in[3], inside[4], outside[4], ray_in[3], ray_out[3];
        for (int k = 0; k < 3; k++)
            inner[k] = p[k] + check_uniform(-0.006, 0.006);
        reference_turn(r, inner, in);
        for (int k = 0; k < 3; k++)
            in[k] += t[k];
        const double wide = 1.5 * (share * radius + 3 * reference_sigma(in[2]));
        score_scene_fill(in[2], wide, n);
        const int at_in = reference_pixel(&score_camera, in, &margin);
        if (margin < 1e-3)
            continue;
        const float fin[3] = {(float)inner[0], (float)inner[1], (float)inner[2]};
        struct search_outline outline = {0};
        memset(&counts, 0, sizeof counts);
        search_score_ring(&score_scene, &c, fp, fin, which, (float)radius, &outline);
        if (at < 0 || at_in < 0) {
            counts.outline = 1;
        } else {
            score_scene_at(at_in % SCORE_WIDTH, at_in / SCORE_WIDTH, inside, ray_in);
            score_scene_at(at % SCORE_WIDTH, at / SCORE_WIDTH, outside, ray_out);
            score_count_beyond(
                score_beyond(inside, outside, ray_in, ray_out, in[2], NULL, in[2], wide), &counts);
        }
        score_compare_outline(&outline, &counts);
    }
}

// ---- Shares, features, score

static void compare_shares(const struct search_candidate *c, const struct score_shares *s)
{
    const float got[] = {c->match,  c->tight,  c->free,    c->wrong, c->plane,
                         c->hidden, c->ended,  c->smooth,  c->floor, c->continued,
                         c->sharp,  c->merged, c->area,    c->gate,  c->spread,
                         c->volume, c->shown,  c->edged,   c->just,  c->rough,
                         c->agreed, c->told,   c->crossed, c->jumps, c->deep};
    const double expected[] = {s->match,  s->tight,  s->free,    s->wrong, s->plane,
                               s->hidden, s->ended,  s->smooth,  s->floor, s->continued,
                               s->sharp,  s->merged, s->area,    s->gate,  s->spread,
                               s->volume, s->shown,  s->edged,   s->just,  s->rough,
                               s->agreed, s->told,   s->crossed, s->jumps, s->deep};
    static const char *const names[] = {
        "match",     "tight", "free",   "wrong", "plane",   "hidden", "ended",  "smooth", "floor",
        "continued", "sharp", "merged", "area",  "gate",    "spread", "volume", "shown",  "edged",
        "just",      "rough", "agreed", "told",  "crossed", "jumps",  "deep"};
    for (size_t k = 0; k < sizeof got / sizeof *got; k++)
        close_to(LIMIT_SHARE, (double)got[k], expected[k], names[k]);
}

// Counts as an image may give them, drawn at random; every 50th model is not there at all.
static struct score_counts draw_counts(int i, struct search_tally *out_tally,
                                       struct search_outline *out_outline)
{
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
    t.n_jumps = check_random() % 200;
    t.n_shown = check_random() % (t.n_jumps + 1);
    t.n_deep = check_random() % (t.n_match + 1);
    t.n_just = check_random() % (t.n_hidden + 1);
    for (uint32_t k = 0; k < t.n_match; k++) {
        double n[3];
        check_direction(n);
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
    c.jumps = t.n_jumps;
    c.shown = t.n_shown;
    c.deep = t.n_deep;
    c.just = t.n_just;
    c.agree = (double)t.agree / 64;
    c.ended = o.n_ended;
    c.floor = o.n_floor;
    c.smooth = o.n_smooth;
    c.continued = o.n_continued;
    c.sharp = o.n_sharp;
    c.square_m2 = rms * rms * t.n_match;
    for (int k = 0; k < 6; k++)
        c.normals[k] = (double)t.normals[k] / 65536;
    *out_tally = t;
    *out_outline = o;
    return c;
}

// A model of this radius [m] and distance, judged as search_evidence `which`.
static void check_score(int which, const struct score_counts *c, const struct search_tally *t,
                        const struct search_outline *o, double radius, double depth,
                        uint32_t n_cover)
{
    const double px = 0.004;
    struct search_candidate got = {.t_m = {0, 0, (float)depth}};
    struct score_shares shares;
    float features[SEARCH_N_FEATURES];
    double expected[SCORE_N_FEATURES], unit, gate;
    if (which < 2) { // squares of the radius that a point stands for
        unit = px / radius * px / radius * n_cover / fmax(t->n, 1);
        gate = (which ? 0.03 : 0.15) * radius + 3 * reference_sigma(depth);
        search_conclude_points(which ? SEARCH_SCORE_POINTS : SEARCH_SCORE_LOOSE, t, o,
                               (float)radius, (float)px, n_cover, &got);
    } else {
        unit = depth / 570 / radius * depth / 560 / radius;
        gate = 0.012 * radius + 2.5 * reference_sigma(depth);
        search_conclude_drawn(&score_scene.camera, t, o, (float)radius, &got);
    }
    score_conclude(c, radius, gate, unit, &shares);
    compare_shares(&got, &shares);
    check_that(got.n_match == t->n_match, "matches");
    close_to(LIMIT_SHARE, (double)got.rms_m, shares.rms_m, "rms");
    close_to(LIMIT_SHARE, (double)got.agree, (double)t->agree / 64, "agreement");
    search_features(&got, features);
    close_to(LIMIT_SCORE, (double)got.score, score_likelihood(which, &shares, features), "score");
    score_features(&shares, expected);
    for (int k = 0; k < SCORE_N_FEATURES; k++)
        check_close(&limits[LIMIT_SHARE], (double)features[k], expected[k],
                    k == 11 || k >= 15 ? 100 : fabs(expected[k]), "feature");
}

static void check_scores(void)
{
    check_case("scores");
    for (int i = 0; i < 1000; i++) {
        struct search_tally t;
        struct search_outline o;
        const struct score_counts c = draw_counts(i, &t, &o);
        const double radius = check_uniform(0.05, 0.2), depth = check_uniform(0.5, 1.5);
        const uint32_t n_cover = 500 + check_random() % 1000;
        for (int which = 0; which < 3; which++)
            check_score(which, &c, &t, &o, radius, depth, n_cover);
    }
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_pixels();
    check_drawn_pixels();
    check_points();
    check_scores();
    return check_end();
}

// SPDX-License-Identifier: Apache-2.0
// The score's outline against a reference that shares no formula with it (score.h): what counts as
// one smooth surface, what lies beyond an edge of the drawn model, where one part hides another.
#include <math.h>
#include <string.h>

#include "tests/check/check.h"
#include "tests/check/search/score_scene.h"

// Two pixels of one surface: b in the plane of a but for `off` sigmas, turned by an angle.
static void make_surface(int u_a, int v_a, int u_b, int v_b, double z, double off_m, double cosine)
{
    double n[3] = {0.2, -0.1, -0.97}, a[4], b[4], ray_a[3], ray_b[3], axis[3], turn[9], turned[3];
    const double length = sqrt(reference_dot(n, n));
    for (int k = 0; k < 3; k++)
        n[k] /= length;
    score_scene_at(u_a, v_a, a, ray_a);
    score_scene_at(u_b, v_b, b, ray_b);
    const double plane = z * reference_dot(n, ray_a) + off_m;
    axis[0] = -n[1];
    axis[1] = n[0];
    axis[2] = 0;
    const double across = sqrt(reference_dot(axis, axis));
    for (int k = 0; k < 3; k++)
        axis[k] /= across;
    reference_about(axis, acos(cosine), turn);
    reference_turn(turn, n, turned);
    float *to_a = score_normal_z + 4 * (v_a * SCORE_WIDTH + u_a),
          *to_b = score_normal_z + 4 * (v_b * SCORE_WIDTH + u_b);
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
            memset(score_normal_z, 0, sizeof score_normal_z);
            make_surface(10, 12, 14, 12, z, i / 4 ? off : -off, cosine);
            score_scene_at(10, 12, a, ray_a);
            score_scene_at(14, 12, b, ray_b);
            float fa[3], fb[3];
            for (int k = 0; k < 3; k++) {
                fa[k] = (float)ray_a[k];
                fb[k] = (float)ray_b[k];
            }
            const float *pa = score_normal_z + 4 * (12 * SCORE_WIDTH + 10), *pb = pa + 16;
            check_that(search_is_smooth(pa, pb, fa, fb, (float)least, 2 * search_sigma((float)z)) ==
                           smooth,
                       "%d", i);
            check_that(score_smooth(a, b, ray_a, ray_b, least, 2 * reference_sigma(z)) == smooth,
                       "reference %d", i);
            // The same as the border of what hides.
            struct search_tally tally = {0};
            search_score_border(&score_scene, 10, 12, 14, 12, (float)z, pa, &tally);
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
        score_scene_fill(z, gate, like);
        if (i % 3 == 0)
            make_surface(u - in * du[k], v - in * dv[k], u + 4 * du[k], v + 4 * dv[k], z,
                         check_uniform(-3, 3) * reference_sigma(z), check_uniform(0.8, 1));
        const double z_in = z + check_uniform(-0.5, 0.5) * gate;
        // The model's normal inside: as the image's in most cases, or turned from it.
        double facing[3];
        const bool turned = i % 5 == 0;
        score_scene_at(u - in * du[k], v - in * dv[k], inside, ray_in);
        for (int j = 0; j < 3; j++)
            facing[j] = inside[j] + (turned ? check_uniform(-0.8, 0.8) : 0);
        if (fabs(reference_dot(facing, inside) - 0.85) < 1e-4)
            continue;
        const float facing_float[3] = {(float)facing[0], (float)facing[1], (float)facing[2]};
        struct search_outline outline = {0};
        struct score_counts c = {0};
        search_score_edge(&score_scene, u, v, du[k], dv[k], in, (float)z_in, facing_float, (float)z,
                          (float)radius, &outline);
        score_scene_at(u + 4 * du[k], v + 4 * dv[k], outside, ray_out);
        score_scene_at(u + 2 * du[k], v + 2 * dv[k], sharp, ray);
        const double off = fabs(fabs(inside[3]) - z_in) - gate;
        if (fabs(off) < 1e-6)
            continue;
        score_count_beyond(score_beyond(inside, outside, ray_in, ray_out, z_in, facing, z, gate),
                           &c);
        c.sharp = inside[3] != 0 && off <= 0 && score_behind(sharp, z, gate);
        score_compare_outline(&outline, &c);
        all.ended += c.ended;
        all.floor += c.floor;
        all.smooth += c.smooth;
        all.continued += c.continued;
        all.sharp += c.sharp;
        // How far inwards the first measured pixel is, five at most.
        int nearest = 1;
        while (
            nearest < 5 &&
            score_normal_z[4 * ((v - nearest * dv[k]) * SCORE_WIDTH + u - nearest * du[k]) + 3] ==
                0)
            nearest++;
        check_that(search_score_inside(&score_scene, u, v, du[k], dv[k]) == nearest, "inside");
    }
    check_that(all.ended > 100 && all.floor > 30 && all.smooth > 30 && all.continued > 30 &&
                   all.sharp > 100,
               "all kinds: %g %g %g %g %g", all.ended, all.floor, all.smooth, all.continued,
               all.sharp);
}

// The first pixel matches and the one 8 px to the right or below is hidden, or the other way round;
// where the surface that matches faces as the model does it is asked whether it goes on.
static void check_crossings(void)
{
    check_case("crossings");
    struct score_counts all = {0};
    uint32_t n_turned_away = 0;
    for (int i = 0; i < 4000; i++) {
        const double z = check_uniform(0.5, 1.2), radius = check_uniform(0.05, 0.2);
        const double gate = 0.012 * radius + 2.5 * reference_sigma(z), like[3] = {0.2, -0.1, -0.97};
        const bool below = i % 2;
        const int u = 5 + i % 16, v = 5 + i % 11, u2 = u + (below ? 0 : 8),
                  v2 = v + (below ? 8 : 0);
        double here[4], next[4], ray[3], ray_next[3], n[3];
        score_scene_fill(z, gate, like);
        if (i % 3 == 0)
            make_surface(u, v, u2, v2, z, check_uniform(-3, 3) * reference_sigma(z),
                         check_uniform(0.75, 1));
        score_scene_at(u, v, here, ray);
        score_scene_at(u2, v2, next, ray_next);
        const double z_next = i % 6 ? z + check_uniform(-0.3, 0.3) * gate
                                    : fabs(next[3]) + check_uniform(1, 4) * gate;
        const double d = fabs(here[3]) - z, d_next = fabs(next[3]) - z_next;
        const bool into = fabs(d) < gate && d_next < -2 * gate;
        const bool out_of = fabs(d_next) < gate && d < -2 * gate;
        const bool crossed = here[3] != 0 && next[3] != 0 && (into || out_of);
        if (fabs(fabs(d_next) - gate) < 1e-6 || fabs(d_next + 2 * gate) < 1e-6)
            continue;
        check_that(search_score_cross(&score_scene, u, v, below, (float)z, (float)z_next,
                                      (float)radius) == (!crossed ? 0
                                                         : into   ? 1
                                                                  : -1),
                   "crossed");
        if (!crossed)
            continue;
        // The model's normal there: as the surface's, but for up to an angle of 0.9.
        const double *match = into ? here : next;
        double axis[3], turn[9];
        check_direction(axis);
        reference_about(axis, check_uniform(0, 0.9), turn);
        reference_turn(turn, match, n);
        const double cosine = reference_dot(n, match);
        if (fabs(cosine - 0.85) < 1e-5)
            continue;
        const bool asked = cosine > 0.85;
        const bool merged =
            asked &&
            (into ? score_smooth(here, next, ray, ray_next, 0.85, 2 * reference_sigma(z))
                  : score_smooth(next, here, ray_next, ray, 0.85, 2 * reference_sigma(z_next)));
        struct search_tally tally = {0};
        const float narrow[3] = {(float)n[0], (float)n[1], (float)n[2]};
        search_score_border(&score_scene, into ? u : u2, into ? v : v2, into ? u2 : u,
                            into ? v2 : v, into ? (float)z : (float)z_next, narrow, &tally);
        check_that(tally.n_crossed == asked && tally.n_merged == merged, "crossed %u, merged %u",
                   tally.n_crossed, tally.n_merged);
        all.crossed += asked;
        all.merged += merged;
        n_turned_away += !asked;
    }
    check_that(all.crossed > 150 && all.merged > 10 && n_turned_away > 50,
               "%g crossings, %g merged, %u turned away", all.crossed, all.merged, n_turned_away);
}

// One part of the model six gates or more behind another: the image has it within two.
static void check_jumps(void)
{
    check_case("jumps");
    uint32_t n_of[3] = {0};
    for (int i = 0; i < 4000; i++) {
        const double z = check_uniform(0.5, 1.2), gate = check_uniform(0.003, 0.02);
        const double z_far = z + check_uniform(4, 9) * gate;
        const double off = check_uniform(-4, 4), far_m = i % 9 == 0 ? 0 : z_far + off * gate;
        const double far[4] = {0, 0, -1, i % 2 ? far_m : -far_m};
        float narrow[4];
        reference_narrow(far, 4, narrow);
        if (fabs(z_far - z - 6 * gate) < 1e-6 || fabs(fabs(off) - 2) * gate < 1e-6)
            continue;
        struct search_tally tally = {0};
        const int expected = score_jump(far[3], z, z_far, gate);
        search_score_jump(narrow, (float)z, (float)z_far, (float)gate, &tally);
        check_that(tally.n_jumps == (expected > 0) && tally.n_shown == (expected > 1),
                   "%u jumps, %u shown, for %d", tally.n_jumps, tally.n_shown, expected);
        n_of[expected]++;
    }
    check_that(n_of[0] > 500 && n_of[1] > 500 && n_of[2] > 500, "%u %u %u", n_of[0], n_of[1],
               n_of[2]);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_smooth();
    check_outline();
    check_crossings();
    check_jumps();
    return check_end();
}

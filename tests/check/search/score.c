// SPDX-License-Identifier: Apache-2.0
#include "tests/check/search/score.h"

#include <math.h>

#include "gpu/search/kernels/score_trees.h"
#include "tests/check/search/reference.h"

enum score_pixel score_pixel(const double scene[4], double z, const double n[3], double gate_m)
{
    const double d = fabs(scene[3]) - z;
    const bool measured = scene[3] != 0;
    const bool faces = scene[0] != 0 || scene[1] != 0 || scene[2] != 0;
    if (!measured || d < -2 * gate_m)
        return SCORE_PIXEL_HIDDEN;
    if (d > gate_m)
        return SCORE_PIXEL_FREE;
    if (scene[3] < 0)
        return SCORE_PIXEL_PLANE;
    if (d < -gate_m || (faces && reference_dot(n, scene) < 0.7))
        return SCORE_PIXEL_WRONG;
    return SCORE_PIXEL_MATCH;
}

// A pixel without measurement holds what lies there in its first number, 0: unknown.
bool score_behind(const double scene[4], double z, double gate_m)
{
    const double depth = scene[3] == 0 ? scene[0] : fabs(scene[3]);
    return depth == 0 || depth - z > gate_m;
}

bool score_smooth(const double a[4], const double b[4], const double ray_a[3],
                  const double ray_b[3], double cosine, double off_m)
{
    double way[3];
    for (int k = 0; k < 3; k++)
        way[k] = ray_b[k] * fabs(b[3]) - ray_a[k] * fabs(a[3]);
    return reference_dot(a, a) > 0.5 && reference_dot(a, b) > cosine &&
           fabs(reference_dot(a, way)) < off_m;
}

enum score_beyond score_beyond(const double inside[4], const double outside[4],
                               const double ray_in[3], const double ray_out[3], double z_in,
                               const double *facing, double z, double gate_m)
{
    if (inside[3] == 0 || fabs(fabs(inside[3]) - z_in) > gate_m)
        return SCORE_BEYOND_UNKNOWN;
    if (score_behind(outside, z, gate_m))
        return SCORE_BEYOND_ENDED;
    if (outside[3] == 0 || fabs(outside[3]) < z - gate_m)
        return SCORE_BEYOND_UNKNOWN;
    if (outside[3] < 0)
        return SCORE_BEYOND_FLOOR;
    if (facing && reference_dot(facing, inside) < 0.85)
        return SCORE_BEYOND_CONTINUED;
    return score_smooth(inside, outside, ray_in, ray_out, 0.9, 2 * reference_sigma(z))
               ? SCORE_BEYOND_SMOOTH
               : SCORE_BEYOND_CONTINUED;
}

double score_agrees(const double scene[4], double z, double slant, double gate_m)
{
    const double d = fabs(scene[3]) - z, sigmas = d * slant / reference_sigma(z);
    const bool table = scene[3] < 0 && fabs(d) < gate_m;
    return scene[3] == 0 || d < -2 * gate_m || table ? 0 : fmax(6 - sigmas * sigmas, -6);
}

int score_jump(double far_m, double z, double z_far, double gate_m)
{
    if ((z_far - z) / gate_m < 6)
        return 0;
    return fabs(far_m) > z_far - 2 * gate_m && fabs(far_m) < z_far + 2 * gate_m ? 2 : 1;
}

static double determinant(const double m[6])
{
    const double rows[3][3] = {{m[0], m[1], m[2]}, {m[1], m[3], m[4]}, {m[2], m[4], m[5]}};
    double across[3];
    reference_cross(rows[1], rows[2], across);
    return reference_dot(rows[0], across);
}

void score_conclude(const struct score_counts *counts, double radius_m, double gate_m, double unit,
                    struct score_shares *out)
{
    const struct score_counts *c = counts;
    const double n = fmax(c->n, 1);
    // Little can be told: as if a quarter of the outline could.
    const double told =
        fmax(c->ended + c->floor + c->smooth + c->continued, floor(c->outline / 4) + 1);
    double m[6];
    for (int k = 0; k < 6; k++)
        m[k] = c->normals[k] / (c->match + 1);
    out->match = c->match / n;
    out->tight = c->tight / (c->match + 0.01 * n);
    out->free = c->free / n;
    out->wrong = c->wrong / n;
    out->plane = c->plane / n;
    out->hidden = c->hidden / n;
    out->rms_m = c->match > 0 ? sqrt(c->square_m2 / c->match) : 0;
    out->ended = c->ended / (c->outline + 1);
    out->sharp = c->sharp / (c->outline + 1);
    out->continued = c->continued / told;
    out->smooth = c->smooth / told;
    out->floor = c->floor / told;
    out->merged = c->merged / (c->crossed + 20);
    out->shown = c->shown / (c->jumps + 20);
    out->edged = c->ended * sqrt(unit); // unit: a pixel's area
    // The sum of the principal minors, and the determinant.
    out->spread = m[0] * m[3] - m[1] * m[1] + m[0] * m[5] - m[2] * m[2] + m[3] * m[5] - m[4] * m[4];
    out->volume = fmax(determinant(m), 0);
    out->area = c->match * unit;
    out->deep = c->deep * unit;
    out->gate = gate_m / radius_m;
    out->rough = out->rms_m / gate_m;
    out->just = c->just / n;
    out->agreed = c->agree / n;
    out->told = (c->ended + c->floor + c->smooth + c->continued) / (c->outline + 1);
    out->crossed = c->crossed / n;
    out->jumps = c->jumps / n;
}

void score_features(const struct score_shares *shares, double out[SCORE_N_FEATURES])
{
    const struct score_shares *s = shares;
    const double features[SCORE_N_FEATURES] = {sqrt(s->area),
                                               s->tight,
                                               s->free,
                                               s->wrong,
                                               s->plane,
                                               s->continued,
                                               s->ended,
                                               s->smooth,
                                               s->gate,
                                               s->free / (s->match + 0.05),
                                               s->wrong / (s->match + 0.05),
                                               sqrt(s->ended),
                                               s->floor,
                                               s->merged,
                                               s->sharp,
                                               sqrt(s->sharp),
                                               s->spread,
                                               sqrt(s->volume),
                                               pow(s->area, 0.25),
                                               s->match,
                                               sqrt(s->shown),
                                               sqrt(s->edged),
                                               1,
                                               s->hidden,
                                               s->rough,
                                               s->agreed,
                                               s->told,
                                               sqrt(s->crossed),
                                               sqrt(s->jumps),
                                               sqrt(s->deep),
                                               sqrt(s->just)};
    for (int k = 0; k < SCORE_N_FEATURES; k++)
        out[k] = features[k];
}

// A question is answered yes above its number; the first one weighs most in the leaf's number.
static double trees_worth(const float *single)
{
    double hundredths = 0;
    for (uint32_t k = 0; k < SEARCH_N_TREES; k++) {
        const struct search_tree *t = search_tree_at(k);
        const bool a = single[t->feature[0]] > t->above[0], b = single[t->feature[1]] > t->above[1];
        const bool c = single[t->feature[2]] > t->above[2];
        hundredths += t->worth[(a ? 4 : 0) + (b ? 2 : 0) + (c ? 1 : 0)];
    }
    return hundredths / 100;
}

double score_likelihood(int which, const struct score_shares *shares, const float *single)
{
    static const double weights[3][SCORE_N_FEATURES] = {
        // area, tight, free, wrong, plane, continued, ended, smooth, gate, free and wrong over
        // match, root of ended, floor
        {2, 10.1, -16.1, -8.4, -6.9, -1.6, -0.9, -14.5, -7.3, 1.4, 0.6, 10.3, -8.5},
        {10.1, 10.2, -18.3, 0.3, -9.6, -5.2, -0.4, -26.3, -2.6, -1.8, -4.3, 11, -8.8, [19] = -4.5},
        // and merged, sharp, its root, spread, root of volume, fourth root of area, match, roots of
        // shown and edged, 1, hidden, rough, agreed, told, roots of crossed, jumps, deep and just
        {-3.5, 4.5, -4.7, -3.3, 0.5, 1.4, -4,   -11.5, -9.8, 0.9, -1.7, -8.7, -1.4, -6.5, 8.2, 6.7,
         3.9,  7.6, 1.2,  -2.5, 4.8, 6.3, -9.6, 0.5,   2.1,  0.7, -5.3, 1.6,  1,    3.7,  -5.6},
    };
    double features[SCORE_N_FEATURES], sum = 0;
    score_features(shares, features);
    for (int k = 0; k < SCORE_N_FEATURES; k++)
        sum += weights[which][k] * features[k];
    return which == 2 ? sum + trees_worth(single) : sum;
}

double score_confidence(double score, double rival, double goes_on)
{
    const double logit = -3.17 + 0.83 * score - 1.70 * log1p(exp(fmin(rival, 10))) - 1.81 * goes_on;
    return 1 / (1 + exp(-logit));
}

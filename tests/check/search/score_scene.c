// SPDX-License-Identifier: Apache-2.0
#include "tests/check/search/score_scene.h"

#include <math.h>

#include "tests/check/check.h"

float score_normal_z[4 * SCORE_WIDTH * SCORE_HEIGHT];
const struct search_scene score_scene = {score_normal_z,
                                         {570, -560, 19.5f, 14.25f, SCORE_WIDTH, SCORE_HEIGHT}};
const struct reference_camera score_camera = {570, -560, 19.5, 14.25, SCORE_WIDTH, SCORE_HEIGHT};

void score_scene_pixel(double z, double gate_m, const double like[3], float out[4])
{
    static const double limits_at[] = {0, 0.4, -0.4, 1, -1, -2, 3, -4};
    const double off = limits_at[check_random() % 8] + (check_random() % 2 ? 0.004 : -0.004);
    const double depth = z + off * gate_m;
    double n[3];
    check_direction(n);
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

void score_scene_fill(double z, double gate_m, const double like[3])
{
    for (int i = 0; i < SCORE_WIDTH * SCORE_HEIGHT; i++)
        score_scene_pixel(z, gate_m, like, score_normal_z + 4 * i);
}

void score_scene_at(int u, int v, double out[4], double ray[3])
{
    reference_widen(score_normal_z + 4 * (v * SCORE_WIDTH + u), 4, out);
    ray[0] = (u - score_camera.cx) / score_camera.fx;
    ray[1] = (v - score_camera.cy) / score_camera.fy;
    ray[2] = 1;
}

void score_count_beyond(enum score_beyond beyond, struct score_counts *c)
{
    c->outline++;
    c->ended += beyond == SCORE_BEYOND_ENDED;
    c->floor += beyond == SCORE_BEYOND_FLOOR;
    c->smooth += beyond == SCORE_BEYOND_SMOOTH;
    c->continued += beyond == SCORE_BEYOND_CONTINUED;
}

void score_compare_outline(const struct search_outline *o, const struct score_counts *c)
{
    check_that(o->n == c->outline && o->n_ended == c->ended && o->n_floor == c->floor &&
                   o->n_smooth == c->smooth && o->n_continued == c->continued &&
                   o->n_sharp == c->sharp,
               "%u: %u ended %u floor %u smooth %u continued %u sharp", o->n, o->n_ended,
               o->n_floor, o->n_smooth, o->n_continued, o->n_sharp);
}

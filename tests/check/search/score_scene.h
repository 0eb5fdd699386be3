// SPDX-License-Identifier: Apache-2.0
// A small image around all limits of the score, for the checks of its rules against score.h.
#ifndef POSED_TESTS_CHECK_SEARCH_SCORE_SCENE_H
#define POSED_TESTS_CHECK_SEARCH_SCORE_SCENE_H

#include "gpu/search/kernels/score.h"
#include "tests/check/search/reference.h"
#include "tests/check/search/score.h"

#define SCORE_WIDTH  40
#define SCORE_HEIGHT 30
extern float score_normal_z[4 * SCORE_WIDTH * SCORE_HEIGHT];
extern const struct search_scene score_scene;      // of score_normal_z
extern const struct reference_camera score_camera; // the same camera

// A pixel of the scene, its depth off by so many gates from z: around all limits, 0.4 % to either
// side of them.
void score_scene_pixel(double z, double gate_m, const double like[3], float out[4]);
void score_scene_fill(double z, double gate_m, const double like[3]);

// Normal and depth of a pixel, and its ray.
void score_scene_at(int u, int v, double out[4], double ray[3]);

void score_count_beyond(enum score_beyond beyond, struct score_counts *counts);
void score_compare_outline(const struct search_outline *got, const struct score_counts *expected);

#endif

// SPDX-License-Identifier: Apache-2.0
// The score of the pose search from the words of gpu/search/kernels/score.h, in double precision:
// what an image's pixel says about a pose, the shares of them, the features, the weights. Includes
// no formula of it.
//
// The weights stand here a second time, as they were fitted (posed-bench search --fit): who refits
// changes both, and the logistic curve. The trees' numbers are read from the table itself.
#ifndef POSED_TESTS_CHECK_SEARCH_SCORE_H
#define POSED_TESTS_CHECK_SEARCH_SCORE_H

#include <stdbool.h>

#define SCORE_N_FEATURES 31

enum score_pixel {
    SCORE_PIXEL_HIDDEN, // no measurement, or something more than two gates in front
    SCORE_PIXEL_FREE,   // the image looks through
    SCORE_PIXEL_PLANE,  // a plane larger than the object
    SCORE_PIXEL_WRONG,  // a surface in front or that faces elsewhere
    SCORE_PIXEL_MATCH,
};

enum score_beyond {
    SCORE_BEYOND_UNKNOWN, // the image does not show the model inside, or something is in front
    SCORE_BEYOND_ENDED,
    SCORE_BEYOND_FLOOR,
    SCORE_BEYOND_SMOOTH,
    SCORE_BEYOND_CONTINUED,
};

// Counts of a verdict.
struct score_counts {
    double n, match, tight, free, wrong, plane, hidden, square_m2, crossed, merged;
    double jumps, shown, deep, just, agree;
    double normals[6]; // sum n n^T of what matches, upper triangle
    double outline, ended, floor, smooth, continued, sharp;
};

// The candidate's shares.
struct score_shares {
    double match, tight, free, wrong, plane, hidden, ended, continued, smooth, floor, sharp, merged;
    double spread, volume, area, gate, rms_m, shown, edged;
    double just, rough, agreed, told, crossed, jumps, deep;
};

// scene: normal and depth (negative: on a plane larger than the object; 0: none).
enum score_pixel score_pixel(const double scene[4], double z, const double n[3], double gate_m);

bool score_behind(const double scene[4], double z, double gate_m);
bool score_smooth(const double a[4], const double b[4], const double ray_a[3],
                  const double ray_b[3], double cosine, double off_m);
// facing: the model's normal inside, NULL: not asked. A surface that goes on smoothly where the
// image faces otherwise than the model is one that touches.
enum score_beyond score_beyond(const double inside[4], const double outside[4],
                               const double ray_in[3], const double ray_out[3], double z_in,
                               const double *facing, double z, double gate_m);

// What a pixel adds to the sum of agreement: 6 for a perfect one, less the square of how many
// sigmas it is off, no less than -6; 0 where it says nothing.
double score_agrees(const double scene[4], double z, double slant, double gate_m);

// A pixel that matches the model at z, and the image beside it, where the model is drawn at z_far:
// 0 nothing is asked, 1 one part hides another, 2 and the image shows the far one.
int score_jump(double far_m, double z, double z_far, double gate_m);

void score_conclude(const struct score_counts *counts, double radius_m, double gate_m, double unit,
                    struct score_shares *out);
void score_features(const struct score_shares *shares, double out[SCORE_N_FEATURES]);

// which: 0 loose, 1 points, 2 drawn. single: the features as the program has them, for the trees'
// questions, which are decided by a hair's breadth.
double score_likelihood(int which, const struct score_shares *shares, const float *single);

// goes_on: of what can be told of the outline, where the surface does.
double score_confidence(double score, double rival, double goes_on);

#endif

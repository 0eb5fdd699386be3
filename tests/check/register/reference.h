// SPDX-License-Identifier: Apache-2.0
// Registration from the papers' formulas, in double precision, with whole matrices and lists of
// pairs: what the operations of both twins are held against. Includes none of their formulas.
//
// EM-ICP: Tamaki et al. 2010, eq. 8-11, with eq. 9 as it must be (C_i = exp(-d_0^2 / sigma^2) +
// sum_k exp(-d_ik^2 / sigma^2)). Softassign: Gold et al. 1998, with a slack row and column. ICP:
// Besl and McKay 1992, point to plane Chen and Medioni 1992. Rotation: the quaternion that
// maximises sum w x . (q y q*), by Jacobi's method on the form's own matrix, built from products of
// quaternions.
#ifndef POSED_TESTS_CHECK_REGISTER_REFERENCE_H
#define POSED_TESTS_CHECK_REGISTER_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu/register/ops.h" // settings and results: plain data

struct reference_pair {
    double w, x[3], y[3], n[3]; // y is to be moved onto x; n: the plane at x, 0: none
};

struct reference_pairs {
    size_t n;
    struct reference_pair *pair;
};

// How the steps at one sigma went so far.
struct reference_pace {
    double last[6], last_square, ratio;
    int n_steps; // since the beginning or the last leap
};

// The rotation about the pairs' weighted centres and the translation that move the y onto the x.
// Returns the gap between the two largest eigenvalues, in units of the largest: 0 is undetermined.
double reference_points_step(const struct reference_pairs *pairs, struct se3 *out);

// One Gauss-Newton step of sum w (n . (y - x))^2. Returns the smallest pivot over the largest.
double reference_planes_step(const struct reference_pairs *pairs, struct se3 *out);

// exp of a 4x4 of a twist (v, w), by scaling and squaring of the series.
struct se3 reference_exp(const double twist[6]);

// sum w J^T J, J = d (exp(twist) y) / d twist, row-major.
void reference_information(const struct reference_pairs *pairs, double out[36]);

// sum w (motion a of y) . (motion b of y).
double reference_motion(const struct reference_pairs *pairs, const double a[6], const double b[6]);

// sum w |x - y|^2 / sum w, and sum w.
double reference_residual2(const struct reference_pairs *pairs, double *out_mass);

void reference_pace_begin(struct reference_pace *pace);

// Takes the step that *T was just moved by; may leap on. Returns what is left of the way in
// standard deviations of the pose: a geometric series with the ratio of the last two steps, held
// between 0.5 and 0.97.
double reference_pace_take(struct reference_pace *pace, const struct reference_pairs *pairs,
                           const struct se3 *step, struct se3 *T);

// Whole stages. run: in T, out all. The sets' first n_source and n_target points.
void reference_anneal(const struct point_set *source, const struct point_set *target,
                      const struct register_anneal *settings, struct register_run *run);
void reference_nearest(const struct point_set *source, const struct point_set *target,
                       const struct register_nearest *settings, struct register_run *run);

#endif

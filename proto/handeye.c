// SPDX-License-Identifier: Apache-2.0
#include "proto/handeye.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/eigen.h"
#include "proto/se3.h"

#define N_ITERATIONS  30
#define TUKEY         4.685 // 95 % efficiency under Gaussian noise
#define MEDIAN_NORM_3 1.538 // median length of a vector of three standard normal components

// ---- closed form ----

// The rotation that takes B's rotation vectors to A's, weighted by nothing (Horn's quaternion).
static struct se3 first_rotation(const struct handeye_motion *motions, size_t n)
{
    double s[9] = {0}, values[4], vectors[16];
    for (size_t i = 0; i < n; i++) {
        double a[3], b[3];
        se3_rotation_vector(&motions[i].A, a);
        se3_rotation_vector(&motions[i].B, b);
        for (int k = 0; k < 9; k++)
            s[k] += b[k / 3] * a[k % 3];
    }
    const double m[16] = {s[0] + s[4] + s[8], s[5] - s[7], s[6] - s[2], s[1] - s[3], s[5] - s[7],
                          s[0] - s[4] - s[8], s[1] + s[3], s[6] + s[2], s[6] - s[2], s[1] + s[3],
                          s[4] - s[0] - s[8], s[5] + s[7], s[1] - s[3], s[6] + s[2], s[5] + s[7],
                          s[8] - s[0] - s[4]};
    eigen_symmetric(m, 4, values, vectors);
    const double *q = &vectors[12], zero[3] = {0, 0, 0};
    const double xyzw[4] = {q[1], q[2], q[3], q[0]};
    return se3_from_quaternion(xyzw, zero);
}

// Solves h x = g of n unknowns, and the inverse of h; eigenvalues below 1e-12 of the largest count
// as directions that nothing holds.
static void solve(const double *h, const double *g, int n, double *x, double *inverse)
{
    double values[EIGEN_MAX_N], vectors[EIGEN_MAX_N * EIGEN_MAX_N];
    eigen_symmetric(h, n, values, vectors);
    memset(inverse, 0, sizeof *inverse * (size_t)(n * n));
    for (int k = 0; k < n; k++) {
        if (values[k] <= 1e-12 * values[n - 1])
            continue;
        for (int i = 0; i < n * n; i++)
            inverse[i] += vectors[n * k + i / n] * vectors[n * k + i % n] / values[k];
    }
    for (int i = 0; i < n; i++) {
        x[i] = 0;
        for (int j = 0; j < n; j++)
            x[i] += inverse[n * i + j] * g[j];
    }
}

// (R_A - I) t = R_X t_B - t_A, all motions together.
static void first_translation(const struct handeye_motion *motions, size_t n, struct se3 *X)
{
    double h[9] = {0}, g[3] = {0}, inverse[9];
    for (size_t i = 0; i < n; i++) {
        const struct se3 *A = &motions[i].A;
        double right[3], m[9];
        se3_apply(X, motions[i].B.t_m, right); // X has no translation yet
        for (int k = 0; k < 9; k++)
            m[k] = A->r[k] - (k % 4 == 0 ? 1 : 0);
        for (int r = 0; r < 3; r++)
            for (int k = 0; k < 3; k++) {
                g[k] += m[3 * r + k] * (right[r] - A->t_m[r]);
                for (int l = 0; l < 3; l++)
                    h[3 * k + l] += m[3 * r + k] * m[3 * r + l];
            }
    }
    solve(h, g, 3, X->t_m, inverse);
}

// Rotation about the second axis of A's rotation vectors, RMS.
static double second_axis_rad(const struct handeye_motion *motions, size_t n)
{
    double scatter[9] = {0}, values[3], vectors[9];
    for (size_t i = 0; i < n; i++) {
        double w[3];
        se3_rotation_vector(&motions[i].A, w);
        for (int k = 0; k < 9; k++)
            scatter[k] += w[k / 3] * w[k % 3] / (double)n;
    }
    eigen_symmetric(scatter, 3, values, vectors);
    return sqrt(fmax(values[1], 0));
}

// ---- both together ----

struct solver {
    const struct handeye_motion *motions;
    size_t n;
    double *residuals; // n x 6
    double *lengths;   // n, to find medians
    double sigma_m, sigma_rad;
};

static void fill_residuals(const struct solver *solver, const struct se3 *X)
{
    struct se3 X_inverse = se3_inverse(X);
    for (size_t i = 0; i < solver->n; i++) {
        struct se3 B_inverse = se3_inverse(&solver->motions[i].B);
        struct se3 AX = se3_compose(&solver->motions[i].A, X);
        struct se3 right = se3_compose(&B_inverse, &X_inverse);
        struct se3 E = se3_compose(&AX, &right);
        se3_log(&E, &solver->residuals[6 * i]);
    }
}

static int is_less(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Of the three components from `first` on, per axis.
static double sigma_of(const struct solver *solver, int first)
{
    for (size_t i = 0; i < solver->n; i++) {
        const double *e = &solver->residuals[6 * i + (size_t)first];
        solver->lengths[i] = sqrt(e[0] * e[0] + e[1] * e[1] + e[2] * e[2]);
    }
    qsort(solver->lengths, solver->n, sizeof *solver->lengths, is_less);
    return fmax(solver->lengths[solver->n / 2] / MEDIAN_NORM_3, 1e-12);
}

static double weight_of(const struct solver *solver, const double *e)
{
    double length2 = 0;
    for (int k = 0; k < 6; k++) {
        double x = e[k] / (k < 3 ? solver->sigma_m : solver->sigma_rad);
        length2 += x * x / 2; // two residuals of three components each
    }
    double x = 1 - length2 / (TUKEY * TUKEY);
    return x > 0 ? x * x : 0;
}

// One Gauss-Newton step: E(exp(d) X) = exp(Ad_A d) E exp(-d), so that e + (Ad_A - I) d is to be 0.
static void step(const struct solver *solver, struct handeye_result *result, double *out_length)
{
    double h[36] = {0}, g[6] = {0}, d[6];
    result->n_used = 0;
    for (size_t i = 0; i < solver->n; i++) {
        const double *e = &solver->residuals[6 * i];
        double j[36], weight = weight_of(solver, e);
        result->n_used += weight > 0.1;
        se3_adjoint(&solver->motions[i].A, j);
        for (int k = 0; k < 6; k++)
            j[7 * k] -= 1;
        for (int r = 0; r < 6; r++) {
            double sigma = r < 3 ? solver->sigma_m : solver->sigma_rad;
            double w = weight / (sigma * sigma);
            for (int k = 0; k < 6; k++) {
                g[k] -= w * j[6 * r + k] * e[r];
                for (int l = 0; l < 6; l++)
                    h[6 * k + l] += w * j[6 * r + k] * j[6 * r + l];
            }
        }
    }
    solve(h, g, 6, d, result->covariance);
    struct se3 moved = se3_exp(d);
    result->T_a_b = se3_compose(&moved, &result->T_a_b);
    result->T_a_b = se3_normalized(&result->T_a_b);
    *out_length = 0;
    for (int k = 0; k < 6; k++)
        *out_length = fmax(*out_length, fabs(d[k]));
}

int handeye_solve(const struct handeye_motion *motions, size_t n, double overlap,
                  struct handeye_result *out)
{
    memset(out, 0, sizeof *out);
    if (n < HANDEYE_MIN_MOTIONS)
        return -ENODATA;
    out->spread_rad = second_axis_rad(motions, n);
    if (!(out->spread_rad >= HANDEYE_MIN_SPREAD_RAD))
        return -EDOM;
    struct solver solver = {.motions = motions, .n = n};
    solver.residuals = malloc(7 * n * sizeof *solver.residuals);
    if (!solver.residuals)
        return -ENOMEM;
    solver.lengths = solver.residuals + 6 * n;
    out->T_a_b = first_rotation(motions, n);
    first_translation(motions, n, &out->T_a_b);
    double length = 1;
    for (int i = 0; i < N_ITERATIONS && length > 1e-10; i++) {
        fill_residuals(&solver, &out->T_a_b);
        solver.sigma_m = sigma_of(&solver, 0);
        solver.sigma_rad = sigma_of(&solver, 3);
        step(&solver, out, &length);
    }
    out->sigma_m = solver.sigma_m;
    out->sigma_rad = solver.sigma_rad;
    for (int k = 0; k < 36; k++)
        out->covariance[k] *= overlap;
    free(solver.residuals);
    return 0;
}

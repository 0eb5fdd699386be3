// SPDX-License-Identifier: Apache-2.0
// The dense form on the CPU: the matrix of the paper in memory, its rows and columns normalised in
// place, slack entries kept beside it. Double precision, plain loops, one thread: this is the
// second opinion that the streaming form is checked against, not a fast path.
#include "gpu/register/cpu/device.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/register/kernels/annealing_step.h"
#include "gpu/register/kernels/solve.h"
#include "gpu/register/kernels/weights.h"

#define MAX_MATRIX_BYTES ((size_t)4 << 30)

struct dense {
    const struct register_anneal *anneal;
    const struct point_set *source, *target;
    size_t n_source, n_target;
    double *m;            // n_source x n_target
    double *slack_column; // n_source: what a row gives to "no counterpart"
    double *slack_row;    // n_target
    double *v;            // n_target: the column scaling that a warm start keeps
    double sums[REGISTER_N_SUMS];
    const struct register_stop *stop;
    int stopped; // register_stopped's answer, once it is not 0: nothing counts any more
};

// Asked before each row and column, of which a matrix of 4 GiB has many long ones.
static bool must_end(struct dense *dense)
{
    if (dense->stopped == 0)
        dense->stopped = register_stopped(dense->stop);
    return dense->stopped < 0;
}

static void point_at(const struct point_set *set, size_t i, double out[3])
{
    out[0] = set->x_m[i];
    out[1] = set->y_m[i];
    out[2] = set->z_m[i];
}

// m_ij = exp(-d_ij^2 / denominator)
static void fill_matrix(struct dense *dense, const struct se3 *T, double denominator)
{
    for (size_t i = 0; i < dense->n_source && !must_end(dense); i++) {
        double p[3], y[3], x[3];
        point_at(dense->source, i, p);
        se3_apply(T, p, y);
        for (size_t j = 0; j < dense->n_target; j++) {
            point_at(dense->target, j, x);
            double d2 = (x[0] - y[0]) * (x[0] - y[0]) + (x[1] - y[1]) * (x[1] - y[1]) +
                        (x[2] - y[2]) * (x[2] - y[2]);
            dense->m[i * dense->n_target + j] = exp(-d2 / denominator);
        }
    }
}

// Tamaki et al., IV-B: A = exp(-d^2 / sigma^2), C = A 1 + outlier, A <- sqrt(A / C), lambda = A 1,
// X' = A X / lambda.
static void paper_sums(struct dense *dense, const struct se3 *T, double sigma2)
{
    double outlier = exp(-dense->anneal->outlier_d2 / sigma2), mean[3] = {0, 0, 0};
    for (size_t j = 0; j < dense->n_target; j++) {
        double x[3];
        point_at(dense->target, j, x);
        for (int a = 0; a < 3; a++)
            mean[a] += x[a] / (double)dense->n_target;
    }
    fill_matrix(dense, T, sigma2);
    for (size_t i = 0; i < dense->n_source && !must_end(dense); i++) {
        double *row = dense->m + i * dense->n_target, c = outlier, lambda = 0;
        double sum_x[3] = {0, 0, 0}, p[3], x[3], y[3];
        for (size_t j = 0; j < dense->n_target; j++)
            c += row[j];
        for (size_t j = 0; j < dense->n_target; j++) {
            row[j] = sqrt(row[j] / c);
            lambda += row[j];
            point_at(dense->target, j, x);
            for (int a = 0; a < 3; a++)
                sum_x[a] += row[j] * x[a];
        }
        bool empty = !(c > REGISTER_PAPER_MIN_C), alone = !(lambda > 0);
        for (int a = 0; a < 3; a++)
            x[a] = empty || alone ? mean[a] : sum_x[a] / lambda;
        point_at(dense->source, i, p);
        se3_apply(T, p, y);
        register_add_pair(dense->sums, empty ? 1 : lambda, x, y);
    }
}

static void normalise_rows(struct dense *dense)
{
    for (size_t i = 0; i < dense->n_source && !must_end(dense); i++) {
        double *row = dense->m + i * dense->n_target, sum = dense->slack_column[i];
        for (size_t j = 0; j < dense->n_target; j++)
            sum += row[j];
        dense->slack_column[i] /= sum;
        for (size_t j = 0; j < dense->n_target; j++)
            row[j] /= sum;
    }
}

static void normalise_columns(struct dense *dense)
{
    for (size_t j = 0; j < dense->n_target && !must_end(dense); j++) {
        double sum = dense->slack_row[j];
        for (size_t i = 0; i < dense->n_source; i++)
            sum += dense->m[i * dense->n_target + j];
        dense->slack_row[j] /= sum;
        for (size_t i = 0; i < dense->n_source; i++)
            dense->m[i * dense->n_target + j] /= sum;
    }
}

// Tamaki et al., II-B, with the slack row and column reset before each round of normalisations.
static void sinkhorn_sums(struct dense *dense, const struct se3 *T, double sigma2)
{
    const struct register_anneal *anneal = dense->anneal;
    double slack = anneal->slack * exp(-anneal->slack_alpha / (2 * sigma2));
    if (anneal->slack_spacing > 0)
        slack = register_slack(slack, sigma2, anneal->slack_spacing);
    fill_matrix(dense, T, 2 * sigma2);
    for (size_t j = 0; j < dense->n_target && !must_end(dense); j++) {
        double v = anneal->cold ? 1 : dense->v[j];
        dense->slack_row[j] = slack * v;
        for (size_t i = 0; i < dense->n_source; i++)
            dense->m[i * dense->n_target + j] *= v;
    }
    for (size_t i = 0; i < dense->n_source; i++)
        dense->slack_column[i] = slack;
    for (uint32_t sweep = 0; sweep < anneal->n_sweeps; sweep++) {
        normalise_rows(dense);
        normalise_columns(dense);
    }
    for (size_t j = 0; j < dense->n_target && !must_end(dense); j++) {
        double sum_y[3] = {0, 0, 0}, weight = 0, x[3];
        dense->v[j] = dense->slack_row[j] / slack;
        for (size_t i = 0; i < dense->n_source; i++) {
            double p[3], y[3], m = dense->m[i * dense->n_target + j];
            point_at(dense->source, i, p);
            se3_apply(T, p, y);
            weight += m;
            for (int a = 0; a < 3; a++)
                sum_y[a] += m * y[a];
        }
        if (!(weight > 0))
            continue;
        for (int a = 0; a < 3; a++)
            sum_y[a] /= weight;
        point_at(dense->target, j, x);
        register_add_pair(dense->sums, weight, x, sum_y);
        if (anneal->planes) {
            double n[3] = {dense->target->nx[j], dense->target->ny[j], dense->target->nz[j]};
            register_add_plane(dense->sums, weight, x, sum_y, n);
        }
    }
}

static const double *dense_iterate(void *context, double sigma2, const struct se3 *T)
{
    struct dense *dense = context;
    memset(dense->sums, 0, sizeof dense->sums);
    if (dense->anneal->weighting == REGISTER_WEIGHTING_PAPER)
        paper_sums(dense, T, sigma2);
    else
        sinkhorn_sums(dense, T, sigma2);
    return dense->stopped ? NULL : dense->sums;
}

static void dense_presence(struct dense *dense, struct register_run *run)
{
    double sigma2 = dense->anneal->presence_sigma2, spacing = dense->anneal->presence_spacing;
    fill_matrix(dense, &run->T, 2 * sigma2);
    run->presence_source = run->presence_target = 0;
    memset(dense->slack_row, 0, dense->n_target * sizeof *dense->slack_row);
    for (size_t i = 0; i < dense->n_source && !must_end(dense); i++) {
        double sum = 0;
        for (size_t j = 0; j < dense->n_target; j++) {
            sum += dense->m[i * dense->n_target + j];
            dense->slack_row[j] += dense->m[i * dense->n_target + j];
        }
        run->presence_source += register_presence(sum, sigma2, spacing) / (double)dense->n_source;
    }
    for (size_t j = 0; j < dense->n_target; j++)
        run->presence_target +=
            register_presence(dense->slack_row[j], sigma2, spacing) / (double)dense->n_target;
}

int register_cpu_anneal_dense(struct register_cpu *cpu, const struct register_anneal *anneal,
                              struct register_run *run, const struct register_stop *stop)
{
    size_t n = anneal->n_source, m = anneal->n_target;
    if (n > MAX_MATRIX_BYTES / sizeof(double) / m)
        return -ENOMEM;
    struct dense dense = {.anneal = anneal,
                          .source = &cpu->set[REGISTER_SOURCE],
                          .target = &cpu->set[REGISTER_TARGET],
                          .n_source = n,
                          .n_target = m,
                          .stop = stop};
    double *memory = malloc((n * m + n + 2 * m) * sizeof *memory);
    if (!memory)
        return -ENOMEM;
    dense.m = memory;
    dense.slack_column = memory + n * m;
    dense.slack_row = dense.slack_column + n;
    dense.v = dense.slack_row + m;
    for (size_t j = 0; j < m; j++)
        dense.v[j] = 1;
    int rc = register_cpu_schedule(anneal, run, stop, dense_iterate, &dense);
    if (rc == 0 && anneal->presence_sigma2 > 0)
        dense_presence(&dense, run);
    free(memory);
    return rc < 0 ? rc : dense.stopped;
}

// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/fit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ITERATIONS 60
#define K          FIT_FEATURES_MAX

int fit_add_choice(struct fit_data *data, uint32_t group, double weight)
{
    if (data->n_choices == data->choice_capacity) {
        const size_t grown = data->choice_capacity ? 2 * data->choice_capacity : 256;
        struct fit_choice *more = realloc(data->choices, grown * sizeof *more);
        if (!more)
            return -ENOMEM;
        data->choices = more;
        data->choice_capacity = grown;
    }
    data->choices[data->n_choices++] = (struct fit_choice){data->n_rows, 0, 0, group, weight};
    return 0;
}

int fit_add_row(struct fit_data *data, const double *row)
{
    const size_t k = data->n_features;
    if (data->n_rows == data->row_capacity) {
        const size_t grown = data->row_capacity ? 2 * data->row_capacity : 4096;
        double *more = realloc(data->rows, grown * k * sizeof *more);
        if (!more)
            return -ENOMEM;
        data->rows = more;
        data->row_capacity = grown;
    }
    memcpy(data->rows + k * data->n_rows++, row, k * sizeof *row);
    data->choices[data->n_choices - 1].n++;
    return 0;
}

int fit_append(struct fit_data *data, const struct fit_data *more)
{
    int err = 0;
    for (size_t i = 0; i < more->n_choices && !err; i++) {
        const struct fit_choice *choice = &more->choices[i];
        err = fit_add_choice(data, choice->group, choice->weight);
        for (size_t row = choice->first; row < choice->first + choice->n && !err; row++)
            err = fit_add_row(data, more->rows + row * more->n_features);
        if (!err)
            data->choices[data->n_choices - 1].taken = choice->taken;
    }
    return err;
}

void fit_free(struct fit_data *data)
{
    free(data->rows);
    free(data->choices);
    *data = (struct fit_data){.n_features = data->n_features};
}

static double worth(const double *row, const double *w, uint32_t n)
{
    double sum = 0;
    for (uint32_t k = 0; k < n; k++)
        sum += w[k] * row[k];
    return sum;
}

// Probabilities of a choice's rows; returns the logarithm of the taken one's.
static double probabilities(const struct fit_data *data, const struct fit_choice *c,
                            const double *w, double *out)
{
    const uint32_t n = data->n_features;
    const double *rows = data->rows + c->first * n;
    double most = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        out[i] = worth(rows + (size_t)i * n, w, n);
        most = fmax(most, out[i]);
    }
    const double taken = out[c->taken] - most;
    for (uint32_t i = 0; i < c->n; i++) {
        out[i] = exp(out[i] - most);
        sum += out[i];
    }
    for (uint32_t i = 0; i < c->n; i++)
        out[i] /= sum;
    // cppcheck-suppress invalidFunctionArg; the largest term of the sum is 1
    return taken - log(sum);
}

static uint32_t most_rows(const struct fit_data *data)
{
    uint32_t most = 1;
    for (size_t c = 0; c < data->n_choices; c++)
        most = data->choices[c].n > most ? data->choices[c].n : most;
    return most;
}

// The penalised log-likelihood, and where wanted its gradient and minus its second derivatives.
static double objective(const struct fit_data *data, uint32_t left_out, double ridge,
                        const double *w, double *p, double *gradient, double *curvature)
{
    const uint32_t n = data->n_features;
    double value = 0;
    for (uint32_t k = 0; k < n; k++)
        value -= 0.5 * ridge * w[k] * w[k];
    if (gradient) {
        memset(curvature, 0, (size_t)n * n * sizeof *curvature);
        for (uint32_t k = 0; k < n; k++) {
            gradient[k] = -ridge * w[k];
            curvature[k * n + k] = ridge;
        }
    }
    for (size_t c = 0; c < data->n_choices; c++) {
        const struct fit_choice *choice = &data->choices[c];
        if (left_out < 2 && choice->group % 2 == left_out)
            continue;
        value += choice->weight * probabilities(data, choice, w, p);
        if (!gradient)
            continue;
        const double *rows = data->rows + choice->first * n;
        double mean[K] = {0};
        for (uint32_t i = 0; i < choice->n; i++)
            for (uint32_t k = 0; k < n; k++)
                mean[k] += p[i] * rows[(size_t)i * n + k];
        for (uint32_t k = 0; k < n; k++)
            gradient[k] += choice->weight * (rows[(size_t)choice->taken * n + k] - mean[k]);
        for (uint32_t i = 0; i < choice->n; i++)
            for (uint32_t k = 0; k < n; k++)
                for (uint32_t m = 0; m < n; m++)
                    curvature[k * n + m] += choice->weight * p[i] *
                                            (rows[(size_t)i * n + k] - mean[k]) *
                                            (rows[(size_t)i * n + m] - mean[m]);
    }
    return value;
}

// a x = b by Gauss with pivots; a is used up.
static void solve(double *a, double *b, uint32_t n, double *x)
{
    for (uint32_t k = 0; k < n; k++) {
        uint32_t best = k;
        for (uint32_t i = k; i < n; i++)
            best = fabs(a[i * n + k]) > fabs(a[best * n + k]) ? i : best;
        for (uint32_t m = 0; m < n; m++) {
            const double swap = a[k * n + m];
            a[k * n + m] = a[best * n + m];
            a[best * n + m] = swap;
        }
        const double swap = b[k];
        b[k] = b[best];
        b[best] = swap;
        for (uint32_t i = k + 1; i < n; i++) {
            const double share = a[i * n + k] / a[k * n + k];
            for (uint32_t m = k; m < n; m++)
                a[i * n + m] -= share * a[k * n + m];
            b[i] -= share * b[k];
        }
    }
    for (uint32_t k = n; k-- > 0;) {
        x[k] = b[k];
        for (uint32_t m = k + 1; m < n; m++)
            x[k] -= a[k * n + m] * x[m];
        x[k] /= a[k * n + k];
    }
}

void fit_weights(const struct fit_data *data, uint32_t left_out, double ridge, double out[K])
{
    const uint32_t n = data->n_features;
    double *p = malloc(most_rows(data) * sizeof *p);
    double gradient[K], curvature[K * K], step[K], trial[K];
    memset(out, 0, K * sizeof *out);
    if (!p)
        return;
    double value = objective(data, left_out, ridge, out, p, NULL, NULL);
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        objective(data, left_out, ridge, out, p, gradient, curvature);
        solve(curvature, gradient, n, step);
        double scale = 1, better = -INFINITY;
        for (; scale > 1e-6 && !(better > value); scale /= 2) {
            for (uint32_t k = 0; k < n; k++)
                trial[k] = out[k] + scale * step[k];
            better = objective(data, left_out, ridge, trial, p, NULL, NULL);
        }
        if (!(better > value + 1e-9 * fabs(value)))
            break;
        memcpy(out, trial, n * sizeof *out);
        value = better;
    }
    free(p);
}

void fit_read_off(const double *rows, const double *values, size_t n, uint32_t n_features,
                  double out[K])
{
    double a[K * K] = {0}, b[K] = {0};
    memset(out, 0, K * sizeof *out);
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n_features; k++) {
            b[k] += rows[i * n_features + k] * values[i];
            for (uint32_t m = 0; m < n_features; m++)
                a[k * n_features + m] += rows[i * n_features + k] * rows[i * n_features + m];
        }
    solve(a, b, n_features, out);
}

void fit_quality(const struct fit_data *data, uint32_t only, const double *weights,
                 double *out_mean_log, double *out_first)
{
    double *p = malloc(most_rows(data) * sizeof *p), sum = 0;
    size_t n = 0, n_first = 0;
    for (size_t c = 0; p && c < data->n_choices; c++) {
        const struct fit_choice *choice = &data->choices[c];
        if (only < 2 && choice->group % 2 != only)
            continue;
        uint32_t best = 0;
        sum += probabilities(data, choice, weights, p);
        for (uint32_t i = 0; i < choice->n; i++)
            best = p[i] > p[best] ? i : best;
        n_first += best == choice->taken;
        n++;
    }
    *out_mean_log = n ? sum / (double)n : 0;
    *out_first = n ? (double)n_first / (double)n : 0;
    free(p);
}

double fit_correlation(const struct fit_data *data, const double *a, const double *b)
{
    const uint32_t n = data->n_features;
    double aa = 0, ab = 0, bb = 0;
    for (size_t c = 0; c < data->n_choices; c++) {
        const struct fit_choice *choice = &data->choices[c];
        double mean_a = 0, mean_b = 0;
        for (uint32_t i = 0; i < choice->n; i++) {
            mean_a += worth(data->rows + (choice->first + i) * n, a, n) / choice->n;
            mean_b += worth(data->rows + (choice->first + i) * n, b, n) / choice->n;
        }
        for (uint32_t i = 0; i < choice->n; i++) {
            const double x = worth(data->rows + (choice->first + i) * n, a, n) - mean_a;
            const double y = worth(data->rows + (choice->first + i) * n, b, n) - mean_b;
            aa += x * x;
            ab += x * y;
            bb += y * y;
        }
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "gpu/track/normal_equations.h"

#include <math.h>
#include <stddef.h>

void normal_equations_add(struct normal_equations *system, const int *index, const double *row,
                          int n, double weight, double r)
{
    for (int a = 0; a < n; a++) {
        double wa = weight * row[a];
        double *h = system->h + (size_t)index[a] * (size_t)system->n;
        system->g[index[a]] += wa * r;
        for (int b = 0; b < n; b++)
            if (index[b] <= index[a])
                h[index[b]] += wa * row[b];
    }
}

static void ask(const struct normal_equations *system)
{
    if (system->yield)
        yield_now(system->yield);
}

bool normal_equations_factor(struct normal_equations *system)
{
    const size_t n = (size_t)system->n;
    for (size_t i = 0; i < n; i++) {
        double *row = system->h + i * n;
        ask(system);
        for (size_t j = 0; j <= i; j++) {
            const double *other = system->h + j * n;
            double sum = row[j];
            for (size_t k = 0; k < j; k++)
                sum -= row[k] * other[k];
            if (j < i)
                row[j] = sum / other[j];
            else if (sum > 0)
                row[i] = sqrt(sum);
            else
                return false;
        }
    }
    return true;
}

void normal_equations_solve(const struct normal_equations *system, double *x)
{
    const size_t n = (size_t)system->n;
    ask(system);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < i; k++)
            x[i] -= system->h[i * n + k] * x[k];
        x[i] /= system->h[i * n + i];
    }
    for (size_t i = n; i-- > 0;) {
        for (size_t k = i + 1; k < n; k++)
            x[i] -= system->h[k * n + i] * x[k];
        x[i] /= system->h[i * n + i];
    }
}

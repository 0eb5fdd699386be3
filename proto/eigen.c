// SPDX-License-Identifier: Apache-2.0
#include "proto/eigen.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#define MAX_SWEEPS 30 // convergence is quadratic: six do

static void rotate(double *a, double *v, int n, int p, int q)
{
    double apq = a[p * n + q];
    double theta = (a[q * n + q] - a[p * n + p]) / (2 * apq);
    double t = (theta >= 0 ? 1 : -1) / (fabs(theta) + sqrt(theta * theta + 1));
    double c = 1 / sqrt(t * t + 1), s = t * c;
    for (int k = 0; k < n; k++) {
        double akp = a[k * n + p], akq = a[k * n + q];
        a[k * n + p] = c * akp - s * akq;
        a[k * n + q] = s * akp + c * akq;
    }
    for (int k = 0; k < n; k++) {
        double apk = a[p * n + k], aqk = a[q * n + k];
        a[p * n + k] = c * apk - s * aqk;
        a[q * n + k] = s * apk + c * aqk;
    }
    for (int k = 0; k < n; k++) { // rows of v are the vectors
        double vp = v[p * n + k], vq = v[q * n + k];
        v[p * n + k] = c * vp - s * vq;
        v[q * n + k] = s * vp + c * vq;
    }
}

void eigen_symmetric(const double *matrix, int n, double *out_values, double *out_vectors)
{
    assert(n >= 1 && n <= EIGEN_MAX_N);
    double a[EIGEN_MAX_N * EIGEN_MAX_N], v[EIGEN_MAX_N * EIGEN_MAX_N] = {0};
    memcpy(a, matrix, (size_t)(n * n) * sizeof *a);
    double diagonal2 = 0;
    for (int i = 0; i < n; i++) {
        v[i * n + i] = 1;
        diagonal2 += a[i * n + i] * a[i * n + i];
    }
    for (int sweep = 0; sweep < MAX_SWEEPS; sweep++) {
        double off2 = 0;
        for (int p = 0; p < n; p++)
            for (int q = p + 1; q < n; q++)
                off2 += a[p * n + q] * a[p * n + q];
        if (!(off2 > DBL_EPSILON * DBL_EPSILON * diagonal2))
            break;
        for (int p = 0; p < n; p++)
            for (int q = p + 1; q < n; q++)
                if (a[p * n + q] != 0)
                    rotate(a, v, n, p, q);
    }
    int order[EIGEN_MAX_N];
    for (int i = 0; i < n; i++) { // insertion sort, ascending
        int k = i;
        for (; k > 0 && a[order[k - 1] * n + order[k - 1]] > a[i * n + i]; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    for (int i = 0; i < n; i++) {
        out_values[i] = a[order[i] * n + order[i]];
        memcpy(out_vectors + i * n, v + order[i] * n, (size_t)n * sizeof *v);
    }
}

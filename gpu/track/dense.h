// SPDX-License-Identifier: Apache-2.0
// Normal equations of a few to a thousand unknowns, and their solution by Cholesky's factorisation:
// plain loops, host only. The caller owns the memory and begins with zeros.
#ifndef POSED_GPU_TRACK_DENSE_H
#define POSED_GPU_TRACK_DENSE_H

#include <stdbool.h>

#include "gpu/base/yield.h"

// n unknowns: h is n x n, row-major, of which the lower triangle counts; g the right hand side.
struct dense {
    int n;
    double *h, *g;
    const struct yield *yield; // asked while it is factored and solved; NULL: nobody is waited for
};

// One residual r of that weight: its derivative by unknown index[k] is row[k]. An unknown that
// stands twice has the sum of both.
void dense_add(struct dense *system, const int *index, const double *row, int n, double weight,
               double r);

// L L^T in place of the lower triangle. False: not positive definite.
bool dense_factor(struct dense *system);

// Of a factored system: x is the right hand side, and then the solution.
void dense_solve(const struct dense *system, double *x);

#endif

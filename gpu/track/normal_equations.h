// SPDX-License-Identifier: Apache-2.0
// Normal equations of a few to a thousand unknowns, and their solution by Cholesky's factorisation:
// plain loops, host only. The caller owns the memory and begins with zeros.
#ifndef POSED_GPU_TRACK_NORMAL_EQUATIONS_H
#define POSED_GPU_TRACK_NORMAL_EQUATIONS_H

#include <stdbool.h>

#include "gpu/base/yield.h"

// n unknowns: h is n x n, row-major, of which the lower triangle counts; g the right hand side.
struct normal_equations {
    int n;
    double *h, *g;
    const struct yield *yield; // asked while it is factored and solved; NULL: nobody is waited for
};

// One residual r of that weight: its derivative by unknown index[k] is row[k]. An unknown that
// stands twice has the sum of both.
void normal_equations_add(struct normal_equations *system, const int *index, const double *row,
                          int n, double weight, double r);

// L L^T in place of the lower triangle. False: not positive definite.
bool normal_equations_factor(struct normal_equations *system);

// Of a factored system: x is the right hand side, and then the solution.
void normal_equations_solve(const struct normal_equations *system, double *x);

#endif

// SPDX-License-Identifier: Apache-2.0
// The 6x6 solve behind every step of a pose: A x = b by LDL^T without pivoting (Golub and Van Loan,
// Matrix Computations, 4.1), which a positive definite A does not need. One formula for the rooms
// and the twins; what differs is the precision and the reciprocal, hence SOLVE6_DEFINE:
//
//   solve6_double    the tracker's CPU twin and covariance, registration
//   solve6_float     search: every operation rounded, so that both twins give the same bits
//   solve6_fast      the tracker on the device, where only a step's last digit depends on it
//
// a: row-major, lower triangle read and overwritten. b: may be out_x. least: A counts as singular
// where a pivot does not exceed it; 0 for an A that is damped already. No branch depends on the
// values: false means that out_x is garbage.
#ifndef POSED_GPU_BASE_SOLVE6_H
#define POSED_GPU_BASE_SOLVE6_H

#include "gpu/base/kernel.h"

#define SOLVE6_DEFINE(name, real, mul_add, reciprocal)                            \
    KERNEL_FN bool name(real a[6][6], const real b[6], real least, real out_x[6]) \
    {                                                                             \
        real d[6], inv_d[6];                                                      \
        bool positive = true;                                                     \
        for (int j = 0; j < 6; j++) {                                             \
            real v[6], s = a[j][j];                                               \
            for (int m = 0; m < j; m++) {                                         \
                v[m] = a[j][m] * d[m];                                            \
                s = mul_add(-a[j][m], v[m], s);                                   \
            }                                                                     \
            positive = positive & (s > least);                                    \
            d[j] = s;                                                             \
            inv_d[j] = reciprocal(s);                                             \
            for (int i = j + 1; i < 6; i++) {                                     \
                real t = a[i][j];                                                 \
                for (int m = 0; m < j; m++)                                       \
                    t = mul_add(-a[i][m], v[m], t);                               \
                a[i][j] = t * inv_d[j];                                           \
            }                                                                     \
        }                                                                         \
        for (int i = 0; i < 6; i++) {                                             \
            out_x[i] = b[i];                                                      \
            for (int m = 0; m < i; m++)                                           \
                out_x[i] = mul_add(-a[i][m], out_x[m], out_x[i]);                 \
        }                                                                         \
        for (int i = 5; i >= 0; i--) {                                            \
            out_x[i] *= inv_d[i];                                                 \
            for (int m = i + 1; m < 6; m++)                                       \
                out_x[i] = mul_add(-a[m][i], out_x[m], out_x[i]);                 \
        }                                                                         \
        return positive;                                                          \
    }

KERNEL_FN float solve6_inverse_float(float a)
{
    return 1.0f / a;
}

// cppcheck-suppress uninitvar; column j reads the columns before it
SOLVE6_DEFINE(solve6_double, double, kernel_fma_double, kernel_reciprocal_double)
// cppcheck-suppress uninitvar; column j reads the columns before it
SOLVE6_DEFINE(solve6_float, float, kernel_mul_add, solve6_inverse_float)
// cppcheck-suppress uninitvar; column j reads the columns before it
SOLVE6_DEFINE(solve6_fast, float, kernel_fma_float, kernel_reciprocal_float)

// The inverse of a symmetric A (upper triangle read), in double: rows and columns may have units of
// their own, as LDL^T does not mind them. False: a pivot does not exceed `least`; out is garbage.
KERNEL_FN bool solve6_invert(const double a[36], double least, double out[36])
{
    bool positive = true;
    for (int j = 0; j < 6; j++) {
        double lower[6][6], unit[6] = {0, 0, 0, 0, 0, 0}, column[6];
        for (int i = 0; i < 6; i++)
            for (int k = 0; k <= i; k++)
                lower[i][k] = a[6 * k + i];
        unit[j] = 1;
        positive = solve6_double(lower, unit, least, column);
        for (int i = 0; i < 6; i++)
            out[6 * i + j] = column[i];
    }
    return positive;
}

#endif

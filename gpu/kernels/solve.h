// SPDX-License-Identifier: Apache-2.0
// The 6x6 solve of an ICP iteration: H x = -g by LDL^T without pivoting (H is positive definite or
// the frame is not solvable), in the precision of the caller: SOLVE_DEFINE(double) for the CPU twin
// and the tracker, SOLVE_DEFINE(float) for the CUDA twin.
//
// H is damped by ICP_DAMPING of its own scale, translation and rotation each: it changes a held
// direction by a millionth and keeps a direction that the scene does not hold (a single wall)
// solvable; what such a direction is worth is for the tracker to judge.
#ifndef POSED_GPU_KERNELS_SOLVE_H
#define POSED_GPU_KERNELS_SOLVE_H

#include "gpu/kernels/icp.h"

#define ICP_DAMPING   1e-6
#define ICP_MIN_PAIRS 64 // fewer say nothing about six unknowns

// A level is left when the step is below this: 10 um, and its like in radians at the scene's
// distance; four times more per coarser level, whose only duty is to start the next one.
#define ICP_STOP_M 1e-5

#define SOLVE_DEFINE(real)                                                                         \
    /* sums: ICP_N_SUMS values. Writes the twist (v, w). False: not solvable, twist untouched. */  \
    KERNEL_FN bool solve_step_##real(const real *sums, real *out_twist)                            \
    {                                                                                              \
        real a[6][6], d[6], x[6];                                                                  \
        int k = 0;                                                                                 \
        for (int i = 0; i < 6; i++)                                                                \
            for (int j = i; j < 6; j++)                                                            \
                a[j][i] = sums[k++];                                                               \
        real damp_t = (real)(ICP_DAMPING / 3) * (a[0][0] + a[1][1] + a[2][2]);                     \
        real damp_r = (real)(ICP_DAMPING / 3) * (a[3][3] + a[4][4] + a[5][5]);                     \
        for (int i = 0; i < 6; i++)                                                                \
            a[i][i] += i < 3 ? damp_t : damp_r;                                                    \
        if (!(sums[ICP_SUM_PAIRS] >= (real)ICP_MIN_PAIRS))                                         \
            return false;                                                                          \
        bool positive = true;                                                                      \
        for (int j = 0; j < 6; j++) {                                                              \
            real v[6], s = a[j][j];                                                                \
            for (int m = 0; m < j; m++) {                                                          \
                v[m] = a[j][m] * d[m];                                                             \
                s -= a[j][m] * v[m];                                                               \
            }                                                                                      \
            positive = positive && s > 0;                                                          \
            d[j] = s;                                                                              \
            for (int i = j + 1; i < 6; i++) {                                                      \
                real t = a[i][j];                                                                  \
                for (int m = 0; m < j; m++)                                                        \
                    t -= a[i][m] * v[m];                                                           \
                a[i][j] = t / s;                                                                   \
            }                                                                                      \
        }                                                                                          \
        if (!positive)                                                                             \
            return false;                                                                          \
        for (int i = 0; i < 6; i++) {                                                              \
            x[i] = -sums[ICP_SUM_G + i];                                                           \
            for (int m = 0; m < i; m++)                                                            \
                x[i] -= a[i][m] * x[m];                                                            \
        }                                                                                          \
        for (int i = 5; i >= 0; i--) {                                                             \
            x[i] /= d[i];                                                                          \
            for (int m = i + 1; m < 6; m++)                                                        \
                x[i] -= a[m][i] * x[m];                                                            \
        }                                                                                          \
        for (int i = 0; i < 6; i++)                                                                \
            out_twist[i] = x[i];                                                                   \
        return true;                                                                               \
    }                                                                                              \
    /* Size of a step in metres: its translation, and its rotation at the pairs' mean distance. */ \
    KERNEL_FN real solve_step_size2_##real(const real *sums, const real *twist)                    \
    {                                                                                              \
        real arm2 = (sums[15] + sums[18] + sums[20]) / sums[ICP_SUM_W];                            \
        return twist[0] * twist[0] + twist[1] * twist[1] + twist[2] * twist[2] +                   \
               arm2 * (twist[3] * twist[3] + twist[4] * twist[4] + twist[5] * twist[5]);           \
    }

// Squared stop threshold of a level [m^2].
KERNEL_FN double solve_stop2_m2(uint32_t level)
{
    double stop_m = ICP_STOP_M * (double)(1u << (2 * level));
    return stop_m * stop_m;
}

#endif

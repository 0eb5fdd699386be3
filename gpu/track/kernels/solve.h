// SPDX-License-Identifier: Apache-2.0
// The step of an ICP iteration: H x = -g (H is positive definite or the frame is not solvable), in
// the precision of the caller: SOLVE_DEFINE(double, solve6_double) for the CPU twin and the
// tracker, SOLVE_DEFINE(float, solve6_fast) for the CUDA twin.
//
// H is damped by a share of the sum of its diagonal, translation and rotation each. At full
// resolution that is a millionth: it changes a held direction by as much and keeps one that the
// scene does not hold (a single wall) solvable; what such a direction is worth is for the tracker
// to judge. On coarse levels it is a leash: the first steps go by wrong pairs, and undamped they
// leap half a metre in the directions that the scene holds least.
#ifndef POSED_GPU_TRACK_KERNELS_SOLVE_H
#define POSED_GPU_TRACK_KERNELS_SOLVE_H

#include "gpu/base/solve6.h"
#include "gpu/track/kernels/icp.h"

#define ICP_MIN_PAIRS 64 // fewer say nothing about six unknowns

KERNEL_FN double solve_damping(uint32_t level)
{
    return level == 0 ? 1e-6 : level == 1 ? 1e-2 : 1e-1;
}

#define SOLVE_DEFINE(real, solve6)                                                                 \
    /* sums: ICP_N_SUMS values. Writes the twist (v, w). False: not solvable, twist is garbage. */ \
    KERNEL_FN bool solve_step_##real(const real *sums, uint32_t level, real *out_twist)            \
    {                                                                                              \
        real a[6][6], minus_g[6];                                                                  \
        int k = 0;                                                                                 \
        for (int i = 0; i < 6; i++)                                                                \
            for (int j = i; j < 6; j++)                                                            \
                a[j][i] = sums[k++];                                                               \
        real damp = (real)solve_damping(level);                                                    \
        real damp_t = damp * (a[0][0] + a[1][1] + a[2][2]);                                        \
        real damp_r = damp * (a[3][3] + a[4][4] + a[5][5]);                                        \
        for (int i = 0; i < 6; i++) {                                                              \
            a[i][i] += i < 3 ? damp_t : damp_r;                                                    \
            minus_g[i] = -sums[ICP_SUM_G + i];                                                     \
        }                                                                                          \
        bool enough = sums[ICP_SUM_PAIRS] >= (real)ICP_MIN_PAIRS;                                  \
        return solve6(a, minus_g, 0, out_twist) & enough;                                          \
    }                                                                                              \
    /* Size of a step in metres: its translation, and its rotation at the pairs' mean distance. */ \
    KERNEL_FN real solve_step_size2_##real(const real *sums, const real *twist)                    \
    {                                                                                              \
        real arm2 = (sums[15] + sums[18] + sums[20]) * kernel_reciprocal_##real(sums[ICP_SUM_W]);  \
        return twist[0] * twist[0] + twist[1] * twist[1] + twist[2] * twist[2] +                   \
               arm2 * (twist[3] * twist[3] + twist[4] * twist[4] + twist[5] * twist[5]);           \
    }

// A level is left when the step is below the root of this [m^2], rotation counted at the scene's
// distance: 10 um, far below what a pose can know; more on coarse levels, whose only duty is to
// start the next one (and whose damped steps are short).
KERNEL_FN double solve_stop2_m2(uint32_t level)
{
    double stop_m = level == 0 ? 1e-5 : level == 1 ? 1e-4 : 4e-4;
    return stop_m * stop_m;
}

#endif

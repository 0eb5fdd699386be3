// SPDX-License-Identifier: Apache-2.0
// A run's steps: the M-step that moves it, how far it still has to go, and leaps that get it there
// in fewer steps. One set of rules for both twins, on the device too.
#ifndef POSED_GPU_REGISTER_KERNELS_M_STEP_H
#define POSED_GPU_REGISTER_KERNELS_M_STEP_H

#include "gpu/register/kernels/solve.h"
#include "gpu/register/ops.h"

#define REGISTER_MOST_RATIO 0.97 // of a step to the one before; also what is taken while unknown

// How fast the steps at one sigma become smaller, and so how far the run is from where they lead.
struct register_pace {
    double last[6], last2; // the step before, as a twist, and its square in the metric of the pairs
    double ratio;          // of a step to the one before, the last that was seen
    uint32_t n_plain;      // steps since the beginning or since the last leap
};

KERNEL_FN struct register_pace register_pace_begin(void)
{
    struct register_pace pace;
    for (int i = 0; i < 6; i++)
        pace.last[i] = 0;
    pace.last2 = 0;
    pace.ratio = REGISTER_MOST_RATIO;
    pace.n_plain = 0;
    return pace;
}

// The M-step: solves the sums and moves the run by the step, on the left of run->T. T drifts from a
// rotation by 1e-16 a step; the end of a run puts that right. False: not determined, T stays.
KERNEL_FN bool register_step(const double *sums, bool planes, struct register_run *run,
                             struct se3 *out_step)
{
    run->mass = sums[REGISTER_SUM_W];
    run->residual2 = run->mass > 0 ? sums[REGISTER_SUM_R2] / run->mass : 0;
    bool determined =
        planes ? register_solve_planes(sums, out_step) : register_solve_points(sums, out_step);
    if (determined)
        run->T = se3_compose(out_step, &run->T);
    return determined;
}

// After the last step; sums are those that it was solved from.
KERNEL_FN void register_finish(const double *sums, struct register_run *run)
{
    register_information(sums, run->information);
    run->T = se3_normalized(&run->T);
}

// sum w (A y) . (B y) for small motions A and B (left twists: translation, rotation).
KERNEL_FN double register_motion(const double *sums, const double a[6], const double b[6])
{
    const double *y = sums + REGISTER_SUM_Y, *yy = sums + REGISTER_SUM_YY;
    const double *v = a, *w = a + 3, *u = b, *q = b + 3;
    const double full[9] = {yy[0], yy[1], yy[2], yy[1], yy[3], yy[4], yy[2], yy[4], yy[5]};
    const double trace = yy[0] + yy[3] + yy[5];
    double sum = 0;
    for (int i = 0; i < 3; i++) {
        const int j = (i + 1) % 3, k = (i + 2) % 3;
        sum += sums[REGISTER_SUM_W] * v[i] * u[i];
        sum += v[i] * (q[j] * y[k] - q[k] * y[j]) + u[i] * (w[j] * y[k] - w[k] * y[j]);
        sum += trace * w[i] * q[i];
        for (int m = 0; m < 3; m++)
            sum -= w[i] * full[3 * i + m] * q[m];
    }
    return sum;
}

// Steps of an alignment with fixed sigma shrink by a ratio that soon stays the same (0.9 to 0.95 on
// scans): what is left is a geometric series. Takes the step that run was just moved by and returns
// what is left of the way, in standard deviations of the pose (the length of a motion in the metric
// of its information matrix). Once three steps lie on a line the run leaps to the end of the series
// (as Besl and McKay's accelerated ICP does): a tenth of the steps lead as far.
KERNEL_FN double register_pace_take(struct register_pace *pace, const double *sums,
                                    const struct se3 *step, struct register_run *run)
{
    const double twist[6] = {step->t_m[0],
                             step->t_m[1],
                             step->t_m[2],
                             0.5 * (step->r[7] - step->r[5]),
                             0.5 * (step->r[2] - step->r[6]),
                             0.5 * (step->r[3] - step->r[1])};
    const double square = register_motion(sums, twist, twist), last2 = pace->last2;
    const double length2 = square > 0 ? square : 0; // rounding
    // Coordinates are floats: they are not known better than this.
    const double variance = run->residual2 / 3 + 1e-14;
    const uint32_t n_plain = pace->n_plain++;
    double ratio = pace->ratio, along = 0;
    if (last2 > 0) {
        along = register_motion(sums, twist, pace->last);
        ratio = along / last2;
    }
    const bool leaps = n_plain > 1 && ratio > 0.5 && ratio < REGISTER_MOST_RATIO &&
                       along * along > 0.8 * length2 * last2;
    ratio = ratio < 0.5 ? 0.5 : ratio < REGISTER_MOST_RATIO ? ratio : REGISTER_MOST_RATIO;
    pace->ratio = ratio;
    const double factor = ratio / (1 - ratio);
    for (int i = 0; i < 6; i++)
        pace->last[i] = twist[i];
    pace->last2 = length2;
    if (leaps) {
        double rest[6];
        for (int i = 0; i < 6; i++)
            rest[i] = factor * twist[i];
        const struct se3 leap = se3_exp(rest);
        run->T = se3_compose(&leap, &run->T);
        pace->n_plain = 0;
        pace->last2 = 0; // the next step is no member of this series
    }
    return factor * sqrt(length2 / variance);
}

#endif

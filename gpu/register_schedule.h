// SPDX-License-Identifier: Apache-2.0
// When sigma falls and when a run ends: one set of rules for both twins, on the device too.
#ifndef POSED_GPU_REGISTER_SCHEDULE_H
#define POSED_GPU_REGISTER_SCHEDULE_H

#include "gpu/kernels/register_solve.h"
#include "gpu/register_ops.h"

struct register_schedule {
    double sigma2;
    uint32_t inner, n_held;
};

KERNEL_FN struct register_schedule register_schedule_begin(const struct register_anneal *anneal,
                                                           struct register_run *run)
{
    struct register_schedule schedule;
    schedule.sigma2 = anneal->sigma2_first;
    schedule.inner = schedule.n_held = 0;
    run->converged = false;
    run->determined = true;
    return schedule;
}

// Applies a step on the left of run->T, which drifts from a rotation by 1e-16 a step; the end of a
// run puts that right. Returns the step's size, |translation| + 2 sin(angle / 2).
KERNEL_FN double register_apply(const struct se3 *step, struct register_run *run)
{
    double trace = step->r[0] + step->r[4] + step->r[8];
    run->T = se3_compose(step, &run->T);
    return sqrt(step->t_m[0] * step->t_m[0] + step->t_m[1] * step->t_m[1] +
                step->t_m[2] * step->t_m[2]) +
           sqrt(trace < 3 ? 3 - trace : 0);
}

// The M-step: solves the sums and moves the run. Returns the size of the step, or -1.
KERNEL_FN double register_step(const double *sums, bool planes, struct register_run *run)
{
    struct se3 step;
    run->mass = sums[REGISTER_SUM_W];
    run->residual2 = run->mass > 0 ? sums[REGISTER_SUM_R2] / run->mass : 0;
    bool determined =
        planes ? register_solve_planes(sums, &step) : register_solve_points(sums, &step);
    return determined ? register_apply(&step, run) : -1;
}

// After the last step; sums are those that it was solved from.
KERNEL_FN void register_finish(const double *sums, struct register_run *run)
{
    register_information(sums, run->information);
    run->T = se3_normalized(&run->T);
}

// After an M-step whose size was `size` (negative: not determined).
KERNEL_FN void register_schedule_note(const struct register_anneal *anneal, double size,
                                      struct register_run *run)
{
    run->n_iterations++;
    run->determined = run->determined && size >= 0;
    run->converged = size >= 0 && size < anneal->tolerance;
}

// False: the run is at its end.
KERNEL_FN bool register_schedule_next(const struct register_anneal *anneal,
                                      const struct register_run *run,
                                      struct register_schedule *schedule)
{
    if (++schedule->inner < anneal->n_inner)
        return true;
    schedule->inner = 0;
    double sigma2 = schedule->sigma2, lower = sigma2 * anneal->factor;
    // A schedule without a hold ends before its last value, as the paper's does.
    if (lower <= anneal->sigma2_last && anneal->n_hold == 0)
        return false;
    double ratio2 = anneal->residual_ratio * anneal->residual_ratio;
    bool at_noise = ratio2 > 0 && run->residual2 > ratio2 * sigma2;
    if (!at_noise && sigma2 > anneal->sigma2_last) {
        schedule->sigma2 = lower > anneal->sigma2_last ? lower : anneal->sigma2_last;
        return true;
    }
    if (run->converged || schedule->n_held == anneal->n_hold)
        return false;
    schedule->n_held++;
    return true;
}

#endif

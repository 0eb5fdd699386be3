// SPDX-License-Identifier: Apache-2.0
// One step of the anneal: when sigma falls and when a run ends. One set of rules for both twins, on
// the device too. From where to where and by which factor: gpu/register/annealing_schedule.c.
#ifndef POSED_GPU_REGISTER_KERNELS_ANNEALING_STEP_H
#define POSED_GPU_REGISTER_KERNELS_ANNEALING_STEP_H

#include "gpu/register/kernels/m_step.h"

struct register_schedule {
    double sigma2;
    uint32_t inner, n_held;
    struct register_pace pace; // while sigma stays
};

KERNEL_FN struct register_schedule register_schedule_begin(const struct register_anneal *anneal,
                                                           struct register_run *run)
{
    struct register_schedule schedule;
    schedule.sigma2 = anneal->sigma2_first;
    schedule.inner = schedule.n_held = 0;
    schedule.pace = register_pace_begin();
    run->converged = false;
    run->determined = true;
    return schedule;
}

// An iteration's end: the M-step, then where sigma goes. False: the run is at its end.
KERNEL_FN bool register_schedule_take(const struct register_anneal *anneal, const double *sums,
                                      struct register_run *run, struct register_schedule *schedule)
{
    struct se3 step;
    bool determined = register_step(sums, anneal->planes, run, &step);
    run->n_iterations++;
    run->determined = run->determined && determined;
    if (++schedule->inner < anneal->n_inner)
        return true;
    schedule->inner = 0;
    double sigma2 = schedule->sigma2, lower = sigma2 * anneal->factor;
    double ratio2 = anneal->residual_ratio * anneal->residual_ratio;
    bool at_noise = ratio2 > 0 && run->residual2 > ratio2 * sigma2;
    // A schedule without a hold ends before its last value, as the paper's does.
    bool at_end = lower <= anneal->sigma2_last && anneal->n_hold == 0;
    if (!at_end && !at_noise && sigma2 > anneal->sigma2_last) {
        schedule->sigma2 = lower > anneal->sigma2_last ? lower : anneal->sigma2_last;
        schedule->pace = register_pace_begin();
        return true;
    }
    double left = register_pace_take(&schedule->pace, sums, &step, run);
    run->converged = determined && left < anneal->tolerance;
    if (!at_end && !run->converged && schedule->n_held++ < anneal->n_hold)
        return true;
    register_finish(sums, run);
    return false;
}

#endif

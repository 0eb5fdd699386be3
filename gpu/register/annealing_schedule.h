// SPDX-License-Identifier: Apache-2.0
// The annealing schedule: the stages that a registration is made of. Each hands a transform on,
// with more points and a smaller sigma than the one before. All distances are in the unit of
// gpu/register/normalise.h (the smaller robust radius). Which stages follow each other:
// gpu/register/pipeline.c. Private to gpu.
//
// Where the numbers come from: chosen on trials 00, 04, 08, 12, 16 of bunny_robustness by what
// still finds overlap 0.4 (the hardest level), then checked on the others. sigma^2 0.1 is the
// widest start that does not pull a partial view onto the other set's centre.
#ifndef POSED_GPU_REGISTER_ANNEALING_SCHEDULE_H
#define POSED_GPU_REGISTER_ANNEALING_SCHEDULE_H

#include "gpu/register/normalise.h"
#include "gpu/register/ops.h"

// One registration under way.
struct register_task {
    const struct register_ops *ops;
    void *device;
    const struct register_sets *sets;
    const struct register_settings *settings;
    struct register_stop *stop;
    uint32_t n_source, n_target; // points of the last all-pairs stage
    bool planes;
    double sigma_first; // of `finish`: where the pose's own uncertainty is; 0 = after a polish
};

// Tells whoever asked for progress that a stage begins, after `share` of the work.
void register_report(const struct register_task *task, double share, const char *stage);

// All stages: in: the runs' T, out: the runs. 0 or the negative errno of the backend's operation
// (gpu/register/ops.h). The first two work with a wider slack than the last one: they have to keep
// a basin.

// Few points, from starts anywhere: which basins there are.
__attribute__((warn_unused_result)) int
register_stage_coarse(const struct register_task *task, struct register_run *runs, uint32_t n);
// More points, from starts of the stage before.
__attribute__((warn_unused_result)) int
register_stage_polish(const struct register_task *task, struct register_run *runs, uint32_t n);
// From one start: the anneal begins wide enough to reach over the distance between the centres.
__attribute__((warn_unused_result)) int register_stage_wide(const struct register_task *task,
                                                            struct register_run *run);
// All points (of the all-pairs limit), down to the last sigma, until the steps are small.
__attribute__((warn_unused_result)) int
register_stage_finish(const struct register_task *task, struct register_run *runs, uint32_t n_runs);
// Sets larger than the all-pairs limit: more points, near pairs only. As sigma falls, points are
// taken that lie about as far apart: a stage costs what its points cost, and a point about thirty
// pairs. Of the source 131,072 are enough, they are averaged over.
__attribute__((warn_unused_result)) int register_stage_refine(const struct register_task *task,
                                                              struct register_run *run);
// ICP from where the run stands; the overlap is measured as the soft methods do.
__attribute__((warn_unused_result)) int register_stage_icp(const struct register_task *task,
                                                           struct register_run *run);
// The authors' program: their schedule, all points, one start.
__attribute__((warn_unused_result)) int register_stage_tamaki(const struct register_task *task,
                                                              struct register_run *run);

#endif

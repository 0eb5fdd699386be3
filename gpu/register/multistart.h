// SPDX-License-Identifier: Apache-2.0
// Where an alignment starts when nothing is known, and the look elsewhere after one that started
// at one place: rotations spread over SO(3), each at its centre and shifted six ways (a partial
// view's centre is not the object's), aligned coarsely in one batch; the best of distinct basins
// are polished. Private to gpu.
#ifndef POSED_GPU_REGISTER_MULTISTART_H
#define POSED_GPU_REGISTER_MULTISTART_H

#include "gpu/register/annealing_schedule.h"

// From everywhere. *out: the best *out_n runs of distinct basins, polished, best first; the caller
// frees it, also after an error. 0, -ENOMEM or a stage's negative errno.
__attribute__((warn_unused_result)) int
register_multistart(const struct register_task *task, struct register_run **out, uint32_t *out_n);

// A start at one place says nothing about others: a coarse look at them, the found pose runs[0]
// among them. One that comes near is finished like it and becomes runs[1]. Returns 1 when there is
// one, 0 when there is none, or a negative errno.
__attribute__((warn_unused_result)) int register_multistart_rival(const struct register_task *task,
                                                                  struct register_run runs[2]);

#endif

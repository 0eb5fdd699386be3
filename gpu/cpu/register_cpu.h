// SPDX-License-Identifier: Apache-2.0
// What the files of the registration's CPU backend share.
#ifndef POSED_GPU_CPU_REGISTER_CPU_H
#define POSED_GPU_CPU_REGISTER_CPU_H

#include "gpu/cpu/kdtree.h"
#include "gpu/cpu/pool.h"
#include "gpu/cpu/register_pass.h"
#include "gpu/register_ops.h"

struct register_cpu {
    struct pool *pool;
    const struct register_passes *passes;
    struct point_set set[2]; // enum register_side; the caller's arrays
    struct kdtree *tree;     // of the target, NULL until `nearest` wants it
    struct log_sink log;
};

// Takes sigma^2 through its schedule and calls `iterate` for the sums of every M-step; NULL ends
// it. 0 or what register_stopped says.
int register_cpu_schedule(const struct register_anneal *anneal, struct register_run *run,
                          const struct register_stop *stop,
                          const double *(*iterate)(void *context, double sigma2,
                                                   const struct se3 *T),
                          void *context);

// The second form: matrices in memory, plain loops (gpu/cpu/register_dense.c).
int register_cpu_anneal_dense(struct register_cpu *cpu, const struct register_anneal *anneal,
                              struct register_run *run, const struct register_stop *stop);

int register_cpu_nearest(void *device, const struct register_nearest *nearest,
                         struct register_run *run, const struct register_stop *stop);

#endif

// SPDX-License-Identifier: Apache-2.0
// What the files of the registration's CPU backend share.
#ifndef POSED_GPU_REGISTER_CPU_DEVICE_H
#define POSED_GPU_REGISTER_CPU_DEVICE_H

#include "gpu/base/pool.h"
#include "gpu/register/cpu/kdtree.h"
#include "gpu/register/cpu/pass.h"
#include "gpu/register/cpu/surface_levels.h"
#include "gpu/register/ops.h"

struct register_cpu {
    struct pool *pool;
    const struct register_passes *passes;
    struct point_set set[2]; // enum register_side; the caller's arrays
    struct kdtree *tree;     // of the target, NULL until `nearest` wants it
    struct register_cpu_surfaces surfaces;
    struct log_sink log;
};

// Takes sigma^2 through its schedule and calls `iterate` for the sums of every M-step; NULL ends
// it. 0 or what register_stopped says.
int register_cpu_schedule(const struct register_anneal *anneal, struct register_run *run,
                          const struct register_stop *stop,
                          const double *(*iterate)(void *context, double sigma2,
                                                   const struct se3 *T),
                          void *context);

// The second form: matrices in memory, plain loops (gpu/register/cpu/dense.c).
int register_cpu_anneal_dense(struct register_cpu *cpu, const struct register_anneal *anneal,
                              struct register_run *run, const struct register_stop *stop);

int register_cpu_nearest(void *device, const struct register_nearest *nearest,
                         struct register_run *run, const struct register_stop *stop);

int register_cpu_surfaces(void *device, const struct register_surface_load loads[2],
                          uint32_t n_levels, struct register_surface info[2][REGISTER_MOST_LEVELS]);
int register_cpu_gicp(void *device, const struct register_gicp *gicp, bool inverse,
                      struct register_fit *fits, uint32_t n_fits, const struct register_stop *stop);
int register_cpu_fetch(void *device, enum register_side side, uint32_t level,
                       struct register_cell_point *out_points,
                       struct register_cell_point *out_normals);

#endif

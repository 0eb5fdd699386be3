// SPDX-License-Identifier: Apache-2.0
// The CPU's levels of both sets: memory, and how they are filled.
#ifndef POSED_GPU_REGISTER_CPU_SURFACE_LEVELS_H
#define POSED_GPU_REGISTER_CPU_SURFACE_LEVELS_H

#include "gpu/base/pool.h"
#include "gpu/register/ops.h"

struct register_cpu_level {
    struct register_cells cells;
    uint32_t n;
    struct register_cell_point *points, *normals; // n each
    size_t room_blocks, room_points;
};

struct register_cpu_surfaces {
    struct register_cpu_level level[2][REGISTER_MOST_LEVELS];
    uint32_t *cell_of[2]; // by point of a set, while its first level is made
    uint64_t *sums[2];    // four a cell: x, y, z, number of points
    size_t room_cells[2], room_sums[2];
};

// register_ops.surfaces. 0 or -ENOMEM; then both sets are empty.
__attribute__((warn_unused_result)) int
register_cpu_surfaces_fill(struct register_cpu_surfaces *surfaces, struct pool *pool,
                           const struct register_surface_load loads[2], uint32_t n_levels,
                           struct register_surface info[2][REGISTER_MOST_LEVELS]);
void register_cpu_surfaces_free(struct register_cpu_surfaces *surfaces);

#endif

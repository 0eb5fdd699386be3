// SPDX-License-Identifier: Apache-2.0
// The surfaces of both sets on the device: levels of cells, and what GICP keeps there.
#ifndef POSED_GPU_REGISTER_CUDA_SURFACE_LEVELS_CUH
#define POSED_GPU_REGISTER_CUDA_SURFACE_LEVELS_CUH

extern "C" {
#include "gpu/register/kernels/pair.h"
}
#include "gpu/base/cuda.cuh"

struct register_cuda_level {
    struct register_cells cells; // mask and first on the device
    uint32_t n;
    struct cuda_memory mask, first, points, normals;
};

struct register_cuda_levels {
    struct register_cuda_level level[2][REGISTER_MOST_LEVELS];
    struct cuda_memory raw, sums, bits, scan, counts, partial, fits;
    struct cuda_memory host; // page-locked: counts of the levels, fits
};

void register_cuda_surfaces_close(struct cuda_dev *dev, struct register_cuda_levels *surfaces);
size_t register_cuda_surfaces_bytes(const struct register_cuda_levels *surfaces);

// register_ops
int register_cuda_surfaces(void *device, const struct register_surface_load loads[2],
                           uint32_t n_levels,
                           struct register_surface info[2][REGISTER_MOST_LEVELS]);
int register_cuda_gicp(void *device, const struct register_gicp *gicp, bool inverse,
                       struct register_fit *fits, uint32_t n_fits,
                       const struct register_stop *stop);
int register_cuda_fetch(void *device, enum register_side side, uint32_t level,
                        struct register_cell_point *out_points,
                        struct register_cell_point *out_normals);

#endif

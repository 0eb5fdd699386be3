// SPDX-License-Identifier: Apache-2.0
// The surface that a set samples, at several resolutions: one mean point a cell with the normal of
// its neighbourhood. What GICP, the features and the judging of poses work on. Private to gpu.
#ifndef POSED_GPU_REGISTER_SURFACE_LEVELS_H
#define POSED_GPU_REGISTER_SURFACE_LEVELS_H

#include "gpu/register/kernels/cells.h"
#include "gpu/register/ops.h"

#define REGISTER_FINE_POINTS 10000u // about so many points has the finest level of a large set

// Both sets in cells of the same size. Local coordinates of a set are metres from its origin.
struct register_surfaces {
    double origin_m[2][3];
    double extent_m[2]; // largest edge of a set's box, without its far points
    double cell_m; // of level 0; each level's cells are twice as large as those of the one before
    uint32_t n_levels;
    struct register_surface info[2][REGISTER_MOST_LEVELS]; // side, level
};

// Largest edge of the box of a set of finite points, at least one, without its far points [m].
double register_surfaces_extent(const struct point_set *points);

// Levels of both sets on the device. Returns 0, -ENOMEM, -EIO, -ECANCELED or -ETIME.
__attribute__((warn_unused_result)) int
register_surfaces_build(struct register_surfaces *out, const struct register_ops *ops, void *device,
                        struct pool *pool, const struct point_set *source,
                        const struct point_set *target, const struct register_stop *stop);

// Between the caller's metres and the local coordinates of both sets.
struct se3 register_surfaces_local(const struct register_surfaces *surfaces, const struct se3 *T_m);
struct se3 register_surfaces_metric(const struct register_surfaces *surfaces, const struct se3 *T);

#endif

// SPDX-License-Identifier: Apache-2.0
// GICP over the levels of the surfaces, from coarse to fine, and what a pose is worth at the noise
// of the sets. Private to gpu.
#ifndef POSED_GPU_REGISTER_MULTISCALE_GICP_H
#define POSED_GPU_REGISTER_MULTISCALE_GICP_H

#include "gpu/register/ops.h"
#include "gpu/register/surface_levels.h"

struct register_local {
    const struct register_ops *ops;
    void *device;
    const struct register_surfaces *surfaces;
    const struct register_stop *stop;
};

// What speaks for a pose: both sets looked at, at one level and cut.
struct register_worth {
    double score;                      // 1 - the mean truncated cost of both sets' points
    double share_source, share_target; // with a counterpart
    uint32_t n_pairs;                  // of the source's points
    double residual_m;                 // root mean square between the planes of pairs
};

// All levels from `first` (coarse) to `last`; fits[].T in and out, local coordinates. Returns 0 or
// what the backend's operation does.
__attribute__((warn_unused_result)) int register_local_align(const struct register_local *local,
                                                             uint32_t first, uint32_t last,
                                                             struct register_fit *fits,
                                                             uint32_t n_fits);

// Goes on at level 0 where more iterations would still move the pose: one that is an answer.
__attribute__((warn_unused_result)) int register_local_settle(const struct register_local *local,
                                                              struct register_fit *io);

// Level `level`; the cut is that of its last round.
__attribute__((warn_unused_result)) int
register_local_judge(const struct register_local *local, uint32_t level,
                     const struct register_fit *fits, uint32_t n_fits, struct register_worth *out);

#endif

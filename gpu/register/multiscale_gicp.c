// SPDX-License-Identifier: Apache-2.0
#include "gpu/register/multiscale_gicp.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/register/kernels/gicp.h"

// Planes of a pair may be so far apart in a level's last round: three times the noise, and what the
// curvature within a cell makes of a plane.
static double last_cut(const struct register_surfaces *surfaces, uint32_t level)
{
    const double cell = surfaces->cell_m * (1 << level);
    const double noise = fmax(surfaces->info[0][level].noise_m, surfaces->info[1][level].noise_m);
    return fmax(0.25 * cell, fmin(4 * noise, cell));
}

int register_local_align(const struct register_local *local, uint32_t first, uint32_t last,
                         struct register_fit *fits, uint32_t n_fits)
{
    const struct register_surfaces *surfaces = local->surfaces;
    for (uint32_t l = first; l != last - 1; l--) {
        const double cell = surfaces->cell_m * (1 << l), cut = last_cut(surfaces, l);
        const int n_rounds = l == first ? 3 : l > last ? 2 : 1;
        for (int round = n_rounds; round > 0; round--) {
            const struct register_gicp gicp = {
                .level = l,
                .reach_m = round * cell * 1.5,
                .cut_m = round > 1 ? fmax(cut, 0.75 * cell * (round - 1)) : cut,
                .epsilon = GICP_EPSILON,
                .n_iterations = round > 1 ? 12 : 30,
                .tolerance_m = (l == last ? 0.01 : 0.02) * cell,
            };
            int rc = local->ops->gicp(local->device, &gicp, false, fits, n_fits, local->stop);
            if (rc < 0)
                return rc;
        }
    }
    return 0;
}

int register_local_settle(const struct register_local *local, struct register_fit *io)
{
    const double cell = local->surfaces->cell_m;
    const struct register_gicp gicp = {
        .level = 0,
        .reach_m = 1.5 * cell,
        .cut_m = last_cut(local->surfaces, 0),
        .epsilon = GICP_EPSILON,
        .n_iterations = 120,
        .tolerance_m = 0.01 * cell,
    };
    return io->converged ? 0 : local->ops->gicp(local->device, &gicp, false, io, 1, local->stop);
}

int register_local_judge(const struct register_local *local, uint32_t level,
                         const struct register_fit *fits, uint32_t n_fits,
                         struct register_worth *out)
{
    const struct register_surfaces *surfaces = local->surfaces;
    const double cell = surfaces->cell_m * (1 << level);
    const struct register_gicp gicp = {.level = level,
                                       .reach_m = 1.5 * cell,
                                       .cut_m = last_cut(surfaces, level),
                                       .epsilon = GICP_EPSILON};
    struct register_fit *both = malloc(n_fits * sizeof *both);
    if (!both)
        return -ENOMEM;
    int rc = 0;
    for (int inverse = 0; rc == 0 && inverse < 2; inverse++) {
        memcpy(both, fits, n_fits * sizeof *both);
        rc = local->ops->gicp(local->device, &gicp, inverse, both, n_fits, local->stop);
        for (uint32_t i = 0; rc == 0 && i < n_fits; i++) {
            struct register_worth *worth = &out[i];
            if (!inverse) {
                *worth = (struct register_worth){.share_source = both[i].share,
                                                 .score = 1 - both[i].cost,
                                                 .n_pairs = both[i].n_pairs,
                                                 .residual_m = both[i].residual2_m2};
            } else {
                worth->share_target = both[i].share;
                worth->score = 0.5 * (worth->score + 1 - both[i].cost);
                worth->residual_m = sqrt(0.5 * (worth->residual_m + both[i].residual2_m2));
            }
        }
    }
    free(both);
    return rc;
}

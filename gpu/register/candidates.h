// SPDX-License-Identifier: Apache-2.0
// Poses from features: descriptors, correspondences, the poses of consistent ones, each finished by
// GICP and judged at the noise of the sets. Private to gpu.
#ifndef POSED_GPU_REGISTER_CANDIDATES_H
#define POSED_GPU_REGISTER_CANDIDATES_H

#include "gpu/base/pool.h"
#include "gpu/register/bounding_planes.h"
#include "gpu/register/free_space.h"
#include "gpu/register/manhattan.h"
#include "gpu/register/multiscale_gicp.h"

#define REGISTER_MOST_CANDIDATES 16u

struct register_candidate {
    struct register_fit fit;
    struct register_worth worth; // at level 0 once it is finished
    uint32_t n_support;          // feature correspondences that the pose does
    double behind; // of both sets: shares that the pose brings behind the other's walls
    double before; // and into the space that the other shows to be empty; summed
};

// Points of both sets that correspond by their features, local coordinates.
struct register_matched {
    struct register_matched_pair {
        double source_m[3], target_m[3];
        double within_m; // a pose does the pair when it brings it so near
    } * pairs;           // of all levels that were looked at
    uint32_t n;
    struct register_axes axes[2]; // of both sets
    struct register_walls *walls; // of both sets, or NULL
    struct register_sight *sights;
    struct register_cell_point *points[2]; // some of both, which may lie behind the other's
    uint32_t n_points[2];
};

struct register_candidates {
    struct register_candidate best[REGISTER_MOST_CANDIDATES]; // finished, best first
    uint32_t n;
    struct register_matched matched; // none before features were looked at
};

// From features and, when `given` is not NULL, that pose too. Returns 0 or a negative errno; *out
// is to be freed in either case.
__attribute__((warn_unused_result)) int register_candidates_find(const struct register_local *local,
                                                                 struct pool *pool,
                                                                 const struct se3 *given,
                                                                 struct register_candidates *out);
void register_candidates_free(struct register_candidates *candidates);

// Aligns and judges a pose found elsewhere and puts it among them.
__attribute__((warn_unused_result)) int register_candidates_add(const struct register_local *local,
                                                                const struct se3 *T,
                                                                struct register_candidates *out);

// Correspondences that a pose does and the best one, too, or nearly so: a neighbour's are no other
// pose's.
uint32_t register_candidates_shared(const struct register_matched *matched, const struct se3 *T,
                                    const struct se3 *T_best);

// Counts n_support of a pose that was judged without features.
void register_candidates_support(const struct register_candidates *from,
                                 struct register_candidate *candidate);

#endif

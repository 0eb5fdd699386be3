// SPDX-License-Identifier: Apache-2.0
// Poses from features: descriptors, correspondences, the poses of consistent ones, each finished by
// GICP and judged at the noise of the sets. Private to gpu.
#ifndef POSED_GPU_REGISTER_CANDIDATES_H
#define POSED_GPU_REGISTER_CANDIDATES_H

#include "gpu/base/pool.h"
#include "gpu/register/axes.h"
#include "gpu/register/local.h"
#include "gpu/register/sight.h"
#include "gpu/register/walls.h"

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

// Counts n_support of a pose that was judged without features.
void register_candidates_support(const struct register_candidates *from,
                                 struct register_candidate *candidate);

// What a candidate is ranked by: the root of its score, up to 21 times as much where
// features agree. Planes of a room coincide in many poses, and in a wrong one often better than in
// the right one; then few of the correspondences, which no plane has, lie on each other. The less,
// the more of a set it brings behind the other's walls or into the space that the other shows to be
// empty: of 118 right poses of rooms half have none of that, 97 % 0.0085 at most, most wrong ones
// 0.01 to 0.3 (posed-bench pairs --rooms 10, seeds 1001 to 1032); of five of real rooms 0.0015.
double register_candidates_evidence(const struct register_candidate *candidate);

// What speaks for the best, 0..1: its score, the less the nearer the evidence for the next pose
// elsewhere comes to its own. Nothing for fewer pairs than any patch finds somewhere in a scene.
// Of poses that features found, nothing unless the correspondences that speak for it, for what
// walls and the empty space leave of them, are twice as many as for any other pose and so many more
// that this times the score is REGISTER_LEAST_LEAD: wrong poses, of pieces of two different rooms,
// too, reach 6.7 (960 pairs: seeds 901 to 932, 1001 to 1032, 1101 to 1132; later 5 of 257 wrong
// ones reached 7.2 to 14: rooms that are alike when turned by half). Of others, nothing
// where the evidence for another pose comes nearer than REGISTER_NEAR_SCORE of its own (a symmetric
// object), where more correspondences speak for another, or walls and empty space against it.
#define REGISTER_NEAR_SCORE  0.8
#define REGISTER_LEAST_PAIRS 150u
#define REGISTER_LEAST_LEAD  7.0
double register_candidates_trust(const struct register_candidates *candidates);

// Wrong winners reached 0.077, right ones 0.088 and more (scans_bunny all pairs, statue_scans all
// pairs, when scores counted in full). Above the second figure nobody looks for others.
#define REGISTER_TRUST     0.083
#define REGISTER_SURE      0.22
#define REGISTER_SURE_NEAR 0.30 // of a pose that began at one place

#endif

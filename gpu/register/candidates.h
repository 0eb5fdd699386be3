// SPDX-License-Identifier: Apache-2.0
// Poses from features: descriptors, correspondences, the poses of consistent ones, each finished by
// GICP and judged at the noise of the sets. Private to gpu.
#ifndef POSED_GPU_REGISTER_CANDIDATES_H
#define POSED_GPU_REGISTER_CANDIDATES_H

#include "gpu/base/pool.h"
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
    uint32_t n, n_looks;
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

// What a candidate is ranked by: its score, up to three times as much where features agree. Planes
// of a room coincide in many poses, and in a wrong one often better than in the right one; then few
// of the correspondences, which no plane has, lie on each other. The less, the more of a set it
// brings behind the other's walls or into the space that the other shows to be empty: right poses
// have 0.013 of that at most, most wrong ones 0.03 to 0.3 (posed-bench pairs --rooms 12 --seed 720,
// --rooms 24 --seed 731).
double register_candidates_evidence(const struct register_candidate *candidate);

// What speaks for the best, 0..1: its score, the less the nearer the evidence for the next pose
// elsewhere comes to its own, and nothing from REGISTER_NEAR_SCORE of it on (a symmetric object).
// Nothing for fewer pairs than any patch finds somewhere in a scene, nor where more features speak
// for another pose, nor where the walls and the empty space speak against all. Where features were
// looked at, nothing where the correspondences that speak for the best, or for it and not for the
// next, are as few as for pieces of two different rooms (the seeds above: wrong ones that
// nothing else doubts had up to 16 after one look and 22 after two, right ones 19 and 49 or more).
#define REGISTER_NEAR_SCORE    0.8
#define REGISTER_LEAST_PAIRS   150u
#define REGISTER_LEAST_SUPPORT 9.0
#define REGISTER_LEAST_PAIRED  9u // and as many for each look
double register_candidates_trust(const struct register_candidates *candidates);

// Wrong winners reached 0.077, right ones 0.088 and more (scans_bunny all pairs, statue_scans all
// pairs). Above the second figure nobody looks for others.
#define REGISTER_TRUST     0.083
#define REGISTER_SURE      0.22
#define REGISTER_SURE_NEAR 0.30 // of a pose that began at one place

#endif

// SPDX-License-Identifier: Apache-2.0
// From a coarse hypothesis to a pose: projective point-to-plane ICP of model points against the
// depth image, with the stored points of the nearest reference view (no rendering, for hundreds of
// candidates). The formulas stand in kernels/ (icp.h, score.h). Private to gpu.
#ifndef POSED_GPU_SEARCH_CPU_REFINE_POINTS_H
#define POSED_GPU_SEARCH_CPU_REFINE_POINTS_H

#include "gpu/search/kernels/pose.h"
#include "gpu/search/object.h"

// The first steps of search_refine_points (host.h) and the verdict by which most candidates are
// given up, for who fits the weights of the score (tools/bench/search_weights.c). False: a step had
// no solution.
bool search_score_loosely(const struct search_scene *scene, const struct search_object *object,
                          struct search_candidate *candidate);

#endif

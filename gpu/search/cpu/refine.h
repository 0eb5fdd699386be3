// SPDX-License-Identifier: Apache-2.0
// From a coarse hypothesis to a pose: projective point-to-plane ICP of model points against the
// depth image, first with the stored points of the nearest reference view (no rendering, for
// hundreds of candidates), then with the model drawn at the image's full resolution (for the best).
// The formulas stand in kernels/ (icp.h, score.h, draw.h). Private to gpu.
#ifndef POSED_GPU_SEARCH_CPU_REFINE_H
#define POSED_GPU_SEARCH_CPU_REFINE_H

#include "gpu/search/cpu/drawing.h"

void search_refine_points(const struct search_scene *scene, const struct search_object *object,
                          struct search_candidate *candidate);

// Its first steps and the judgement by which most candidates are given up, for who fits the weights
// of the score (tools/bench/search_weights.c). False: a step had no solution.
bool search_judge_loosely(const struct search_scene *scene, const struct search_object *object,
                          struct search_candidate *candidate);

void search_refine_drawn(const struct search_scene *scene, const struct search_object *object,
                         struct search_candidate *candidate, uint32_t n_rounds,
                         struct search_drawing *drawing);

// The same with the silhouette drawn to the image's edges: for a pose that is known to be nearly
// right (an occluder's edge beside the outline would mislead one that is not).
void search_refine_edges(const struct search_scene *scene, const struct search_object *object,
                         struct search_candidate *candidate, uint32_t n_rounds,
                         struct search_drawing *drawing);

#endif

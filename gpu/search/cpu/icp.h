// SPDX-License-Identifier: Apache-2.0
// A step of projective point-to-plane ICP on the CPU: model points against the depth image, many at
// a time. The formulas stand in kernels/icp.h. Private to gpu.
#ifndef POSED_GPU_SEARCH_CPU_ICP_H
#define POSED_GPU_SEARCH_CPU_ICP_H

#include "gpu/search/kernels/icp.h"
#include "gpu/search/kernels/pose.h"

#define MODEL_POINTS_MAX   3072 // of a drawn model; more pixels are thinned out evenly
#define MODEL_POINTS_LANES 8

// Model points with their normals in the model's centred frame [m], as arrays; n is a multiple of
// MODEL_POINTS_LANES, padded with points behind the camera.
struct model_points {
    uint32_t n;
    float p[3][MODEL_POINTS_MAX], n_[3][MODEL_POINTS_MAX];
};

// Fills up to a multiple of MODEL_POINTS_LANES with points that lie behind every camera.
void model_points_pad(struct model_points *points);

// Sums of one step over all points: search_icp_add on MODEL_POINTS_LANES rows at a time.
void model_points_sums(const struct search_scene *scene, const struct model_points *points,
                       const struct search_icp_gates *gates, float radius_m,
                       const struct search_candidate *candidate, int64_t out[SEARCH_ICP_SUMS]);

// Sums and solves one step. Returns what search_icp_step does.
float model_points_step(const struct search_scene *scene, const struct model_points *points,
                        const struct search_icp_gates *gates, float radius_m,
                        struct search_candidate *candidate);

#endif

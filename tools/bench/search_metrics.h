// SPDX-License-Identifier: Apache-2.0
// How far an estimated object pose is from the true one: the measures of the BOP benchmark (Hodan
// et al. 2018, 2020), written from their definitions.
#ifndef POSED_TOOLS_BENCH_SEARCH_METRICS_H
#define POSED_TOOLS_BENCH_SEARCH_METRICS_H

#include "proto/types.h"

// Model points, x y z each [m].
struct metric_points {
    const float *xyz_m;
    size_t n_points;
};

// ADD: mean distance between the model's points in both poses [m].
double metric_add(const struct metric_points *points, const struct se3 *T_estimate,
                  const struct se3 *T_truth);

// ADD-S: mean distance from each point in the true pose to the nearest point in the estimated one
// [m]. Every `stride`-th point is asked (all are answers); stride 1 is the definition.
double metric_add_s(const struct metric_points *points, size_t stride, const struct se3 *T_estimate,
                    const struct se3 *T_truth);

// MSSD: the smallest, over the model's symmetries (transforms model -> model, the identity is
// always one), of the largest distance between points [m].
double metric_mssd(const struct metric_points *points, const struct se3 *symmetries,
                   size_t n_symmetries, const struct se3 *T_estimate, const struct se3 *T_truth);

// VSD: share of the pixels visible in either pose where only one is visible or the surfaces are tau
// or more apart. Distance maps (metres along the ray or z, 0 = not there) of the model in both
// poses and of the scene; a model pixel is visible when it is at most delta behind the scene.
// 0..1; 1 when nothing is visible.
double metric_vsd(const float *estimate_m, const float *truth_m, const float *scene_m,
                  size_t n_pixels, double delta_m, double tau_m);

// Diameter of a point set: the largest distance between two points (through a thinned set when
// there are more than 2000).
double metric_diameter(const struct metric_points *points);

#endif

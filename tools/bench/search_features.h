// SPDX-License-Identifier: Apache-2.0
// What the score of the pose search goes by (gpu/search/kernels/score.h) at poses that are known to
// be right: in numbers that can be had of a real frame and of generated scenes alike. A real value
// beyond nearly all generated ones shows where the generated sensor is kinder than the real one.
#ifndef POSED_TOOLS_BENCH_SEARCH_FEATURES_H
#define POSED_TOOLS_BENCH_SEARCH_FEATURES_H

#include "gpu/search/kernels/score.h"
#include "gpu/search/search.h"

extern const char *const search_feature_names[SEARCH_N_FEATURES];

// The drawn model at a pose, refined as the best candidates of a search are. Returns 0, or as
// search_run does.
__attribute__((warn_unused_result)) int search_features_at(struct search *search,
                                                           const struct search_object *object,
                                                           const struct search_image *image,
                                                           const struct se3 *T_camera_model,
                                                           float out[SEARCH_N_FEATURES]);

#endif

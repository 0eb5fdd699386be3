// SPDX-License-Identifier: Apache-2.0
// A picture of what an alignment left over: the residual of each cell of an image.
#ifndef POSED_GPU_ALIGN_RESIDUAL_MAP_H
#define POSED_GPU_ALIGN_RESIDUAL_MAP_H

#include "gpu/align/align.h"

// |n . q - d| of an image's vertices against all its used pairs' targets, by cell of its cropped
// grid (width * height; NaN where nothing was near): the mean over the pairs. For pictures.
__attribute__((warn_unused_result)) int
align_residual_map(const struct align_source *source, uint32_t image,
                   const struct se3 *T_world_image, const struct align_result *result,
                   double gate_m, struct align_image **out_image, float **out_map);

#endif

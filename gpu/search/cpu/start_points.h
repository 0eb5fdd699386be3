// SPDX-License-Identifier: Apache-2.0
// Where a search starts in the image, and what an answer is worth. Host code. Private to gpu.
#ifndef POSED_GPU_SEARCH_CPU_START_POINTS_H
#define POSED_GPU_SEARCH_CPU_START_POINTS_H

#include "gpu/search/kernels/start_points.h"
#include "gpu/search/object/object.h"
#include "gpu/search/ops.h"

// The frame that looks at a point of the camera's frame along its ray.
struct search_frame search_frame_at(const float point_m[3], float px_m);

// The paper's start point: the pixel that maximises closeness + EDT / 2, on a quarter of the
// resolution. Returns 0 or -ENODATA.
__attribute__((warn_unused_result)) int search_start_nearest(const float *z_m,
                                                             const struct search_camera *camera,
                                                             float px_m, struct search_frame *out);

// Start points all over the visible surface: one in each cube (an eighth of the object's radius
// times two on a side) that holds some, in reading order. Returns their number, at most
// SEARCH_STARTS_MAX: cubes grow until they fit.
uint32_t search_starts(const float *z_m, const float *normal_z, const struct search_camera *camera,
                       const struct search_object *object, struct search_frame *out);

#endif

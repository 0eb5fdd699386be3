// SPDX-License-Identifier: Apache-2.0
// Where the default search starts in the image; the paper's start point is search_start_nearest
// (host.h). Private to gpu.
#ifndef POSED_GPU_SEARCH_CPU_START_POINTS_H
#define POSED_GPU_SEARCH_CPU_START_POINTS_H

#include "gpu/search/kernels/start_points.h"
#include "gpu/search/object.h"
#include "gpu/search/ops.h"

// The frame that looks at a point of the camera's frame along its ray.
struct search_frame search_frame_at(const float point_m[3], float px_m);

// Start points all over the visible surface: one in each cube (an eighth of the object's radius
// times two on a side) that holds some, in reading order. Returns their number, at most
// SEARCH_STARTS_MAX: cubes grow until they fit.
uint32_t search_starts(const float *z_m, const float *normal_z, const struct search_camera *camera,
                       const struct search_object *object, struct search_frame *out);

#endif

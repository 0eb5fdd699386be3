// SPDX-License-Identifier: Apache-2.0
// The points of a depth image, in its camera frame (optical), in metres: every stride-th pixel of
// each row and column that has a depth, row by row. As captured: no filter, no range.
//
// Pure functions.
#ifndef POSED_DAEMON_BACKPROJECT_H
#define POSED_DAEMON_BACKPROJECT_H

#include <stddef.h>

#include "proto/types.h"

// How many points there are. stride >= 1.
size_t backproject_count(const struct depth_frame *frame, uint32_t stride);

// The finest stride with at most max_points.
uint32_t backproject_stride(const struct depth_frame *frame, size_t max_points);

// Axis k of point i goes to out[i * point_step + k * axis_step]: 3, 1 for x y z in turn; 1, n for
// one array an axis.
void backproject_points(const struct depth_frame *frame, const struct intrinsics *camera,
                        uint32_t stride, size_t point_step, size_t axis_step, float *out);

// Unit normals towards the camera of the same points, x y z in turn; 0 0 0 at the edge of a
// surface. By the formula of the tracker (gpu/track/kernels/normal_maps.h), from unfiltered depth:
// noisy.
void backproject_normals(const struct depth_frame *frame, const struct intrinsics *camera,
                         uint32_t stride, float *out);

#endif

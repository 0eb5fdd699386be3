// SPDX-License-Identifier: Apache-2.0
// Whether points can be registered at all. Private to gpu.
#ifndef POSED_GPU_REGISTER_VALIDATE_POINTS_H
#define POSED_GPU_REGISTER_VALIDATE_POINTS_H

#include "gpu/base/pool.h"
#include "proto/types.h"

// 0; -EINVAL with *out_why (a text without a newline): too few points or too many, coordinates or
// normals that are no numbers, all equal or on a line, or so far from the origin that the floats of
// the coordinates are too coarse for the set's size; -ENOMEM.
__attribute__((warn_unused_result)) int
register_points_check(const struct point_set *points, struct pool *pool, const char **out_why);

#endif

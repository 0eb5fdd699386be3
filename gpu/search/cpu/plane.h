// SPDX-License-Identifier: Apache-2.0
// Surfaces that cannot be the object because they are larger than it: table tops, walls, floors. A
// flat patch that goes on for more than the object's diameter is not part of the object. Host code.
// Private to gpu.
#ifndef POSED_GPU_SEARCH_CPU_PLANE_H
#define POSED_GPU_SEARCH_CPU_PLANE_H

#include "gpu/base/pool.h"
#include "gpu/search/kernels/frame.h"

// Turns the sign of the depths that belong to such planes. `grid` and `fit` are working memory:
// (width / 4) * (height / 4) and three times as many floats.
void search_mark_planes(struct pool *pool, float *z_m, const struct search_camera *camera,
                        float radius_m, float *grid, float *fit);

#endif

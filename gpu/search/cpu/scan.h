// SPDX-License-Identifier: Apache-2.0
// The coarse pass on the CPU. Private to gpu.
#ifndef POSED_GPU_SEARCH_CPU_SCAN_H
#define POSED_GPU_SEARCH_CPU_SCAN_H

#include "gpu/search/ops.h"

// Lays all seeds x anchors on the image z_m (metres, 0 = no measurement, negative: larger than the
// object) at each of n_starts start points. out: n_starts x keep places, the best of each start,
// best first; unused ones have the score INT32_MIN. On all threads of the pool; returns when done,
// or with places that nobody has filled when it is stopped (pool_stopped).
void search_scan(struct pool *pool, const float *z_m, const struct search_camera *camera,
                 const struct search_object *object, const struct search_frame *starts,
                 uint32_t n_starts, uint32_t keep, struct search_hit *out);

#endif

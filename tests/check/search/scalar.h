// SPDX-License-Identifier: Apache-2.0
// The operations of the pose search in their plainest form: the formulas of gpu/search/kernels, one
// pixel after the other, without vectors, threads or chunks, so that results are the same bits.
// What is held against them are the twins' loops. They say nothing about the formulas themselves:
// those stand against reference.h, which shares none (check_search_stages and check_*_reference).
#ifndef POSED_TESTS_CHECK_SEARCH_SCALAR_H
#define POSED_TESTS_CHECK_SEARCH_SCALAR_H

#include "gpu/search/context.h"

#define SCALAR_WINDOW_PIXELS (SEARCH_WINDOW_PX * SEARCH_WINDOW_PX)
#define SCALAR_N_KEEP        6 // hits of a start

void scalar_window(const float *z_m, const struct search_camera *camera,
                   const struct search_frame *frame, uint32_t *out);

// The best fit of each view of the object.
void scalar_fit(const struct search_object *object, const uint32_t *window, int n_iterations,
                struct search_fit *out);

// The best SCALAR_N_KEEP hits of each start.
void scalar_scan(const float *z_m, const struct search_camera *camera,
                 const struct search_object *object, const struct search_frame *starts,
                 uint32_t n_starts, struct search_hit *out);

#endif

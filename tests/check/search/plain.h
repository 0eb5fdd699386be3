// SPDX-License-Identifier: Apache-2.0
// The operations of the pose search in their plainest form: one pixel after the other, without
// tricks, of the same formulas, so that results are the same bits.
#ifndef POSED_TESTS_CHECK_SEARCH_PLAIN_H
#define POSED_TESTS_CHECK_SEARCH_PLAIN_H

#include "gpu/search/context.h"

#define PLAIN_WINDOW_PIXELS (SEARCH_WINDOW_PX * SEARCH_WINDOW_PX)
#define PLAIN_N_KEEP        6 // hits of a start

void plain_window(const float *z_m, const struct search_camera *camera,
                  const struct search_frame *frame, uint32_t *out);

// The best fit of each view of the object.
void plain_fit(const struct search_object *object, const uint32_t *window, int n_iterations,
               struct search_fit *out);

// The best PLAIN_N_KEEP hits of each start.
void plain_scan(const float *z_m, const struct search_camera *camera,
                const struct search_object *object, const struct search_frame *starts,
                uint32_t n_starts, struct search_hit *out);

#endif

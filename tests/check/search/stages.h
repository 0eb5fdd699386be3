// SPDX-License-Identifier: Apache-2.0
// What the operations of a twin do on the way, one step at a time.
#ifndef POSED_TESTS_CHECK_SEARCH_STAGES_H
#define POSED_TESTS_CHECK_SEARCH_STAGES_H

#include "gpu/search/context.h"

// The window that fit_best begins with. SEARCH_WINDOW_PX^2 pairs.
int stage_window(const struct search *search, const struct search_frame *frame, uint32_t *out);

// ops.fit_best of all n views, in the order of the list. views NULL: the first n of the object.
int stage_fit(const struct search *search, const struct search_object *object,
              const struct search_frame *frame, const uint32_t *views, uint32_t n,
              uint32_t n_iterations, struct search_fit *out);

#endif

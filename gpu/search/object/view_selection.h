// SPDX-License-Identifier: Apache-2.0
// The paper's choice of reference views (Germann et al. 2007, section 5): a view is kept when its
// error to every view kept before exceeds a threshold; the threshold grows until they fit. Host
// code. Private to gpu.
#ifndef POSED_GPU_SEARCH_OBJECT_VIEW_SELECTION_H
#define POSED_GPU_SEARCH_OBJECT_VIEW_SELECTION_H

#include "gpu/search/object/build.h"

// Fills n rotations (9 floats each) for a mesh whose views are not built yet; candidates are twice
// as many even ones. When too few differ enough the rest is filled up evenly. Returns 0, -ENOMEM,
// -EIO, or -ECANCELED (by progress, which is called with 0 views done).
__attribute__((warn_unused_result)) int
search_choose_greedy(struct search *search, const struct search_object *object,
                     const struct search_object_settings *settings, float *out_rotations);

#endif

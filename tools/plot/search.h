// SPDX-License-Identifier: Apache-2.0
// Picture of a pose search: the depth image in grey, the model's outline at the best pose, and
// where the model and the image are both there, their difference in colour.
#ifndef POSED_TOOLS_PLOT_SEARCH_H
#define POSED_TOOLS_PLOT_SEARCH_H

#include "gpu/search/search.h"

// Draws to a PNG file (an old one is replaced). Returns 0, -EIO with the reason in the log, or
// -ENOMEM.
__attribute__((warn_unused_result)) int
plot_search(const char *path, const struct search_object *object, const struct search_image *image,
            const struct search_answer *answer, const struct log_sink *log);

#endif

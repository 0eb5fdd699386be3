// SPDX-License-Identifier: Apache-2.0
// Picture of a pose search: the depth image in grey, the outlines of the models where they were
// found, with their names, and where a model and the image are both there, their difference in
// colour.
#ifndef POSED_TOOLS_PLOT_SEARCH_H
#define POSED_TOOLS_PLOT_SEARCH_H

#include "gpu/search/search.h"

struct plot_found {
    const char *name; // UTF-8
    const struct search_object *object;
    const struct search_answer *answer;
};

// Draws to a PNG file (an old one is replaced): of each object its accepted poses or, where it has
// none, the best one, with a dotted outline. Returns 0, -EIO with the reason in the log, or
// -ENOMEM.
__attribute__((warn_unused_result)) int plot_search(const char *path,
                                                    const struct search_image *image,
                                                    const struct plot_found *found, size_t n,
                                                    const struct log_sink *log);

#endif

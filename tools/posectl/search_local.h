// SPDX-License-Identifier: Apache-2.0
#ifndef POSED_TOOLS_POSECTL_SEARCH_LOCAL_H
#define POSED_TOOLS_POSECTL_SEARCH_LOCAL_H

#include "tools/posectl/objects.h"
#include "tools/posectl/sought.h"

struct search_local {
    struct objects objects; // where they are, and what draws them
    const struct search_image *image;
    const struct search_query *query;
    const char *plot; // NULL: no picture
};

// Searches the image for all of them without a daemon, prints the answers and draws them. An object
// or a file that is not usable ends it before the first search. Returns as sought_print, or
// POSECTL_FAILED with the reason on stderr.
__attribute__((warn_unused_result)) enum posectl_exit
search_local(const struct posectl *ctl, const struct search_local *work, struct sought *sought);

#endif

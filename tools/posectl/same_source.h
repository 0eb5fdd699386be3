// SPDX-License-Identifier: Apache-2.0
// Whether two sources, as posed takes them, are one camera's images.
#ifndef POSED_TOOLS_POSECTL_SAME_SOURCE_H
#define POSED_TOOLS_POSECTL_SAME_SOURCE_H

#include <stdbool.h>

// True where the texts are one, or lead to one file or folder (by another path, a link, with and
// without the driver's name) and name the same topic of it.
bool same_source(const char *a, const char *b);

#endif

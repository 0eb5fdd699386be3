// SPDX-License-Identifier: Apache-2.0
// Looks at a file that is to be written, before the work whose result it is to hold: seconds later
// it may be another matter, and is looked at again by what writes it.
#ifndef POSED_TOOLS_POSECTL_OUTPUT_LOOK_H
#define POSED_TOOLS_POSECTL_OUTPUT_LOOK_H

#include <stdbool.h>

// Whether a file can be made at `path`, or the one that is there can be written; NULL: true, none
// is wanted. If not, the reason is on stderr.
bool output_look(const char *path);

// The same of one that was made once, whose name must be free.
bool output_look_new(const char *path);

#endif

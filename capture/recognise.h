// SPDX-License-Identifier: Apache-2.0
// Inside capture/ only: which driver a bare path is for.
#ifndef POSED_CAPTURE_RECOGNISE_H
#define POSED_CAPTURE_RECOGNISE_H

#include <stdbool.h>

// The driver's name for the file or folder at `path` (or PATH#TOPIC), by what stands in it. NULL:
// nothing there, or nothing that is known. out_is_mixed: less than a quarter of the folder belongs
// to that; it may be something else, with such a file in it.
const char *recognise(const char *path, bool *out_is_mixed);

#endif

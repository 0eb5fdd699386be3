// SPDX-License-Identifier: Apache-2.0
// The depth image that `posectl search` looks in, from files.
#ifndef POSED_TOOLS_POSECTL_SEARCH_IMAGE_H
#define POSED_TOOLS_POSECTL_SEARCH_IMAGE_H

#include "gpu/search/search.h"

struct search_image_files {
    const char *depth;       // 16-bit PNG or PGM
    const char *calibration; // fx fy cx cy [width height [units]], or a 3x3 camera matrix
    double units_per_m;      // 0 = the calibration's, else millimetres
    uint32_t region[4];
};

// Reads both. Returns 0, or negative errno with the reason on stderr. *out_pixels, which *out
// borrows, is the caller's to free in any case.
__attribute__((warn_unused_result)) int search_image_read(const struct search_image_files *files,
                                                          struct search_image *out,
                                                          uint16_t **out_pixels);

#endif

// SPDX-License-Identifier: Apache-2.0
// A picture to draw on with cairo, which ends as a PNG file.
#ifndef POSED_TOOLS_PLOT_PICTURE_H
#define POSED_TOOLS_PLOT_PICTURE_H

#include <cairo.h>

#include "proto/log.h"

// A white one with a sans-serif font of that size. Never NULL; cairo keeps in it what goes wrong.
cairo_t *picture_create(int width_px, int height_px, double font_px);

// Writes it to `path` and frees it in any case. Returns 0, or -ENOMEM or -EIO after logging the
// reason.
__attribute__((warn_unused_result)) int picture_finish(cairo_t *picture, const char *path,
                                                       const struct log_sink *log);

#endif

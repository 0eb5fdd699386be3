// SPDX-License-Identifier: Apache-2.0
// Depth as other programs take it (REP 118): 16UC1 of millimetres, of which 0 alone is invalid, and
// 32FC1 of metres, of which NaN is. To them our DEPTH_INVALID_MAX would be a wall 65.5 m away.
#ifndef POSED_CAPTURE_REP118_H
#define POSED_CAPTURE_REP118_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "proto/types.h"

static inline uint16_t rep118_raw(uint16_t raw)
{
    return raw == DEPTH_INVALID_MAX ? DEPTH_INVALID_ZERO : raw;
}

// Whether a pixel has DEPTH_INVALID_MAX: if none has, an image in millimetres is 16UC1 as it is.
static inline bool rep118_has_max(const struct depth_frame *image)
{
    const size_t n = (size_t)image->width_px * image->height_px;
    uint16_t largest = 0;
    for (size_t i = 0; i < n; i++)
        largest = image->depth[i] > largest ? image->depth[i] : largest;
    return largest == DEPTH_INVALID_MAX;
}

// Of an image in millimetres; `out` has room for its pixels, and may be them.
static inline void rep118_put_millimetres(const struct depth_frame *image, uint16_t *out)
{
    const size_t n = (size_t)image->width_px * image->height_px;
    for (size_t i = 0; i < n; i++)
        out[i] = rep118_raw(image->depth[i]);
}

// units_per_m: of the source, which the image itself need not tell.
static inline void rep118_put_metres(const struct depth_frame *image, double units_per_m,
                                     float *out)
{
    const size_t n = (size_t)image->width_px * image->height_px;
    for (size_t i = 0; i < n; i++) {
        const uint16_t raw = rep118_raw(image->depth[i]);
        out[i] = raw == DEPTH_INVALID_ZERO ? NAN : (float)((double)raw / units_per_m);
    }
}

#endif

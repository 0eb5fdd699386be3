// SPDX-License-Identifier: Apache-2.0
// Shrinks what the page shows of a frame: depth, normals and residuals at a quarter of the
// resolution, in one message that fits 1 MB/s at five a second. The page colours them. Little
// endian:
//
//   u64 seq  u16 width  u16 height  u16 step (pixels of the frame for one here)
//   u16 what (1 depth, 2 normals, 4 residuals)
//   depth u16 mm  0 = none; normals i8 x y z of 127ths, 0 0 0 = none; residuals i8 of 0.1 mm,
//   -128 = none, cut off at +-12.7 mm. What is not there takes no room.
#ifndef POSED_DAEMON_WEB_SHRINK_IMAGES_H
#define POSED_DAEMON_WEB_SHRINK_IMAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/web/viewer_connection.h"

#define SHRINK_IMAGES_MAX_WIDTH_PX 160
#define SHRINK_IMAGES_MAX_PX       (160 * 160)

struct shrink_images {
    uint64_t seq;
    uint16_t width_px, height_px, step_px;
    bool has_depth, has_normals, has_residual;
    uint16_t depth_mm[SHRINK_IMAGES_MAX_PX];
    int8_t normals[3 * SHRINK_IMAGES_MAX_PX];
    int8_t residual[SHRINK_IMAGES_MAX_PX];
};

// Takes a RawImage as it is on the wire (topics depth, normals, residual). False: it is none, or
// too large.
bool shrink_images_take(struct shrink_images *preview, const uint8_t *message, size_t n_bytes);

// What has come since the last one, as a message; NULL: nothing, or no memory.
struct payload *shrink_images_make(struct shrink_images *preview);

#endif

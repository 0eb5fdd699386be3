// SPDX-License-Identifier: Apache-2.0
// RVL (Wilson 2017, "Fast Lossless Depth Image Compression"): runs of zeros and of differences, in
// groups of three bits.
#ifndef POSED_CAPTURE_ROS_RVL_H
#define POSED_CAPTURE_ROS_RVL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Unpacks n_pixels values of 16 bits; `data` begins behind the columns and rows. Returns false when
// the data is damaged or breaks off (the values are then undefined).
__attribute__((warn_unused_result)) bool rvl_decode(const unsigned char *data, size_t n_bytes,
                                                    size_t n_pixels, uint16_t *out);

#endif

// SPDX-License-Identifier: Apache-2.0
// Inside capture/ only: the PNG that recordings of depth consist of - 16-bit grey, not interlaced -
// in one go. libpng inflates row by row and undoes filters of 16-bit grey byte by byte: 2.5 ms for
// an image of a Kinect, this 1.2. Whatever is not plain, or not in order, is left to libpng, which
// says what is wrong with it; what this reads, libpng reads to the same values (fuzz_image).
//
// Source of the format: W3C, Portable Network Graphics (Second Edition), 2003, chapters 5, 9, 11.
#ifndef POSED_CAPTURE_IO_PNG_PLAIN_H
#define POSED_CAPTURE_IO_PNG_PLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct png_plain; // opaque; working memory, grown to the largest image seen; one thread at a time

// Returns 0 or -ENOMEM (*out is then NULL).
__attribute__((warn_unused_result)) int png_plain_create(struct png_plain **out);
void png_plain_destroy(struct png_plain **plain);

// Decodes n_bytes into width x height values. Returns false when libpng has to look at it; the
// pixels are then undefined.
bool png_plain_decode(struct png_plain *plain, const void *data, size_t n_bytes, uint32_t width_px,
                      uint32_t height_px, uint16_t *out_pixels);

#endif

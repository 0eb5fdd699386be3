// SPDX-License-Identifier: Apache-2.0
// For tests/fuzz/fuzz_image.c alone, which holds png_plain.h to it: what image_decode does with a
// PNG that png_plain leaves to libpng. Same returns, without a log.
#ifndef POSED_CAPTURE_IO_IMAGE_LIBPNG_H
#define POSED_CAPTURE_IO_IMAGE_LIBPNG_H

#include "capture/io/image.h"

__attribute__((warn_unused_result)) int image_decode_libpng(struct image_codec *codec,
                                                            const void *data, size_t n_bytes,
                                                            uint32_t width_px, uint32_t height_px,
                                                            uint16_t *out_pixels);

#endif

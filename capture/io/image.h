// SPDX-License-Identifier: Apache-2.0
// Depth images: 16-bit grey PNG (plain ones in one go, all others through libpng) and binary PGM
// (our own reader), in memory. An image that is anything else - colour, 8-bit PNG, palette,
// truncated, failed checksum, wrong size - is refused with a line that names it; nothing is
// converted silently.
#ifndef POSED_CAPTURE_IO_IMAGE_H
#define POSED_CAPTURE_IO_IMAGE_H

#include "proto/log.h"
#include "proto/types.h"

// Working memory of libpng and of the encoder, taken once: coding an image allocates nothing.
// One thread at a time.
struct image_codec;

// Returns 0 or -ENOMEM (*out is then NULL).
__attribute__((warn_unused_result)) int image_codec_create(struct image_codec **out);
void image_codec_destroy(struct image_codec **codec);

// Byte order of 16-bit PGM samples. The specification says big-endian; fakenect writes little.
enum image_pgm_order { IMAGE_PGM_BIG_ENDIAN, IMAGE_PGM_LITTLE_ENDIAN };

// Size of the image from its header, which is all that is looked at. Returns 0, or -EBADMSG after
// logging "<name>: <reason>" as a warning.
__attribute__((warn_unused_result)) int image_peek(const void *data, size_t n_bytes,
                                                   const char *name, const struct log_sink *log,
                                                   uint32_t *out_width_px, uint32_t *out_height_px);

// Decodes a PNG or PGM (told apart by their first bytes) into width x height values without
// padding. 8-bit PGM samples keep their values. Returns 0, or -EBADMSG after logging
// "<name>: <reason>" as a warning; the pixels are then undefined.
__attribute__((warn_unused_result)) int
image_decode(struct image_codec *codec, const void *data, size_t n_bytes, const char *name,
             enum image_pgm_order pgm_order, uint32_t width_px, uint32_t height_px,
             const struct log_sink *log, uint16_t *out_pixels);

// Encodes a 16-bit grey PNG with zlib's `level` (1 fast .. 9 small). *out_data belongs to the codec
// and is valid until its next call. Returns 0, -EINVAL (size), -ENOMEM or -EIO.
__attribute__((warn_unused_result)) int
image_encode_png(struct image_codec *codec, const uint16_t *pixels, uint32_t width_px,
                 uint32_t height_px, int level, const void **out_data, size_t *out_n_bytes);

// Encodes to a new file (an old one is replaced). Returns 0 or a negative errno; a file that could
// not be written completely is removed.
__attribute__((warn_unused_result)) int image_write_png(struct image_codec *codec, const char *path,
                                                        const uint16_t *pixels, uint32_t width_px,
                                                        uint32_t height_px, int level);

#endif

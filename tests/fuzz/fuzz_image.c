// SPDX-License-Identifier: Apache-2.0
// The PNG wrapper and the PGM reader. A PNG is read as it is, and with checksums that hold, as
// nothing behind a wrong one is looked at.
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "capture/io/image_libpng.h"
#include "capture/io/png_plain.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

#define MAX_PIXELS (256u * 256u)

static uint32_t big32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

// Chunks: length, type, data, CRC of type and data.
static void fix_checksums(uint8_t *png, size_t n_bytes)
{
    for (size_t at = 8; at + 12 <= n_bytes;) {
        uint32_t n = big32(png + at);
        if (n > n_bytes - at - 12)
            return;
        uint8_t *crc = png + at + 8 + n;
        uint32_t right = (uint32_t)crc32(0, png + at + 4, n + 4);
        for (int i = 0; i < 4; i++)
            crc[i] = (uint8_t)(right >> (24 - 8 * i));
        at += 12 + (size_t)n;
    }
}

// What is decoded in one go, libpng decodes to the same.
static void compare(struct image_codec *codec, const uint8_t *data, size_t n_bytes,
                    uint32_t width_px, uint32_t height_px, uint16_t *pixels)
{
    static struct png_plain *plain;
    static uint16_t expected[MAX_PIXELS];
    if (!plain && png_plain_create(&plain))
        abort();
    if (png_plain_decode(plain, data, n_bytes, width_px, height_px, pixels) &&
        (image_decode_libpng(codec, data, n_bytes, width_px, height_px, expected) != 0 ||
         memcmp(pixels, expected, sizeof *pixels * width_px * height_px) != 0))
        abort();
}

static void decode(const uint8_t *data, size_t n_bytes)
{
    static struct image_codec *codec;
    static uint16_t pixels[MAX_PIXELS];
    uint32_t width_px, height_px;
    if (!codec && image_codec_create(&codec))
        abort();
    if (image_peek(data, n_bytes, "fuzz", NULL, &width_px, &height_px) ||
        (uint64_t)width_px * height_px > MAX_PIXELS)
        return;
    compare(codec, data, n_bytes, width_px, height_px, pixels);
    // the byte order and the size come from outside the file
    enum image_pgm_order order = n_bytes % 2 ? IMAGE_PGM_BIG_ENDIAN : IMAGE_PGM_LITTLE_ENDIAN;
    if (image_decode(codec, data, n_bytes, "fuzz", order, width_px, height_px, NULL, pixels) == 0 &&
        image_decode(codec, data, n_bytes, "fuzz", order, width_px + 1, height_px, NULL, pixels) ==
            0)
        abort(); // one file cannot have two sizes
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    decode(data, n_bytes);
    uint8_t *fixed = malloc(n_bytes + 1);
    if (!fixed)
        return 0;
    memcpy(fixed, data, n_bytes);
    if (n_bytes > 8 && data[0] == 0x89) {
        fix_checksums(fixed, n_bytes);
        decode(fixed, n_bytes);
    }
    free(fixed);
    return 0;
}

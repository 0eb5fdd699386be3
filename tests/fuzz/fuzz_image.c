// SPDX-License-Identifier: Apache-2.0
// The PNG wrapper and the PGM reader.
#include <stdlib.h>

#include "capture/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

#define MAX_PIXELS (256u * 256u)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static struct image_codec *codec;
    static uint16_t pixels[MAX_PIXELS];
    uint32_t width_px, height_px;
    if (!codec && image_codec_create(&codec))
        abort();
    if (image_peek(data, n_bytes, "fuzz", NULL, &width_px, &height_px) ||
        (uint64_t)width_px * height_px > MAX_PIXELS)
        return 0;
    // the byte order and the size come from outside the file
    enum image_pgm_order order = n_bytes % 2 ? IMAGE_PGM_BIG_ENDIAN : IMAGE_PGM_LITTLE_ENDIAN;
    if (image_decode(codec, data, n_bytes, "fuzz", order, width_px, height_px, NULL, pixels) == 0 &&
        image_decode(codec, data, n_bytes, "fuzz", order, width_px + 1, height_px, NULL, pixels) ==
            0)
        abort(); // one file cannot have two sizes
    return 0;
}

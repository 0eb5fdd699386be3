// SPDX-License-Identifier: Apache-2.0
#include "capture/io/png_plain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "capture/io/unzip.h"

#define SIGNATURE_BYTES 8
#define CHUNK_BYTES     12 // length, type, CRC
#define HEADER_BYTES    13 // of IHDR

static const unsigned char signature[SIGNATURE_BYTES] = {137, 'P', 'N', 'G', 13, 10, 26, 10};

struct png_plain {
    struct unzip *unzip;
    unsigned char *packed, *rows; // the data of all IDAT; filter byte and samples of each row
    size_t n_packed_capacity, n_rows_capacity;
};

int png_plain_create(struct png_plain **out)
{
    *out = calloc(1, sizeof **out);
    if (*out && unzip_create(&(*out)->unzip) == 0)
        return 0;
    free(*out);
    *out = NULL;
    return -ENOMEM;
}

void png_plain_destroy(struct png_plain **plain)
{
    if (!*plain)
        return;
    unzip_destroy(&(*plain)->unzip);
    free((*plain)->packed);
    free((*plain)->rows);
    free(*plain);
    *plain = NULL;
}

static bool reserve(unsigned char **buffer, size_t *capacity, size_t n_bytes)
{
    if (n_bytes <= *capacity)
        return true;
    unsigned char *grown = realloc(*buffer, n_bytes);
    if (!grown)
        return false;
    *buffer = grown;
    *capacity = n_bytes;
    return true;
}

static uint32_t big32(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static bool is_plain(const unsigned char *header, size_t n, uint32_t width_px, uint32_t height_px)
{
    static const unsigned char rest[] = {16, 0, 0, 0, 0}; // bits, grey, deflate, filters, no passes
    return n == HEADER_BYTES && big32(header) == width_px && big32(header + 4) == height_px &&
           memcmp(header + 8, rest, sizeof rest) == 0;
}

// A small first letter says so.
static bool may_be_left_out(const unsigned char type[4])
{
    for (int i = 0; i < 4; i++)
        if ((type[i] | 32) < 'a' || (type[i] | 32) > 'z')
            return false;
    return type[0] >= 'a';
}

// Puts the data of all IDAT behind each other. IHDR comes first, IDAT in a row, IEND last; between
// them only chunks that a reader may leave out.
static bool collect(struct png_plain *plain, const unsigned char *png, size_t n_bytes,
                    uint32_t width_px, uint32_t height_px, size_t *out_n_packed)
{
    size_t n_packed = 0;
    bool header = false, data = false, data_over = false;
    if (!reserve(&plain->packed, &plain->n_packed_capacity, n_bytes))
        return false;
    for (size_t at = SIGNATURE_BYTES; at + CHUNK_BYTES <= n_bytes;) {
        size_t n = big32(png + at);
        const unsigned char *type = png + at + 4, *content = png + at + 8;
        if (n > n_bytes - at - CHUNK_BYTES || unzip_crc32(type, n + 4) != big32(content + n) ||
            !header != (memcmp(type, "IHDR", 4) == 0))
            return false;
        if (!header) {
            header = is_plain(content, n, width_px, height_px);
            if (!header)
                return false;
        } else if (memcmp(type, "IDAT", 4) == 0) {
            if (data_over)
                return false;
            memcpy(plain->packed + n_packed, content, n);
            n_packed += n;
            data = true;
        } else if (memcmp(type, "IEND", 4) == 0) {
            *out_n_packed = n_packed;
            return data && n == 0;
        } else if (may_be_left_out(type)) {
            data_over = data;
        } else {
            return false;
        }
        at += CHUNK_BYTES + n;
    }
    return false;
}

static unsigned paeth(unsigned left, unsigned up, unsigned corner)
{
    int to_left = abs((int)up - (int)corner), to_up = abs((int)left - (int)corner);
    int to_corner = abs((int)left + (int)up - 2 * (int)corner);
    unsigned nearer = to_left <= to_up ? left : up;
    return (to_left <= to_up ? to_left : to_up) <= to_corner ? nearer : corner;
}

// A row of samples, most significant byte first; the bytes of each rank are filtered on their own.
// `above` is the row before, or zeros.
static bool unfilter(unsigned filter, const unsigned char *in, const uint16_t *above, uint32_t n,
                     uint16_t *out)
{
    unsigned high = 0, low = 0; // of the sample to the left
    switch (filter) {
    case 0:
        for (uint32_t x = 0; x < n; x++)
            out[x] = (uint16_t)(in[2 * x] << 8 | in[2 * x + 1]);
        return true;
    case 1:
        for (uint32_t x = 0; x < n; x++) {
            high += in[2 * x];
            low += in[2 * x + 1];
            out[x] = (uint16_t)((high & 255) << 8 | (low & 255));
        }
        return true;
    case 2:
        for (uint32_t x = 0; x < n; x++) {
            unsigned h = in[2 * x] + (above[x] >> 8u), l = in[2 * x + 1] + (above[x] & 255u);
            out[x] = (uint16_t)((h & 255) << 8 | (l & 255));
        }
        return true;
    case 3:
        for (uint32_t x = 0; x < n; x++) {
            high = (in[2 * x] + ((high + (above[x] >> 8u)) >> 1)) & 255;
            low = (in[2 * x + 1] + ((low + (above[x] & 255u)) >> 1)) & 255;
            out[x] = (uint16_t)(high << 8 | low);
        }
        return true;
    case 4: {
        unsigned corner_high = 0, corner_low = 0;
        for (uint32_t x = 0; x < n; x++) {
            unsigned up_high = above[x] >> 8u, up_low = above[x] & 255u;
            high = (in[2 * x] + paeth(high, up_high, corner_high)) & 255;
            low = (in[2 * x + 1] + paeth(low, up_low, corner_low)) & 255;
            corner_high = up_high;
            corner_low = up_low;
            out[x] = (uint16_t)(high << 8 | low);
        }
        return true;
    }
    default:
        return false;
    }
}

bool png_plain_decode(struct png_plain *plain, const void *data, size_t n_bytes, uint32_t width_px,
                      uint32_t height_px, uint16_t *out_pixels)
{
    size_t n_packed, n_row_bytes = 1 + 2 * (size_t)width_px, n_rows = n_row_bytes * height_px;
    if (n_bytes < SIGNATURE_BYTES || memcmp(data, signature, SIGNATURE_BYTES) != 0 ||
        !collect(plain, data, n_bytes, width_px, height_px, &n_packed) ||
        !reserve(&plain->rows, &plain->n_rows_capacity, n_rows) ||
        unzip_whole(plain->unzip, plain->packed, n_packed, plain->rows, n_rows) != 0)
        return false;
    for (uint32_t y = 0; y < height_px; y++) {
        const unsigned char *row = plain->rows + y * n_row_bytes;
        uint16_t *out = out_pixels + (size_t)y * width_px;
        if (y == 0) // above the first row there are zeros; `out` is read before it is written
            memset(out, 0, n_row_bytes - 1);
        if (!unfilter(row[0], row + 1, y ? out - width_px : out, width_px, out))
            return false;
    }
    return true;
}

// SPDX-License-Identifier: Apache-2.0
// The decoder of plain 16-bit PNGs alone: capture/io/image.c asks libpng where it says no, so that
// a slip in it would only cost time there. Pictures are encoded here, row by row with each filter
// of the PNG specification, section 9.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "capture/io/png_plain.h"

#define WIDTH     37
#define HEIGHT    15
#define ROW_BYTES (2 * WIDTH + 1)
#define MAX_BYTES 8192

static uint16_t pixels[HEIGHT][WIDTH];
static unsigned char png[MAX_BYTES];
static size_t n_png;

static void put_chunk(const char *type, const void *data, size_t n)
{
    unsigned char *at = png + n_png;
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(n >> (24 - 8 * i));
    memcpy(at + 4, type, 4);
    if (n)
        memcpy(at + 8, data, n);
    const unsigned long crc = crc32(0, at + 4, (uInt)n + 4);
    for (int i = 0; i < 4; i++)
        at[8 + n + (size_t)i] = (unsigned char)(crc >> (24 - 8 * i));
    n_png += 12 + n;
}

static unsigned char header[13];

static void begin(void)
{
    static const unsigned char start[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    static const unsigned char plain[13] = {0, 0, 0, WIDTH, 0, 0, 0, HEIGHT, 16, 0, 0, 0, 0};
    memcpy(png, start, sizeof start);
    memcpy(header, plain, sizeof plain);
    n_png = sizeof start;
}

static int byte_of(int x, int y, int low)
{
    return x < 0 || y < 0 ? 0 : low ? pixels[y][x] & 255 : pixels[y][x] >> 8;
}

static int paeth(int a, int b, int c)
{
    const int p = a + b - c, pa = abs(p - a), pb = abs(p - b), pc = abs(p - c);
    return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
}

// filter 5: row y takes filter y % 5.
static size_t pack(int filter, unsigned char packed[MAX_BYTES])
{
    static unsigned char rows[HEIGHT * ROW_BYTES];
    uLongf n = MAX_BYTES;
    for (int y = 0; y < HEIGHT; y++) {
        unsigned char *row = rows + y * ROW_BYTES;
        const int f = filter == 5 ? y % 5 : filter;
        row[0] = (unsigned char)f;
        for (int i = 0; i < 2 * WIDTH; i++) {
            const int x = i / 2, low = i % 2, a = byte_of(x - 1, y, low);
            const int b = byte_of(x, y - 1, low);
            const int c = x > 0 && y > 0 ? byte_of(x - 1, y - 1, low) : 0;
            const int predicted = f == 0   ? 0
                                  : f == 1 ? a
                                  : f == 2 ? b
                                  : f == 3 ? (a + b) / 2
                                           : paeth(a, b, c);
            row[1 + i] = (unsigned char)(byte_of(x, y, low) - predicted);
        }
    }
    assert_int_equal(compress2(packed, &n, rows, sizeof rows, 6), Z_OK);
    return n;
}

static bool decodes(uint16_t out[HEIGHT][WIDTH])
{
    struct png_plain *plain;
    assert_int_equal(png_plain_create(&plain), 0);
    memset(out, 0xa5, sizeof pixels);
    const bool good = png_plain_decode(plain, png, n_png, WIDTH, HEIGHT, out[0]);
    png_plain_destroy(&plain);
    return good;
}

static void fill(int seed)
{
    uint32_t state = (uint32_t)seed;
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++) {
            state = state * 1664525 + 1013904223;
            pixels[y][x] = (uint16_t)(seed % 2 ? state >> 16
                                               : 900u + (unsigned)(x * 40 + y * 7) + (state >> 28));
        }
}

static void each_filter_comes_back(void **unused)
{
    (void)unused;
    uint16_t out[HEIGHT][WIDTH];
    unsigned char packed[MAX_BYTES];
    for (int filter = 0; filter <= 5; filter++)
        for (int seed = 1; seed < 9; seed++) {
            fill(seed);
            const size_t n = pack(filter, packed);
            begin();
            put_chunk("IHDR", header, sizeof header);
            put_chunk("tEXt", "a\0b", 3);
            if (seed % 3 == 0) {
                put_chunk("IDAT", packed, n);
            } else { // in pieces, one of them empty
                put_chunk("IDAT", packed, n / 3);
                put_chunk("IDAT", packed, 0);
                put_chunk("IDAT", packed + n / 3, n - n / 3);
            }
            if (seed % 2)
                put_chunk("tIME", "1234567", 7);
            put_chunk("IEND", NULL, 0);
            assert_true(decodes(out));
            assert_memory_equal(out, pixels, sizeof pixels);
        }
}

static void what_is_not_plain_is_left_to_others(void **unused)
{
    (void)unused;
    uint16_t out[HEIGHT][WIDTH];
    unsigned char packed[MAX_BYTES];
    fill(1);
    const size_t n = pack(5, packed);
    for (int wrong = 0; wrong < 30; wrong++) {
        begin();
        if (wrong < 13)
            header[wrong] ^= wrong == 8 ? 24 : 1; // another size, depth, colour, method, passes
        if (wrong != 13)
            put_chunk("IHDR", header, sizeof header - (wrong == 14));
        if (wrong == 15)
            put_chunk("IHDR", header, sizeof header);
        if (wrong == 16)
            put_chunk("PLTE", "abc", 3); // must be understood
        if (wrong == 26) {               // a checksum of what may be left out
            put_chunk("tIME", "1234567", 7);
            png[n_png - 1] ^= 1;
        }
        if (wrong == 17)
            put_chunk("t1ME", "1234567", 7);
        if (wrong == 18) {
            put_chunk("IDAT", packed, n / 2);
            put_chunk("tIME", "1234567", 7);
            put_chunk("IDAT", packed + n / 2, n - n / 2);
        } else if (wrong != 19) {
            put_chunk("IDAT", packed, n - (wrong == 20));
        }
        if (wrong != 21)
            put_chunk("IEND", "x", wrong == 22);
        if (wrong == 23)
            png[2] ^= 1;
        if (wrong == 24)
            png[8 + 12 + 13 + 8 + 20] ^= 1; // a bit of the data
        if (wrong == 25)
            n_png -= 1;
        assert_true(decodes(out) == (wrong > 26));
    }
    // A filter that there is not.
    unsigned char rows[HEIGHT * ROW_BYTES] = {5};
    uLongf n_rows = MAX_BYTES;
    assert_int_equal(compress2(packed, &n_rows, rows, sizeof rows, 6), Z_OK);
    begin();
    put_chunk("IHDR", header, sizeof header);
    put_chunk("IDAT", packed, n_rows);
    put_chunk("IEND", NULL, 0);
    assert_false(decodes(out));
    rows[0] = 4;
    n_rows = MAX_BYTES;
    assert_int_equal(compress2(packed, &n_rows, rows, sizeof rows - 1, 6), Z_OK); // a byte short
    begin();
    put_chunk("IHDR", header, sizeof header);
    put_chunk("IDAT", packed, n_rows);
    put_chunk("IEND", NULL, 0);
    assert_false(decodes(out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_filter_comes_back),
        cmocka_unit_test(what_is_not_plain_is_left_to_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

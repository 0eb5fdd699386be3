// SPDX-License-Identifier: Apache-2.0
// PNG and PGM: what is written is read back bit for bit, and everything that is no 16-bit grey
// image of the expected size is refused with its reason.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "capture/io/image.h"
#include "tests/unit/scratch.h"

static struct scratch scratch;

static void fill(uint16_t *pixels, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        pixels[i] = (uint16_t)(seed >> 16);
    }
}

static int decode(struct image_codec *codec, const void *data, size_t n_bytes, uint32_t w,
                  uint32_t h, uint16_t *out)
{
    struct log_sink log = scratch_log(&scratch);
    scratch.line[0] = '\0';
    // a copy of the exact length, so that AddressSanitizer sees a read behind it
    void *copy = malloc(n_bytes ? n_bytes : 1);
    assert_non_null(copy);
    memcpy(copy, data, n_bytes);
    int err = image_decode(codec, copy, n_bytes, "x", IMAGE_PGM_BIG_ENDIAN, w, h, &log, out);
    free(copy);
    return err;
}

static void png_comes_back_bit_for_bit(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{1, 1}, {31, 17}, {33, 64}, {640, 480}};
    struct image_codec *codec;
    assert_int_equal(image_codec_create(&codec), 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int level = 0; level <= 9; level += 3) {
            uint32_t w = sizes[i][0], h = sizes[i][1], peek_w, peek_h;
            size_t n = (size_t)w * h;
            uint16_t *in = malloc(n * 2), *out = malloc((n + 1) * 2);
            fill(in, n, (uint32_t)i + 1);
            out[n] = 0xA5A5;
            const void *data;
            size_t n_bytes;
            assert_int_equal(image_encode_png(codec, in, w, h, level, &data, &n_bytes), 0);
            assert_int_equal(image_peek(data, n_bytes, "x", NULL, &peek_w, &peek_h), 0);
            assert_int_equal(peek_w, w);
            assert_int_equal(peek_h, h);
            assert_int_equal(decode(codec, data, n_bytes, w, h, out), 0);
            assert_memory_equal(in, out, n * 2);
            assert_int_equal(out[n], 0xA5A5);
            free(in);
            free(out);
        }
    image_codec_destroy(&codec);
    assert_null(codec);
    image_codec_destroy(&codec);
}

static void png_truncated_anywhere_is_damaged(void **state)
{
    (void)state;
    uint16_t in[9 * 7], out[9 * 7];
    fill(in, 9 * 7, 5);
    struct image_codec *codec;
    assert_int_equal(image_codec_create(&codec), 0);
    const void *data;
    size_t n_bytes;
    assert_int_equal(image_encode_png(codec, in, 9, 7, 6, &data, &n_bytes), 0);
    for (size_t n = 0; n < n_bytes; n++) {
        assert_int_equal(decode(codec, data, n, 9, 7, out), -EBADMSG);
        assert_string_not_equal(scratch.line, "");
    }
    assert_int_equal(decode(codec, data, n_bytes, 9, 7, out), 0);
    image_codec_destroy(&codec);
}

static uint32_t crc32_of(const unsigned char *data, size_t n)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < n; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

static void png_of_another_kind_is_refused(void **state)
{
    (void)state;
    static const struct {
        unsigned char depth, colour;
        const char *reason;
    } kinds[] = {{8, 0, "8-bit grey PNG"},
                 {16, 2, "16-bit colour PNG"},
                 {8, 3, "8-bit palette PNG"},
                 {16, 4, "16-bit grey-alpha PNG"},
                 {8, 6, "8-bit colour PNG"}};
    uint16_t in[16] = {0}, out[16];
    struct image_codec *codec;
    assert_int_equal(image_codec_create(&codec), 0);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const void *data;
        size_t n_bytes;
        assert_int_equal(image_encode_png(codec, in, 4, 4, 6, &data, &n_bytes), 0);
        unsigned char *png = malloc(n_bytes);
        memcpy(png, data, n_bytes);
        png[24] = kinds[i].depth;
        png[25] = kinds[i].colour;
        uint32_t crc = crc32_of(png + 12, 17);
        for (int k = 0; k < 4; k++)
            png[29 + k] = (unsigned char)(crc >> (24 - 8 * k));
        if (kinds[i].colour == 3) { // a palette image needs its palette before the data
            unsigned char *bigger = malloc(n_bytes + 15);
            static const unsigned char plte[15] = {0, 0, 0, 3, 'P', 'L', 'T', 'E',
                                                   1, 2, 3, 0, 0,   0,   0};
            memcpy(bigger, png, 33);
            memcpy(bigger + 33, plte, 15);
            crc = crc32_of(plte + 4, 7);
            for (int k = 0; k < 4; k++)
                bigger[44 + k] = (unsigned char)(crc >> (24 - 8 * k));
            memcpy(bigger + 48, png + 33, n_bytes - 33);
            free(png);
            png = bigger;
            n_bytes += 15;
        }
        assert_int_equal(decode(codec, png, n_bytes, 4, 4, out), -EBADMSG);
        assert_non_null(strstr(scratch.line, kinds[i].reason));
        assert_ptr_equal(strstr(scratch.line, "x: "), scratch.line);
        free(png);
    }
    image_codec_destroy(&codec);
}

static void png_of_another_size_is_refused(void **state)
{
    (void)state;
    uint16_t in[16] = {0}, out[32];
    struct image_codec *codec;
    assert_int_equal(image_codec_create(&codec), 0);
    const void *data;
    size_t n_bytes;
    assert_int_equal(image_encode_png(codec, in, 4, 4, 6, &data, &n_bytes), 0);
    assert_int_equal(decode(codec, data, n_bytes, 8, 4, out), -EBADMSG);
    assert_string_equal(scratch.line, "x: image is 4x4, the recording 8x4");
    assert_int_equal(decode(codec, "", 0, 4, 4, out), -EBADMSG);
    assert_string_equal(scratch.line, "x: empty file");
    assert_int_equal(decode(codec, "GIF89a", 6, 4, 4, out), -EBADMSG);
    unsigned char hostile[256]; // 2^31 - 1 pixels wide, with a good checksum
    assert_true(n_bytes <= sizeof hostile);
    memcpy(hostile, data, n_bytes);
    memcpy(hostile + 16, "\x7f\xff\xff\xff\x7f\xff\xff\xff", 8);
    uint32_t crc = crc32_of(hostile + 12, 17), w, h;
    for (int k = 0; k < 4; k++)
        hostile[29 + k] = (unsigned char)(crc >> (24 - 8 * k));
    assert_int_equal(decode(codec, hostile, n_bytes, 4, 4, out), -EBADMSG);
    assert_int_equal(image_peek(hostile, n_bytes, "x", NULL, &w, &h), -EBADMSG);
    assert_int_equal(image_encode_png(codec, in, 0, 4, 6, &data, &n_bytes), -EINVAL);
    assert_int_equal(image_encode_png(codec, in, 4, 1u << 31, 6, &data, &n_bytes), -EINVAL);
    image_codec_destroy(&codec);
}

static void damaged_bits_are_found(void **state)
{
    (void)state;
    uint16_t in[20 * 20], out[20 * 20];
    fill(in, 400, 9);
    struct image_codec *codec;
    assert_int_equal(image_codec_create(&codec), 0);
    const void *data;
    size_t n_bytes;
    assert_int_equal(image_encode_png(codec, in, 20, 20, 6, &data, &n_bytes), 0);
    unsigned char *png = malloc(n_bytes);
    memcpy(png, data, n_bytes);
    for (size_t i = 0; i < n_bytes; i++) {
        png[i] ^= 0x10;
        int err = decode(codec, png, n_bytes, 20, 20, out);
        if (!err) // a chunk that may be skipped; never other pixels
            assert_memory_equal(in, out, sizeof in);
        png[i] ^= 0x10;
    }
    free(png);
    image_codec_destroy(&codec);
}

static void pgm_of_both_orders_and_depths(void **state)
{
    (void)state;
    static const char big[] = "P5\n# made by hand\n3 # width\n 2\n65535\n\x01\x02\x03\x04\x05\x06"
                              "\x07\x08\x09\x0a\x0b\x0c";
    static const char small[] = "P5 3 2 255\n\x01\x02\x03\x04\x05\x06";
    static const uint16_t expect_big[6] = {0x0102, 0x0304, 0x0506, 0x0708, 0x090a, 0x0b0c};
    static const uint16_t expect_little[6] = {0x0201, 0x0403, 0x0605, 0x0807, 0x0a09, 0x0c0b};
    static const uint16_t expect_small[6] = {1, 2, 3, 4, 5, 6};
    uint16_t out[6];
    struct image_codec *codec;
    assert_int_equal(image_codec_create(&codec), 0);
    assert_int_equal(decode(codec, big, sizeof big - 1, 3, 2, out), 0);
    assert_memory_equal(out, expect_big, sizeof out);
    assert_int_equal(
        image_decode(codec, big, sizeof big - 1, "x", IMAGE_PGM_LITTLE_ENDIAN, 3, 2, NULL, out), 0);
    assert_memory_equal(out, expect_little, sizeof out);
    assert_int_equal(decode(codec, small, sizeof small - 1, 3, 2, out), 0);
    assert_memory_equal(out, expect_small, sizeof out);
    for (size_t n = 0; n < sizeof big - 1; n++)
        assert_int_equal(decode(codec, big, n, 3, 2, out), -EBADMSG);
    for (size_t n = 0; n < sizeof small - 1; n++)
        assert_int_equal(decode(codec, small, n, 3, 2, out), -EBADMSG);
    image_codec_destroy(&codec);
}

static void pgm_with_hostile_header(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "P5 2147483647 2147483647 65535\n",
        "P5 -1 2 255\n12",
        "P5 3 2 65536\n123456123456",
        "P5 0 2 255\n",
        "P5 3 2\n123456",
        "P5 99999999999999999999 2 255\n",
        "P5 3 2 255",
        "P5",
        "P5 # 3 2 255",
    };
    uint16_t out[6];
    uint32_t w, h;
    struct image_codec *codec;
    assert_int_equal(image_codec_create(&codec), 0);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(decode(codec, texts[i], strlen(texts[i]), 3, 2, out), -EBADMSG);
        assert_int_equal(image_peek(texts[i], strlen(texts[i]), "x", NULL, &w, &h), -EBADMSG);
    }
    image_codec_destroy(&codec);
}

static void file_is_complete_or_absent(void **state)
{
    (void)state;
    uint16_t in[12];
    fill(in, 12, 3);
    char path[256];
    struct image_codec *codec;
    assert_int_equal(image_codec_create(&codec), 0);
    scratch_create(&scratch);
    scratch_name(&scratch, "a.png", path);
    assert_int_equal(image_write_png(codec, path, in, 4, 3, 6), 0);
    assert_int_equal(access(path, F_OK), 0);
    scratch_name(&scratch, "no/a.png", path);
    assert_int_equal(image_write_png(codec, path, in, 4, 3, 6), -ENOENT);
    assert_int_equal(image_write_png(codec, "/dev/full", in, 4, 3, 6), -ENOSPC);
    scratch_remove(&scratch);
    image_codec_destroy(&codec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(png_comes_back_bit_for_bit),
        cmocka_unit_test(png_truncated_anywhere_is_damaged),
        cmocka_unit_test(png_of_another_kind_is_refused),
        cmocka_unit_test(png_of_another_size_is_refused),
        cmocka_unit_test(damaged_bits_are_found),
        cmocka_unit_test(pgm_of_both_orders_and_depths),
        cmocka_unit_test(pgm_with_hostile_header),
        cmocka_unit_test(file_is_complete_or_absent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

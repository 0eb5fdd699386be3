// SPDX-License-Identifier: Apache-2.0
// RVL (Wilson 2017) against an encoder of this file's own, which writes one group after the other.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "capture/ros/rvl.h"

#define N 400

struct writer {
    unsigned char bytes[8 * N];
    size_t n_groups;
};

static void put(struct writer *w, uint32_t value)
{
    do {
        const uint32_t group = (value & 7) | (value > 7 ? 8 : 0);
        const size_t word = w->n_groups / 8, place = 7 - w->n_groups % 8; // the first one on top
        w->bytes[4 * word + place / 2] |= (unsigned char)(group << (place % 2 * 4));
        w->n_groups++;
        value >>= 3;
    } while (value);
}

static size_t n_bytes(const struct writer *w)
{
    return (w->n_groups + 7) / 8 * 4;
}

static void encode(const uint16_t *pixels, size_t n, struct writer *out)
{
    int previous = 0;
    memset(out, 0, sizeof *out);
    for (size_t at = 0; at < n;) {
        size_t n_zeros = 0, n_values = 0;
        while (at + n_zeros < n && pixels[at + n_zeros] == 0)
            n_zeros++;
        at += n_zeros;
        while (at + n_values < n && pixels[at + n_values] != 0)
            n_values++;
        put(out, (uint32_t)n_zeros);
        put(out, (uint32_t)n_values);
        for (size_t i = 0; i < n_values; i++) {
            const int delta = pixels[at] - previous;
            put(out, delta < 0 ? (uint32_t)(-2 * delta - 1) : (uint32_t)(2 * delta));
            previous = pixels[at++];
        }
    }
}

static void known_images(void **state)
{
    (void)state;
    static uint16_t pixels[N], got[N];
    static struct writer w;
    uint32_t seed = 9;
    for (int kind = 0; kind < 5; kind++) {
        for (int i = 0; i < N; i++) {
            seed = seed * 1664525 + 1013904223;
            pixels[i] = kind == 0   ? 0
                        : kind == 1 ? (uint16_t)(2000 + i)
                        : kind == 2 ? (uint16_t)(seed >> 16)
                        : kind == 3 ? (seed >> 30 ? (uint16_t)(seed >> 16) : 0)
                                    : (i % 2 ? 65535 : 1);
        }
        encode(pixels, N, &w);
        memset(got, 0xee, sizeof got);
        assert_true(rvl_decode(w.bytes, n_bytes(&w), N, got));
        assert_memory_equal(got, pixels, sizeof got);
        if (kind > 0) // what breaks off is none
            assert_false(rvl_decode(w.bytes, n_bytes(&w) - 4, N, got));
    }
}

// Runs that go beyond the image write nothing there.
static void runs_beyond_the_image(void **state)
{
    (void)state;
    for (int zeros = 0; zeros < 2; zeros++)
        for (uint32_t more = 0; more < 3; more++) {
            static struct writer w;
            uint16_t *out = malloc(5 * sizeof *out);
            assert_non_null(out);
            out[3] = out[4] = 77;
            memset(&w, 0, sizeof w);
            put(&w, zeros ? 3 + more : 0);
            put(&w, zeros ? 0 : 3 + more);
            for (uint32_t i = 0; i < 8; i++)
                put(&w, 2);
            assert_int_equal(rvl_decode(w.bytes, n_bytes(&w), 3, out), more == 0);
            assert_int_equal(out[3], 77);
            assert_int_equal(out[4], 77);
            free(out);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_images),
                                       cmocka_unit_test(runs_beyond_the_image)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

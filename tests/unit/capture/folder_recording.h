// SPDX-License-Identifier: Apache-2.0
// A recording of the TUM format in a folder of its own, written here and opened through the public
// contract. One inclusion a program, after cmocka's.
#ifndef POSED_TESTS_UNIT_CAPTURE_FOLDER_RECORDING_H
#define POSED_TESTS_UNIT_CAPTURE_FOLDER_RECORDING_H

#include <stdio.h>

#include "capture/capture.h"
#include "capture/io/image.h"
#include "tests/unit/scratch.h"

#define W 64u
#define H 48u

static struct scratch scratch;
static struct image_codec *codec;

static inline int setup(void **state)
{
    (void)state;
    scratch_create(&scratch);
    return image_codec_create(&codec);
}

static inline int teardown(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    image_codec_destroy(&codec);
    return 0;
}

static inline void write_depth(const char *name, uint16_t value)
{
    uint16_t pixels[W * H];
    char path[256];
    for (size_t i = 0; i < W * H; i++)
        pixels[i] = value;
    assert_int_equal(image_write_png(codec, scratch_name(&scratch, name, path), pixels, W, H, 1),
                     0);
}

// Three images of 2 m and more at 1/5000 m, and a calibration for 64x48.
static inline void write_tum(const char *index)
{
    scratch_make_folder(&scratch, "depth");
    write_depth("depth/a.png", 10000);
    write_depth("depth/b.png", 10001);
    write_depth("depth/c.png", 10002);
    scratch_write_text(&scratch, "calibration.txt", "52.5 -52.5 31.5 23.5\n");
    scratch_write_text(&scratch, "depth.txt", index);
}

static inline struct capture_settings settings_of(const char *driver)
{
    static char source[256];
    snprintf(source, sizeof source, "%s:%s", driver, scratch.path);
    scratch.line[0] = '\0';
    scratch.n_lines = 0;
    scratch.worst = LOG_LEVEL_DEBUG;
    return (struct capture_settings){.source = source, .log = scratch_log(&scratch)};
}

static inline int open_result(const struct capture_settings *settings)
{
    struct capture *capture;
    int err = capture_open(&capture, settings);
    if (err)
        assert_null(capture);
    capture_close(&capture);
    return err;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif

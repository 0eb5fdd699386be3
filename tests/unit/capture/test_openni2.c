// SPDX-License-Identifier: Apache-2.0
// The driver of OpenNI 2 on the library's Dummy device, with tests/fake_openni2.h between them to
// unplug it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "capture/capture.h"
#include "proto/clock.h"
#include "tests/fake_openni2.h"
#include "tests/unit/capture/wall.h"

#define RETURN_NS INT64_C(2000000000)

static char said[4000];

static void hear(void *user, enum log_level level, const char *text)
{
    (void)user;
    (void)level;
    size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", text);
}

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static int setup(void **state)
{
    (void)state;
    memset(fake_openni2, 0, sizeof *fake_openni2);
    fake_openni2->plugged = 1;
    said[0] = 0;
    return 0;
}

static int open_source(const char *source, struct capture **out)
{
    struct capture_settings settings = {.source = source, .log = {.write = hear}};
    return capture_open(out, &settings);
}

static void assert_all_closed(void)
{
    assert_int_equal(fake_openni2->n_devices, 0);
    assert_int_equal(fake_openni2->n_streams, 0);
}

static void read_good(struct capture *capture, struct capture_frame *frame)
{
    for (int i = 0; i < 200; i++) {
        assert_int_equal(capture_read(capture, 5000, frame), 0);
        if (frame->image.depth)
            return;
    }
    fail_msg("no frame with pixels");
}

static void dummy_device_delivers(void **state)
{
    (void)state;
    struct capture *capture;
    struct capture_frame frame;
    assert_int_equal(open_source("openni2:Dummy", &capture), 0);
    const struct capture_info *info = capture_info(capture);
    assert_true(info->live);
    assert_string_equal(info->description, "openni2:Dummy (320x240)");
    assert_int_equal(info->camera.width_px, 320);
    assert_int_equal(info->camera.height_px, 240);
    assert_true(fabs(info->camera.fx_px - 287.9) < 0.1);
    assert_true(info->units_per_m == 1000);
    assert_non_null(strstr(said, "tells no field of view"));
    int64_t time_ns = clock_wall_ns() - 1000000000;
    for (uint64_t i = 0; i < 30; i++) {
        assert_int_equal(capture_read(capture, 5000, &frame), 0);
        assert_int_equal(frame.index, i);
        assert_true(frame.image.time_ns > time_ns);
        time_ns = frame.image.time_ns;
    }
    assert_true(llabs(clock_wall_ns() - time_ns) < 1000000000);
    capture_close(&capture);
    assert_all_closed();
}

// Pixels as OpenNI gives them, mirrored ones turned back. The frame read last by the driver is the
// one that waits when the camera was made silent.
static void pixels_are_the_cameras(void **state)
{
    (void)state;
    for (int mirrored = 0; mirrored < 2; mirrored++) {
        struct capture *capture;
        struct capture_frame frame, newest;
        fake_openni2->mirrored = mirrored;
        fake_openni2->tells_fov = 1;
        fake_openni2->silent = 0;
        assert_int_equal(open_source("openni2:Dummy", &capture), 0);
        const struct capture_info *info = capture_info(capture);
        assert_true(fabs(info->camera.fx_px - 160 / tan(0.5)) < 1e-4);
        assert_true(fabs(info->camera.fy_px - 120 / tan(0.4)) < 1e-4);
        assert_true(info->camera.cx_px == 160 && info->camera.cy_px == 120);
        read_good(capture, &frame);
        newest = frame;
        fake_openni2->silent = 1;
        pause_ms(150);
        while (capture_read(capture, 0, &frame) == 0)
            newest = frame;
        assert_non_null(newest.image.depth);
        size_t n_valid = 0;
        for (size_t i = 0; i < 320 * 240; i++) {
            size_t x = i % 320, at = mirrored ? i - x + 319 - x : i;
            assert_int_equal(newest.image.depth[i], fake_openni2_raw[at]);
            n_valid += newest.image.depth[i] != 0;
        }
        assert_true(n_valid > 0);
        capture_close(&capture);
        assert_all_closed();
    }
}

// Unplugged, of which OpenNI tells or not; the return within 2 s.
static void unplugged_it_comes_back(void **state)
{
    (void)state;
    struct capture *capture;
    struct capture_frame frame;
    assert_int_equal(open_source("openni2:Dummy", &capture), 0);
    int64_t time_ns = 0;
    for (int i = 0; i < 4; i++) {
        read_good(capture, &frame);
        assert_true(frame.image.time_ns > time_ns);
        fake_openni2->told = i % 2;
        fake_openni2->plugged = 0;
        int64_t begin_ns = clock_monotonic_ns();
        while (fake_openni2->n_devices)
            pause_ms(1);
        if (i % 2)
            assert_true(clock_monotonic_ns() - begin_ns < 1000000000);
        while (capture_read(capture, 0, &frame) == 0)
            ;
        time_ns = frame.image.time_ns;
        assert_int_equal(capture_read(capture, 20, &frame), -EAGAIN);
        fake_openni2->plugged = 1;
        begin_ns = clock_monotonic_ns();
        read_good(capture, &frame);
        assert_true(clock_monotonic_ns() - begin_ns < RETURN_NS);
    }
    capture_close(&capture);
    assert_int_equal(fake_openni2->n_opened, 5);
    assert_non_null(strstr(said, "openni2:Dummy: the camera is gone; waiting for it"));
    assert_non_null(strstr(said, "openni2:Dummy: the camera is silent; waiting for it"));
    assert_non_null(strstr(said, "openni2:Dummy: the camera is back"));
    assert_all_closed();
}

static void a_wall_that_is_set_is_followed(void **state)
{
    (void)state;
    struct capture *capture;
    assert_int_equal(open_source("openni2:Dummy", &capture), 0);
    assert_follows_wall(capture);
    capture_close(&capture);
    assert_non_null(strstr(said, "openni2:Dummy: the machine's clock was set 3600.000 s back"));
    assert_null(strstr(said, "silent"));
    assert_int_equal(fake_openni2->n_opened, 1);
    assert_all_closed();
}

static void what_cannot_be_opened_says_why(void **state)
{
    (void)state;
    struct capture *capture;
    assert_int_equal(open_source("openni2:Dummy,size=640x", &capture), -EINVAL);
    assert_non_null(strstr(said, "expected openni2:[CAMERA][,size=WIDTHxHEIGHT]"));
    assert_int_equal(open_source("openni2:Dummy,size=640x480", &capture), -ENODEV); // waits 10 s
    assert_non_null(strstr(said, "openni2:Dummy: Dummy: no depth of 640x480"));
    assert_int_equal(open_source("openni2:nothing", &capture), -ENODEV); // likewise
    assert_non_null(strstr(said, "openni2:nothing: no such camera"));
    assert_all_closed();
}

#define TEST(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(dummy_device_delivers),          TEST(pixels_are_the_cameras),
        TEST(unplugged_it_comes_back),        TEST(a_wall_that_is_set_is_followed),
        TEST(what_cannot_be_opened_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

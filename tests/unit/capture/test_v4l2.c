// SPDX-License-Identifier: Apache-2.0
// The driver of the kernel's cameras against video devices of our own making (tests/fake_v4l2.h),
// linked in front of the C library's calls. They count what is open.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "capture/capture.h"
#include "proto/clock.h"
#include "tests/fake_v4l2.h"
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
    memset(fake_v4l2, 0, sizeof *fake_v4l2);
    fake_v4l2->plugged = 1;
    fake_v4l2->node = 2;
    fake_v4l2->period_ms = 2;
    said[0] = 0;
    return 0;
}

static int open_source(const char *source, struct capture **out)
{
    struct capture_settings settings = {
        .source = source, .fx_px = 380, .fy_px = 381, .log = {.write = hear}};
    return capture_open(out, &settings);
}

static void assert_all_closed(void)
{
    assert_int_equal(fake_v4l2->n_open, 0);
    assert_int_equal(fake_v4l2->n_streams, 0);
    assert_int_equal(fake_v4l2->n_wrong, 0);
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

// Each pixel, rows unpadded; the frame's number is in the first of them.
static void assert_pixels(const struct capture_frame *frame)
{
    const struct depth_frame *image = &frame->image;
    uint32_t k = 0;
    while (k < 3000 && fake_v4l2_pixel(k, 0) != image->depth[0])
        k++;
    for (uint32_t i = 0; i < image->width_px * image->height_px; i++)
        assert_int_equal(image->depth[i], fake_v4l2_pixel(k, i));
}

static void first_camera_with_depth_is_found(void **state)
{
    (void)state;
    struct capture *capture;
    struct capture_frame frame;
    said[0] = 0;
    assert_int_equal(capture_look("v4l2", &(struct log_sink){.write = hear}), 1);
    assert_string_equal(said, "/dev/video2 has depth: source v4l2:2\n");
    assert_int_equal(capture_look("tum", NULL), -ENOTSUP);
    assert_all_closed();
    assert_int_equal(open_source("v4l2:", &capture), 0);
    const struct capture_info *info = capture_info(capture);
    assert_true(info->live);
    assert_string_equal(info->description, "v4l2:/dev/video2 (640x480)");
    assert_true(info->camera.fx_px == 380 && info->camera.fy_px == 381);
    assert_true(info->camera.cx_px == 319.5 && info->camera.cy_px == 239.5);
    assert_true(info->units_per_m == 1000);
    int64_t time_ns = clock_wall_ns() - 1000000000;
    for (uint64_t i = 0; i < 100; i++) {
        assert_int_equal(capture_read(capture, 5000, &frame), 0);
        assert_int_equal(frame.index, i);
        assert_true(frame.image.time_ns > time_ns);
        time_ns = frame.image.time_ns;
        if (frame.image.depth)
            assert_pixels(&frame);
        else
            assert_int_equal(frame.flags, CAPTURE_LATE);
    }
    assert_true(llabs(clock_wall_ns() - time_ns) < 1000000000);
    capture_close(&capture);
    assert_all_closed();
}

static void size_and_node_may_be_named(void **state)
{
    (void)state;
    static const char *const sources[] = {"v4l2:2,size=320x240", "v4l2:/dev/video2,size=320x240"};
    for (int i = 0; i < 2; i++) {
        struct capture *capture;
        struct capture_frame frame;
        assert_int_equal(open_source(sources[i], &capture), 0);
        read_good(capture, &frame);
        assert_int_equal(frame.image.width_px, 320);
        assert_int_equal(frame.image.height_px, 240);
        assert_pixels(&frame);
        capture_close(&capture);
        assert_all_closed();
    }
}

static void torn_frames_are_damaged_and_lost_ones_told(void **state)
{
    (void)state;
    struct capture *capture;
    struct capture_frame frame;
    assert_int_equal(open_source("v4l2:2", &capture), 0);
    read_good(capture, &frame);
    fake_v4l2->torn = 1;
    fake_v4l2->skip = 3;
    int n_damaged = 0;
    for (int i = 0; i < 50; i++) {
        assert_int_equal(capture_read(capture, 5000, &frame), 0);
        n_damaged += (frame.flags & CAPTURE_DAMAGED) != 0;
    }
    assert_int_equal(n_damaged, 1);
    for (int i = 0; i < 50; i++) { // a bad cable is no flood of lines
        fake_v4l2->torn = 1;
        assert_int_equal(capture_read(capture, 5000, &frame), 0);
        n_damaged += (frame.flags & CAPTURE_DAMAGED) != 0;
    }
    assert_true(n_damaged > 20);
    capture_close(&capture);
    const char *line = strstr(said, "307680 of 615358 bytes came");
    assert_non_null(line);
    assert_null(strstr(line + 1, "307680 of"));
    assert_non_null(strstr(line, " frames were damaged"));
    assert_non_null(strstr(said, "the kernel has lost 3 frames"));
    assert_all_closed();
}

static void unplugged_it_comes_back_under_another_number(void **state)
{
    (void)state;
    struct capture *capture;
    struct capture_frame frame;
    assert_int_equal(open_source("v4l2:", &capture), 0);
    int64_t time_ns = 0;
    for (int i = 0; i < 20; i++) {
        read_good(capture, &frame);
        assert_true(frame.image.time_ns > time_ns);
        fake_v4l2->plugged = 0;
        while (fake_v4l2->n_open)
            pause_ms(1);
        while (capture_read(capture, 0, &frame) == 0)
            ; // what was on its way
        time_ns = frame.image.time_ns;
        assert_int_equal(capture_read(capture, 20, &frame), -EAGAIN);
        fake_v4l2->node = i % 2 ? 2 : 7;
        fake_v4l2->plugged = 1;
        int64_t begin_ns = clock_monotonic_ns();
        read_good(capture, &frame);
        assert_true(clock_monotonic_ns() - begin_ns < RETURN_NS);
        assert_pixels(&frame);
    }
    capture_close(&capture);
    assert_int_equal(fake_v4l2->n_opened, 21);
    assert_non_null(strstr(said, "v4l2: the camera is gone; waiting for it"));
    assert_non_null(strstr(said, "v4l2: the camera is back"));
    assert_all_closed();
}

static void silent_camera_is_opened_anew(void **state)
{
    (void)state;
    struct capture *capture;
    struct capture_frame frame;
    assert_int_equal(open_source("v4l2:", &capture), 0);
    read_good(capture, &frame);
    fake_v4l2->silent = 1;
    while (fake_v4l2->n_opened == 1) // 1.5 s
        pause_ms(10);
    fake_v4l2->silent = 0;
    while (capture_read(capture, 0, &frame) == 0)
        ;
    read_good(capture, &frame);
    assert_non_null(strstr(said, "the camera is silent"));
    capture_close(&capture);
    assert_all_closed();
}

static void a_wall_that_is_set_is_followed(void **state)
{
    (void)state;
    struct capture *capture;
    fake_v4l2->period_ms = 20;
    assert_int_equal(open_source("v4l2:", &capture), 0);
    assert_follows_wall(capture);
    capture_close(&capture);
    assert_non_null(strstr(said, "v4l2: the machine's clock was set 3600.000 s forward"));
    assert_non_null(strstr(said, "v4l2: the machine's clock was set 3600.000 s back"));
    assert_null(strstr(said, "silent"));
    assert_int_equal(fake_v4l2->n_opened, 1);
    assert_all_closed();
}

// One of another size does not replace it: the frames' size is fixed.
static void another_size_is_waited_out(void **state)
{
    (void)state;
    struct capture *capture;
    struct capture_frame frame;
    assert_int_equal(open_source("v4l2:", &capture), 0);
    read_good(capture, &frame);
    fake_v4l2->plugged = 0;
    while (fake_v4l2->n_open)
        pause_ms(1);
    fake_v4l2->only_small = 1;
    fake_v4l2->plugged = 1;
    while (capture_read(capture, 300, &frame) == 0)
        ;
    fake_v4l2->only_small = 0;
    read_good(capture, &frame);
    assert_int_equal(frame.image.width_px, 640);
    capture_close(&capture);
    assert_non_null(strstr(said, "depth of 640x480 is not offered, but 320x240"));
    assert_all_closed();
}

static void what_cannot_be_opened_says_why(void **state)
{
    (void)state;
    struct capture *capture;
    struct capture_settings settings = {.source = "v4l2:2", .log = {.write = hear}};
    assert_int_equal(capture_open(&capture, &settings), -EINVAL);
    assert_non_null(strstr(said, "v4l2:2: Video4Linux tells no intrinsics: set camera.fx"));
    static const char *const bad[] = {"v4l2:2,size=", "v4l2:2,size=0x480", "v4l2:2,size=640x480x",
                                      "v4l2:2,rate=30", "v4l2:2,size=5000x10"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(open_source(bad[i], &capture), -EINVAL);
    assert_non_null(strstr(said, "expected v4l2:[CAMERA][,size=WIDTHxHEIGHT]"));
    settings.source = "v4l2:0"; // without intrinsics, but first of all without a camera
    assert_int_equal(capture_open(&capture, &settings), -ENODEV); // waits 10 s
    assert_non_null(strstr(said, "v4l2:0: no depth (Z16), its formats are: YUYV MJPG; waiting for "
                                 "it, 10 s; see posectl doctor"));
    assert_null(strstr(said, "v4l2:0: Video4Linux tells no intrinsics"));
    assert_all_closed();
}

#define TEST(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(first_camera_with_depth_is_found),
        TEST(size_and_node_may_be_named),
        TEST(torn_frames_are_damaged_and_lost_ones_told),
        TEST(unplugged_it_comes_back_under_another_number),
        TEST(silent_camera_is_opened_anew),
        TEST(a_wall_that_is_set_is_followed),
        TEST(another_size_is_waited_out),
        TEST(what_cannot_be_opened_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

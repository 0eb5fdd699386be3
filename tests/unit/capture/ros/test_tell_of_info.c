// SPDX-License-Identifier: Apache-2.0
// Which camera infos of a live topic are another calibration: not one that is rounded otherwise,
// and not those that change without an end.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "capture/ros/tell_of_info.h"

#define S INT64_C(1000000000)

static char said[8192];
static struct ros_live_info live;
static struct intrinsics camera; // in force

static void hear(void *user, enum log_level level, const char *line)
{
    (void)user;
    const size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s%s\n", level == LOG_LEVEL_WARNING ? "warning: " : "",
             line);
}

static const struct log_sink sink = {hear, NULL};
static const struct intrinsics first = {525, 525, 319.5, 239.5, 640, 480};

static int setup(void **state)
{
    (void)state;
    said[0] = 0;
    camera = first;
    live = (struct ros_live_info){.names = {"ros2", "/d/camera_info", "", "/d/image_raw", ""},
                                  .is_told = true,
                                  .last = first};
    return 0;
}

static int count(const char *text)
{
    int n = 0;
    for (const char *at = said; (at = strstr(at, text)); at += strlen(text))
        n++;
    return n;
}

static void take(const struct intrinsics *now, int64_t now_ns)
{
    const struct ros_camera_info info = {.camera = *now};
    ros_live_info_take(&live, &sink, &info, now_ns, &camera);
}

static struct intrinsics with_fx(double fx_px)
{
    struct intrinsics other = first;
    other.fx_px = fx_px;
    return other;
}

static void far_below_a_pixel_is_no_change(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++) {
        struct intrinsics near = first;
        near.fx_px += (i % 3) * 1e-6;
        near.fy_px -= 0.019;
        near.cx_px += 0.019 * (i % 2);
        near.cy_px -= 1e-9 * i;
        take(&near, i * S / 10);
    }
    assert_string_equal(said, "");
    assert_memory_equal(&camera, &first, sizeof camera);
    for (int i = 0; i < 4; i++) { // each of the four counts
        struct intrinsics now = camera;
        double *const fields[] = {&now.fx_px, &now.fy_px, &now.cx_px, &now.cy_px};
        *fields[i] += 0.1;
        take(&now, (200 + 20 * i) * S);
        assert_memory_equal(&camera, &now, sizeof camera);
        assert_int_equal(count("; it is taken for the images from now on\n"), i + 1);
    }
}

// Small steps add up: what counts is how far it is from the one in force.
static void a_slow_drift_is_followed(void **state)
{
    (void)state;
    for (int i = 1; i <= 40; i++) {
        const struct intrinsics now = with_fx(first.fx_px + 0.001 * i);
        take(&now, i * S);
        assert_true(fabs(camera.fx_px - now.fx_px) <= ROS_SAME_CALIBRATION_PX);
    }
    assert_int_equal(count("another calibration"), 1);
}

static void what_is_no_calibration_is_told_once(void **state)
{
    (void)state;
    const struct intrinsics none = with_fx(NAN);
    for (int i = 0; i < 100; i++)
        take(&none, i * S);
    assert_int_equal(count("that is no calibration, the one before it stays\n"), 1);
    assert_int_equal(count("\n"), 1);
    assert_memory_equal(&camera, &first, sizeof camera);
}

// Two cameras on one topic, or a node that estimates it anew with each image.
static void one_that_flaps_is_not_followed(void **state)
{
    (void)state;
    const struct intrinsics other = with_fx(600);
    int64_t now_ns = 50 * S;
    for (int i = 0; i < 300; i++, now_ns += S / 10)
        take(i % 2 ? &first : &other, now_ns);
    assert_int_equal(count("another calibration"), ROS_CALM_CHANGES);
    assert_int_equal(count("warning: /d/camera_info: the calibration changes again and again: that "
                           "of fx 600 fy 525 cx 319.5 cy 239.5, 640x480 stays until one has been "
                           "the same for 10 s. "),
                     1);
    assert_int_equal(count("--set camera.fx="), 1);
    assert_true(camera.fx_px == 600);
    for (int i = 0; i < 400; i++, now_ns += S / 10) // it is told again, now and then
        take(i % 2 ? &first : &other, now_ns);
    assert_int_equal(count("again and again"), 2);
    // it has come to rest
    for (int i = 0; i < 99; i++, now_ns += S / 10)
        take(&first, now_ns);
    assert_true(camera.fx_px == 600);
    for (int i = 0; i < 4; i++, now_ns += S / 10)
        take(&first, now_ns);
    assert_memory_equal(&camera, &first, sizeof camera);
    assert_int_equal(count("another calibration"), ROS_CALM_CHANGES + 1);
    take(&other, now_ns + S); // and is followed as before
    assert_true(camera.fx_px == 600);
}

static void changes_with_time_between_are_followed(void **state)
{
    (void)state;
    for (int i = 1; i < 50; i++) {
        const struct intrinsics now = with_fx(500 + i);
        take(&now, i * 4 * S);
        assert_true(camera.fx_px == now.fx_px);
    }
    assert_int_equal(count("again and again"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(far_below_a_pixel_is_no_change, setup),
        cmocka_unit_test_setup(a_slow_drift_is_followed, setup),
        cmocka_unit_test_setup(what_is_no_calibration_is_told_once, setup),
        cmocka_unit_test_setup(one_that_flaps_is_not_followed, setup),
        cmocka_unit_test_setup(changes_with_time_between_are_followed, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

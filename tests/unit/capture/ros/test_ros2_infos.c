// SPDX-License-Identifier: Apache-2.0
// Camera infos of a live ROS 2 camera: whose they are, what they are named, a calibration that
// changes, a lens and a rectification.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/capture/ros/ros2_camera.h"

// Walks through the domain's publishers.
static atomic_int n_walks;
dds_return_t __real_dds_read_mask(dds_entity_t reader, void **samples, dds_sample_info_t *infos,
                                  size_t n_samples, uint32_t max_samples, uint32_t mask);
dds_return_t __wrap_dds_read_mask(dds_entity_t reader, void **samples, dds_sample_info_t *infos,
                                  size_t n_samples, uint32_t max_samples, uint32_t mask);

dds_return_t __wrap_dds_read_mask(dds_entity_t reader, void **samples, dds_sample_info_t *infos,
                                  size_t n_samples, uint32_t max_samples, uint32_t mask)
{
    atomic_fetch_add(&n_walks, 1);
    return __real_dds_read_mask(reader, samples, infos, n_samples, max_samples, mask);
}

static void another_calibration_is_told_of(void **state)
{
    (void)state;
    struct capture *capture = open_topic();
    struct capture_frame frame;
    read_good(capture, &frame);
    camera.is_other = true;
    int n_told = 0;
    for (int i = 0; i < 50; i++) {
        assert_int_equal(capture_read(capture, 10000, &frame), 0);
        n_told += (frame.flags & CAPTURE_RECALIBRATED) != 0;
        assert_true(capture_info(capture)->camera.fx_px == (n_told ? 70 : 60));
    }
    assert_int_equal(n_told, 1);
    assert_int_equal(count("/unit/depth/camera_info: another calibration, from fx 60 fy 61 cx 31.5 "
                           "cy 23.5, 64x48 to fx 70 fy 61 cx 31.5 cy 23.5, 64x48, at stamp "),
                     1);
    assert_int_equal(count("; it is taken for the images from now on\n"), 1);
    // what cannot be taken is left out, and that is said once each
    camera.is_large = true;
    for (int i = 0; i < 50; i++) {
        assert_int_equal(capture_read(capture, 10000, &frame), 0);
        assert_int_equal(frame.flags & CAPTURE_RECALIBRATED, 0);
        camera.is_empty = i > 25;
    }
    assert_true(capture_info(capture)->camera.fx_px == 70);
    assert_int_equal(count("128x48, at stamp "), 2);
    assert_int_equal(count("; that is not the images' size, the one before it stays\n"), 1);
    assert_int_equal(count("; that is no calibration, the one before it stays\n"), 1);
    capture_close(&capture);
    unplug();
}

// Also of a camera info that comes after the first image was waited for long enough.
static void the_camera_info_is_named(void **state)
{
    (void)state;
    struct capture *capture = open_topic();
    assert_int_equal(count("ros2: the camera info of /unit/depth/image_raw is "
                           "/unit/depth/camera_info\n"),
                     1);
    assert_int_equal(count("frame colour"), 0);
    capture_close(&capture);
    said[0] = 0;
    camera.is_silent = camera.is_colour = true;
    struct capture_settings settings = {.source = "ros2:/unit/depth/image_raw",
                                        .ros_domain = domain,
                                        .allow_implausible = true,
                                        .log = {.write = hear}};
    struct capture_frame frame;
    assert_int_equal(capture_open(&capture, &settings), 0);
    read_good(capture, &frame);
    assert_int_equal(count("ros2: the intrinsics would be of /unit/depth/camera_info: none of the "
                           "images' camera came within 3 s; topics with camera infos: "
                           "/unit/depth/camera_info\n"),
                     1);
    camera.is_silent = false;
    for (int i = 0; i < 50; i++)
        assert_int_equal(capture_read(capture, 10000, &frame), 0);
    capture_close(&capture);
    unplug();
    assert_int_equal(count("the camera info of /unit/depth/image_raw is"), 1);
    assert_int_equal(count("ros2: /unit/depth/camera_info is of frame colour, but images of "
                           "/unit/depth/image_raw are of frame camera: "),
                     1);
}

// Once, whenever the first info with distortion comes, and whoever gives the intrinsics; not of
// rectified images.
static void distortion_is_told_of(void **state)
{
    (void)state;
    static const char wanted[] = "ros2: /unit/depth/camera_info tells of distortion (up to 0.25), "
                                 "which stays in the images of /unit/depth/image_raw\n";
    struct capture *capture = open_topic();
    struct capture_frame frame;
    for (int i = 0; i < 60; i++) {
        assert_int_equal(capture_read(capture, 10000, &frame), 0);
        camera.is_distorted = i >= 20;
        camera.is_other = i >= 40;
        assert_true(i >= 20 || count("distortion") == 0);
    }
    capture_close(&capture);
    assert_int_equal(count(wanted), 1);
    said[0] = 0;
    capture = open_topic(); // from the first on
    for (int i = 0; i < 20; i++)
        assert_int_equal(capture_read(capture, 10000, &frame), 0);
    capture_close(&capture);
    assert_int_equal(count(wanted), 1);
    said[0] = 0;
    camera.is_silent = true; // late
    struct capture_settings settings = {.source = "ros2:/unit/depth/image_raw",
                                        .ros_domain = domain,
                                        .fx_px = 60,
                                        .fy_px = 60,
                                        .cx_px = 31.5,
                                        .cy_px = 23.5,
                                        .log = {.write = hear}};
    assert_int_equal(capture_open(&capture, &settings), 0);
    read_good(capture, &frame);
    assert_int_equal(count("distortion"), 0);
    camera.is_silent = false;
    for (int i = 0; i < 50; i++)
        assert_int_equal(capture_read(capture, 10000, &frame), 0);
    capture_close(&capture);
    unplug();
    assert_int_equal(count(wanted), 1);
}

// Of rectified images the matrix P counts, whenever the first camera info comes.
static void a_rectified_camera_whose_info_is_late(void **state)
{
    (void)state;
    struct capture *capture;
    struct capture_settings settings = {.source = "ros2:/unit/depth/image_rect",
                                        .ros_domain = domain,
                                        .allow_implausible = true,
                                        .log = {.write = hear}};
    struct capture_frame frame;
    unplug();
    camera.is_rectified = camera.is_silent = camera.is_distorted = true;
    plug_in(true);
    assert_int_equal(capture_open(&capture, &settings), 0);
    read_good(capture, &frame);
    camera.is_silent = false;
    for (int i = 0; i < 50; i++)
        assert_int_equal(capture_read(capture, 10000, &frame), 0);
    assert_true(capture_info(capture)->camera.fx_px == 55);
    camera.is_other = true;
    for (int i = 0; i < 50; i++)
        assert_int_equal(capture_read(capture, 10000, &frame), 0);
    assert_true(capture_info(capture)->camera.fx_px == 65);
    assert_int_equal(count("distortion"), 0);
    capture_close(&capture);
    unplug();
}

// A node that makes depth of what a driver sends: the driver's camera infos are taken, and whose
// they are is not asked of the whole domain with each of them. A second camera's are not, also
// where it comes later.
static void camera_infos_of_another_program(void **state)
{
    (void)state;
    unplug();
    camera.is_apart = true;
    plug_in(true);
    struct capture *capture = open_topic();
    struct capture_frame frame;
    assert_true(capture_info(capture)->camera.fx_px == 60);
    for (int i = 0; i < 20; i++)
        read_good(capture, &frame);
    atomic_store(&n_walks, 0);
    for (int i = 0; i < 50; i++) // a second
        assert_int_equal(capture_read(capture, 10000, &frame), 0);
    print_message("%d walks for 50 camera infos\n", atomic_load(&n_walks));
    assert_true(atomic_load(&n_walks) <= 10);

    // it sends images itself from now on, so that they are of these
    dds_entity_t second = writer_by(camera.participant_of_infos, "rt/unit/depth/image_raw",
                                    &sensor_msgs_msg_dds__Image__desc, true);
    nanosleep(&(struct timespec){0, 500000000}, NULL);
    while (capture_read(capture, 0, &frame) == 0)
        ;
    camera.is_other = true;
    for (int i = 0; i < 50; i++)
        assert_int_equal(capture_read(capture, 10000, &frame), 0);
    assert_true(capture_info(capture)->camera.fx_px == 60);
    assert_int_equal(dds_delete(second), 0);
    for (int i = 0; i < 50; i++)
        assert_int_equal(capture_read(capture, 10000, &frame), 0);
    assert_true(capture_info(capture)->camera.fx_px == 70);
    capture_close(&capture);
    unplug();
}

#define TEST(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(another_calibration_is_told_of),  TEST(the_camera_info_is_named),
        TEST(distortion_is_told_of),           TEST(a_rectified_camera_whose_info_is_late),
        TEST(camera_infos_of_another_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

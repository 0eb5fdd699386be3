// SPDX-License-Identifier: Apache-2.0
// What the chosen topic's images and camera infos say: sizes, calibrations, units and encodings,
// and what is said where they do not fit.
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/capture/ros/told_bag.h"

static void sizes_that_no_camera_has(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{0, H}, {W, 0}, {100000, H}, {W, 100000}};
    for (size_t i = 0; i < 4; i++) {
        char name[32], wanted[128];
        snprintf(name, sizeof name, "/depth_%zu", i);
        const uint32_t id = add_topic(name, "sensor_msgs/msg/Image");
        add_image_of(id, T, "16UC1", sizes[i][0], sizes[i][1]);
        if (!bag_topic(&bag, id)->is_depth)
            continue; // noticed before
        assert_int_equal(choose(name, NULL), -EINVAL);
        snprintf(wanted, sizeof wanted, "images of %s are %ux%u, which no camera has", name,
                 sizes[i][0], sizes[i][1]);
        assert_said(wanted);
    }
}

// A driver may begin with images that are empty: those after them tell the size.
static void size_is_that_of_an_image_that_has_one(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{0, 0}, {W, 0}, {W, H}, {0, 0}, {2 * W, H}};
    camera_info("/a/depth/camera_info", 50, W);
    const uint32_t id = add_topic("/a/depth/image", "sensor_msgs/msg/Image");
    add_image_of(id, T - 1000, "rgb8", 0, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        add_image_of(id, T + (int64_t)i * 1000, "16UC1", sizes[i][0], sizes[i][1]);
    assert_int_equal(choose("/a/depth/image", NULL), 0);
    assert_true(info.camera.width_px == W && info.camera.height_px == H && info.n_frames == 6);
    assert_non_null(strstr(said, "1 image of /a/depth/image is no depth (rgb8)"));
    assert_said("4 images of /a/depth/image of another size than the first one's 8x6 (0x0)");
}

static void calibrations(void **state)
{
    (void)state;
    const uint32_t far = camera_info("/camera_info", 40, W);
    image("/a/depth/image", "16UC1");
    assert_int_equal(choose(NULL, NULL), 0);
    assert_true(info.camera.fx_px == 40); // the only one there is
    const uint32_t near = camera_info("/a/depth/camera_info", 50, 2 * W);
    assert_int_equal(choose(NULL, NULL), -ERANGE);
    assert_said("images of /a/depth/image are 8x6, but /a/depth/camera_info is for 16x6");
    const struct capture_settings lenient = {.allow_implausible = true};
    assert_int_equal(bag_choose(&bag, &lenient, &info), 0);
    assert_true(info.camera.fx_px == 50 && info.camera.width_px == W);
    struct capture_settings told = {0};
    double *const numbers[] = {&told.fx_px, &told.fy_px, &told.cx_px, &told.cy_px};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(bag_choose(&bag, &told, &info), -ERANGE);
        *numbers[i] = i + 1;
    }
    said[0] = 0;
    assert_int_equal(bag_choose(&bag, &told, &info), 0);
    assert_string_equal(said, ""); // who gives all four is believed
    struct bag_topic *topic = (struct bag_topic *)(uintptr_t)bag_topic(&bag, near);
    topic->info.camera.width_px = W;
    topic->info.distortion = 0.25;
    topic->camera_change = (struct bag_info_change){1, {51, 60, 3.5, 2.5, W, H}, T + 1};
    assert_int_equal(choose(NULL, NULL), 0);
    assert_non_null(strstr(said, "/a/depth/camera_info tells of distortion (up to 0.25)"));
    assert_said("/a/depth/camera_info changes on the way from fx 50 fy 60");
    static const struct intrinsics bad[] = {{NAN, 1, 1, 1, W, H},     {INFINITY, 1, 1, 1, W, H},
                                            {-1, 1, 1, 1, W, H},      {1, NAN, 1, 1, W, H},
                                            {1, 0, 1, 1, W, H},       {1, 1, NAN, 1, W, H},
                                            {1, 1, 1, INFINITY, W, H}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        topic->info.camera = bad[i];
        assert_int_equal(choose(NULL, NULL), -EINVAL);
        assert_said("/a/depth/camera_info is no calibration of a camera");
    }
    assert_non_null(bag_topic(&bag, far));
    // rectified images have the other matrix
    topic->info.camera = (struct intrinsics){50, 50, 4, 3, W, H};
    topic->info.rectified = (struct intrinsics){45, 45, 4, 3, W, H};
    image("/a/depth/image_rect", "16UC1");
    assert_int_equal(choose("/a/depth/image_rect", NULL), 0);
    assert_true(info.camera.fx_px == 45);
    image("/a/director/image_raw", "16UC1"); // another word
    assert_int_equal(choose("/a/director/image_raw", NULL), 0);
    assert_true(info.camera.fx_px == 50);
}

static void cameras_without_a_calibration(void **state)
{
    (void)state;
    image("/a/depth/image", "16UC1");
    assert_int_equal(choose(NULL, NULL), -ERANGE);
    assert_said("no camera info for /a/depth/image, taken for the usual camera of 640x480; give "
                "its own with --set camera.fx=... (fy, cx, cy) or -c FILE");
    camera_info("/b/camera_info", 0, W);
    camera_info("/a/depth/camera_info", 0, W);
    assert_int_equal(choose(NULL, NULL), -ERANGE);
    assert_said("no camera info for /a/depth/image (/a/depth/camera_info holds no focal length: "
                "the camera is not calibrated), taken for the usual camera");
}

// What becomes of it, when, and that the first one stays.
static void camera_infos_that_change(void **state)
{
    (void)state;
    const uint32_t id = camera_info("/depth/camera_info", 50, W);
    image("/depth/image_rect", "16UC1");
    add_info(id, T, 50, W);
    assert_int_equal(choose(NULL, NULL), 0);
    assert_null(strstr(said, "changes"));
    add_info(id, T + 33000000, 51, W);
    assert_int_equal(choose(NULL, NULL), 0);
    assert_said(
        "the.bag: /depth/camera_info changes on the way from fx 50 fy 60 cx 3.5 cy 2.5, 8x6 "
        "to fx 51 fy 60 cx 3.5 cy 2.5, 8x6, at stamp 100.033000000 (1 message is not as the "
        "first); its first calibration is taken for all images");
    add_info(id, T + 66000000, 52, W);
    add_info(id, T + 99000000, 50, W);
    assert_int_equal(choose(NULL, NULL), 0);
    assert_said("100.033000000 (2 messages are not as the first); its first");
    assert_true(info.camera.fx_px == 50);
    // of P where it counts, of K where it does not; the recorder's time where there is no stamp
    struct bag_topic *topic = (struct bag_topic *)(uintptr_t)bag_topic(&bag, id);
    topic->rectified_change.n_messages = 0;
    assert_int_equal(choose(NULL, NULL), 0);
    assert_null(strstr(said, "changes"));
    add_info(id, 0, 50, 2 * W);
    assert_int_equal(choose(NULL, NULL), 0);
    assert_said("to fx 50 fy 60 cx 3.5 cy 2.5, 16x6, at stamp 100.000000007 (1 message is not");
    const struct capture_settings told = {.fx_px = 1, .fy_px = 1, .cx_px = 1, .cy_px = 1};
    assert_int_equal(bag_choose(&bag, &told, &info), 0);
    assert_string_equal(said, "");
}

// Which one is taken is said, and whether it is of the images' frame.
static void camera_infos_of_another_frame(void **state)
{
    (void)state;
    const uint32_t id = camera_info("/camera/color/camera_info", 50, W);
    image("/camera/depth/image", "16UC1");
    struct bag_topic *topic = (struct bag_topic *)(uintptr_t)bag_topic(&bag, id);
    static const struct {
        const char *frame;
        bool is_other;
    } cases[] = {{"frame", false}, {"/frame", false}, {"", false}, {"frames", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(topic->info.header.frame_id, sizeof topic->info.header.frame_id, "%s",
                 cases[i].frame);
        said[0] = 0;
        assert_int_equal(choose(NULL, NULL), 0);
        assert_int_equal(strstr(said, "are of frame") != NULL, cases[i].is_other);
        assert_non_null(strstr(said, "the.bag: the camera info of /camera/depth/image is "
                                     "/camera/color/camera_info\n"));
    }
    assert_said("the.bag: /camera/color/camera_info is of frame frames, but images of "
                "/camera/depth/image are of frame frame: intrinsics of another camera");
}

static void units(void **state)
{
    (void)state;
    camera_info("/device_0/camera_info", 50, W);
    const uint32_t id = image("/device_0/sensor_0/Depth_0/image/data", "16UC1");
    assert_int_equal(choose(NULL, NULL), 0);
    assert_true(info.units_per_m == 1000);
    text("/other/option/Depth_Units/value", T, "0.01");
    text("/device_0/sensor_0/option/Depth_Units/value", T, "0.0002");
    text("/device_0/sensor_0/option/Depth_Units/value", T, "0.5"); // the first counts
    text("/device_1/option/Depth_Units/value", T, "7");            // none
    assert_int_equal(choose(NULL, NULL), 0);
    assert_true(fabs(info.units_per_m - 5000) < 1e-9);
    // floats are metres: as the recorder had them, as the user says, or as fine as may be
    struct bag_topic *topic = (struct bag_topic *)(uintptr_t)bag_topic(&bag, id);
    topic->format.is_float = true;
    assert_int_equal(choose(NULL, NULL), 0);
    assert_true(info.units_per_m == ROS_FLOAT_UNITS_PER_M);
    bag_set_units(&bag, id, 2000);
    assert_int_equal(choose(NULL, NULL), 0);
    assert_true(info.units_per_m == 2000);
    const struct capture_settings settings = {.depth_scale = 250};
    assert_int_equal(bag_choose(&bag, &settings, &info), 0);
    assert_true(info.units_per_m == 250);
}

// One unit for all images: that of the first one.
static void encodings_that_mix(void **state)
{
    (void)state;
    const struct capture_settings scale = {.depth_scale = 2500};
    camera_info("/depth/camera_info", 50, W);
    const uint32_t id = image("/depth/image", "32FC1");
    add_image_of(id, T + 1, "32FC1", W, H);
    assert_int_equal(choose(NULL, NULL), 0);
    assert_null(strstr(said, "change"));
    assert_true(bag.units.per_m == 5000 && bag.units.int_per_m == 1000);
    for (int i = 2; i < 5; i++)
        add_image_of(id, T + i, i < 4 ? "16UC1" : "mono16", W, H);
    assert_int_equal(choose(NULL, NULL), 0);
    assert_said("the.bag: images of /depth/image change from 32FC1 to 16UC1 on the way: these are "
                "taken for 1000 units per metre, and all are given in 5000 units per metre\n");
    assert_int_equal(bag_choose(&bag, &scale, &info), 0); // says it of floats
    assert_true(bag.units.per_m == 2500 && bag.units.int_per_m == 1000);
    text("/depth/option/Depth_Units/value", T, "0.0005");
    assert_int_equal(choose(NULL, NULL), 0);
    assert_said("taken for 2000 units per metre, and all are given in 5000 units per metre\n");
    const uint32_t other = image("/depth/other", "16UC1");
    add_image_of(other, T + 1, "32FC1", W, H);
    assert_int_equal(choose("/depth/other", NULL), 0);
    assert_said("the.bag: images of /depth/other change from 16UC1 to 32FC1 on the way: these are "
                "taken for metres, and all are given in 2000 units per metre\n");
    assert_true(bag.units.per_m == 2000 && bag.units.int_per_m == 2000);
    assert_int_equal(bag_choose(&bag, &scale, &info), 0);
    assert_true(bag.units.per_m == 2500 && bag.units.int_per_m == 2500);
}

// What floats are the first image shows that has depth; those before it are looked at, too.
static void floats_that_are_millimetres(void **state)
{
    (void)state;
    static const char said_so[] =
        "the.bag: images of /depth/image are 32FC1 of millimetres (more than nine of ten values "
        "are above 100), where REP 118 wants metres: they are read as millimetres\n";
    camera_info("/depth/camera_info", 50, W);
    const uint32_t id = add_topic("/depth/image", "sensor_msgs/msg/Image");
    assert_int_equal(bag_interest(bag_topic(&bag, id)), BAG_ALL);
    add_floats(id, T, NAN);
    assert_int_equal(bag_interest(bag_topic(&bag, id)), BAG_ALL);
    assert_int_equal(choose(NULL, NULL), 0);
    assert_true(bag.units.float_per_m == 1);
    assert_null(strstr(said, "REP 118"));
    add_floats(id, T + 1, 1500);
    assert_int_equal(bag_interest(bag_topic(&bag, id)), BAG_HEAD);
    add_floats(id, T + 2, 1.5f);
    assert_int_equal(choose(NULL, NULL), 0);
    assert_true(bag.units.float_per_m == 1000 && bag.units.per_m == 5000);
    assert_true(info.float_per_m == 1000);
    assert_said(said_so);
    said[0] = 0; // the settings say what they are
    const struct capture_settings told = {.float_scale = 100};
    assert_int_equal(bag_choose(&bag, &told, &info), 0);
    assert_true(info.units_per_m == 5000 && info.float_per_m == 100);
    assert_true(bag.units.float_per_m == 100);
    assert_null(strstr(said, "REP 118"));
    // where the first one has 16 bits
    const uint32_t mixed = image("/depth/mixed", "16UC1");
    assert_int_equal(bag_interest(bag_topic(&bag, mixed)), BAG_HEAD);
    add_image_of(mixed, T + 1, "32FC1", W, H);
    assert_int_equal(bag_interest(bag_topic(&bag, mixed)), BAG_ALL);
    add_floats(mixed, T + 2, 1500);
    assert_int_equal(choose("/depth/mixed", NULL), 0);
    assert_said("from 16UC1 to 32FC1 on the way: these are taken for millimetres");
    assert_true(bag.units.float_per_m == 1000 && bag.units.per_m == 1000);
    // metres, and what shows nothing for too long
    const uint32_t metres = add_topic("/depth/metres", "sensor_msgs/msg/Image");
    add_floats(metres, T, 1.5f);
    assert_int_equal(bag_interest(bag_topic(&bag, metres)), BAG_HEAD);
    const uint32_t blank = add_topic("/depth/blank", "sensor_msgs/msg/Image");
    for (int i = 0; i < 100; i++) {
        assert_int_equal(bag_interest(bag_topic(&bag, blank)), BAG_ALL);
        add_floats(blank, T + i, 0);
    }
    assert_int_equal(bag_interest(bag_topic(&bag, blank)), BAG_HEAD);
    add_floats(blank, T + 200, 1500);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(choose(i ? "/depth/blank" : "/depth/metres", NULL), 0);
        assert_null(strstr(said, "millimetres"));
        assert_true(bag.units.float_per_m == 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sizes_that_no_camera_has, setup, teardown),
        cmocka_unit_test_setup_teardown(size_is_that_of_an_image_that_has_one, setup, teardown),
        cmocka_unit_test_setup_teardown(calibrations, setup, teardown),
        cmocka_unit_test_setup_teardown(cameras_without_a_calibration, setup, teardown),
        cmocka_unit_test_setup_teardown(camera_infos_that_change, setup, teardown),
        cmocka_unit_test_setup_teardown(camera_infos_of_another_frame, setup, teardown),
        cmocka_unit_test_setup_teardown(units, setup, teardown),
        cmocka_unit_test_setup_teardown(encodings_that_mix, setup, teardown),
        cmocka_unit_test_setup_teardown(floats_that_are_millimetres, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

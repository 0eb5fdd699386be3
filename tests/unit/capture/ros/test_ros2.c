// SPDX-License-Identifier: Apache-2.0
// The driver ros2 and a publisher in the same process, over DDS itself: pixels, stamps, encodings
// and units (test_ros2_infos.c: camera infos; test_ros2_discovery.c: who is there). What
// independent publishers send is tested by the scenarios 252 and 255; these run under the
// sanitizers, too.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/capture/ros/ros2_camera.h"

// As ROS's own programs find it at the reader of the images.
static void assert_type_hash(void)
{
    dds_instance_handle_t reader;
    void *data;
    size_t n;
    const char *hash = ros_type_hash("sensor_msgs::msg::dds_::Image_");
    assert_int_equal(dds_get_matched_subscriptions(camera.images, &reader, 1), 1);
    dds_builtintopic_endpoint_t *endpoint =
        dds_get_matched_subscription_data(camera.images, reader);
    assert_non_null(endpoint);
    assert_true(dds_qget_userdata(endpoint->qos, &data, &n));
    assert_int_equal(n, strlen(hash));
    assert_memory_equal(data, hash, n);
    dds_free(data);
    dds_builtintopic_free_endpoint(endpoint);
}

static void pixels_arrive(void **state)
{
    (void)state;
    struct capture *capture = open_topic();
    struct capture_frame frame;
    assert_int_equal(capture_info(capture)->camera.width_px, W);
    assert_true(capture_info(capture)->camera.fx_px == 60);
    assert_type_hash();
    int64_t time_ns = 0;
    for (uint64_t n = 0; n < 30; n++) {
        assert_int_equal(capture_read(capture, 10000, &frame), 0);
        assert_int_equal(frame.index, n);
        assert_true(frame.image.time_ns > time_ns);
        time_ns = frame.image.time_ns;
        for (uint32_t i = 1; frame.image.depth && i < W * H; i++)
            assert_int_equal(frame.image.depth[i], (uint16_t)(frame.image.depth[0] + 3 * i));
    }
    capture_close(&capture);
    unplug();
}

// Also the one that the source was opened on.
static void the_first_image_is_the_first_frame(void **state)
{
    (void)state;
    unplug();
    camera.waits = true;
    plug_in(true);
    struct capture *capture = open_topic();
    struct capture_frame frame;
    for (uint32_t k = 0; k < 20; k++) {
        assert_int_equal(capture_read(capture, 10000, &frame), 0);
        assert_int_equal(frame.index, k);
        assert_true(!frame.image.depth || frame.image.depth[0] == pixel(k, 0));
    }
    capture_close(&capture);
    unplug();
}

// They have their arrivals' times, from the first one on.
static void images_that_never_have_a_stamp(void **state)
{
    (void)state;
    unplug();
    camera.waits = true;
    camera.n_unstamped = UINT32_MAX;
    plug_in(true);
    struct capture *capture = open_topic();
    struct capture_frame frame;
    int64_t before_ns = 0;
    for (uint32_t k = 0; k < 20; k++) {
        assert_int_equal(capture_read(capture, 10000, &frame), 0);
        assert_int_equal(frame.index, k);
        assert_int_equal(frame.flags & CAPTURE_NEW_CLOCK, 0);
        assert_true(!frame.image.depth || frame.image.depth[0] == pixel(k, 0));
        assert_true(before_ns == 0 || frame.image.time_ns - before_ns > 5000000);
        before_ns = frame.image.time_ns;
    }
    assert_int_equal(capture_n_left_out(capture), 0);
    capture_close(&capture);
    unplug();
}

// It would have another clock's time: it is left out, which is told.
static void a_first_image_before_the_clock_began(void **state)
{
    (void)state;
    unplug();
    camera.waits = true;
    camera.n_unstamped = 1;
    plug_in(true);
    struct capture *capture = open_topic();
    struct capture_frame frame;
    for (uint32_t k = 1; k < 20; k++) {
        assert_int_equal(capture_read(capture, 10000, &frame), 0);
        assert_true(!frame.image.depth || frame.image.depth[0] == pixel(k, 0));
    }
    assert_int_equal(capture_n_left_out(capture), 1);
    capture_close(&capture);
    unplug();
    assert_int_equal(count("/unit/depth/image_raw: the first image has no stamp, which the next "
                           "one has: it is left out\n"),
                     1);
    assert_int_equal(count("/unit/depth/image_raw: 1 image left out for its stamp\n"), 1);
}

static void stamps_that_stand_still(void **state)
{
    (void)state;
    struct capture *capture = open_topic();
    struct capture_frame frame;
    read_good(capture, &frame);
    camera.n_standing = 3;
    for (int i = 0; i < 20; i++)
        assert_int_equal(capture_read(capture, 10000, &frame), 0);
    assert_int_equal(capture_n_left_out(capture), 3);
    capture_close(&capture);
    unplug();
    assert_int_equal(count("/unit/depth/image_raw: an image has the same stamp as the one before "
                           "it; such are left out unless they go on from there\n"),
                     1);
    assert_int_equal(count("an image's stamp is"), 0);
}

// As DDS has a program that was killed, for 10 s: its publisher is there and says nothing. Another
// one's images are taken, with its camera info from the first one on.
static void the_successor_of_a_silent_publisher(void **state)
{
    (void)state;
    struct capture *capture = open_topic();
    struct capture_frame frame;
    read_good(capture, &frame);
    fall_silent();
    const dds_entity_t silent = camera.participant;
    while (capture_read(capture, 300, &frame) == 0)
        ;
    camera.is_other = true;
    plug_in(true);
    const int64_t begin_ns = clock_monotonic_ns();
    assert_int_equal(capture_read(capture, 5000, &frame), 0);
    assert_true(clock_monotonic_ns() - begin_ns < 3000000000);
    assert_true(frame.flags & CAPTURE_RECALIBRATED);
    assert_true(capture_info(capture)->camera.fx_px == 70);
    for (int i = 0; i < 20; i++)
        assert_int_equal(capture_read(capture, 10000, &frame), 0);
    capture_close(&capture);
    dds_delete(silent);
    unplug();
    assert_int_equal(count("/unit/depth/image_raw: its publisher has been silent for "), 1);
    assert_int_equal(count("its images come from another publisher now"), 1);
    assert_int_equal(count("second publisher"), 0);
}

static void half_an_image_is_damaged(void **state)
{
    (void)state;
    struct capture *capture = open_topic();
    struct capture_frame frame;
    read_good(capture, &frame);
    camera.is_half = true;
    int n_damaged = 0;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(capture_read(capture, 10000, &frame), 0);
        n_damaged += (frame.flags & CAPTURE_DAMAGED) != 0;
    }
    assert_int_equal(n_damaged, 1);
    assert_int_equal(count("(16UC1, 64x48: 48 rows of 128 bytes are 6144; it has a step of 128 and "
                           "64 bytes); such are left out"),
                     1);
    capture_close(&capture);
    unplug();
}

// A frame's values, from the unit of their image.
static bool is_of(const struct capture_frame *frame, uint16_t units_per_mm)
{
    const uint16_t *depth = frame->image.depth;
    bool is_good = depth && depth[0] >= 1000 * units_per_mm && depth[0] < 1100 * units_per_mm;
    for (uint32_t i = 1; is_good && i < W * H; i++)
        is_good = depth[i] == (uint16_t)(depth[0] + 3 * units_per_mm * i);
    return is_good;
}

// The first image decides on the unit of all.
static void encodings_that_mix(void **state)
{
    (void)state;
    struct capture_frame frame;
    struct capture *capture = open_topic();
    assert_true(capture_info(capture)->units_per_m == 1000);
    read_good(capture, &frame);
    assert_true(is_of(&frame, 1));
    for (int turn = 0; turn < 2; turn++) {
        atomic_store(&camera.per_mm, turn == 0 ? 1e-3f : 0);
        for (int n = 0; n < 20; n++) {
            read_good(capture, &frame);
            assert_true(is_of(&frame, 1) && frame.image.units_per_m == 1000);
        }
    }
    capture_close(&capture);
    unplug();
    assert_int_equal(count("images of /unit/depth/image_raw change from 16UC1 to 32FC1"), 1);
}

// Of floats, also where the first images show nothing.
static void floats_that_are_millimetres(void **state)
{
    (void)state;
    static const char wanted[] = "images of /unit/depth/image_raw are 32FC1 of millimetres";
    struct capture_frame frame;
    for (int turn = 0; turn < 2; turn++) {
        said[0] = 0;
        atomic_store(&camera.per_mm, turn == 0 ? 1 : NAN);
        nanosleep(&(struct timespec){0, 100000000}, NULL);
        struct capture *capture = open_topic();
        assert_true(capture_info(capture)->units_per_m == 5000);
        for (int n = 0; turn == 1 && n < 5; n++) {
            read_good(capture, &frame);
            assert_int_equal(frame.image.depth[0], 0);
        }
        atomic_store(&camera.per_mm, 1);
        do
            read_good(capture, &frame);
        while (turn == 1 && frame.image.depth[0] == 0);
        for (int n = 0; n < 20; n++) {
            assert_true(is_of(&frame, 5));
            read_good(capture, &frame);
        }
        capture_close(&capture);
        assert_int_equal(count(wanted), 1);
    }
    unplug();
}

// Floats whose unit changes on the way, or that the first image shows wrong, are read right after
// some images; in between they are not nearer or farther than they are, but no depth.
static void floats_that_change_their_unit(void **state)
{
    (void)state;
    static const char wanted[] = "images of /unit/depth/image_raw were taken for 32FC1 of metres, "
                                 "and are of millimetres, as 3 in a row show";
    struct capture_frame frame;
    atomic_store(&camera.per_mm, 1e-3f);
    nanosleep(&(struct timespec){0, 100000000}, NULL);
    struct capture *capture = open_topic();
    read_good(capture, &frame);
    assert_true(is_of(&frame, 5));
    for (int turn = 0; turn < 3; turn++) {
        int n_wrong = 0;
        atomic_store(&camera.per_mm, turn % 2 ? 1e-3f : 1);
        for (int n = 0; n < 10; n++) // what was on its way
            read_good(capture, &frame);
        for (int n = 0; n < 30; n++) {
            read_good(capture, &frame);
            n_wrong += !is_of(&frame, 5);
        }
        assert_int_equal(n_wrong, 0);
    }
    capture_close(&capture);
    assert_int_equal(count(wanted), 1);
    assert_int_equal(count("were taken for"), 1);
    unplug();
}

// The advice of that message, followed.
static void floats_whose_unit_is_told(void **state)
{
    (void)state;
    struct capture_frame frame;
    struct capture *capture;
    struct capture_settings settings = {.source = "ros2:/unit/depth/image_raw",
                                        .ros_domain = domain,
                                        .float_scale = 500,
                                        .log = {.write = hear}};
    atomic_store(&camera.per_mm, 0.5f);
    nanosleep(&(struct timespec){0, 100000000}, NULL);
    assert_int_equal(capture_open(&capture, &settings), 0);
    for (int n = 0; n < 30; n++) {
        read_good(capture, &frame);
        assert_true(is_of(&frame, 5));
    }
    capture_close(&capture);
    assert_int_equal(count("32FC1"), 0);
    unplug();
}

#define TEST(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(pixels_arrive),
        TEST(the_first_image_is_the_first_frame),
        TEST(images_that_never_have_a_stamp),
        TEST(a_first_image_before_the_clock_began),
        TEST(stamps_that_stand_still),
        TEST(the_successor_of_a_silent_publisher),
        TEST(half_an_image_is_damaged),
        TEST(encodings_that_mix),
        TEST(floats_that_are_millimetres),
        TEST(floats_that_change_their_unit),
        TEST(floats_whose_unit_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

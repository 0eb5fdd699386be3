// SPDX-License-Identifier: Apache-2.0
// Stamps of a ROS recording's images that repeat, stand still, go back or are none, and those of
// RealSense.
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/capture/ros/told_bag.h"

static void times(void **state)
{
    (void)state;
    camera_info("/camera_info", 50, W);
    uint32_t id = add_topic("/depth", "sensor_msgs/msg/Image");
    for (int i = 3; i >= 0; i--)
        add_image_of(id, 0, "16UC1", W, H); // no stamps; one time of the recorder
    bag.is_live = false;
    assert_int_equal(choose(NULL, NULL), 0);
    assert_non_null(strstr(said, "images of /depth have no time stamps, the recorder's are taken"));
    assert_said("the.bag: 3 images of /depth skipped, their time repeats");
    assert_int_equal(info.n_frames, 1);
    add(id, T, "\0\1\0\0", 4); // no image
    bag.is_live = true;
    assert_int_equal(choose(NULL, NULL), 0);
    assert_null(strstr(said, "time stamps")); // the next image may have one
    assert_said("the.bag: 1 messages are not what their topic says");
    // all of one stamp: the recorder's time and then the place decide which is kept
    id = add_topic("/z/depth", "sensor_msgs/msg/Image");
    struct bag_place places[] = {{2, 0}, {1, 9}, {1, 5}};
    unsigned char bytes[256];
    const struct depth_frame frame = {NULL, W, H, 1000, T};
    const size_t n = ros_put_image_head(&frame, false, "f", bytes);
    for (int i = 0; i < 3; i++)
        assert_int_equal(bag_add_message(&bag, id, T, places[i], bytes, n), 0);
    assert_int_equal(bag_add_message(&bag, id, T + 1, (struct bag_place){0, 0}, bytes, n), 0);
    bag.part = 1; // and so before a second file's
    static const char type[] = "sensor_msgs/msg/Image";
    assert_int_equal(
        bag_add_topic(&bag, id, "/z/depth", 8, type, sizeof type - 1, ROS_ENCODING_CDR), 0);
    assert_int_equal(bag_add_message(&bag, id, T, (struct bag_place){0, 0}, bytes, n), 0);
    assert_int_equal(choose("/z/depth", NULL), 0);
    assert_int_equal(info.n_frames, 1);
    assert_int_equal(bag_part(&bag, 0), 0);
    assert_int_equal(bag_place(&bag, 0).block, 1);
    assert_int_equal(bag_place(&bag, 0).offset, 5);
}

static void add_logged(uint32_t id, int64_t stamp_ns, int64_t log_time_ns)
{
    unsigned char bytes[256];
    const struct depth_frame frame = {NULL, W, H, 1000, stamp_ns};
    const size_t n = ros_put_image_head(&frame, false, "f", bytes);
    assert_int_equal(bag_add_message(&bag, id, log_time_ns, (struct bag_place){0, 0}, bytes, n), 0);
}

// Images are not lost for stamps that stand still: of all of them, or of most.
static void stamps_that_stand_still(void **state)
{
    (void)state;
    static const struct {
        unsigned n_moving; // of ten
        bool is_by_log;
    } cases[] = {{1, true}, {4, true}, {5, false}, {10, false}};
    camera_info("/camera_info", 50, W);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[20], wanted[200];
        int64_t time_ns;
        uint64_t index;
        snprintf(name, sizeof name, "/still_%zu", i);
        const uint32_t id = add_topic(name, "sensor_msgs/msg/Image");
        for (unsigned k = 0; k < 10; k++)
            add_logged(id, T + (k < cases[i].n_moving ? k : cases[i].n_moving - 1), 2 * T + k);
        said[0] = 0;
        assert_int_equal(choose(name, NULL), 0);
        assert_int_equal(info.n_frames, cases[i].is_by_log ? 10 : cases[i].n_moving);
        snprintf(wanted, sizeof wanted,
                 "the.bag: %u of 10 images of %s have the stamp of the one before them: the "
                 "recorder's times are taken for all",
                 10 - cases[i].n_moving, name);
        assert_int_equal(strstr(said, wanted) != NULL, cases[i].is_by_log);
        for (uint64_t k = 0; k < info.n_frames; k++) {
            bag_stamp(&bag, k, &time_ns, &index);
            assert_true(time_ns == (cases[i].is_by_log ? 2 * T : T) + (int64_t)k);
        }
    }
}

// Stamps that go back are put in order, and it is said.
static void times_that_go_back(void **state)
{
    (void)state;
    static const int64_t ms[] = {100, 200, 150, 200, 90, 300}; // 200 twice: not earlier
    camera_info("/camera_info", 50, W);
    const uint32_t id = add_topic("/depth", "sensor_msgs/msg/Image");
    add_image_of(id, T, "16UC1", W, H);
    assert_int_equal(choose(NULL, NULL), 0);
    assert_null(strstr(said, "earlier"));
    for (size_t i = 0; i < sizeof ms / sizeof *ms; i++)
        add_image_of(id, T + ms[i] * 1000000, "16UC1", W, H);
    add_image_of(id, 0, "16UC1", W, H); // no stamp is time 0
    said[0] = 0;
    assert_int_equal(choose(NULL, NULL), 0);
    assert_said("the.bag: 2 images of /depth stamped earlier than one that was written before, by "
                "up to 0.110 s; all are played in the order of their stamps");
    for (size_t i = 1; i < info.n_frames; i++)
        assert_true(bag.depth->frames[i].time_ns > bag.depth->frames[i - 1].time_ns);
}

// At time 0 they would be long before the others. One only, right before them, is a simulation's
// first.
static void images_without_a_stamp(void **state)
{
    (void)state;
    static const struct {
        int64_t ns[4];
        uint64_t n_kept;
        const char *said;
    } cases[] = {
        {{0, 0, T, T + 1},
         2,
         "the.bag: 2 images of /depth_0 without a stamp, which the others have"},
        {{T, 0, T + 1, T + 2}, 3, "the.bag: 1 image of /depth_1 without a stamp, which the others"},
        {{0, 33000000, 66000000, 99000000}, 4, NULL},
        {{66000000, 99000000, 0, 1000000000}, 4, NULL},
        {{0, 1000000001, 1000000002, 1000000003}, 3, "the.bag: 1 image of /depth_4 without"},
        {{0, 0, 33000000, 66000000}, 2, "the.bag: 2 images of /depth_5 without a stamp"}};
    camera_info("/camera_info", 50, W);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[20];
        int64_t time_ns, before_ns = -1;
        uint64_t index;
        snprintf(name, sizeof name, "/depth_%zu", i);
        const uint32_t id = add_topic(name, "sensor_msgs/msg/Image");
        for (int k = 0; k < 4; k++)
            add_image_of(id, cases[i].ns[k], "16UC1", W, H);
        said[0] = 0;
        assert_int_equal(choose(name, NULL), 0);
        assert_int_equal(info.n_frames, cases[i].n_kept);
        assert_null(strstr(said, "their time repeats"));
        for (uint64_t k = 0; k < info.n_frames; k++) {
            bag_stamp(&bag, k, &time_ns, &index);
            assert_true(time_ns > before_ns);
            before_ns = time_ns;
        }
        if (cases[i].said)
            assert_said(cases[i].said);
        else
            assert_null(strstr(said, "without a stamp"));
    }
}

// RealSense's own times serve when every image has one.
static void times_of_realsense(void **state)
{
    (void)state;
    int64_t time_ns;
    uint64_t index;
    camera_info("/s/camera_info", 50, W);
    const uint32_t id = image("/s/image/data", "16UC1");
    add_image_of(id, T + 50, "16UC1", W, H);
    text("/s/image/metadata", T + 1000, "a=1;timestamp=1033.333333;b=2");
    text("/s/image/metadata", T + 9999, "nothing that is a time");
    text("/t/image/metadata", T + 1050, ";timestamp=5");
    assert_int_equal(choose(NULL, NULL), 0);
    bag_stamp(&bag, 0, &time_ns, &index);
    assert_int_equal(time_ns, T); // one image has none
    text("/s/image/metadata", T + 1050, "a=1;timestamp=1066.5x");
    assert_int_equal(choose(NULL, NULL), 0);
    bag_stamp(&bag, 0, &time_ns, &index);
    assert_int_equal(time_ns, 1033333333);
    bag_stamp(&bag, 1, &time_ns, &index);
    assert_int_equal(time_ns, 1066500000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(times, setup, teardown),
        cmocka_unit_test_setup_teardown(stamps_that_stand_still, setup, teardown),
        cmocka_unit_test_setup_teardown(times_that_go_back, setup, teardown),
        cmocka_unit_test_setup_teardown(images_without_a_stamp, setup, teardown),
        cmocka_unit_test_setup_teardown(times_of_realsense, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// Topics that nobody has, many publishers, one that comes back offering less, and what the
// environment says of the domain.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "capture/ros/discover.h"
#include "capture/ros/tell_of_topics.h"
#include "tests/unit/capture/ros/ros2_camera.h"

// At once, not after the time for which a publisher is waited for; and where it was looked for.
static void topics_that_nobody_has(void **state)
{
    (void)state;
    struct capture *capture;
    struct capture_settings settings = {
        .ros_domain = domain, .ros_domain_origin = "ROS_DOMAIN_ID", .log = {.write = hear}};
    const int64_t start_ns = clock_monotonic_ns();
    settings.source = "ros2:/unit//image_raw";
    assert_int_equal(capture_open(&capture, &settings), -EINVAL);
    assert_int_equal(count("ros2:/unit//image_raw: ROS 2 has no topics of such a name: two "), 1);
    settings.source = "ros2:";
    assert_int_equal(capture_open(&capture, &settings), -EINVAL);
    assert_true(clock_monotonic_ns() - start_ns < 1000000000);
    settings.source = "ros2:/unit/nobody";
    assert_int_equal(capture_open(&capture, &settings), -ENOENT);
    char wanted[200];
    snprintf(wanted, sizeof wanted,
             "ros2: nobody publishes /unit/nobody on domain %u (ROS_DOMAIN_ID), interface of the "
             "library's choice; topics with images: /unit/depth/image_raw",
             domain);
    assert_int_equal(count(wanted), 1);
    unplug();
}

// As with ROS's own programs, in every program of ours: nothing set the domain but the environment.
static void the_domain_of_the_environment(void **state)
{
    (void)state;
    char value[16];
    struct capture *capture;
    struct capture_settings settings = {.source = "ros2:/unit/depth/image_raw",
                                        .log = {.write = hear}};
    snprintf(value, sizeof value, "%u", domain);
    setenv("ROS_DOMAIN_ID", value, 1);
    assert_int_equal(capture_open(&capture, &settings), 0);
    capture_close(&capture);
    snprintf(value, sizeof value, "on domain %u (R", domain);
    assert_int_equal(count(value), 1);
    // who sets one means that
    setenv("ROS_DOMAIN_ID", "233", 1);
    settings.ros_domain = domain;
    settings.ros_domain_origin = "test";
    assert_int_equal(capture_open(&capture, &settings), 0);
    capture_close(&capture);
    settings.ros_domain_origin = NULL;
    assert_int_equal(capture_open(&capture, &settings), -EINVAL);
    assert_int_equal(count("environment ROS_DOMAIN_ID: \"233\" is no domain of ROS 2: 0..232"), 1);
    unsetenv("ROS_DOMAIN_ID");
    unplug();
}

// What it says, and that a setting counts more; 252 has who hears the poses then.
static void loopback_that_the_environment_asks_for(void **state)
{
    (void)state;
    static const struct {
        const char *variable, *value, *interface, *said;
    } cases[] = {
        {"ROS_LOCALHOST_ONLY", "1", NULL, "interface lo (ROS_LOCALHOST_ONLY)\n"},
        {"ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST", "",
         "interface of the library's choice, programs of this machine alone "
         "(ROS_AUTOMATIC_DISCOVERY_RANGE)\n"},
        {"ROS_LOCALHOST_ONLY", "0", NULL, "interface of the library's choice\n"},
        {"ROS_AUTOMATIC_DISCOVERY_RANGE", "SYSTEM_DEFAULT", NULL,
         "interface of the library's choice\n"},
        {"ROS_STATIC_PEERS", "127.0.0.1;no-such-robot.invalid", NULL,
         "interface of the library's choice and 2 peers (ROS_STATIC_PEERS)\n"},
        {"ROS_AUTOMATIC_DISCOVERY_RANGE", "SUBNET", NULL, "interface of the library's choice\n"},
        {"ROS_LOCALHOST_ONLY", "1", "lo", "interface lo\n"},
        {"ROS_LOCALHOST_ONLY", "1", "eth0", "interface eth0\n"}};
    struct capture *capture;
    const size_t n = sizeof cases / sizeof *cases;
    for (size_t i = 0; i < n; i++) {
        struct capture_settings settings = {.source = "ros2:/unit/depth/image_raw",
                                            .ros_domain = domain,
                                            .ros_domain_origin = "test",
                                            .ros_interface = cases[i].interface,
                                            .log = {.write = hear}};
        said[0] = 0;
        setenv(cases[i].variable, cases[i].value, 1);
        assert_int_equal(capture_open(&capture, &settings), 0);
        capture_close(&capture);
        unsetenv(cases[i].variable);
        assert_int_equal(count(cases[i].said), 1);
        assert_int_equal(count("ROS 2: ros.interface = eth0 counts, not ROS_LOCALHOST_ONLY"),
                         i == n - 1);
    }
    unplug();
}

// A process has one environment: what is wrong in it is told of by its first participant.
static void the_environment_is_told_of_once(void **state)
{
    (void)state;
    struct log_sink log = {hear, NULL};
    dds_entity_t participants[3];
    setenv("ROS_LOCALHOST_ONLY", "yes", 1);
    setenv("ROS_STATIC_PEERS", "127.0.0.1;no name", 1);
    for (size_t i = 0; i < sizeof participants / sizeof *participants; i++) {
        struct ros_dds_place place = {domain, "test", NULL};
        participants[i] = ros_dds_participant(&place, &log);
        assert_true(participants[i] > 0);
    }
    for (size_t i = 0; i < sizeof participants / sizeof *participants; i++)
        dds_delete(participants[i]);
    unsetenv("ROS_LOCALHOST_ONLY");
    unsetenv("ROS_STATIC_PEERS");
    assert_int_equal(count("environment ROS_LOCALHOST_ONLY: \"yes\" is neither 0 nor 1"), 1);
    assert_int_equal(count("environment ROS_STATIC_PEERS: \"no name\" is no address"), 1);
    unplug();
}

static void what_is_meant_by_a_topic_that_nobody_has(void **state)
{
    (void)state;
    static const struct {
        const char *topic, *meant;
    } cases[] = {{"rt/unit/depth/image_rect", ", did you mean ros2:/unit/depth/image_raw?"},
                 {"rt/depth/image_raw", ", did you mean ros2:/unit/depth/image_raw?"},
                 {"rt/unit/depth/imageraw", ", did you mean ros2:/unit/depth/image_raw?"},
                 {"rt/unit/colour/image_rect_color", "; waiting"},
                 {"rt/unit/depth/camera_info", "; waiting"},
                 {"rt/raw", "; waiting"}};
    const struct log_sink log = {hear, NULL};
    struct ros_offer offer;
    char wanted[300], packed[ROS_DDS_NAME_BYTES] = "rt/unit/packed/image_raw";
    const dds_entity_t publications =
        dds_create_reader(camera.participant, DDS_BUILTIN_TOPIC_DCPSPUBLICATION, NULL, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        said[0] = 0;
        ros_tell_of_nobody(publications, &log, cases[i].topic, "domain 1", 10);
        snprintf(wanted, sizeof wanted, "nobody publishes %s yet on domain 1%s", cases[i].topic + 2,
                 cases[i].meant);
        assert_int_equal(count(wanted), 1);
    }
    ros_tell_of_nobody(publications, &log, "rt/unit/depth/image_rect", "domain 1", 0);
    assert_int_equal(count("nobody publishes /unit/depth/image_rect on domain 1, did you mean "
                           "ros2:/unit/depth/image_raw?; topics with images: "
                           "/unit/depth/image_raw\n"),
                     1);
    ros_tell_of_no_info(publications, &log, "rt/unit/x/camera_info", false, 3);
    assert_int_equal(count("the intrinsics would be of /unit/x/camera_info: nobody published it "
                           "within 3 s; topics with camera infos: /unit/depth/camera_info\n"),
                     1);
    assert_false(ros_find_packed(publications, &log, packed, &offer));
    assert_string_equal(packed, "rt/unit/packed/image_raw");
    writer_of("rt/unit/packed/image_raw/compressedDepth",
              &sensor_msgs_msg_dds__CompressedImage__desc, true);
    assert_true(ros_find_packed(publications, &log, packed, &offer));
    assert_true(offer.is_reliable);
    assert_string_equal(packed, "rt/unit/packed/image_raw/compressedDepth");
    assert_int_equal(count("ros2: nobody publishes /unit/packed/image_raw itself, but "
                           "/unit/packed/image_raw/compressedDepth: that is taken\n"),
                     1);
    unplug();
}

// As many as a robot has, each is found, and none that has ended.
static void many_publishers(void **state)
{
    (void)state;
    enum { N = 600, N_ENDED = 20 };
    dds_entity_t writers[N];
    struct ros_offer offer;
    char name[40];
    dds_entity_t publications =
        dds_create_reader(camera.participant, DDS_BUILTIN_TOPIC_DCPSPUBLICATION, NULL, NULL);
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "rt/unit/many_%d", i);
        writers[i] = writer_of(name, &sensor_msgs_msg_dds__CameraInfo__desc, false);
    }
    for (int i = 0; i < N_ENDED; i++)
        assert_int_equal(dds_delete(writers[i]), 0);
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "rt/unit/many_%d", i);
        assert_int_equal(ros_find_publisher(publications, name, &offer), i >= N_ENDED);
    }
    unplug();
}

static void publisher_comes_back_offering_less(void **state)
{
    (void)state;
    struct capture *capture = open_topic();
    struct capture_frame frame;
    read_good(capture, &frame);
    unplug();
    while (capture_read(capture, 500, &frame) == 0)
        ;
    plug_in(false);
    read_good(capture, &frame);
    capture_close(&capture);
    unplug();
    assert_non_null(strstr(said, "/unit/depth/image_raw: its publisher is gone, waiting for it"));
    assert_non_null(strstr(said, "a publisher offers best effort only"));
}

#define TEST(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(topics_that_nobody_has),
        TEST(the_domain_of_the_environment),
        TEST(loopback_that_the_environment_asks_for),
        TEST(the_environment_is_told_of_once),
        TEST(what_is_meant_by_a_topic_that_nobody_has),
        TEST(many_publishers),
        TEST(publisher_comes_back_offering_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

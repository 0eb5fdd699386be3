// SPDX-License-Identifier: Apache-2.0
// Which topic of a ROS recording is depth, and what is said where none is or several are.
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/capture/ros/told_bag.h"
#include "tests/unit/fails.h"

static void folders_and_topics_of_a_path(void **state)
{
    (void)state;
    char location[300];
    bag_close(&bag);
    scratch_make_folder(&scratch, "empty");
    scratch_write_text(&scratch, "empty/.db3", "");
    scratch_name(&scratch, "empty", location);
    assert_int_equal(bag_begin(&bag, location, ".db3", true, &sink), -ENOENT);
    assert_said("/empty: a folder with 0 files *.db3");
    bag_close(&bag);
    scratch_make_folder(&scratch, "two");
    scratch_write_text(&scratch, "two/a_0.db3", "");
    scratch_write_text(&scratch, "two/metadata.yaml", "");
    scratch_name(&scratch, "two#/depth", location);
    assert_int_equal(bag_begin(&bag, location, ".db3", true, &sink), 0);
    assert_non_null(strstr(bag.path, "/two/a_0.db3"));
    assert_string_equal(bag.wanted, "/depth");
    bag_close(&bag);
    scratch_write_text(&scratch, "two/b_0.db3", "");
    assert_int_equal(bag_begin(&bag, location, ".db3", true, &sink), -EINVAL);
    assert_said("/two: a folder with 2 files *.db3, name one of them");
    bag_close(&bag);
    scratch_write_text(&scratch, "a#b.db3", ""); // a file that is named so
    scratch_name(&scratch, "a#b.db3", location);
    assert_int_equal(bag_begin(&bag, location, ".db3", true, &sink), 0);
    assert_string_equal(bag.path, location);
    assert_null(bag.wanted);
    for (long n = 1; n <= 2; n++) { // the path, then what decodes
        bag_close(&bag);
        fails_at("memory", n, ENOMEM);
        assert_int_equal(bag_begin(&bag, location, ".db3", true, &sink), -ENOMEM);
        bag_close(&bag);
        fails_at("memory", n, ENOMEM);
        assert_int_equal(bag_begin_live(&bag, "x", &sink), -ENOMEM);
    }
    fails_end();
}

static void memory_for_topics_and_messages(void **state)
{
    (void)state;
    fails_at("memory", 1, ENOMEM);
    assert_int_equal(bag_add_topic(&bag, 1, "/a", 2, "x", 1, ROS_ENCODING_CDR), -ENOMEM);
    fails_end();
    const uint32_t id = add_topic("/depth", "sensor_msgs/msg/Image");
    unsigned char bytes[256];
    const struct depth_frame frame = {NULL, W, H, 1000, T};
    const size_t n = ros_put_image_head(&frame, false, "f", bytes);
    fails_at("memory", 1, ENOMEM);
    assert_int_equal(bag_add_message(&bag, id, T, (struct bag_place){0, 0}, bytes, n), -ENOMEM);
    fails_end();
    add(id, T, bytes, n);
    add(999, T, bytes, n); // of no topic
    add(id, T, bytes, 7);  // no image
    assert_int_equal(bag_add_topic(&bag, id, "/again", 6, "x", 1, ROS_ENCODING_CDR), 0);
    assert_int_equal(bag.n_topics, 1);
    bag_set_units(&bag, 999, 5000);
    bag_set_units(&bag, id, 0.5);
    bag_set_units(&bag, id, 1e7);
    assert_true(bag_topic(&bag, id)->units_per_m == 0);
    assert_int_equal(bag_interest(NULL), BAG_NOTHING);
    assert_int_equal(bag_interest(bag_topic(&bag, id)), BAG_HEAD);
    const uint32_t other = add_topic("/tf", "tf2_msgs/msg/TFMessage");
    assert_int_equal(bag_interest(bag_topic(&bag, other)), BAG_NOTHING);
    add(other, T, bytes, n);
    const uint32_t number = add_topic("/number", "std_msgs/msg/Float32");
    assert_int_equal(bag_interest(bag_topic(&bag, number)), BAG_ALL);
    add(number, T, "\0\1\0\0\0\0\0\77", 8);
    assert_true(bag_topic(&bag, number)->number == 0.5);
    assert_int_equal(choose(NULL, NULL), -ERANGE); // 8x6 without a camera info
    assert_said("the.bag: images of /depth are 8x6, but the usual camera is for 640x480");
    const uint32_t bad_info = add_topic("/camera_info", "sensor_msgs/msg/CameraInfo");
    add(bad_info, T, bytes, 9);
    assert_false(bag_topic(&bag, bad_info)->has_info);
}

// A driver that was started again is another connection of its topics, a file that was merged has
// channels of the same name: one topic, with all their messages.
static void topics_with_several_ids(void **state)
{
    (void)state;
    const uint32_t first = image("/depth/image", "16UC1"),
                   infos = camera_info("/depth/camera_info", 50, W);
    const uint32_t second = add_topic("/depth/image", "sensor_msgs/msg/Image");
    const uint32_t other = add_topic("/depth/image", "sensor_msgs/msg/CompressedImage");
    const uint32_t late = add_topic("/depth/camera_info", "sensor_msgs/msg/CameraInfo");
    add_image_of(second, T + 1, "16UC1", W, H);
    add_image_of(first, T + 2, "16UC1", W, H);
    add_info(late, T + 33000000, 51, W);
    add_info(infos, T + 66000000, 50, W);
    assert_int_equal(bag.n_topics, 3);
    assert_ptr_equal(bag_topic(&bag, first), bag_topic(&bag, second));
    assert_ptr_equal(bag_topic(&bag, infos), bag_topic(&bag, late));
    assert_ptr_not_equal(bag_topic(&bag, first), bag_topic(&bag, other));
    assert_int_equal(choose(NULL, NULL), 0);
    assert_null(strstr(said, "depth topics"));
    assert_said("/depth/camera_info changes on the way from fx 50 fy 60");
    assert_int_equal(info.n_frames, 3);
    bag.part = 1; // of which none of these ids is
    assert_null(bag_topic(&bag, first));
    assert_int_equal(bag_add_topic(&bag, first, "/depth/camera_info", 18,
                                   "sensor_msgs/msg/CameraInfo", 26, ROS_ENCODING_CDR),
                     0);
    assert_int_equal(bag_topic(&bag, first)->kind, ROS_CAMERA_INFO);
    assert_null(bag_topic(&bag, second));
    assert_int_equal(bag.n_topics, 3);
}

// More than any robot has are left out.
static void many_ids(void **state)
{
    (void)state;
    for (int i = 0; i < 10100; i++)
        add_topic("/depth/image", "sensor_msgs/msg/Image");
    assert_int_equal(bag.n_topics, 1);
    assert_null(bag_topic(&bag, n_ids));
    assert_non_null(bag_topic(&bag, n_ids - 100));
}

static void where_no_depth_is(void **state)
{
    (void)state;
    assert_int_equal(choose(NULL, NULL), -ENOENT);
    assert_said("the.bag: no messages were found in it\n");
    assert_int_equal(choose("/none", NULL), -EINVAL);
    assert_said("the.bag: no messages were found in it\n");
    add_topic("/color", "sensor_msgs/msg/Image");
    assert_int_equal(choose(NULL, NULL), -ENOENT);
    assert_said("the.bag: no messages were found in it; its topics: /color (sensor_msgs/msg/Image, "
                "0 messages)\n");
    image("/rgb/image", "rgb8");
    add_topic("/silent/depth", "sensor_msgs/msg/Image");
    assert_int_equal(choose(NULL, NULL), -ENOENT);
    assert_said("no topic with depth images; its topics: /color (sensor_msgs/msg/Image, 0 "
                "messages), /rgb/image (sensor_msgs/msg/Image, rgb8), /silent/depth "
                "(sensor_msgs/msg/Image, 0 messages)\n");
    assert_int_equal(choose("/rgb/image", NULL), -EINVAL);
    assert_said("topic /rgb/image is not depth: sensor_msgs/msg/Image of rgb8, 1 messages");
    image("/hand/made", "TYPE_16UC1");
    assert_int_equal(choose("/hand/made", NULL), -EINVAL);
    assert_said("is not depth: sensor_msgs/msg/Image of TYPE_16UC1, 1 messages; did you mean "
                "16UC1? An encoding is written exactly so\n");
    assert_int_equal(choose(NULL, NULL), -ENOENT);
    assert_said("(sensor_msgs/msg/Image, TYPE_16UC1); did you mean 16UC1? An encoding is written "
                "exactly so\n");
    assert_int_equal(choose("/silent/depth", NULL), -ENOENT);
    assert_said("topic /silent/depth is not depth: sensor_msgs/msg/Image, 0 messages");
    assert_int_equal(choose("/none", NULL), -EINVAL);
    assert_said("there is no topic /none; its topics: /color");
    for (int i = 0; i < 40; i++) {
        char name[40];
        snprintf(name, sizeof name, "/a/topic/among/many_%d", i);
        add_topic(name, "a_package/msg/Type");
    }
    assert_int_equal(choose("/none", NULL), -EINVAL);
    assert_said("...\n");
}

static void messages_compressed_one_by_one(void **state)
{
    (void)state;
    static const char packed[] = "\x28\xb5\x2f\xfd\x24\x08\x41\x00";
    add(add_topic("/tf", "tf2_msgs/msg/TFMessage"), T, NULL, 0);
    add(add_topic("/depth/camera_info", "sensor_msgs/msg/CameraInfo"), T, packed, 8);
    add(add_topic("/depth/image", "sensor_msgs/msg/Image"), T, packed, 8);
    assert_int_equal(choose(NULL, NULL), -ENOTSUP);
    assert_said("the.bag: the messages of /depth/image are compressed one by one (zstd), which is "
                "not read; unpack them with `ros2 bag convert`, or record without "
                "--compression-mode message (MCAP compresses by itself: --storage mcap "
                "--storage-preset-profile zstd_fast)");
    bag.parts.suffix = ".mcap";
    assert_int_equal(choose(NULL, NULL), -ENOTSUP);
    assert_said("(MCAP compresses by itself: --storage-preset-profile zstd_fast)");
    static const char *const names[] = {"/depth/image", "depth/image", "depth"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(choose(names[i], NULL), -ENOTSUP);
        assert_said("the messages of /depth/image are compressed one by one");
    }
    assert_int_equal(choose("/none", NULL), -EINVAL);
    assert_said("there is no topic /none");
}

static void the_best_of_several(void **state)
{
    (void)state;
    camera_info("/a/depth/camera_info", 50, W);
    image("/ir/image", "mono16");
    assert_int_equal(choose(NULL, NULL), 0);
    assert_string_equal(info.description, "bag:the.bag#/ir/image");
    image("/b/depth/image", "16UC1");
    image("/a/depth/image", "16UC1");
    image("/other/image", "16UC1");
    assert_int_equal(choose(NULL, NULL), 0);
    assert_said("the.bag: 4 depth topics, /a/depth/image is taken (FILE#TOPIC chooses another)");
    assert_int_equal(choose("/b/depth/image", NULL), 0);
    assert_string_equal(info.description, "bag:the.bag#/b/depth/image");
    // by the camera's name, which the path or the section tells
    assert_int_equal(choose("b", NULL), 0);
    assert_string_equal(info.description, "bag:the.bag#/b/depth/image");
    assert_int_equal(choose(NULL, "b"), 0);
    assert_string_equal(info.description, "bag:the.bag#/b/depth/image");
    assert_int_equal(choose("/a/depth/image", "b"), 0); // a whole name counts
    assert_string_equal(info.description, "bag:the.bag#/a/depth/image");
    assert_null(strstr(said, "is none of"));
    assert_int_equal(choose(NULL, "nobody"), 0);
    assert_said("the.bag: the camera nobody is none of ir, b, a, other (FILE#NAME and FILE#TOPIC "
                "choose one)\n");
    assert_string_equal(info.description, "bag:the.bag#/a/depth/image");
    free(bag.wanted);
    bag.wanted = NULL;
    const struct capture_settings settings = {.camera = "b"};
    fails_at("memory", 1, ENOMEM);
    assert_int_equal(bag_choose(&bag, &settings, &info), -ENOMEM);
    fails_end();
}

// All of one camera: as they are before packed ones, these before plain PNG, and what another
// camera would see behind all of them.
static void the_best_of_one_camera(void **state)
{
    (void)state;
    camera_info("/a/depth/camera_info", 50, W);
    image("/a/ir/image", "16UC1");
    static const struct {
        const char *name, *format;
    } better[] = {{"/a/depth/ir", "mono16"},
                  {"/a/depth_registered/image", "16UC1"},
                  {"/a/aligned_depth_to_color/image_raw", "16UC1"},
                  {"/a/depth/image/compressed", "16UC1; png compressed "},
                  {"/a/depth/image/compressedDepth", "16UC1; compressedDepth rvl"},
                  {"/a/depth/image", "16UC1"}};
    for (size_t i = 0; i < sizeof better / sizeof *better; i++) {
        if (strchr(better[i].format, ';'))
            packed(better[i].name, better[i].format);
        else
            image(better[i].name, better[i].format);
        for (int by = 0; by < 3; by++) { // nothing, its name in the path, its section
            assert_int_equal(choose(by == 1 ? "a" : NULL, by == 2 ? "a" : NULL), 0);
            assert_string_equal(bag.depth->name, better[i].name);
        }
    }
}

// A single image of the camera's own depth, where what was recorded is depth as another sees it.
// Infrared is not taken for its number.
static void the_one_that_was_recorded(void **state)
{
    (void)state;
    camera_info("/a/aligned_depth_to_color/camera_info", 50, W);
    image("/a/depth/image", "16UC1");
    const uint32_t aligned = image("/a/aligned_depth_to_color/image_raw", "16UC1");
    const uint32_t infrared = image("/a/ir/image", "mono16");
    for (int i = 1; i < 10; i++)
        add_image_of(aligned, T + i, "16UC1", W, H);
    for (int i = 1; i < 500; i++)
        add_image_of(infrared, T + i, "mono16", W, H);
    assert_int_equal(choose(NULL, NULL), 0);
    assert_string_equal(bag.depth->name, "/a/depth/image");
    add_image_of(aligned, T + 10, "16UC1", W, H);
    assert_int_equal(choose(NULL, NULL), 0);
    assert_string_equal(bag.depth->name, "/a/aligned_depth_to_color/image_raw");
    assert_said("the.bag: 3 depth topics, /a/aligned_depth_to_color/image_raw is taken (FILE#TOPIC "
                "chooses another): /a/depth/image (1 image), /a/aligned_depth_to_color/image_raw "
                "(11 images), /a/ir/image (500 images)\n");
    assert_int_equal(choose("a", NULL), 0);
    assert_string_equal(bag.depth->name, "/a/aligned_depth_to_color/image_raw");
    assert_int_equal(choose("/a/depth/image", NULL), 0);
}

static void one_with_its_own_info(void **state)
{
    (void)state;
    camera_info("/b/depth/camera_info", 50, W);
    camera_info("/a/depth/camera_info", 0, W); // not calibrated
    image("/a/depth/image_raw", "16UC1");
    packed("/b/depth/image_raw/compressedDepth", "16UC1; compressedDepth rvl");
    assert_int_equal(choose(NULL, NULL), 0);
    assert_string_equal(bag.depth->name, "/a/depth/image_raw"); // packed counts for more
    image("/b/depth/image_raw", "16UC1");
    assert_int_equal(choose(NULL, NULL), 0);
    assert_string_equal(bag.depth->name, "/b/depth/image_raw");
}

// image_transport's topics alone: what is depth is taken, of what is none it is said.
static void packed_topics_alone(void **state)
{
    (void)state;
    camera_info("/a/depth/camera_info", 50, W);
    packed("/a/depth/image/compressed", "rgb8; jpeg compressed bgr8");
    assert_int_equal(choose("/a/depth/image", NULL), -EINVAL);
    assert_said("the.bag: there is no topic /a/depth/image, did you mean "
                "#/a/depth/image/compressed?; its topics: ");
    assert_int_equal(choose("/a/depth/image/compressed", NULL), -EINVAL);
    assert_said("is not depth: sensor_msgs/msg/CompressedImage of rgb8; jpeg compressed bgr8, 1 "
                "messages; /a/depth/image/compressed is packed as a picture, in which there is no "
                "depth: record /a/depth/image, or /a/depth/image/compressedDepth\n");
    assert_int_equal(choose(NULL, NULL), -ENOENT);
    assert_said("the.bag: no topic with depth images; its topics: ");
    assert_int_equal(choose(NULL, NULL), -ENOENT);
    assert_said("record /a/depth/image, or /a/depth/image/compressedDepth\n");
    packed("/a/depth/image/compressedDepth", "16UC1; compressedDepth rvl");
    assert_int_equal(choose("/a/depth/image", NULL), 0);
    assert_said("the.bag: there is no topic /a/depth/image itself, but "
                "/a/depth/image/compressedDepth: that is taken\n");
    assert_int_equal(choose("a/depth/image/compressedDepth", NULL), 0);
    assert_int_equal(choose("/a/depth/imag", NULL), -EINVAL);
    assert_int_equal(choose("/a/dept/image/compressedDepth", NULL), -EINVAL);
    assert_said("there is no topic /a/dept/image/compressedDepth, did you mean "
                "#/a/depth/image/compressedDepth?; its topics: ");
    image("/a/depth/image", "16UC1");
    assert_int_equal(choose("/a/depth/image", NULL), 0);
    assert_string_equal(bag.depth->name, "/a/depth/image");
    assert_int_equal(choose("a/depth/image", NULL), 0);
    assert_string_equal(bag.depth->name, "/a/depth/image");
}

static void images_of_another_size(void **state)
{
    (void)state;
    camera_info("/depth/camera_info", 50, W);
    const uint32_t id = image("/depth/image", "16UC1");
    for (int i = 1; i < 4; i++)
        add_image_of(id, T + i, "16UC1", W, H);
    assert_int_equal(choose(NULL, NULL), 0);
    assert_null(strstr(said, "of another size"));
    for (int i = 4; i < 9; i++)
        add_image_of(id, T + i, "16UC1", W - 1, H - (uint32_t)i % 4);
    assert_int_equal(choose(NULL, NULL), 0);
    assert_said("the.bag: 5 images of /depth/image of another size than the first one's 8x6 (7x6): "
                "they are left out\n");
}

// A driver that sends colour now and then: told once, as the file is read.
static void images_that_are_no_depth(void **state)
{
    (void)state;
    camera_info("/depth/camera_info", 50, W);
    const uint32_t id = image("/depth/image", "16UC1");
    assert_int_equal(choose(NULL, NULL), 0);
    assert_null(strstr(said, "no depth"));
    for (int i = 1; i < 4; i++)
        add_image_of(id, T + i, "rgb8", W, H);
    assert_int_equal(choose(NULL, NULL), 0);
    assert_said("the.bag: 3 images of /depth/image are no depth (rgb8): left out, counted "
                "as damaged\n");
    unsigned char bytes[256];
    uint16_t pixels[W * H];
    const char *reason = "";
    struct cdr_out out;
    cdr_out_begin(&out, bytes, sizeof bytes);
    put_head(&out, T, "rgb8", W, H, 2);
    assert_int_equal(bag_decode(&bag, bytes, out.n, pixels, &reason), -EBADMSG);
    assert_null(reason);
}

static void add_packed(uint32_t id, int64_t time_ns, const uint8_t *data, uint32_t n)
{
    unsigned char bytes[256];
    struct cdr_out out;
    cdr_out_begin(&out, bytes, sizeof bytes);
    cdr_put_u32(&out, (uint32_t)(time_ns / 1000000000));
    cdr_put_u32(&out, (uint32_t)(time_ns % 1000000000));
    cdr_put_string(&out, "frame");
    cdr_put_string(&out, "16UC1; compressedDepth png");
    cdr_put_u32(&out, n);
    for (uint32_t i = 0; i < n; i++)
        cdr_put_u8(&out, data[i]);
    add(id, time_ns, bytes, out.n);
}

// They are depth, and damaged.
static void packed_images_with_a_bad_head(void **state)
{
    (void)state;
    static const uint8_t head[40] = {[12] = 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    camera_info("/depth/camera_info", 50, W);
    const uint32_t id = packed("/depth/image/compressedDepth", "16UC1; compressedDepth png");
    add_packed(id, T + 2000, head, 12);
    assert_int_equal(choose(NULL, NULL), 0);
    assert_said("the.bag: 1 image of /depth/image/compressedDepth (16UC1; compressedDepth png) "
                "cannot be read (its PNG is empty): left out, counted as damaged\n");
    add_packed(id, T + 3000, head, sizeof head);
    add_packed(id, T + 4000, head, 0);
    said[0] = 0;
    assert_int_equal(choose(NULL, NULL), 0);
    assert_said("the.bag: 3 images of /depth/image/compressedDepth (16UC1; compressedDepth png) "
                "cannot be read (the first: its PNG is empty): left out, counted as damaged\n");
    assert_null(strstr(said, "no depth"));
}

// As a recording of ours has it now, and as it had it; by the very name before others. Names as
// long as ours may be, and longer.
static void cameras_whose_names_topics_cannot_have(void **state)
{
    (void)state;
    static const char longest[] = "/1234567890123456789012345678901/depth";
    static const struct {
        const char *camera, *topic;
    } cases[] = {{"left-1", "/left_1/depth"},
                 {"left_1", "/left_1/depth"},
                 {"old-1", "/old-1/depth"},
                 {"old_1", "/old-1/depth"},
                 {"2", "/camera_2/depth"},
                 {"b-c", "/b-c/depth"},
                 {"b_c", "/b_c/depth"},
                 {"camera_1234567890123456789012345678901", longest}, // as none is it: the first
                 {"z1234567890123456789012345678901-", longest},
                 {"old-", longest},
                 {"old", longest}};
    static const char *const topics[] = {
        "/b_c/depth",   "/b-c/depth", "/left_1/depth", "/camera_2/depth",
        "/old-1/depth", longest,      "/a/depth",      "/z1234567890123456789012345678901_/depth"};
    char wanted[80];
    camera_info("/a/depth/camera_info", 50, W);
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++)
        image(topics[i], "16UC1");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(choose(NULL, cases[i].camera), 0);
        snprintf(wanted, sizeof wanted, "bag:the.bag#%s", cases[i].topic);
        assert_string_equal(info.description, wanted);
    }
    assert_int_equal(choose("left-1", NULL), 0);
    assert_string_equal(info.description, "bag:the.bag#/left_1/depth");
}

// mono16 is what infrared cameras send, too.
static void infrared_is_not_taken_for_depth_in_silence(void **state)
{
    (void)state;
    static const char asked[] =
        "the.bag: images of /ir/image_raw are mono16 and no name says that they are depth";
    camera_info("/ir/camera_info", 50, W);
    image("/ir/image_raw", "mono16");
    bag.is_live = false;
    assert_int_equal(choose(NULL, NULL), 0);
    assert_said(asked);
    assert_int_equal(choose("ir", NULL), 0);
    assert_said(asked);
    assert_int_equal(choose(NULL, "ir"), 0);
    assert_said(asked);
    assert_int_equal(choose("/ir/image_raw", NULL), 0);
    assert_null(strstr(said, asked));
    image("/s/Depth_0/image", "mono16");
    assert_int_equal(choose(NULL, NULL), 0);
    assert_string_equal(info.description, "bag:the.bag#/s/Depth_0/image");
    assert_null(strstr(said, "infrared"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(folders_and_topics_of_a_path, setup, teardown),
        cmocka_unit_test_setup_teardown(memory_for_topics_and_messages, setup, teardown),
        cmocka_unit_test_setup_teardown(topics_with_several_ids, setup, teardown),
        cmocka_unit_test_setup_teardown(many_ids, setup, teardown),
        cmocka_unit_test_setup_teardown(where_no_depth_is, setup, teardown),
        cmocka_unit_test_setup_teardown(messages_compressed_one_by_one, setup, teardown),
        cmocka_unit_test_setup_teardown(the_best_of_several, setup, teardown),
        cmocka_unit_test_setup_teardown(the_best_of_one_camera, setup, teardown),
        cmocka_unit_test_setup_teardown(the_one_that_was_recorded, setup, teardown),
        cmocka_unit_test_setup_teardown(one_with_its_own_info, setup, teardown),
        cmocka_unit_test_setup_teardown(packed_topics_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(images_that_are_no_depth, setup, teardown),
        cmocka_unit_test_setup_teardown(packed_images_with_a_bad_head, setup, teardown),
        cmocka_unit_test_setup_teardown(images_of_another_size, setup, teardown),
        cmocka_unit_test_setup_teardown(cameras_whose_names_topics_cannot_have, setup, teardown),
        cmocka_unit_test_setup_teardown(infrared_is_not_taken_for_depth_in_silence, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

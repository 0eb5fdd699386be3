// SPDX-License-Identifier: Apache-2.0
// Which topic of a ROS recording is depth, and what is said where none is, several are, their
// camera info does not fit or their times repeat: messages made here, told to a bag as a container
// does.
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "capture/ros/select_topic.h"
#include "tests/unit/fails.h"
#include "tests/unit/scratch.h"

#define W 8u
#define H 6u
#define T INT64_C(100000000000)

static struct scratch scratch;
static struct bag bag;
static struct capture_info info;
static char said[4000];

static void hear(void *user, enum log_level level, const char *line)
{
    (void)user, (void)level;
    const size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", line);
}

static const struct log_sink sink = {hear, NULL};

static int setup(void **state)
{
    (void)state;
    scratch_create(&scratch);
    said[0] = 0;
    assert_int_equal(bag_begin_live(&bag, "the.bag", &sink), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bag_close(&bag);
    scratch_remove(&scratch);
    return 0;
}

static void assert_said(const char *wanted)
{
    if (!strstr(said, wanted))
        print_error("%s\nwanted: %s\n", said, wanted);
    assert_non_null(strstr(said, wanted));
    said[0] = 0;
}

// --- Topics and messages

static uint32_t n_ids;

static uint32_t add_topic(const char *name, const char *type)
{
    assert_int_equal(
        bag_add_topic(&bag, ++n_ids, name, strlen(name), type, strlen(type), ROS_ENCODING_CDR), 0);
    return n_ids;
}

static void add(uint32_t id, int64_t log_time_ns, const void *message, size_t n)
{
    assert_int_equal(bag_add_message(&bag, id, log_time_ns, (struct bag_place){0, id}, message, n),
                     0);
}

static void put_head(struct cdr_out *out, int64_t time_ns, const char *encoding, uint32_t w,
                     uint32_t h, uint32_t n_pixel_bytes)
{
    cdr_put_u32(out, (uint32_t)(time_ns / 1000000000));
    cdr_put_u32(out, (uint32_t)(time_ns % 1000000000));
    cdr_put_string(out, "frame");
    cdr_put_u32(out, h);
    cdr_put_u32(out, w);
    cdr_put_string(out, encoding);
    cdr_put_u8(out, 0);
    cdr_put_u32(out, n_pixel_bytes * w);
    cdr_put_u32(out, n_pixel_bytes * w * h);
}

// Of an image the container gives the head, unless more of it is wanted.
static void add_image_of(uint32_t id, int64_t time_ns, const char *encoding, uint32_t w, uint32_t h)
{
    unsigned char bytes[256];
    struct cdr_out out;
    cdr_out_begin(&out, bytes, sizeof bytes);
    put_head(&out, time_ns, encoding, w, h, 2);
    add(id, time_ns + 1000, bytes, out.n);
}

static void add_floats(uint32_t id, int64_t time_ns, float value)
{
    unsigned char bytes[256 + sizeof(float) * W * H];
    struct cdr_out out;
    cdr_out_begin(&out, bytes, sizeof bytes);
    put_head(&out, time_ns, "32FC1", W, H, sizeof value);
    for (uint32_t i = 0; i < W * H; i++) {
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        cdr_put_u32(&out, bits);
    }
    add(id, time_ns + 1000, bytes, out.n);
}

static uint32_t image(const char *name, const char *encoding)
{
    const uint32_t id = add_topic(name, "sensor_msgs/msg/Image");
    add_image_of(id, T, encoding, W, H);
    return id;
}

// Its head is that of RVL data, or of a PNG; behind 12 bytes in compressedDepth.
static uint32_t packed(const char *name, const char *format)
{
    static const uint8_t rvl[20] = {[12] = W, [16] = H};
    static const uint8_t png[36] =
        "\0\0\0\0\0\0\0\0\0\0\0\0\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x8\0\0\0\x6";
    const uint32_t id = add_topic(name, "sensor_msgs/msg/CompressedImage");
    const bool is_rvl = strstr(format, "rvl") != NULL;
    const size_t n_before = strstr(format, "compressedDepth") ? 0 : 12;
    const uint8_t *data = is_rvl ? rvl : png + n_before;
    const size_t n = is_rvl ? sizeof rvl : sizeof png - n_before;
    unsigned char bytes[256];
    struct cdr_out out;
    cdr_out_begin(&out, bytes, sizeof bytes);
    cdr_put_u32(&out, (uint32_t)(T / 1000000000));
    cdr_put_u32(&out, 0);
    cdr_put_string(&out, "frame");
    cdr_put_string(&out, format);
    cdr_put_u32(&out, (uint32_t)n);
    for (size_t i = 0; i < n; i++)
        cdr_put_u8(&out, data[i]);
    add(id, T + 1000, bytes, out.n);
    return id;
}

static void add_info(uint32_t id, int64_t time_ns, double fx, uint32_t w)
{
    const struct intrinsics camera = {fx, 60, 3.5, 2.5, w, H};
    unsigned char bytes[ROS_MAX_CAMERA_INFO_BYTES];
    add(id, T + 7, bytes, ros_put_camera_info(&camera, time_ns, "frame", bytes));
}

static uint32_t camera_info(const char *name, double fx, uint32_t w)
{
    const uint32_t id = add_topic(name, "sensor_msgs/msg/CameraInfo");
    add_info(id, T, fx, w);
    return id;
}

static void text(const char *name, int64_t log_time_ns, const char *content)
{
    unsigned char bytes[256];
    struct cdr_out out;
    uint32_t id = 0;
    for (uint32_t i = 1; i <= n_ids; i++)
        if (bag_topic(&bag, i) && strcmp(bag_topic(&bag, i)->name, name) == 0)
            id = i;
    if (!id)
        id = add_topic(name, "std_msgs/msg/String");
    cdr_out_begin(&out, bytes, sizeof bytes);
    cdr_put_string(&out, content);
    add(id, log_time_ns, bytes, out.n);
}

static int choose(const char *wanted, const char *camera)
{
    const struct capture_settings settings = {.camera = camera};
    free(bag.wanted);
    bag.wanted = wanted ? strdup(wanted) : NULL;
    info = (struct capture_info){.driver = "bag"};
    return bag_choose(&bag, &settings, &info);
}

// --- The file

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

// --- The topic

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

// --- The camera and its units

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

// --- Times

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
        cmocka_unit_test_setup_teardown(sizes_that_no_camera_has, setup, teardown),
        cmocka_unit_test_setup_teardown(size_is_that_of_an_image_that_has_one, setup, teardown),
        cmocka_unit_test_setup_teardown(calibrations, setup, teardown),
        cmocka_unit_test_setup_teardown(cameras_without_a_calibration, setup, teardown),
        cmocka_unit_test_setup_teardown(camera_infos_that_change, setup, teardown),
        cmocka_unit_test_setup_teardown(camera_infos_of_another_frame, setup, teardown),
        cmocka_unit_test_setup_teardown(units, setup, teardown),
        cmocka_unit_test_setup_teardown(encodings_that_mix, setup, teardown),
        cmocka_unit_test_setup_teardown(floats_that_are_millimetres, setup, teardown),
        cmocka_unit_test_setup_teardown(times, setup, teardown),
        cmocka_unit_test_setup_teardown(stamps_that_stand_still, setup, teardown),
        cmocka_unit_test_setup_teardown(times_that_go_back, setup, teardown),
        cmocka_unit_test_setup_teardown(images_without_a_stamp, setup, teardown),
        cmocka_unit_test_setup_teardown(times_of_realsense, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

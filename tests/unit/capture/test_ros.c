// SPDX-License-Identifier: Apache-2.0
// ROS messages: bytes that the library `rosbags` wrote (the seeds of fuzz_ros_message: images of
// 8x6, their first byte is the target's), and the rules of CDR.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/io/image.h"
#include "capture/ros/depth.h"
#include "capture/ros/topic_name.h"

#define W 8u
#define H 6u

static unsigned char seed[4096];

// mm; and 0.2 mm, as which the seeds have their values
static const struct ros_depth_units mm = {1000, 1000, 1}, fine = {5000, 5000, 1};

static size_t load(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tests/fuzz/seeds/ros_message/%s", getenv("POSED_SOURCE_DIR"),
             name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t n = fread(seed, 1, sizeof seed, file);
    fclose(file);
    assert_true(n > 1);
    return n - 1;
}

static uint16_t pixel(size_t k)
{
    return k == 2 * W + 3 || k == 2 * W + 4 ? 0 : (uint16_t)(37 * k + 1000);
}

static void images_of_another_writer(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum ros_encoding encoding;
        bool is_compressed;
        int tolerance; // units of 0.2 mm; compressedDepth of 32FC1 keeps A / depth in 16 bits
    } cases[] = {
        {"image_16uc1", ROS_ENCODING_CDR, false, 0},
        {"image_32fc1", ROS_ENCODING_CDR, false, 0},
        {"image_rvl", ROS_ENCODING_CDR, true, 0},
        {"image_plain_png", ROS_ENCODING_CDR, true, 0},
        {"image_32fc1_png", ROS_ENCODING_CDR, true, 1},
        {"ros1_image", ROS_ENCODING_ROS1, false, 0},
        {"ros1_png", ROS_ENCODING_ROS1, true, 0},
    };
    struct ros_depth *depth;
    assert_int_equal(ros_depth_create(&depth), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n = load(cases[i].name);
        struct ros_image image;
        uint16_t pixels[W * H];
        const char *reason;
        assert_true(ros_get_image(seed + 1, n, cases[i].encoding, cases[i].is_compressed, &image));
        assert_int_equal(image.header.time_ns, INT64_C(100000000000));
        assert_string_equal(image.header.frame_id, "camera_depth_optical_frame");
        assert_int_equal(ros_depth_decode(depth, &image, W, H, &fine, pixels, &reason), 0);
        for (size_t k = 0; k < W * H; k++)
            assert_in_range(pixels[k] + 1, pixel(k) + 1 - cases[i].tolerance,
                            pixel(k) + 1 + cases[i].tolerance);
        assert_int_equal(ros_depth_decode(depth, &image, W + 1, H, &fine, pixels, &reason),
                         -EBADMSG);
        assert_null(reason);
        // broken off: the head still tells, the pixels do not come
        assert_true(
            ros_get_image(seed + 1, n - 1, cases[i].encoding, cases[i].is_compressed, &image));
        assert_int_equal(ros_depth_decode(depth, &image, W, H, &fine, pixels, &reason), -EBADMSG);
    }
    ros_depth_destroy(&depth);
}

static void camera_info_of_another_writer(void **state)
{
    (void)state;
    struct ros_camera_info info;
    static const struct {
        const char *name;
        enum ros_encoding encoding;
    } cases[] = {{"camera_info", ROS_ENCODING_CDR}, {"ros1_camera_info", ROS_ENCODING_ROS1}};
    for (size_t i = 0; i < 2; i++) {
        size_t n = load(cases[i].name);
        assert_true(ros_get_camera_info(seed + 1, n, cases[i].encoding, &info));
        const struct intrinsics *c = &info.camera;
        assert_true(c->fx_px == 8 && c->fy_px == 8 && c->cx_px == 3.5 && c->cy_px == 2.5);
        assert_true(c->width_px == W && c->height_px == H && info.distortion == 0);
        assert_memory_equal(c, &info.rectified, sizeof *c);
        for (size_t cut = 0; cut < n; cut++)
            assert_false(ros_get_camera_info(seed + 1, cut, cases[i].encoding, &info));
    }
}

// What is written here is laid out as the other writer lays it out.
static void camera_info_byte_for_byte(void **state)
{
    (void)state;
    unsigned char bytes[ROS_MAX_CAMERA_INFO_BYTES];
    const struct intrinsics camera = {8, 8, 3.5, 2.5, W, H};
    size_t n = load("camera_info");
    size_t n_ours =
        ros_put_camera_info(&camera, INT64_C(100000000000), "camera_depth_optical_frame", bytes);
    assert_int_equal(n_ours, n);
    assert_memory_equal(bytes, seed + 1, n);
}

// ROS rounds the seconds down: -1.5 s is -2 s and 500000000 ns.
static void stamps_before_the_clock_began(void **state)
{
    (void)state;
    static const struct intrinsics camera = {500, 500, 2, 2, 5, 5};
    static const uint32_t stamp[2] = {UINT32_MAX - 1, 500000000};
    unsigned char bytes[ROS_MAX_CAMERA_INFO_BYTES];
    ros_put_camera_info(&camera, INT64_C(-1500000000), "camera", bytes);
    assert_memory_equal(bytes + 4, stamp, sizeof stamp); // behind the header of the encoding
}

static void image_head_byte_for_byte(void **state)
{
    (void)state;
    unsigned char bytes[ROS_MAX_IMAGE_HEAD_BYTES];
    const struct depth_frame frame = {NULL, W, H, 1000, INT64_C(100000000000)};
    size_t n = load("image_16uc1");
    size_t n_ours = ros_put_image_head(&frame, false, "camera_depth_optical_frame", bytes);
    assert_int_equal(n_ours + sizeof(uint16_t) * W * H, n);
    assert_memory_equal(bytes, seed + 1, n_ours);
}

static void cdr_aligns_from_behind_its_header(void **state)
{
    (void)state;
    static const unsigned char little[] = {0, 1, 0,   0, 7,    0xEE, 0xEE, 0xEE, 2,    0,
                                           0, 0, 'a', 0, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE,
                                           0, 0, 0,   0, 0,    0,    0xF8, 0x3F};
    static const unsigned char big[] = {0,    0,    0,   0, 7,    0xEE, 0xEE, 0xEE, 0,    0,
                                        0,    2,    'a', 0, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE, 0xEE,
                                        0x3F, 0xF8, 0,   0, 0,    0,    0,    0};
    // ROS 1: no header, no padding, no NUL
    static const unsigned char ros1[] = {7, 1, 0, 0, 0, 'a', 0, 0, 0, 0, 0, 0, 0xF8, 0x3F};
    const struct {
        const unsigned char *data;
        size_t n;
        enum ros_encoding encoding;
    } cases[] = {{little, sizeof little, ROS_ENCODING_CDR},
                 {big, sizeof big, ROS_ENCODING_CDR},
                 {ros1, sizeof ros1, ROS_ENCODING_ROS1}};
    for (size_t i = 0; i < 3; i++) {
        struct cdr cdr;
        char text[8];
        assert_true(cdr_begin(&cdr, cases[i].data, cases[i].n, cases[i].encoding));
        assert_int_equal(cdr_u8(&cdr), 7);
        cdr_copy_string(&cdr, text, sizeof text);
        assert_string_equal(text, "a");
        assert_true(cdr_f64(&cdr) == 1.5);
        assert_false(cdr.failed);
        assert_int_equal(cdr_u8(&cdr), 0);
        assert_true(cdr.failed);
    }
    struct cdr cdr;
    static const unsigned char parameter_list[] = {0, 3, 0, 0, 1};
    assert_false(cdr_begin(&cdr, parameter_list, sizeof parameter_list, ROS_ENCODING_CDR));
}

static void metres_that_16_bits_do_not_hold(void **state)
{
    (void)state;
    const float metres[] = {NAN, INFINITY, -INFINITY, -1, 0, 13.107f, 13.2f, 0.0001f, 0.00005f};
    const uint16_t expected[] = {0, 0, 0, 0, 0, 65535, 0, 1, 0}; // of 0.2 mm; half a unit is 0
    enum { N = sizeof metres / sizeof *metres };
    struct ros_image image = {.width_px = N,
                              .height_px = 1,
                              .step_bytes = sizeof metres,
                              .encoding = "32FC1",
                              .data = (const unsigned char *)metres,
                              .n_data_bytes = sizeof metres};
    struct ros_depth *depth;
    uint16_t pixels[N];
    const char *reason;
    assert_int_equal(ros_depth_create(&depth), 0);
    assert_int_equal(ros_depth_decode(depth, &image, N, 1, &fine, pixels, &reason), 0);
    pixels[7] = pixels[7] > 1 ? 9 : 1; // 0.0001 m is half a unit: either neighbour
    for (int i = 0; i < N; i++)
        assert_int_equal(pixels[i], expected[i]);
    ros_depth_destroy(&depth);
}

// Rows may be longer than their pixels, but the last one need not be: the shortest message, and one
// byte less.
static void messages_that_break_off(void **state)
{
    (void)state;
    enum { WIDTH = 3, HEIGHT = 2, STEP = 10 };
    unsigned char data[STEP * HEIGHT] = {[0] = 1, [STEP + 4] = 2};
    struct ros_depth *depth;
    uint16_t pixels[WIDTH * HEIGHT];
    const char *reason;
    assert_int_equal(ros_depth_create(&depth), 0);
    for (size_t less = 0; less < 2; less++) {
        struct ros_image image = {.width_px = WIDTH,
                                  .height_px = HEIGHT,
                                  .step_bytes = STEP,
                                  .encoding = "16UC1",
                                  .data = data,
                                  .n_data_bytes = STEP + 2 * WIDTH - less};
        assert_int_equal(ros_depth_decode(depth, &image, WIDTH, HEIGHT, &mm, pixels, &reason),
                         less ? -EBADMSG : 0);
    }
    assert_true(pixels[0] == 1 && pixels[5] == 2);
    struct ros_image narrow = {.width_px = WIDTH,
                               .height_px = HEIGHT,
                               .step_bytes = 2 * WIDTH - 1,
                               .encoding = "16UC1",
                               .data = data,
                               .n_data_bytes = sizeof data};
    assert_int_equal(ros_depth_decode(depth, &narrow, WIDTH, HEIGHT, &mm, pixels, &reason),
                     -EBADMSG);
    ros_depth_destroy(&depth);
}

// Rows of odd addresses, and numbers of either order of bytes.
static void pixels_in_both_orders_of_bytes(void **state)
{
    (void)state;
    enum { WIDTH = 2, HEIGHT = 2, STEP = 5 };
    static const unsigned char data[STEP * HEIGHT] = {0x12, 0x34, 0x00, 0x01, 0xff,
                                                      0x01, 0x00, 0xfe, 0xff};
    static const uint16_t little[] = {0x3412, 0x0100, 0x0001, 0xfffe};
    static const uint16_t big[] = {0x1234, 0x0001, 0x0100, 0xfeff};
    struct ros_depth *depth;
    uint16_t pixels[WIDTH * HEIGHT];
    const char *reason;
    assert_int_equal(ros_depth_create(&depth), 0);
    for (int is_big = 0; is_big < 2; is_big++) {
        const struct ros_image image = {.width_px = WIDTH,
                                        .height_px = HEIGHT,
                                        .step_bytes = STEP,
                                        .encoding = "16UC1",
                                        .is_big_endian = is_big,
                                        .data = data,
                                        .n_data_bytes = sizeof data};
        assert_int_equal(ros_depth_decode(depth, &image, WIDTH, HEIGHT, &mm, pixels, &reason), 0);
        assert_memory_equal(pixels, is_big ? big : little, sizeof pixels);
    }
    ros_depth_destroy(&depth);
}

// Where encodings mix in a topic, all images get the unit of the first one.
static void values_of_other_units(void **state)
{
    (void)state;
    static const struct {
        struct ros_depth_units units;
        uint16_t value, wanted;
    } cases[] = {{{5000, 1000, 1}, 1500, 7500},   {{5000, 1000, 1}, 13107, 65535},
                 {{5000, 1000, 1}, 13108, 0},     {{5000, 1000, 1}, 65535, 0},
                 {{5000, 1000, 1}, 0, 0},         {{1000, 5000, 1}, 7500, 1500},
                 {{1000, 5000, 1}, 7502, 1500},   {{1000, 5000, 1}, 7503, 1501},
                 {{1000, 5000, 1}, 2, 0},         {{1000, 1000, 1}, 65535, 65535},
                 {{2000, 10000, 1}, 65535, 13107}};
    struct ros_depth *depth;
    const char *reason;
    assert_int_equal(ros_depth_create(&depth), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint16_t pixel;
        const struct ros_image image = {.width_px = 1,
                                        .height_px = 1,
                                        .step_bytes = 2,
                                        .encoding = "16UC1",
                                        .data = (const unsigned char *)&cases[i].value,
                                        .n_data_bytes = 2};
        assert_int_equal(ros_depth_decode(depth, &image, 1, 1, &cases[i].units, &pixel, &reason),
                         0);
        assert_int_equal(pixel, cases[i].wanted);
    }
    // and of packed ones
    const struct ros_depth_units coarse = {1000, 5000, 1};
    uint16_t pixels[W * H];
    struct ros_image image;
    const size_t n = load("image_rvl");
    assert_true(ros_get_image(seed + 1, n, ROS_ENCODING_CDR, true, &image));
    assert_int_equal(ros_depth_decode(depth, &image, W, H, &coarse, pixels, &reason), 0);
    for (size_t k = 0; k < W * H; k++)
        assert_int_equal(pixels[k], (pixel(k) + 2) / 5);
    ros_depth_destroy(&depth);
}

// A hundredth of the pixels must have a value; what is no distance does not count.
static void floats_that_are_millimetres(void **state)
{
    (void)state;
    static const struct {
        float first, others, none; // values of a tenth, of the rest, and of half the image
        enum ros_float_unit wanted;
    } cases[] = {{1500, 1500, 0, ROS_FLOAT_MILLIMETRES},
                 {1500, 1500, NAN, ROS_FLOAT_MILLIMETRES},
                 {1500, 1500, INFINITY, ROS_FLOAT_MILLIMETRES},
                 {1500, 1500, -1, ROS_FLOAT_MILLIMETRES},
                 {1500, 1500, 3.4e38f, ROS_FLOAT_MILLIMETRES},
                 {100.5f, 100000, 0, ROS_FLOAT_MILLIMETRES},
                 {1.5f, 1500, 0, ROS_FLOAT_METRES}, // a far sky of a simulation
                 {1.5f, 1.5f, 0, ROS_FLOAT_METRES},
                 {1.5f, 1.5f, 3.4e38f, ROS_FLOAT_METRES},
                 {100, 100, NAN, ROS_FLOAT_METRES},
                 {0, 0, NAN, ROS_FLOAT_UNKNOWN},
                 {INFINITY, 100001, 3.4e38f, ROS_FLOAT_UNKNOWN}};
    enum { SIDE = 20 };
    float values[SIDE * SIDE];
    struct ros_image image = {.width_px = SIDE,
                              .height_px = SIDE,
                              .step_bytes = SIDE * sizeof *values,
                              .encoding = "32FC1",
                              .data = (const unsigned char *)values,
                              .n_data_bytes = sizeof values};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t k = 0; k < SIDE * SIDE; k++)
            values[k] = k % 2 ? cases[i].none : k % 20 < 2 ? cases[i].first : cases[i].others;
        assert_int_equal(ros_depth_float_unit(&image), cases[i].wanted);
    }
    static const struct {
        float first, others; // values of a quarter, and of the rest
        enum ros_float_unit wanted;
    } glances[] = {{1500, 1600, ROS_FLOAT_MILLIMETRES},
                   {1000, 1000, ROS_FLOAT_UNKNOWN},
                   {2, 1000, ROS_FLOAT_METRES},
                   {1.5f, 2, ROS_FLOAT_METRES},
                   {0, 0, ROS_FLOAT_UNKNOWN}};
    for (size_t i = 0; i < sizeof glances / sizeof *glances; i++) {
        for (size_t k = 0; k < SIDE * SIDE; k++)
            values[k] = k % 4 ? glances[i].others : glances[i].first;
        assert_int_equal(ros_depth_float_glance(&image), glances[i].wanted);
    }
    for (size_t k = 0; k < SIDE * SIDE; k++) // two of three are far: it may be either
        values[k] = k % 3 ? 1000 + (float)k : 50;
    assert_int_equal(ros_depth_float_glance(&image), ROS_FLOAT_UNKNOWN);
    for (size_t k = 0; k < SIDE * SIDE; k++) // most of it is the end of a simulated world
        values[k] = k < 5 ? 2 : 1000;
    assert_int_equal(ros_depth_float_unit(&image), ROS_FLOAT_METRES);
    memset(values, 0, sizeof values);
    for (size_t k = 0; k < 4; k++) {
        assert_int_equal(ros_depth_float_unit(&image), ROS_FLOAT_UNKNOWN);
        values[k * 99] = 1500;
    }
    assert_int_equal(ros_depth_float_unit(&image), ROS_FLOAT_MILLIMETRES);
    image.n_data_bytes--; // rows that are not there
    assert_int_equal(ros_depth_float_unit(&image), ROS_FLOAT_UNKNOWN);
    image.n_data_bytes++;
    snprintf(image.encoding, sizeof image.encoding, "16UC1");
    assert_int_equal(ros_depth_float_unit(&image), ROS_FLOAT_UNKNOWN);
    snprintf(image.encoding, sizeof image.encoding, "32FC1");
    image.width_px = 0;
    assert_int_equal(ros_depth_float_unit(&image), ROS_FLOAT_UNKNOWN);
    image.data = NULL;
    assert_int_equal(ros_depth_float_unit(&image), ROS_FLOAT_UNKNOWN);
}

static void floats_of_millimetres_are_read_exactly(void **state)
{
    (void)state;
    const struct ros_depth_units of_mm = {5000, 1000, 1000};
    const float values_mm[] = {1500, 1500.2f, 1500.09f, 13107, 13108, NAN};
    const uint16_t wanted[] = {7500, 7501, 7500, 65535, 0, 0};
    enum { N = sizeof values_mm / sizeof *values_mm };
    const struct ros_image row = {.width_px = N,
                                  .height_px = 1,
                                  .step_bytes = sizeof values_mm,
                                  .encoding = "32FC1",
                                  .data = (const unsigned char *)values_mm,
                                  .n_data_bytes = sizeof values_mm};
    struct ros_depth *depth;
    uint16_t pixels[N];
    const char *reason;
    assert_int_equal(ros_depth_create(&depth), 0);
    assert_int_equal(ros_depth_decode(depth, &row, N, 1, &of_mm, pixels, &reason), 0);
    assert_memory_equal(pixels, wanted, sizeof wanted);
    ros_depth_destroy(&depth);
}

// The PNG alone, as image_transport's `compressed` has it.
static void plain_png(void **state)
{
    (void)state;
    static const char *const encodings[] = {"16UC1; png compressed ",
                                            "mono16; png compressed mono16"};
    struct image_codec *codec;
    struct ros_depth *depth;
    struct ros_depth_format format;
    const struct ros_depth_units to_mm = {1000, 500, 1};
    uint16_t values[W * H], pixels[W * H];
    const void *png;
    const char *reason;
    uint32_t w, h;
    size_t n;
    for (size_t k = 0; k < W * H; k++)
        values[k] = pixel(k);
    assert_int_equal(image_codec_create(&codec), 0);
    assert_int_equal(image_encode_png(codec, values, W, H, 1, &png, &n), 0);
    assert_int_equal(ros_depth_create(&depth), 0);
    for (size_t i = 0; i < 2; i++) {
        struct ros_image image = {
            .is_compressed = true, .data = png, .n_data_bytes = n, .head = png, .n_head_bytes = n};
        snprintf(image.encoding, sizeof image.encoding, "%s", encodings[i]);
        assert_true(ros_depth_look(&image, &format, &w, &h));
        assert_true(format.packing == ROS_DEPTH_PLAIN_PNG && !format.is_float && w == W && h == H);
        assert_int_equal(ros_depth_decode(depth, &image, W, H, &mm, pixels, &reason), 0);
        assert_memory_equal(pixels, values, sizeof values);
        assert_int_equal(ros_depth_decode(depth, &image, W, H, &to_mm, pixels, &reason), 0);
        for (size_t k = 0; k < W * H; k++)
            assert_int_equal(pixels[k], 2 * values[k]);
        for (image.n_data_bytes = 0; image.n_data_bytes < n; image.n_data_bytes++)
            assert_int_equal(ros_depth_decode(depth, &image, W, H, &mm, pixels, &reason), -EBADMSG);
        image.n_head_bytes = 7;
        assert_false(ros_depth_look(&image, &format, &w, &h));
    }
    ros_depth_destroy(&depth);
    image_codec_destroy(&codec);
}

static void what_is_no_depth(void **state)
{
    (void)state;
    static const struct {
        const char *encoding;
        bool is_compressed, is_depth;
        enum ros_depth_packing packing;
    } cases[] = {{"rgb8", false, false, 0},
                 {"16UC1", false, true, 0},
                 {"16UC10", false, false, 0},
                 {"mono16", false, true, 0},
                 {"mono8", false, false, 0},
                 {"32FC1", false, true, 0},
                 {"32FC3", false, false, 0},
                 {"jpeg", true, false, 0},
                 {"16UC1; compressedDepth", true, true, ROS_DEPTH_PNG},
                 {"16UC1; png compressed", true, true, ROS_DEPTH_PLAIN_PNG},
                 {"32FC1; png compressed", true, false, 0},
                 {"16UC1; jpeg compressed bgr8", true, false, 0},
                 {"16UC1", true, false, 0},
                 {"32FC1; compressedDepth rvl", true, true, ROS_DEPTH_RVL},
                 {"", false, false, 0}};
    unsigned char head[20] = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ros_image image = {.width_px = 3,
                                  .height_px = 3,
                                  .step_bytes = 12,
                                  .head = head,
                                  .is_compressed = cases[i].is_compressed,
                                  .n_head_bytes = sizeof head};
        struct ros_depth_format format;
        uint32_t w, h;
        snprintf(image.encoding, sizeof image.encoding, "%s", cases[i].encoding);
        const bool is_png = cases[i].packing == ROS_DEPTH_PNG ||
                            cases[i].packing == ROS_DEPTH_PLAIN_PNG; // the head is none
        assert_int_equal(ros_depth_look(&image, &format, &w, &h), cases[i].is_depth && !is_png);
        assert_true(!cases[i].is_depth || format.packing == cases[i].packing);
        const char *fault = ros_depth_head_fault(&image);
        assert_string_equal(fault ? fault : "", is_png ? "the header of its PNG is damaged" : "");
        image.n_head_bytes = cases[i].packing == ROS_DEPTH_PLAIN_PNG ? 0 : 12;
        fault = ros_depth_head_fault(&image);
        assert_string_equal(fault ? fault : "", is_png ? "its PNG is empty"
                                                : cases[i].packing == ROS_DEPTH_RVL
                                                    ? "its RVL data is empty"
                                                    : "");
    }
}

static void types_by_their_three_names(void **state)
{
    (void)state;
    static const char *const names[] = {"sensor_msgs/Image", "sensor_msgs/msg/Image",
                                        "sensor_msgs::msg::dds_::Image_"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(ros_kind_of(names[i], strlen(names[i])), ROS_IMAGE);
        assert_int_equal(ros_kind_of(names[i], strlen(names[i]) - 1), ROS_OTHER);
    }
    static const char *const shown[][2] = {
        {"sensor_msgs::msg::dds_::Image_", "sensor_msgs/msg/Image"},
        {"nav_msgs::srv::dds_::GetMap_Request_", "nav_msgs/srv/GetMap_Request"},
        {"sensor_msgs/msg/Image", "sensor_msgs/msg/Image"},
        {"a::dds_::B_", "a::dds_::B_"},
        {"a::b::dds_::C", "a::b::dds_::C"},
        {"", ""}};
    char name[128];
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        ros_type_name(shown[i][0], name, sizeof name);
        assert_string_equal(name, shown[i][1]);
    }
}

static void names_that_no_topic_has(void **state)
{
    (void)state;
    static const char *const good[] = {"/a", "a", "/camera/depth/image_rect_raw", "/_a1/B2",
                                       "a__b"};
    static const struct {
        const char *name, *fault;
    } bad[] = {{"", "it is empty"},
               {"/", "it is empty"},
               {"//a", "two slashes follow each other"},
               {"/a//b", "two slashes follow each other"},
               {"/a/", "it ends in a slash"},
               {"/a b", "a space is in it"},
               {"/a/ ", "a space is in it"},
               {"2d", "the part \"2d\" begins with a digit"},
               {"/2d", "the part \"2d\" begins with a digit"},
               {"/a/2d/b", "the part \"2d/b\" begins with a digit"},
               {"/a#b", "'#' is in it, where only letters, digits, _ and / may be"},
               {"~/a", "'~' is in it, where only letters, digits, _ and / may be"},
               {"/a-b", "'-' is in it, where only letters, digits, _ and / may be"},
               {"/\xc3\xa4", "a character is in it that is none of ASCII's visible ones"},
               {"/a\n", "a character is in it that is none of ASCII's visible ones"}};
    char out[ROS_TOPIC_FAULT_BYTES];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_null(ros_topic_fault(good[i], out));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_non_null(ros_topic_fault(bad[i].name, out));
        assert_string_equal(ros_topic_fault(bad[i].name, out), bad[i].fault);
    }
}

static void names_of_rectified_images(void **state)
{
    (void)state;
    static const char *const yes[] = {"/camera/depth/image_rect_raw",
                                      "/camera/depth/image_rect",
                                      "/camera/depth/image_rect/compressedDepth",
                                      "/camera/depth/image_rect_raw/compressed",
                                      "/camera/depth/Image_Rect",
                                      "image_rect",
                                      "depth_rect",
                                      "/depth_rect",
                                      "/a/depth_rect_raw"};
    static const char *const no[] = {"/director/depth/image_raw",
                                     "/rect/depth/image_raw",
                                     "/image_rect/depth",
                                     "/depth_rect/image_raw",
                                     "/a/rect",
                                     "/a/direct",
                                     "/a/my_image_rect_view",
                                     "/a/depth_rect_raw_8",
                                     "/compressedDepth",
                                     "/",
                                     ""};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        assert_true(ros_name_is_rectified(yes[i]));
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        assert_false(ros_name_is_rectified(no[i]));
    assert_int_equal(ros_plain_length("/a/compressedDepth"), 2);
    assert_int_equal(ros_plain_length("/a/compressed"), 2);
    assert_int_equal(ros_plain_length("/a/compresseddepths"), 19);
    assert_int_equal(ros_plain_length("compressed"), 10);
}

static void cameras_as_parts_of_topics(void **state)
{
    (void)state;
    static const struct {
        const char *name, *part;
    } cases[] = {{"", ""},
                 {"left", "left"},
                 {"left-1", "left_1"},
                 {"a-b--c-", "a_b__c_"},
                 {"2", "camera_2"},
                 {"2-d", "camera_2_d"},
                 {"-", "_"},
                 {"1234567890123456789012345678901234", "camera_1234567890123456789012345678901"}};
    char out[ROS_TOPIC_PART_BYTES], topic[2 + sizeof out], fault[ROS_TOPIC_FAULT_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ros_topic_part(cases[i].name, out);
        assert_string_equal(out, cases[i].part);
        snprintf(topic, sizeof topic, "/%s", out);
        assert_true(!out[0] || !ros_topic_fault(topic, fault));
    }
    static const char *const apart[] = {"", "left-1", "left-2", "left1", "2"};
    static const char *const alike[] = {"right", "left-1", "2", "left_1"};
    static const char *const digits[] = {"2-a", "camera_2_a"};
    char text[ROS_NAMES_FAULT_BYTES];
    assert_null(ros_names_fault(apart, 5, text));
    assert_null(ros_names_fault(alike, 3, text));
    assert_string_equal(ros_names_fault(alike, 4, text),
                        "cameras left-1 and left_1 are both left_1 in topics of ROS 2");
    assert_string_equal(ros_names_fault(digits, 2, text),
                        "cameras 2-a and camera_2_a are both camera_2_a in topics of ROS 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_of_another_writer),
        cmocka_unit_test(camera_info_of_another_writer),
        cmocka_unit_test(camera_info_byte_for_byte),
        cmocka_unit_test(stamps_before_the_clock_began),
        cmocka_unit_test(image_head_byte_for_byte),
        cmocka_unit_test(cdr_aligns_from_behind_its_header),
        cmocka_unit_test(metres_that_16_bits_do_not_hold),
        cmocka_unit_test(messages_that_break_off),
        cmocka_unit_test(pixels_in_both_orders_of_bytes),
        cmocka_unit_test(values_of_other_units),
        cmocka_unit_test(floats_that_are_millimetres),
        cmocka_unit_test(floats_of_millimetres_are_read_exactly),
        cmocka_unit_test(plain_png),
        cmocka_unit_test(what_is_no_depth),
        cmocka_unit_test(names_that_no_topic_has),
        cmocka_unit_test(names_of_rectified_images),
        cmocka_unit_test(cameras_as_parts_of_topics),
        cmocka_unit_test(types_by_their_three_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

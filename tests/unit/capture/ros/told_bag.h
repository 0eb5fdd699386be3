// SPDX-License-Identifier: Apache-2.0
// Topics and messages made here and told to a bag as a container does. One inclusion a program,
// after cmocka's.
#ifndef POSED_TESTS_UNIT_CAPTURE_ROS_TOLD_BAG_H
#define POSED_TESTS_UNIT_CAPTURE_ROS_TOLD_BAG_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/ros/select_topic.h"
#include "tests/unit/scratch.h"

#define W 8u
#define H 6u
#define T INT64_C(100000000000)

static struct scratch scratch;
static struct bag bag;
static struct capture_info info;
static char said[4000];

static inline void hear(void *user, enum log_level level, const char *line)
{
    (void)user, (void)level;
    const size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", line);
}

static const struct log_sink sink = {hear, NULL};

static inline int setup(void **state)
{
    (void)state;
    scratch_create(&scratch);
    said[0] = 0;
    assert_int_equal(bag_begin_live(&bag, "the.bag", &sink), 0);
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    bag_close(&bag);
    scratch_remove(&scratch);
    return 0;
}

static inline void assert_said(const char *wanted)
{
    if (!strstr(said, wanted))
        print_error("%s\nwanted: %s\n", said, wanted);
    assert_non_null(strstr(said, wanted));
    said[0] = 0;
}

// --- Topics and messages

static uint32_t n_ids;

static inline uint32_t add_topic(const char *name, const char *type)
{
    assert_int_equal(
        bag_add_topic(&bag, ++n_ids, name, strlen(name), type, strlen(type), ROS_ENCODING_CDR), 0);
    return n_ids;
}

static inline void add(uint32_t id, int64_t log_time_ns, const void *message, size_t n)
{
    assert_int_equal(bag_add_message(&bag, id, log_time_ns, (struct bag_place){0, id}, message, n),
                     0);
}

static inline void put_head(struct cdr_out *out, int64_t time_ns, const char *encoding, uint32_t w,
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
static inline void add_image_of(uint32_t id, int64_t time_ns, const char *encoding, uint32_t w,
                                uint32_t h)
{
    unsigned char bytes[256];
    struct cdr_out out;
    cdr_out_begin(&out, bytes, sizeof bytes);
    put_head(&out, time_ns, encoding, w, h, 2);
    add(id, time_ns + 1000, bytes, out.n);
}

static inline void add_floats(uint32_t id, int64_t time_ns, float value)
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

static inline uint32_t image(const char *name, const char *encoding)
{
    const uint32_t id = add_topic(name, "sensor_msgs/msg/Image");
    add_image_of(id, T, encoding, W, H);
    return id;
}

// Its head is that of RVL data, or of a PNG; behind 12 bytes in compressedDepth.
static inline uint32_t packed(const char *name, const char *format)
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

static inline void add_info(uint32_t id, int64_t time_ns, double fx, uint32_t w)
{
    const struct intrinsics camera = {fx, 60, 3.5, 2.5, w, H};
    unsigned char bytes[ROS_MAX_CAMERA_INFO_BYTES];
    add(id, T + 7, bytes, ros_put_camera_info(&camera, time_ns, "frame", bytes));
}

static inline uint32_t camera_info(const char *name, double fx, uint32_t w)
{
    const uint32_t id = add_topic(name, "sensor_msgs/msg/CameraInfo");
    add_info(id, T, fx, w);
    return id;
}

static inline void text(const char *name, int64_t log_time_ns, const char *content)
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

static inline int choose(const char *wanted, const char *camera)
{
    const struct capture_settings settings = {.camera = camera};
    free(bag.wanted);
    bag.wanted = wanted ? strdup(wanted) : NULL;
    info = (struct capture_info){.driver = "bag"};
    return bag_choose(&bag, &settings, &info);
}

#endif

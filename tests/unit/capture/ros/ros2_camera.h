// SPDX-License-Identifier: Apache-2.0
// A camera with a ROS 2 driver, on a DDS domain of this process, and the source that is opened on
// it. One inclusion a program, after cmocka's.
#ifndef POSED_TESTS_UNIT_CAPTURE_ROS_ROS2_CAMERA_H
#define POSED_TESTS_UNIT_CAPTURE_ROS_ROS2_CAMERA_H

#include <dds/dds.h>
#include <math.h>
#include <pthread.h>
#include <ros_types.h> // of ros_types.idl
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "capture/capture.h"
#include "capture/ros/dds.h"
#include "capture/ros/type_hash.h"
#include "proto/clock.h"

#define W 64u
#define H 48u

static uint32_t domain; // of this process
static char said[4000];

static struct {
    dds_entity_t participant, images, infos;
    pthread_t thread;
    atomic_bool quit, is_other, is_half, is_silent; // silent: without camera infos
    atomic_bool is_large, is_empty;                 // what they tell is no calibration of it
    atomic_bool is_colour, is_distorted;            // their frame, their lens
    atomic_bool is_rectified;                       // the images, on a topic of that name
    atomic_bool waits;                              // for a reader, before the first image
    _Atomic uint32_t n_unstamped;                   // of the first images
    _Atomic uint32_t n_standing;                    // images to come with the stamp before
    _Atomic float per_mm; // of images of floats: 1e-3 where they are metres; 0: of 16 bits
    bool is_apart;        // the camera infos are another participant's
    dds_entity_t participant_of_infos;
} camera;

static inline void hear(void *user, enum log_level level, const char *text)
{
    (void)user;
    (void)level;
    size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", text);
}

static inline size_t count(const char *wanted)
{
    size_t n = 0;
    for (const char *at = said; (at = strstr(at, wanted)); at++)
        n++;
    return n;
}

static inline uint16_t pixel(uint32_t frame, uint32_t i)
{
    return (uint16_t)(1000 + frame % 100 + 3 * i);
}

static inline void send(uint32_t k)
{
    static char frame_id[] = "camera", colour[] = "colour", integers[] = "16UC1",
                floats[] = "32FC1", model[] = "plumb_bob";
    static uint8_t bytes[2 * W * H];
    static float values[W * H];
    const float per_mm = atomic_load(&camera.per_mm);
    int64_t now_ns = clock_wall_ns();
    static int64_t before_ns;
    if (camera.n_standing > 0) {
        camera.n_standing--;
        now_ns = before_ns;
    }
    before_ns = now_ns;
    if (k < camera.n_unstamped)
        now_ns = 0;
    const std_msgs_msg_dds__Header_ header = {
        {(int32_t)(now_ns / 1000000000), (uint32_t)(now_ns % 1000000000)}, frame_id};
    for (uint32_t i = 0; i < W * H; i++) {
        bytes[2 * i] = (uint8_t)pixel(k, i);
        bytes[2 * i + 1] = (uint8_t)(pixel(k, i) >> 8);
        values[i] = per_mm * (float)pixel(k, i);
    }
    double fx = camera.is_empty ? 0 : camera.is_other ? 70 : 60;
    double p_fx = camera.is_rectified ? fx - 5 : fx;
    sensor_msgs_msg_dds__CameraInfo_ info = {.header = header,
                                             .height = H,
                                             .width = camera.is_large ? 2 * W : W,
                                             .distortion_model = model,
                                             .k = {fx, 0, 31.5, 0, 61, 23.5, 0, 0, 1},
                                             .p = {p_fx, 0, 31.5, 0, 0, 61, 23.5, 0, 0, 0, 1, 0}};
    double d[] = {0.1, -0.25, 0, 0, 0};
    if (camera.is_distorted) {
        info.d._length = info.d._maximum = 5;
        info.d._buffer = d;
    }
    info.header.frame_id = camera.is_colour ? colour : frame_id;
    sensor_msgs_msg_dds__Image_ image = {
        .header = header, .height = H, .width = W, .encoding = integers, .step = 2 * W};
    image.data._length = image.data._maximum =
        atomic_exchange(&camera.is_half, false) ? W : 2 * W * H;
    image.data._buffer = bytes;
    if (per_mm != 0) {
        image.encoding = floats;
        image.step = 4 * W;
        image.data._length = image.data._maximum = sizeof values;
        image.data._buffer = (uint8_t *)values;
    }
    assert_true(camera.is_silent || dds_write(camera.infos, &info) == 0);
    assert_true(dds_write(camera.images, &image) == 0);
}

static inline void *publish(void *unused)
{
    (void)unused;
    dds_publication_matched_status_t matched = {0};
    while (camera.waits && matched.current_count == 0 && !atomic_load(&camera.quit)) {
        nanosleep(&(struct timespec){0, 300000000}, NULL);
        dds_get_publication_matched_status(camera.images, &matched);
    }
    if (camera.waits) // until that knows of both writers
        nanosleep(&(struct timespec){0, 300000000}, NULL);
    for (uint32_t k = 0; !atomic_load(&camera.quit); k++) {
        send(k);
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    }
    return NULL;
}

static inline dds_entity_t writer_by(dds_entity_t participant, const char *name,
                                     const dds_topic_descriptor_t *type, bool is_reliable)
{
    dds_qos_t *qos = ros_dds_qos(type->m_typename, is_reliable, 10, false);
    dds_entity_t topic = dds_create_topic(participant, type, name, NULL, NULL);
    dds_entity_t writer = dds_create_writer(participant, topic, qos, NULL);
    dds_delete_qos(qos);
    assert_true(writer > 0);
    return writer;
}

static inline dds_entity_t writer_of(const char *name, const dds_topic_descriptor_t *type,
                                     bool is_reliable)
{
    return writer_by(camera.participant, name, type, is_reliable);
}

static inline void plug_in(bool is_reliable)
{
    const struct log_sink log = {hear, NULL};
    camera.participant = ros_dds_participant(&(struct ros_dds_place){domain, "test", NULL}, &log);
    assert_true(camera.participant > 0);
    camera.images =
        writer_of(camera.is_rectified ? "rt/unit/depth/image_rect" : "rt/unit/depth/image_raw",
                  &sensor_msgs_msg_dds__Image__desc, is_reliable);
    camera.participant_of_infos =
        camera.is_apart ? dds_create_participant(domain, NULL, NULL) : camera.participant;
    camera.infos = writer_by(camera.participant_of_infos, "rt/unit/depth/camera_info",
                             &sensor_msgs_msg_dds__CameraInfo__desc, is_reliable);
    camera.quit = false;
    assert_int_equal(pthread_create(&camera.thread, NULL, publish, NULL), 0);
}

static inline void fall_silent(void)
{
    atomic_store(&camera.quit, true);
    pthread_join(camera.thread, NULL);
}

static inline void unplug(void)
{
    fall_silent();
    dds_delete(camera.participant);
    if (camera.is_apart)
        dds_delete(camera.participant_of_infos);
}

static inline int setup(void **state)
{
    (void)state;
    atomic_store(&camera.per_mm, 0);
    domain = 10 + (uint32_t)getpid() % 200;
    camera.is_other = camera.is_half = camera.is_silent = camera.is_colour = false;
    camera.is_large = camera.is_empty = camera.is_rectified = camera.is_distorted = camera.waits =
        false;
    camera.is_apart = false;
    camera.n_unstamped = camera.n_standing = 0;
    said[0] = 0;
    plug_in(true);
    return 0;
}

static inline struct capture *open_topic(void)
{
    struct capture *capture;
    struct capture_settings settings = {
        .source = "ros2:/unit/depth/image_raw", .ros_domain = domain, .log = {.write = hear}};
    assert_int_equal(capture_open(&capture, &settings), 0);
    return capture;
}

static inline void read_good(struct capture *capture, struct capture_frame *frame)
{
    for (int i = 0; i < 200; i++) {
        assert_int_equal(capture_read(capture, 10000, frame), 0);
        if (frame->image.depth)
            return;
    }
    fail_msg("no frame with pixels");
}

#endif

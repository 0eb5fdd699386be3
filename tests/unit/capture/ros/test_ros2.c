// SPDX-License-Identifier: Apache-2.0
// The driver ros2 and a publisher in the same process, over DDS itself: pixels, a calibration that
// changes, a publisher that ends and comes back offering less. What independent publishers send is
// tested by the scenarios 252 and 255; this one runs under the sanitizers, too.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dds/dds.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <ros_types.h> // of ros_types.idl
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "capture/capture.h"
#include "capture/ros/dds.h"
#include "capture/ros/discover.h"
#include "capture/ros/tell_of_topics.h"
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

static void hear(void *user, enum log_level level, const char *text)
{
    (void)user;
    (void)level;
    size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", text);
}

static size_t count(const char *wanted)
{
    size_t n = 0;
    for (const char *at = said; (at = strstr(at, wanted)); at++)
        n++;
    return n;
}

static uint16_t pixel(uint32_t frame, uint32_t i)
{
    return (uint16_t)(1000 + frame % 100 + 3 * i);
}

static void send(uint32_t k)
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

static void *publish(void *unused)
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

static dds_entity_t writer_by(dds_entity_t participant, const char *name,
                              const dds_topic_descriptor_t *type, bool is_reliable)
{
    dds_qos_t *qos = ros_dds_qos(type->m_typename, is_reliable, 10, false);
    dds_entity_t topic = dds_create_topic(participant, type, name, NULL, NULL);
    dds_entity_t writer = dds_create_writer(participant, topic, qos, NULL);
    dds_delete_qos(qos);
    assert_true(writer > 0);
    return writer;
}

static dds_entity_t writer_of(const char *name, const dds_topic_descriptor_t *type,
                              bool is_reliable)
{
    return writer_by(camera.participant, name, type, is_reliable);
}

static void plug_in(bool is_reliable)
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

static void fall_silent(void)
{
    atomic_store(&camera.quit, true);
    pthread_join(camera.thread, NULL);
}

static void unplug(void)
{
    fall_silent();
    dds_delete(camera.participant);
    if (camera.is_apart)
        dds_delete(camera.participant_of_infos);
}

static int setup(void **state)
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

static struct capture *open_topic(void)
{
    struct capture *capture;
    struct capture_settings settings = {
        .source = "ros2:/unit/depth/image_raw", .ros_domain = domain, .log = {.write = hear}};
    assert_int_equal(capture_open(&capture, &settings), 0);
    return capture;
}

static void read_good(struct capture *capture, struct capture_frame *frame)
{
    for (int i = 0; i < 200; i++) {
        assert_int_equal(capture_read(capture, 10000, frame), 0);
        if (frame->image.depth)
            return;
    }
    fail_msg("no frame with pixels");
}

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
        TEST(another_calibration_is_told_of),
        TEST(the_camera_info_is_named),
        TEST(distortion_is_told_of),
        TEST(a_rectified_camera_whose_info_is_late),
        TEST(topics_that_nobody_has),
        TEST(the_domain_of_the_environment),
        TEST(loopback_that_the_environment_asks_for),
        TEST(the_environment_is_told_of_once),
        TEST(what_is_meant_by_a_topic_that_nobody_has),
        TEST(many_publishers),
        TEST(camera_infos_of_another_program),
        TEST(publisher_comes_back_offering_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

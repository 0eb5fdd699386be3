// SPDX-License-Identifier: Apache-2.0
// Driver `ros2`: the depth images of a ROS 2 node, over DDS, without ROS. The topic's type and
// quality of service are what its publisher offers; its camera info is the topic `camera_info`
// beside it. A thread waits for messages (ros2_receive.h), which stay as they came (CDR): what is
// read of them, and how, is that of a recording.
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "capture/driver.h"
#include "capture/ros/ros2_receive.h"
#include "capture/ros/tell_of_topics.h"
#include "capture/ros/topic_name.h"
#include "proto/clock.h"

#define MS              INT64_C(1000000)
#define PUBLISHER_NS    (10000 * MS) // how long capture_open waits for the first image,
#define INFO_NS         (3000 * MS)  // and then for its camera info
#define TELL_NS         (1000 * MS)  // after which it is said that there is none yet
#define POLL_NS         (20 * MS)
#define MAX_TOPIC_BYTES 200

enum topic_id { IMAGE_ID, INFO_ID };

static void close_ros2(void *state)
{
    struct ros2 *ros2 = state;
    if (ros2->runs) {
        atomic_store(&ros2->quit, true);
        dds_set_guardcondition(ros2->guard, true);
        pthread_join(ros2->thread, NULL);
    }
    ros_leave_out_held(&ros2->held, 0);
    if (ros2->participant > 0)
        dds_delete(ros2->participant);
    ros2_tell_of_lost(ros2, ros_lost_images_end(&ros2->lost));
    ros_bad_end(&ros2->bad);
    if (ros2->has_live)
        live_destroy(&ros2->live);
    bag_close(&ros2->bag);
    free(ros2);
}

// /a/b/image_raw[/compressedDepth | /compressed] -> rt/a/b/camera_info
static bool name_topics(struct ros2 *ros2, const char *location)
{
    char base[ROS_DDS_NAME_BYTES];
    if (strlen(location) > MAX_TOPIC_BYTES || !ros_dds_topic_name(location, ros2->image_topic))
        return false;
    snprintf(base, sizeof base, "%.*s", (int)ros_plain_length(ros2->image_topic),
             ros2->image_topic);
    *strrchr(base, '/') = 0;
    size_t n = (size_t)snprintf(ros2->info_topic, sizeof ros2->info_topic, "%.*s/camera_info",
                                MAX_TOPIC_BYTES + 2, base);
    return n < sizeof ros2->info_topic;
}

static int check_topic(struct ros2 *ros2, const char *location)
{
    char text[ROS_TOPIC_FAULT_BYTES];
    const char *fault = ros_topic_fault(location, text);
    if (!fault && name_topics(ros2, location))
        return 0;
    log_to(&ros2->log, LOG_LEVEL_ERROR,
           "ros2:%s: ROS 2 has no topics of such a name: %s; expected e.g. "
           "ros2:/camera/depth/image_rect_raw",
           location, fault ? fault : "it is too long");
    return -EINVAL;
}

static int add_topics(struct ros2 *ros2, const char *image_type)
{
    static const char info_type[] = "sensor_msgs/msg/CameraInfo";
    const char *name = ros2->image_topic + 2, *info = ros2->info_topic + 2;
    int err = bag_add_topic(&ros2->bag, IMAGE_ID, name, strlen(name), image_type,
                            strlen(image_type), ROS_ENCODING_CDR);
    return err ? err
               : bag_add_topic(&ros2->bag, INFO_ID, info, strlen(info), info_type,
                               strlen(info_type), ROS_ENCODING_CDR);
}

static bool is_stopped(const struct ros2 *ros2)
{
    return ros2->is_stopped && ros2->is_stopped();
}

// Whether for so long there has been the topic of packed images and not the other, which a camera
// may offer a moment later. *since_ns: 0 while it is not there.
static bool is_packed_alone(const struct ros2 *ros2, int64_t *since_ns)
{
    char packed[ROS_DDS_NAME_BYTES];
    struct ros_offer offer;
    const int n = snprintf(packed, sizeof packed, "%s/compressedDepth", ros2->image_topic);
    if (n >= (int)sizeof packed || !ros_find_publisher(ros2->publications, packed, &offer))
        *since_ns = 0;
    else if (*since_ns == 0)
        *since_ns = clock_monotonic_ns();
    return *since_ns != 0 && clock_monotonic_ns() > *since_ns + TELL_NS;
}

// Waits for someone who publishes the topic, and subscribes as he offers it.
static int subscribe(struct ros2 *ros2, int64_t until_ns)
{
    struct ros_offer offer;
    bool told = false;
    int64_t packed_since_ns = 0;
    while (!ros_find_publisher(ros2->publications, ros2->image_topic, &offer)) {
        const bool is_long = clock_monotonic_ns() > until_ns - PUBLISHER_NS + TELL_NS;
        if (is_packed_alone(ros2, &packed_since_ns) &&
            ros_find_packed(ros2->publications, &ros2->log, ros2->image_topic, &offer))
            break;
        const bool is_over = clock_monotonic_ns() > until_ns;
        if (is_over || (is_long && !told))
            ros_tell_of_nobody(ros2->publications, &ros2->log, ros2->image_topic, ros2->place,
                               is_over ? 0 : (int)(PUBLISHER_NS / 1000 / MS));
        told = is_long;
        if (is_over)
            return -ENOENT;
        if (is_stopped(ros2))
            return -EINTR;
        dds_sleepfor(POLL_NS);
    }
    char type[sizeof offer.type];
    ros_type_name(offer.type, type, sizeof type);
    ros2->kind = ros_kind_of(offer.type, strlen(offer.type));
    if (ros2->kind != ROS_IMAGE && ros2->kind != ROS_COMPRESSED_IMAGE) {
        log_to(&ros2->log, LOG_LEVEL_ERROR,
               "ros2: %s is of type %s, which is no image (sensor_msgs/msg/Image or "
               "CompressedImage)",
               ros2->image_topic + 2, type);
        return -EINVAL;
    }
    ros2->images =
        ros_create_reader(ros2->participant, ros2->image_topic, ros2->kind, offer.is_reliable);
    if (ros2->images < 0) {
        log_to(&ros2->log, LOG_LEVEL_ERROR, "ros2: %s: %s", ros2->image_topic + 2,
               dds_strretcode(ros2->images));
        return -EIO;
    }
    return add_topics(ros2, type);
}

// Why an image is none by which the source can be opened; NULL: it is.
static const char *fault_of(const struct ros2 *ros2, const struct ros_message *message)
{
    struct ros_image image;
    struct ros_depth_format format;
    uint32_t w, h;
    if (!ros_get_image(message->bytes.iov_base, message->bytes.iov_len, ROS_ENCODING_CDR,
                       ros2->kind == ROS_COMPRESSED_IMAGE, &image))
        return "malformed image message";
    if (!ros_depth_look(&image, &format, &w, &h))
        return ros_depth_head_fault(&image);
    return bag_is_size(w, h) ? NULL : "no camera has its size";
}

// All images that have come; the first one goes through the same hands as a recording's.
static int hold_images(struct ros2 *ros2)
{
    struct ros_message message;
    int err = 0;
    while (!err && ros_take(ros2->images, &message)) {
        const char *fault = ros2->held.n_in == 0 ? fault_of(ros2, &message) : NULL;
        if (fault && !ros2->told_unread)
            log_to(&ros2->log, LOG_LEVEL_WARNING,
                   "ros2: %s: its first image cannot be read (%s): one that can be is waited for",
                   ros2->image_topic + 2, fault);
        ros2->told_unread = ros2->told_unread || fault;
        if (fault || !ros2_is_from_ours(ros2, &message)) {
            ros_give_back(&message);
            continue;
        }
        if (ros2->held.n_in == 0)
            err = bag_add_message(&ros2->bag, IMAGE_ID, clock_wall_ns(), (struct bag_place){0, 0},
                                  message.bytes.iov_base, message.bytes.iov_len);
        ros_hold(&ros2->held, &message);
    }
    return err;
}

// The first camera info likewise.
static int take_first_info(struct ros2 *ros2, bool *out_has_info)
{
    struct ros_message message;
    int err = 0;
    while (!err && !*out_has_info && ros_take(ros2->infos, &message)) {
        *out_has_info = ros2_is_info_of_ours(ros2, &message);
        if (*out_has_info)
            err = bag_add_message(&ros2->bag, INFO_ID, clock_wall_ns(), (struct bag_place){0, 0},
                                  message.bytes.iov_base, message.bytes.iov_len);
        ros_give_back(&message);
    }
    return err;
}

// Waits for an image and a camera info, for that not as long: without it may be meant so. Images
// that come meanwhile are held, the newest of them.
static int wait_for_first(struct ros2 *ros2, const struct capture_settings *settings,
                          int64_t until_ns)
{
    struct ros_offer offer;
    bool has_image = false, has_info = false;
    int err = 0;
    while (!err && !(has_image && has_info) && clock_monotonic_ns() < until_ns) {
        ros_one_publisher_listen(&ros2->one, clock_monotonic_ns());
        err = hold_images(ros2);
        if (!has_image && ros2->held.n_in > 0) {
            has_image = true;
            until_ns = clock_monotonic_ns() + INFO_NS;
        }
        if (ros2->infos <= 0 && ros_find_publisher(ros2->publications, ros2->info_topic, &offer))
            ros2->infos = ros_create_reader(ros2->participant, ros2->info_topic, ROS_CAMERA_INFO,
                                            offer.is_reliable);
        if (!err && has_image)
            err = take_first_info(ros2, &has_info);
        if (!err && is_stopped(ros2))
            return -EINTR;
        if (!has_image || !has_info)
            dds_sleepfor(MS);
    }
    if (!err && !has_image) {
        log_to(&ros2->log, LOG_LEVEL_ERROR,
               "ros2: %s has a publisher, but no image%s came within %d s", ros2->image_topic + 2,
               ros2->told_unread ? " that can be read" : "", (int)(PUBLISHER_NS / 1000 / MS));
        err = -ENOENT;
    }
    if (!err && !has_info && !capture_gives_camera(settings))
        ros_tell_of_no_info(ros2->publications, &ros2->log, ros2->info_topic, ros2->infos > 0,
                            (int)(INFO_NS / 1000 / MS));
    const uint64_t n = ros2->held.n_left_out;
    if (!err && n > 0)
        log_to(&ros2->log, LOG_LEVEL_WARNING,
               "ros2: %s: %llu image%s that came while %s was waited for %s left out",
               ros2->image_topic + 2, (unsigned long long)n, n == 1 ? "" : "s",
               ros2->info_topic + 2, n == 1 ? "is" : "are");
    return err;
}

// A topic that was named is spoken of by its name.
static int check_encoding(const struct ros2 *ros2)
{
    const struct bag_topic *topic = bag_topic(&ros2->bag, IMAGE_ID);
    if (topic->is_depth || !topic->image_encoding[0])
        return 0;
    log_to(&ros2->log, LOG_LEVEL_ERROR,
           "ros2: %s (%s) is no depth: its images are %s; taken are 16UC1, mono16, 32FC1, and "
           "these as compressedDepth, those of 16 bits also as png compressed%s",
           topic->name, topic->type, topic->image_encoding,
           ros_encoding_meant(topic->image_encoding));
    return -ENOENT;
}

static int start_thread(struct ros2 *ros2)
{
    ros2->waitset = dds_create_waitset(ros2->participant);
    ros2->guard = dds_create_guardcondition(ros2->participant);
    if (ros2->waitset < 0 || ros2->guard < 0 || ros2_attach_images(ros2) != 0 ||
        dds_waitset_attach(ros2->waitset, ros2->guard, 0) != DDS_RETCODE_OK)
        return -EIO;
    sigset_t all, old; // signals are the process's business
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int err = pthread_create(&ros2->thread, NULL, ros2_receive, ros2);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    ros2->runs = !err;
    return -err;
}

static int open_ros2(void **out_state, const char *location,
                     const struct capture_settings *settings, struct capture_info *out_info)
{
    struct ros2 *ros2 = calloc(1, sizeof *ros2);
    if (!ros2)
        return -ENOMEM;
    ros2->log = settings->log;
    ros2->is_stopped = settings->is_stopped;
    ros2->bad.log = settings->log;
    ros2->bad.topic = ros2->image_topic + 2;
    const struct live_clock_reading clocks = live_clock_read();
    live_clock_begin(&ros2->clock, ros2->bad.topic, &(struct log_sink){0}, &clocks);
    int64_t until_ns = clock_monotonic_ns() + PUBLISHER_NS;
    int err = bag_begin_live(&ros2->bag, "ros2", &settings->log);
    struct ros_dds_place place = {settings->ros_domain, settings->ros_domain_origin,
                                  settings->ros_interface};
    if (!err)
        err = check_topic(ros2, location);
    if (!err) {
        ros2->participant = ros_dds_participant(&place, &settings->log);
        err = ros2->participant < 0 ? ros2->participant : 0;
    }
    if (!err) {
        ros_dds_describe(&place, ros2->place);
        log_to(&settings->log, LOG_LEVEL_INFO, "ros2: %s on %s", ros2->image_topic + 2,
               ros2->place);
        ros2->publications =
            dds_create_reader(ros2->participant, DDS_BUILTIN_TOPIC_DCPSPUBLICATION, NULL, NULL);
        err = ros2->publications < 0 ? -EIO : subscribe(ros2, until_ns);
    }
    if (!err)
        err = wait_for_first(ros2, settings, until_ns);
    if (!err)
        err = check_encoding(ros2);
    if (!err)
        err = bag_choose(&ros2->bag, settings, out_info);
    if (err)
        goto fail;
    ros2->camera = out_info->camera;
    ros2->units_per_m = settings->depth_scale != 0 ? settings->depth_scale : out_info->units_per_m;
    const struct ros_camera_info *first = &bag_topic(&ros2->bag, INFO_ID)->info;
    const bool is_rectified = bag_is_rectified(&ros2->bag);
    ros2->info = (struct ros_live_info){
        .names = {"ros2", ros2->info_topic + 2, "", ros2->image_topic + 2,
                  ros2->bag.depth->frame_id},
        .is_rectified = is_rectified,
        .is_given = capture_gives_camera(settings),
        .is_told = first->camera.fx_px > 0,
        .is_distortion_told = first->camera.fx_px > 0 && first->distortion != 0,
        .last = is_rectified ? first->rectified : first->camera,
    };
    err = live_create(&ros2->live, &(struct live_camera){.intrinsics = ros2->camera},
                      settings->n_kept);
    if (err)
        goto fail;
    ros2->has_live = true;
    err = start_thread(ros2);
    if (err)
        goto fail;
    out_info->live = true;
    out_info->n_frames = 0;
    out_info->period_ns = 1000000000 / 30;
    snprintf(out_info->description, sizeof out_info->description, "ros2:%s", ros2->image_topic + 2);
    *out_state = ros2;
    return 0;
fail:
    close_ros2(ros2);
    return err;
}

static int wait_ros2(void *state, int timeout_ms, struct capture_frame *out_frame)
{
    return live_wait(&((struct ros2 *)state)->live, timeout_ms, out_frame);
}

static void recalibrate(void *state, struct capture_info *out_info)
{
    struct ros2 *ros2 = state;
    out_info->camera = ros2->live.camera.intrinsics;
    out_info->units_per_m = ros2->bag.units.per_m;
}

static uint64_t n_left_out(const void *state)
{
    return atomic_load(&((const struct ros2 *)state)->bad.n_left_out);
}

static struct buffers *buffers_of(void *state)
{
    return &((struct ros2 *)state)->live.buffers;
}

static void interrupt(void *state)
{
    live_interrupt(&((struct ros2 *)state)->live);
}

const struct capture_driver capture_driver_ros2 = {
    .name = "ros2",
    .summary = "depth images of a ROS 2 node, over DDS (ros2:TOPIC; on domain ROS_DOMAIN_ID)",
    .open = open_ros2,
    .wait = wait_ros2,
    .recalibrate = recalibrate,
    .n_left_out = n_left_out,
    .buffers = buffers_of,
    .interrupt = interrupt,
    .close = close_ros2,
};

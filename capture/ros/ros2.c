// SPDX-License-Identifier: Apache-2.0
// Driver `ros2`: the depth images of a ROS 2 node, over DDS, without ROS. The topic's type and
// quality of service are what its publisher offers; its camera info is the topic `camera_info`
// beside it. A thread waits for messages, which stay as they came (CDR): what is read of them, and
// how, is that of a recording.
#include <dds/dds.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "capture/driver.h"
#include "capture/live_clock.h"
#include "capture/live_queue.h"
#include "capture/live_stamps.h"
#include "capture/ros/dds.h"
#include "capture/ros/discover.h"
#include "capture/ros/known_infos.h"
#include "capture/ros/lost_images.h"
#include "capture/ros/one_publisher.h"
#include "capture/ros/received.h"
#include "capture/ros/select_topic.h"
#include "capture/ros/tell_of_images.h"
#include "capture/ros/tell_of_info.h"
#include "capture/ros/tell_of_topics.h"
#include "capture/ros/topic_name.h"
#include "capture/ros/units.h"
#include "proto/clock.h"

#define MS              INT64_C(1000000)
#define PUBLISHER_NS    (10000 * MS) // how long capture_open waits for the first image,
#define INFO_NS         (3000 * MS)  // and then for its camera info
#define TELL_NS         (1000 * MS)  // after which it is said that there is none yet
#define POLL_NS         (20 * MS)
#define MAX_TOPIC_BYTES 200

enum topic_id { IMAGE_ID, INFO_ID };

struct ros2 {
    struct log_sink log;
    bool (*is_stopped)(void); // of capture_settings
    struct live live;
    struct bag bag; // of the first image and camera info: what is to be known of the camera
    dds_entity_t participant, publications, images, infos, waitset, guard, arrived;
    char image_topic[ROS_DDS_NAME_BYTES], info_topic[ROS_DDS_NAME_BYTES];
    char place[ROS_DDS_PLACE_BYTES]; // domain and interface, for messages
    enum ros_kind kind;
    struct ros_live_info info;
    struct intrinsics camera; // of the frames to come
    double units_per_m; // of the frames: what the settings say, else what the topic's format says
    pthread_t thread;
    atomic_bool quit;
    bool runs, has_live;

    struct ros_one_publisher one;                 // whose images are taken
    struct ros_participant participant_of_images; // that publisher's
    dds_instance_handle_t info_publisher; // whose camera infos are, where that has none itself
    struct ros_known_infos known;
    struct { // the newest camera info of another camera, which may follow ours
        struct ros_participant participant;
        struct ros_camera_info info;
        bool is_there;
    } second;
    bool told_second, told_info, told_gone, told_unstamped, told_unread;
    struct live_stamps stamps; // of the images that are taken
    struct live_clock clock;   // the machine's, by which they may be stamped; it says nothing
    uint64_t n_frames;
    struct ros_bad_images bad; // which have no pixels
    struct ros_held held;
    struct ros_lost_images lost;
};

// ---- messages ----

// Whether the one whose images are taken is still there.
static bool has_publisher(const struct ros2 *ros2)
{
    return ros2->one.ours && ros_find_participant(ros2->images, ros2->one.ours, NULL);
}

// Whether a publisher of the camera infos' topic is of the images' camera: of the program whose
// images are taken. Where that has no camera infos (a node that makes depth of what a driver
// sends), they are of one other program, which sends no such images itself.
static bool are_infos_of_ours(struct ros2 *ros2, uint64_t publisher)
{
    struct ros_participant its;
    if (!ros_find_participant(ros2->infos, publisher, &its))
        return false;
    if (memcmp(&its, &ros2->participant_of_images, sizeof its) == 0 || !has_publisher(ros2))
        return true;
    if (ros_publishes(ros2->publications, &its, ros2->image_topic))
        return false; // a second camera, of which its images tell
    const bool is_first =
        !ros_publishes(ros2->publications, &ros2->participant_of_images, ros2->info_topic) &&
        (ros2->info_publisher == publisher ||
         !ros_find_participant(ros2->infos, ros2->info_publisher, NULL));
    if (is_first)
        ros2->info_publisher = publisher;
    else if (!ros2->told_info)
        log_to(&ros2->log, LOG_LEVEL_WARNING,
               "%s has a second publisher, which is not that of the images and is left out",
               ros2->info_topic + 2);
    ros2->told_info = ros2->told_info || !is_first;
    return is_first;
}

static bool is_info_of_ours(struct ros2 *ros2, const struct ros_message *message)
{
    bool are_ours;
    const struct ros_matched matched = {ros_count_matched(ros2->images),
                                        ros_count_matched(ros2->infos)};
    if (!ros_known_infos_find(&ros2->known, message->publisher, matched, message->arrived_ns,
                              &are_ours)) {
        are_ours = are_infos_of_ours(ros2, message->publisher);
        ros_known_infos_add(&ros2->known, message->publisher, message->arrived_ns, are_ours);
    }
    return are_ours;
}

// A camera info that is not of the images' camera.
static void keep_of_second(struct ros2 *ros2, const struct ros_message *message,
                           const struct ros_camera_info *info)
{
    if (!ros_find_participant(ros2->infos, message->publisher, &ros2->second.participant))
        return;
    ros2->second.info = *info;
    ros2->second.is_there = true;
}

// The newest camera info. Binning and region are in it, as in a recording's.
static bool take_info(struct ros2 *ros2, struct ros_camera_info *out)
{
    struct ros_message message;
    struct ros_camera_info info;
    bool got = false;
    while (ros_take(ros2->infos, &message)) {
        const bool is_ours = is_info_of_ours(ros2, &message);
        if (ros_get_camera_info(message.bytes.iov_base, message.bytes.iov_len, ROS_ENCODING_CDR,
                                &info)) {
            if (is_ours)
                *out = info;
            else
                keep_of_second(ros2, &message, &info);
            got = got || is_ours;
        }
        ros_give_back(&message);
    }
    return got;
}

static void update_camera(struct ros2 *ros2)
{
    struct ros_camera_info info;
    if (take_info(ros2, &info))
        ros_live_info_take(&ros2->info, &ros2->log, &info, clock_monotonic_ns(), &ros2->camera);
}

// Its camera infos that came before are of the images from now on.
static void follow(struct ros2 *ros2)
{
    if (!ros_find_participant(ros2->images, ros2->one.ours, &ros2->participant_of_images))
        ros2->participant_of_images = (struct ros_participant){0};
    if (ros2->second.is_there && memcmp(&ros2->second.participant, &ros2->participant_of_images,
                                        sizeof ros2->participant_of_images) == 0)
        ros_live_info_take(&ros2->info, &ros2->log, &ros2->second.info, clock_monotonic_ns(),
                           &ros2->camera);
    ros2->second.is_there = false;
    ros2->info_publisher = 0;
    ros2->known = (struct ros_known_infos){.n = 0};
    ros2->told_info = false;
    if (ros2->has_live && ros_held_oldest(&ros2->held))
        ros_bad_unstamped(&ros2->bad);
    ros_leave_out_held(&ros2->held, 0);
    live_stamps_new_source(&ros2->stamps);
    ros_lost_images_new_source(&ros2->lost);
}

// Where all had ended meanwhile, of which look_for_publisher tells, "is back" says enough.
static void tell_of_successor(const struct ros2 *ros2, enum ros_image_of of)
{
    char before[80] = "", why[40] = "ended";
    if (of == ROS_IMAGE_OF_SUCCESSOR)
        snprintf(why, sizeof why, "been silent for %.1f s", (double)ros2->one.silence_ns * 1e-9);
    else if (of != ROS_IMAGE_OF_HEIR || ros2->told_gone)
        return;
    const uint64_t n = ros2->one.n_before;
    if (n > 0)
        snprintf(before, sizeof before, " (%llu image%s before %s left out)", (unsigned long long)n,
                 n == 1 ? "" : "s", n == 1 ? "was" : "were");
    log_to(&ros2->log, LOG_LEVEL_WARNING,
           "%s: its publisher has %s: its images come from another publisher now%s",
           ros2->image_topic + 2, why, before);
}

// Whether an image is of the publisher whose images are taken. That there are two is told when both
// are seen to live.
static bool is_from_ours(struct ros2 *ros2, const struct ros_message *message)
{
    const bool has_ours = message->publisher == ros2->one.ours || has_publisher(ros2);
    const enum ros_image_of of =
        ros_one_publisher_judge(&ros2->one, message->publisher, has_ours, message->arrived_ns);
    tell_of_successor(ros2, of);
    if (of != ROS_IMAGE_OF_OURS && of != ROS_IMAGE_OF_SECOND)
        follow(ros2);
    if (of != ROS_IMAGE_OF_SECOND && ros2->told_gone) {
        log_to(&ros2->log, LOG_LEVEL_NOTICE, "%s: is back", ros2->image_topic + 2);
        ros2->told_gone = false;
    }
    if (ros2->one.are_two && !ros2->told_second)
        log_to(&ros2->log, LOG_LEVEL_WARNING,
               "%s has a second publisher, whose images and camera infos are left out",
               ros2->image_topic + 2);
    ros2->told_second = ros2->told_second || ros2->one.are_two;
    return of != ROS_IMAGE_OF_SECOND;
}

// Stamps of this machine go where its clock is set.
static void look_at_clock(struct ros2 *ros2, int64_t arrived_ns)
{
    const int64_t before_ns = ros2->clock.offsets.set_ns;
    const struct live_clock_reading clocks = live_clock_read();
    live_clock_follow(&ros2->clock, &clocks);
    if (ros2->clock.offsets.set_ns != before_ns)
        live_stamps_clock_set(&ros2->stamps, ros2->clock.offsets.set_ns - before_ns, arrived_ns);
}

static void tell_of_set_clock(const struct ros2 *ros2, int64_t set_ns)
{
    log_to(&ros2->log, LOG_LEVEL_WARNING,
           "%s: the machine's clock was set %.3f s %s, and the stamps with it: tracking goes on",
           ros2->image_topic + 2, fabs((double)set_ns * 1e-9), set_ns < 0 ? "back" : "forward");
}

// One that is damaged has none, either, and is told of as damaged.
static enum live_stamp fill_stamp(struct ros2 *ros2, bool is_damaged, struct capture_frame *frame)
{
    const bool is_among_others = ros2->stamps.has_stamp;
    if (is_among_others && !is_damaged && !ros2->told_unstamped) {
        log_to(&ros2->log, LOG_LEVEL_WARNING,
               "%s: an image without a stamp, which others have: such are given the time of the "
               "one before them and what passed since",
               ros2->image_topic + 2);
        ros2->told_unstamped = true;
    }
    const int64_t arrived_wall_ns =
        clock_wall_ns() - (clock_monotonic_ns() - frame->capture_mono_ns);
    return live_stamps_fill(&ros2->stamps, arrived_wall_ns, frame->capture_mono_ns,
                            &frame->image.time_ns);
}

// Whether the image is taken, by its stamp (0: it has none); where the clock is another one that is
// in its flags.
static bool is_in_time(struct ros2 *ros2, int64_t stamp_ns, bool is_damaged,
                       struct capture_frame *frame)
{
    const bool is_first = !ros2->stamps.has_stamp, is_new_source = ros2->stamps.is_new_source;
    look_at_clock(ros2, frame->capture_mono_ns);
    if (ros2->stamps.newest.arrived_ns == 0)
        live_stamps_begin(&ros2->stamps, stamp_ns, clock_wall_ns(), ros2->clock.offsets.set_ns);
    const int64_t before_ns = ros2->stamps.newest.stamp_ns, set_ns = ros2->stamps.set_ns;
    frame->image.time_ns = stamp_ns;
    const enum live_stamp stamp =
        stamp_ns > 0 ? live_stamps_judge(&ros2->stamps, stamp_ns, frame->capture_mono_ns)
                     : fill_stamp(ros2, is_damaged, frame);
    const double step_s = (double)(frame->image.time_ns - before_ns) * 1e-9;
    frame->clock_set_ns = ros2->stamps.set_ns;
    if (frame->clock_set_ns != set_ns)
        tell_of_set_clock(ros2, frame->clock_set_ns - set_ns);
    if (stamp == LIVE_STAMP_NEW_CLOCK) {
        log_to(&ros2->log, LOG_LEVEL_WARNING,
               "%s: the stamps of %s are %.3f s before the last one: taken for another clock, in a "
               "new map epoch",
               ros2->image_topic + 2,
               is_new_source && !is_first ? "a new publisher" : "its publisher", -step_s);
        frame->flags |= CAPTURE_NEW_CLOCK;
    }
    if (stamp != LIVE_STAMP_BACK && stamp != LIVE_STAMP_AHEAD)
        return true;
    ros_bad_stamp(&ros2->bad, stamp == LIVE_STAMP_BACK, step_s);
    return false;
}

static void on_image(struct ros2 *ros2, const struct ros_message *message)
{
    struct ros_image image;
    const char *reason = "malformed image message";
    struct capture_frame frame = {.image = {.width_px = ros2->camera.width_px,
                                            .height_px = ros2->camera.height_px,
                                            .units_per_m = ros2->units_per_m},
                                  .capture_mono_ns = message->arrived_ns,
                                  .gravity_m_s2 = {NAN, NAN, NAN}};
    bool good = ros_get_image(message->bytes.iov_base, message->bytes.iov_len, ROS_ENCODING_CDR,
                              ros2->kind == ROS_COMPRESSED_IMAGE, &image);
    if (!is_in_time(ros2, good ? image.header.time_ns : 0, !good, &frame))
        return;
    frame.index = ros2->n_frames++;
    uint16_t *pixels = live_take(&ros2->live);
    if (good)
        bag_look_at_units(&ros2->bag, &image);
    if (pixels &&
        (!good || ros_depth_decode(ros2->bag.decoder, &image, ros2->camera.width_px,
                                   ros2->camera.height_px, &ros2->bag.units, pixels, &reason))) {
        if (reason)
            ros_bad_damaged(&ros2->bad, frame.index, good ? &image : NULL, reason);
        else
            ros_bad_size(&ros2->bad, &image, ros2->camera.width_px, ros2->camera.height_px);
        frame.flags |= CAPTURE_DAMAGED;
        buffers_give(&ros2->live.buffers, pixels);
        pixels = NULL;
    }
    live_put(&ros2->live, &frame, pixels, &(struct live_camera){.intrinsics = ros2->camera});
}

static int64_t stamp_of(const struct ros2 *ros2, const struct ros_message *message)
{
    struct ros_image image;
    return ros_get_image(message->bytes.iov_base, message->bytes.iov_len, ROS_ENCODING_CDR,
                         ros2->kind == ROS_COMPRESSED_IMAGE, &image)
               ? image.header.time_ns
               : 0;
}

// The one that the source was opened with. Without a stamp of its own it waits for the next one,
// which tells whether the topic has any. If so, a simulated clock had not begun: it would have the
// wall's time, which those after it lie before.
static void take_held(struct ros2 *ros2, const struct ros_message *next)
{
    struct ros_message message;
    const struct ros_message *held = ros_held_oldest(&ros2->held);
    if (!held || (!next && stamp_of(ros2, held) <= 0))
        return;
    if (next && stamp_of(ros2, next) > 0) {
        ros_leave_out_held(&ros2->held, 0);
        ros_bad_unstamped(&ros2->bad);
    } else if (ros_take_held(&ros2->held, &message)) {
        if (next) // that has none, either
            log_to(&ros2->log, LOG_LEVEL_WARNING,
                   "%s: its images have no stamps: they are given the times of their arrival",
                   ros2->image_topic + 2);
        on_image(ros2, &message);
        ros_give_back(&message);
    }
}

static void look_for_publisher(struct ros2 *ros2)
{
    dds_subscription_matched_status_t matched;
    if (dds_get_subscription_matched_status(ros2->images, &matched) != DDS_RETCODE_OK)
        return;
    if (matched.current_count <= 1)
        ros2->told_second = ros2->one.are_two = false;
    if (matched.current_count > 0 || ros2->told_gone)
        return;
    log_to(&ros2->log, LOG_LEVEL_WARNING, "%s: its publisher is gone, waiting for it",
           ros2->image_topic + 2);
    ros2->told_gone = true;
}

// Wakes the thread when an image has come.
static int attach_images(struct ros2 *ros2)
{
    ros2->arrived = dds_create_readcondition(ros2->images, DDS_ANY_STATE);
    return ros2->arrived >= 0 &&
                   dds_waitset_attach(ros2->waitset, ros2->arrived, 1) == DDS_RETCODE_OK
               ? 0
               : -EIO;
}

// A publisher that comes back and offers less than the one before it is none to a reliable reader;
// a best effort one takes images of both.
static void accept_less(struct ros2 *ros2)
{
    dds_requested_incompatible_qos_status_t refused;
    dds_subscription_matched_status_t matched;
    if (!ros2->told_gone ||
        dds_get_subscription_matched_status(ros2->images, &matched) != DDS_RETCODE_OK ||
        matched.current_count > 0 ||
        dds_get_requested_incompatible_qos_status(ros2->images, &refused) != DDS_RETCODE_OK ||
        refused.total_count_change == 0)
        return;
    dds_entity_t reader =
        ros_create_reader(ros2->participant, ros2->image_topic, ros2->kind, false);
    if (reader < 0)
        return;
    dds_waitset_detach(ros2->waitset, ros2->arrived);
    dds_delete(ros2->images);
    ros2->images = reader;
    int err = attach_images(ros2);
    log_to(&ros2->log, LOG_LEVEL_WARNING,
           "%s: a publisher offers best effort only, images may be lost on the way%s",
           ros2->image_topic + 2, err ? "; they are looked for five times a second" : "");
}

static void tell_of_lost(struct ros2 *ros2, uint64_t n)
{
    if (n > 0)
        ros_bad_lost(&ros2->bad, n, (double)ros2->lost.held_up_ns * 1e-9);
}

static void *receive(void *argument)
{
    struct ros2 *ros2 = argument;
    struct ros_message message;
    struct ros_offer offer;
    take_held(ros2, NULL);
    while (!atomic_load(&ros2->quit)) {
        dds_attach_t triggered[3];
        dds_waitset_wait(ros2->waitset, triggered, 3, 200 * MS);
        ros_one_publisher_listen(&ros2->one, clock_monotonic_ns());
        ros_lost_images_look(&ros2->lost, clock_monotonic_ns());
        look_for_publisher(ros2);
        accept_less(ros2);
        if (ros2->infos <= 0 && ros_find_publisher(ros2->publications, ros2->info_topic, &offer))
            ros2->infos = ros_create_reader(ros2->participant, ros2->info_topic, ROS_CAMERA_INFO,
                                            offer.is_reliable);
        update_camera(ros2);
        while (!atomic_load(&ros2->quit) && ros_take(ros2->images, &message)) {
            if (is_from_ours(ros2, &message)) {
                take_held(ros2, &message);
                tell_of_lost(
                    ros2, ros_lost_images_judge(&ros2->lost, message.sent_ns, message.arrived_ns));
                on_image(ros2, &message);
            }
            ros_give_back(&message);
        }
    }
    return NULL;
}

// ---- opening ----

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
    tell_of_lost(ros2, ros_lost_images_end(&ros2->lost));
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
        if (fault || !is_from_ours(ros2, &message)) {
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
        *out_has_info = is_info_of_ours(ros2, &message);
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
    if (ros2->waitset < 0 || ros2->guard < 0 || attach_images(ros2) != 0 ||
        dds_waitset_attach(ros2->waitset, ros2->guard, 0) != DDS_RETCODE_OK)
        return -EIO;
    sigset_t all, old; // signals are the process's business
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int err = pthread_create(&ros2->thread, NULL, receive, ros2);
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

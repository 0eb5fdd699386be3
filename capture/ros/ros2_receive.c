// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/ros2_receive.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "capture/ros/units.h"
#include "proto/clock.h"

#define MS INT64_C(1000000)

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

bool ros2_is_info_of_ours(struct ros2 *ros2, const struct ros_message *message)
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
        const bool is_ours = ros2_is_info_of_ours(ros2, &message);
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

bool ros2_is_from_ours(struct ros2 *ros2, const struct ros_message *message)
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

int ros2_attach_images(struct ros2 *ros2)
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
    int err = ros2_attach_images(ros2);
    log_to(&ros2->log, LOG_LEVEL_WARNING,
           "%s: a publisher offers best effort only, images may be lost on the way%s",
           ros2->image_topic + 2, err ? "; they are looked for five times a second" : "");
}

void ros2_tell_of_lost(struct ros2 *ros2, uint64_t n)
{
    if (n > 0)
        ros_bad_lost(&ros2->bad, n, (double)ros2->lost.held_up_ns * 1e-9);
}

void *ros2_receive(void *argument)
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
            if (ros2_is_from_ours(ros2, &message)) {
                take_held(ros2, &message);
                ros2_tell_of_lost(
                    ros2, ros_lost_images_judge(&ros2->lost, message.sent_ns, message.arrived_ns));
                on_image(ros2, &message);
            }
            ros_give_back(&message);
        }
    }
    return NULL;
}

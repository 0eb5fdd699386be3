// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/select_topic.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/ros/depth_topic.h"
#include "capture/ros/tell_of_info.h"
#include "capture/ros/topic_name.h"
#include "capture/ros/units.h"
#include "capture/stamp_order.h"

static const struct intrinsics default_camera = {525, 525, 319.5, 239.5, 640, 480};

#define CLOCK_BEGINS_NS INT64_C(1000000000) // the second image of a simulation is before that

// The camera info of the depth topic: the one that shares most of its name; of the same size before
// others.
static const struct bag_topic *find_info(const struct bag *bag)
{
    const struct bag_topic *best = NULL;
    size_t best_score = 0;
    for (size_t i = 0; i < bag->n_topics; i++) {
        const struct bag_topic *topic = &bag->topics[i];
        if (!topic->has_info || topic->info.camera.fx_px == 0)
            continue;
        bool same_size = topic->info.camera.width_px == bag->depth->width_px &&
                         topic->info.camera.height_px == bag->depth->height_px;
        size_t score = 2 * ros_common_folders(topic->name, bag->depth->name) + same_size + 1;
        if (score > best_score) {
            best = topic;
            best_score = score;
        }
    }
    return best;
}

bool bag_is_rectified(const struct bag *bag)
{
    const struct bag_topic *info = find_info(bag);
    return info && ros_info_is_rectified(bag->depth->name, &info->info);
}

// A camera that is not calibrated sends a CameraInfo of zeros.
static void tell_of_no_info(const struct bag *bag)
{
    const struct bag_topic *empty = NULL;
    for (size_t i = 0; i < bag->n_topics; i++)
        if (bag->topics[i].has_info &&
            (!empty || ros_common_folders(bag->topics[i].name, bag->depth->name) >
                           ros_common_folders(empty->name, bag->depth->name)))
            empty = &bag->topics[i];
    log_to(&bag->log, LOG_LEVEL_WARNING,
           "%s: no camera info for %s%s%s%s, taken for the usual camera of 640x480; give its own "
           "with --set camera.fx=... (fy, cx, cy) or -c FILE",
           bag->path, bag->depth->name, empty ? " (" : "", empty ? empty->name : "",
           empty ? " holds no focal length: the camera is not calibrated)" : "");
}

static void tell_of_change(const struct bag *bag, const struct bag_topic *info, bool is_rectified)
{
    const struct bag_info_change *change =
        is_rectified ? &info->rectified_change : &info->camera_change;
    char text[ROS_CHANGE_BYTES];
    if (change->n_messages == 0)
        return;
    ros_describe_change(is_rectified ? &info->info.rectified : &info->info.camera, &change->to,
                        change->time_ns, text);
    log_to(&bag->log, LOG_LEVEL_WARNING,
           "%s: %s changes on the way %s (%zu message%s not as the first); its first calibration "
           "is taken for all images",
           bag->path, info->name, text, change->n_messages,
           change->n_messages == 1 ? " is" : "s are");
}

static int take_camera(const struct bag *bag, const struct capture_settings *settings,
                       struct capture_info *out_info)
{
    const struct bag_topic *depth = bag->depth, *info = find_info(bag);
    bool overridden = capture_gives_camera(settings);
    bool is_rectified = bag_is_rectified(bag);
    struct intrinsics camera = !info          ? default_camera
                               : is_rectified ? info->info.rectified
                                              : info->info.camera;
    if (!info && !overridden)
        tell_of_no_info(bag);
    if (info) {
        const struct ros_info_taken taken = {bag->path, info->name, info->info.header.frame_id,
                                             depth->name, depth->frame_id};
        if (!overridden)
            ros_tell_of_info(&bag->log, &taken);
        if (info->info.distortion != 0 && !is_rectified)
            ros_tell_of_distortion(&bag->log, &taken, info->info.distortion);
    }
    if (info && !overridden)
        tell_of_change(bag, info, is_rectified);
    if (!isfinite(camera.fx_px) || !(camera.fx_px > 0) || !isfinite(camera.fy_px) ||
        camera.fy_px == 0 || !isfinite(camera.cx_px) || !isfinite(camera.cy_px)) {
        log_to(&bag->log, LOG_LEVEL_ERROR, "%s: %s is no calibration of a camera", bag->path,
               info ? info->name : "");
        return -EINVAL;
    }
    if (!overridden &&
        (camera.width_px != depth->width_px || camera.height_px != depth->height_px)) {
        log_to(
            &bag->log, settings->allow_implausible ? LOG_LEVEL_WARNING : LOG_LEVEL_ERROR,
            "%s: images of %s are %ux%u, but %s is for %ux%u; give the intrinsics of such images "
            "with --set camera.fx=... (fy, cx, cy) or -c FILE",
            bag->path, depth->name, depth->width_px, depth->height_px,
            info ? info->name : "the usual camera", camera.width_px, camera.height_px);
        if (!settings->allow_implausible)
            return -ERANGE;
    }
    if (info && camera.width_px == depth->width_px && camera.height_px == depth->height_px)
        snprintf(out_info->told.camera_by, sizeof out_info->told.camera_by, "%.95s", info->name);
    camera.width_px = depth->width_px;
    camera.height_px = depth->height_px;
    out_info->camera = camera;
    return 0;
}

// Others are skipped.
static bool is_time(int64_t time_ns)
{
    return time_ns >= 0 && time_ns < INT64_C(1) << 62;
}

static int compare_frames(const void *a, const void *b)
{
    const struct bag_frame *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    if (x->log_time_ns != y->log_time_ns)
        return x->log_time_ns < y->log_time_ns ? -1 : 1;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    if (x->place.block != y->place.block)
        return x->place.block < y->place.block ? -1 : 1;
    return (x->place.offset > y->place.offset) - (x->place.offset < y->place.offset);
}

static int compare_log_times(const void *a, const void *b)
{
    const struct bag_frame *x = a, *y = b;
    return (x->log_time_ns > y->log_time_ns) - (x->log_time_ns < y->log_time_ns);
}

// The camera's own times in place of the stamps, when the recording has them for all images.
static void take_realsense_times(struct bag *bag, struct bag_topic *depth)
{
    const char *image = strstr(depth->name, "/image/");
    size_t n = image ? (size_t)(image - depth->name) : 0;
    struct bag_topic *metadata = NULL;
    for (size_t i = 0; image && i < bag->n_topics; i++)
        if (!strncmp(bag->topics[i].name, depth->name, n) &&
            !strcmp(bag->topics[i].name + n, BAG_REALSENSE_METADATA) && bag->topics[i].n_frames)
            metadata = &bag->topics[i];
    if (!metadata)
        return;
    qsort(metadata->frames, metadata->n_frames, sizeof *metadata->frames, compare_log_times);
    for (int pass = 0; pass < 2; pass++) // all or none
        for (size_t i = 0; i < depth->n_frames; i++) {
            const struct bag_frame *found =
                bsearch(&depth->frames[i], metadata->frames, metadata->n_frames,
                        sizeof *metadata->frames, compare_log_times);
            if (!found)
                return;
            if (pass == 1)
                depth->frames[i].time_ns = found->time_ns;
        }
}

// Where others have a stamp: at time 0 they would be played long before these. A single one right
// before them is the first of a simulation, whose clock begins there.
static void leave_unstamped_out(const struct bag *bag, struct bag_topic *topic)
{
    struct bag_frame *frames = topic->frames;
    size_t n_kept = 0, n_zero = 0;
    int64_t first_ns = INT64_MAX;
    for (size_t i = 0; i < topic->n_frames; i++) {
        n_zero += frames[i].time_ns == 0;
        if (frames[i].time_ns > 0 && frames[i].time_ns < first_ns)
            first_ns = frames[i].time_ns;
    }
    const bool begins_at_0 = n_zero == 1 && first_ns <= CLOCK_BEGINS_NS;
    for (size_t i = 0; i < topic->n_frames; i++)
        if (frames[i].time_ns > 0 || (begins_at_0 && frames[i].time_ns == 0))
            frames[n_kept++] = frames[i];
    const size_t n_left_out = topic->n_frames - n_kept;
    topic->n_frames = n_kept;
    if (n_left_out)
        log_to(&bag->log, LOG_LEVEL_WARNING,
               "%s: %zu image%s of %s without a stamp, which the others have: left out", bag->path,
               n_left_out, n_left_out == 1 ? "" : "s", topic->name);
}

// Most stamps are that of the image before, as a publisher's that fills its header once, or of a
// clock that stands still; the recorder's times move. By these all are played then.
static void leave_standing_stamps(const struct bag *bag, struct bag_topic *topic)
{
    struct bag_frame *frames = topic->frames;
    size_t n_stand = 0, n_logged_stand = 0;
    for (size_t i = 1; i < topic->n_frames; i++) {
        n_stand += frames[i].time_ns == frames[i - 1].time_ns;
        n_logged_stand += frames[i].log_time_ns == frames[i - 1].log_time_ns;
    }
    if (2 * n_stand <= topic->n_frames || 2 * n_logged_stand + 1 >= topic->n_frames)
        return;
    for (size_t i = 0; i < topic->n_frames; i++)
        frames[i].time_ns = frames[i].log_time_ns;
    log_to(
        &bag->log, LOG_LEVEL_WARNING,
        "%s: %zu of %zu images of %s have the stamp of the one before them: the recorder's times "
        "are taken for all",
        bag->path, n_stand, topic->n_frames, topic->name);
}

static void put_in_order(struct bag *bag, struct bag_topic *topic)
{
    struct bag_frame *frames = topic->frames;
    size_t n_kept = 0;
    if (!topic->has_stamps && !bag->is_live) // live the second image tells
        log_to(&bag->log, LOG_LEVEL_WARNING,
               "%s: images of %s have no time stamps, the recorder's are taken", bag->path,
               topic->name);
    for (size_t i = 0; !topic->has_stamps && i < topic->n_frames; i++)
        frames[i].time_ns = frames[i].log_time_ns;
    take_realsense_times(bag, topic);
    if (topic->has_stamps)
        leave_unstamped_out(bag, topic);
    leave_standing_stamps(bag, topic);
    struct stamp_order order = {0};
    for (size_t i = 0; i < topic->n_frames; i++)
        if (is_time(frames[i].time_ns))
            stamp_order_add(&order, frames[i].time_ns);
    stamp_order_tell(&order, &bag->log, bag->path, topic->name);
    qsort(frames, topic->n_frames, sizeof *frames, compare_frames);
    for (size_t i = 0; i < topic->n_frames; i++)
        if (is_time(frames[i].time_ns) &&
            (n_kept == 0 || frames[i].time_ns != frames[n_kept - 1].time_ns))
            frames[n_kept++] = frames[i];
    bag->n_skipped = topic->n_frames - n_kept;
    topic->n_frames = n_kept;
}

static void tell_of_left_out(const struct bag *bag)
{
    const struct bag_topic *depth = bag->depth;
    if (depth->n_bad_heads)
        log_to(&bag->log, LOG_LEVEL_WARNING,
               "%s: %zu image%s of %s (%s) cannot be read (%s%s): left out, counted as damaged",
               bag->path, depth->n_bad_heads, depth->n_bad_heads == 1 ? "" : "s", depth->name,
               depth->image_encoding,
               depth->n_bad_heads == 1 ? "" : "the first: ", depth->head_fault);
    if (depth->n_no_depth)
        log_to(&bag->log, LOG_LEVEL_WARNING,
               "%s: %zu image%s of %s %s no depth (%s): left out, counted as damaged", bag->path,
               depth->n_no_depth, depth->n_no_depth == 1 ? "" : "s", depth->name,
               depth->n_no_depth == 1 ? "is" : "are", depth->no_depth_encoding);
    if (depth->n_other_size)
        log_to(&bag->log, LOG_LEVEL_WARNING,
               "%s: %zu image%s of %s of another size than the first one's %ux%u (%ux%u): they are "
               "left out",
               bag->path, depth->n_other_size, depth->n_other_size == 1 ? "" : "s", depth->name,
               depth->width_px, depth->height_px, depth->other_width_px, depth->other_height_px);
}

int bag_choose(struct bag *bag, const struct capture_settings *settings,
               struct capture_info *out_info)
{
    int err = bag_find_depth(bag, settings->camera);
    if (err)
        return err;
    struct bag_topic *depth = bag->depth;
    if (!bag_is_size(depth->width_px, depth->height_px)) {
        log_to(&bag->log, LOG_LEVEL_ERROR, "%s: images of %s are %ux%u, which no camera has",
               bag->path, depth->name, depth->width_px, depth->height_px);
        return -EINVAL;
    }
    err = take_camera(bag, settings, out_info);
    if (err)
        return err;
    put_in_order(bag, depth);
    tell_of_left_out(bag);
    if (depth->n_lost)
        log_to(&bag->log, LOG_LEVEL_WARNING, "%s: %llu image%s of %s lost by damage", bag->path,
               (unsigned long long)depth->n_lost, depth->n_lost == 1 ? "" : "s", depth->name);
    if (bag->n_malformed)
        log_to(&bag->log, LOG_LEVEL_WARNING, "%s: %zu messages are not what their topic says",
               bag->path, bag->n_malformed);
    if (bag->n_skipped)
        log_to(&bag->log, LOG_LEVEL_WARNING, "%s: %zu images of %s skipped, their time repeats",
               bag->path, bag->n_skipped, depth->name);
    bag->units = bag_find_units(bag, settings);
    bag->is_float_told = settings->float_scale != 0;
    out_info->units_per_m = bag->units.per_m;
    out_info->float_per_m = depth->format.is_float ? bag->units.float_per_m : 0;
    bag_tell_of_units(bag);
    out_info->n_frames = depth->n_frames;
    snprintf(out_info->description, sizeof out_info->description, "%s:%s#%s", out_info->driver,
             bag->path, depth->name);
    return depth->n_frames ? 0 : -ENOENT;
}

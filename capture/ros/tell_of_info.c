// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/tell_of_info.h"

#include <math.h>
#include <string.h>

#include "capture/ros/topic_name.h"

static bool is_same_frame(const char *a, const char *b)
{
    return strcmp(a + (*a == '/'), b + (*b == '/')) == 0;
}

bool ros_info_is_rectified(const char *depth_topic, const struct ros_camera_info *info)
{
    return ros_name_is_rectified(depth_topic) && info->rectified.fx_px != 0;
}

void ros_tell_of_info(const struct log_sink *log, const struct ros_info_taken *taken)
{
    log_to(log, LOG_LEVEL_INFO, "%s: the camera info of %s is %s", taken->source,
           taken->depth_topic, taken->info_topic);
    if (*taken->info_frame && *taken->depth_frame &&
        !is_same_frame(taken->info_frame, taken->depth_frame))
        log_to(log, LOG_LEVEL_WARNING,
               "%s: %s is of frame %s, but images of %s are of frame %s: intrinsics of another "
               "camera make every depth wrong; give the depth camera's own with "
               "--set camera.fx=... (fy, cx, cy) or -c FILE",
               taken->source, taken->info_topic, taken->info_frame, taken->depth_topic,
               taken->depth_frame);
}

void ros_tell_of_distortion(const struct log_sink *log, const struct ros_info_taken *taken,
                            double distortion)
{
    log_to(log, LOG_LEVEL_WARNING,
           "%s: %s tells of distortion (up to %g), which stays in the images of %s", taken->source,
           taken->info_topic, distortion, taken->depth_topic);
}

static int describe(const struct intrinsics *camera, char *out, size_t room)
{
    return snprintf(out, room, "fx %.9g fy %.9g cx %.9g cy %.9g, %ux%u", camera->fx_px,
                    camera->fy_px, camera->cx_px, camera->cy_px, camera->width_px,
                    camera->height_px);
}

void ros_describe_change(const struct intrinsics *from, const struct intrinsics *to,
                         int64_t time_ns, char out[ROS_CHANGE_BYTES])
{
    char old[120], new[120];
    describe(from, old, sizeof old);
    describe(to, new, sizeof new);
    snprintf(out, ROS_CHANGE_BYTES, "from %s to %s, at stamp %lld.%09lld", old, new,
             (long long)(time_ns / 1000000000), (long long)(time_ns % 1000000000));
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= ROS_SAME_CALIBRATION_PX;
}

// Not a number is the same only as itself, bit for bit.
bool ros_is_same_calibration(const struct intrinsics *a, const struct intrinsics *b)
{
    return memcmp(a, b, sizeof *a) == 0 ||
           (is_near(a->fx_px, b->fx_px) && is_near(a->fy_px, b->fy_px) &&
            is_near(a->cx_px, b->cx_px) && is_near(a->cy_px, b->cy_px) &&
            a->width_px == b->width_px && a->height_px == b->height_px);
}

// Another one than the one that is in force. Whether changes are followed; that they are not is
// told now and then.
static bool follow(struct ros_live_info *live, const struct log_sink *log,
                   const struct intrinsics *camera, int64_t now_ns)
{
    int64_t *oldest_ns = &live->changes_ns[live->n_changes % ROS_CALM_CHANGES];
    char kept[120];
    if (!live->flaps && (live->n_changes < ROS_CALM_CHANGES || now_ns - *oldest_ns > ROS_CALM_NS)) {
        *oldest_ns = now_ns;
        live->n_changes++;
        return true;
    }
    if (!live->flaps || now_ns - live->told_of_flap_ns > ROS_FLAP_TELL_NS) {
        describe(camera, kept, sizeof kept);
        log_to(log, LOG_LEVEL_WARNING,
               "%s: the calibration changes again and again: that of %s stays until one has been "
               "the same for %d s. Does more than one camera or node publish there? Where the "
               "intrinsics are given, with --set camera.fx=... (fy, cx, cy), none of these is "
               "taken",
               live->names.info_topic, kept, (int)(ROS_CALM_NS / 1000000000));
        live->told_of_flap_ns = now_ns;
    }
    live->flaps = true;
    return false;
}

void ros_live_info_take(struct ros_live_info *live, const struct log_sink *log,
                        const struct ros_camera_info *info, int64_t now_ns,
                        struct intrinsics *camera)
{
    if (!live->is_told) // the first that is one decides, also where it comes late
        live->is_rectified = ros_info_is_rectified(live->names.depth_topic, info);
    const struct intrinsics *now = live->is_rectified ? &info->rectified : &info->camera;
    struct ros_info_taken taken = live->names;
    if (!live->is_distortion_told && !live->is_rectified && info->distortion != 0 &&
        now->fx_px > 0) {
        ros_tell_of_distortion(log, &taken, info->distortion);
        live->is_distortion_told = true;
    }
    const bool is_old = ros_is_same_calibration(now, &live->last);
    const bool is_calm = live->flaps && is_old && now_ns - live->last_ns > ROS_CALM_NS;
    if (live->is_given || (is_old && !is_calm))
        return;
    if (is_calm)
        live->flaps = false;
    else
        live->last_ns = now_ns;
    live->last = *now;
    taken.info_frame = info->header.frame_id;
    if (!live->is_told && now->fx_px > 0)
        ros_tell_of_info(log, &taken);
    live->is_told = live->is_told || now->fx_px > 0;
    if (ros_is_same_calibration(now, camera) || !follow(live, log, camera, now_ns))
        return;
    const bool is_sane = now->fx_px > 0 && now->fy_px != 0 && now->fx_px < 1e6;
    const bool is_same_size =
        now->width_px == camera->width_px && now->height_px == camera->height_px;
    char change[ROS_CHANGE_BYTES];
    ros_describe_change(camera, now, info->header.time_ns, change);
    log_to(log, is_sane && is_same_size ? LOG_LEVEL_NOTICE : LOG_LEVEL_WARNING,
           "%s: another calibration, %s; %s", taken.info_topic, change,
           !is_sane        ? "that is no calibration, the one before it stays"
           : !is_same_size ? "that is not the images' size, the one before it stays"
                           : "it is taken for the images from now on");
    if (is_sane && is_same_size)
        *camera = *now;
}

// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/tell_of_info.h"

#include <stdbool.h>
#include <string.h>

static bool is_same_frame(const char *a, const char *b)
{
    return strcmp(a + (*a == '/'), b + (*b == '/')) == 0;
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

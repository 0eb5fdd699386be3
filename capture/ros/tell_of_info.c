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

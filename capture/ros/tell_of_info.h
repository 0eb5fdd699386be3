// SPDX-License-Identifier: Apache-2.0
// What is said of a camera info: which one serves for the depth images, whether it is of their
// frame, and what changes in it. Of recordings and of live topics in the same words.
#ifndef POSED_CAPTURE_ROS_TELL_OF_INFO_H
#define POSED_CAPTURE_ROS_TELL_OF_INFO_H

#include <stdint.h>

#include "proto/log.h"
#include "proto/types.h"

// Topics by ROS's names, frames as in the headers ("" where none is told).
struct ros_info_taken {
    const char *source; // file or driver, in front of the line
    const char *info_topic, *info_frame;
    const char *depth_topic, *depth_frame;
};

// That it was taken, and a warning where its frame is not the images': a colour camera's intrinsics
// on depth. A slash in front of a frame's name (ROS 1) makes no other frame.
void ros_tell_of_info(const struct log_sink *log, const struct ros_info_taken *taken);

// "from fx 50 fy 60 cx 3.5 cy 2.5, 8x6 to fx 51 fy 60 cx 3.5 cy 2.5, 8x6, at stamp 100.033000000"
#define ROS_CHANGE_BYTES 320
void ros_describe_change(const struct intrinsics *from, const struct intrinsics *to,
                         int64_t time_ns, char out[ROS_CHANGE_BYTES]);

#endif

// SPDX-License-Identifier: Apache-2.0
// What is said of a camera info: which one serves for the depth images, and whether it is of their
// frame. Of recordings and of live topics in the same words.
#ifndef POSED_CAPTURE_ROS_TELL_OF_INFO_H
#define POSED_CAPTURE_ROS_TELL_OF_INFO_H

#include "proto/log.h"

// Topics by ROS's names, frames as in the headers ("" where none is told).
struct ros_info_taken {
    const char *source; // file or driver, in front of the line
    const char *info_topic, *info_frame;
    const char *depth_topic, *depth_frame;
};

// That it was taken, and a warning where its frame is not the images': a colour camera's intrinsics
// on depth. A slash in front of a frame's name (ROS 1) makes no other frame.
void ros_tell_of_info(const struct log_sink *log, const struct ros_info_taken *taken);

#endif

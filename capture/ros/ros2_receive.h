// SPDX-License-Identifier: Apache-2.0
// The messages of a topic that the driver `ros2` has opened: whose they are, by which clock they
// are stamped, and what becomes of their images.
#ifndef POSED_CAPTURE_ROS_ROS2_RECEIVE_H
#define POSED_CAPTURE_ROS_ROS2_RECEIVE_H

#include "capture/ros/ros2_state.h"

// Whether an image is of the publisher whose images are taken. That there are two is told when both
// are seen to live.
bool ros2_is_from_ours(struct ros2 *ros2, const struct ros_message *message);

// Whether a camera info is of the images' camera.
bool ros2_is_info_of_ours(struct ros2 *ros2, const struct ros_message *message);

// Wakes the thread when an image has come. Returns 0 or -EIO.
__attribute__((warn_unused_result)) int ros2_attach_images(struct ros2 *ros2);

// The thread's function, of a struct ros2: until `quit`, the images that are held first.
void *ros2_receive(void *ros2);

// So many images were lost on the way; 0: none.
void ros2_tell_of_lost(struct ros2 *ros2, uint64_t n);

#endif

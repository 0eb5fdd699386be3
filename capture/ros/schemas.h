// SPDX-License-Identifier: Apache-2.0
// The .msg definitions of the messages that we write, as MCAP files of ROS 2 carry them: the
// message, then those that it is made of.
#ifndef POSED_CAPTURE_ROS_SCHEMAS_H
#define POSED_CAPTURE_ROS_SCHEMAS_H

#include <stddef.h>

// Of "sensor_msgs/msg/Image", "sensor_msgs/msg/CameraInfo", "nav_msgs/msg/Odometry" or
// "tf2_msgs/msg/TFMessage". NULL for others.
const char *ros_schema(const char *type, size_t *out_n_bytes);

#endif

// SPDX-License-Identifier: Apache-2.0
// What ROS 2 accepts as the name of a topic (design.ros2.org, "Topic and Service name mapping to
// DDS"). One that it does not accept has no publisher, and is not waited for.
#ifndef POSED_CAPTURE_ROS_TOPIC_NAME_H
#define POSED_CAPTURE_ROS_TOPIC_NAME_H

#include <stdbool.h>

#define ROS_TOPIC_FAULT_BYTES 80

// Of a name with or without the slash in front. Returns NULL, or what is wrong with it, in `out`.
const char *ros_topic_fault(const char *topic, char out[ROS_TOPIC_FAULT_BYTES]);

// Whether a name has this part, which is of small letters, in whatever letters.
bool ros_name_contains(const char *name, const char *part);

#endif

// SPDX-License-Identifier: Apache-2.0
// What ROS 2 accepts as the name of a topic (design.ros2.org, "Topic and Service name mapping to
// DDS"): one that it does not accept has no publisher, and is not waited for; and what the cameras'
// own topics are called.
#ifndef POSED_CAPTURE_ROS_TOPIC_NAME_H
#define POSED_CAPTURE_ROS_TOPIC_NAME_H

#include <stdbool.h>
#include <stddef.h>

#define ROS_TOPIC_FAULT_BYTES 80

// Of a name with or without the slash in front. Returns NULL, or what is wrong with it, in `out`.
const char *ros_topic_fault(const char *topic, char out[ROS_TOPIC_FAULT_BYTES]);

// A camera's name as a part of topics, which have no dash and begin with no digit: `left-1` is
// left_1, `2` is camera_2. What is published and what is recorded have the same. Of a name of at
// most ROS_MAX_CAMERA_NAME characters.
#define ROS_MAX_CAMERA_NAME  31
#define ROS_TOPIC_PART_BYTES 40
void ros_topic_part(const char *name, char out[ROS_TOPIC_PART_BYTES]);

// Of cameras of one recording, or one daemon. Returns NULL, or which two are one in topics, in
// `out`.
#define ROS_NAMES_FAULT_BYTES 160
const char *ros_names_fault(const char *const *names, size_t n, char out[ROS_NAMES_FAULT_BYTES]);

// The name of a type as ROS has it: "sensor_msgs/msg/Image", where DDS has
// "sensor_msgs::msg::dds_::Image_". Another name stays as it is.
void ros_type_name(const char *dds_type, char *out, size_t room);

// Whether a name has this part, which is of small letters, in whatever letters.
bool ros_name_contains(const char *name, const char *part);

// How long a topic's name is without what image_transport puts behind it: /compressedDepth,
// /compressed.
size_t ros_plain_length(const char *name);

// Whether the images of a topic are rectified, by its name: its last part, without that of
// image_transport, is image_rect... or ends in _rect or _rect_raw, in whatever letters.
bool ros_name_is_rectified(const char *name);

// Folders that two topics have in common, from the front.
size_t ros_common_folders(const char *a, const char *b);

#endif

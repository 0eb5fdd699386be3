// SPDX-License-Identifier: Apache-2.0
// What ROS 2 tells of a type besides its name, since Iron (REP 2016): the SHA-256 of its
// description. Publishers and subscribers have it in their user data; without it every program of
// ROS warns of each topic, and `ros2 topic info -v` shows INVALID.
#ifndef POSED_CAPTURE_ROS_TYPE_HASH_H
#define POSED_CAPTURE_ROS_TYPE_HASH_H

// "typehash=RIHS01_...;" for "nav_msgs::msg::dds_::Odometry_"; NULL: no type of ours.
const char *ros_type_hash(const char *type);

#endif

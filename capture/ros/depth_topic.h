// SPDX-License-Identifier: Apache-2.0
// Which topic of a ROS recording is depth, and what is said where none is, or several are.
#ifndef POSED_CAPTURE_ROS_DEPTH_TOPIC_H
#define POSED_CAPTURE_ROS_DEPTH_TOPIC_H

#include "capture/ros/bag.h"

// All files were told of. Sets bag->depth: the topic that bag->wanted names (of one that is not
// there the same as image_transport packs it, if that is depth), or the best one of the camera that
// it names, else of `camera`, where there is such; else the best one of all. The name counts first,
// then the format, then what comes is compared: a topic with less than a tenth of another's images
// is not taken. bag->wanted is the whole name then. Returns 0, or after logging -EINVAL (no such
// topic, or no depth), -ENOENT (no depth, or no image of it), -ENOTSUP (messages that are
// compressed one by one), -ENOMEM.
__attribute__((warn_unused_result)) int bag_find_depth(struct bag *bag, const char *camera);

#endif

// SPDX-License-Identifier: Apache-2.0
// Which topic of a ROS recording is depth, and what the others say of its camera: intrinsics,
// units, the times at which images were taken.
#ifndef POSED_CAPTURE_ROS_SELECT_TOPIC_H
#define POSED_CAPTURE_ROS_SELECT_TOPIC_H

#include "capture/ros/bag.h"

// After the walk: chooses the depth topic, sorts its frames, and fills in camera, units_per_m and
// n_frames. Returns 0, or after logging: -ENOENT (no depth topic, no image of it), -EINVAL (a topic
// that is not there, a size or calibration that is none), -ERANGE (calibration of another size),
// -ENOTSUP (its messages are compressed one by one), -ENOMEM.
__attribute__((warn_unused_result)) int
bag_choose(struct bag *bag, const struct capture_settings *settings, struct capture_info *out_info);

// Whether the depth topic's images are rectified, so that the matrix P of its camera info counts.
bool bag_is_rectified(const struct bag *bag);

#endif

// SPDX-License-Identifier: Apache-2.0
// What the numbers of a depth topic's images mean, and what is said of it. A frame's numbers are of
// one unit from the first image to the last; an image of another encoding is converted.
#ifndef POSED_CAPTURE_ROS_UNITS_H
#define POSED_CAPTURE_ROS_UNITS_H

#include "capture/ros/bag.h"

// Of the depth topic that was chosen. Frames have the unit of its first image: what the settings
// say, else what the recording says, else mm for 16 bits (REP 118) and ROS_FLOAT_UNITS_PER_M for
// floats. The settings say nothing of images of 16 bits where the first one is of floats.
struct ros_depth_units bag_find_units(const struct bag *bag,
                                      const struct capture_settings *settings);

// A line of the log where the images' encodings mix; of a recording when all are known, of a live
// topic at each image: said once.
void bag_tell_of_encodings(const struct bag *bag);
void bag_look_at_encoding(struct bag *bag, const struct ros_image *image);

#endif

// SPDX-License-Identifier: Apache-2.0
// What the numbers of a depth topic's images mean, and what is said of it. A frame's numbers are of
// one unit from the first image to the last; an image of another encoding is converted.
#ifndef POSED_CAPTURE_ROS_UNITS_H
#define POSED_CAPTURE_ROS_UNITS_H

#include "capture/ros/bag.h"

// Of the depth topic that was chosen. Frames have the unit of its first image: what the settings
// say (depth_scale), else what the recording says, else mm for 16 bits (REP 118) and
// ROS_FLOAT_UNITS_PER_M for floats. That says nothing of images of 16 bits where the first one is
// of floats, nor of the floats themselves, of which float_scale does.
struct ros_depth_units bag_find_units(const struct bag *bag,
                                      const struct capture_settings *settings);

// What an image of a topic tells of these: whether encodings mix; whether floats are millimetres,
// by the first that shows it.
void bag_note_units(struct bag_topic *topic, const struct ros_image *image);

// Whether a topic's next image is wanted with its values, to see what they are: the first one, then
// those of floats until it is known, MAX_JUDGED of them.
bool bag_wants_values(const struct bag_topic *topic);

// Lines of the log where encodings mix, and where floats are millimetres: of a recording, once all
// its images are noted.
void bag_tell_of_units(const struct bag *bag);

// Each image of a live topic before it is decoded: notes it, and tells what it is the first to
// show. Floats that are no longer what they were taken for are read as what some images in a row
// show.
void bag_look_at_units(struct bag *bag, const struct ros_image *image);

#endif

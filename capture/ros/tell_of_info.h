// SPDX-License-Identifier: Apache-2.0
// What is said of a camera info: which one serves for the depth images, whether it is of their
// frame, and what changes in it. Of recordings and of live topics in the same words.
#ifndef POSED_CAPTURE_ROS_TELL_OF_INFO_H
#define POSED_CAPTURE_ROS_TELL_OF_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/ros/messages.h"
#include "proto/log.h"
#include "proto/types.h"

// Topics by ROS's names, frames as in the headers ("" where none is told).
struct ros_info_taken {
    const char *source; // file or driver, in front of the line
    const char *info_topic, *info_frame;
    const char *depth_topic, *depth_frame;
};

// Whether the images are rectified by their topic's name, so that the matrix P of their camera info
// counts, which then has one.
bool ros_info_is_rectified(const char *depth_topic, const struct ros_camera_info *info);

// That it was taken, and a warning where its frame is not the images': a colour camera's intrinsics
// on depth. A slash in front of a frame's name (ROS 1) makes no other frame.
void ros_tell_of_info(const struct log_sink *log, const struct ros_info_taken *taken);

// A warning that depth is not where K says it is. `distortion`: ros_camera_info's; of rectified
// images it does not matter.
void ros_tell_of_distortion(const struct log_sink *log, const struct ros_info_taken *taken,
                            double distortion);

// "from fx 50 fy 60 cx 3.5 cy 2.5, 8x6 to fx 51 fy 60 cx 3.5 cy 2.5, 8x6, at stamp 100.033000000"
#define ROS_CHANGE_BYTES 320
void ros_describe_change(const struct intrinsics *from, const struct intrinsics *to,
                         int64_t time_ns, char out[ROS_CHANGE_BYTES]);

// Intrinsics as near to each other are one calibration, rounded or estimated anew: over 640 pixels
// that moves a point by less than depth itself is off by.
#define ROS_SAME_CALIBRATION_PX 0.02
bool ros_is_same_calibration(const struct intrinsics *a, const struct intrinsics *b);

// More changes than these in such a time are no calibrations that somebody made.
#define ROS_CALM_CHANGES 3
#define ROS_CALM_NS      INT64_C(10000000000)
#define ROS_FLAP_TELL_NS INT64_C(60000000000) // from one warning of them to the next

// The camera infos of a live topic, one after the other.
struct ros_live_info {
    struct ros_info_taken names; // the frame of the info is that of each message
    bool is_rectified;           // the matrix P counts; known once one is taken
    bool is_given;               // all intrinsics are, by the settings: none is taken
    bool is_told;                // which topic is taken
    bool is_distortion_told;
    struct intrinsics last;               // that came
    int64_t last_ns;                      // since when it is that
    int64_t changes_ns[ROS_CALM_CHANGES]; // when they were told, by their number
    uint64_t n_changes;
    bool flaps;              // changes are neither taken nor told
    int64_t told_of_flap_ns; // when that was said
};

// Takes the newest into *camera if it is a calibration of the size there, and says what changes;
// else it says why it is left out. The first ones may come after the images. One that changes
// without an end would begin a map epoch each time: it is not followed, which a warning says, until
// it has been the same for ROS_CALM_NS. now_ns: of any clock that only goes on.
void ros_live_info_take(struct ros_live_info *live, const struct log_sink *log,
                        const struct ros_camera_info *info, int64_t now_ns,
                        struct intrinsics *camera);

#endif

// SPDX-License-Identifier: Apache-2.0
// Topics of a DDS domain that nobody publishes: which others there are, and which of them is meant.
// Only for files of */ros.
#ifndef POSED_CAPTURE_ROS_TELL_OF_TOPICS_H
#define POSED_CAPTURE_ROS_TELL_OF_TOPICS_H

#include "capture/ros/dds.h"
#include "capture/ros/discover.h"

// `publications` as in discover.h; topics by DDS's names ("rt/camera/depth").

// Nobody publishes the topic itself. Where somebody does so compressed (that transport alone is on,
// or bridged), `topic` is that from now on, which is said. False: nobody does.
bool ros_find_packed(int32_t publications, const struct log_sink *log,
                     char topic[ROS_DDS_NAME_BYTES], struct ros_offer *out);

// Nobody publishes the topic at `place` (ros_dds_describe), and it is waited for so long; 0: no
// longer, which is an error.
void ros_tell_of_nobody(int32_t publications, const struct log_sink *log, const char *topic,
                        const char *place, int wait_s);

// In that time no camera info came on the topic that the intrinsics would be taken from.
void ros_tell_of_no_info(int32_t publications, const struct log_sink *log, const char *topic,
                         bool has_publisher, int waited_s);

#endif

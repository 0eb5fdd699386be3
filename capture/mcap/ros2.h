// SPDX-License-Identifier: Apache-2.0
// ROS recordings in MCAP files: message encoding `cdr` (ROS 2), or `ros1` of bags that were
// converted. The container's part; what the messages say is capture/ros's.
#ifndef POSED_CAPTURE_MCAP_ROS2_H
#define POSED_CAPTURE_MCAP_ROS2_H

#include "capture/mcap/read_chunk.h"
#include "capture/ros/bag.h"

// Walks through the file, unpacks every chunk, and tells `bag` of its topics and messages. A file
// that breaks off is read up to there, with a warning. Returns 0, or after logging -EINVAL (no MCAP
// file), -ENOTSUP (no chunk could be unpacked by what was built in), -EIO, -ENOMEM.
__attribute__((warn_unused_result)) int mcap_ros2_scan(struct mcap_reader *reader, struct bag *bag);

// The bytes of a message, in memory of the reader until its next call. Returns 0, or -EBADMSG with
// *out_reason set.
__attribute__((warn_unused_result)) int mcap_ros2_load(struct mcap_reader *reader,
                                                       struct bag_place place,
                                                       const unsigned char **out, size_t *out_n,
                                                       const char **out_reason);

#endif

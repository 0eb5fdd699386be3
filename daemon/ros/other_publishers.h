// SPDX-License-Identifier: Apache-2.0
// Whether others publish what we do: two daemons on one domain are one odom to who subscribes.
#ifndef POSED_DAEMON_ROS_OTHER_PUBLISHERS_H
#define POSED_DAEMON_ROS_OTHER_PUBLISHERS_H

#include <stdbool.h>
#include <stdint.h>

// A reader of who publishes, of this participant (both are a dds_entity_t, or negative).
int32_t ros_watch_publishers(int32_t participant);

// Whether somebody who came since the last call publishes a topic ("rt/odom") for which `is_ours`
// is true. Our own writers are nobody.
bool ros_has_other_publisher(int32_t watch, int32_t participant,
                             bool (*is_ours)(void *user, const char *topic), void *user);

#endif

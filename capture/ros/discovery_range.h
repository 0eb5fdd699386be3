// SPDX-License-Identifier: Apache-2.0
// How far DDS looks for other programs, as the environment asks ROS's own programs. Only for files
// of */ros.
#ifndef POSED_CAPTURE_ROS_DISCOVERY_RANGE_H
#define POSED_CAPTURE_ROS_DISCOVERY_RANGE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/log.h"

enum ros_range {
    ROS_RANGE_FREE, // what the library, or its own file, has: SUBNET, SYSTEM_DEFAULT, or unasked
    ROS_RANGE_LOOPBACK, // ROS_LOCALHOST_ONLY=1, up to ROS 2 Humble; counts before the others
    ROS_RANGE_MACHINE,  // ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST, since Iron
    ROS_RANGE_NONE,     // ROS_AUTOMATIC_DISCOVERY_RANGE=OFF
};

struct ros_discovery {
    enum ros_range range;
    const char *variable; // that asks for it; NULL: none does
    const char *peers; // ROS_STATIC_PEERS: addresses or names, separated by ';'; NULL: none count
};

// What the environment asks for, with a warning of each value that is none, or that another one
// overrides. ros_interface: of the setting, which counts more than the range; NULL, "": none.
struct ros_discovery ros_discovery_of_environment(const char *ros_interface,
                                                  const struct log_sink *log);

// The library's configuration for it, which free frees; *out NULL: its own way. `file`: what
// CYCLONEDDS_URI says, which is added where no interface is set, as in ROS's own programs; NULL:
// nothing. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int
ros_discovery_configure(const struct ros_discovery *discovery, const char *ros_interface,
                        const char *file, char **out);

// "of the library's choice, programs of this machine alone (ROS_AUTOMATIC_DISCOVERY_RANGE)"
void ros_discovery_describe(const struct ros_discovery *discovery, const char *ros_interface,
                            const char *file, char *out, size_t room);

#endif

// SPDX-License-Identifier: Apache-2.0
// Of which node publishers are, for `ros2 node list` and `ros2 topic info -v`, which have
// _CREATED_BY_BARE_DDS_APP_ otherwise (design.ros2.org, "Node to Participant mapping"). Programs of
// ROS 2 tell each other on the topic ros_discovery_info, whose type is of another length since
// Iron: the new one makes programs of Humble end, with std::bad_alloc. So it is told only as long
// as others tell of themselves by the type that we know, which its hash says, and nobody by
// another. Other daemons of ours, known by a mark in the user data, are no reason: two would keep
// each other telling when all others have gone, and what is kept would reach a program of Humble
// that comes.
// Only for files of */ros.
#ifndef POSED_CAPTURE_ROS_NODE_INFO_H
#define POSED_CAPTURE_ROS_NODE_INFO_H

#include <stddef.h>
#include <stdint.h>

struct ros_node_info; // opaque

// Of the node NAMESPACE/NAME ("/robot1" or "/", without a slash: the name) with these writers, all
// dds_entity_t of the participant, which must outlive it and ends what it made there. Nothing is
// told yet. Returns 0, -ENOMEM or -EIO; *out is then NULL.
__attribute__((warn_unused_result)) int
ros_node_info_create(struct ros_node_info **out, int32_t participant, const char *node_namespace,
                     const char *name, const int32_t *writers, size_t n_writers);
void ros_node_info_destroy(struct ros_node_info **node);

// Looks who else is there, at most once a second, and tells them, or no longer. One thread at a
// time.
void ros_node_info_update(struct ros_node_info *node);

#endif

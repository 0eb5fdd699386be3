// SPDX-License-Identifier: Apache-2.0
// What publisher and subscriber share of DDS: the participant, topics by ROS 2's names, the quality
// of service that ROS users expect. Only for files of */ros.
#ifndef POSED_CAPTURE_ROS_DDS_H
#define POSED_CAPTURE_ROS_DDS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/log.h"

struct dds_qos;

#define ROS_DDS_NAME_BYTES 256

// Where DDS speaks: the domain (0..232) with who set it (NULL: nobody), and the network interface
// of that name. With NULL or "" it is what the environment asks for (discovery_range.h), as ROS's
// own programs have it, and else what CYCLONEDDS_URI or the library chooses.
struct ros_dds_place {
    uint32_t domain;
    const char *domain_origin, *interface;
};

// "domain 7 (ROS_DOMAIN_ID), interface eth0"
#define ROS_DDS_PLACE_BYTES 360
void ros_dds_describe(const struct ros_dds_place *place, char out[ROS_DDS_PLACE_BYTES]);

// A participant there; where nobody set the domain, in that of the environment (domain.h), which
// `place` then tells. Returns it, or a negative errno after logging the reason. A dds_entity_t,
// which dds_delete ends with all that was made with it. What the library says, also later, goes to
// the log of the newest participant, which must outlive it; what is to be said of the environment,
// which a process has one of, is said once. One thread at a time.
__attribute__((warn_unused_result)) int32_t ros_dds_participant(struct ros_dds_place *place,
                                                                const struct log_sink *log);

// "camera/depth" and "/camera/depth" -> "rt/camera/depth". Returns false when it is too long.
bool ros_dds_topic_name(const char *topic, char out[ROS_DDS_NAME_BYTES]);

// Reliable or best effort, the newest `depth` samples kept, volatile or (for who comes later) kept.
// dds_delete_qos frees it.
// The type, of DDS's name, has its hash in it (type_hash.h).
struct dds_qos *ros_dds_qos(const char *type, bool is_reliable, int32_t depth, bool is_kept);

#endif

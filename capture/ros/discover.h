// SPDX-License-Identifier: Apache-2.0
// Who publishes what in a DDS domain. Only for files of */ros.
#ifndef POSED_CAPTURE_ROS_DISCOVER_H
#define POSED_CAPTURE_ROS_DISCOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ros_offer {  // of a publisher
    char type[128]; // "sensor_msgs::msg::dds_::Image_"
    bool is_reliable;
};

// `publications`: a dds_entity_t, the reader of DDS_BUILTIN_TOPIC_DCPSPUBLICATION. A publisher of
// the topic ("rt/camera/depth") that is alive; false when there is none.
bool ros_find_publisher(int32_t publications, const char *topic, struct ros_offer *out);

// A program in DDS: dds_guid_t of its participant.
struct ros_participant {
    unsigned char guid[16];
};

// Who the publisher of a message is (publication_handle); `reader`: a dds_entity_t that took it.
// False: it has ended, or is of no such reader. out NULL: only that is asked.
bool ros_find_participant(int32_t reader, uint64_t publisher, struct ros_participant *out);

// How many publishers a reader has matched and how many of them have gone, together; 0 where it has
// none. Another number: one has come or gone.
uint64_t ros_count_matched(int32_t reader);

// Whether a participant publishes the topic. Walks through all publishers of the domain.
bool ros_publishes(int32_t publications, const struct ros_participant *participant,
                   const char *topic);

// How many publishers of the topic there are: with that hash of the type (type_hash.h), and without
// it. Those with `mark` in their user data do not count. Walks through all publishers of the
// domain.
struct ros_publisher_count {
    size_t n_same, n_other;
};
struct ros_publisher_count ros_count_publishers(int32_t publications, const char *topic,
                                                const char *type_hash, const char *mark);

// The topics with images, by ROS 2's names, separated by ", "; "" when there is none.
void ros_list_image_topics(int32_t publications, char *out, size_t room);

// Those with camera infos, likewise.
void ros_list_info_topics(int32_t publications, char *out, size_t room);

// The topic with images that may be meant by `topic`, all by ROS 2's names: a slip away, or of that
// name in a namespace. False and "": there is none.
bool ros_nearest_image_topic(int32_t publications, const char *topic, char *out, size_t room);

#endif

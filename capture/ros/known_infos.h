// SPDX-License-Identifier: Apache-2.0
// Whose camera infos are those of the images' camera, as found out already: DDS tells it by a walk
// through all publishers of the domain, which is too much for each message. An answer holds until
// a publisher of images or camera infos comes or goes, and for a second at most: who publishes
// images that no reader of ours matches is not counted.
#ifndef POSED_CAPTURE_ROS_KNOWN_INFOS_H
#define POSED_CAPTURE_ROS_KNOWN_INFOS_H

#include <stdbool.h>
#include <stdint.h>

#define ROS_KNOWN_INFOS    4 // publishers; with more the oldest answer is forgotten
#define ROS_KNOWN_INFOS_NS INT64_C(1000000000)

struct ros_matched { // publishers that have come and gone, of images and of camera infos
    uint64_t images, infos;
};

struct ros_known_infos { // begins as all zero
    struct ros_matched matched;
    struct {
        uint64_t publisher;
        int64_t asked_ns;
        bool are_ours;
    } answers[ROS_KNOWN_INFOS];
    unsigned n; // in all, of which the newest are there
};

// Returns false when it is not known, or not any more.
bool ros_known_infos_find(struct ros_known_infos *known, uint64_t publisher,
                          struct ros_matched matched, int64_t now_ns, bool *out_are_ours);

// The answer, after ros_known_infos_find found none.
void ros_known_infos_add(struct ros_known_infos *known, uint64_t publisher, int64_t now_ns,
                         bool are_ours);

#endif

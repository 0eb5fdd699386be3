// SPDX-License-Identifier: Apache-2.0
// Messages of a DDS topic as they came: read in place, and given back. Only for files of */ros.
#ifndef POSED_CAPTURE_ROS_RECEIVED_H
#define POSED_CAPTURE_ROS_RECEIVED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "capture/capture.h"
#include "capture/ros/messages.h"

struct ddsi_serdata;

// Of images (either kind) or camera infos. Entities are dds_entity_t. Returns one, or its error.
int32_t ros_create_reader(int32_t participant, const char *topic, enum ros_kind kind,
                          bool is_reliable);

struct ros_message {
    struct ddsi_serdata *serdata;
    struct iovec bytes; // CDR
    uint64_t publisher; // dds_instance_handle_t
    int64_t arrived_ns; // CLOCK_MONOTONIC
    int64_t sent_ns;    // by its publisher's clock
};

// Takes the oldest message of a reader; ros_give_back must follow. Returns false when there is
// none.
bool ros_take(int32_t reader, struct ros_message *out);
void ros_give_back(struct ros_message *message);

// Images that came before the source is open, the newest of them: while nobody reads yet, older
// ones would be late for whoever begins to.
#define ROS_MAX_HELD 1
struct ros_held { // begins as all zero; ros_leave_out_held(held, 0) frees what is there
    struct ros_message messages[ROS_MAX_HELD];
    uint64_t n_in, n_out;
    uint64_t n_left_out;
};

// The message is the ring's from now on.
void ros_hold(struct ros_held *held, const struct ros_message *message);
// All but the newest n_kept.
void ros_leave_out_held(struct ros_held *held, uint64_t n_kept);
// The oldest, which stays there; NULL: none.
const struct ros_message *ros_held_oldest(const struct ros_held *held);
// The oldest; ros_give_back must follow. Returns false when there is none.
bool ros_take_held(struct ros_held *held, struct ros_message *out);

#endif

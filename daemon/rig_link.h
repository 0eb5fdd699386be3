// SPDX-License-Identifier: Apache-2.0
// Whether the poses of a rig connect to those since it was begun or reset, as epoch_link.h has it
// of a camera. An epoch of the rig begins where none of its cameras connects to its last pose, and
// goes on from that. Where the camera that begins it was reset on request, that is where the poses
// begin; else nobody knows the way between, until each camera that has not ended has been reset
// since, or found in a loaded map: a reset of one is none of the rig, which the others carry on. A
// camera that is gone, as one that was unplugged, is not waited for: no reset reaches it before it
// is back, and then it comes to poses that the others have begun.
// Plain data, all zero to begin with, and n_cameras.
#ifndef POSED_DAEMON_RIG_LINK_H
#define POSED_DAEMON_RIG_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/config/config.h"

#define RIG_LINK_GONE_NS INT64_C(2000000000) // without a frame, while others have some

struct rig_link_camera {
    int64_t seen_ns; // when its newest frame came
    bool has_epoch, has_ended;
    uint32_t epoch; // of its newest frame
    bool is_cut;    // of its own epoch_link
    bool is_reset;  // connected anew, on request or by the map, since the rig's epoch began
};

struct rig_link {
    uint32_t n_cameras;
    struct rig_link_camera cameras[CONFIG_MAX_CAMERAS];
    bool has_epoch;
    uint32_t epoch; // of the rig's newest pose
    bool is_cut;    // its poses do not connect to those before an epoch that nobody asked for
};

// Each frame of a camera, before the poses that the rig makes of it. It came at now_ns,
// CLOCK_MONOTONIC; 0 of recordings: none is gone that has not ended.
void rig_link_put(struct rig_link *link, uint32_t camera, int64_t now_ns, uint32_t epoch,
                  bool is_cut);

// The camera has ended: nobody can reset it any more.
void rig_link_end(struct rig_link *link, uint32_t camera);

// Each pose of the rig.
void rig_link_follow(struct rig_link *link, uint32_t epoch);

#endif

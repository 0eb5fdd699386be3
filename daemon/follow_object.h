// SPDX-License-Identifier: Apache-2.0
// Follows an object that SearchPose has found: refines its pose against the kept frames that came
// since, one after the other, and says on the topic `object` where it is.
//
// The compute queue's thread owns it.
#ifndef POSED_DAEMON_FOLLOW_OBJECT_H
#define POSED_DAEMON_FOLLOW_OBJECT_H

#include "daemon/frames.h"
#include "daemon/objects.h"
#include "daemon/publish.h"
#include "daemon/shared_state.h"

#define FOLLOW_MAX_LOST_NS 2000000000 // by the frames' time stamps; then it is given up

struct follow {
    bool active;
    char object[OBJECTS_NAME_BYTES];
    struct search_pose pose; // newest good one
    uint64_t seq;            // newest frame that was looked at
    uint64_t pose_seq;       // frame of `pose`
    double motion[6];        // twist of the object in its own frame, per frame
    int64_t seen_ns;         // time stamp of the newest frame with the object, 0 = none yet
    uint16_t *depth;         // room for one image
};

struct follow_world {
    struct shared *shared;
    struct frames *frames;
    struct objects *objects;
    struct publish_channel *publish;
    struct log_sink log;
};

// Begins after frame `seq`, in which the object was found. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int follow_start(struct follow *follow, const char *object,
                                                     const struct se3 *T_camera_object,
                                                     uint64_t seq, const struct intrinsics *camera);

// One step, if there is a newer frame. Ends (active is false) when the object is gone.
void follow_step(struct follow *follow, const struct follow_world *world);

// Ends it; accepts one that is not active.
void follow_stop(struct follow *follow);

#endif

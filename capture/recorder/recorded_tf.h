// SPDX-License-Identifier: Apache-2.0
// What moves in the tf of a recording, in both MCAP dialects, as it does live
// (daemon/ros/messages.c): each camera's base in the camera's odom, and nothing while nobody knows
// where it is, as it is lost or its pose is stale. Of cameras on one rig the first one's base
// moves, by whichever of them is followed (rig_tf.h), and those of the others stand still on it: a
// frame has one parent.
#ifndef POSED_CAPTURE_RECORDER_RECORDED_TF_H
#define POSED_CAPTURE_RECORDER_RECORDED_TF_H

#include "capture/mcap/foxglove.h"
#include "capture/recorder/writer.h"

struct recorded_tf; // opaque

// Where the base of a camera moved to in its odom.
struct recorded_move {
    uint32_t camera;
    int64_t time_ns;
    struct se3 T_odom_base;
    bool is_known; // else nobody knows
    bool is_own;   // the pose that was put, as it stands
};

// has_bases: the cameras sit on bases as T_base_optical says; else each is its own base. Returns 0
// or -ENOMEM.
__attribute__((warn_unused_result)) int recorded_tf_create(struct recorded_tf **out,
                                                           const struct writer_camera *cameras,
                                                           uint32_t n_cameras, bool has_bases);
void recorded_tf_destroy(struct recorded_tf **tf);

// Where the camera's base stands still on the first one's; NULL: it moves in its own odom.
const struct se3 *recorded_tf_place(const struct recorded_tf *tf, uint32_t camera);

// Each pose of a camera as it comes: of its base in its odom, and what the tracker said of it;
// after each recorded_tf_next as often as it returns true.
void recorded_tf_put(struct recorded_tf *tf, uint32_t camera, int64_t time_ns,
                     const struct se3 *T_odom_base, const struct foxglove_odometry *odometry);
bool recorded_tf_next(struct recorded_tf *tf, struct recorded_move *out);

// Whether tf has the map of this camera, of which a pose was put just now; then *inout_T_map_odom,
// of its odom in its map, becomes that of tf's odom.
bool recorded_tf_map(const struct recorded_tf *tf, uint32_t camera, struct se3 *inout_T_map_odom);

#endif

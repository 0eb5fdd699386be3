// SPDX-License-Identifier: Apache-2.0
// The way of a rig in tf, which has one frame for it, whichever cameras deliver: the first camera's
// while that does; where nothing good has come of it for RIG_TF_SILENT_NS (it ended or is
// unplugged), or for RIG_TF_LOST_NS of its stamps in which it says that it is lost, that of another
// camera, from where the first one's ended: with all that came of it meanwhile. Until then tf says
// nothing of a lost one's last pose while another one knows better, and nothing of a pose that is
// stale. It then stays with that one as
// long as it delivers, so that tf does not jump back when the first returns.
#ifndef POSED_CAPTURE_ROS_RIG_TF_H
#define POSED_CAPTURE_ROS_RIG_TF_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/se3.h"

// More than the cameras of a rig that is played as fast as possible may be apart.
#define RIG_TF_SILENT_NS   INT64_C(1500000000)
// A frame or two that fail are no reason to change.
#define RIG_TF_LOST_NS     INT64_C(200000000)
#define RIG_TF_LOST_FRAMES 3
// Poses of a camera that are kept, 0.2 MB: what comes in the silence, which is waited for no longer
// than until there are RIG_TF_WAITING (700 a second), and as many that came before but lie behind
// the newest good pose by their stamps, as cameras may be apart.
#define RIG_TF_KEPT        2048
#define RIG_TF_WAITING     (RIG_TF_KEPT / 2)

struct rig_tf_pose {
    int64_t time_ns;         // of the first camera's clock
    int64_t clock_set_ns;    // what is told has it in time_ns, too; here times are compared
    struct se3 T_odom_first; // the first camera's base, in this camera's odom
};

struct rig_tf_camera {
    struct se3 T_base_first; // the first camera's base on this one's
    int64_t ahead_ns;        // this camera's clock, of the first one's
    struct se3 T_tf_odom;    // its odom in tf's, when it is the one that tf follows
    struct rig_tf_pose kept[RIG_TF_KEPT];
    uint32_t n_kept;     // ever
    uint32_t n_waiting;  // of them, since the newest good pose of the one that tf follows
    int64_t good_put_ns; // of that one
};

struct rig_tf {
    struct rig_tf_camera *cameras; // the caller's, `T_base_first` and `ahead_ns` filled in, else 0
    uint32_t followed;             // its number
    bool has_begun, has_changed;   // has_changed: from the first camera to another, ever
    uint32_t n_lost;               // frames of the one that is followed, since its good one
    int64_t other_put_ns;          // of the newest good pose of another one, 0: none
    int64_t good_put_ns, out_ns;   // CLOCK_MONOTONIC of its newest good pose; the newest time in tf
    struct rig_tf_pose good;       // in tf's odom
    struct rig_tf_pose newest;     // of the one that is followed, for rig_tf_next
    bool has_newest;
    uint32_t n_out;    // before it, of those that are kept: from this one on
    int64_t unseen_ns; // of the newest change: so much of the way no kept pose tells
};

// A pose of the base of a camera in its own odom. time_ns grows evenly where the machine's clock is
// set: what goes out has clock_set_ns added. put_ns: CLOCK_MONOTONIC of its coming.
struct rig_tf_sight {
    uint32_t of;
    int64_t time_ns, clock_set_ns, put_ns;
    struct se3 T_odom_base;
    bool is_lost;      // the pose is the last one that was known
    bool is_predicted; // where a dropped frame is expected
    bool is_stale;     // and so long after the newest pose that nobody knows where it is
};

void rig_tf_begin(struct rig_tf *tf, struct rig_tf_camera *cameras);

// Poses of each camera as they come; after each rig_tf_next as often as it returns true.
void rig_tf_put(struct rig_tf *tf, const struct rig_tf_sight *sight);

// Whether tf moves: then *out has the first camera's base in tf's odom. More than once where tf has
// gone on to another camera.
bool rig_tf_next(struct rig_tf *tf, struct rig_tf_pose *out);

// tf's odom in the first camera's map, of that camera's own odom in it, while tf follows it: the
// two are one until tf has followed another.
struct se3 rig_tf_odom_in_map(const struct rig_tf *tf, const struct se3 *T_map_odom);

#endif

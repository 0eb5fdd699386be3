// SPDX-License-Identifier: Apache-2.0
// The rig in the daemon: takes the poses of all cameras from their loops, and publishes one pose of
// the body that carries them (topic `rig`; proto/rig_fusion.h has the method).
#ifndef POSED_DAEMON_RIG_POSE_H
#define POSED_DAEMON_RIG_POSE_H

#include "capture/capture.h"
#include "capture/recorder/recorder.h"
#include "daemon/config/config.h"
#include "daemon/publish.h"
#include "daemon/ros/ros.h"
#include "daemon/trajectory_file.h"
#include "gpu/model/pose_graph_join.h"
#include "gpu/track/track.h"

#define RIG_POSE_IN_TIME 256 // a tenth of a second of one core

struct rig_pose; // opaque

struct rig_pose_settings {
    // Of each camera but the first: the file of posectl rig calibrate, which says where it sits.
    const char *places[CONFIG_MAX_CAMERAS];
    uint32_t n_cameras;
    bool patient; // rig_fusion.h: a camera that runs ahead waits for the others
    bool replay;  // no camera is live
    uint64_t session;
    const char *odom_frame, *base_frame; // of the messages; copied
    struct publish_channel *publish;     // the rig's
    bool (*stop)(void *user);            // any thread: nobody waits any more
    void *user;
    struct log_sink log;
};

// Returns 0; -EINVAL (a file, with its reason in the log), -ENOMEM.
__attribute__((warn_unused_result)) int rig_pose_create(struct rig_pose **out,
                                                        const struct rig_pose_settings *settings);
void rig_pose_destroy(struct rig_pose **rig);

// Where a camera sits on the body, which the first one's optical frame is; as long as the rig is
// there. Any thread.
const struct se3 *rig_pose_place(const struct rig_pose *rig, uint32_t camera);

// How far its clock is ahead of the first one's, as its file says. Any thread.
int64_t rig_pose_ahead_ns(const struct rig_pose *rig, uint32_t camera);

// Poses go to this file, too; NULL = none. Before the first put; it must outlive the last.
void rig_pose_write_to(struct rig_pose *rig, struct trajectory_file *file);

// Poses go to ROS, too. Before the first put; it must outlive the last.
void rig_pose_publish_to(struct rig_pose *rig, struct ros *ros);

// Poses go to recordings, too (recorder.h: RECORDER_RIG). Before the first put; it must outlive the
// last.
void rig_pose_record_to(struct rig_pose *rig, struct recorder *recorder);

// The loop of camera `camera`, each frame. T_map_odom: of its map; NULL: it has none. is_cut: its
// poses do not connect to those before (epoch_link.h).
void rig_pose_put(struct rig_pose *rig, uint32_t camera, const struct capture_frame *frame,
                  const struct track_result *result, const struct se3 *T_map_odom, bool is_cut);

// Its loop has ended.
void rig_pose_end(struct rig_pose *rig, uint32_t camera);

// When no more poses come: the keyframes of all cameras, NULL for one without, are joined
// (gpu/model/pose_graph_join.h), adjusted by their images where these are no more than two cameras
// have by default (gpu/model/rig_refine.h), and the file is written anew at its end with the body's
// poses as they agree. A camera that has keyframes of an older epoch of the rig is left out.
// Nothing where the file cannot be completed; where it fails the file stays as it was published,
// with the reason in the log. `in_time`: the daemon was told to stop; images take too long then,
// and so do more than RIG_POSE_IN_TIME keyframes.
void rig_pose_adjust(struct rig_pose *rig, const struct graph *const *graphs, bool in_time);

#endif

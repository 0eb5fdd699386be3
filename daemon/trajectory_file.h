// SPDX-License-Identifier: Apache-2.0
// The trajectory as a text file, written by a thread of its own: a disk that stalls delays no
// frame. The frame loop hands poses over through a bounded queue; whoever follows the file sees
// each pose within milliseconds.
//
// At the end the file can be completed: another one with the poses of the whole session as the
// keyframes were finally adjusted (trajectory_spool.h) takes its name, at once and only when it is
// whole. Until then, and after a crash, it holds the poses as they came. A file that somebody has
// removed meanwhile is written once more at the end.
#ifndef POSED_DAEMON_TRAJECTORY_FILE_H
#define POSED_DAEMON_TRAJECTORY_FILE_H

#include "daemon/trajectory_spool.h"
#include "gpu/model/pose_graph.h"
#include "gpu/track/track.h"
#include "proto/log.h"
#include "proto/trajectory.h"

struct trajectory_file; // opaque

// Creates the file and starts the thread. A file of that name that is not empty is kept: it becomes
// PATH.1 (or .2, ...), with a notice. With `wait` a push waits for room in the queue
// (a replay that drops nothing); without, a full queue ends the trajectory. `adjusted`: it can be
// completed; a pipe, a stream (output_name.h) and a file with covariances, whose poses are of odom,
// never is. Returns 0, or negative errno with the reason in the log.
__attribute__((warn_unused_result)) int trajectory_file_create(struct trajectory_file **out,
                                                               const char *path,
                                                               enum trajectory_format format,
                                                               bool wait, bool adjusted,
                                                               const struct log_sink *log);

// One frame: the pose of the camera in the map, with covariances of the camera in odom, which is
// what they are of; or that it was lost or is predicted, and where a map epoch begins or the
// machine's clock was set (proto/trajectory.h; capture_frame's clock_set_ns). One thread. After a
// failure nothing more is written, and the log has said so once.
void trajectory_file_push(struct trajectory_file *file, int64_t time_ns, int64_t clock_set_ns,
                          const struct se3 *T_map_odom, const struct track_result *result);

bool trajectory_file_is_adjusted(const struct trajectory_file *file); // it can be completed

// The keyframes of a map epoch that is over, as finally adjusted; seq: which push was their frame,
// from 0. Epochs in order, each once; the last one before the file is destroyed. The pushing
// thread, or when it has ended. Nothing where the file cannot be completed.
void trajectory_file_adjust(struct trajectory_file *file, uint32_t epoch,
                            const struct graph_keyframe *keyframes, uint32_t n_keyframes);

// trajectory_spool_find, of all frames that were pushed; -ENODATA where the file is not completed.
// The pushing thread, or when it has ended.
__attribute__((warn_unused_result)) int trajectory_file_find(struct trajectory_file *file,
                                                             struct trajectory_find *inout,
                                                             uint32_t n, int64_t max_gap_ns);

// Writes what is queued, completes the file where keyframes are known, and closes it. One without a
// name any more is written again under that name, or PATH.1, ... where that is taken; one that was
// moved away stays as it was published. Returns 0, or the negative errno of the first failure since
// create. Accepts NULL (then 0).
int trajectory_file_destroy(struct trajectory_file **file);

#endif

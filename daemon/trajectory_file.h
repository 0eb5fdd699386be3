// SPDX-License-Identifier: Apache-2.0
// The trajectory as a text file, written by a thread of its own: a disk that stalls delays no
// frame. The frame loop hands poses over through a bounded queue; whoever follows the file sees
// each pose within milliseconds.
#ifndef POSED_DAEMON_TRAJECTORY_FILE_H
#define POSED_DAEMON_TRAJECTORY_FILE_H

#include "gpu/track/track.h"
#include "proto/log.h"
#include "proto/trajectory.h"

struct trajectory_file; // opaque

// Creates the file and starts the thread. A file of that name that is not empty is kept: it becomes
// PATH.1 (or .2, ...), with a notice. With `wait` a push waits for room in the queue
// (a replay that drops nothing); without, a full queue ends the trajectory. Returns 0, or negative
// errno with the reason in the log.
__attribute__((warn_unused_result)) int
trajectory_file_create(struct trajectory_file **out, const char *path,
                       enum trajectory_format format, bool wait, const struct log_sink *log);

// One pose, of the camera in the map; with covariances of the camera in odom, which is what they
// are of. One thread. After a failure nothing more is written, and the log has said so once.
void trajectory_file_push(struct trajectory_file *file, int64_t time_ns,
                          const struct se3 *T_map_odom, const struct track_result *result);

// Writes what is queued and closes the file. Returns 0, or the negative errno of the first failure
// since create. Accepts NULL (then 0).
int trajectory_file_destroy(struct trajectory_file **file);

#endif

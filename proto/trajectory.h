// SPDX-License-Identifier: Apache-2.0
// Trajectories as text: TUM format, one line `timestamp tx ty tz qx qy qz qw` per pose, seconds and
// metres, quaternion x y z w, '#' starts a comment line; for writing also KITTI's, one line of the
// 12 numbers of the upper 3x4 of T_world_camera, row by row, without time; and TUM's columns with
// what each pose may be off by behind them (pose_error_write).
//
// Four kinds of comment line mean something, in all formats but KITTI's, which has no comments and
// where line n is frame n:
//
//     # map epoch 1, not connected to the lines before
//     # clock set -5.000000000 s since the beginning
//     # 12.345678900 lost: no pose
//     # 12.379011234 predicted: no measurement
//
// Poses behind the first are of another world than those before it; a file begins in epoch 0 where
// it does not say so. The second stands where the machine's clock was set: poses go on in the same
// world, and times behind it are so much later than by the clock of the beginning: earlier ones may
// come again. The others stand for frames that were not tracked, those that never reached the
// tracker (too late, damaged) being predicted. Their pose, the last one once more or where the
// camera is expected, is no measurement, and every program that reads TUM's text would take it for
// one.
#ifndef POSED_PROTO_TRAJECTORY_H
#define POSED_PROTO_TRAJECTORY_H

#include <stdio.h>

#include "proto/log.h"
#include "proto/pose_error.h"
#include "proto/types.h"

// Poses of one world by one clock.
struct trajectory_part {
    uint32_t epoch;
    int64_t clock_set_ns; // how far the machine's clock had been set by then
};

struct trajectory {
    struct stamped_pose *poses; // sorted by time, times of one clock strictly increasing
    size_t n_poses;
    struct pose_error *errors;     // n_poses, NULL: the file has none
    struct trajectory_part *parts; // n_poses, of each; NULL: all of one
};

// Writes one line: time with 9 decimals, the rest too (1 nm). Returns 0 or -EIO.
__attribute__((warn_unused_result)) int trajectory_write_tum(FILE *file,
                                                             const struct stamped_pose *pose);

enum trajectory_format {
    TRAJECTORY_FORMAT_TUM,
    TRAJECTORY_FORMAT_KITTI,
    TRAJECTORY_FORMAT_COVARIANCE,
};

// Writes one line in that format; `error` for COVARIANCE alone. Returns 0 or -EIO.
__attribute__((warn_unused_result)) int trajectory_write(FILE *file, enum trajectory_format format,
                                                         const struct stamped_pose *pose,
                                                         const struct pose_error *error);

// What a file says so far of whoever writes it line by line; {0} at its beginning.
struct trajectory_marks {
    bool is_begun;
    struct trajectory_part part;
};

// What a frame's pose is.
enum trajectory_origin {
    TRAJECTORY_ORIGIN_MEASURED,
    TRAJECTORY_ORIGIN_PREDICTED,
    TRAJECTORY_ORIGIN_LOST,
};

// The frame's line, and before it those of its map epoch and of a set clock where they begin; of a
// frame that was not measured the comment. Returns 0 or -EIO.
__attribute__((warn_unused_result)) int
trajectory_write_marked(FILE *file, enum trajectory_format format, struct trajectory_marks *marks,
                        const struct trajectory_part *part, enum trajectory_origin origin,
                        const struct stamped_pose *pose, const struct pose_error *error);

// Reads a TUM file, or one with covariances, which every line has or none. Lines out of order are
// sorted (with covariances: -EINVAL), equal times keep the first (a warning counts them), neither
// where the clock was set between them; CRLF is accepted. A line with too few fields, NaN,
// infinity, a zero quaternion, a NUL byte or more than 4095 bytes is an error that names file and
// line. Returns 0 and a trajectory to free with trajectory_free, or -ENOENT, -EINVAL, -EIO, -ENOMEM
// with *out empty and the reason in the log.
__attribute__((warn_unused_result)) int
trajectory_read_tum(const char *path, const struct log_sink *log, struct trajectory *out);

// The same from an open file; `name` is for messages. Reads on from where it stands.
__attribute__((warn_unused_result)) int trajectory_parse_tum(FILE *file, const char *name,
                                                             const struct log_sink *log,
                                                             struct trajectory *out);

// Reads the `frame-%06d.pose.txt` files (4x4 camera-to-world) of a 7-Scenes folder; the time of
// frame k is k / 30 s. Links and whatever is no regular file are not read: -EIO. Returns as above.
__attribute__((warn_unused_result)) int
trajectory_read_sevenscenes(const char *folder, const struct log_sink *log, struct trajectory *out);

// Number k of a 7-Scenes file name `frame-%06d` with this suffix (".pose.txt", ".depth.png"): six
// digits, as the format has them. Returns -1 for any other name.
long trajectory_frame_number(const char *name, const char *suffix);

// k / 30 s, cut to ns: the time of frame k where a recording has none.
int64_t trajectory_frame_time_ns(uint64_t number);

// Pose at time_ns: linear in translation, slerp in rotation. Returns 0, or -ERANGE outside the
// trajectory or inside a gap longer than max_gap_ns.
__attribute__((warn_unused_result)) int trajectory_at(const struct trajectory *trajectory,
                                                      int64_t time_ns, int64_t max_gap_ns,
                                                      struct se3 *out_T_world_camera);

// The part that a pose is of.
struct trajectory_part trajectory_part_of(const struct trajectory *trajectory, size_t i);

// The poses of one part, with their covariances. Returns 0 and a trajectory to free, which may have
// no pose, or -ENOMEM with *out empty.
__attribute__((warn_unused_result)) int trajectory_of_part(const struct trajectory *trajectory,
                                                           const struct trajectory_part *part,
                                                           struct trajectory *out);
bool trajectory_is_same_part(const struct trajectory_part *a, const struct trajectory_part *b);

void trajectory_free(struct trajectory *trajectory);

#endif

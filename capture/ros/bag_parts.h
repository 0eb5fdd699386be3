// SPDX-License-Identifier: Apache-2.0
// Which files a ROS recording is in: the one that was named, the only one of a folder, or those
// that rosbag2 made of one recording (--max-bag-size, --max-bag-duration): NAME_0, NAME_1 and so on
// beside a metadata.yaml that lists them.
#ifndef POSED_CAPTURE_ROS_BAG_PARTS_H
#define POSED_CAPTURE_ROS_BAG_PARTS_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/log.h"

#define BAG_MAX_PARTS 10000u // more is no recording of a robot

struct bag_parts {
    char *folder; // that was named; NULL: none was
    char **paths; // in the order in which they were recorded
    size_t n;     // at least one, once found
    const char *suffix;
};

// `path` is a file or a folder, of which the files that end in `suffix` (a literal) count. Several
// are refused unless the recording may_be_split. Their order is that of the metadata.yaml if it
// lists one that is there; else they must be named STEM_0 and so on, all of one STEM and each
// number once: others may be several recordings, as our recorder puts them into one folder, and are
// refused. What belongs to the recording and is not there or is packed as a whole (rosbag2's
// --compression-mode file), and what is there and does not belong to it, is told by name. Returns
// 0, or after logging -ENOENT (no such file in the folder), -EINVAL (several, or too many), or
// -ENOMEM; bag_parts_free in either case.
__attribute__((warn_unused_result)) int bag_parts_find(struct bag_parts *out, const char *path,
                                                       const char *suffix, bool may_be_split,
                                                       const struct log_sink *log);

// Says that the folder's files are not one recording. Returns -EINVAL.
int bag_parts_refuse(const struct bag_parts *parts, const struct log_sink *log);

// A link of one of several must not lead out of their folder (io/folder.h). For who opens the file
// once more by its path, as SQLite does, that holds while nobody changes the folder meanwhile.
// Returns a file descriptor to close, or file_open's errors after logging.
__attribute__((warn_unused_result)) int bag_parts_open(const struct bag_parts *parts, size_t part,
                                                       const struct log_sink *log);

void bag_parts_free(struct bag_parts *parts); // accepts what is all zero

#endif

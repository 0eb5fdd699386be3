// SPDX-License-Identifier: Apache-2.0
// The metadata.yaml that rosbag2 puts beside a recording's files: which files, in which order.
#ifndef POSED_CAPTURE_ROS_BAG_METADATA_H
#define POSED_CAPTURE_ROS_BAG_METADATA_H

#include <stddef.h>

#include "capture/io/folder.h"

#define BAG_METADATA "metadata.yaml"

// The entries of relative_file_paths, as they stand there: in `text`, which is written to, until it
// is freed. The array is the caller's to free. Only the list of one name a line that rosbag2 writes
// is read (yaml-cpp, block style); of others *out_n is 0. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int bag_metadata_files(char *text, char ***out, size_t *out_n);

// The same of the one in a folder, whose text is *out_text (at first {0}): both are the caller's to
// free in either case. Returns 0, -ENOENT (there is none), -ENOMEM or another of folder_read's
// errors; logs only why the folder cannot be opened.
__attribute__((warn_unused_result)) int bag_metadata_read(const char *folder,
                                                          const struct log_sink *log,
                                                          struct file_bytes *out_text, char ***out,
                                                          size_t *out_n);

#endif

// SPDX-License-Identifier: Apache-2.0
// Inside capture/ only: which driver a bare path is for.
#ifndef POSED_CAPTURE_RECOGNISE_H
#define POSED_CAPTURE_RECOGNISE_H

#include <stdbool.h>
#include <stddef.h>

// The driver's name for the file or folder at `path` (or PATH#TOPIC), by what stands in it.
// out_is_mixed: less than a quarter of the folder belongs to that; it may be something else, with
// such a file in it. Returns 0; with *out_driver NULL -EINVAL (nothing that is known), -ENODATA (an
// empty file), -ENOENT or -ENOTDIR (nothing there), -EACCES (it may not be read), another negative
// errno.
__attribute__((warn_unused_result)) int recognise(const char *path, const char **out_driver,
                                                  bool *out_is_mixed);

// A file that is compressed as a whole by zstd, as rosbag2's --compression-mode file leaves them:
// at `path` (or PATH#TOPIC), or the first by name in the folder there, if there is no recording in
// it, and how many there are. Returns 0, -ENOENT when there is none, or -ENOMEM. *out_file is the
// caller's to free.
__attribute__((warn_unused_result)) int recognise_packed(const char *path, char **out_file,
                                                         size_t *out_n);

#endif

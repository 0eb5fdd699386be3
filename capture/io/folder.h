// SPDX-License-Identifier: Apache-2.0
// The files of one recording. A recording may come from anywhere, so an index inside it must not
// lead outside: names are resolved beneath the folder only; absolute names, "..", symbolic links
// that leave the folder, devices and pipes are refused. That holds for harmless links, too: nobody
// can tell them from others, and whoever keeps the images elsewhere names the folder where they
// are. The folder itself may be named through links.
#ifndef POSED_CAPTURE_IO_FOLDER_H
#define POSED_CAPTURE_IO_FOLDER_H

#include "proto/log.h"
#include "proto/types.h"

// Largest image file and largest text file that are read.
#define FOLDER_MAX_IMAGE_BYTES ((size_t)64 << 20)
#define FOLDER_MAX_TEXT_BYTES  ((size_t)256 << 20)

// Bytes of one file; grows to the largest file seen and is reused. {0} is a valid empty buffer.
// data[n_bytes] is always 0 after a successful read, so that text can be parsed as a string.
struct file_bytes {
    unsigned char *data;
    size_t n_bytes, capacity;
};

// Opens a folder. Returns a file descriptor to close, or -ENOENT, -ENOTDIR, other negative errno
// after logging the reason.
__attribute__((warn_unused_result)) int folder_open(const char *path, const struct log_sink *log);

// true when `name` is relative and has no ".." part (a lexical check, for indexes).
bool folder_name_is_safe(const char *name);

// Opens the regular file `name` beneath the folder for reading. Returns a file descriptor, or
// -ENOENT, -ELOOP (a link that loops), -EXDEV (a name or link that leaves the folder), -EINVAL (not
// a regular file) or another negative errno. Logs nothing.
__attribute__((warn_unused_result)) int folder_open_file(int folder, const char *name);

// Reads the whole file `name` beneath the folder. Returns 0, folder_open_file's errors, -EFBIG
// (longer than max_bytes), -EIO or -ENOMEM; logs nothing.
__attribute__((warn_unused_result)) int folder_read(int folder, const char *name, size_t max_bytes,
                                                    struct file_bytes *bytes);

// folder_read for text: in addition refuses NUL bytes (-EINVAL) and logs every failure except
// -ENOENT as "<path>/<name>: <reason>".
__attribute__((warn_unused_result)) int folder_read_text(int folder, const char *path,
                                                         const char *name,
                                                         const struct log_sink *log,
                                                         struct file_bytes *bytes);

// Reads the whole of a file as the user named it, which may be a pipe. Returns 0, -EFBIG (longer
// than max_bytes: a device, or a mistaken path), -ENOENT or another negative errno after logging
// the reason.
__attribute__((warn_unused_result)) int
file_read(const char *path, size_t max_bytes, const struct log_sink *log, struct file_bytes *bytes);

// Opens a recording that is one file, as the user named it. Returns a file descriptor to close, or
// -EINVAL (not a regular file), -ENOENT, other negative errno after logging the reason.
__attribute__((warn_unused_result)) int file_open(const char *path, const struct log_sink *log);

// Reads exactly n_bytes at `offset`. Returns 0, -EBADMSG (the file ends before) or another negative
// errno; logs nothing.
__attribute__((warn_unused_result)) int file_read_at(int fd, void *out, size_t n_bytes,
                                                     uint64_t offset);

// Writes all of it where the file stands. Returns 0 or a negative errno; logs nothing.
__attribute__((warn_unused_result)) int file_write(int fd, const void *data, size_t n_bytes);

// What an errno of the functions above means here, for messages.
const char *folder_error(int negative_errno);

void file_bytes_free(struct file_bytes *bytes);

#endif

// SPDX-License-Identifier: Apache-2.0
// The name of a file that is written: where it leads, and which names beside it are free.
//
// A name that leads to a descriptor of this process (proto/output_file.h), to the file of its
// standard output or error, or to anything below /dev or /proc, is a stream, also where a regular
// file is behind it (`--trajectory /dev/stdout > FILE`): it is written to, and never renamed,
// replaced or emptied. /dev/shm is a folder like others.
#ifndef POSED_DAEMON_OUTPUT_NAME_H
#define POSED_DAEMON_OUTPUT_NAME_H

#include <stdbool.h>
#include <stddef.h>

// Longest name in its folder that leaves room for OUTPUT_NAME_MAX_KEPT behind it.
#define OUTPUT_NAME_MAX_BYTES 250
#define OUTPUT_NAME_MAX_KEPT  9999

// The real path that the name leads to, all links followed, also where nothing is there yet: to be
// freed. *out_is_stream may be NULL. Returns 0, or a negative errno with *out NULL (-ENOENT: its
// folder is not there).
__attribute__((warn_unused_result)) int output_name_resolve(const char *path, char **out,
                                                            bool *out_is_stream);

bool output_name_is_stream(const char *path);

// Opens a stream to append to: a descriptor that the process was given as it is, else what is there
// already.
// Returns a descriptor, or a negative errno.
__attribute__((warn_unused_result)) int output_name_open_stream(const char *path);

// Whether both lead to one file, which need not be there.
bool output_name_is_same(const char *a, const char *b);

// A new, empty file in the folder of `path`, mode 0600, with a short name of its own. Returns a
// descriptor and *out_name, to be freed, or a negative errno.
__attribute__((warn_unused_result)) int output_name_make_beside(const char *path, char **out_name);

// Renames `from` to the first of PATH.1, PATH.2, ... that is free, written to out. Returns 0,
// -EEXIST (none is) or another negative errno.
__attribute__((warn_unused_result)) int output_name_move_aside(const char *from, const char *path,
                                                               char *out, size_t out_bytes);

#endif

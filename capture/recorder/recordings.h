// SPDX-License-Identifier: Apache-2.0
// Inside capture/ only: the folder of recordings - which formats there are, what lies in it, what
// has to go. The recorder adds to it; names and formats are recorder.h's.
#ifndef POSED_CAPTURE_RECORDER_RECORDINGS_H
#define POSED_CAPTURE_RECORDER_RECORDINGS_H

#include "capture/recorder/recorder.h"
#include "capture/recorder/writer.h"

const struct writer_format *recordings_format(enum recorder_format format);

// Opens the folder, as it is now; one that is missing is made (one level), which the log tells.
// Returns a file descriptor to close, or -ENOTDIR (a file is in its place) or another negative
// errno, which is not logged.
__attribute__((warn_unused_result)) int recordings_open(const char *path,
                                                        const struct log_sink *log);

// recorder_list for an open folder.
__attribute__((warn_unused_result)) long recordings_list(int folder, struct recorder_entry **out);

// Deletes the oldest recordings until the others take no more than keep_bytes and none is older
// than keep_age_s; 0 = no such limit. Logs each one. A folder with anything in it that its format
// does not write is neither deleted nor counted; of a file its name decides.
void recordings_keep_limits(int folder, uint64_t keep_bytes, double keep_age_s,
                            const struct log_sink *log);

// What the recording of this file's or folder's name takes on disk; 0 where there is none.
uint64_t recordings_bytes(int folder, const char *file);

// Deletes one, if it is there.
void recordings_delete(int folder, const char *name, enum recorder_format format);

#endif

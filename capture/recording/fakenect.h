// SPDX-License-Identifier: Apache-2.0
// File names of a fakenect recording (libfreenect's `record`): d-<host seconds>-<ticks>.pgm depth,
// r-....ppm colour, a-....dump accelerometer, listed in INDEX.txt in the order of capture.
#ifndef POSED_CAPTURE_RECORDING_FAKENECT_H
#define POSED_CAPTURE_RECORDING_FAKENECT_H

#include "proto/log.h"
#include "proto/types.h"

struct fakenect_name {
    char kind; // 'd', 'r' or 'a'
    int64_t host_ns;
    bool exact; // nine decimals: our recorder wrote the time of capture, not when the host had it
    uint32_t ticks;
};

// Returns false when this is no name of a recorded file.
bool fakenect_parse_name(const char *name, struct fakenect_name *out);

// One depth frame of INDEX.txt with the accelerometer file that was written before it.
struct fakenect_frame {
    const char *name, *accelerometer; // inside the text; the latter NULL when there was none
    int64_t time_ns;                  // device clock on the host's time
    uint64_t ticks;                   // unwrapped
};

struct fakenect_index {
    struct fakenect_frame *frames;
    size_t n_frames;
    size_t n_skipped; // depth files whose stamp repeats or goes backwards
};

// Parses 0-terminated text in place (it cuts the lines; the names point into it). Returns 0, or
// after logging "<name>:<line>: <reason>" -EINVAL (a line that is no such name, or leads out of
// the folder), or -ENOMEM. On failure *out is empty.
__attribute__((warn_unused_result)) int fakenect_index_parse(char *text, const char *name,
                                                             const struct log_sink *log,
                                                             struct fakenect_index *out);
void fakenect_index_free(struct fakenect_index *index);

#endif

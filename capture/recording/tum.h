// SPDX-License-Identifier: Apache-2.0
// The index of a TUM recording, depth.txt: lines `timestamp path`, seconds with any number of
// decimals. CRLF, comments and empty lines are accepted, further fields ignored (association
// files); lines out of order are sorted; of equal time stamps the first stays.
#ifndef POSED_CAPTURE_RECORDING_TUM_H
#define POSED_CAPTURE_RECORDING_TUM_H

#include "proto/log.h"
#include "proto/types.h"

// Decimal seconds to nanoseconds; *text moves behind the number. Returns false when there is no
// number from 0 to 9e9 s; digits after the ninth decimal are cut off.
bool tum_parse_time(const char **text, int64_t *out_ns);

struct tum_entry {
    int64_t time_ns;
    const char *path; // inside the text
    size_t line;      // 1 = first
};

struct tum_index {
    struct tum_entry *entries;
    size_t n_entries;
};

// Parses 0-terminated text in place (it cuts the lines; the paths point into it). Returns 0, or
// after logging
// "<name>:<line>: <reason>" -EINVAL: not a time stamp, no path, or a path that leads out of the
// folder; or -ENOMEM. On failure *out is empty.
__attribute__((warn_unused_result)) int
tum_index_parse(char *text, const char *name, const struct log_sink *log, struct tum_index *out);
void tum_index_free(struct tum_index *index);

#endif

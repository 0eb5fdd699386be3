// SPDX-License-Identifier: Apache-2.0
// Tells what of a recording cannot be read: file, byte, and how much. Of each of a few places a
// line, of the rest how many there are.
#ifndef POSED_CAPTURE_IO_DAMAGE_H
#define POSED_CAPTURE_IO_DAMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/log.h"

struct damage {
    const char *name; // of the file
    const struct log_sink *log;
    size_t n; // places so far
};

// Warns: "NAME: damaged at byte AT: ...".
__attribute__((format(printf, 3, 4))) void damage_tell(struct damage *damage, uint64_t at,
                                                       const char *format, ...);
// How many places were not told.
void damage_end(const struct damage *damage);

#endif

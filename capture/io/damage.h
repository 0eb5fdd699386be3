// SPDX-License-Identifier: Apache-2.0
// What of a recording cannot be read: file, byte, and how much. Noted while it is read, told at the
// end: a line for each of a few places, of the rest how many there are.
#ifndef POSED_CAPTURE_IO_DAMAGE_H
#define POSED_CAPTURE_IO_DAMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/log.h"

#define DAMAGE_MAX_TOLD 10u

struct damage {
    size_t n;             // places so far; all zero to begin with
    uint64_t records_end; // of the last place, where it is of records; else 0
    struct {
        uint64_t at;
        uint64_t n_bytes, n_records; // of records; else 0
        char what[200];
    } places[DAMAGE_MAX_TOLD];
};

__attribute__((format(printf, 3, 4))) void damage_note(struct damage *damage, uint64_t at,
                                                       const char *format, ...);

// A record from `begin` to `end` that cannot be read. Such as follow one another are one place:
// zeros where power went are records of eight bytes in a bag.
void damage_note_record(struct damage *damage, uint64_t begin, uint64_t end);

// Warns of each: "NAME: damaged at byte AT: ...".
void damage_tell(const struct damage *damage, const char *name, const struct log_sink *log);

#endif

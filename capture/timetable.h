// SPDX-License-Identifier: Apache-2.0
// Which frames of a recording are played, and when. Used by replay.c only.
//
// Frames are counted as they are played: q = 0, 1, ... A round is the recording once; with loop, q
// goes on counting, and times go on growing. All functions are pure; any thread.
#ifndef POSED_CAPTURE_TIMETABLE_H
#define POSED_CAPTURE_TIMETABLE_H

#include "capture/driver.h"

#define TIMETABLE_MAX_JUMPS 64

// A pause of the recording that is shortened: frames from `entry` on are due earlier by excess_ns.
struct timetable_jump {
    uint64_t entry;
    int64_t excess_ns;
};

struct timetable {
    const struct capture_driver *driver;
    const void *state;
    uint64_t first, step, n_round; // entries first, first + step, ...
    int64_t first_ns, period_ns, round_ns, paced_round_ns;
    struct timetable_jump jumps[TIMETABLE_MAX_JUMPS];
    size_t n_jumps;
};

// Chooses what lies within start, duration, step and number of frames of the settings. The driver's
// state must outlive it. Returns 0, or -ENOENT with the reason in the log: no frame is left.
__attribute__((warn_unused_result)) int timetable_make(struct timetable *out,
                                                       const struct capture_driver *driver,
                                                       const void *state, uint64_t n_entries,
                                                       const struct capture_settings *settings);

// Frame number, as the driver counts.
uint64_t timetable_entry(const struct timetable *timetable, uint64_t q);

// The time stamp of frame q (of the n_th round: as much later), and the driver's number of it.
int64_t timetable_stamp_ns(const struct timetable *timetable, uint64_t q, uint64_t *out_index);

// By how much that stamp is later than the driver's own.
int64_t timetable_ahead_ns(const struct timetable *timetable, uint64_t q);

// Time from the first frame to frame q, where pauses longer than REPLAY_LONGEST_PAUSE_NS take that
// much.
int64_t timetable_paced_ns(const struct timetable *timetable, uint64_t q);

// Recorded time from the first frame of the round to frame q.
int64_t timetable_position_ns(const struct timetable *timetable, uint64_t q);

#endif

// SPDX-License-Identifier: Apache-2.0
// Inside capture/ only: which images of a live source are taken, by their stamps, where these are
// set by a program and not by the camera's own clock. Times of what is taken grow, until another
// clock begins: a recording that is played in a loop, a simulator that starts anew, a clock that is
// set back. One wrong stamp is none.
#ifndef POSED_CAPTURE_LIVE_STAMPS_H
#define POSED_CAPTURE_LIVE_STAMPS_H

#include <stdbool.h>
#include <stdint.h>

// A stamp this much further than the time that passed is ahead.
#define LIVE_STAMPS_AHEAD_NS INT64_C(2000000000)
// After so long of stamps that grow by themselves from an earlier one, another clock is believed.
// Shorter than the silence that is told of.
#define LIVE_STAMPS_BACK_NS  INT64_C(800000000)

// Stamps this near to the wall's time are of this machine's clock.
#define LIVE_STAMPS_NEAR_NS INT64_C(2000000000)
// So long after the machine's clock was set images may come that were stamped by it before.
#define LIVE_STAMPS_OWED_NS INT64_C(2000000000)

// Of so many images the one that came with the least delay tells what the stamps should be.
#define LIVE_STAMPS_RECENT 8

enum live_stamp {
    LIVE_STAMP_TAKEN,
    LIVE_STAMP_BACK,      // left out: not after the newest one taken
    LIVE_STAMP_AHEAD,     // left out: ahead, unless the next one goes on from it
    LIVE_STAMP_NEW_CLOCK, // taken, the first of another clock, which is behind the one before it
};

struct live_time {
    int64_t stamp_ns, arrived_ns; // CLOCK_MONOTONIC
};

struct live_stamps {                 // begins as all zero
    struct live_time newest;         // that was taken; arrived_ns 0: none
    struct live_time first_odd, odd; // of those left out since that go on from each other
    bool is_new_source;
    bool has_stamp;    // an image that has one was taken
    int64_t stamp_ns;  // of the newest of these
    int64_t step_ns;   // from image to image, by the newest two stamps that go on; 0 = not known
    unsigned n_filled; // images without a stamp since
    int64_t owed_ns;   // of live_stamps_clock_set, which no stamp has followed yet
    int64_t owed_at_ns;
    int64_t recent_ns[LIVE_STAMPS_RECENT]; // stamp - arrival of the newest that go on
    unsigned n_recent;                     // ever
    int64_t set_ns; // how far the machine's clock was set that they follow, as of live_clock
};

// Before the first image is judged, which has this stamp (0: none) at wall_ns: stamps of this
// machine's clock begin with what that was set by in this process, so that their even times meet
// those of other cameras that began before it was set.
void live_stamps_begin(struct live_stamps *stamps, int64_t stamp_ns, int64_t wall_ns,
                       int64_t clock_set_ns);

// The next image's.
enum live_stamp live_stamps_judge(struct live_stamps *stamps, int64_t stamp_ns, int64_t arrived_ns);

// The next image has no stamp. Among others that have one it is always taken, and *out_stamp_ns is
// the time on their clock: that of the image before it and what passed since, yet no more than
// leaves the next stamp behind it, however late this image came. Before the first that has one it
// is wall_ns, judged as a stamp, and that one may be of another clock at once.
enum live_stamp live_stamps_fill(struct live_stamps *stamps, int64_t wall_ns, int64_t arrived_ns,
                                 int64_t *out_stamp_ns);

// The machine's clock was set by step_ns, as is known at now_ns (CLOCK_MONOTONIC). A program of
// this machine that stamps by it goes on from there: the next stamp that agrees with that, by the
// recent images' delays, is so, and no other clock's.
void live_stamps_clock_set(struct live_stamps *stamps, int64_t step_ns, int64_t now_ns);

// The next image is of another program, which may have another clock.
void live_stamps_new_source(struct live_stamps *stamps);

#endif

// SPDX-License-Identifier: Apache-2.0
// Less work on each frame before any is dropped (tracker.adapt). For each frame of a camera or a
// paced recording: how much work it gets. A recording as fast as possible always gets all of it.
//
// Down: only when newer frames wait, that is, when without this it would have been dropped; a
// machine that keeps up is never touched. To HALF, to LEAST when HALF too took longer than the
// frames' period or two frames wait, so that what has gathered is worked off. The source is asked
// to let CAPTURE_MAX_WAITING frames wait (capture_set_max_waiting). What has gathered before the
// first frame that was worked on is no sign of slowness: it is dropped, up to the newest.
//
// Up: one step, on trial, after `hold` frames that were done in ADAPT_SPARE of their period. What
// fuller work would take is not guessed, as it depends on settings, machine and scene: it is tried
// with one frame, which may delay the next but drops none. A trial that fails doubles `hold`, which
// is ignored when that work would fit into the period as it is by then; time that full work stands
// halves it again.
//
// Where even the least work is too slow, waiting would make every pose late for nothing: after
// ADAPT_HOPELESS dropped frames none may wait any more, until the work fits again.
//
// Plain data; the frame loop's.
#ifndef POSED_DAEMON_ADAPT_EFFORT_H
#define POSED_DAEMON_ADAPT_EFFORT_H

#include "capture/capture.h"
#include "gpu/track/alignment_effort.h"

#define ADAPT_HOLD     10  // frames: a third of a second, so that one stall costs no more
#define ADAPT_HOLD_MAX 480 // 16 s
#define ADAPT_TRIAL    10  // frames: longer work shows at once, noise takes some
#define ADAPT_SPARE    0.8
#define ADAPT_HOPELESS 10
#define ADAPT_CALM     30 // frames with full work before it is said that less work has ended

struct adapt {
    enum track_effort effort;
    int64_t capture_ns; // of the newest frame, 0 = none yet
    int64_t period_ns;  // running mean, 0 = not known
    int64_t took_ns;    // work on the frame before
    enum track_effort took_effort;
    int64_t full_ns;        // full work on the last frame that had it, 0 = none had
    int64_t failed_ns;      // what took too long in the last trial
    uint32_t hold;          // good frames before a trial
    uint32_t n_good;        // frames with time to spare; a slow one takes some away
    uint32_t n_trial;       // frames left of a trial
    uint32_t n_dropped;     // at the least effort, since the last one behind which none waited
    uint32_t n_max_waiting; // for capture_set_max_waiting
    bool is_searching;      // those that wait do so since a search
    uint32_t n_full;        // frames with full work since the last with less
    bool is_said;           // that less work is done
};

enum adapt_news { ADAPT_NOTHING, ADAPT_BEGINS, ADAPT_ENDS };

void adapt_init(struct adapt *adapt);

// A frame has come, dropped or not: `effort` and `n_max_waiting` hold from now on.
void adapt_frame(struct adapt *adapt, const struct capture_frame *frame);

// All work on that frame, which was not dropped, took so long, without search_ns for a camera that
// is lost or not found yet in a loaded map: less work would not end that, and frames that have
// waited since then, while work fits into their period, are no sign of slowness. Returns what is to
// be said: that less work has begun, or has ended ADAPT_CALM frames ago.
enum adapt_news adapt_done(struct adapt *adapt, int64_t took_ns, int64_t search_ns);

// Why less work has begun, as a line: work takes longer than frames are apart, or it does not and
// something else held this process up.
void adapt_explain(const struct adapt *adapt, char *out, size_t size_bytes);

// When the frame after the newest would be dropped if none could wait, CLOCK_MONOTONIC; INT64_MAX:
// never, or not known.
int64_t adapt_until_ns(const struct adapt *adapt);
// When the next frame comes, likewise; INT64_MAX: of a recording as fast as possible, any time. Of
// the first frame nothing is known but that it is over.
int64_t adapt_due_ns(const struct adapt *adapt);

#endif

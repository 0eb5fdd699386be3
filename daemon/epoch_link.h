// SPDX-License-Identifier: Apache-2.0
// Whether the poses of a camera connect to those since it was begun or reset on request: a map
// epoch that nobody asked for (lost for long, a clock that was set, another camera) goes on
// from the last pose, without the way that the camera went meanwhile. The frame loop's; plain data,
// all zero to begin with.
#ifndef POSED_DAEMON_EPOCH_LINK_H
#define POSED_DAEMON_EPOCH_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EPOCH_LINK_TOLD_NS    INT64_C(10000000000)
#define EPOCH_LINK_TEXT_BYTES 128

// Why the next epoch begins.
enum epoch_cause {
    EPOCH_BY_TRACKER, // it was lost for long, and starts anew
    EPOCH_BY_REQUEST, // a reset, a recording that was wound: here the poses begin
    EPOCH_BY_MAP,     // one was loaded on request: as connected as before until it is found in it
    EPOCH_BY_CLOCK,
    EPOCH_BY_CAMERA,
    EPOCH_BY_DEVICE,
};

struct epoch_link {
    bool has_epoch;
    uint32_t epoch;        // of the newest frame
    enum epoch_cause next; // of the epoch that the next frame may begin
    bool is_searched;      // at the newest frame, in a map that was loaded
    bool is_cut;           // the poses do not connect to those before epoch `cut_epoch`
    uint32_t cut_epoch;
    enum epoch_cause cause; // of that one
    int64_t cut_ns;         // CLOCK_MONOTONIC
};

// Before a frame: why that begins an epoch, if it does. The last one counts, but that a loaded map
// does not replace another cause.
void epoch_link_expect(struct epoch_link *link, enum epoch_cause cause);

// Each frame. is_searching: for where it is in a loaded map.
void epoch_link_follow(struct epoch_link *link, uint32_t epoch, bool is_searching, int64_t now_ns);

// What to say for EPOCH_LINK_TOLD_NS since it was cut; false: nothing.
bool epoch_link_tell(const struct epoch_link *link, int64_t now_ns,
                     char out[EPOCH_LINK_TEXT_BYTES]);

#endif

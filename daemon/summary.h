// SPDX-License-Identifier: Apache-2.0
// What a run came to: how many frames ended how, and how far the poses are from the truth.
#ifndef POSED_DAEMON_SUMMARY_H
#define POSED_DAEMON_SUMMARY_H

#include "capture/capture.h"
#include "daemon/shared_state.h"

// The first frame whose time stamp no longer matches the truth's: where a recording begins anew or
// is wound, time stamps go on growing.
struct summary_end {
    uint64_t seq;    // UINT64_MAX: none
    const char *why; // what the recording did
};

// Logs the counts (is_searching: the camera is not found in the map that was loaded) and, where the
// source knows its trajectory, the absolute and relative error of the tracked frames before
// evaluated_end that the shared keeps. A LOST one repeats the last pose and is left out; of several
// map epochs, which are not connected, the longest is compared.
void summary_log(const struct shared *shared, const struct capture *capture,
                 const struct summary_end *evaluated_end, bool is_searching,
                 const struct log_sink *log);

#endif

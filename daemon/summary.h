// SPDX-License-Identifier: Apache-2.0
// What a run came to: how many frames ended how, and how far the poses are from the truth.
#ifndef POSED_DAEMON_SUMMARY_H
#define POSED_DAEMON_SUMMARY_H

#include "capture/capture.h"
#include "daemon/shared_state.h"

// Logs the counts and, where the source knows its trajectory, the absolute and relative error of
// all frames before evaluated_end that the shared keeps, lost and dropped ones included: where a
// recording begins anew or is wound, time stamps go on growing and no longer match the truth's.
void summary_log(const struct shared *shared, const struct capture *capture, uint64_t evaluated_end,
                 const struct log_sink *log);

#endif

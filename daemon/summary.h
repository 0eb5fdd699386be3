// SPDX-License-Identifier: Apache-2.0
// What a run came to: how many frames ended how, and how far the poses are from the truth.
#ifndef POSED_DAEMON_SUMMARY_H
#define POSED_DAEMON_SUMMARY_H

#include "capture/capture.h"
#include "daemon/board.h"

// Logs the counts and, where the source knows its trajectory, the absolute and relative error of
// all frames before judged_end that the board keeps, lost and dropped ones included: where a
// recording begins anew or is wound, time stamps go on growing and no longer match the truth's.
void summary_log(const struct board *board, const struct capture *capture, uint64_t judged_end,
                 const struct log_sink *log);

#endif

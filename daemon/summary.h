// SPDX-License-Identifier: Apache-2.0
// What a run came to: how many frames ended how, and how far the poses are from the truth.
#ifndef POSED_DAEMON_SUMMARY_H
#define POSED_DAEMON_SUMMARY_H

#include "capture/capture.h"
#include "daemon/board.h"

// Logs the counts and, where the source knows its trajectory, the absolute and relative error of
// all frames that the board keeps, lost and dropped ones included.
void summary_log(const struct board *board, const struct capture *capture,
                 const struct log_sink *log);

#endif

// SPDX-License-Identifier: Apache-2.0
// The daemon's log: one line on stderr per call, as text, with journald's <level> prefix, or as a
// JSON object; at most rate_hz lines a second and level, what exceeds it is counted and reported.
//
// Thread-safe. Lines of several threads do not mix. Nobody waits for stderr: while it takes nothing
// (a stopped journal, a pipe that is not read, a terminal after Ctrl-S), lines are left out; how
// many is its first line afterwards.
#ifndef POSED_DAEMON_LOG_H
#define POSED_DAEMON_LOG_H

#include "daemon/config/config.h"
#include "proto/log.h"

struct log; // opaque

struct log_settings {
    enum log_level level; // default info; lines of higher number are left out
    enum config_log_format format;
    uint32_t rate_hz; // default 50; 0 = no limit
};

// Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int log_create(struct log **out,
                                                   const struct log_settings *settings);
void log_destroy(struct log **log);

// Changes the settings of a running log.
void log_configure(struct log *log, const struct log_settings *settings);

// Also hands lines of notice and above, without prefix, to `listener`; NULL ends it. The listener
// is called from the thread that logs and must not log itself.
void log_listen(struct log *log, void (*listener)(void *user, enum log_level, const char *line),
                void *user);

// Shows a line on the terminal that the next line, or the next of these, takes the place of. Only
// when the format is text; the caller has seen that stderr is a terminal.
void log_show_status(struct log *log, const char *text);

// Lines of LOG_LEVEL_ERROR so far.
unsigned log_errors(const struct log *log);

// For libraries; valid until log_destroy.
struct log_sink log_sink(struct log *log);

#endif

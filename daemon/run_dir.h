// SPDX-License-Identifier: Apache-2.0
// The run directory: the folder of the ipc sockets, and one daemon's alone. It is locked, so that
// nobody takes over the sockets of a running daemon, and refused where another user could.
#ifndef POSED_DAEMON_RUN_DIR_H
#define POSED_DAEMON_RUN_DIR_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/log.h"

// Where it is: the configured one, else $RUNTIME_DIRECTORY, else /run/posed where it can be
// written, else $XDG_RUNTIME_DIR/posed, else /tmp/posed-UID.
void run_dir_find(const char *configured, char *out, size_t size_bytes);

// Whether it can be one: nothing is there, or a folder, which is all that can be told without being
// the daemon's user. If not, the reason is in the log.
__attribute__((warn_unused_result)) bool run_dir_check(const char *run_dir,
                                                       const struct log_sink *log);

// Makes the folder (0750) where it is missing, and locks it. A symbolic link is followed. Returns a
// descriptor that holds the lock until it is closed; with the reason in the log -EBUSY (another
// daemon is running there), -EPERM (no folder, or another user's, or one in which everybody can
// write; or a link that is another user's or leads to one of these), another negative errno.
__attribute__((warn_unused_result)) int run_dir_lock(const char *run_dir,
                                                     const struct log_sink *log);

#endif

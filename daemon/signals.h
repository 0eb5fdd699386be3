// SPDX-License-Identifier: Apache-2.0
// What SIGTERM, SIGINT and SIGHUP ask of the daemon. A handler runs on whichever thread the kernel
// picks, beside all others: it only sets flags, and wakes those that wait for a camera's frame.
#ifndef POSED_DAEMON_SIGNALS_H
#define POSED_DAEMON_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

struct capture;

// Catches the three; SIGPIPE and SIGXFSZ are ignored (a limit of file sizes ends a recording like a
// full disk does).
void signals_catch(void);

// SIGTERM or SIGINT has come. Any thread.
bool signals_stop(void);

// SIGHUP has come since the last call. One thread.
bool signals_take_reload(void);

// From now on a signal that ends the daemon interrupts this camera's capture (NULL: none any more).
// camera < CONFIG_MAX_CAMERAS. When this returns, no handler holds the capture that was there
// before: it may be closed. Waits for handlers that are inside, microseconds; not from a handler.
void signals_wake(uint32_t camera, struct capture *capture);

#endif

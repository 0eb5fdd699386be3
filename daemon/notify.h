// SPDX-License-Identifier: Apache-2.0
// Tells systemd how the daemon is (Type=notify), by the plain datagram protocol of sd_notify(3):
// text lines to the socket named in NOTIFY_SOCKET. Without that variable everything does nothing.
#ifndef POSED_DAEMON_NOTIFY_H
#define POSED_DAEMON_NOTIFY_H

#include <stdint.h>

// Sends e.g. "READY=1", "WATCHDOG=1", "STOPPING=1". Never blocks, never fails visibly.
void notify_send(const char *state);

// How often systemd wants WATCHDOG=1: half of WATCHDOG_USEC [ns], 0 = not at all.
int64_t notify_watchdog_ns(void);

#endif

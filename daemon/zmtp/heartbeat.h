// SPDX-License-Identifier: Apache-2.0
// Whether a peer is still there: one that is silent for 5 s is asked for a sign of life, one that
// gives none for 15 s is gone. Private to daemon/zmtp.
#ifndef POSED_DAEMON_ZMTP_HEARTBEAT_H
#define POSED_DAEMON_ZMTP_HEARTBEAT_H

#include <stdint.h>

struct heartbeat {
    int64_t heard_ns;
    int64_t asked_ns; // 0: not since it was heard
};

enum heartbeat_due { HEARTBEAT_NOTHING, HEARTBEAT_ASK, HEARTBEAT_GIVE_UP };

// The peer has come, or said something.
void heartbeat_heard(struct heartbeat *heartbeat, int64_t now_ns);

// What to do now. HEARTBEAT_ASK comes once for each silence: the caller sends a PING.
enum heartbeat_due heartbeat_due(struct heartbeat *heartbeat, int64_t now_ns);

#endif

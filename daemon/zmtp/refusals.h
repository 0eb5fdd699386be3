// SPDX-License-Identifier: Apache-2.0
// Clients that are refused for their keys: what the log says of each, with the setting or the file
// where it is mended. A client's library connects again ten times a second, so the same client
// (socket, address, key) is spoken of once in a minute, and no more than 16 of them.
#ifndef POSED_DAEMON_ZMTP_REFUSALS_H
#define POSED_DAEMON_ZMTP_REFUSALS_H

#include "daemon/zmtp/server.h"

#define REFUSALS_KEPT 16

// Zero at first.
struct refusals {
    struct refusal {
        const char *socket; // "req"; NULL: a free place
        char owner[ZMTP_OWNER_BYTES];
        enum zmtp_state state;       // how far the handshake came: what was wrong
        uint8_t key[ZMTP_KEY_BYTES]; // the client's, zero where it did not come so far
        int64_t told_ns;
    } told[REFUSALS_KEPT];
};

// zmtp_session_read has returned -EACCES, or the key was taken out of the list of clients: says so
// in the log, unless it has just been said.
// `socket` must outlive the refusals.
void refusals_tell(struct refusals *refusals, const struct zmtp_session *session,
                   const char *socket, const char *owner, int64_t now_ns,
                   const struct log_sink *log);

#endif

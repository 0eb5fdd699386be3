// SPDX-License-Identifier: Apache-2.0
// How far a socket's connection to the daemon has come, as libzmq's monitor of it tells: libzmq
// connects again and again, whatever the reason, and a message that nobody can answer waits.
#ifndef POSED_TOOLS_POSECTL_CONNECTION_H
#define POSED_TOOLS_POSECTL_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

enum connection_state {
    CONNECTION_NONE,    // nobody has taken it
    CONNECTION_TAKEN,   // the handshake is under way
    CONNECTION_CUT,     // the other side hung up in the midst of the handshake
    CONNECTION_FOREIGN, // the other side is no such socket, or wants keys, or none
    CONNECTION_REFUSED, // the other side does not know this client's key
    CONNECTION_READY,
    CONNECTION_LOST, // it was ready
};

struct connection {
    void *socket, *monitor;
    enum connection_state state;
    unsigned n_cuts, n_failures; // of handshakes, of attempts to connect
    int64_t since_ns;
};

// Watches a socket that is not connected yet. Returns whether it can be.
bool connection_begin(struct connection *connection, void *context, void *socket);

// Before the socket is closed; also of one that was not begun (all zero).
void connection_end(struct connection *connection);

// Waits for a message, or until there is news of the connection. Returns whether a message is
// there.
bool connection_wait(struct connection *connection, int64_t timeout_ms);

// Whether no message can come any more by waiting: what was sent is lost, the handshake fails each
// time, or nobody has listened for 3 s (a daemon that is being started has so long; who need not
// wait for one looks whether anybody listens when n_failures says that nobody may).
bool connection_is_over(const struct connection *connection);

#endif

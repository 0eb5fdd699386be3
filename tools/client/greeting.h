// SPDX-License-Identifier: Apache-2.0
// Who listens at an address, seen by a plain connection: every ZeroMQ socket begins with a greeting
// (ZMTP, RFC 37) that names its mechanism, NULL or CURVE. What libzmq tells of a connection that
// does not come about leaves this open.
#ifndef POSED_TOOLS_CLIENT_GREETING_H
#define POSED_TOOLS_CLIENT_GREETING_H

#include <stdbool.h>

#define GREETING_MECHANISM_BYTES 21
#define GREETING_SAID_BYTES      33

struct greeting {
    int error;       // 0, or why nobody could be connected to, as address_connect has it
    bool is_zeromq;  // the greeting is one
    bool has_closed; // it hung up before
    char mechanism[GREETING_MECHANISM_BYTES]; // "NULL", "CURVE"; "" where it did not come so far
    char said[GREETING_SAID_BYTES];           // the first printable letters of what is no ZeroMQ
};

// Greets as a socket with CURVE (encrypts) or without does, since a posed on ipc has both, and
// reads the answer. Blocks for at most three times timeout_ms: to look a name up, to connect, to
// hear.
void greeting_look(const char *address, bool encrypts, unsigned timeout_ms, struct greeting *out);

// Only whether a ZeroMQ socket is there, whatever its keys: it says nothing, and no daemon's log
// tells of a client that was refused.
bool greeting_is_zeromq(const char *address, unsigned timeout_ms);

#endif

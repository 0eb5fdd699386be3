// SPDX-License-Identifier: Apache-2.0
// The opening handshake of a WebSocket (RFC 6455, section 4.2.2): the answer to a client's key, and
// which of the protocols that it offers is spoken.
#ifndef POSED_DAEMON_WEB_HANDSHAKE_H
#define POSED_DAEMON_WEB_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>

#define HANDSHAKE_ACCEPT_BYTES 29 // its end included

enum handshake_protocol {
    HANDSHAKE_FOXGLOVE_SDK, // foxglove.sdk.v1
    HANDSHAKE_FOXGLOVE,     // foxglove.websocket.v1
    HANDSHAKE_VIEW,         // posed.view.v1: our own page
    HANDSHAKE_N_PROTOCOLS,
};

// Sec-WebSocket-Accept of Sec-WebSocket-Key. False: that is no key.
bool handshake_accept(const char *key, char out[HANDSHAKE_ACCEPT_BYTES]);

// The first of ours that the list of Sec-WebSocket-Protocol (may be NULL) has, or
// HANDSHAKE_N_PROTOCOLS.
enum handshake_protocol handshake_choose(const char *offered);
const char *handshake_name(enum handshake_protocol protocol);

// Whether a page of this Origin (NULL: no browser) may look: one from this machine, a file of it,
// or one of `allowed` (addresses separated by spaces).
bool handshake_origin_may(const char *origin, const char *allowed);

// Whether "NAME", "NAME:PORT" can only mean this machine.
bool handshake_host_is_local(const char *host);

#endif

// SPDX-License-Identifier: Apache-2.0
// Where a daemon is: one rule for posectl, libposed and (the same again, in its own words) the
// Python package.
//
// WHERE is a run directory (it has a slash, or is a folder here) or a host, after "tcp://" or not.
// NULL: the variable POSED_HOST, else the first run directory of this machine whose `req` socket
// answers (/run/posed, $XDG_RUNTIME_DIR/posed, /tmp/posed-UID), else 127.0.0.1. The usual address
// of any socket (tcp://HOST:5570 to 5573, ipc://FOLDER/pub ...) means that daemon, whichever socket
// is wanted; the address of another one (tcp://HOST:PORT, ipc://PATH) is taken as it stands, for
// every socket: a client of that one alone. "tcp://" may be left out. OPERATIONS.md: how to reach a
// daemon on other ports.
#ifndef POSED_TOOLS_CLIENT_ADDRESS_H
#define POSED_TOOLS_CLIENT_ADDRESS_H

#include <stdbool.h>

#define ADDRESS_MAX       300 // bytes of an address
#define ADDRESS_KEY_CHARS 40  // of a CURVE key in Z85

enum address_socket { ADDRESS_PUB, ADDRESS_LATEST, ADDRESS_IMG, ADDRESS_REQ };

// The address of one of the daemon's sockets. May connect to this machine's sockets for a moment.
void address_find(const char *where, enum address_socket socket, char out[ADDRESS_MAX]);

// "pub", "latest", "img", "req".
const char *address_name(enum address_socket socket);

// Whether it has the form of a socket's address: tcp://HOST:PORT or ipc://PATH.
bool address_is_valid(const char *address);

// The same address with the host's name looked up, so that libzmq need not, which has no limit for
// it. Returns 0, -1 (no such host, or no address), ETIMEDOUT, ENOMEM.
int address_resolve(const char *address, unsigned timeout_ms, char out[ADDRESS_MAX]);

// Connects plainly, within the time that is given, and as long for looking a name up. Returns 0
// with a descriptor of the caller's, else errno, -1 (no such host, or no address).
int address_connect(const char *address, unsigned timeout_ms, int *out_fd);

// The same, only to see: 0 when somebody listens there; ETIMEDOUT of an ipc socket: somebody does,
// who takes no more connections. Blocks for at most 2 s and for no longer than `timeout_ms`, and as
// long for looking a name up.
int address_probe(const char *address, unsigned timeout_ms);

#endif

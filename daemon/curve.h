// SPDX-License-Identifier: Apache-2.0
// CURVE: the daemon's secret key, the public keys of the clients that may connect, and the
// authenticator that libzmq asks at each handshake (RFC 27/ZAP), with a thread of its own.
//
// A key file has one key a line (40 characters Z85, what follows it on the line is ignored); '#'
// starts a line of comment.
#ifndef POSED_DAEMON_CURVE_H
#define POSED_DAEMON_CURVE_H

#include <stdbool.h>

#include "proto/log.h"

struct curve; // opaque

// Reads the keys and starts the authenticator in this ZeroMQ context; `clients_file` empty: whoever
// knows the daemon's public key (it goes to the log) may connect. Returns 0; with the reason in the
// log -EINVAL (a key file), -ENOTSUP (this libzmq has no CURVE), -ENOMEM, -EIO.
__attribute__((warn_unused_result)) int curve_start(struct curve **out, void *context,
                                                    const char *secret_file,
                                                    const char *clients_file,
                                                    const struct log_sink *log);

// Ends the authenticator and shuts the context down: all other sockets must be closed. Accepts
// NULL.
void curve_stop(struct curve **curve);

// Makes a socket that is not bound yet refuse everybody else. False: see zmq_errno.
__attribute__((warn_unused_result)) bool curve_protect(const struct curve *curve, void *socket);

#endif

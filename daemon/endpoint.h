// SPDX-License-Identifier: Apache-2.0
// Where the daemon's sockets are: the run directory and its lock, addresses, who may connect.
//
// Secure by default: ipc sockets with mode 0660 in the run directory and tcp on loopback. An
// address beyond loopback is refused unless a CURVE key is given or endpoints.insecure says it in
// words. With a CURVE key every address of every socket is encrypted (libzmq sets this per socket).
//
// One daemon per run directory: it is locked, because libzmq would silently take over the ipc
// sockets of a running daemon.
#ifndef POSED_DAEMON_ENDPOINT_H
#define POSED_DAEMON_ENDPOINT_H

#include "daemon/config.h"
#include "proto/log.h"

struct endpoint; // opaque: the ZeroMQ context, the run directory, the keys

// Checks the addresses of all sockets without opening anything. Returns 0, or -EINVAL with every
// reason in the log.
__attribute__((warn_unused_result)) int endpoint_check(const struct config *config,
                                                       const struct log_sink *log);

// Where the run directory is: the configured one, else $RUNTIME_DIRECTORY, else /run/posed where it
// can be written, else $XDG_RUNTIME_DIR/posed, else /tmp/posed-UID.
void endpoint_run_dir(const char *configured, char *out, size_t size_bytes);

// Creates the run directory (0750), locks it, reads the keys, starts the authenticator. Returns 0;
// with *out NULL and the reason in the log: -EBUSY (another daemon is running there), -EINVAL (a
// key file), -ENOMEM, other negative errno.
__attribute__((warn_unused_result)) int
endpoint_open(struct endpoint **out, const struct config *config, const struct log_sink *log);

// Ends the context: waits for the sockets' lingering messages. All sockets must be closed before.
void endpoint_close(struct endpoint **endpoint);

// A socket of that ZeroMQ type, ready for options and then endpoint_bind. NULL: no memory.
void *endpoint_socket(struct endpoint *endpoint, int type);

// Binds a socket to all addresses of `addresses` (endpoints.pub, ...); `name` is the file name of
// its ipc socket. Returns 0, or a negative errno with the reason in the log (-EADDRINUSE: the port
// is taken).
__attribute__((warn_unused_result)) int endpoint_bind(struct endpoint *endpoint, void *socket,
                                                      const char *name, const char *addresses);

#endif

// SPDX-License-Identifier: Apache-2.0
// Where the daemon's sockets are: the run directory and its lock, addresses, who may connect.
//
// Secure by default: ipc sockets with mode 0660 in the run directory and tcp on loopback. An
// address beyond loopback is refused unless a CURVE key is given or endpoints.insecure says it in
// words, which the log repeats at every start. With a CURVE key tcp is encrypted, and ipc for
// whoever wants it: there the file says who may connect.
#ifndef POSED_DAEMON_ENDPOINT_H
#define POSED_DAEMON_ENDPOINT_H

#include "daemon/config/config.h"
#include "daemon/zmtp/server.h"
#include "proto/log.h"

struct endpoint; // opaque: the run directory, the keys

// Checks the run directory (as far as anybody can), the addresses of all sockets, the group and the
// key files without opening a socket; warns of a list of clients that lets nobody in. Returns 0, or
// -EINVAL with every reason in the log.
__attribute__((warn_unused_result)) int endpoint_check(const struct config *config,
                                                       const struct log_sink *log);

// Locks the run directory (run_dir.h), reads the keys, makes room for the descriptors of all
// connections. Returns 0; with *out NULL and the reason in the log: -EINVAL (a key file), -ENOMEM,
// what run_dir_lock does, other negative errno.
__attribute__((warn_unused_result)) int
endpoint_open(struct endpoint **out, const struct config *config, const struct log_sink *log);

// Reads the key files of endpoint_open again, of the same configuration: clients that are new in
// the list may connect, those that are gone are refused, and hung up on where they are connected.
// Another secret key needs a restart, which the log says; the list is taken all the same. Returns
// 0, or with nothing changed and the reason in the log what curve_read_keys does. Any one thread.
__attribute__((warn_unused_result)) int endpoint_reload(struct endpoint *endpoint,
                                                        const struct config *config);

// All servers must be destroyed before. Removes the ipc sockets that are its own still.
void endpoint_close(struct endpoint **endpoint);

// What a server is to be made with: keys, connections, log. The rest is zero.
struct zmtp_server_settings endpoint_server_settings(struct endpoint *endpoint);

// Listens with a socket of a server on all addresses of `addresses` (endpoints.pub, ...); `name` is
// the file name of its ipc socket. Returns 0, or a negative errno with the reason in the log
// (-EADDRINUSE: the port is taken).
__attribute__((warn_unused_result)) int endpoint_bind(struct endpoint *endpoint,
                                                      struct zmtp_server *server, int socket,
                                                      const char *name, const char *addresses);

#endif

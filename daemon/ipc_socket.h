// SPDX-License-Identifier: Apache-2.0
// A listening socket as a file of the run directory. The file is removed only while it is the one
// that was bound: where somebody has removed the run directory, another daemon's has that name.
#ifndef POSED_DAEMON_IPC_SOCKET_H
#define POSED_DAEMON_IPC_SOCKET_H

#include <sys/stat.h>

#include "daemon/config/config.h"

struct ipc_socket {
    char path[CONFIG_TEXT_MAX + 64];
    struct stat bound; // the file
};

// Binds a stream socket, mode 0660, in place of whatever has that name; the caller knows that
// nobody is behind it. group: NULL leaves it. Returns a descriptor, or a negative errno
// (-ENAMETOOLONG: a socket's path has 107 bytes).
__attribute__((warn_unused_result)) int ipc_socket_bind(struct ipc_socket *out, const char *path,
                                                        const gid_t *group);

void ipc_socket_remove(const struct ipc_socket *own);

#endif

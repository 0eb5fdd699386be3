// SPDX-License-Identifier: Apache-2.0
// A host's name looked up within a time: getaddrinfo takes as long as the name servers of
// resolv.conf are waited for, 5 to 20 s where none answers, and so does whoever calls it.
#ifndef POSED_TOOLS_CLIENT_LOOKUP_H
#define POSED_TOOLS_CLIENT_LOOKUP_H

#include <sys/socket.h>

// The first address of `host`, of AF_INET or AF_INET6. Returns 0 with its size at *out_n, or
// ENOENT (no such host), ETIMEDOUT, ENOMEM. A look-up that takes too long goes on in a thread of
// its own and leaves nothing behind.
int lookup_host(const char *host, const char *port, int family, unsigned timeout_ms,
                struct sockaddr_storage *out, socklen_t *out_n);

#endif

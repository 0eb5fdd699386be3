// SPDX-License-Identifier: Apache-2.0
// The clients of the request socket that have something under way: a request that waits or runs, or
// a large answer that waits for them. What all of them together may hold is bounded; so that
// one cannot take it all, a client may have as much as is still free (Choudhury and Hahne 1998,
// "Dynamic queue length thresholds for shared-memory packet switches"): the first has at most half,
// the next half of the rest, and so on. A client is a connection, or what it calls itself: this is
// for the careless; who may connect at all is a matter of endpoint.h.
//
// Any thread. The clients may live longer than their connection, until their answers have been
// given back.
#ifndef POSED_DAEMON_CLIENT_H
#define POSED_DAEMON_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

// Bytes of large answers that are not sent yet, of all clients together.
#define CLIENT_MAX_UNREAD_BYTES ((size_t)64 << 20)

struct client; // opaque

// The client of that identity (copied), known already or new; to be given back with client_leave
// as often as it was got. NULL: no memory.
struct client *client_enter(const void *identity, size_t n_identity_bytes);
void client_leave(struct client *client);

// Whether the client has less in unread answers than is still free.
bool client_may_be_sent(const struct client *client);

// An answer of n_bytes is there; it has been sent, or its reader is gone.
void client_add_unread(struct client *client, size_t n_bytes);
void client_remove_unread(struct client *client, size_t n_bytes);

#endif

// SPDX-License-Identifier: Apache-2.0
// The request socket (ROUTER). Its own thread reads, checks the framing and answers what needs no
// waiting; the rest goes through bounded queues to two workers, one for commands and one for what
// takes long. Nothing here touches the frame loop except through the shared.
#ifndef POSED_DAEMON_REQUEST_SOCKET_H
#define POSED_DAEMON_REQUEST_SOCKET_H

#include "daemon/endpoint.h"
#include "daemon/handlers/handlers.h"

struct requests; // opaque

// Binds endpoints.req and starts the threads. `cameras` are copied (their `common` is the requests'
// own); what they point to must outlive the requests. Returns 0, or negative errno with the reason
// in the log.
__attribute__((warn_unused_result)) int
requests_create(struct requests **out, struct endpoint *endpoint, const struct handlers *cameras,
                uint32_t n_cameras, struct settings *settings);

// Answers what waits and what runs (UNAVAILABLE, CANCELLED), stops the threads and closes the
// socket. shared_end_commands must have been called.
void requests_destroy(struct requests **requests);

// A client inside the daemon (the page): its requests, framed, as if they came by the socket, at
// most 8 at a time; `answered` is called by the requests' own thread with each framed reply. Any
// thread. requests_ask returns 0, -EAGAIN or -ENOMEM; NULL ends it, and nothing is called from then
// on.
void requests_listen(struct requests *requests,
                     void (*answered)(void *user, const uint8_t *reply, size_t n_bytes),
                     void *user);
__attribute__((warn_unused_result)) int requests_ask(struct requests *requests,
                                                     const uint8_t *request, size_t n_bytes);

#endif

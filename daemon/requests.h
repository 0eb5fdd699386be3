// SPDX-License-Identifier: Apache-2.0
// The request socket (ROUTER). Its own thread reads, checks the framing and answers what needs no
// waiting; the rest goes through bounded queues to two workers, one for commands and one for what
// takes long. Nothing here touches the frame loop except through the board.
#ifndef POSED_DAEMON_REQUESTS_H
#define POSED_DAEMON_REQUESTS_H

#include "daemon/endpoint.h"
#include "daemon/handlers.h"

struct requests; // opaque

// Binds endpoints.req and starts the threads. *handlers is copied; what it points to must outlive
// the requests. Returns 0, or negative errno with the reason in the log.
__attribute__((warn_unused_result)) int
requests_create(struct requests **out, struct endpoint *endpoint, const struct handlers *handlers);

// Answers what waits and what runs (UNAVAILABLE, CANCELLED), stops the threads and closes the
// socket. board_end_commands must have been called.
void requests_destroy(struct requests **requests);

#endif

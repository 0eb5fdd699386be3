// SPDX-License-Identifier: Apache-2.0
// What each request does. A handler fills the reply; it knows nothing of sockets.
#ifndef POSED_DAEMON_HANDLERS_H
#define POSED_DAEMON_HANDLERS_H

#include "daemon/board.h"
#include "daemon/config.h"
#include "proto/wire.h"

struct handlers {
    struct board *board;
    const struct config *config; // as started: GetParams
};

// Sets code, message and field of a reply that carries no result. `field` may be NULL.
__attribute__((format(printf, 4, 5))) void
handlers_fail(posed_Reply *reply, posed_Code code, const char *field, const char *format, ...);

// Whether a request of this kind waits for something and therefore belongs on the worker.
bool handlers_is_slow(uint32_t kind);

// Answers a request; deadline_ns is CLOCK_MONOTONIC. *reply has the request's id and is else zero.
// Any thread, several at a time.
void handlers_run(const struct handlers *handlers, const posed_Request *request,
                  int64_t deadline_ns, posed_Reply *reply);

#endif

// SPDX-License-Identifier: Apache-2.0
// For monitoring and for a look: HTTP on loopback, GET only, nothing that commands (http.port).
//
//   /healthz    200 while the frame loop goes round, else 503
//   /readyz     200 while frames arrive, else 503 and the reason
//   /metrics    Prometheus text (metrics.h)
//   /v1/status  the Status message as JSON
//   /v1/pose    the newest pose as JSON; 503 before the first frame
//
// A page of another site that the browser of this machine shows can reach loopback, too: requests
// whose Host is not this machine's are refused, so that no foreign name that is made to point here
// reads along. Whoever wants it elsewhere puts a proxy in front.
#ifndef POSED_DAEMON_HTTP_H
#define POSED_DAEMON_HTTP_H

#include "daemon/board.h"
#include "proto/log.h"

struct http; // opaque: libmicrohttpd with a thread of its own

// Listens on 127.0.0.1. Returns 0, or negative errno with the reason in the log. The board must
// outlive it.
__attribute__((warn_unused_result)) int
http_create(struct http **out, uint16_t port, struct board *board, const struct log_sink *log);
void http_destroy(struct http **http);

#endif

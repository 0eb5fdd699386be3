// SPDX-License-Identifier: Apache-2.0
// For a look and for monitoring: HTTP on loopback, GET only (http.port).
//
//   /           the page; as a WebSocket its data, and Foxglove's protocol (web/)
//   /healthz    200 while the frame loop goes round, else 503
//   /readyz     200 while frames arrive, else 503 and the reason
//   /metrics    Prometheus text (metrics.h)
//   /v1/status  the Status message as JSON
//   /v1/pose    the newest pose as JSON; 503 before the first frame
//
// Of several cameras the page shows the one that is chosen, /healthz, /readyz and /metrics tell of
// all, and /v1/status/NAME and /v1/pose/NAME of the one.
//
// A page of another site that the browser of this machine shows can reach loopback, too: requests
// whose Host is not this machine's are refused, so that no foreign name that is made to point here
// reads along; a WebSocket says where its page comes from (Origin), which must be this machine or
// stand in http.origins. Nothing commands but the page's buttons, those with http.control alone.
// Whoever wants it elsewhere uses `ssh -L`, or puts a proxy in front.
#ifndef POSED_DAEMON_HTTP_H
#define POSED_DAEMON_HTTP_H

#include "daemon/web/web.h"

struct http; // opaque: libmicrohttpd with a thread of its own

struct http_settings {
    uint16_t port;
    bool control;        // the page's buttons work
    const char *origins; // whose pages may look besides this machine's, separated by spaces
    struct web_camera cameras[CONFIG_MAX_CAMERAS];
    uint32_t n_cameras;
    struct requests *requests;
    struct log_sink log;
};

// Listens on 127.0.0.1. Returns 0 or negative errno; the caller says so, who knows whether it
// matters. What the settings point to must outlive it.
__attribute__((warn_unused_result)) int http_create(struct http **out,
                                                    const struct http_settings *settings);
void http_destroy(struct http **http);

#endif

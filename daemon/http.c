// SPDX-License-Identifier: Apache-2.0
#include "daemon/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <microhttpd.h>

#include "daemon/metrics.h"
#include "proto/wire_json.h"

// A reader that asks every second needs one; what is more waits in the kernel.
#define MAX_CONNECTIONS  16
#define TIMEOUT_S        10
#define CONNECTION_BYTES (16 << 10)

struct http {
    struct MHD_Daemon *server;
    struct board *board;
};

// The answer to one request: text to free, in `status` and `type`.
struct answer {
    unsigned status;
    const char *type;
    char *text;
};

static struct answer plain(unsigned status, const char *text)
{
    return (struct answer){status, "text/plain; charset=utf-8", strdup(text)};
}

static struct answer json(json_t *value)
{
    char *text = value ? json_dumps(value, JSON_INDENT(2) | WIRE_JSON_DIGITS) : NULL;
    json_decref(value);
    return (struct answer){MHD_HTTP_OK, "application/json", text};
}

static struct answer healthz(const struct http *http)
{
    return board_is_alive(http->board)
               ? plain(MHD_HTTP_OK, "ok\n")
               : plain(MHD_HTTP_SERVICE_UNAVAILABLE, "the frame loop stands still\n");
}

static struct answer readyz(const struct http *http)
{
    posed_Status status;
    board_status(http->board, &status);
    if (!board_is_alive(http->board))
        return healthz(http);
    return status.state == posed_State_STATE_NO_INPUT
               ? plain(MHD_HTTP_SERVICE_UNAVAILABLE, "no frame arrives\n")
               : plain(MHD_HTTP_OK, "ok\n");
}

static struct answer get_metrics(const struct http *http)
{
    struct answer answer = {MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", NULL};
    posed_Status status;
    size_t n;
    FILE *stream = open_memstream(&answer.text, &n);
    if (!stream)
        return answer;
    board_status(http->board, &status);
    metrics_print(&status, stream);
    fclose(stream);
    return answer;
}

static struct answer get_status(const struct http *http)
{
    posed_Status status;
    board_status(http->board, &status);
    return json(wire_json_status(&status));
}

static struct answer get_pose(const struct http *http)
{
    struct board_pose pose;
    uint64_t oldest, next;
    board_range(http->board, &oldest, &next);
    if (next == 0 || board_get(http->board, next - 1, &pose) != 0)
        return plain(MHD_HTTP_SERVICE_UNAVAILABLE, "no frame has arrived yet\n");
    const double *q = pose.q_xyzw, *t = pose.t_m;
    return json(json_pack("{s:I, s:f, s:s, s:I, s:[fff], s:[ffff]}", "seq", (json_int_t)pose.seq,
                          "time_s", (double)pose.time_ns * 1e-9, "state",
                          wire_state_name(pose.state), "map_epoch", (json_int_t)pose.map_epoch,
                          "position_m", t[0], t[1], t[2], "orientation_xyzw", q[0], q[1], q[2],
                          q[3]));
}

static const struct {
    const char *path;
    struct answer (*get)(const struct http *http);
} pages[] = {
    {"/healthz", healthz},      {"/readyz", readyz},    {"/metrics", get_metrics},
    {"/v1/status", get_status}, {"/v1/pose", get_pose},
};

// Whether the name in Host (NULL: HTTP/1.0 needs none) can only mean this machine.
static bool is_local(const char *host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t i = 0; host && i < sizeof names / sizeof names[0]; i++) {
        size_t n = strlen(names[i]);
        if (strncasecmp(host, names[i], n) == 0 &&
            (host[n] == 0 ||
             (host[n] == ':' && strspn(host + n + 1, "0123456789") == strlen(host + n + 1))))
            return true;
    }
    return !host;
}

static struct answer answer(const struct http *http, struct MHD_Connection *connection,
                            const char *path, const char *method)
{
    if (!is_local(MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST)))
        return plain(MHD_HTTP_FORBIDDEN, "Host is not this machine\n");
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return plain(MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD only\n");
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++)
        if (strcmp(pages[i].path, path) == 0)
            return pages[i].get(http);
    return plain(MHD_HTTP_NOT_FOUND, "/healthz /readyz /metrics /v1/status /v1/pose\n");
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *n_upload, void **state)
{
    (void)version;
    (void)upload;
    (void)state;
    if (*n_upload) { // a body that nobody wants
        *n_upload = 0;
        return MHD_YES;
    }
    struct answer a = answer(user, connection, url, method);
    if (!a.text)
        return MHD_NO; // no memory
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(a.text), a.text, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        free(a.text);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, a.type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    enum MHD_Result queued = MHD_queue_response(connection, a.status, response);
    MHD_destroy_response(response);
    return queued;
}

int http_create(struct http **out, uint16_t port, struct board *board, const struct log_sink *log)
{
    *out = NULL;
    struct http *http = calloc(1, sizeof *http);
    if (!http)
        return -ENOMEM;
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    http->board = board;
    errno = 0;
    http->server = MHD_start_daemon(
        MHD_USE_AUTO_INTERNAL_THREAD, port, NULL, NULL, on_request, http, MHD_OPTION_SOCK_ADDR,
        (const struct sockaddr *)&address, MHD_OPTION_CONNECTION_LIMIT, (unsigned)MAX_CONNECTIONS,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_BYTES, MHD_OPTION_END);
    if (!http->server) {
        int error = errno ? -errno : -EIO;
        log_to(log, LOG_LEVEL_ERROR, "http://127.0.0.1:%u: %s (http.port)", port, strerror(-error));
        free(http);
        return error;
    }
    log_to(log, LOG_LEVEL_INFO, "http: http://127.0.0.1:%u", port);
    *out = http;
    return 0;
}

void http_destroy(struct http **http)
{
    if (!*http)
        return;
    MHD_stop_daemon((*http)->server);
    free(*http);
    *http = NULL;
}

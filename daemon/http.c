// SPDX-License-Identifier: Apache-2.0
#include "daemon/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <microhttpd.h>

#include "daemon/metrics.h"
#include "proto/clock.h"
#include "proto/wire_json.h"

// A connection is idle, or has a request that is not complete yet, for so long at most; and when
// all places are taken, whoever has been so for the longest makes room: a probe always finds a
// place. Viewers of the page have places of their own, for as long as they look.
#define MAX_IDLE         16
#define MAX_CONNECTIONS  (2 * MAX_IDLE + WEB_MAX_VIEWERS)
#define TIMEOUT_S        10
#define REQUEST_NS       INT64_C(2000000000)
#define CONNECTION_BYTES (16 << 10)

struct place {
    int fd;           // -1: free
    int64_t since_ns; // INT64_MAX: a viewer, who may stay
};

// What a WebSocket is to become.
struct upgrade {
    struct http *http;
    enum handshake_protocol protocol;
    bool may_control;
};

struct http {
    struct MHD_Daemon *server;
    // One for each that can be: libmicrohttpd forgets it without a word when a client leaves early.
    struct upgrade upgrades[HANDSHAKE_N_PROTOCOLS][2];
    struct place places[MAX_CONNECTIONS]; // the server's thread's
    struct http_settings settings;
    struct web *web;
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

static struct answer fail_camera(const struct web_camera *camera, const char *what)
{
    char text[SHARED_FAULT_BYTES + CONFIG_CAMERA_NAME_BYTES + 4];
    snprintf(text, sizeof text, "%s%s%s\n", camera->name, camera->name[0] ? ": " : "", what);
    return plain(MHD_HTTP_SERVICE_UNAVAILABLE, text);
}

static struct answer healthz(const struct http *http, const struct web_camera *ignored)
{
    (void)ignored;
    for (uint32_t i = 0; i < http->settings.n_cameras; i++)
        if (!shared_is_alive(http->settings.cameras[i].shared))
            return fail_camera(&http->settings.cameras[i], "the frame loop stands still");
    return plain(MHD_HTTP_OK, "ok\n");
}

static struct answer readyz(const struct http *http, const struct web_camera *ignored)
{
    char fault[SHARED_FAULT_BYTES];
    (void)ignored;
    for (uint32_t i = 0; i < http->settings.n_cameras; i++) {
        const struct web_camera *camera = &http->settings.cameras[i];
        if (!shared_is_alive(camera->shared))
            return fail_camera(camera, "the frame loop stands still");
        if (shared_fault(camera->shared, fault))
            return fail_camera(camera, fault);
    }
    return plain(MHD_HTTP_OK, "ok\n");
}

static struct answer get_metrics(const struct http *http, const struct web_camera *ignored)
{
    struct answer answer = {MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", NULL};
    struct shared *cameras[CONFIG_MAX_CAMERAS];
    size_t n;
    FILE *stream = open_memstream(&answer.text, &n);
    (void)ignored;
    if (!stream)
        return answer;
    for (uint32_t i = 0; i < http->settings.n_cameras; i++)
        cameras[i] = http->settings.cameras[i].shared;
    metrics_print(cameras, http->settings.n_cameras, stream);
    fclose(stream);
    return answer;
}

static struct answer get_status(const struct http *http, const struct web_camera *camera)
{
    posed_Status status;
    (void)http;
    shared_status(camera->shared, &status);
    return json(wire_json_status(&status));
}

static struct answer get_pose(const struct http *http, const struct web_camera *camera)
{
    struct past_pose pose;
    uint64_t oldest, next;
    (void)http;
    pose_history_range(shared_history(camera->shared), &oldest, &next);
    if (next == 0 || pose_history_get(shared_history(camera->shared), next - 1, &pose) != 0)
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
    struct answer (*get)(const struct http *http, const struct web_camera *camera);
    bool is_of_one; // a camera's name may stand behind it
} pages[] = {
    {"/healthz", healthz, false},     {"/readyz", readyz, false},
    {"/metrics", get_metrics, false}, {"/v1/status", get_status, true},
    {"/v1/pose", get_pose, true},
};

// `name` NULL: the first. NULL: there is none of that name.
static const struct web_camera *find_camera(const struct http *http, const char *name)
{
    for (uint32_t i = 0; i < http->settings.n_cameras; i++)
        if (!name || strcmp(http->settings.cameras[i].name, name) == 0)
            return &http->settings.cameras[i];
    return NULL;
}

static struct answer get_page(const struct http *http, const char *path)
{
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        size_t n = strlen(pages[i].path);
        const char *rest = path + n;
        if (strncmp(pages[i].path, path, n) != 0 || (*rest && *rest != '/') ||
            (*rest && !pages[i].is_of_one))
            continue;
        const struct web_camera *camera = find_camera(http, *rest ? rest + 1 : NULL);
        if (camera && (!*rest || rest[1]))
            return pages[i].get(http, camera);
        break;
    }
    return plain(MHD_HTTP_NOT_FOUND, "/ /healthz /readyz /metrics /v1/status /v1/pose\n");
}

static struct answer answer(const struct http *http, struct MHD_Connection *connection,
                            const char *path, const char *method)
{
    const char *host =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    if (host && !handshake_host_is_local(host)) // HTTP/1.0 needs none
        return plain(MHD_HTTP_FORBIDDEN, "Host is not this machine\n");
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return plain(MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD only\n");
    return get_page(http, path);
}

// A browser's WebSocket is ours from here on; libmicrohttpd keeps its memory until it is closed.
static void close_upgraded(void *handle)
{
    MHD_upgrade_action(handle, MHD_UPGRADE_ACTION_CLOSE);
}

static void on_upgraded(void *user, struct MHD_Connection *connection, void *state,
                        const char *early, size_t n_early, MHD_socket fd,
                        struct MHD_UpgradeResponseHandle *handle)
{
    const struct upgrade *upgrade = user;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    if (info && info->socket_context)
        ((struct place *)info->socket_context)->since_ns = INT64_MAX;
    (void)state;
    const struct web_connection viewer = {.fd = fd,
                                          .protocol = upgrade->protocol,
                                          .may_control = upgrade->may_control,
                                          .early = early,
                                          .n_early = n_early,
                                          .close = close_upgraded,
                                          .user = handle};
    if (!web_take(upgrade->http->web, &viewer))
        close_upgraded(handle);
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

// The handshake of a WebSocket whose Host was found good. NULL: `out` says what is wrong.
static struct MHD_Response *upgrade(const struct http *http, struct MHD_Connection *connection,
                                    struct answer *out)
{
    char accept[HANDSHAKE_ACCEPT_BYTES];
    const char *origin = header(connection, "Origin");
    enum handshake_protocol protocol =
        handshake_choose(header(connection, "Sec-WebSocket-Protocol"));
    if (!handshake_origin_may(origin, http->settings.origins)) {
        log_to(&http->settings.log, LOG_LEVEL_NOTICE,
               "a page of %.100s wanted to look and may not: see http.origins", origin);
        *out = plain(MHD_HTTP_FORBIDDEN, "this Origin may not look (http.origins)\n");
        return NULL;
    }
    if (protocol == HANDSHAKE_N_PROTOCOLS ||
        !handshake_accept(header(connection, "Sec-WebSocket-Key"), accept)) {
        *out = plain(MHD_HTTP_BAD_REQUEST, "a WebSocket with the protocol foxglove.sdk.v1 or "
                                           "foxglove.websocket.v1 is wanted\n");
        return NULL;
    }
    // Buttons only for our own page as we served it.
    bool may_control = protocol == HANDSHAKE_VIEW && handshake_origin_may(origin, "");
    struct MHD_Response *response = MHD_create_response_for_upgrade(
        on_upgraded, (void *)(uintptr_t)&http->upgrades[protocol][may_control]);
    if (!response)
        return NULL;
    MHD_add_response_header(response, MHD_HTTP_HEADER_UPGRADE, "websocket");
    MHD_add_response_header(response, "Sec-WebSocket-Accept", accept);
    MHD_add_response_header(response, "Sec-WebSocket-Protocol", handshake_name(protocol));
    return response;
}

static struct MHD_Response *page(void)
{
    size_t n;
    const char *bytes = web_page(&n);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(n, (void *)(uintptr_t)bytes, MHD_RESPMEM_PERSISTENT);
    if (!response)
        return NULL;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/html; charset=utf-8");
    MHD_add_response_header(response, "Content-Security-Policy",
                            "default-src 'none'; script-src 'unsafe-inline'; style-src "
                            "'unsafe-inline'; connect-src 'self' ws://localhost:* "
                            "ws://127.0.0.1:*; img-src data:; frame-ancestors 'none'");
    return response;
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
    // Another protocol than a WebSocket's is an offer that may be left alone (RFC 9110, 7.8).
    const char *offered = header(connection, MHD_HTTP_HEADER_UPGRADE);
    const bool wants_socket = offered && strcasecmp(offered, "websocket") == 0;
    struct answer a = answer(user, connection, url, method);
    struct MHD_Response *response = NULL;
    if (a.status != MHD_HTTP_FORBIDDEN && a.status != MHD_HTTP_METHOD_NOT_ALLOWED &&
        (strcmp(url, "/") == 0 || wants_socket)) {
        free(a.text);
        a = (struct answer){MHD_HTTP_OK, NULL, NULL};
        if (wants_socket) {
            response = upgrade(user, connection, &a);
            a.status = response ? MHD_HTTP_SWITCHING_PROTOCOLS : a.status;
        } else {
            response = page();
        }
    }
    if (!response && a.text) {
        response = MHD_create_response_from_buffer(strlen(a.text), a.text, MHD_RESPMEM_MUST_FREE);
        if (!response)
            free(a.text);
        else
            MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, a.type);
    }
    if (!response)
        return MHD_NO; // no memory
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    enum MHD_Result queued = MHD_queue_response(connection, a.status, response);
    MHD_destroy_response(response);
    return queued;
}

// Hangs up on who has been idle for too long, and on the longest where nearly all places are taken.
static void make_room(struct http *http)
{
    struct place *oldest = NULL;
    int64_t now_ns = clock_monotonic_ns();
    size_t n = 0;
    for (size_t i = 0; i < MAX_CONNECTIONS; i++) {
        struct place *place = &http->places[i];
        if (place->fd < 0 || place->since_ns == INT64_MAX)
            continue;
        n++;
        if (now_ns - place->since_ns > REQUEST_NS)
            shutdown(place->fd, SHUT_RDWR);
        if (!oldest || place->since_ns < oldest->since_ns)
            oldest = place;
    }
    if (n > MAX_IDLE)
        shutdown(oldest->fd, SHUT_RDWR);
}

// The descriptor stays open until the connection is told as closed, so it is nobody else's.
static void on_connection(void *user, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http *http = user;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (*context)
            ((struct place *)*context)->fd = -1;
        return;
    }
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    make_room(http);
    for (size_t i = 0; info && i < MAX_CONNECTIONS; i++)
        if (http->places[i].fd < 0) {
            http->places[i] = (struct place){info->connect_fd, clock_monotonic_ns()};
            *context = &http->places[i];
            return;
        }
}

static void on_completed(void *user, struct MHD_Connection *connection, void **request,
                         enum MHD_RequestTerminationCode code)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    (void)user;
    (void)request;
    (void)code;
    struct place *place = info ? info->socket_context : NULL;
    if (place && place->since_ns != INT64_MAX)
        place->since_ns = clock_monotonic_ns();
}

int http_create(struct http **out, const struct http_settings *settings)
{
    *out = NULL;
    struct http *http = calloc(1, sizeof *http);
    if (!http)
        return -ENOMEM;
    uint16_t port = settings->port;
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct web_settings web = {.cameras = settings->cameras,
                                     .n_cameras = settings->n_cameras,
                                     .requests = settings->requests,
                                     .control = settings->control,
                                     .log = settings->log};
    http->settings = *settings;
    int error = web_create(&http->web, &web);
    if (error)
        goto destroy;
    for (size_t i = 0; i < MAX_CONNECTIONS; i++)
        http->places[i].fd = -1;
    for (int i = 0; i < HANDSHAKE_N_PROTOCOLS; i++)
        for (int k = 0; k < 2; k++)
            http->upgrades[i][k] = (struct upgrade){http, (enum handshake_protocol)i, k};
    errno = 0;
    http->server = MHD_start_daemon(
        MHD_USE_AUTO_INTERNAL_THREAD | MHD_ALLOW_UPGRADE, port, NULL, NULL, on_request, http,
        MHD_OPTION_SOCK_ADDR, (const struct sockaddr *)&address, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)MAX_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, http, MHD_OPTION_NOTIFY_COMPLETED, on_completed, http, MHD_OPTION_END);
    if (!http->server) {
        error = errno ? -errno : -EIO;
        goto destroy;
    }
    log_to(&settings->log, LOG_LEVEL_INFO, "http: http://127.0.0.1:%u", port);
    *out = http;
    return 0;
destroy:
    http_destroy(&http);
    return error;
}

void http_destroy(struct http **http)
{
    if (!*http)
        return;
    if ((*http)->web)
        web_stop((*http)->web); // libmicrohttpd wants upgraded connections closed first
    if ((*http)->server)
        MHD_stop_daemon((*http)->server);
    web_destroy(&(*http)->web);
    free(*http);
    *http = NULL;
}

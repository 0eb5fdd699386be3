// SPDX-License-Identifier: Apache-2.0
#include "daemon/zmtp/connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BAD_MAX_BYTES (1 << 20) // of one message that nobody wants

void zmtp_body_free(struct zmtp_body *body)
{
    if (!body)
        return;
    if (body->freed)
        body->freed(body->owner, body->n_admitted);
    free(body);
}

static struct zmtp_body *create_body(size_t n_bytes)
{
    struct zmtp_body *body = malloc(sizeof *body + n_bytes);
    if (body)
        *body = (struct zmtp_body){.n_bytes = n_bytes, .bytes = body->memory};
    return body;
}

void zmtp_connection_begin(struct zmtp_connection *connection, const struct zmtp_rules *rules,
                           bool allows_null, void *user)
{
    memset(connection, 0, sizeof *connection);
    connection->rules = rules;
    connection->user = user;
    connection->allows_null = allows_null || !rules->keys;
    // Which mechanism it is the peer says, so the rest of the greeting waits for its.
    uint8_t greeting[ZMTP_GREETING_BYTES];
    zmtp_put_greeting(ZMTP_NULL, greeting);
    memcpy(connection->commands, greeting, ZMTP_HALF_BYTES);
    connection->n_commands = ZMTP_HALF_BYTES;
}

void zmtp_connection_end(struct zmtp_connection *connection)
{
    zmtp_body_free(connection->body);
    connection->body = NULL;
    explicit_bzero(&connection->curve, sizeof connection->curve);
}

static bool put_bytes(struct zmtp_connection *connection, const uint8_t *bytes, size_t n_bytes)
{
    if (n_bytes > sizeof connection->commands - connection->n_commands)
        return false;
    memcpy(connection->commands + connection->n_commands, bytes, n_bytes);
    connection->n_commands += n_bytes;
    return true;
}

// A command that has to be sent before READY: there is room for all of them.
static int put_command(struct zmtp_connection *connection, const char *name, const uint8_t *rest,
                       size_t n_rest)
{
    uint8_t bytes[ZMTP_COMMAND_MAX];
    size_t n = zmtp_put_command(name, rest, n_rest, bytes);
    return n && put_bytes(connection, bytes, n) ? 0 : -EPROTO;
}

// One afterwards, left out when the peer does not read what was sent before.
static void put_traffic_command(struct zmtp_connection *connection, const char *name,
                                const uint8_t *rest, size_t n_rest)
{
    uint8_t bytes[ZMTP_COMMAND_MAX], sealed[ZMTP_COMMAND_MAX + 64];
    size_t n = zmtp_put_command(name, rest, n_rest, bytes);
    if (connection->mechanism == ZMTP_NULL) {
        put_bytes(connection, bytes, n);
        return;
    }
    // Numbers count up: what is encrypted must be sent, so look for room first.
    if (n + CURVE_OVERHEAD_BYTES + ZMTP_HEADER_MAX_BYTES >
        sizeof connection->commands - connection->n_commands)
        return;
    const struct zmtp_frame frame = {.command = true, .n_body = n - 2};
    put_bytes(connection, sealed, curve_seal(&connection->curve, &frame, bytes + 2, sealed));
}

void zmtp_connection_ping(struct zmtp_connection *connection)
{
    static const uint8_t no_limit[2] = {0, 0};
    if (connection->state == ZMTP_TRAFFIC)
        put_traffic_command(connection, "PING", no_limit, sizeof no_limit);
}

static int on_greeting(struct zmtp_connection *connection)
{
    uint8_t greeting[ZMTP_GREETING_BYTES];
    int error = zmtp_read_greeting(connection->head, &connection->mechanism);
    if (error)
        return error;
    bool is_curve = connection->mechanism == ZMTP_CURVE;
    if (is_curve ? !connection->rules->keys : !connection->allows_null) {
        // What we would have, so that the peer's side can say what is wrong.
        zmtp_put_greeting(is_curve ? ZMTP_NULL : ZMTP_CURVE, greeting);
        put_bytes(connection, greeting + ZMTP_HALF_BYTES, sizeof greeting - ZMTP_HALF_BYTES);
        return -EACCES;
    }
    zmtp_put_greeting(connection->mechanism, greeting);
    if (!put_bytes(connection, greeting + ZMTP_HALF_BYTES, sizeof greeting - ZMTP_HALF_BYTES))
        return -EPROTO;
    connection->state = is_curve ? ZMTP_HELLO : ZMTP_READY;
    if (is_curve)
        return 0;
    uint8_t metadata[ZMTP_COMMAND_MAX];
    size_t n = zmtp_put_metadata(connection->rules->socket_type, metadata);
    return put_command(connection, "READY", metadata, n);
}

// Whether a socket of the peer's type may talk to ours.
static int check_metadata(const struct zmtp_connection *connection, const uint8_t *bytes,
                          size_t n_bytes)
{
    const uint8_t *type;
    size_t n;
    char text[16];
    int error = zmtp_find_property(bytes, n_bytes, "Socket-Type", &type, &n);
    if (error || n == 0 || n > sizeof text - 2 || memchr(type, 0, n) || memchr(type, ' ', n))
        return -EPROTO;
    memcpy(text, type, n);
    memcpy(text + n, " ", 2);
    const char *found = strstr(connection->rules->peer_types, text);
    return found && (found == connection->rules->peer_types || found[-1] == ' ') ? 0 : -EPROTO;
}

static int on_handshake(struct zmtp_connection *connection, uint8_t *bytes, size_t n_bytes)
{
    const uint8_t *rest;
    size_t n_rest;
    uint8_t answer[ZMTP_COMMAND_MAX], metadata[ZMTP_COMMAND_MAX];
    int n;
    switch (connection->state) {
    case ZMTP_HELLO:
        if (!zmtp_is_command(bytes, n_bytes, "HELLO", &rest, &n_rest))
            return -EPROTO;
        n = curve_hello(&connection->curve, connection->rules->keys, rest, n_rest, answer);
        if (n < 0)
            return n;
        connection->state = ZMTP_INITIATE;
        return put_command(connection, "WELCOME", answer, (size_t)n);
    case ZMTP_INITIATE: {
        uint8_t plain[ZMTP_HANDSHAKE_MAX_BYTES];
        if (!zmtp_is_command(bytes, n_bytes, "INITIATE", &rest, &n_rest))
            return -EPROTO;
        n = curve_initiate(&connection->curve, rest, n_rest, plain);
        if (n < 0) {
            static const uint8_t refused[] = "\003400";
            if (n == -EACCES && put_command(connection, "ERROR", refused, 4) != 0)
                return -EPROTO;
            return n;
        }
        int error = check_metadata(connection, plain, (size_t)n);
        if (error)
            return error;
        size_t n_metadata = zmtp_put_metadata(connection->rules->socket_type, metadata);
        size_t n_ready = curve_put_ready(&connection->curve, metadata, n_metadata, answer);
        connection->state = ZMTP_TRAFFIC;
        return put_command(connection, "READY", answer, n_ready);
    }
    default:
        if (!zmtp_is_command(bytes, n_bytes, "READY", &rest, &n_rest))
            return -EPROTO;
        connection->state = ZMTP_TRAFFIC;
        return check_metadata(connection, rest, n_rest);
    }
}

static int on_command(struct zmtp_connection *connection, const uint8_t *bytes, size_t n_bytes)
{
    const struct zmtp_rules *rules = connection->rules;
    const uint8_t *rest;
    size_t n;
    if (zmtp_is_command(bytes, n_bytes, "PING", &rest, &n)) {
        if (n < 2 || n > 2 + 16)
            return -EPROTO;
        put_traffic_command(connection, "PONG", rest + 2, n - 2);
        return 0;
    }
    if (rules->kind == ZMTP_PUBLISHER && zmtp_is_command(bytes, n_bytes, "SUBSCRIBE", &rest, &n))
        return rules->subscribe(connection->user, true, rest, n);
    if (rules->kind == ZMTP_PUBLISHER && zmtp_is_command(bytes, n_bytes, "CANCEL", &rest, &n))
        return rules->subscribe(connection->user, false, rest, n);
    return zmtp_is_command(bytes, n_bytes, "ERROR", &rest, &n) ? -EPROTO : 0;
}

// A part of a request; takes the body over, whose bytes may be fewer than it has.
static int on_part(struct zmtp_connection *connection, bool more, struct zmtp_body *body)
{
    size_t n = body->n_bytes;
    bool is_delimiter = connection->n_parts == 0 && n == 0 && more;
    connection->n_parts++;
    if (is_delimiter) {
        connection->has_delimiter = true;
        zmtp_body_free(body);
        return 0;
    }
    bool is_whole = !more && !connection->is_bad &&
                    connection->n_parts == (connection->has_delimiter ? 2u : 1u);
    if (!is_whole) {
        connection->is_bad = true;
        connection->n_bad_bytes += n + 16; // empty parts cost time, too
        zmtp_body_free(body);
        body = NULL;
    }
    if (more)
        return connection->n_bad_bytes > BAD_MAX_BYTES ? -EMSGSIZE : 0;
    connection->rules->request(connection->user, body, connection->has_delimiter);
    connection->n_parts = 0;
    connection->has_delimiter = connection->is_bad = false;
    connection->n_bad_bytes = 0;
    return 0;
}

// A whole frame; its body is the connection's and stays so unless a request takes it.
static int on_frame(struct zmtp_connection *connection)
{
    struct zmtp_body *body = connection->body;
    struct zmtp_frame frame = connection->frame;
    const uint8_t *rest;
    size_t n_rest;
    if (connection->state != ZMTP_TRAFFIC)
        return frame.command ? on_handshake(connection, body->bytes, body->n_bytes) : -EPROTO;
    if (connection->mechanism == ZMTP_CURVE) {
        if (!zmtp_is_command(body->bytes, body->n_bytes, "MESSAGE", &rest, &n_rest) ||
            curve_open(&connection->curve, body->bytes + (body->n_bytes - n_rest), n_rest, &frame,
                       &body->bytes) != 0)
            return -EPROTO;
        body->n_bytes = (size_t)frame.n_body;
    }
    if (frame.command)
        return on_command(connection, body->bytes, body->n_bytes);
    if (connection->rules->kind == ZMTP_ROUTER) {
        connection->body = NULL;
        return on_part(connection, frame.more, body);
    }
    if (frame.more || body->n_bytes == 0 || body->bytes[0] > 1)
        return -EPROTO; // a subscriber has nothing else to say
    return connection->rules->subscribe(connection->user, body->bytes[0] == 1, body->bytes + 1,
                                        body->n_bytes - 1);
}

// The frame's header is there. Returns 0, -EAGAIN when it has to wait, or why to hang up.
static int begin_frame(struct zmtp_connection *connection)
{
    const struct zmtp_rules *rules = connection->rules;
    uint64_t max = connection->state != ZMTP_TRAFFIC ? ZMTP_HANDSHAKE_MAX_BYTES
                   : connection->frame.command && connection->mechanism == ZMTP_NULL
                       ? ZMTP_SMALL_BODY_BYTES
                       : rules->max_frame_bytes;
    size_t n = (size_t)connection->frame.n_body;
    if (connection->frame.n_body >
        max + (connection->mechanism == ZMTP_CURVE ? CURVE_OVERHEAD_BYTES : 0))
        return -EMSGSIZE;
    bool is_long = n > ZMTP_SMALL_BODY_BYTES && connection->state == ZMTP_TRAFFIC;
    if (is_long && rules->admit && !rules->admit(connection->user, n))
        return -EAGAIN;
    connection->body = create_body(n);
    if (!connection->body)
        return -ENOMEM;
    connection->n_body = 0;
    connection->in_frame = true;
    return 0;
}

static int end_frame(struct zmtp_connection *connection)
{
    int error = on_frame(connection);
    zmtp_body_free(connection->body);
    connection->body = NULL;
    connection->in_frame = false;
    connection->n_head = 0;
    return error;
}

// Takes bytes of the greeting or of a header. Returns how many, or why to hang up.
static long read_head(struct zmtp_connection *connection, const uint8_t *bytes, size_t n_bytes)
{
    if (connection->state == ZMTP_GREETING) {
        size_t n = sizeof connection->head - connection->n_head;
        n = n < n_bytes ? n : n_bytes;
        memcpy(connection->head + connection->n_head, bytes, n);
        connection->n_head += n;
        if (!zmtp_may_be_greeting(connection->head, connection->n_head))
            return -EPROTO;
        if (connection->n_head == sizeof connection->head) {
            int error = on_greeting(connection);
            connection->n_head = 0;
            if (error)
                return error;
        }
        return (long)n;
    }
    size_t n_before = connection->n_head, n = ZMTP_HEADER_MAX_BYTES - n_before;
    n = n < n_bytes ? n : n_bytes;
    memcpy(connection->head + n_before, bytes, n);
    int n_header = zmtp_read_header(connection->head, n_before + n, &connection->frame);
    if (n_header < 0)
        return n_header;
    if (n_header == 0) {
        connection->n_head += n;
        return (long)n;
    }
    int error = begin_frame(connection);
    if (error == -EAGAIN)
        return 0; // the header comes again
    if (error)
        return error;
    connection->n_head = (size_t)n_header;
    return (long)((size_t)n_header - n_before);
}

size_t zmtp_connection_wants(struct zmtp_connection *connection, uint8_t **out_at)
{
    if (!connection->in_frame || connection->body->n_bytes <= ZMTP_SMALL_BODY_BYTES)
        return 0;
    *out_at = connection->body->bytes + connection->n_body;
    return connection->body->n_bytes - connection->n_body;
}

long zmtp_connection_read(struct zmtp_connection *connection, const uint8_t *bytes, size_t n_bytes)
{
    size_t at = 0;
    for (;;) {
        if (connection->in_frame) {
            size_t n = connection->body->n_bytes - connection->n_body;
            n = n < n_bytes - at ? n : n_bytes - at;
            uint8_t *to = connection->body->bytes + connection->n_body;
            if (to != bytes + at)
                memcpy(to, bytes + at, n);
            at += n;
            connection->n_body += n;
            if (connection->n_body < connection->body->n_bytes)
                return (long)at;
            int error = end_frame(connection);
            if (error)
                return error;
        }
        if (at == n_bytes)
            return (long)at;
        long n = read_head(connection, bytes + at, n_bytes - at);
        if (n < 0)
            return n;
        at += (size_t)n;
        if (n == 0 && !connection->in_frame)
            return (long)at;
    }
}

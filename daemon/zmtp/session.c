// SPDX-License-Identifier: Apache-2.0
#include "daemon/zmtp/session.h"

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

void zmtp_session_begin(struct zmtp_session *session, const struct zmtp_rules *rules,
                        bool allows_null, void *user)
{
    memset(session, 0, sizeof *session);
    session->rules = rules;
    session->user = user;
    session->allows_null = allows_null || !rules->keys;
    // Which mechanism it is the peer says, so the rest of the greeting waits for its.
    uint8_t greeting[ZMTP_GREETING_BYTES];
    zmtp_put_greeting(ZMTP_NULL, greeting);
    memcpy(session->commands, greeting, ZMTP_HALF_BYTES);
    session->n_commands = ZMTP_HALF_BYTES;
}

void zmtp_session_end(struct zmtp_session *session)
{
    zmtp_body_free(session->body);
    session->body = NULL;
    explicit_bzero(&session->curve, sizeof session->curve);
}

static bool put_bytes(struct zmtp_session *session, const uint8_t *bytes, size_t n_bytes)
{
    if (n_bytes > sizeof session->commands - session->n_commands)
        return false;
    memcpy(session->commands + session->n_commands, bytes, n_bytes);
    session->n_commands += n_bytes;
    return true;
}

// A command that has to be sent before READY: there is room for all of them.
static int put_command(struct zmtp_session *session, const char *name, const uint8_t *rest,
                       size_t n_rest)
{
    uint8_t bytes[ZMTP_COMMAND_MAX];
    size_t n = zmtp_put_command(name, rest, n_rest, bytes);
    return n && put_bytes(session, bytes, n) ? 0 : -EPROTO;
}

// The reason of a refusal; a client that is hung up on without one takes its keys for wrong.
static void put_error(struct zmtp_session *session, const char *reason)
{
    uint8_t bytes[ZMTP_COMMAND_MAX], counted[64] = {(uint8_t)strlen(reason)};
    memcpy(counted + 1, reason, counted[0]);
    const size_t n = zmtp_put_command("ERROR", counted, 1 + (size_t)counted[0], bytes);
    if (n)
        put_bytes(session, bytes, n);
}

// One afterwards, left out when the peer does not read what was sent before.
static void put_traffic_command(struct zmtp_session *session, const char *name, const uint8_t *rest,
                                size_t n_rest)
{
    uint8_t bytes[ZMTP_COMMAND_MAX], sealed[ZMTP_COMMAND_MAX + 64];
    size_t n = zmtp_put_command(name, rest, n_rest, bytes);
    if (session->mechanism == ZMTP_NULL) {
        put_bytes(session, bytes, n);
        return;
    }
    // Numbers count up: what is encrypted must be sent, so look for room first.
    if (n + CURVE_OVERHEAD_BYTES + ZMTP_HEADER_MAX_BYTES >
        sizeof session->commands - session->n_commands)
        return;
    const struct zmtp_frame frame = {.command = true, .n_body = n - 2};
    put_bytes(session, sealed, curve_seal(&session->curve, &frame, bytes + 2, sealed));
}

void zmtp_session_ping(struct zmtp_session *session)
{
    static const uint8_t no_limit[2] = {0, 0};
    if (session->state == ZMTP_TRAFFIC)
        put_traffic_command(session, "PING", no_limit, sizeof no_limit);
}

static int on_greeting(struct zmtp_session *session)
{
    uint8_t greeting[ZMTP_GREETING_BYTES];
    int error = zmtp_read_greeting(session->head, &session->mechanism);
    if (error)
        return error;
    bool is_curve = session->mechanism == ZMTP_CURVE;
    if (is_curve ? !session->rules->keys : !session->allows_null) {
        // What we would have, so that the peer's side can say what is wrong.
        zmtp_put_greeting(is_curve ? ZMTP_NULL : ZMTP_CURVE, greeting);
        put_bytes(session, greeting + ZMTP_HALF_BYTES, sizeof greeting - ZMTP_HALF_BYTES);
        return -EACCES;
    }
    zmtp_put_greeting(session->mechanism, greeting);
    if (!put_bytes(session, greeting + ZMTP_HALF_BYTES, sizeof greeting - ZMTP_HALF_BYTES))
        return -EPROTO;
    session->state = is_curve ? ZMTP_HELLO : ZMTP_READY;
    if (is_curve)
        return 0;
    uint8_t metadata[ZMTP_COMMAND_MAX];
    size_t n = zmtp_put_metadata(session->rules->socket_type, metadata);
    return put_command(session, "READY", metadata, n);
}

// Whether a socket of the peer's type may talk to ours.
static int check_metadata(const struct zmtp_session *session, const uint8_t *bytes, size_t n_bytes)
{
    const uint8_t *type;
    size_t n;
    char text[16];
    int error = zmtp_find_property(bytes, n_bytes, "Socket-Type", &type, &n);
    if (error || n == 0 || n > sizeof text - 2 || memchr(type, 0, n) || memchr(type, ' ', n))
        return -EPROTO;
    memcpy(text, type, n);
    memcpy(text + n, " ", 2);
    const char *found = strstr(session->rules->peer_types, text);
    return found && (found == session->rules->peer_types || found[-1] == ' ') ? 0 : -EPROTO;
}

static int on_handshake(struct zmtp_session *session, uint8_t *bytes, size_t n_bytes)
{
    const uint8_t *rest;
    size_t n_rest;
    uint8_t answer[ZMTP_COMMAND_MAX], metadata[ZMTP_COMMAND_MAX];
    int n;
    switch (session->state) {
    case ZMTP_HELLO:
        if (!zmtp_is_command(bytes, n_bytes, "HELLO", &rest, &n_rest))
            return -EPROTO;
        n = curve_hello(&session->curve, session->rules->keys, rest, n_rest, answer);
        if (n < 0)
            return n;
        session->state = ZMTP_INITIATE;
        return put_command(session, "WELCOME", answer, (size_t)n);
    case ZMTP_INITIATE: {
        uint8_t plain[ZMTP_HANDSHAKE_MAX_BYTES];
        if (!zmtp_is_command(bytes, n_bytes, "INITIATE", &rest, &n_rest))
            return -EPROTO;
        n = curve_initiate(&session->curve, rest, n_rest, plain);
        if (n == -EACCES)
            put_error(session, "400");
        if (n < 0)
            return n;
        int error = check_metadata(session, plain, (size_t)n);
        if (error) {
            put_error(session, "Invalid socket type");
            return error;
        }
        size_t n_metadata = zmtp_put_metadata(session->rules->socket_type, metadata);
        size_t n_ready = curve_put_ready(&session->curve, metadata, n_metadata, answer);
        session->state = ZMTP_TRAFFIC;
        return put_command(session, "READY", answer, n_ready);
    }
    default:
        if (!zmtp_is_command(bytes, n_bytes, "READY", &rest, &n_rest))
            return -EPROTO;
        session->state = ZMTP_TRAFFIC;
        return check_metadata(session, rest, n_rest);
    }
}

static int on_command(struct zmtp_session *session, const uint8_t *bytes, size_t n_bytes)
{
    const struct zmtp_rules *rules = session->rules;
    const uint8_t *rest;
    size_t n;
    if (zmtp_is_command(bytes, n_bytes, "PING", &rest, &n)) {
        if (n < 2 || n > 2 + 16)
            return -EPROTO;
        put_traffic_command(session, "PONG", rest + 2, n - 2);
        return 0;
    }
    if (rules->kind == ZMTP_PUBLISHER && zmtp_is_command(bytes, n_bytes, "SUBSCRIBE", &rest, &n))
        return rules->subscribe(session->user, true, rest, n);
    if (rules->kind == ZMTP_PUBLISHER && zmtp_is_command(bytes, n_bytes, "CANCEL", &rest, &n))
        return rules->subscribe(session->user, false, rest, n);
    return zmtp_is_command(bytes, n_bytes, "ERROR", &rest, &n) ? -EPROTO : 0;
}

// A part of a request; takes the body over, whose bytes may be fewer than it has.
static int on_part(struct zmtp_session *session, bool more, struct zmtp_body *body)
{
    size_t n = body->n_bytes;
    bool is_delimiter = session->n_parts == 0 && n == 0 && more;
    session->n_parts++;
    if (is_delimiter) {
        session->has_delimiter = true;
        zmtp_body_free(body);
        return 0;
    }
    bool is_whole =
        !more && !session->is_bad && session->n_parts == (session->has_delimiter ? 2u : 1u);
    if (!is_whole) {
        session->is_bad = true;
        session->n_bad_bytes += n + 16; // empty parts cost time, too
        zmtp_body_free(body);
        body = NULL;
    }
    if (more)
        return session->n_bad_bytes > BAD_MAX_BYTES ? -EMSGSIZE : 0;
    session->rules->request(session->user, body, session->has_delimiter);
    session->n_parts = 0;
    session->has_delimiter = session->is_bad = false;
    session->n_bad_bytes = 0;
    return 0;
}

// A whole frame; its body is the connection's and stays so unless a request takes it.
static int on_frame(struct zmtp_session *session)
{
    struct zmtp_body *body = session->body;
    struct zmtp_frame frame = session->frame;
    const uint8_t *rest;
    size_t n_rest;
    if (session->state != ZMTP_TRAFFIC)
        return frame.command ? on_handshake(session, body->bytes, body->n_bytes) : -EPROTO;
    if (session->mechanism == ZMTP_CURVE) {
        if (!zmtp_is_command(body->bytes, body->n_bytes, "MESSAGE", &rest, &n_rest) ||
            curve_open(&session->curve, body->bytes + (body->n_bytes - n_rest), n_rest, &frame,
                       &body->bytes) != 0)
            return -EPROTO;
        body->n_bytes = (size_t)frame.n_body;
    }
    if (frame.command)
        return on_command(session, body->bytes, body->n_bytes);
    if (session->rules->kind == ZMTP_ROUTER) {
        session->body = NULL;
        return on_part(session, frame.more, body);
    }
    if (frame.more || body->n_bytes == 0 || body->bytes[0] > 1)
        return -EPROTO; // a subscriber has nothing else to say
    return session->rules->subscribe(session->user, body->bytes[0] == 1, body->bytes + 1,
                                     body->n_bytes - 1);
}

// The frame's header is there. Returns 0, -EAGAIN when it has to wait, or why to hang up.
static int begin_frame(struct zmtp_session *session)
{
    const struct zmtp_rules *rules = session->rules;
    uint64_t max = session->state != ZMTP_TRAFFIC ? ZMTP_HANDSHAKE_MAX_BYTES
                   : session->frame.command && session->mechanism == ZMTP_NULL
                       ? ZMTP_SMALL_BODY_BYTES
                       : rules->max_frame_bytes;
    size_t n = (size_t)session->frame.n_body;
    if (session->frame.n_body > max + (session->mechanism == ZMTP_CURVE ? CURVE_OVERHEAD_BYTES : 0))
        return -EMSGSIZE;
    bool is_long = n > ZMTP_SMALL_BODY_BYTES && session->state == ZMTP_TRAFFIC;
    if (is_long && rules->admit && !rules->admit(session->user, n))
        return -EAGAIN;
    session->body = create_body(n);
    if (!session->body)
        return -ENOMEM;
    session->n_body = 0;
    session->in_frame = true;
    return 0;
}

static int end_frame(struct zmtp_session *session)
{
    int error = on_frame(session);
    zmtp_body_free(session->body);
    session->body = NULL;
    session->in_frame = false;
    session->n_head = 0;
    return error;
}

// Takes bytes of the greeting or of a header. Returns how many, or why to hang up.
static long read_head(struct zmtp_session *session, const uint8_t *bytes, size_t n_bytes)
{
    if (session->state == ZMTP_GREETING) {
        size_t n = sizeof session->head - session->n_head;
        n = n < n_bytes ? n : n_bytes;
        memcpy(session->head + session->n_head, bytes, n);
        session->n_head += n;
        if (!zmtp_may_be_greeting(session->head, session->n_head))
            return -EPROTO;
        if (session->n_head == sizeof session->head) {
            int error = on_greeting(session);
            session->n_head = 0;
            if (error)
                return error;
        }
        return (long)n;
    }
    size_t n_before = session->n_head, n = ZMTP_HEADER_MAX_BYTES - n_before;
    n = n < n_bytes ? n : n_bytes;
    memcpy(session->head + n_before, bytes, n);
    int n_header = zmtp_read_header(session->head, n_before + n, &session->frame);
    if (n_header < 0)
        return n_header;
    if (n_header == 0) {
        session->n_head += n;
        return (long)n;
    }
    int error = begin_frame(session);
    if (error == -EAGAIN)
        return 0; // the header comes again
    if (error)
        return error;
    session->n_head = (size_t)n_header;
    return (long)((size_t)n_header - n_before);
}

size_t zmtp_session_wants(struct zmtp_session *session, uint8_t **out_at)
{
    if (!session->in_frame || session->body->n_bytes <= ZMTP_SMALL_BODY_BYTES)
        return 0;
    *out_at = session->body->bytes + session->n_body;
    return session->body->n_bytes - session->n_body;
}

long zmtp_session_read(struct zmtp_session *session, const uint8_t *bytes, size_t n_bytes)
{
    size_t at = 0;
    for (;;) {
        if (session->in_frame) {
            size_t n = session->body->n_bytes - session->n_body;
            n = n < n_bytes - at ? n : n_bytes - at;
            uint8_t *to = session->body->bytes + session->n_body;
            if (to != bytes + at)
                memcpy(to, bytes + at, n);
            at += n;
            session->n_body += n;
            if (session->n_body < session->body->n_bytes)
                return (long)at;
            int error = end_frame(session);
            if (error)
                return error;
        }
        if (at == n_bytes)
            return (long)at;
        long n = read_head(session, bytes + at, n_bytes - at);
        if (n < 0)
            return n;
        at += (size_t)n;
        if (n == 0 && !session->in_frame)
            return (long)at;
    }
}

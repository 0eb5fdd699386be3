// SPDX-License-Identifier: Apache-2.0
// What a peer's bytes mean: the server's side of one ZMTP connection as a state machine without a
// socket. It holds at most one frame of the peer's, of a length that its rules allow, and 1 KiB of
// its own commands; what a peer may make it hold is known before the first byte comes.
//
//   greeting -> [CURVE: HELLO, WELCOME, INITIATE ->] READY -> messages, subscriptions, PING
#ifndef POSED_DAEMON_ZMTP_SESSION_H
#define POSED_DAEMON_ZMTP_SESSION_H

#include "daemon/zmtp/curve.h"

#define ZMTP_SMALL_BODY_BYTES    4096 // longer frames are asked for with `admit`
#define ZMTP_COMMANDS_OUT_BYTES  1024
#define ZMTP_HANDSHAKE_MAX_BYTES 2048 // of a frame before READY

enum zmtp_kind { ZMTP_PUBLISHER, ZMTP_ROUTER };

// Bytes of a request, and who is to be told when they are freed.
struct zmtp_body {
    void (*freed)(void *owner, size_t n_bytes); // may be NULL
    void *owner;
    size_t n_admitted;
    size_t n_bytes;
    uint8_t *bytes; // inside `memory`
    uint8_t memory[];
};
void zmtp_body_free(struct zmtp_body *body); // accepts NULL

// What is the same for all connections of a socket.
struct zmtp_rules {
    enum zmtp_kind kind;
    const char *socket_type;  // ours: "XPUB"
    const char *peer_types;   // theirs, each with a space behind: "SUB XSUB "
    uint64_t max_frame_bytes; // of the peer's frames
    struct curve_keys *keys;  // NULL: CURVE is not offered

    // ZMTP_PUBLISHER: a subscription (on) or its end. Returns 0 or -EPROTO.
    int (*subscribe)(void *user, bool on, const uint8_t *prefix, size_t n_prefix);
    // ZMTP_ROUTER: one whole request; `body` is to be freed with zmtp_body_free. has_delimiter: an
    // empty part stood in front. body NULL: a message of other parts than these, to be counted.
    void (*request)(void *user, struct zmtp_body *body, bool has_delimiter);
    // ZMTP_ROUTER: whether a frame of so many bytes, more than ZMTP_SMALL_BODY_BYTES, may come now;
    // if not, the connection reads nothing until it is asked again. May be NULL: always.
    bool (*admit)(void *user, size_t n_bytes);
};

enum zmtp_state { ZMTP_GREETING, ZMTP_HELLO, ZMTP_INITIATE, ZMTP_READY, ZMTP_TRAFFIC };

struct zmtp_session {
    const struct zmtp_rules *rules;
    void *user; // of the rules' functions
    enum zmtp_state state;
    bool allows_null;
    enum zmtp_mechanism mechanism;
    struct curve curve;

    uint8_t head[ZMTP_GREETING_BYTES]; // of the greeting or of a frame's header
    size_t n_head;
    bool in_frame;
    struct zmtp_frame frame;
    struct zmtp_body *body; // of the frame that is coming in
    size_t n_body;

    unsigned n_parts; // of the message that is coming in
    bool has_delimiter, is_bad;
    uint64_t n_bad_bytes;

    uint8_t commands[ZMTP_COMMANDS_OUT_BYTES]; // to be sent
    size_t n_commands;
};

// allows_null: the connection may go without CURVE although there are keys (a local socket, whose
// file says who may connect).
void zmtp_session_begin(struct zmtp_session *session, const struct zmtp_rules *rules,
                        bool allows_null, void *user);
void zmtp_session_end(struct zmtp_session *session);

// The peer's next bytes. Returns how many were taken, fewer than n_bytes only where `admit` says
// no; or what the peer is hung up on for: -EPROTO (against the protocol), -EMSGSIZE (too long),
// -EACCES (a key), -ENOMEM.
__attribute__((warn_unused_result)) long zmtp_session_read(struct zmtp_session *session,
                                                           const uint8_t *bytes, size_t n_bytes);

// How many bytes of a long frame may be put at *out_at directly, followed by a call of
// zmtp_session_read with them (it does not copy then); 0: read elsewhere.
size_t zmtp_session_wants(struct zmtp_session *session, uint8_t **out_at);

// Asks the peer for a sign of life, if there is room for it.
void zmtp_session_ping(struct zmtp_session *session);

#endif

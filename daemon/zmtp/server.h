// SPDX-License-Identifier: Apache-2.0
// The daemon's sockets as ZeroMQ peers see them: publishers (XPUB, PUB) and routers (ROUTER) that
// listen on ipc and TCP. Ours and not libzmq's, because libzmq bounds neither the parts of a
// message that never ends, nor what a subscriber sends, nor connections, and ends the process where
// a descriptor, memory or a system call is refused (tools/bench/MEASURED.md, "Attacks").
//
// Everything that a peer can make the server hold is bounded: connections (in all, and by user or
// address), a frame of theirs, unfinished uploads in all, messages that wait for a peer (shared by
// all who wait for the same), bytes that a subscriber may send. Whoever exceeds it is hung up on.
//
// One thread owns a server and calls all functions but zmtp_server_wake and zmtp_server_listen.
#ifndef POSED_DAEMON_ZMTP_SERVER_H
#define POSED_DAEMON_ZMTP_SERVER_H

#include "daemon/zmtp/message.h"
#include "daemon/zmtp/session.h"

#define ZMTP_MAX_SOCKETS 3
#define ZMTP_OWNER_BYTES 56
#define ZMTP_USER_BYTES  912

struct zmtp_server; // opaque
struct zmtp_peer;   // opaque: a connection

struct zmtp_server_settings {
    uint32_t max_connections; // of a socket
    size_t max_upload_bytes;  // of requests that are unfinished or not answered yet, in all
    struct curve_keys *keys;  // NULL: no CURVE. Must outlive the server; who is taken out of its
                              // list is hung up on within 100 ms
    struct log_sink log;
    void *user; // of the functions below
    // A publisher's peer subscribes or (on false) no longer does. Returns 0 or -EPROTO.
    int (*subscribe)(void *user, struct zmtp_peer *peer, bool on, const uint8_t *prefix,
                     size_t n_prefix);
    // A router's peer asks; see session.h.
    void (*request)(void *user, struct zmtp_peer *peer, struct zmtp_body *body, bool has_delimiter);
    // A peer has gone; its pointer is no longer valid afterwards.
    void (*leave)(void *user, struct zmtp_peer *peer);
};

// Returns 0 or negative errno.
__attribute__((warn_unused_result)) int
zmtp_server_create(struct zmtp_server **out, const struct zmtp_server_settings *settings);
void zmtp_server_destroy(struct zmtp_server **server);

// A socket: its name in the log, its kind, the messages that wait for a peer at most. Returns its
// number.
int zmtp_server_add(struct zmtp_server *server, const char *name, enum zmtp_kind kind,
                    const char *socket_type, uint64_t max_frame_bytes, uint32_t hwm);

// Takes a bound, non-blocking stream socket over and listens on it. is_local: it is a unix socket.
// Returns 0 or negative errno (the descriptor is then the caller's still).
__attribute__((warn_unused_result)) int zmtp_server_listen(struct zmtp_server *server, int socket,
                                                           int fd, bool is_local);

// Waits at most so long for something to happen (less when a timer is due or zmtp_server_wake is
// called), and does it.
void zmtp_server_run(struct zmtp_server *server, int timeout_ms);

// Any thread: ends the wait of zmtp_server_run.
void zmtp_server_wake(struct zmtp_server *server);

// For the peers of a socket. Valid until `leave`.
struct zmtp_peer *zmtp_server_first(struct zmtp_server *server, int socket);
struct zmtp_peer *zmtp_server_next(const struct zmtp_peer *peer);
int zmtp_peer_socket(const struct zmtp_peer *peer);
void *zmtp_peer_user(struct zmtp_peer *peer);              // ZMTP_USER_BYTES, zero at first
uint64_t zmtp_peer_id(const struct zmtp_peer *peer);       // never given twice
const char *zmtp_peer_owner(const struct zmtp_peer *peer); // "uid 1000", "10.0.0.7"
struct zmtp_peer *zmtp_server_find(struct zmtp_server *server, uint64_t id); // NULL: gone

// Whether one more message may wait for the peer.
bool zmtp_peer_has_room(const struct zmtp_peer *peer);

// Sends a message (which stays the caller's) as soon as the peer takes it. Returns false when it
// was dropped: no room, or no memory.
bool zmtp_peer_send(struct zmtp_peer *peer, struct zmtp_message *message);

// Messages that wait for peers, those that wait for several counted for each.
uint64_t zmtp_server_n_unsent(const struct zmtp_server *server);

#endif

// SPDX-License-Identifier: Apache-2.0
// One connection of a server (server.h) and its descriptor: what the peer says is read and given to
// the connection (session.h), what waits for it (outbox.h) is sent as it takes it, and it is
// hung up on when it is silent, slow or rude. Private to daemon/zmtp; one thread.
//
// Any of these functions may hang up on the peer. It stays in memory with has_gone set until
// peers_free_gone: events of the same round may point to it. While its bytes are read, whose
// callbacks may send to it, a hang-up waits: what is read stands in the connection's memory, and
// what was subscribed must not outlive the word that the peer has left.
#ifndef POSED_DAEMON_ZMTP_PEER_H
#define POSED_DAEMON_ZMTP_PEER_H

#include <stddef.h>

#include "daemon/zmtp/heartbeat.h"
#include "daemon/zmtp/outbox.h"
#include "daemon/zmtp/refusals.h"
#include "daemon/zmtp/server.h"

// The first member of what epoll points to.
enum source_kind { SOURCE_BELL, SOURCE_LISTENER, SOURCE_PEER };

// What all peers of a server share.
struct peers {
    struct zmtp_server_settings settings;
    int epoll;
    int64_t now_ns; // of this round
    uint64_t next_id;
    size_t n_upload_bytes;
    bool any_paused;
    unsigned n_lists; // of clients, curve_n_lists of the round before
    bool looks_up;    // the list is another one: whether all who are connected are in it
    struct zmtp_peer *gone;
    struct refusals refusals;
};

// One of the server's sockets, and its peers.
struct zmtp_socket {
    int number;
    const char *name;
    struct zmtp_rules rules;
    uint32_t hwm;
    struct zmtp_peer *peers;
    uint32_t n_peers;
    int64_t told_ns; // when a refusal was logged last
};

struct zmtp_peer {
    enum source_kind kind;
    struct peers *all;
    struct zmtp_socket *socket;
    struct zmtp_peer *next, **link; // of its socket
    int fd;
    bool writes;    // epoll waits for room, too
    bool paused;    // waits for room for an upload
    bool has_gone;  // to be freed at the end of the round
    bool is_read;   // its bytes are being read
    bool is_doomed; // hung up on when they have been, for `doom`
    int doom;
    uint64_t id;
    char owner[ZMTP_OWNER_BYTES];
    int64_t since_ns, frame_ns;
    struct heartbeat heartbeat;
    int64_t talk_bytes;
    struct zmtp_session session;

    uint8_t *held; // bytes that are not taken yet
    size_t n_held;

    struct outbox outbox;

    _Alignas(max_align_t) uint8_t user[ZMTP_USER_BYTES];
};

// Sets what the connections of a socket ask its peers for: subscribe, request, admit (by kind).
void peer_set_rules(struct zmtp_rules *rules);

// Takes an accepted descriptor over as a peer of the socket, and greets it. is_local: it is a unix
// socket. False (no memory, or epoll takes no more): the descriptor is the caller's still.
bool peer_begin(struct peers *all, struct zmtp_socket *socket, int fd, bool is_local,
                const char owner[ZMTP_OWNER_BYTES]);

// Sends what was sent last on its way, then hangs up.
void peer_end(struct zmtp_peer *peer);

// Closes the connection; error: why (in the log), 0 where nobody is to blame.
void peer_hang_up(struct zmtp_peer *peer, int error);
void peers_free_gone(struct peers *all);

// Does what epoll reports of the peer.
void peer_on_events(struct zmtp_peer *peer, uint32_t events);

// Sends what the peer takes now.
void peer_flush(struct zmtp_peer *peer);

// Asks again for room for a paused peer's upload.
void peer_resume(struct zmtp_peer *peer);

// Every 100 ms: gives up handshakes and uploads that last too long, and silences (heartbeat.h);
// asks for signs of life.
void peer_look_after(struct zmtp_peer *peer);

#endif

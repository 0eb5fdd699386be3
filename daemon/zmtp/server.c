// SPDX-License-Identifier: Apache-2.0
#include "daemon/zmtp/server.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/zmtp/peer.h"
#include "proto/clock.h"

#define MAX_LISTENERS 16
#define MAX_EVENTS    64
#define ACCEPTS       16
#define TICK_NS       INT64_C(100000000)
#define YOUNG_NS      INT64_C(500000000) // a handshake so young is not given up for a newcomer
#define RETRY_NS      INT64_C(200000000) // after a lack of descriptors

struct listener {
    enum source_kind kind;
    int fd;
    int socket;
    bool is_local;
};

struct zmtp_server {
    enum source_kind bell_kind; // what the bell's event points to
    int bell;
    struct peers peers; // and the settings
    struct zmtp_socket sockets[ZMTP_MAX_SOCKETS];
    int n_sockets;
    struct listener listeners[MAX_LISTENERS];
    size_t n_listeners;
    bool listens;      // false: no descriptors, the listeners wait
    int64_t listen_ns; // until then
    int64_t tick_ns;
};

// --- Coming and going

static void find_owner(int fd, bool is_local, char out[ZMTP_OWNER_BYTES])
{
    struct sockaddr_storage address;
    struct ucred who;
    socklen_t n = sizeof who;
    char text[INET6_ADDRSTRLEN] = "?";
    if (is_local) {
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0)
            snprintf(out, ZMTP_OWNER_BYTES, "uid %u", (unsigned)who.uid);
        else
            snprintf(out, ZMTP_OWNER_BYTES, "uid ?");
        return;
    }
    n = sizeof address;
    if (getpeername(fd, (struct sockaddr *)&address, &n) == 0)
        inet_ntop(address.ss_family,
                  address.ss_family == AF_INET6
                      ? (const void *)&((struct sockaddr_in6 *)&address)->sin6_addr
                      : (const void *)&((struct sockaddr_in *)&address)->sin_addr,
                  text, sizeof text);
    snprintf(out, ZMTP_OWNER_BYTES, "%s", text);
}

// Whether one more of this owner may come: nobody takes more than three quarters of the places, and
// where all are taken the oldest that has not said who it is must go.
static bool has_place(struct zmtp_server *server, struct zmtp_socket *socket, const char *owner)
{
    uint32_t max = server->peers.settings.max_connections, n_own = 0;
    struct zmtp_peer *oldest = NULL, *oldest_own = NULL;
    for (struct zmtp_peer *peer = socket->peers; peer; peer = peer->next) {
        bool is_own = strcmp(peer->owner, owner) == 0;
        n_own += is_own;
        if (peer->session.state == ZMTP_TRAFFIC || server->peers.now_ns - peer->since_ns < YOUNG_NS)
            continue;
        if (!oldest || peer->since_ns < oldest->since_ns)
            oldest = peer;
        if (is_own && (!oldest_own || peer->since_ns < oldest_own->since_ns))
            oldest_own = peer;
    }
    struct zmtp_peer *leaves = n_own >= max - max / 4 ? oldest_own : oldest;
    if (n_own < max - max / 4 && socket->n_peers < max)
        return true;
    if (leaves)
        peer_hang_up(leaves, -ETIMEDOUT);
    return leaves;
}

static void refuse(struct zmtp_server *server, struct zmtp_socket *socket, const char *owner)
{
    if (server->peers.now_ns - socket->told_ns < 1000000000)
        return;
    socket->told_ns = server->peers.now_ns;
    log_to(&server->peers.settings.log, LOG_LEVEL_WARNING,
           "%s: a client at %s was refused: too many connections (endpoints.max_connections = %u, "
           "three quarters of them for one user or address)",
           socket->name, owner, server->peers.settings.max_connections);
}

static bool add_peer(struct zmtp_server *server, const struct listener *listener, int fd)
{
    struct zmtp_socket *socket = &server->sockets[listener->socket];
    char owner[ZMTP_OWNER_BYTES];
    find_owner(fd, listener->is_local, owner);
    if (!has_place(server, socket, owner)) {
        refuse(server, socket, owner);
        return false;
    }
    return peer_begin(&server->peers, socket, fd, listener->is_local, owner);
}

static void set_listening(struct zmtp_server *server, bool on)
{
    server->listens = on;
    for (size_t i = 0; i < server->n_listeners; i++) {
        struct epoll_event event = {.events = on ? EPOLLIN : 0, .data.ptr = &server->listeners[i]};
        epoll_ctl(server->peers.epoll, EPOLL_CTL_MOD, server->listeners[i].fd, &event);
    }
}

static void accept_peers(struct zmtp_server *server, const struct listener *listener)
{
    for (int i = 0; i < ACCEPTS; i++) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            if (!add_peer(server, listener, fd))
                close(fd);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            log_to(&server->peers.settings.log, LOG_LEVEL_WARNING,
                   "%s: no connection can be taken: %s", server->sockets[listener->socket].name,
                   strerror(errno));
            set_listening(server, false);
            server->listen_ns = server->peers.now_ns + RETRY_NS;
        }
        if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

// --- Rounds

static void resume_paused(struct zmtp_server *server)
{
    server->peers.any_paused = false;
    for (int i = 0; i < server->n_sockets; i++)
        for (struct zmtp_peer *peer = server->sockets[i].peers, *next; peer; peer = next) {
            next = peer->next;
            peer_resume(peer);
        }
}

static void tick(struct zmtp_server *server)
{
    server->tick_ns = server->peers.now_ns + TICK_NS;
    if (!server->listens && server->peers.now_ns >= server->listen_ns)
        set_listening(server, true);
    struct peers *peers = &server->peers;
    const unsigned n_lists = peers->settings.keys ? curve_n_lists(peers->settings.keys) : 0;
    peers->looks_up = n_lists != peers->n_lists;
    peers->n_lists = n_lists;
    for (int i = 0; i < server->n_sockets; i++)
        for (struct zmtp_peer *peer = server->sockets[i].peers, *next; peer; peer = next) {
            next = peer->next;
            peer_look_after(peer);
        }
}

// --- The server

int zmtp_server_create(struct zmtp_server **out, const struct zmtp_server_settings *settings)
{
    *out = NULL;
    struct zmtp_server *server = calloc(1, sizeof *server);
    if (!server)
        return -ENOMEM;
    server->bell_kind = SOURCE_BELL;
    server->peers.settings = *settings;
    server->listens = true;
    server->bell = -1;
    server->peers.epoll = epoll_create1(EPOLL_CLOEXEC);
    int error = server->peers.epoll < 0 ? -errno : 0;
    if (!error) {
        server->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        error = server->bell < 0 ? -errno : 0;
    }
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = server};
    if (!error && epoll_ctl(server->peers.epoll, EPOLL_CTL_ADD, server->bell, &event) != 0)
        error = -errno;
    if (error) {
        zmtp_server_destroy(&server);
        return error;
    }
    *out = server;
    return 0;
}

void zmtp_server_destroy(struct zmtp_server **server)
{
    struct zmtp_server *s = *server;
    if (!s)
        return;
    for (int i = 0; i < s->n_sockets; i++)
        while (s->sockets[i].peers)
            peer_end(s->sockets[i].peers);
    peers_free_gone(&s->peers);
    for (size_t i = 0; i < s->n_listeners; i++)
        close(s->listeners[i].fd);
    if (s->bell >= 0)
        close(s->bell);
    if (s->peers.epoll >= 0)
        close(s->peers.epoll);
    free(s);
    *server = NULL;
}

int zmtp_server_add(struct zmtp_server *server, const char *name, enum zmtp_kind kind,
                    const char *socket_type, uint64_t max_frame_bytes, uint32_t hwm)
{
    assert(server->n_sockets < ZMTP_MAX_SOCKETS);
    server->sockets[server->n_sockets] = (struct zmtp_socket){
        .number = server->n_sockets,
        .name = name,
        .hwm = hwm,
        .rules = {.kind = kind,
                  .socket_type = socket_type,
                  .peer_types = kind == ZMTP_PUBLISHER ? "SUB XSUB " : "REQ DEALER ROUTER ",
                  .max_frame_bytes = max_frame_bytes,
                  .keys = server->peers.settings.keys},
    };
    peer_set_rules(&server->sockets[server->n_sockets].rules);
    return server->n_sockets++;
}

int zmtp_server_listen(struct zmtp_server *server, int socket, int fd, bool is_local)
{
    if (server->n_listeners == MAX_LISTENERS)
        return -ENOSPC;
    struct listener *listener = &server->listeners[server->n_listeners];
    *listener = (struct listener){SOURCE_LISTENER, fd, socket, is_local};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = listener};
    if (listen(fd, 128) != 0 || epoll_ctl(server->peers.epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        return -errno;
    server->n_listeners++;
    return 0;
}

static void on_event(struct zmtp_server *server, const struct epoll_event *event)
{
    switch (*(enum source_kind *)event->data.ptr) {
    case SOURCE_BELL: {
        uint64_t count;
        ssize_t n = read(server->bell, &count, sizeof count);
        (void)n;
        return;
    }
    case SOURCE_LISTENER:
        accept_peers(server, event->data.ptr);
        return;
    case SOURCE_PEER:
        peer_on_events(event->data.ptr, event->events);
        return;
    }
}

void zmtp_server_run(struct zmtp_server *server, int timeout_ms)
{
    struct epoll_event events[MAX_EVENTS];
    int tick_ms = (int)((server->tick_ns - clock_monotonic_ns()) / 1000000) + 1;
    tick_ms = tick_ms < 0 ? 0 : tick_ms;
    timeout_ms = timeout_ms < 0 || timeout_ms > tick_ms ? tick_ms : timeout_ms;
    int n = epoll_wait(server->peers.epoll, events, MAX_EVENTS, timeout_ms);
    server->peers.now_ns = clock_monotonic_ns();
    for (int i = 0; i < n; i++)
        on_event(server, &events[i]);
    if (server->peers.any_paused)
        resume_paused(server);
    if (server->peers.now_ns >= server->tick_ns)
        tick(server);
    peers_free_gone(&server->peers);
}

void zmtp_server_wake(struct zmtp_server *server)
{
    const uint64_t one = 1;
    ssize_t n = write(server->bell, &one, sizeof one);
    (void)n; // where it fails, the next tick wakes
}

struct zmtp_peer *zmtp_server_first(struct zmtp_server *server, int socket)
{
    return server->sockets[socket].peers;
}

struct zmtp_peer *zmtp_server_next(const struct zmtp_peer *peer)
{
    return peer->next;
}

int zmtp_peer_socket(const struct zmtp_peer *peer)
{
    return peer->socket->number;
}

void *zmtp_peer_user(struct zmtp_peer *peer)
{
    return peer->user;
}

uint64_t zmtp_peer_id(const struct zmtp_peer *peer)
{
    return peer->id;
}

const char *zmtp_peer_owner(const struct zmtp_peer *peer)
{
    return peer->owner;
}

struct zmtp_peer *zmtp_server_find(struct zmtp_server *server, uint64_t id)
{
    for (int i = 0; i < server->n_sockets; i++)
        for (struct zmtp_peer *peer = server->sockets[i].peers; peer; peer = peer->next)
            if (peer->id == id)
                return peer;
    return NULL;
}

bool zmtp_peer_has_room(const struct zmtp_peer *peer)
{
    return outbox_has_room(&peer->outbox, peer->socket->hwm);
}

bool zmtp_peer_send(struct zmtp_peer *peer, struct zmtp_message *message)
{
    if (peer->has_gone || peer->is_doomed || !zmtp_peer_has_room(peer))
        return false;
    if (!outbox_put(&peer->outbox, message)) {
        log_to(&peer->all->settings.log, LOG_LEVEL_WARNING, "%s: a message to %s is lost: %s",
               peer->socket->name, peer->owner, strerror(ENOMEM));
        return false;
    }
    if (!peer->writes)
        peer_flush(peer);
    return true;
}

uint64_t zmtp_server_n_unsent(const struct zmtp_server *server)
{
    uint64_t n = 0;
    for (int i = 0; i < server->n_sockets; i++)
        for (const struct zmtp_peer *peer = server->sockets[i].peers; peer; peer = peer->next)
            n += peer->outbox.n_queue;
    return n;
}

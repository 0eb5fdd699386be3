// SPDX-License-Identifier: Apache-2.0
#include "daemon/zmtp/server.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/zmtp/outbox.h"
#include "proto/clock.h"

#define MAX_LISTENERS 16
#define MAX_EVENTS    64
#define READ_BYTES    4096 // at a time
#define READS_A_ROUND 16   // of a peer, before others have their turn
#define ACCEPTS       16
#define TICK_NS       INT64_C(100000000)
#define HANDSHAKE_NS  INT64_C(5000000000)
#define YOUNG_NS      INT64_C(500000000) // a handshake so young is not given up for a newcomer
#define HEARTBEAT_NS  INT64_C(5000000000)
#define SILENCE_NS    INT64_C(15000000000)
#define UPLOAD_NS     INT64_C(30000000000)
#define RETRY_NS      INT64_C(200000000) // after a lack of descriptors
#define BELL_BYTES    0                  // epoll's data of the wake-up descriptor

// What a subscriber may send: subscriptions and signs of life. Ten thousand subscriptions at once
// are fine, an endless stream is not.
#define TALK_BYTES        (1 << 20)
#define TALK_BYTES_A_TICK 2048

// The first member of what epoll points to.
enum source_kind { SOURCE_BELL, SOURCE_LISTENER, SOURCE_PEER };

struct listener {
    enum source_kind kind;
    int fd;
    int socket;
    bool is_local;
};

struct zmtp_peer {
    enum source_kind kind;
    struct zmtp_server *server;
    struct zmtp_peer *next, **link; // of its socket
    int socket, fd;
    bool writes;   // epoll waits for room, too
    bool paused;   // waits for room for an upload
    bool has_gone; // to be freed at the end of the round
    uint64_t id;
    char owner[ZMTP_OWNER_BYTES];
    int64_t since_ns, heard_ns, asked_ns, frame_ns;
    int64_t talk_bytes;
    struct zmtp_connection connection;

    uint8_t *held; // bytes that are not taken yet
    size_t n_held;

    struct outbox outbox;

    _Alignas(max_align_t) uint8_t user[ZMTP_USER_BYTES];
};

struct socket {
    const char *name;
    struct zmtp_rules rules;
    uint32_t hwm;
    struct zmtp_peer *peers;
    uint32_t n_peers;
    int64_t told_ns; // when a refusal was logged last
};

struct zmtp_server {
    enum source_kind bell_kind; // what the bell's event points to
    struct zmtp_server_settings settings;
    int epoll, bell;
    _Atomic bool sleeps;
    struct socket sockets[ZMTP_MAX_SOCKETS];
    int n_sockets;
    struct listener listeners[MAX_LISTENERS];
    size_t n_listeners;
    bool listens;      // false: no descriptors, the listeners wait
    int64_t listen_ns; // until then
    int64_t tick_ns;
    uint64_t next_id;
    size_t n_upload_bytes;
    bool any_paused;
    struct zmtp_peer *gone;
    int64_t now_ns; // of this round
};

static struct socket *socket_of(struct zmtp_peer *peer)
{
    return &peer->server->sockets[peer->socket];
}

// --- What the connection asks for

static int on_subscribe(void *user, bool on, const uint8_t *prefix, size_t n_prefix)
{
    struct zmtp_peer *peer = user;
    const struct zmtp_server_settings *settings = &peer->server->settings;
    return settings->subscribe(settings->user, peer, on, prefix, n_prefix);
}

static void on_body_freed(void *owner, size_t n_bytes)
{
    struct zmtp_server *server = owner;
    server->n_upload_bytes -= n_bytes;
}

static void on_request(void *user, struct zmtp_body *body, bool has_delimiter)
{
    struct zmtp_peer *peer = user;
    const struct zmtp_server_settings *settings = &peer->server->settings;
    settings->request(settings->user, peer, body, has_delimiter);
}

// The longest request alone always has room.
static bool on_admit(void *user, size_t n_bytes)
{
    struct zmtp_peer *peer = user;
    struct zmtp_server *server = peer->server;
    if (server->n_upload_bytes &&
        server->n_upload_bytes + n_bytes > server->settings.max_upload_bytes)
        return false;
    return true;
}

// --- Coming and going

static void hang_up(struct zmtp_peer *peer, int error)
{
    struct zmtp_server *server = peer->server;
    const struct zmtp_server_settings *settings = &server->settings;
    if (peer->has_gone)
        return;
    peer->has_gone = true;
    if (error == -EACCES && peer->connection.mechanism == ZMTP_CURVE)
        log_to(&settings->log, LOG_LEVEL_WARNING, "%s: a client at %s was refused: unknown key",
               socket_of(peer)->name, peer->owner);
    else if (error && error != -ECONNRESET)
        log_to(&settings->log, LOG_LEVEL_DEBUG, "%s: hung up on %s: %s", socket_of(peer)->name,
               peer->owner, strerror(-error));
    epoll_ctl(server->epoll, EPOLL_CTL_DEL, peer->fd, NULL);
    close(peer->fd);
    *peer->link = peer->next;
    if (peer->next)
        peer->next->link = peer->link;
    socket_of(peer)->n_peers--;
    if (peer->connection.state == ZMTP_TRAFFIC)
        settings->leave(settings->user, peer);
    zmtp_connection_end(&peer->connection);
    outbox_end(&peer->outbox);
    free(peer->held);
    // Freed when no event of this round can point to it any more.
    peer->next = server->gone;
    server->gone = peer;
}

static void free_gone(struct zmtp_server *server)
{
    while (server->gone) {
        struct zmtp_peer *peer = server->gone;
        server->gone = peer->next;
        zmtp_connection_end(&peer->connection); // it may have read on to the end of its bytes
        free(peer);
    }
}

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
static bool has_place(struct zmtp_server *server, struct socket *socket, const char *owner)
{
    uint32_t max = server->settings.max_connections, n_own = 0;
    struct zmtp_peer *oldest = NULL, *oldest_own = NULL;
    for (struct zmtp_peer *peer = socket->peers; peer; peer = peer->next) {
        bool is_own = strcmp(peer->owner, owner) == 0;
        n_own += is_own;
        if (peer->connection.state == ZMTP_TRAFFIC || server->now_ns - peer->since_ns < YOUNG_NS)
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
        hang_up(leaves, -ETIMEDOUT);
    return leaves;
}

static void refuse(struct zmtp_server *server, struct socket *socket, const char *owner)
{
    if (server->now_ns - socket->told_ns < 1000000000)
        return;
    socket->told_ns = server->now_ns;
    log_to(&server->settings.log, LOG_LEVEL_WARNING,
           "%s: a client at %s was refused: too many connections (endpoints.max_connections = %u, "
           "three quarters of them for one user or address)",
           socket->name, owner, server->settings.max_connections);
}

static void flush(struct zmtp_peer *peer);

static bool add_peer(struct zmtp_server *server, const struct listener *listener, int fd)
{
    struct socket *socket = &server->sockets[listener->socket];
    char owner[ZMTP_OWNER_BYTES];
    find_owner(fd, listener->is_local, owner);
    if (!has_place(server, socket, owner)) {
        refuse(server, socket, owner);
        return false;
    }
    struct zmtp_peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        return false;
    *peer = (struct zmtp_peer){.kind = SOURCE_PEER,
                               .server = server,
                               .socket = listener->socket,
                               .fd = fd,
                               .id = ++server->next_id,
                               .since_ns = server->now_ns,
                               .heard_ns = server->now_ns,
                               .talk_bytes = TALK_BYTES};
    memcpy(peer->owner, owner, sizeof owner);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = peer};
    if (epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        free(peer);
        return false;
    }
    const int on = 1;
    if (!listener->is_local)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    zmtp_connection_begin(&peer->connection, &socket->rules, listener->is_local, peer);
    peer->next = socket->peers;
    peer->link = &socket->peers;
    if (peer->next)
        peer->next->link = &peer->next;
    socket->peers = peer;
    socket->n_peers++;
    flush(peer);
    return true;
}

static void set_listening(struct zmtp_server *server, bool on)
{
    server->listens = on;
    for (size_t i = 0; i < server->n_listeners; i++) {
        struct epoll_event event = {.events = on ? EPOLLIN : 0, .data.ptr = &server->listeners[i]};
        epoll_ctl(server->epoll, EPOLL_CTL_MOD, server->listeners[i].fd, &event);
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
            log_to(&server->settings.log, LOG_LEVEL_WARNING, "%s: no connection can be taken: %s",
                   server->sockets[listener->socket].name, strerror(errno));
            set_listening(server, false);
            server->listen_ns = server->now_ns + RETRY_NS;
        }
        if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

// --- Sending

static void want_room(struct zmtp_peer *peer, bool wants)
{
    if (peer->writes == wants)
        return;
    struct epoll_event event = {.events = (peer->paused ? 0u : (uint32_t)EPOLLIN) |
                                          (wants ? (uint32_t)EPOLLOUT : 0u),
                                .data.ptr = peer};
    if (epoll_ctl(peer->server->epoll, EPOLL_CTL_MOD, peer->fd, &event) == 0)
        peer->writes = wants;
}

// What goes next: commands where no message has begun, then messages.
static size_t gather(struct zmtp_peer *peer, struct iovec pieces[OUTBOX_PIECES], bool *out_commands)
{
    struct zmtp_connection *connection = &peer->connection;
    *out_commands = !outbox_is_inside(&peer->outbox) && connection->n_commands > 0;
    if (*out_commands) {
        pieces[0] = (struct iovec){connection->commands, connection->n_commands};
        return 1;
    }
    return outbox_gather(&peer->outbox,
                         connection->mechanism == ZMTP_CURVE ? &connection->curve : NULL, pieces);
}

// Sends what the peer takes now. It may be hung up on.
static void flush(struct zmtp_peer *peer)
{
    struct iovec pieces[OUTBOX_PIECES];
    bool commands;
    size_t n_pieces;
    while ((n_pieces = gather(peer, pieces, &commands)) > 0) {
        const struct msghdr message = {.msg_iov = pieces, .msg_iovlen = n_pieces};
        ssize_t n = sendmsg(peer->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            want_room(peer, true);
            return;
        }
        if (n < 0) {
            hang_up(peer, -errno);
            return;
        }
        if (commands) {
            struct zmtp_connection *connection = &peer->connection;
            connection->n_commands -= (size_t)n;
            memmove(connection->commands, connection->commands + n, connection->n_commands);
        } else {
            outbox_sent(&peer->outbox, (size_t)n);
        }
    }
    want_room(peer, false);
}

// --- Receiving

static void pause_peer(struct zmtp_peer *peer, bool pause)
{
    peer->paused = pause;
    peer->server->any_paused |= pause;
    struct epoll_event event = {.events = (pause ? 0u : (uint32_t)EPOLLIN) |
                                          (peer->writes ? (uint32_t)EPOLLOUT : 0u),
                                .data.ptr = peer};
    epoll_ctl(peer->server->epoll, EPOLL_CTL_MOD, peer->fd, &event);
}

// Gives bytes to the connection. Returns false when the peer is to be hung up on, with the reason.
static int feed(struct zmtp_peer *peer, const uint8_t *bytes, size_t n_bytes)
{
    bool was_in_frame = peer->connection.in_frame;
    long n = zmtp_connection_read(&peer->connection, bytes, n_bytes);
    if (n < 0)
        return (int)n;
    if (peer->has_gone)
        return 0;
    if (!was_in_frame || !peer->connection.in_frame)
        peer->frame_ns = peer->server->now_ns;
    struct zmtp_body *body = peer->connection.body;
    if (body && !body->owner && body->n_bytes > ZMTP_SMALL_BODY_BYTES) {
        body->freed = on_body_freed;
        body->owner = peer->server;
        body->n_admitted = body->n_bytes;
        peer->server->n_upload_bytes += body->n_bytes;
    }
    size_t n_rest = n_bytes - (size_t)n;
    if (n_rest == 0) {
        peer->n_held = 0;
        return 0;
    }
    if (!peer->held)
        peer->held = malloc(READ_BYTES);
    if (!peer->held)
        return -ENOMEM;
    memmove(peer->held, bytes + n, n_rest);
    peer->n_held = n_rest;
    pause_peer(peer, true);
    return 0;
}

static void read_peer(struct zmtp_peer *peer)
{
    struct zmtp_server *server = peer->server;
    bool talks = socket_of(peer)->rules.kind == ZMTP_PUBLISHER;
    for (int i = 0; i < READS_A_ROUND && !peer->paused && !peer->has_gone; i++) {
        uint8_t buffer[READ_BYTES], *to = buffer;
        size_t n_wanted = zmtp_connection_wants(&peer->connection, &to);
        if (n_wanted == 0)
            to = buffer, n_wanted = sizeof buffer;
        ssize_t n = recv(peer->fd, to, n_wanted, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            break;
        if (n <= 0) {
            hang_up(peer, -ECONNRESET);
            return;
        }
        peer->heard_ns = server->now_ns;
        peer->asked_ns = 0;
        peer->talk_bytes -= n;
        int error = talks && peer->talk_bytes < 0 ? -EMSGSIZE : feed(peer, to, (size_t)n);
        if (error) {
            flush(peer); // a last word
            hang_up(peer, error);
            return;
        }
    }
    if (!peer->has_gone && peer->connection.n_commands)
        flush(peer);
}

static void resume_paused(struct zmtp_server *server)
{
    server->any_paused = false;
    for (int i = 0; i < server->n_sockets; i++)
        for (struct zmtp_peer *peer = server->sockets[i].peers, *next; peer; peer = next) {
            next = peer->next;
            if (!peer->paused)
                continue;
            pause_peer(peer, false);
            int error = feed(peer, peer->held, peer->n_held);
            if (error)
                hang_up(peer, error);
        }
}

// --- Time

static void look_after(struct zmtp_peer *peer)
{
    int64_t now_ns = peer->server->now_ns;
    if (peer->talk_bytes < TALK_BYTES)
        peer->talk_bytes += TALK_BYTES_A_TICK;
    if (peer->connection.state != ZMTP_TRAFFIC) {
        if (now_ns - peer->since_ns > HANDSHAKE_NS)
            hang_up(peer, -ETIMEDOUT);
        return;
    }
    if (peer->connection.in_frame && now_ns - peer->frame_ns > UPLOAD_NS) {
        hang_up(peer, -ETIMEDOUT);
        return;
    }
    if (peer->paused)
        return; // it is we who do not listen
    if (now_ns - peer->heard_ns > SILENCE_NS && peer->asked_ns) {
        hang_up(peer, -ETIMEDOUT);
    } else if (now_ns - peer->heard_ns > HEARTBEAT_NS && !peer->asked_ns) {
        peer->asked_ns = now_ns;
        zmtp_connection_ping(&peer->connection);
        flush(peer);
    }
}

static void tick(struct zmtp_server *server)
{
    server->tick_ns = server->now_ns + TICK_NS;
    if (!server->listens && server->now_ns >= server->listen_ns)
        set_listening(server, true);
    for (int i = 0; i < server->n_sockets; i++)
        for (struct zmtp_peer *peer = server->sockets[i].peers, *next; peer; peer = next) {
            next = peer->next;
            look_after(peer);
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
    server->settings = *settings;
    server->listens = true;
    server->bell = -1;
    server->epoll = epoll_create1(EPOLL_CLOEXEC);
    int error = server->epoll < 0 ? -errno : 0;
    if (!error) {
        server->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        error = server->bell < 0 ? -errno : 0;
    }
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = server};
    if (!error && epoll_ctl(server->epoll, EPOLL_CTL_ADD, server->bell, &event) != 0)
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
        while (s->sockets[i].peers) {
            // What stands unread when a descriptor is closed takes with it what was sent last.
            uint8_t unread[READ_BYTES];
            shutdown(s->sockets[i].peers->fd, SHUT_WR);
            for (int k = 0; k < READS_A_ROUND; k++)
                if (recv(s->sockets[i].peers->fd, unread, sizeof unread, MSG_DONTWAIT) <= 0)
                    break;
            hang_up(s->sockets[i].peers, 0);
        }
    free_gone(s);
    for (size_t i = 0; i < s->n_listeners; i++)
        close(s->listeners[i].fd);
    if (s->bell >= 0)
        close(s->bell);
    if (s->epoll >= 0)
        close(s->epoll);
    free(s);
    *server = NULL;
}

int zmtp_server_add(struct zmtp_server *server, const char *name, enum zmtp_kind kind,
                    const char *socket_type, uint64_t max_frame_bytes, uint32_t hwm)
{
    assert(server->n_sockets < ZMTP_MAX_SOCKETS);
    server->sockets[server->n_sockets] = (struct socket){
        .name = name,
        .hwm = hwm,
        .rules = {.kind = kind,
                  .socket_type = socket_type,
                  .peer_types = kind == ZMTP_PUBLISHER ? "SUB XSUB " : "REQ DEALER ROUTER ",
                  .max_frame_bytes = max_frame_bytes,
                  .keys = server->settings.keys,
                  .subscribe = on_subscribe,
                  .request = on_request,
                  .admit = kind == ZMTP_ROUTER ? on_admit : NULL},
    };
    return server->n_sockets++;
}

int zmtp_server_listen(struct zmtp_server *server, int socket, int fd, bool is_local)
{
    if (server->n_listeners == MAX_LISTENERS)
        return -ENOSPC;
    struct listener *listener = &server->listeners[server->n_listeners];
    *listener = (struct listener){SOURCE_LISTENER, fd, socket, is_local};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = listener};
    if (listen(fd, 128) != 0 || epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
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
    case SOURCE_PEER: {
        struct zmtp_peer *peer = event->data.ptr;
        if (!peer->has_gone && event->events & EPOLLOUT)
            flush(peer);
        if (!peer->has_gone && event->events & (EPOLLIN | EPOLLHUP | EPOLLERR))
            read_peer(peer);
        if (!peer->has_gone && peer->paused && event->events & (EPOLLHUP | EPOLLERR))
            hang_up(peer, -ECONNRESET);
        return;
    }
    }
}

void zmtp_server_run(struct zmtp_server *server, int timeout_ms)
{
    struct epoll_event events[MAX_EVENTS];
    int tick_ms = (int)((server->tick_ns - clock_monotonic_ns()) / 1000000) + 1;
    tick_ms = tick_ms < 0 ? 0 : tick_ms;
    timeout_ms = timeout_ms < 0 || timeout_ms > tick_ms ? tick_ms : timeout_ms;
    int n = epoll_wait(server->epoll, events, MAX_EVENTS, timeout_ms);
    server->now_ns = clock_monotonic_ns();
    for (int i = 0; i < n; i++)
        on_event(server, &events[i]);
    if (server->any_paused)
        resume_paused(server);
    if (server->now_ns >= server->tick_ns)
        tick(server);
    free_gone(server);
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
    return peer->socket;
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
    return peer->outbox.n_queue < peer->server->sockets[peer->socket].hwm;
}

bool zmtp_peer_send(struct zmtp_peer *peer, struct zmtp_message *message)
{
    if (peer->has_gone || !zmtp_peer_has_room(peer) || !outbox_put(&peer->outbox, message))
        return false;
    if (!peer->writes)
        flush(peer);
    return true;
}

bool zmtp_server_is_flushed(const struct zmtp_server *server)
{
    for (int i = 0; i < server->n_sockets; i++)
        for (const struct zmtp_peer *peer = server->sockets[i].peers; peer; peer = peer->next)
            if (peer->outbox.n_queue)
                return false;
    return true;
}

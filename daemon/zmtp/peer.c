// SPDX-License-Identifier: Apache-2.0
#include "daemon/zmtp/peer.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES    4096 // at a time
#define READS_A_ROUND 16   // of a peer, before others have their turn
#define HANDSHAKE_NS  INT64_C(5000000000)
#define UPLOAD_NS     INT64_C(30000000000)

// What a subscriber may send: subscriptions and signs of life. Ten thousand subscriptions at once
// are fine, an endless stream is not.
#define TALK_BYTES        (1 << 20)
#define TALK_BYTES_A_TICK 2048

// --- What the connection asks for

static int on_subscribe(void *user, bool on, const uint8_t *prefix, size_t n_prefix)
{
    struct zmtp_peer *peer = user;
    const struct zmtp_server_settings *settings = &peer->all->settings;
    if (peer->is_doomed)
        return -ECONNRESET;
    return settings->subscribe(settings->user, peer, on, prefix, n_prefix);
}

static void on_body_freed(void *owner, size_t n_bytes)
{
    struct peers *all = owner;
    all->n_upload_bytes -= n_bytes;
}

static void on_request(void *user, struct zmtp_body *body, bool has_delimiter)
{
    struct zmtp_peer *peer = user;
    const struct zmtp_server_settings *settings = &peer->all->settings;
    if (peer->is_doomed) {
        zmtp_body_free(body);
        return;
    }
    settings->request(settings->user, peer, body, has_delimiter);
}

// The longest request alone always has room.
static bool on_admit(void *user, size_t n_bytes)
{
    struct zmtp_peer *peer = user;
    const struct peers *all = peer->all;
    if (all->n_upload_bytes && all->n_upload_bytes + n_bytes > all->settings.max_upload_bytes)
        return false;
    return true;
}

void peer_set_rules(struct zmtp_rules *rules)
{
    rules->subscribe = on_subscribe;
    rules->request = on_request;
    rules->admit = rules->kind == ZMTP_ROUTER ? on_admit : NULL;
}

// --- Coming and going

bool peer_begin(struct peers *all, struct zmtp_socket *socket, int fd, bool is_local,
                const char owner[ZMTP_OWNER_BYTES])
{
    struct zmtp_peer *peer = calloc(1, sizeof *peer);
    if (!peer) {
        log_to(&all->settings.log, LOG_LEVEL_WARNING, "%s: hung up on %s: %s", socket->name, owner,
               strerror(ENOMEM));
        return false;
    }
    *peer = (struct zmtp_peer){.kind = SOURCE_PEER,
                               .all = all,
                               .socket = socket,
                               .fd = fd,
                               .id = ++all->next_id,
                               .since_ns = all->now_ns,
                               .heartbeat = {.heard_ns = all->now_ns},
                               .talk_bytes = TALK_BYTES};
    memcpy(peer->owner, owner, sizeof peer->owner);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = peer};
    if (epoll_ctl(all->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        free(peer);
        return false;
    }
    const int on = 1;
    if (!is_local)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    zmtp_session_begin(&peer->session, &socket->rules, is_local, peer);
    peer->next = socket->peers;
    peer->link = &socket->peers;
    if (peer->next)
        peer->next->link = &peer->next;
    socket->peers = peer;
    socket->n_peers++;
    peer_flush(peer);
    return true;
}

void peer_hang_up(struct zmtp_peer *peer, int error)
{
    struct peers *all = peer->all;
    const struct zmtp_server_settings *settings = &all->settings;
    if (peer->has_gone || peer->is_doomed)
        return;
    if (peer->is_read) {
        peer->is_doomed = true;
        peer->doom = error;
        return;
    }
    peer->has_gone = true;
    if (error == -EACCES)
        refusals_tell(&all->refusals, &peer->session, peer->socket->name, peer->owner, all->now_ns,
                      &settings->log);
    else if (error && error != -ECONNRESET)
        log_to(&settings->log, error == -ENOMEM ? LOG_LEVEL_WARNING : LOG_LEVEL_DEBUG,
               "%s: hung up on %s: %s", peer->socket->name, peer->owner, strerror(-error));
    epoll_ctl(all->epoll, EPOLL_CTL_DEL, peer->fd, NULL);
    close(peer->fd);
    *peer->link = peer->next;
    if (peer->next)
        peer->next->link = peer->link;
    peer->socket->n_peers--;
    if (peer->session.state == ZMTP_TRAFFIC)
        settings->leave(settings->user, peer);
    zmtp_session_end(&peer->session);
    outbox_end(&peer->outbox);
    free(peer->held);
    // Freed when no event of this round can point to it any more.
    peer->next = all->gone;
    all->gone = peer;
}

void peers_free_gone(struct peers *all)
{
    while (all->gone) {
        struct zmtp_peer *peer = all->gone;
        all->gone = peer->next;
        free(peer);
    }
}

void peer_end(struct zmtp_peer *peer)
{
    // What stands unread when a descriptor is closed takes with it what was sent last.
    uint8_t unread[READ_BYTES];
    shutdown(peer->fd, SHUT_WR);
    for (int k = 0; k < READS_A_ROUND; k++)
        if (recv(peer->fd, unread, sizeof unread, MSG_DONTWAIT) <= 0)
            break;
    peer_hang_up(peer, 0);
}

// --- Sending

static void want_room(struct zmtp_peer *peer, bool wants)
{
    if (peer->writes == wants)
        return;
    struct epoll_event event = {.events = (peer->paused ? 0u : (uint32_t)EPOLLIN) |
                                          (wants ? (uint32_t)EPOLLOUT : 0u),
                                .data.ptr = peer};
    if (epoll_ctl(peer->all->epoll, EPOLL_CTL_MOD, peer->fd, &event) == 0)
        peer->writes = wants;
}

// What goes next: commands where no message has begun, then messages.
static size_t gather(struct zmtp_peer *peer, struct iovec pieces[OUTBOX_PIECES], bool *out_commands)
{
    struct zmtp_session *session = &peer->session;
    *out_commands = !outbox_is_inside(&peer->outbox) && session->n_commands > 0;
    if (*out_commands) {
        pieces[0] = (struct iovec){session->commands, session->n_commands};
        return 1;
    }
    return outbox_gather(&peer->outbox, session->mechanism == ZMTP_CURVE ? &session->curve : NULL,
                         pieces);
}

void peer_flush(struct zmtp_peer *peer)
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
            peer_hang_up(peer, -errno);
            return;
        }
        if (commands) {
            struct zmtp_session *session = &peer->session;
            session->n_commands -= (size_t)n;
            memmove(session->commands, session->commands + n, session->n_commands);
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
    peer->all->any_paused |= pause;
    struct epoll_event event = {.events = (pause ? 0u : (uint32_t)EPOLLIN) |
                                          (peer->writes ? (uint32_t)EPOLLOUT : 0u),
                                .data.ptr = peer};
    epoll_ctl(peer->all->epoll, EPOLL_CTL_MOD, peer->fd, &event);
}

// Gives bytes to the connection. Returns false when the peer is to be hung up on, with the reason.
static int feed(struct zmtp_peer *peer, const uint8_t *bytes, size_t n_bytes)
{
    bool was_in_frame = peer->session.in_frame;
    peer->is_read = true;
    long n = zmtp_session_read(&peer->session, bytes, n_bytes);
    peer->is_read = false;
    if (peer->is_doomed) {
        peer->is_doomed = false;
        peer_hang_up(peer, peer->doom);
        return 0;
    }
    if (n < 0)
        return (int)n;
    if (!was_in_frame || !peer->session.in_frame)
        peer->frame_ns = peer->all->now_ns;
    struct zmtp_body *body = peer->session.body;
    if (body && !body->owner && body->n_bytes > ZMTP_SMALL_BODY_BYTES) {
        body->freed = on_body_freed;
        body->owner = peer->all;
        body->n_admitted = body->n_bytes;
        peer->all->n_upload_bytes += body->n_bytes;
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
    const struct peers *all = peer->all;
    bool talks = peer->socket->rules.kind == ZMTP_PUBLISHER;
    for (int i = 0; i < READS_A_ROUND && !peer->paused && !peer->has_gone; i++) {
        uint8_t buffer[READ_BYTES], *to = buffer;
        size_t n_wanted = zmtp_session_wants(&peer->session, &to);
        if (n_wanted == 0)
            to = buffer, n_wanted = sizeof buffer;
        ssize_t n = recv(peer->fd, to, n_wanted, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            break;
        if (n <= 0) {
            peer_hang_up(peer, -ECONNRESET);
            return;
        }
        heartbeat_heard(&peer->heartbeat, all->now_ns);
        peer->talk_bytes -= n;
        int error = talks && peer->talk_bytes < 0 ? -EMSGSIZE : feed(peer, to, (size_t)n);
        if (error) {
            peer_flush(peer); // a last word
            peer_hang_up(peer, error);
            return;
        }
    }
    if (!peer->has_gone && peer->session.n_commands)
        peer_flush(peer);
}

void peer_resume(struct zmtp_peer *peer)
{
    if (!peer->paused)
        return;
    pause_peer(peer, false);
    int error = feed(peer, peer->held, peer->n_held);
    if (error)
        peer_hang_up(peer, error);
}

void peer_on_events(struct zmtp_peer *peer, uint32_t events)
{
    if (!peer->has_gone && events & EPOLLOUT)
        peer_flush(peer);
    if (!peer->has_gone && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        read_peer(peer);
    if (!peer->has_gone && peer->paused && events & (EPOLLHUP | EPOLLERR))
        peer_hang_up(peer, -ECONNRESET);
}

// --- Time

void peer_look_after(struct zmtp_peer *peer)
{
    int64_t now_ns = peer->all->now_ns;
    if (peer->talk_bytes < TALK_BYTES)
        peer->talk_bytes += TALK_BYTES_A_TICK;
    if (peer->session.state != ZMTP_TRAFFIC) {
        if (now_ns - peer->since_ns > HANDSHAKE_NS)
            peer_hang_up(peer, -ETIMEDOUT);
        return;
    }
    if (peer->all->looks_up && peer->session.mechanism == ZMTP_CURVE &&
        !curve_may_connect(peer->all->settings.keys, peer->session.curve.client)) {
        peer_hang_up(peer, -EACCES);
        return;
    }
    if (peer->session.in_frame && now_ns - peer->frame_ns > UPLOAD_NS) {
        peer_hang_up(peer, -ETIMEDOUT);
        return;
    }
    if (peer->paused)
        return; // it is we who do not listen
    const enum heartbeat_due due = heartbeat_due(&peer->heartbeat, now_ns);
    if (due == HEARTBEAT_GIVE_UP) {
        peer_hang_up(peer, -ETIMEDOUT);
    } else if (due == HEARTBEAT_ASK) {
        zmtp_session_ping(&peer->session);
        peer_flush(peer);
    }
}

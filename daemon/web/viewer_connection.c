// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/viewer_connection.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <wslay/wslay.h>

#include "proto/clock.h"

#define QUEUE_MAX_MESSAGES 256
#define RECEIVE_MAX_BYTES  65536
#define HEAD_BYTES         VIEWER_HEAD_BYTES
#define PING_NS            10000000000
#define SILENT_NS          30000000000
#define TEXT_MAX_BYTES     (1 << 20) // waiting
#define CONTROL_MAX        256       // frames that wait, answers to pings among them
#define ROUND_MAX_BYTES    65536     // read before others have their turn

struct queued {
    struct payload *payload;
    bool has_head;
    uint8_t head[HEAD_BYTES];
};

struct viewer {
    struct viewer_settings settings;
    wslay_event_context_ptr wslay;
    const uint8_t *early;
    size_t n_early;
    uint8_t *early_copy;
    size_t n_round; // bytes read since viewer_run began
    bool broken;

    struct queued queue[QUEUE_MAX_MESSAGES]; // a ring
    size_t first, n, n_bytes;
    size_t n_sending_bytes; // of the payload that libwslay has, or had last
    uint64_t n_dropped;
    double allowance_bytes; // of max_bytes_s
    int64_t allowance_ns, heard_ns, pinged_ns;

    struct viewer_subscription subscriptions[VIEWER_MAX_SUBSCRIPTIONS];
    size_t n_subscriptions;
};

struct payload *payload_create(size_t n_bytes)
{
    struct payload *payload = malloc(sizeof *payload + n_bytes);
    if (payload)
        *payload = (struct payload){.n_references = 1, .n_bytes = n_bytes};
    return payload;
}

void payload_release(struct payload *payload)
{
    if (payload && --payload->n_references == 0)
        free(payload);
}

static ssize_t on_recv(wslay_event_context_ptr wslay, uint8_t *out, size_t n, int flags, void *user)
{
    struct viewer *v = user;
    (void)flags;
    if (v->n_early) {
        n = n < v->n_early ? n : v->n_early;
        memcpy(out, v->early, n);
        v->early += n;
        v->n_early -= n;
        return (ssize_t)n;
    }
    if (v->broken || v->n_round > ROUND_MAX_BYTES) {
        wslay_event_set_error(wslay, v->broken ? WSLAY_ERR_CALLBACK_FAILURE : WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    ssize_t got = recv(v->settings.fd, out, n, MSG_DONTWAIT);
    if (got > 0) {
        v->n_round += (size_t)got;
        v->heard_ns = clock_monotonic_ns();
        return got;
    }
    bool wait = got < 0 && (errno == EAGAIN || errno == EINTR);
    v->broken = v->broken || !wait;
    wslay_event_set_error(wslay, wait ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

static ssize_t on_send(wslay_event_context_ptr wslay, const uint8_t *bytes, size_t n, int flags,
                       void *user)
{
    struct viewer *v = user;
    int more = flags & WSLAY_MSG_MORE ? MSG_MORE : 0;
    ssize_t sent = send(v->settings.fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL | more);
    if (sent >= 0)
        return sent;
    bool wait = errno == EAGAIN || errno == EINTR;
    v->broken = v->broken || !wait;
    wslay_event_set_error(wslay, wait ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

static void on_message(wslay_event_context_ptr wslay, const struct wslay_event_on_msg_recv_arg *m,
                       void *user)
{
    struct viewer *v = user;
    // Whoever pings and reads no answer.
    if (wslay_event_get_queued_msg_count(wslay) > CONTROL_MAX)
        v->broken = true;
    if (m->opcode == WSLAY_TEXT_FRAME || m->opcode == WSLAY_BINARY_FRAME)
        v->settings.received(v->settings.user, v, m->opcode == WSLAY_TEXT_FRAME, m->msg,
                             m->msg_length);
}

struct viewer *viewer_create(const struct viewer_settings *settings)
{
    const struct wslay_event_callbacks callbacks = {
        .recv_callback = on_recv, .send_callback = on_send, .on_msg_recv_callback = on_message};
    struct viewer *v = calloc(1, sizeof *v);
    if (!v)
        return NULL;
    v->settings = *settings;
    v->early_copy = settings->n_early ? malloc(settings->n_early) : NULL;
    if ((settings->n_early && !v->early_copy) ||
        wslay_event_context_server_init(&v->wslay, &callbacks, v) != 0) {
        free(v->early_copy);
        free(v);
        return NULL;
    }
    if (settings->n_early)
        memcpy(v->early_copy, settings->early, settings->n_early);
    v->early = v->early_copy;
    v->n_early = settings->n_early;
    wslay_event_config_set_max_recv_msg_length(v->wslay, RECEIVE_MAX_BYTES);
    v->heard_ns = v->pinged_ns = v->allowance_ns = clock_monotonic_ns();
    v->allowance_bytes = settings->max_bytes_s;
    return v;
}

static void drop_oldest(struct viewer *v)
{
    struct queued *oldest = &v->queue[v->first];
    v->n_bytes -= oldest->payload->n_bytes;
    payload_release(oldest->payload);
    v->first = (v->first + 1) % QUEUE_MAX_MESSAGES;
    v->n--;
}

void viewer_destroy(struct viewer **viewer)
{
    struct viewer *v = *viewer;
    if (!v)
        return;
    wslay_event_context_free(v->wslay);
    while (v->n)
        drop_oldest(v);
    free(v->early_copy);
    free(v);
    *viewer = NULL;
}

int viewer_fd(const struct viewer *viewer)
{
    return viewer->settings.fd;
}

enum handshake_protocol viewer_protocol(const struct viewer *viewer)
{
    return viewer->settings.protocol;
}

uint64_t viewer_dropped(const struct viewer *viewer)
{
    return viewer->n_dropped;
}

void viewer_send_text(struct viewer *viewer, const char *text)
{
    const struct wslay_event_msg message = {WSLAY_TEXT_FRAME, (const uint8_t *)text, strlen(text)};
    size_t n_bytes = wslay_event_get_queued_msg_length(viewer->wslay);
    if (n_bytes > TEXT_MAX_BYTES + viewer->n_sending_bytes ||
        wslay_event_queue_msg(viewer->wslay, &message) != 0)
        viewer->broken = true;
}

// Whether the bytes are within max_bytes_s, a second's worth at a time.
static bool may_send(struct viewer *v, size_t n_bytes)
{
    if (v->settings.max_bytes_s <= 0)
        return true;
    int64_t now_ns = clock_monotonic_ns();
    v->allowance_bytes += (double)(now_ns - v->allowance_ns) * 1e-9 * v->settings.max_bytes_s;
    v->allowance_ns = now_ns;
    if (v->allowance_bytes > v->settings.max_bytes_s / 2)
        v->allowance_bytes = v->settings.max_bytes_s / 2;
    if (v->allowance_bytes < (double)n_bytes)
        return false;
    v->allowance_bytes -= (double)n_bytes;
    return true;
}

static void push(struct viewer *v, const struct queued *message)
{
    size_t n_bytes = message->payload->n_bytes;
    if (!may_send(v, n_bytes)) {
        v->n_dropped++;
        return;
    }
    while (v->n &&
           (v->n == QUEUE_MAX_MESSAGES || v->n_bytes + n_bytes > v->settings.queue_max_bytes)) {
        drop_oldest(v);
        v->n_dropped++;
    }
    v->queue[(v->first + v->n) % QUEUE_MAX_MESSAGES] = *message;
    message->payload->n_references++;
    v->n++;
    v->n_bytes += n_bytes;
}

void viewer_send_data(struct viewer *viewer, uint32_t subscription, uint64_t time_ns,
                      struct payload *payload)
{
    struct queued message = {.payload = payload, .has_head = true, .head = {1}};
    for (int i = 0; i < 4; i++)
        message.head[1 + i] = (uint8_t)(subscription >> 8 * i);
    for (int i = 0; i < 8; i++)
        message.head[5 + i] = (uint8_t)(time_ns >> 8 * i);
    push(viewer, &message);
}

void viewer_send_bytes(struct viewer *viewer, struct payload *payload)
{
    push(viewer, &(struct queued){.payload = payload});
}

// wslay copies it; the room in front of a payload takes the head, so that it is one piece.
static bool queue_next(struct viewer *v)
{
    const struct queued next = v->queue[v->first];
    struct payload *payload = next.payload;
    if (next.has_head)
        memcpy(payload->room, next.head, HEAD_BYTES);
    const struct wslay_event_msg message = {WSLAY_BINARY_FRAME,
                                            next.has_head ? payload->room : payload->bytes,
                                            payload->n_bytes + (next.has_head ? HEAD_BYTES : 0)};
    v->n_bytes -= payload->n_bytes;
    v->n_sending_bytes = message.msg_length;
    v->first = (v->first + 1) % QUEUE_MAX_MESSAGES;
    v->n--;
    bool queued = wslay_event_queue_msg(v->wslay, &message) == 0;
    payload_release(payload);
    return queued;
}

short viewer_wants(const struct viewer *viewer)
{
    bool write = viewer->n || wslay_event_want_write(viewer->wslay);
    return (short)((wslay_event_want_read(viewer->wslay) ? POLLIN : 0) | (write ? POLLOUT : 0));
}

bool viewer_run(struct viewer *viewer, short events)
{
    struct viewer *v = viewer;
    v->n_round = 0;
    if ((events & (POLLIN | POLLHUP | POLLERR) || v->n_early) && wslay_event_recv(v->wslay) != 0)
        return false;
    while (!v->broken) {
        if (wslay_event_send(v->wslay) != 0)
            return false;
        if (wslay_event_want_write(v->wslay) || !v->n)
            break; // the kernel's buffer is full, or nothing is left
        if (!queue_next(v))
            return false;
    }
    return !v->broken && (wslay_event_want_read(v->wslay) || wslay_event_want_write(v->wslay));
}

bool viewer_tick(struct viewer *viewer, int64_t now_ns)
{
    struct viewer *v = viewer;
    const struct wslay_event_msg ping = {WSLAY_PING, NULL, 0};
    if (now_ns - v->heard_ns > SILENT_NS)
        return false;
    if (now_ns - v->pinged_ns > PING_NS) {
        v->pinged_ns = now_ns;
        if (wslay_event_queue_msg(v->wslay, &ping) != 0)
            return false;
    }
    return !v->broken;
}

bool viewer_subscribe(struct viewer *viewer, uint32_t id, uint32_t channel)
{
    for (size_t i = 0; i < viewer->n_subscriptions; i++)
        if (viewer->subscriptions[i].id == id)
            return false;
    if (viewer->n_subscriptions == VIEWER_MAX_SUBSCRIPTIONS)
        return false;
    viewer->subscriptions[viewer->n_subscriptions++] = (struct viewer_subscription){id, channel};
    return true;
}

bool viewer_unsubscribe(struct viewer *viewer, uint32_t id, uint32_t *out_channel)
{
    for (size_t i = 0; i < viewer->n_subscriptions; i++)
        if (viewer->subscriptions[i].id == id) {
            *out_channel = viewer->subscriptions[i].channel;
            viewer->subscriptions[i] = viewer->subscriptions[--viewer->n_subscriptions];
            return true;
        }
    return false;
}

const struct viewer_subscription *viewer_subscriptions(const struct viewer *viewer, size_t *out_n)
{
    *out_n = viewer->n_subscriptions;
    return viewer->subscriptions;
}

// SPDX-License-Identifier: Apache-2.0
#include "daemon/publish.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/zmtp/server.h"
#include "proto/clock.h"
#include "proto/wire.h"

#define N_RING          1024
#define RING_IMAGES     4    // of the messages in the ring
#define PEER_MAX_BYTES  4096 // of a subscription
#define NO_DROP_WAIT_NS INT64_C(1000000000)

// No name is a prefix of another: subscriptions are prefixes.
static const char *const topic_names[PUBLISH_N_TOPICS] = {
    "pose", "tf",     "calib", "status",  "timing",   "event", "imu",
    "log",  "object", "depth", "normals", "residual", "cloud",
};

// Of each subscriber. Bit n of a topic: it is subscribed to the first n characters of the name.
// Whatever else it subscribes to is nothing that we send, and is forgotten.
struct subscriber {
    uint16_t prefixes[PUBLISH_N_TOPICS];
};
_Static_assert(sizeof(struct subscriber) <= ZMTP_USER_BYTES, "enlarge ZMTP_USER_BYTES");

// The largest of what other threads say.
_Static_assert(posed_Log_size <= PUBLISH_POST_MAX_BYTES &&
                   posed_Event_size <= PUBLISH_POST_MAX_BYTES &&
                   posed_ObjectPose_size <= PUBLISH_POST_MAX_BYTES,
               "enlarge PUBLISH_POST_MAX_BYTES");

struct post {
    enum publish_topic topic;
    size_t n_bytes;
    uint8_t bytes[PUBLISH_POST_MAX_BYTES];
};

struct item {
    enum publish_topic topic;
    bool is_latest;
    struct zmtp_message *message;
};

struct publish {
    struct log_sink log;
    bool no_drop;
    struct zmtp_server *server;
    int pub, latest, img; // its sockets
    pthread_t thread;
    bool runs;

    _Atomic uint32_t wanted;   // bit: somebody is subscribed to this topic
    _Atomic uint32_t listened; // the listener's topics
    _Atomic bool wants_latest;
    _Atomic bool may_wait;  // nobody has stood still for too long since
    _Atomic bool sleeps;    // the thread has to be woken
    _Atomic int64_t end_ns; // 0: not yet

    // From the frame loop to the thread, without a lock.
    struct item ring[N_RING];
    _Atomic uint64_t n_put, n_taken;
    _Atomic uint32_t n_images;

    pthread_mutex_t mutex; // of the posts
    struct post posts[PUBLISH_POST_SLOTS];
    size_t n_posts, first_post;

    pthread_mutex_t listener_mutex;
    void (*take)(void *user, enum publish_topic topic, const uint8_t *bytes, size_t n_bytes);
    void *take_user;

    // The thread's.
    struct zmtp_message *calib, *status; // the newest
    uint32_t n_wanting[PUBLISH_N_TOPICS], n_latest;
    int64_t stalled_ns; // since then somebody stands still
};

// --- The thread

static struct zmtp_message *make_message(enum publish_topic topic, bool is_latest, const void *head,
                                         size_t n_head, const void *tail, size_t n_tail)
{
    uint8_t *body;
    const char *name = topic_names[topic];
    struct zmtp_message *message =
        zmtp_message_create(!is_latest, name, is_latest ? 0 : strlen(name), n_head + n_tail, &body);
    if (!message)
        return NULL;
    memcpy(body, head, n_head);
    if (n_tail)
        memcpy(body + n_head, tail, n_tail);
    return message;
}

static int socket_of(const struct publish *publish, enum publish_topic topic)
{
    return topic >= PUBLISH_DEPTH ? publish->img : publish->pub;
}

static void set_prefix(struct publish *publish, struct zmtp_peer *peer, enum publish_topic topic,
                       size_t n_prefix, bool on)
{
    struct subscriber *subscriber = zmtp_peer_user(peer);
    uint16_t before = subscriber->prefixes[topic], bit = (uint16_t)(1u << n_prefix);
    uint16_t after = (uint16_t)(on ? before | bit : before & ~bit);
    bool is_latest = zmtp_peer_socket(peer) == publish->latest;
    subscriber->prefixes[topic] = after;
    if (!before != !after) {
        uint32_t *count = is_latest ? &publish->n_latest : &publish->n_wanting[topic];
        *count += after ? 1 : (uint32_t)-1;
        if (is_latest)
            publish->wants_latest = *count > 0;
        else if (*count)
            publish->wanted |= 1u << topic;
        else
            publish->wanted &= ~(1u << topic);
    }
    struct zmtp_message *kept = topic == PUBLISH_CALIB    ? publish->calib
                                : topic == PUBLISH_STATUS ? publish->status
                                                          : NULL;
    if (kept && after & ~before)
        zmtp_peer_send(peer, kept);
}

static int on_subscribe(void *user, struct zmtp_peer *peer, bool on, const uint8_t *prefix,
                        size_t n_prefix)
{
    struct publish *publish = user;
    int socket = zmtp_peer_socket(peer);
    if (socket == publish->latest) {
        if (n_prefix == 0)
            set_prefix(publish, peer, PUBLISH_POSE, 0, on);
        return 0;
    }
    for (unsigned topic = 0; topic < PUBLISH_N_TOPICS; topic++)
        if (socket_of(publish, topic) == socket && n_prefix <= strlen(topic_names[topic]) &&
            memcmp(topic_names[topic], prefix, n_prefix) == 0)
            set_prefix(publish, peer, topic, n_prefix, on);
    return 0;
}

static void on_leave(void *user, struct zmtp_peer *peer)
{
    const struct subscriber *subscriber = zmtp_peer_user(peer);
    for (unsigned topic = 0; topic < PUBLISH_N_TOPICS; topic++)
        for (size_t n = 0; subscriber->prefixes[topic] >> n; n++)
            set_prefix(user, peer, topic, n, false);
}

static bool all_have_room(struct publish *publish, enum publish_topic topic)
{
    struct zmtp_peer *peer = zmtp_server_first(publish->server, publish->pub);
    for (; peer; peer = zmtp_server_next(peer)) {
        const struct subscriber *subscriber = zmtp_peer_user(peer);
        if (subscriber->prefixes[topic] && !zmtp_peer_has_room(peer))
            return false;
    }
    return true;
}

// Whether the message has to wait for somebody who is slow.
static bool must_wait(struct publish *publish, const struct item *item)
{
    if (!publish->no_drop || !publish->may_wait || item->is_latest || publish->end_ns ||
        socket_of(publish, item->topic) != publish->pub || all_have_room(publish, item->topic)) {
        publish->stalled_ns = 0;
        return false;
    }
    int64_t now_ns = clock_monotonic_ns();
    if (!publish->stalled_ns)
        publish->stalled_ns = now_ns;
    if (now_ns - publish->stalled_ns < NO_DROP_WAIT_NS)
        return true;
    publish->may_wait = false;
    log_to(&publish->log, LOG_LEVEL_WARNING,
           "a subscriber has stood still for 1 s: from here on messages are dropped for it");
    return false;
}

static void tell_listener(struct publish *publish, const struct item *item)
{
    pthread_mutex_lock(&publish->listener_mutex);
    if (publish->take)
        publish->take(publish->take_user, item->topic, item->message->body, item->message->n_body);
    pthread_mutex_unlock(&publish->listener_mutex);
}

// Takes the message over.
static void deliver(struct publish *publish, const struct item *item)
{
    struct zmtp_message **kept = item->topic == PUBLISH_CALIB    ? &publish->calib
                                 : item->topic == PUBLISH_STATUS ? &publish->status
                                                                 : NULL;
    int socket = item->is_latest ? publish->latest : socket_of(publish, item->topic);
    for (struct zmtp_peer *peer = zmtp_server_first(publish->server, socket), *next; peer;
         peer = next) {
        const struct subscriber *subscriber = zmtp_peer_user(peer);
        next = zmtp_server_next(peer);
        if (subscriber->prefixes[item->topic])
            zmtp_peer_send(peer, item->message);
    }
    if (!item->is_latest && (kept || publish->listened >> item->topic & 1))
        tell_listener(publish, item);
    if (kept) {
        zmtp_message_drop(*kept);
        *kept = item->message;
    } else {
        zmtp_message_drop(item->message);
    }
}

// Returns whether all of the ring has gone.
static bool empty_ring(struct publish *publish)
{
    while (publish->n_taken < publish->n_put) {
        const struct item item = publish->ring[publish->n_taken % N_RING];
        if (must_wait(publish, &item))
            return false;
        publish->n_taken++;
        publish->n_images -= item.topic >= PUBLISH_DEPTH;
        deliver(publish, &item);
    }
    return true;
}

static void send_posts(struct publish *publish)
{
    for (int i = 0; i < PUBLISH_POST_SLOTS; i++) {
        struct post post;
        pthread_mutex_lock(&publish->mutex);
        bool any = publish->n_posts > 0;
        if (any) {
            const struct post *first = &publish->posts[publish->first_post];
            post.topic = first->topic;
            post.n_bytes = first->n_bytes;
            memcpy(post.bytes, first->bytes, first->n_bytes);
            publish->first_post = (publish->first_post + 1) % PUBLISH_POST_SLOTS;
            publish->n_posts--;
        }
        pthread_mutex_unlock(&publish->mutex);
        if (!any)
            return;
        struct item item = {post.topic, false,
                            make_message(post.topic, false, post.bytes, post.n_bytes, NULL, 0)};
        if (item.message)
            deliver(publish, &item);
    }
}

static bool has_posts(struct publish *publish)
{
    pthread_mutex_lock(&publish->mutex);
    bool any = publish->n_posts > 0;
    pthread_mutex_unlock(&publish->mutex);
    return any;
}

static void *run(void *user)
{
    struct publish *publish = user;
    pthread_setname_np(pthread_self(), "posed-publish");
    for (;;) {
        bool is_empty = empty_ring(publish);
        send_posts(publish);
        int64_t end_ns = publish->end_ns;
        if (end_ns && (clock_monotonic_ns() >= end_ns ||
                       (is_empty && zmtp_server_is_flushed(publish->server))))
            return NULL;
        // Whoever puts something into the ring from here on sees that the thread sleeps.
        publish->sleeps = true;
        bool more = publish->n_taken < publish->n_put || has_posts(publish);
        zmtp_server_run(publish->server, !is_empty || end_ns ? 2 : more ? 0 : -1);
        publish->sleeps = false;
    }
}

// --- The frame loop, and others

static void wake(struct publish *publish)
{
    if (atomic_exchange(&publish->sleeps, false))
        zmtp_server_wake(publish->server);
}

static bool has_room(const struct publish *publish, enum publish_topic topic)
{
    return publish->n_put - publish->n_taken < N_RING &&
           (topic < PUBLISH_DEPTH || publish->n_images < RING_IMAGES);
}

static bool put(struct publish *publish, enum publish_topic topic, bool is_latest,
                struct zmtp_message *message)
{
    const struct timespec pause = {0, 500000};
    int64_t until_ns = 0;
    if (!message)
        return false;
    while (!has_room(publish, topic)) {
        int64_t now_ns = clock_monotonic_ns();
        until_ns = until_ns ? until_ns : now_ns + 2 * NO_DROP_WAIT_NS;
        if (!publish->no_drop || topic >= PUBLISH_DEPTH || now_ns >= until_ns) {
            zmtp_message_drop(message);
            return false;
        }
        wake(publish);
        nanosleep(&pause, NULL);
    }
    publish->n_images += topic >= PUBLISH_DEPTH;
    publish->ring[publish->n_put % N_RING] = (struct item){topic, is_latest, message};
    publish->n_put++;
    wake(publish);
    return true;
}

bool publish_send_pieces(struct publish *publish, enum publish_topic topic, const void *head,
                         size_t n_head, const void *tail, size_t n_tail)
{
    bool is_kept = topic == PUBLISH_CALIB || topic == PUBLISH_STATUS;
    if (!is_kept && !publish_wants(publish, topic))
        return true;
    return put(publish, topic, false, make_message(topic, false, head, n_head, tail, n_tail));
}

bool publish_send(struct publish *publish, enum publish_topic topic, const void *bytes,
                  size_t n_bytes)
{
    bool sent = publish_send_pieces(publish, topic, bytes, n_bytes, NULL, 0);
    if (topic == PUBLISH_POSE && publish->wants_latest &&
        !put(publish, topic, true, make_message(topic, true, bytes, n_bytes, NULL, 0)))
        return false;
    return sent;
}

bool publish_wants(const struct publish *publish, enum publish_topic topic)
{
    return (publish->wanted | publish->listened) >> topic & 1;
}

void publish_listen(struct publish *publish,
                    void (*take)(void *user, enum publish_topic topic, const uint8_t *bytes,
                                 size_t n_bytes),
                    void *user)
{
    pthread_mutex_lock(&publish->listener_mutex);
    publish->take = take;
    publish->take_user = user;
    pthread_mutex_unlock(&publish->listener_mutex);
}

void publish_listen_to(struct publish *publish, uint32_t topics)
{
    publish->listened = topics;
}

void publish_post(struct publish *publish, enum publish_topic topic, const pb_msgdesc_t *fields,
                  const void *message)
{
    uint8_t bytes[PUBLISH_POST_MAX_BYTES];
    int n = wire_encode(fields, message, bytes, sizeof bytes);
    if (n < 0)
        return;
    pthread_mutex_lock(&publish->mutex);
    if (publish->n_posts < PUBLISH_POST_SLOTS) {
        size_t i = (publish->first_post + publish->n_posts++) % PUBLISH_POST_SLOTS;
        publish->posts[i].topic = topic;
        publish->posts[i].n_bytes = (size_t)n;
        memcpy(publish->posts[i].bytes, bytes, (size_t)n);
    }
    pthread_mutex_unlock(&publish->mutex);
    wake(publish);
}

// --- Beginning and end

int publish_create(struct publish **out, struct endpoint *endpoint, const struct config *config,
                   bool no_drop, const struct log_sink *log)
{
    *out = NULL;
    struct publish *publish = calloc(1, sizeof *publish);
    if (!publish)
        return -ENOMEM;
    struct zmtp_server_settings settings = endpoint_server_settings(endpoint);
    settings.subscribe = on_subscribe;
    settings.leave = on_leave;
    settings.user = publish;
    pthread_mutex_init(&publish->mutex, NULL);
    pthread_mutex_init(&publish->listener_mutex, NULL);
    publish->log = *log;
    publish->no_drop = no_drop;
    publish->may_wait = no_drop;
    int error = zmtp_server_create(&publish->server, &settings);
    if (error) {
        log_to(log, LOG_LEVEL_ERROR, "the publisher cannot start: %s", strerror(-error));
        goto destroy;
    }
    publish->pub = zmtp_server_add(publish->server, "pub", ZMTP_PUBLISHER, "XPUB", PEER_MAX_BYTES,
                                   config->publish.pub_hwm);
    publish->latest =
        zmtp_server_add(publish->server, "latest", ZMTP_PUBLISHER, "PUB", PEER_MAX_BYTES, 2);
    publish->img = zmtp_server_add(publish->server, "img", ZMTP_PUBLISHER, "XPUB", PEER_MAX_BYTES,
                                   config->publish.img_hwm);
    const struct endpoint_list {
        int socket;
        const char *name, *addresses;
    } sockets[] = {{publish->pub, "pub", config->endpoints.pub},
                   {publish->latest, "latest", config->endpoints.latest},
                   {publish->img, "img", config->endpoints.img}};
    for (size_t i = 0; i < sizeof sockets / sizeof sockets[0] && !error; i++)
        error = endpoint_bind(endpoint, publish->server, sockets[i].socket, sockets[i].name,
                              sockets[i].addresses);
    if (error)
        goto destroy;
    // From here on the server belongs to its thread.
    error = -pthread_create(&publish->thread, NULL, run, publish);
    publish->runs = !error;
    if (error) {
        log_to(log, LOG_LEVEL_ERROR, "the publisher cannot start: %s", strerror(-error));
        goto destroy;
    }
    *out = publish;
    return 0;
destroy:
    publish_destroy(&publish, 0);
    return error;
}

void publish_destroy(struct publish **publish, int linger_ms)
{
    struct publish *p = *publish;
    if (!p)
        return;
    if (p->runs) {
        p->end_ns = clock_monotonic_ns() + (int64_t)linger_ms * 1000000 + 1;
        zmtp_server_wake(p->server);
        pthread_join(p->thread, NULL);
    }
    zmtp_server_destroy(&p->server);
    for (; p->n_taken < p->n_put; p->n_taken++)
        zmtp_message_drop(p->ring[p->n_taken % N_RING].message);
    zmtp_message_drop(p->calib);
    zmtp_message_drop(p->status);
    pthread_mutex_destroy(&p->mutex);
    pthread_mutex_destroy(&p->listener_mutex);
    free(p);
    *publish = NULL;
}

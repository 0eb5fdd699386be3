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
#define RING_IMAGES     4            // of the messages in the ring
#define PEER_MAX_BYTES  4096         // of a subscription
#define LATEST_HWM      2            // `latest`: one is being sent, one waits
#define RING_READY      (N_RING / 2) // up to here a frame finds room for all of its messages
#define NO_DROP_WAIT_NS INT64_C(60000000000)

// No name is a prefix of another: subscriptions are prefixes.
static const char *const topic_names[PUBLISH_N_TOPICS] = {
    "pose", "tf",     "calib", "status",  "timing",   "event", "imu",
    "log",  "object", "depth", "normals", "residual", "cloud",
};

#define TOPIC_BYTES 32 // of a topic's name, its end included

// Of each subscriber. Bit n of a topic: it is subscribed to the first n characters of the name.
// Whatever else it subscribes to is nothing that we send, and is forgotten.
struct subscriber {
    uint32_t prefixes[PUBLISH_MAX_CHANNELS][PUBLISH_N_TOPICS];
    // With no_drop: since then there is no room for it; it is not waited for any more.
    int64_t full_ns;
    bool is_left;
};
_Static_assert(sizeof(struct subscriber) <= ZMTP_USER_BYTES, "enlarge ZMTP_USER_BYTES");

// The largest of what other threads say.
_Static_assert(posed_Log_size <= PUBLISH_POST_MAX_BYTES &&
                   posed_Event_size <= PUBLISH_POST_MAX_BYTES &&
                   posed_ObjectPose_size <= PUBLISH_POST_MAX_BYTES,
               "enlarge PUBLISH_POST_MAX_BYTES");

struct post {
    struct publish_channel *channel;
    enum publish_topic topic;
    size_t n_bytes;
    uint8_t bytes[PUBLISH_POST_MAX_BYTES];
};

struct item {
    enum publish_topic topic;
    bool is_latest;
    struct zmtp_message *message;
};

struct publish_channel {
    struct publish *publish;
    uint32_t index;
    char names[PUBLISH_N_TOPICS][TOPIC_BYTES]; // "": the channel has no such topic

    _Atomic uint32_t wanted;   // bit: somebody is subscribed to this topic
    _Atomic uint32_t listened; // the listener's topics

    // From its one sender to the publisher's thread, without a lock.
    struct item ring[N_RING];
    _Atomic uint64_t n_put, n_taken;
    _Atomic uint32_t n_images;

    pthread_mutex_t listener_mutex;
    void (*take)(void *user, enum publish_topic topic, const uint8_t *bytes, size_t n_bytes);
    void *take_user;

    // The publisher's thread's.
    struct zmtp_message *calib, *status; // the newest
    uint32_t n_wanting[PUBLISH_N_TOPICS];
};

struct publish {
    struct log_sink log;
    bool no_drop;
    struct zmtp_server *server;
    int pub, latest, img; // its sockets
    pthread_t thread;
    bool runs;
    struct publish_channel *channels;
    uint32_t n_channels;

    _Atomic bool wants_latest;
    _Atomic uint64_t n_unsent; // messages that subscribers have not taken yet
    _Atomic bool sleeps;       // the thread has to be woken
    _Atomic int64_t end_ns;    // 0: not yet

    pthread_mutex_t mutex; // of the posts
    struct post posts[PUBLISH_POST_SLOTS];
    size_t n_posts, first_post;

    uint32_t n_latest; // the thread's
};

// --- The thread

static struct zmtp_message *make_message(const struct publish_channel *channel,
                                         enum publish_topic topic, bool is_latest, const void *head,
                                         size_t n_head, const void *tail, size_t n_tail)
{
    uint8_t *body;
    const char *name = channel->names[topic];
    struct zmtp_message *message =
        zmtp_message_create(!is_latest, name, is_latest ? 0 : strlen(name), n_head + n_tail, &body);
    if (!message) {
        if (topic != PUBLISH_LOG) // it would become one again
            log_to(&channel->publish->log, LOG_LEVEL_WARNING, "%s: a message is lost: %s",
                   is_latest ? "latest" : name, strerror(ENOMEM));
        return NULL;
    }
    memcpy(body, head, n_head);
    if (n_tail)
        memcpy(body + n_head, tail, n_tail);
    return message;
}

static int socket_of(const struct publish *publish, enum publish_topic topic)
{
    return topic >= PUBLISH_DEPTH ? publish->img : publish->pub;
}

static void set_prefix(struct publish_channel *channel, struct zmtp_peer *peer,
                       enum publish_topic topic, size_t n_prefix, bool on)
{
    struct publish *publish = channel->publish;
    struct subscriber *subscriber = zmtp_peer_user(peer);
    uint32_t *prefixes = &subscriber->prefixes[channel->index][topic];
    uint32_t before = *prefixes, bit = 1u << n_prefix, after = on ? before | bit : before & ~bit;
    bool is_latest = zmtp_peer_socket(peer) == publish->latest;
    *prefixes = after;
    if (!before != !after) {
        uint32_t *count = is_latest ? &publish->n_latest : &channel->n_wanting[topic];
        *count += after ? 1 : (uint32_t)-1;
        if (is_latest)
            publish->wants_latest = *count > 0;
        else if (*count)
            channel->wanted |= 1u << topic;
        else
            channel->wanted &= ~(1u << topic);
    }
    struct zmtp_message *kept = topic == PUBLISH_CALIB    ? channel->calib
                                : topic == PUBLISH_STATUS ? channel->status
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
            set_prefix(&publish->channels[0], peer, PUBLISH_POSE, 0, on);
        return 0;
    }
    for (uint32_t i = 0; i < publish->n_channels; i++)
        for (unsigned topic = 0; topic < PUBLISH_N_TOPICS; topic++) {
            const char *name = publish->channels[i].names[topic];
            if (name[0] && socket_of(publish, topic) == socket && n_prefix <= strlen(name) &&
                memcmp(name, prefix, n_prefix) == 0)
                set_prefix(&publish->channels[i], peer, topic, n_prefix, on);
        }
    return 0;
}

static void on_leave(void *user, struct zmtp_peer *peer)
{
    struct publish *publish = user;
    const struct subscriber *subscriber = zmtp_peer_user(peer);
    for (uint32_t i = 0; i < publish->n_channels; i++)
        for (unsigned topic = 0; topic < PUBLISH_N_TOPICS; topic++)
            for (size_t n = 0; subscriber->prefixes[i][topic] >> n; n++)
                set_prefix(&publish->channels[i], peer, topic, n, false);
}

// Whether there is no room for a subscriber that may still read. One for whom there was none for
// NO_DROP_WAIT_NS is left behind until it has read.
static bool waits_for(const struct publish *publish, struct zmtp_peer *peer, int64_t now_ns)
{
    struct subscriber *subscriber = zmtp_peer_user(peer);
    if (zmtp_peer_has_room(peer)) {
        subscriber->full_ns = 0;
        subscriber->is_left = false;
        return false;
    }
    if (!subscriber->full_ns)
        subscriber->full_ns = now_ns;
    if (subscriber->is_left)
        return false;
    if (now_ns - subscriber->full_ns < NO_DROP_WAIT_NS)
        return true;
    subscriber->is_left = true;
    log_to(&publish->log, LOG_LEVEL_WARNING,
           "pub: %s has read nothing for %d s: messages are dropped for it until it reads",
           zmtp_peer_owner(peer), (int)(NO_DROP_WAIT_NS / 1000000000));
    return false;
}

// Whether the message has to wait for somebody who is slow.
static bool must_wait(struct publish_channel *channel, const struct item *item)
{
    struct publish *publish = channel->publish;
    if (!publish->no_drop || item->is_latest || publish->end_ns ||
        socket_of(publish, item->topic) != publish->pub)
        return false;
    bool waits = false;
    int64_t now_ns = clock_monotonic_ns();
    struct zmtp_peer *peer = zmtp_server_first(publish->server, publish->pub);
    for (; peer; peer = zmtp_server_next(peer)) {
        const struct subscriber *subscriber = zmtp_peer_user(peer);
        if (subscriber->prefixes[channel->index][item->topic])
            waits = waits_for(publish, peer, now_ns) || waits;
    }
    return waits;
}

static void tell_listener(struct publish_channel *channel, const struct item *item)
{
    pthread_mutex_lock(&channel->listener_mutex);
    if (channel->take)
        channel->take(channel->take_user, item->topic, item->message->body, item->message->n_body);
    pthread_mutex_unlock(&channel->listener_mutex);
}

// Takes the message over.
static void deliver(struct publish_channel *channel, const struct item *item)
{
    struct publish *publish = channel->publish;
    struct zmtp_message **kept = item->topic == PUBLISH_CALIB    ? &channel->calib
                                 : item->topic == PUBLISH_STATUS ? &channel->status
                                                                 : NULL;
    int socket = item->is_latest ? publish->latest : socket_of(publish, item->topic);
    for (struct zmtp_peer *peer = zmtp_server_first(publish->server, socket), *next; peer;
         peer = next) {
        const struct subscriber *subscriber = zmtp_peer_user(peer);
        next = zmtp_server_next(peer);
        if (subscriber->prefixes[channel->index][item->topic])
            zmtp_peer_send(peer, item->message);
    }
    if (!item->is_latest && (kept || channel->listened >> item->topic & 1))
        tell_listener(channel, item);
    if (kept) {
        zmtp_message_drop(*kept);
        *kept = item->message;
    } else {
        zmtp_message_drop(item->message);
    }
}

// Returns whether all of the ring has gone.
static bool empty_ring(struct publish_channel *channel)
{
    while (channel->n_taken < channel->n_put) {
        const struct item item = channel->ring[channel->n_taken % N_RING];
        if (must_wait(channel, &item))
            return false;
        channel->n_taken++;
        channel->n_images -= item.topic >= PUBLISH_DEPTH;
        deliver(channel, &item);
    }
    return true;
}

static bool empty_rings(struct publish *publish)
{
    bool all = true;
    for (uint32_t i = 0; i < publish->n_channels; i++)
        all = empty_ring(&publish->channels[i]) && all;
    return all;
}

static void send_posts(struct publish *publish)
{
    for (int i = 0; i < PUBLISH_POST_SLOTS; i++) {
        struct post post;
        pthread_mutex_lock(&publish->mutex);
        bool any = publish->n_posts > 0;
        if (any) {
            const struct post *first = &publish->posts[publish->first_post];
            post.channel = first->channel;
            post.topic = first->topic;
            post.n_bytes = first->n_bytes;
            memcpy(post.bytes, first->bytes, first->n_bytes);
            publish->first_post = (publish->first_post + 1) % PUBLISH_POST_SLOTS;
            publish->n_posts--;
        }
        pthread_mutex_unlock(&publish->mutex);
        if (!any)
            return;
        struct item item = {
            post.topic, false,
            make_message(post.channel, post.topic, false, post.bytes, post.n_bytes, NULL, 0)};
        if (item.message)
            deliver(post.channel, &item);
    }
}

// Whether anything waits to be sent.
static bool has_more(struct publish *publish)
{
    pthread_mutex_lock(&publish->mutex);
    bool any = publish->n_posts > 0;
    pthread_mutex_unlock(&publish->mutex);
    for (uint32_t i = 0; i < publish->n_channels && !any; i++)
        any = publish->channels[i].n_taken < publish->channels[i].n_put;
    return any;
}

static void *run(void *user)
{
    struct publish *publish = user;
    pthread_setname_np(pthread_self(), "posed-publish");
    for (;;) {
        bool is_empty = empty_rings(publish);
        send_posts(publish);
        publish->n_unsent = zmtp_server_n_unsent(publish->server);
        int64_t end_ns = publish->end_ns;
        if (end_ns && (clock_monotonic_ns() >= end_ns || (is_empty && publish->n_unsent == 0)))
            return NULL;
        // Whoever puts something into a ring from here on sees that the thread sleeps.
        publish->sleeps = true;
        bool more = has_more(publish);
        zmtp_server_run(publish->server, !is_empty || end_ns ? 2 : more ? 0 : -1);
        publish->sleeps = false;
    }
}

// --- The frame loops, and others

static void wake(struct publish *publish)
{
    if (atomic_exchange(&publish->sleeps, false))
        zmtp_server_wake(publish->server);
}

static bool has_room(const struct publish_channel *channel, enum publish_topic topic)
{
    return channel->n_put - channel->n_taken < N_RING &&
           (topic < PUBLISH_DEPTH || channel->n_images < RING_IMAGES);
}

static bool put(struct publish_channel *channel, enum publish_topic topic, bool is_latest,
                struct zmtp_message *message)
{
    if (!message)
        return false;
    if (!has_room(channel, topic)) {
        zmtp_message_drop(message);
        return false;
    }
    channel->n_images += topic >= PUBLISH_DEPTH;
    channel->ring[channel->n_put % N_RING] = (struct item){topic, is_latest, message};
    channel->n_put++;
    wake(channel->publish);
    return true;
}

bool publish_send_pieces(struct publish_channel *channel, enum publish_topic topic,
                         const void *head, size_t n_head, const void *tail, size_t n_tail)
{
    bool is_kept = topic == PUBLISH_CALIB || topic == PUBLISH_STATUS;
    if (!is_kept && !publish_wants(channel, topic))
        return true;
    return put(channel, topic, false,
               make_message(channel, topic, false, head, n_head, tail, n_tail));
}

bool publish_send(struct publish_channel *channel, enum publish_topic topic, const void *bytes,
                  size_t n_bytes)
{
    bool sent = publish_send_pieces(channel, topic, bytes, n_bytes, NULL, 0);
    if (topic == PUBLISH_POSE && channel->index == 0 && channel->publish->wants_latest &&
        !put(channel, topic, true, make_message(channel, topic, true, bytes, n_bytes, NULL, 0)))
        return false;
    return sent;
}

bool publish_is_ready(const struct publish_channel *channel)
{
    const struct publish *publish = channel->publish;
    bool ready = true;
    for (uint32_t i = 0; i < publish->n_channels && publish->no_drop; i++)
        ready = ready && publish->channels[i].n_put - publish->channels[i].n_taken < RING_READY;
    return ready;
}

uint64_t publish_n_waiting(const struct publish *publish)
{
    uint64_t n = publish->n_unsent;
    for (uint32_t i = 0; i < publish->n_channels; i++)
        n += publish->channels[i].n_put - publish->channels[i].n_taken;
    return n;
}

bool publish_wants(const struct publish_channel *channel, enum publish_topic topic)
{
    return (channel->wanted | channel->listened) >> topic & 1;
}

bool publish_wants_any_pose(const struct publish_channel *channel)
{
    const struct publish *publish = channel->publish;
    bool wants = false;
    for (uint32_t i = 0; i < publish->n_channels; i++)
        wants = wants || publish_wants(&publish->channels[i], PUBLISH_POSE);
    return wants;
}

void publish_listen(struct publish_channel *channel,
                    void (*take)(void *user, enum publish_topic topic, const uint8_t *bytes,
                                 size_t n_bytes),
                    void *user)
{
    pthread_mutex_lock(&channel->listener_mutex);
    channel->take = take;
    channel->take_user = user;
    pthread_mutex_unlock(&channel->listener_mutex);
}

void publish_listen_to(struct publish_channel *channel, uint32_t topics)
{
    channel->listened = topics;
}

void publish_post(struct publish_channel *channel, enum publish_topic topic,
                  const pb_msgdesc_t *fields, const void *message)
{
    struct publish *publish = channel->publish;
    uint8_t bytes[PUBLISH_POST_MAX_BYTES];
    int n = wire_encode(fields, message, bytes, sizeof bytes);
    if (n < 0)
        return;
    pthread_mutex_lock(&publish->mutex);
    if (publish->n_posts < PUBLISH_POST_SLOTS) {
        size_t i = (publish->first_post + publish->n_posts++) % PUBLISH_POST_SLOTS;
        publish->posts[i].channel = channel;
        publish->posts[i].topic = topic;
        publish->posts[i].n_bytes = (size_t)n;
        memcpy(publish->posts[i].bytes, bytes, (size_t)n);
    }
    pthread_mutex_unlock(&publish->mutex);
    wake(publish);
}

// --- Beginning and end

// `camera` NULL: the rig's.
static void open_channel(struct publish *publish, uint32_t index, const char *camera)
{
    struct publish_channel *channel = &publish->channels[index];
    channel->publish = publish;
    channel->index = index;
    pthread_mutex_init(&channel->listener_mutex, NULL);
    if (!camera)
        snprintf(channel->names[PUBLISH_POSE], TOPIC_BYTES, "rig");
    for (unsigned topic = 0; topic < PUBLISH_N_TOPICS && camera; topic++) {
        bool is_named = camera[0] && topic != PUBLISH_LOG;
        snprintf(channel->names[topic], TOPIC_BYTES, "%s%s%s", topic_names[topic],
                 is_named ? "/" : "", is_named ? camera : "");
    }
}

struct publish_channel *publish_channel(struct publish *publish, uint32_t index)
{
    return &publish->channels[index];
}

int publish_create(struct publish **out, struct endpoint *endpoint, const struct config *config,
                   const struct publish_settings *cameras, const struct log_sink *log)
{
    *out = NULL;
    struct publish *publish = calloc(1, sizeof *publish);
    if (!publish)
        return -ENOMEM;
    publish->channels = calloc(cameras->n_cameras + 1, sizeof *publish->channels);
    if (!publish->channels) {
        free(publish);
        return -ENOMEM;
    }
    struct zmtp_server_settings settings = endpoint_server_settings(endpoint);
    settings.subscribe = on_subscribe;
    settings.leave = on_leave;
    settings.user = publish;
    pthread_mutex_init(&publish->mutex, NULL);
    publish->log = *log;
    publish->no_drop = cameras->no_drop;
    publish->n_channels = cameras->n_cameras + cameras->has_rig;
    for (uint32_t i = 0; i < publish->n_channels; i++)
        open_channel(publish, i, i < cameras->n_cameras ? cameras->cameras[i] : NULL);
    int error = zmtp_server_create(&publish->server, &settings);
    if (error) {
        log_to(log, LOG_LEVEL_ERROR, "the publisher cannot start: %s", strerror(-error));
        goto destroy;
    }
    publish->pub = zmtp_server_add(publish->server, "pub", ZMTP_PUBLISHER, "XPUB", PEER_MAX_BYTES,
                                   config->publish.pub_hwm);
    publish->latest = zmtp_server_add(publish->server, "latest", ZMTP_PUBLISHER, "PUB",
                                      PEER_MAX_BYTES, LATEST_HWM);
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
    for (uint32_t i = 0; i < p->n_channels; i++) {
        struct publish_channel *channel = &p->channels[i];
        for (; channel->n_taken < channel->n_put; channel->n_taken++)
            zmtp_message_drop(channel->ring[channel->n_taken % N_RING].message);
        zmtp_message_drop(channel->calib);
        zmtp_message_drop(channel->status);
        pthread_mutex_destroy(&channel->listener_mutex);
    }
    pthread_mutex_destroy(&p->mutex);
    free(p->channels);
    free(p);
    *publish = NULL;
}

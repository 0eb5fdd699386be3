// SPDX-License-Identifier: Apache-2.0
#include "daemon/publish.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <zmq.h>

#include "daemon/clock.h"
#include "proto/wire.h"

#define KEPT_MAX_BYTES  2048 // of a calib or status message
#define PUMP_MAX_EVENTS 256  // subscriptions taken in at a time
#define NO_DROP_WAIT_NS 1000000000

// No name is a prefix of another: subscriptions are prefixes.
static const char *const topic_names[PUBLISH_N_TOPICS] = {
    "pose", "tf",     "calib", "status",  "timing",   "event", "imu",
    "log",  "object", "depth", "normals", "residual", "cloud",
};

struct kept {
    uint8_t bytes[KEPT_MAX_BYTES];
    size_t n_bytes;
    bool wanted; // somebody new subscribed
};

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

struct publish {
    void *pub, *latest, *img;
    struct log_sink log;
    bool no_drop, may_wait; // may_wait: nobody has stood still for too long since
    // Bit n: somebody is subscribed to the topic's first n characters. Whatever else a client
    // subscribes to costs the daemon nothing here.
    uint16_t prefixes[PUBLISH_N_TOPICS];
    struct kept calib, status;

    pthread_mutex_t mutex;
    struct post posts[PUBLISH_POST_SLOTS];
    size_t n_posts, first_post;
};

static void *open_socket(struct endpoint *endpoint, int type, uint32_t hwm)
{
    void *socket = endpoint_socket(endpoint, type);
    const int n_messages = (int)hwm;
    const int64_t max_bytes = 4096; // a subscriber only sends subscriptions
    if (!socket)
        return NULL;
    zmq_setsockopt(socket, ZMQ_SNDHWM, &n_messages, sizeof n_messages);
    zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &max_bytes, sizeof max_bytes);
    return socket;
}

int publish_create(struct publish **out, struct endpoint *endpoint, const struct config *config,
                   bool no_drop, const struct log_sink *log)
{
    *out = NULL;
    struct publish *publish = calloc(1, sizeof *publish);
    if (!publish)
        return -ENOMEM;
    pthread_mutex_init(&publish->mutex, NULL);
    publish->log = *log;
    publish->no_drop = publish->may_wait = no_drop;
    publish->pub = open_socket(endpoint, ZMQ_XPUB, config->publish.pub_hwm);
    publish->latest = open_socket(endpoint, ZMQ_PUB, 2);
    publish->img = open_socket(endpoint, ZMQ_XPUB, config->publish.img_hwm);
    int error = -ENOMEM;
    if (!publish->pub || !publish->latest || !publish->img)
        goto destroy;
    const int verbose = 1, lossless = no_drop;
    zmq_setsockopt(publish->pub, ZMQ_XPUB_VERBOSE, &verbose, sizeof verbose);
    zmq_setsockopt(publish->pub, ZMQ_XPUB_NODROP, &lossless, sizeof lossless);
    if ((error = endpoint_bind(endpoint, publish->pub, "pub", config->endpoints.pub)) != 0 ||
        (error = endpoint_bind(endpoint, publish->latest, "latest", config->endpoints.latest)) !=
            0 ||
        (error = endpoint_bind(endpoint, publish->img, "img", config->endpoints.img)) != 0)
        goto destroy;
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
    void *sockets[] = {p->pub, p->latest, p->img};
    for (size_t i = 0; i < 3; i++) {
        if (!sockets[i])
            continue;
        zmq_setsockopt(sockets[i], ZMQ_LINGER, &linger_ms, sizeof linger_ms);
        zmq_close(sockets[i]);
    }
    pthread_mutex_destroy(&p->mutex);
    free(p);
    *publish = NULL;
}

// Sends the topic, waiting where nothing may be dropped. Returns 0 or -EAGAIN.
static int send_topic(struct publish *publish, void *socket, const char *name)
{
    if (zmq_send(socket, name, strlen(name), ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
        return 0;
    const struct timespec pause = {0, 500000};
    int64_t give_up_ns = clock_monotonic_ns() + NO_DROP_WAIT_NS;
    while (publish->may_wait && zmq_errno() == EAGAIN && clock_monotonic_ns() < give_up_ns) {
        nanosleep(&pause, NULL);
        if (zmq_send(socket, name, strlen(name), ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
            return 0;
    }
    if (publish->may_wait && socket == publish->pub) {
        const int lossless = 0;
        publish->may_wait = false;
        zmq_setsockopt(publish->pub, ZMQ_XPUB_NODROP, &lossless, sizeof lossless);
        log_to(&publish->log, LOG_LEVEL_WARNING,
               "a subscriber has stood still for 1 s: from here on messages are dropped for it");
        if (zmq_send(socket, name, strlen(name), ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
            return 0;
    }
    return -EAGAIN;
}

bool publish_send_pieces(struct publish *publish, enum publish_topic topic, const void *head,
                         size_t n_head, const void *tail, size_t n_tail)
{
    void *socket = topic >= PUBLISH_DEPTH ? publish->img : publish->pub;
    zmq_msg_t message;
    if (zmq_msg_init_size(&message, n_head + n_tail) != 0)
        return false;
    memcpy(zmq_msg_data(&message), head, n_head);
    if (n_tail)
        memcpy((char *)zmq_msg_data(&message) + n_head, tail, n_tail);
    if (send_topic(publish, socket, topic_names[topic]) != 0 ||
        zmq_msg_send(&message, socket, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&message);
        return false;
    }
    return true;
}

bool publish_send(struct publish *publish, enum publish_topic topic, const void *bytes,
                  size_t n_bytes)
{
    struct kept *kept = topic == PUBLISH_CALIB    ? &publish->calib
                        : topic == PUBLISH_STATUS ? &publish->status
                                                  : NULL;
    if (kept && n_bytes <= KEPT_MAX_BYTES) {
        memcpy(kept->bytes, bytes, n_bytes);
        kept->n_bytes = n_bytes;
        kept->wanted = false;
    }
    if (topic == PUBLISH_POSE)
        zmq_send(publish->latest, bytes, n_bytes, ZMQ_DONTWAIT);
    return publish_send_pieces(publish, topic, bytes, n_bytes, NULL, 0);
}

bool publish_wants(const struct publish *publish, enum publish_topic topic)
{
    return publish->prefixes[topic] != 0;
}

// One subscription (first byte 1) or the end of one (0); the rest is the prefix.
static void take_subscription(struct publish *publish, void *socket, const uint8_t *bytes, size_t n)
{
    if (n == 0 || bytes[0] > 1)
        return;
    const char *prefix = (const char *)bytes + 1;
    size_t n_prefix = n - 1;
    for (unsigned topic = 0; topic < PUBLISH_N_TOPICS; topic++) {
        if ((topic >= PUBLISH_DEPTH) != (socket == publish->img) ||
            n_prefix > strlen(topic_names[topic]) ||
            memcmp(topic_names[topic], prefix, n_prefix) != 0)
            continue;
        uint16_t bit = (uint16_t)(1u << n_prefix);
        if (bytes[0])
            publish->prefixes[topic] |= bit;
        else
            publish->prefixes[topic] &= (uint16_t)~bit;
        publish->calib.wanted |= bytes[0] && topic == PUBLISH_CALIB;
        publish->status.wanted |= bytes[0] && topic == PUBLISH_STATUS;
    }
}

static void take_subscriptions(struct publish *publish, void *socket)
{
    for (int i = 0; i < PUMP_MAX_EVENTS; i++) {
        uint8_t bytes[64]; // longer prefixes match no topic
        int n = zmq_recv(socket, bytes, sizeof bytes, ZMQ_DONTWAIT);
        if (n < 0)
            return;
        if ((size_t)n <= sizeof bytes)
            take_subscription(publish, socket, bytes, (size_t)n);
    }
}

// A worker of idle priority may have lost the processor while it holds the mutex: its post, and
// those of others, wait for the next round, not the frame.
static void send_posts(struct publish *publish)
{
    for (int i = 0; i < PUBLISH_POST_SLOTS; i++) {
        struct post post;
        if (pthread_mutex_trylock(&publish->mutex) != 0)
            return;
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
        publish_send(publish, post.topic, post.bytes, post.n_bytes);
    }
}

void publish_pump(struct publish *publish)
{
    take_subscriptions(publish, publish->pub);
    take_subscriptions(publish, publish->img);
    if (publish->calib.wanted && publish->calib.n_bytes)
        publish_send(publish, PUBLISH_CALIB, publish->calib.bytes, publish->calib.n_bytes);
    if (publish->status.wanted && publish->status.n_bytes)
        publish_send(publish, PUBLISH_STATUS, publish->status.bytes, publish->status.n_bytes);
    send_posts(publish);
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
}

// SPDX-License-Identifier: Apache-2.0
// posectl's way to the daemon: where it is, the sockets, one request and its answer, a
// subscription. Nobody waits for an answer that cannot come (connection.h).
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <zmq.h>

#include "proto/clock.h"
#include "proto/file_suffix.h"
#include "proto/wire.h"
#include "tools/client/address.h"
#include "tools/posectl/connection.h"
#include "tools/posectl/posectl.h"
#include "tools/posectl/progress.h"
#include "tools/posectl/silence.h"
#include "tools/posectl/watch_lines.h"

#define ENDPOINT_MAX ADDRESS_MAX
#define KEY_BYTES    (POSECTL_KEY_CHARS + 1)

#define QUEUE_IMG 4 // images that may wait while nobody reads what is printed; 1 to 7 MB each

#define ANSWER_MS         300 // for an answer to come that the daemon gives at the deadline
#define PROGRESS_AFTER_MS 500 // a quick answer needs none
#define PROGRESS_EVERY_MS 200
#define WAIT_EVERY_NS     20000000

// A socket of the daemon, and ours to it.
struct link {
    const struct posectl *ctl;
    const char *name; // "req"
    char endpoint[ENDPOINT_MAX];
    char public_key[KEY_BYTES], secret_key[KEY_BYTES]; // "" without --server-key
    void *context, *socket;
    struct connection connection;
};

static void explain_silence(const struct link *link)
{
    silence_explain(link->ctl, &link->connection, link->endpoint, link->name, link->public_key);
}

static bool read_secret_key(const char *path, char out[KEY_BYTES])
{
    if (file_suffix_is(path, ".public")) {
        posectl_complain("--key-file %s: that is the public key, which everybody knows: the secret "
                         "one is in the .secret beside it",
                         path);
        return false;
    }
    FILE *file = fopen(path, "re");
    if (!file) {
        posectl_complain("--key-file %s: %s", path, strerror(errno));
        return false;
    }
    char key[KEY_BYTES + 1] = ""; // one more letter than a key has
    bool is_key = fscanf(file, "%41s", key) == 1 && strlen(key) == POSECTL_KEY_CHARS;
    fclose(file);
    if (is_key)
        memcpy(out, key, KEY_BYTES);
    else
        posectl_complain("--key-file %s: holds no CURVE secret key (40 characters Z85; posectl "
                         "keygen NAME makes one)",
                         path);
    explicit_bzero(key, sizeof key);
    return is_key;
}

// CURVE keys of this client: a pair of its own unless --key-file gives one.
static bool make_keys(struct link *link)
{
    const struct posectl *ctl = link->ctl;
    if (!ctl->server_key)
        return true;
    if (!ctl->key_file) {
        if (zmq_curve_keypair(link->public_key, link->secret_key) == 0)
            return true;
        posectl_complain("CURVE: %s", zmq_strerror(zmq_errno()));
        return false;
    }
    if (!read_secret_key(ctl->key_file, link->secret_key))
        return false;
    if (zmq_curve_public(link->public_key, link->secret_key) == 0)
        return true;
    posectl_complain("--key-file %s: holds no CURVE secret key", ctl->key_file);
    return false;
}

static bool set_keys(const struct link *link, void *socket)
{
    const char *server_key = link->ctl->server_key;
    if (!server_key ||
        (zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, server_key, KEY_BYTES) == 0 &&
         zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, link->public_key, KEY_BYTES) == 0 &&
         zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, link->secret_key, KEY_BYTES) == 0))
        return true;
    posectl_complain("--server-key %s: not a CURVE key (40 characters Z85)", server_key);
    return false;
}

static bool set_up(const struct link *link, void *socket)
{
    // Not for names: libzmq would take their IPv6 addresses alone, and a posed is on 127.0.0.1.
    const int linger_ms = 0, is_ipv6 = strchr(link->endpoint, '[') ? 1 : 0;
    return zmq_setsockopt(socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms) == 0 &&
           zmq_setsockopt(socket, ZMQ_IPV6, &is_ipv6, sizeof is_ipv6) == 0 &&
           set_keys(link, socket);
}

static void close_link(struct link *link)
{
    connection_end(&link->connection);
    if (link->socket)
        zmq_close(link->socket);
    if (link->context)
        zmq_ctx_term(link->context);
    explicit_bzero(link->secret_key, sizeof link->secret_key);
    *link = (struct link){0};
}

// Returns 0, -1 (no such host, or no address), or ETIMEDOUT: its name could not be looked up.
static int connect_to(const struct posectl *ctl, void *socket, const char *address)
{
    char numeric[ENDPOINT_MAX];
    int error = address_resolve(address, ctl->timeout_ms, numeric);
    if (!error && zmq_connect(socket, numeric) != 0)
        error = -1;
    return error;
}

// The address of the daemon's socket; with --wait, once somebody listens there.
static void find_daemon(const struct posectl *ctl, enum address_socket which,
                        char out[ENDPOINT_MAX])
{
    const struct timespec pause = {.tv_nsec = WAIT_EVERY_NS};
    const int64_t end_ns = clock_monotonic_ns() + (int64_t)ctl->wait_ms * 1000000;
    for (;;) {
        address_find(ctl->endpoint, which, out);
        const int64_t left_ms = (end_ns - clock_monotonic_ns()) / 1000000;
        const int error = left_ms > 0 ? address_probe(out, (unsigned)left_ms) : 0;
        if (error != ENOENT && error != ECONNREFUSED && error != EHOSTUNREACH)
            return;
        nanosleep(&pause, NULL);
    }
}

// Returns POSECTL_OK, or the exit code with the reason on stderr; to be closed in any case.
static enum posectl_exit open_link(struct link *link, const struct posectl *ctl, int type,
                                   enum address_socket which)
{
    *link = (struct link){.ctl = ctl, .name = address_name(which)};
    if (!make_keys(link))
        return POSECTL_USAGE;
    find_daemon(ctl, which, link->endpoint);
    link->context = zmq_ctx_new();
    link->socket = link->context ? zmq_socket(link->context, type) : NULL;
    if (!link->socket || !connection_begin(&link->connection, link->context, link->socket)) {
        posectl_complain("no socket: %s", zmq_strerror(zmq_errno()));
        return POSECTL_FAILED;
    }
    if (!set_up(link, link->socket))
        return POSECTL_USAGE;
    const int error = connect_to(ctl, link->socket, link->endpoint);
    if (!error)
        return POSECTL_OK;
    if (error == ETIMEDOUT)
        posectl_complain("%s: no name server has told in %g s where that is (--timeout)",
                         link->endpoint, ctl->timeout_ms * 1e-3);
    else
        silence_explain_nobody(link->endpoint, error);
    return POSECTL_NO_ANSWER;
}

// What the daemon says of how far it is with a request of posectl's; NULL where nobody looks.
static void *open_events(const struct link *link)
{
    char pub[ENDPOINT_MAX];
    address_find(link->ctl->endpoint, ADDRESS_PUB, pub);
    if (!progress_is_shown() || strcmp(pub, link->endpoint) == 0)
        return NULL;
    void *events = zmq_socket(link->context, ZMQ_SUB);
    if (events && (!set_up(link, events) || connect_to(link->ctl, events, pub) != 0 ||
                   zmq_setsockopt(events, ZMQ_SUBSCRIBE, "event", 5) != 0)) {
        zmq_close(events);
        return NULL;
    }
    return events;
}

// The line is shown even when the daemon says nothing, so that a person sees time pass.
static void show_event(void *events)
{
    static double share = -1;
    static char stage[sizeof((posed_Event *)NULL)->message];
    char topic[POSECTL_TOPIC_BYTES];
    uint8_t bytes[posed_Event_size];
    posed_Event event;
    while (events && zmq_recv(events, topic, sizeof topic, ZMQ_DONTWAIT) >= 0) {
        int n = zmq_recv(events, bytes, sizeof bytes, ZMQ_DONTWAIT);
        if (n > 0 && n <= (int)sizeof bytes &&
            wire_decode(posed_Event_fields, bytes, (size_t)n, &event) == 0 &&
            event.kind == posed_Event_Kind_PROGRESS && event.request_id == posectl_request_id()) {
            share = (double)event.progress;
            wire_copy_text(stage, sizeof stage, event.message);
        }
    }
    progress_show(share, stage);
}

// A request goes to a daemon that is there. (A subscription may come before its daemon: then it
// misses nothing.)
static bool nobody_listens(const struct link *link, int64_t left_ms)
{
    if (link->connection.state != CONNECTION_NONE || link->connection.n_failures == 0 ||
        left_ms <= 0)
        return false;
    const int error = address_probe(link->endpoint, (unsigned)left_ms);
    // A daemon that is too busy to take one more is there; the way to another machine may come.
    return strncmp(link->endpoint, "ipc:", 4) == 0 ? error && error != ETIMEDOUT
                                                   : error == ECONNREFUSED;
}

// Until the answer is there, the time is over, or none can come any more. Returns whether it is.
static bool await_answer(struct link *link, void *events)
{
    const int64_t start_ns = clock_monotonic_ns(), wait_ms = (int64_t)link->ctl->timeout_ms;
    bool is_there = false;
    while (!is_there && !connection_is_over(&link->connection)) {
        const int64_t passed_ms = (clock_monotonic_ns() - start_ns) / 1000000;
        const int64_t left_ms = wait_ms + ANSWER_MS - passed_ms;
        if (left_ms <= 0 || nobody_listens(link, left_ms))
            break;
        if (progress_is_shown() && passed_ms >= PROGRESS_AFTER_MS)
            show_event(events);
        is_there = connection_wait(&link->connection,
                                   left_ms < PROGRESS_EVERY_MS ? left_ms : PROGRESS_EVERY_MS);
    }
    if (progress_is_shown())
        progress_end();
    return is_there;
}

uint64_t posectl_request_id(void)
{
    static uint64_t id;
    if (!id)
        id = ((uint64_t)getpid() << 32 | (uint32_t)clock_monotonic_ns()) | 1;
    return id;
}

// out_bytes may be NULL.
static enum posectl_exit exchange(struct link *link, const uint8_t *request, size_t n_bytes,
                                  posed_Reply *out, uint8_t **out_bytes, size_t *out_n)
{
    // Nobody to send to: the handshake has failed already.
    const bool sent = zmq_send(link->socket, request, n_bytes, ZMQ_DONTWAIT) >= 0;
    if (!sent && zmq_errno() != EAGAIN) {
        posectl_complain("the request could not be sent: %s", zmq_strerror(zmq_errno()));
        return POSECTL_FAILED;
    }
    void *events = open_events(link);
    const bool is_there = await_answer(link, events);
    if (events)
        zmq_close(events);
    zmq_msg_t message;
    zmq_msg_init(&message);
    if (!is_there || zmq_msg_recv(&message, link->socket, ZMQ_DONTWAIT) < 0) {
        explain_silence(link);
        return POSECTL_NO_ANSWER;
    }
    int error = wire_decode_reply(zmq_msg_data(&message), zmq_msg_size(&message), out);
    if (out_bytes && !error && out->code == posed_Code_OK) {
        *out_n = zmq_msg_size(&message) - WIRE_MAGIC_BYTES;
        *out_bytes = malloc(*out_n);
        if (*out_bytes)
            memcpy(*out_bytes, (char *)zmq_msg_data(&message) + WIRE_MAGIC_BYTES, *out_n);
    }
    zmq_msg_close(&message);
    if (error) {
        posectl_complain("the answer of %s is not one of posed", link->endpoint);
        return POSECTL_FAILED;
    }
    if (out->code == posed_Code_OK && out->message[0])
        posectl_complain("%s", out->message);
    if (out->code == posed_Code_OK)
        return POSECTL_OK;
    posectl_complain("%s%s%s: %s", wire_code_name(out->code), out->field[0] ? " " : "", out->field,
                     out->message);
    return POSECTL_FAILED;
}

// The request with the camera's name behind it: the order of fields is free.
static uint8_t *name_camera(const struct posectl *ctl, const uint8_t *request, size_t n_bytes,
                            size_t *out_n)
{
    size_t n_name = strlen(ctl->camera);
    uint8_t *named = malloc(n_bytes + 2 + n_name);
    if (!named)
        return NULL;
    memcpy(named, request, n_bytes);
    named[n_bytes] = posed_Request_camera_tag << 3 | 2; // bytes with their length
    named[n_bytes + 1] = (uint8_t)n_name;
    memcpy(named + n_bytes + 2, ctl->camera, n_name);
    *out_n = n_bytes + 2 + n_name;
    return named;
}

static enum posectl_exit connect_and_exchange(const struct posectl *ctl, const uint8_t *request,
                                              size_t n_bytes, posed_Reply *out, uint8_t **out_bytes,
                                              size_t *out_n)
{
    struct link link;
    uint8_t *named = NULL;
    if (ctl->camera[0]) {
        request = named = name_camera(ctl, request, n_bytes, &n_bytes);
        if (!named) {
            posectl_complain("out of memory");
            return POSECTL_FAILED;
        }
    }
    enum posectl_exit result = open_link(&link, ctl, ZMQ_DEALER, ADDRESS_REQ);
    if (!result)
        result = exchange(&link, request, n_bytes, out, out_bytes, out_n);
    close_link(&link);
    free(named);
    return result;
}

enum posectl_exit posectl_exchange(const struct posectl *ctl, const uint8_t *request,
                                   size_t n_bytes, posed_Reply *out)
{
    return connect_and_exchange(ctl, request, n_bytes, out, NULL, NULL);
}

static enum posectl_exit encode_and_exchange(const struct posectl *ctl,
                                             const posed_Request *request, posed_Reply *out,
                                             uint8_t **out_bytes, size_t *out_n)
{
    uint8_t bytes[WIRE_REQUEST_MAX_BYTES];
    int n = wire_encode_request(request, bytes, sizeof bytes);
    if (n < 0) {
        posectl_complain("the request is too long");
        return POSECTL_FAILED;
    }
    return connect_and_exchange(ctl, bytes, (size_t)n, out, out_bytes, out_n);
}

enum posectl_exit posectl_request(const struct posectl *ctl, const posed_Request *request,
                                  posed_Reply *out)
{
    return encode_and_exchange(ctl, request, out, NULL, NULL);
}

enum posectl_exit posectl_request_large(const struct posectl *ctl, const posed_Request *request,
                                        posed_Reply *out, uint8_t **out_bytes, size_t *out_n)
{
    *out_bytes = NULL;
    enum posectl_exit result = encode_and_exchange(ctl, request, out, out_bytes, out_n);
    if (result || *out_bytes)
        return result;
    posectl_complain("out of memory");
    return POSECTL_FAILED;
}

struct posectl_subscription {
    struct link link;
    bool any; // a message has come
    zmq_msg_t message;
};

// The same socket also hears `img` when a topic is there; a socket's own address is all there is.
static bool connect_images(const struct link *link, const char *const *topics, size_t n_topics)
{
    const int queue = QUEUE_IMG; // of the connections to come
    char endpoint[ENDPOINT_MAX];
    bool wanted = false;
    for (size_t i = 0; i < n_topics; i++)
        wanted = wanted || watch_lines_is_image(topics[i]);
    address_find(link->ctl->endpoint, ADDRESS_IMG, endpoint);
    zmq_setsockopt(link->socket, ZMQ_RCVHWM, &queue, sizeof queue);
    return !wanted || strcmp(endpoint, link->endpoint) == 0 ||
           connect_to(link->ctl, link->socket, endpoint) == 0;
}

enum posectl_exit posectl_subscribe(struct posectl_subscription **out, const struct posectl *ctl,
                                    const char *const *topics, size_t n_topics)
{
    struct posectl_subscription *s = calloc(1, sizeof *s);
    *out = s;
    if (!s) {
        posectl_complain("out of memory");
        return POSECTL_FAILED;
    }
    zmq_msg_init(&s->message);
    enum posectl_exit result = open_link(&s->link, ctl, ZMQ_SUB, ADDRESS_PUB);
    if (result) {
        posectl_unsubscribe(out);
        return result;
    }
    if (!connect_images(&s->link, topics, n_topics)) {
        explain_silence(&s->link);
        posectl_unsubscribe(out);
        return POSECTL_NO_ANSWER;
    }
    for (size_t i = 0; i < n_topics; i++) {
        char topic[2 * POSECTL_TOPIC_BYTES];
        bool has_name = ctl->camera[0] && watch_lines_is_of_camera(topics[i]);
        int n = snprintf(topic, sizeof topic, "%s%s%s", topics[i], has_name ? "/" : "",
                         has_name ? ctl->camera : "");
        zmq_setsockopt(s->link.socket, ZMQ_SUBSCRIBE, topic, (size_t)n);
    }
    return POSECTL_OK;
}

void posectl_unsubscribe(struct posectl_subscription **subscription)
{
    struct posectl_subscription *s = *subscription;
    if (!s)
        return;
    zmq_msg_close(&s->message);
    close_link(&s->link);
    free(s);
    *subscription = NULL;
}

bool posectl_is_refused(const struct posectl_subscription *subscription)
{
    return subscription->link.connection.state == CONNECTION_REFUSED;
}

bool posectl_receive(struct posectl_subscription *subscription, char out_topic[POSECTL_TOPIC_BYTES],
                     const uint8_t **out_bytes, size_t *out_n)
{
    struct posectl_subscription *s = subscription;
    const int64_t start_ns = clock_monotonic_ns(), wait_ms = (int64_t)s->link.ctl->timeout_ms;
    bool is_there = false;
    memset(out_topic, 0, POSECTL_TOPIC_BYTES);
    // A daemon that has spoken may come back; one that no longer knows the key stays so.
    while (!is_there && !posectl_is_refused(s) &&
           (s->any || !connection_is_over(&s->link.connection))) {
        const int64_t left_ms = wait_ms + ANSWER_MS - (clock_monotonic_ns() - start_ns) / 1000000;
        if (left_ms <= 0)
            return false;
        is_there = connection_wait(&s->link.connection,
                                   left_ms < PROGRESS_EVERY_MS ? left_ms : PROGRESS_EVERY_MS);
    }
    if (!is_there || zmq_recv(s->link.socket, out_topic, POSECTL_TOPIC_BYTES - 1, 0) < 0 ||
        zmq_msg_recv(&s->message, s->link.socket, 0) < 0)
        return false;
    s->any = true;
    *out_bytes = zmq_msg_data(&s->message);
    *out_n = zmq_msg_size(&s->message);
    return true;
}

const char *posectl_subscribed_to(const struct posectl_subscription *subscription)
{
    return subscription->link.endpoint;
}

bool posectl_is_connected(const struct posectl_subscription *subscription)
{
    return subscription->link.connection.state == CONNECTION_READY;
}

void posectl_explain_silence(const struct posectl_subscription *subscription)
{
    explain_silence(&subscription->link);
}

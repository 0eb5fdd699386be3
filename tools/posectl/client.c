// SPDX-License-Identifier: Apache-2.0
// posectl's way to the daemon: where it is, the sockets, one request and its answer, a
// subscription; and why nothing came, as far as can be told from here.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zmq.h>

#include "proto/clock.h"
#include "proto/wire.h"
#include "tools/client/address.h"
#include "tools/posectl/posectl.h"
#include "tools/posectl/progress.h"
#include "tools/posectl/watch_lines.h"

#define ENDPOINT_MAX ADDRESS_MAX
#define KEY_BYTES    (POSECTL_KEY_CHARS + 1)

#define QUEUE_IMG 4 // images that may wait while nobody reads what is printed; 1 to 7 MB each

#define PROGRESS_AFTER_MS 500 // a quick answer needs none
#define PROGRESS_EVERY_MS 200

// Why nothing came from there, as far as a plain connection can tell.
static void explain_silence(const char *endpoint, const char *name)
{
    int error = address_probe(endpoint);
    if (error == 0)
        posectl_complain(
            "something listens at %s but does not answer: a posed busy with an object, a map, "
            "a search or a registration (--timeout waits longer; what was asked may be done all "
            "the same), or not the `%s` "
            "socket of a posed (defaults: pub tcp://127.0.0.1:5570, req "
            "tcp://127.0.0.1:5573; a daemon with CURVE needs --server-key)",
            endpoint, name);
    else if (error == ECONNREFUSED || error == ENOENT)
        posectl_complain("no posed at %s: %s. Start one (posed --source synth:room --loop), or say "
                         "with --host or POSED_HOST where it is",
                         endpoint, strerror(error));
    else if (error == EACCES)
        posectl_complain("%s: %s. Its group may connect: see endpoints.group in posed.conf",
                         endpoint, strerror(error));
    else if (error > 0)
        posectl_complain("%s: %s", endpoint, strerror(error));
    else
        posectl_complain("%s is no address that can be reached: tcp://HOST:PORT, ipc://PATH, a run "
                         "directory or a host is wanted",
                         endpoint);
}

// CURVE keys on a client socket: a key pair of its own unless --key-file gives one.
static bool set_keys(const struct posectl *ctl, void *socket)
{
    char public_key[KEY_BYTES], secret_key[KEY_BYTES] = "";
    if (!ctl->server_key)
        return true;
    if (ctl->key_file) {
        FILE *file = fopen(ctl->key_file, "re");
        bool read = file && fscanf(file, "%40s", secret_key) == 1;
        if (file)
            fclose(file);
        if (!read || zmq_curve_public(public_key, secret_key) != 0) {
            posectl_complain("%s: %s", ctl->key_file,
                             file ? "holds no CURVE secret key" : strerror(errno));
            return false;
        }
    } else if (zmq_curve_keypair(public_key, secret_key) != 0) {
        posectl_complain("CURVE: %s", zmq_strerror(zmq_errno()));
        return false;
    }
    return zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, ctl->server_key, KEY_BYTES) == 0 &&
           zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, public_key, KEY_BYTES) == 0 &&
           zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, secret_key, KEY_BYTES) == 0;
}

static void *open_socket(const struct posectl *ctl, void *context, int type, const char *endpoint)
{
    // A little longer than the deadline that goes with a request, so that its answer arrives.
    const int linger_ms = 0, timeout_ms = (int)ctl->timeout_ms + 300;
    void *socket = zmq_socket(context, type);
    if (!socket)
        return NULL;
    zmq_setsockopt(socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
    if (set_keys(ctl, socket)) {
        if (zmq_connect(socket, endpoint) == 0)
            return socket;
        explain_silence(endpoint, type == ZMQ_SUB ? "pub" : "req");
    }
    zmq_close(socket);
    return NULL;
}

// What the daemon says of how far it is with a request of posectl's; NULL where nobody looks.
static void *open_events(const struct posectl *ctl, void *context, const char *endpoint)
{
    const int linger_ms = 0;
    char pub[ENDPOINT_MAX];
    address_find(ctl->endpoint, ADDRESS_PUB, pub);
    if (!progress_is_shown() || strcmp(pub, endpoint) == 0)
        return NULL;
    void *events = zmq_socket(context, ZMQ_SUB);
    if (events && (zmq_setsockopt(events, ZMQ_LINGER, &linger_ms, sizeof linger_ms) != 0 ||
                   !set_keys(ctl, events) || zmq_connect(events, pub) != 0 ||
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

// Until the answer is there or the time is over.
static void show_progress(const struct posectl *ctl, void *socket, void *events)
{
    int left_ms = (int)ctl->timeout_ms;
    zmq_pollitem_t item = {.socket = socket, .events = ZMQ_POLLIN};
    if (!progress_is_shown() || zmq_poll(&item, 1, PROGRESS_AFTER_MS) != 0)
        return;
    for (left_ms -= PROGRESS_AFTER_MS; left_ms > 0; left_ms -= PROGRESS_EVERY_MS) {
        show_event(events);
        if (zmq_poll(&item, 1, PROGRESS_EVERY_MS) != 0)
            break;
    }
    progress_end();
}

uint64_t posectl_request_id(void)
{
    static uint64_t id;
    if (!id)
        id = ((uint64_t)getpid() << 32 | (uint32_t)clock_monotonic_ns()) | 1;
    return id;
}

// out_bytes may be NULL.
static enum posectl_exit exchange(const struct posectl *ctl, void *context, void *socket,
                                  const char *endpoint, const uint8_t *request, size_t n_bytes,
                                  posed_Reply *out, uint8_t **out_bytes, size_t *out_n)
{
    void *events = open_events(ctl, context, endpoint);
    const bool sent = zmq_send(socket, request, n_bytes, 0) >= 0;
    if (sent)
        show_progress(ctl, socket, events);
    if (events)
        zmq_close(events);
    if (!sent) {
        posectl_complain("the request could not be sent");
        return POSECTL_FAILED;
    }
    zmq_msg_t message;
    zmq_msg_init(&message);
    if (zmq_msg_recv(&message, socket, 0) < 0) {
        explain_silence(endpoint, "req");
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
        posectl_complain("the answer of %s is not one of posed", endpoint);
        return POSECTL_FAILED;
    }
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
    char endpoint[ENDPOINT_MAX];
    enum posectl_exit result = POSECTL_NO_ANSWER;
    uint8_t *named = NULL;
    if (ctl->camera[0]) {
        request = named = name_camera(ctl, request, n_bytes, &n_bytes);
        if (!named) {
            posectl_complain("out of memory");
            return POSECTL_FAILED;
        }
    }
    address_find(ctl->endpoint, ADDRESS_REQ, endpoint);
    void *context = zmq_ctx_new();
    void *socket = context ? open_socket(ctl, context, ZMQ_DEALER, endpoint) : NULL;
    if (socket) {
        result = exchange(ctl, context, socket, endpoint, request, n_bytes, out, out_bytes, out_n);
        zmq_close(socket);
    }
    if (context)
        zmq_ctx_term(context);
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
    char endpoint[ENDPOINT_MAX];
    void *context, *socket;
    zmq_msg_t message;
};

// The same socket also hears `img` when a topic is there; a socket's own address is all there is.
static bool connect_images(struct posectl_subscription *s, const struct posectl *ctl,
                           const char *const *topics, size_t n_topics)
{
    const int queue = QUEUE_IMG; // of the connections to come
    char endpoint[ENDPOINT_MAX];
    bool wanted = false;
    for (size_t i = 0; i < n_topics; i++)
        wanted = wanted || watch_lines_is_image(topics[i]);
    address_find(ctl->endpoint, ADDRESS_IMG, endpoint);
    zmq_setsockopt(s->socket, ZMQ_RCVHWM, &queue, sizeof queue);
    if (!wanted || strcmp(endpoint, s->endpoint) == 0 || zmq_connect(s->socket, endpoint) == 0)
        return true;
    explain_silence(endpoint, "img");
    return false;
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
    address_find(ctl->endpoint, ADDRESS_PUB, s->endpoint);
    s->context = zmq_ctx_new();
    s->socket = s->context ? open_socket(ctl, s->context, ZMQ_SUB, s->endpoint) : NULL;
    if (!s->socket) {
        posectl_unsubscribe(out);
        return POSECTL_NO_ANSWER;
    }
    if (!connect_images(s, ctl, topics, n_topics)) {
        posectl_unsubscribe(out);
        return POSECTL_NO_ANSWER;
    }
    for (size_t i = 0; i < n_topics; i++) {
        char topic[2 * POSECTL_TOPIC_BYTES];
        bool has_name = ctl->camera[0] && watch_lines_is_of_camera(topics[i]);
        int n = snprintf(topic, sizeof topic, "%s%s%s", topics[i], has_name ? "/" : "",
                         has_name ? ctl->camera : "");
        zmq_setsockopt(s->socket, ZMQ_SUBSCRIBE, topic, (size_t)n);
    }
    return POSECTL_OK;
}

void posectl_unsubscribe(struct posectl_subscription **subscription)
{
    struct posectl_subscription *s = *subscription;
    if (!s)
        return;
    zmq_msg_close(&s->message);
    if (s->socket)
        zmq_close(s->socket);
    if (s->context)
        zmq_ctx_term(s->context);
    free(s);
    *subscription = NULL;
}

bool posectl_receive(struct posectl_subscription *subscription, char out_topic[POSECTL_TOPIC_BYTES],
                     const uint8_t **out_bytes, size_t *out_n)
{
    struct posectl_subscription *s = subscription;
    memset(out_topic, 0, POSECTL_TOPIC_BYTES);
    if (zmq_recv(s->socket, out_topic, POSECTL_TOPIC_BYTES - 1, 0) < 0 ||
        zmq_msg_recv(&s->message, s->socket, 0) < 0)
        return false;
    *out_bytes = zmq_msg_data(&s->message);
    *out_n = zmq_msg_size(&s->message);
    return true;
}

const char *posectl_subscribed_to(const struct posectl_subscription *subscription)
{
    return subscription->endpoint;
}

void posectl_explain_silence(const struct posectl_subscription *subscription)
{
    explain_silence(subscription->endpoint, "pub");
}

// SPDX-License-Identifier: Apache-2.0
#include "daemon/request_socket.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/queued_requests.h"
#include "daemon/zmtp/server.h"
#include "proto/clock.h"
#include "proto/wire_misfit.h"

#define MAX_REPLIES 64                 // that wait for a client
#define MAX_INSIDE  8                  // requests of the client inside that wait to be taken
#define INSIDE      0                  // its peer id; peers have others
#define LINGER_NS   INT64_C(100000000) // for the last answers

// Who asked, and how the answer must be wrapped (a REQ socket puts an empty part in front).
struct address {
    uint64_t peer;
    bool has_delimiter;
};

// A request that is not answered at once.
struct request_memory {
    struct queued_request job; // the first member: a job is its memory
    struct address address;
    struct zmtp_body *body; // framed; the points of a Register stay in it
};

struct requests {
    struct zmtp_server *server;
    struct handlers cameras[CONFIG_MAX_CAMERAS];
    struct handlers_common common;
    struct queued_requests *queued;
    _Atomic bool stop; // the jobs have ended: the socket thread, too
    pthread_t socket_thread;
    bool has_socket_thread;

    pthread_mutex_t inside_mutex;
    struct zmtp_body *inside[MAX_INSIDE];
    size_t n_inside;
    void (*answered)(void *user, const uint8_t *reply, size_t n_bytes);
    void *answered_user;

    // The socket thread's.
    posed_Reply reply;
    uint8_t reply_bytes[WIRE_REPLY_MAX_BYTES];
};

static void wake(void *user)
{
    const struct requests *requests = user;
    zmtp_server_wake(requests->server);
}

// Takes the message over; NULL: there was no memory for it.
static void send_message(struct requests *requests, const struct address *address,
                         struct zmtp_message *message)
{
    if (!message)
        log_to(&requests->cameras[0].log, LOG_LEVEL_WARNING, "req: a reply is lost: %s",
               strerror(ENOMEM));
    if (address->peer == INSIDE) {
        pthread_mutex_lock(&requests->inside_mutex);
        if (message && requests->answered)
            requests->answered(requests->answered_user, message->body, message->n_body);
        pthread_mutex_unlock(&requests->inside_mutex);
    } else {
        struct zmtp_peer *peer = zmtp_server_find(requests->server, address->peer);
        if (message && peer)
            zmtp_peer_send(peer, message);
    }
    zmtp_message_drop(message);
    shared_count(requests->cameras[0].shared, SHARED_REQUESTS);
}

static void send_reply(struct requests *requests, const struct address *address,
                       const uint8_t *bytes, size_t n_bytes)
{
    uint8_t *body;
    struct zmtp_message *message =
        zmtp_message_create(address->has_delimiter, NULL, 0, n_bytes, &body);
    if (message)
        memcpy(body, bytes, n_bytes);
    send_message(requests, address, message);
}

static void destroy_request(struct request_memory *memory)
{
    struct queued_request *job = &memory->job;
    if (job->is_large)
        client_remove_unread(job->client, job->n_answer);
    client_leave(job->client);
    free(job->answer);
    free(memory);
}

// It has been sent, or its client has gone.
static void on_sent(void *memory)
{
    destroy_request(memory);
}

// Hands the answer over, without a copy; the memory stays until it has been sent.
static void send_large(struct requests *requests, struct request_memory *memory)
{
    const struct queued_request *job = &memory->job;
    const struct address address = memory->address;
    struct zmtp_message *message = zmtp_message_wrap(address.has_delimiter, NULL, 0, job->answer,
                                                     job->n_answer, on_sent, memory);
    if (!message)
        destroy_request(memory);
    send_message(requests, &address, message);
}

static void send_own_reply(struct requests *requests, const struct address *address)
{
    int n =
        wire_encode_reply(&requests->reply, requests->reply_bytes, sizeof requests->reply_bytes);
    if (n > 0)
        send_reply(requests, address, requests->reply_bytes, (size_t)n);
}

// Takes the body over, unless the returned errno is not 0.
static int submit(struct requests *requests, enum handlers_queue queue, struct zmtp_peer *peer,
                  const struct address *address, const posed_Request *request, int64_t deadline_ns,
                  struct zmtp_body *body)
{
    struct request_memory *memory = calloc(1, sizeof *memory);
    if (!memory)
        return -ENOMEM;
    memory->address = *address;
    memory->body = body;
    struct queued_request *job = &memory->job;
    job->id = request->id;
    job->deadline_ns = deadline_ns;
    job->bytes = body->bytes;
    job->n_bytes = body->n_bytes;
    snprintf(job->owner, sizeof job->owner, "%s", peer ? zmtp_peer_owner(peer) : "page");
    job->client = client_enter(&address->peer, sizeof address->peer);
    handlers_accept(requests->cameras, request, &job->turn);
    int error = job->client ? queued_requests_submit(requests->queued, queue, job) : -ENOMEM;
    if (!error)
        return 0;
    map_turn_leave(&job->turn);
    if (job->client)
        client_leave(job->client);
    free(memory);
    return error;
}

static void fail_submit(struct requests *requests, int error)
{
    posed_Reply *reply = &requests->reply;
    if (error == -ESHUTDOWN) {
        handlers_fail(reply, posed_Code_UNAVAILABLE, NULL, HANDLERS_ENDING);
        return;
    }
    shared_count(requests->cameras[0].shared, SHARED_REJECTED_REQUESTS);
    handlers_fail(reply, posed_Code_RESOURCE_EXHAUSTED, NULL, "%s",
                  error == -ENOMEM ? "out of memory"
                                   : "as many requests as may wait are waiting already");
}

static void cancel(struct requests *requests, const struct address *address, uint64_t id)
{
    posed_Reply *reply = &requests->reply;
    struct client *client = client_enter(&address->peer, sizeof address->peer);
    bool found = client && queued_requests_cancel(requests->queued, client, id);
    if (client)
        client_leave(client);
    reply->which_what = posed_Reply_cancel_tag;
    if (!found)
        handlers_fail(reply, posed_Code_NOT_FOUND, "cancel.id",
                      "no request %llu of this client waits or runs", (unsigned long long)id);
}

// Says what is wrong with a frame that wire_decode_request refused.
static void fail_decode(posed_Reply *reply, int error, uint32_t kind, const struct zmtp_body *body)
{
    char field[sizeof reply->field];
    struct wire_misfit misfit;
    switch (error) {
    case -EPROTONOSUPPORT:
        handlers_fail(reply, posed_Code_UNIMPLEMENTED, NULL,
                      "this daemon speaks version %d of the protocol", WIRE_VERSION);
        return;
    case -EMSGSIZE:
        handlers_fail(reply, posed_Code_RESOURCE_EXHAUSTED, NULL,
                      "a request of this kind has at most %d bytes", WIRE_REQUEST_MAX_BYTES);
        return;
    case -ENOSYS:
        handlers_fail(reply, posed_Code_UNIMPLEMENTED, NULL,
                      "this daemon does not know request kind %u", kind);
        return;
    case -EILSEQ:
        handlers_text_field(kind, field, sizeof field);
        handlers_fail(reply, posed_Code_INVALID_ARGUMENT, field, "a text of it holds a zero byte");
        return;
    case -EINVAL:
        handlers_fail(reply, posed_Code_INVALID_ARGUMENT, "what", "the request has no kind");
        return;
    default:
        if (!wire_find_misfit(body->bytes, body->n_bytes, &misfit)) {
            handlers_fail(reply, posed_Code_INVALID_ARGUMENT, NULL,
                          "not a Request in protobuf encoding");
            return;
        }
        snprintf(field, sizeof field, "%s%s%s", handlers_kind_name(misfit.kind),
                 misfit.kind ? "." : "", misfit.field);
        handlers_fail(reply, posed_Code_INVALID_ARGUMENT, field,
                      misfit.is_list ? "has more than %zu entries" : "is longer than %zu bytes",
                      misfit.limit);
    }
}

static void on_request(void *user, struct zmtp_peer *peer, struct zmtp_body *body,
                       bool has_delimiter)
{
    struct requests *requests = user;
    struct shared *shared = requests->cameras[0].shared;
    posed_Reply *reply = &requests->reply;
    const struct address address = {peer ? zmtp_peer_id(peer) : INSIDE, has_delimiter};
    posed_Request request;
    uint32_t kind;
    if (!body) {
        shared_count(shared, SHARED_BAD_REQUESTS);
        return;
    }
    int error = wire_decode_request(body->bytes, body->n_bytes, &request, &kind);
    if (error == -EPROTO) {
        shared_count(shared, SHARED_BAD_REQUESTS);
        zmtp_body_free(body);
        return;
    }
    memset(reply, 0, sizeof *reply);
    reply->id = request.id;
    const uint32_t max_ms = requests->cameras[0].config->requests.max_deadline_ms;
    uint32_t deadline_ms =
        request.deadline_ms ? request.deadline_ms : settings_deadline_ms(requests->common.settings);
    deadline_ms = deadline_ms < max_ms ? deadline_ms : max_ms;
    int64_t deadline_ns = clock_monotonic_ns() + (int64_t)deadline_ms * 1000000;
    enum handlers_queue queue =
        error ? HANDLERS_NOW : handlers_queue(requests->cameras, request.which_what);
    if (error) {
        fail_decode(reply, error, kind, body);
    } else if (request.which_what == posed_Request_cancel_tag) {
        cancel(requests, &address, request.what.cancel.id);
    } else if (queue == HANDLERS_NOW) {
        const struct handlers_call call = {&request,
                                           body->bytes + WIRE_MAGIC_BYTES,
                                           body->n_bytes - WIRE_MAGIC_BYTES,
                                           deadline_ns,
                                           NULL,
                                           NULL,
                                           reply,
                                           NULL};
        handlers_run(requests->cameras, &call);
    } else {
        error = submit(requests, queue, peer, &address, &request, deadline_ns, body);
        if (!error)
            return;
        fail_submit(requests, error);
    }
    zmtp_body_free(body);
    send_own_reply(requests, &address);
}

// What a client that has gone had under way nobody would read.
static void on_leave(void *user, struct zmtp_peer *peer)
{
    struct requests *requests = user;
    uint64_t id = zmtp_peer_id(peer);
    struct client *client = requests->queued ? client_enter(&id, sizeof id) : NULL;
    if (!client)
        return;
    queued_requests_cancel_all(requests->queued, client);
    client_leave(client);
}

static void send_answers(struct requests *requests)
{
    for (struct queued_request *job; (job = queued_requests_take_done(requests->queued));) {
        struct request_memory *memory = (struct request_memory *)job;
        zmtp_body_free(memory->body);
        if (job->is_large) {
            send_large(requests, memory);
            continue;
        }
        if (job->answer)
            send_reply(requests, &memory->address, job->answer, job->n_answer);
        else
            send_message(requests, &memory->address, NULL);
        destroy_request(memory);
    }
}

static void take_inside(struct requests *requests)
{
    struct zmtp_body *bodies[MAX_INSIDE];
    pthread_mutex_lock(&requests->inside_mutex);
    size_t n = requests->n_inside;
    memcpy(bodies, requests->inside, n * sizeof *bodies);
    requests->n_inside = 0;
    pthread_mutex_unlock(&requests->inside_mutex);
    for (size_t i = 0; i < n; i++)
        on_request(requests, NULL, bodies[i], false);
}

void requests_listen(struct requests *requests,
                     void (*answered)(void *user, const uint8_t *reply, size_t n_bytes), void *user)
{
    pthread_mutex_lock(&requests->inside_mutex);
    requests->answered = answered;
    requests->answered_user = user;
    pthread_mutex_unlock(&requests->inside_mutex);
}

int requests_ask(struct requests *requests, const uint8_t *request, size_t n_bytes)
{
    struct zmtp_body *body = malloc(sizeof *body + n_bytes);
    if (!body)
        return -ENOMEM;
    *body = (struct zmtp_body){.n_bytes = n_bytes, .bytes = body->memory};
    memcpy(body->memory, request, n_bytes);
    pthread_mutex_lock(&requests->inside_mutex);
    bool fits = requests->n_inside < MAX_INSIDE;
    if (fits)
        requests->inside[requests->n_inside++] = body;
    pthread_mutex_unlock(&requests->inside_mutex);
    if (!fits)
        zmtp_body_free(body);
    else
        wake(requests);
    return fits ? 0 : -EAGAIN;
}

static void *run_socket(void *user)
{
    struct requests *requests = user;
    pthread_setname_np(pthread_self(), "posed-requests");
    while (!requests->stop) {
        zmtp_server_run(requests->server, -1);
        take_inside(requests);
        send_answers(requests);
    }
    zmtp_server_run(requests->server, 0); // what came meanwhile
    send_answers(requests);               // what the workers said last
    int64_t end_ns = clock_monotonic_ns() + LINGER_NS;
    while (zmtp_server_n_unsent(requests->server) > 0 && clock_monotonic_ns() < end_ns)
        zmtp_server_run(requests->server, 2);
    return NULL;
}

int requests_create(struct requests **out, struct endpoint *endpoint,
                    const struct handlers *cameras, uint32_t n_cameras, struct settings *settings)
{
    const struct config *config = cameras[0].config;
    *out = NULL;
    struct requests *requests = calloc(1, sizeof *requests);
    if (!requests)
        return -ENOMEM;
    memcpy(requests->cameras, cameras, n_cameras * sizeof *cameras);
    requests->common.settings = settings;
    pthread_mutex_init(&requests->inside_mutex, NULL);
    handlers_open(&requests->common, requests->cameras, n_cameras);
    struct zmtp_server_settings server = endpoint_server_settings(endpoint);
    server.max_upload_bytes = config->requests.upload_max_bytes;
    server.request = on_request;
    server.leave = on_leave;
    server.user = requests;
    int error = zmtp_server_create(&requests->server, &server);
    if (!error) {
        // Whoever sends more than this is hung up on. A request that is too long for its kind, but
        // not for this, gets an answer that says so.
        int socket = zmtp_server_add(requests->server, "req", ZMTP_ROUTER, "ROUTER",
                                     config->requests.upload_max_bytes, MAX_REPLIES);
        error = endpoint_bind(endpoint, requests->server, socket, "req", config->endpoints.req);
    }
    if (!error)
        error = queued_requests_create(&requests->queued, requests->cameras, wake, requests);
    if (!error) {
        // From here on the server belongs to its thread.
        error = -pthread_create(&requests->socket_thread, NULL, run_socket, requests);
        requests->has_socket_thread = error == 0;
    }
    if (error) {
        requests_destroy(&requests);
        return error;
    }
    *out = requests;
    return 0;
}

void requests_destroy(struct requests **requests)
{
    struct requests *r = *requests;
    if (!r)
        return;
    // The socket thread goes on until the jobs have said their last.
    if (r->queued)
        queued_requests_end(r->queued);
    r->stop = true;
    if (r->has_socket_thread) {
        wake(r);
        pthread_join(r->socket_thread, NULL);
    }
    zmtp_server_destroy(&r->server); // gives back what was not sent
    queued_requests_destroy(&r->queued);
    handlers_close(&r->common);
    for (size_t i = 0; i < r->n_inside; i++)
        zmtp_body_free(r->inside[i]);
    pthread_mutex_destroy(&r->inside_mutex);
    free(r);
    *requests = NULL;
}

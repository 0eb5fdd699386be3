// SPDX-License-Identifier: Apache-2.0
#include "daemon/requests.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <zmq.h>

#include "daemon/clock.h"
#include "daemon/jobs.h"

#define IDENTITY_MAX_BYTES 256
#define ROUND_MAX_REQUESTS 64

// Who asked, and how the answer must be wrapped (a REQ socket puts an empty part in front).
struct address {
    uint8_t identity[IDENTITY_MAX_BYTES];
    size_t n_identity;
    bool has_delimiter;
};

// A request that is not answered at once.
struct parcel {
    struct job job; // the first member: a job is its parcel
    struct address address;
    zmq_msg_t message; // framed; the points of a Register stay in it
};

struct requests {
    void *socket;
    int wake_fd; // worker or stop -> socket thread
    struct handlers handlers;
    struct jobs *jobs;
    _Atomic bool stop; // the jobs have ended: the socket thread, too
    pthread_t socket_thread;
    bool has_socket_thread;

    // The socket thread's.
    posed_Reply reply;
    uint8_t reply_bytes[WIRE_REPLY_MAX_BYTES];
};

static void wake(void *user)
{
    const struct requests *requests = user;
    const uint64_t one = 1;
    ssize_t n = write(requests->wake_fd, &one, sizeof one);
    (void)n; // a full counter wakes as well
}

static void send_reply(struct requests *requests, const struct address *address,
                       const uint8_t *bytes, size_t n_bytes)
{
    zmq_send(requests->socket, address->identity, address->n_identity, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    if (address->has_delimiter)
        zmq_send(requests->socket, "", 0, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    zmq_send(requests->socket, bytes, n_bytes, ZMQ_DONTWAIT);
    board_count(requests->handlers.board, BOARD_REQUESTS);
}

static void destroy_parcel(struct parcel *parcel)
{
    struct job *job = &parcel->job;
    if (job->is_large)
        client_remove_unread(job->client, job->n_answer);
    client_leave(job->client);
    free(job->answer);
    free(parcel);
}

// libzmq has sent it, or its client has gone.
static void on_sent(void *bytes, void *parcel)
{
    (void)bytes;
    destroy_parcel(parcel);
}

// Hands the answer over, without a copy; the parcel stays until it has been sent.
static void send_large(struct requests *requests, struct parcel *parcel)
{
    const struct job *job = &parcel->job;
    const struct address *address = &parcel->address;
    zmq_msg_t message;
    if (zmq_msg_init_data(&message, job->answer, job->n_answer, on_sent, parcel) != 0) {
        destroy_parcel(parcel);
        return;
    }
    zmq_send(requests->socket, address->identity, address->n_identity, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    if (address->has_delimiter)
        zmq_send(requests->socket, "", 0, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    if (zmq_msg_send(&message, requests->socket, ZMQ_DONTWAIT) < 0)
        zmq_msg_close(&message);
    board_count(requests->handlers.board, BOARD_REQUESTS);
}

static void send_own_reply(struct requests *requests, const struct address *address)
{
    int n =
        wire_encode_reply(&requests->reply, requests->reply_bytes, sizeof requests->reply_bytes);
    if (n > 0)
        send_reply(requests, address, requests->reply_bytes, (size_t)n);
}

// Takes the message over (it is empty afterwards), unless the returned errno is not 0.
static int submit(struct requests *requests, enum handlers_lane lane, const struct address *address,
                  const posed_Request *request, int64_t deadline_ns, zmq_msg_t *message)
{
    struct parcel *parcel = calloc(1, sizeof *parcel);
    if (!parcel)
        return -ENOMEM;
    parcel->address = *address;
    zmq_msg_init(&parcel->message);
    zmq_msg_move(&parcel->message, message);
    struct job *job = &parcel->job;
    job->id = request->id;
    job->deadline_ns = deadline_ns;
    job->bytes = zmq_msg_data(&parcel->message);
    job->n_bytes = zmq_msg_size(&parcel->message);
    job->client = client_enter(address->identity, address->n_identity);
    int error = job->client ? jobs_submit(requests->jobs, lane, job) : -ENOMEM;
    if (!error)
        return 0;
    zmq_msg_close(&parcel->message);
    if (job->client)
        client_leave(job->client);
    free(parcel);
    return error;
}

static void fail_submit(struct requests *requests, int error)
{
    posed_Reply *reply = &requests->reply;
    if (error == -ESHUTDOWN) {
        handlers_fail(reply, posed_Code_UNAVAILABLE, NULL, HANDLERS_ENDING);
        return;
    }
    board_count(requests->handlers.board, BOARD_REJECTED_REQUESTS);
    handlers_fail(reply, posed_Code_RESOURCE_EXHAUSTED, NULL, "%s",
                  error == -ENOMEM ? "out of memory"
                                   : "as many requests as may wait are waiting already");
}

static void cancel(struct requests *requests, const struct address *address, uint64_t id)
{
    posed_Reply *reply = &requests->reply;
    struct client *client = client_enter(address->identity, address->n_identity);
    bool found = client && jobs_cancel(requests->jobs, client, id);
    if (client)
        client_leave(client);
    reply->which_what = posed_Reply_cancel_tag;
    if (!found)
        handlers_fail(reply, posed_Code_NOT_FOUND, "cancel.id",
                      "no request %llu of this client waits or runs", (unsigned long long)id);
}

// Says what is wrong with a frame that wire_decode_request refused.
static void fail_decode(posed_Reply *reply, int error, uint32_t kind)
{
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
    case -EINVAL:
        handlers_fail(reply, posed_Code_INVALID_ARGUMENT, "what", "the request has no kind");
        return;
    default:
        handlers_fail(reply, posed_Code_INVALID_ARGUMENT, NULL,
                      "not a Request in protobuf encoding");
    }
}

static void on_request(struct requests *requests, const struct address *address, zmq_msg_t *message)
{
    posed_Reply *reply = &requests->reply;
    const uint8_t *bytes = zmq_msg_data(message);
    size_t n_bytes = zmq_msg_size(message);
    posed_Request request;
    uint32_t kind;
    int error = wire_decode_request(bytes, n_bytes, &request, &kind);
    if (error == -EPROTO) {
        board_count(requests->handlers.board, BOARD_BAD_REQUESTS);
        return;
    }
    memset(reply, 0, sizeof *reply);
    reply->id = request.id;
    uint32_t deadline_ms = request.deadline_ms ? request.deadline_ms
                                               : settings_deadline_ms(requests->handlers.settings);
    int64_t deadline_ns = clock_monotonic_ns() + (int64_t)deadline_ms * 1000000;
    enum handlers_lane lane =
        error ? HANDLERS_NOW : handlers_lane(&requests->handlers, request.which_what);
    if (error) {
        fail_decode(reply, error, kind);
    } else if (request.which_what == posed_Request_cancel_tag) {
        cancel(requests, address, request.what.cancel.id);
    } else if (lane == HANDLERS_NOW) {
        const struct handlers_call call = {&request,
                                           bytes + WIRE_MAGIC_BYTES,
                                           n_bytes - WIRE_MAGIC_BYTES,
                                           deadline_ns,
                                           NULL,
                                           reply,
                                           NULL};
        handlers_run(&requests->handlers, &call);
    } else {
        error = submit(requests, lane, address, &request, deadline_ns, message);
        if (!error)
            return;
        fail_submit(requests, error);
    }
    send_own_reply(requests, address);
}

// Reads one whole message of the ROUTER: identity, perhaps an empty part, the request. Anything
// else is counted as bad. Returns false when none is waiting.
static bool read_message(struct requests *requests)
{
    struct address address = {.n_identity = 0};
    zmq_msg_t part;
    int n_parts = 0, more = 1;
    bool bad = false, done = false;
    while (more) {
        zmq_msg_init(&part);
        if (zmq_msg_recv(&part, requests->socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&part);
            return false;
        }
        size_t n = zmq_msg_size(&part);
        more = zmq_msg_more(&part);
        if (n_parts == 0) {
            bad = n > sizeof address.identity || !more;
            address.n_identity = bad ? 0 : n;
            memcpy(address.identity, zmq_msg_data(&part), address.n_identity);
        } else if (n_parts == 1 && n == 0 && more) {
            address.has_delimiter = true;
        } else if (!bad && !done && !more) {
            on_request(requests, &address, &part);
            done = true;
        } else {
            bad = true;
        }
        n_parts += n_parts < 3;
        zmq_msg_close(&part);
    }
    if (bad && !done)
        board_count(requests->handlers.board, BOARD_BAD_REQUESTS);
    return true;
}

static void send_answers(struct requests *requests)
{
    for (struct job *job; (job = jobs_take_done(requests->jobs));) {
        struct parcel *parcel = (struct parcel *)job;
        zmq_msg_close(&parcel->message);
        if (job->is_large) {
            send_large(requests, parcel);
            continue;
        }
        if (job->answer)
            send_reply(requests, &parcel->address, job->answer, job->n_answer);
        destroy_parcel(parcel);
    }
}

static void do_round(struct requests *requests)
{
    send_answers(requests);
    for (int i = 0; i < ROUND_MAX_REQUESTS && read_message(requests); i++)
        ;
}

static void *run_socket(void *user)
{
    struct requests *requests = user;
    zmq_pollitem_t items[2] = {{requests->socket, 0, ZMQ_POLLIN, 0},
                               {NULL, requests->wake_fd, ZMQ_POLLIN, 0}};
    while (!requests->stop) {
        if (zmq_poll(items, 2, -1) < 0 && zmq_errno() != EINTR)
            break;
        if (items[1].revents) {
            uint64_t count;
            ssize_t n = read(requests->wake_fd, &count, sizeof count);
            (void)n;
        }
        do_round(requests);
    }
    do_round(requests); // what the workers said last, and what came meanwhile
    return NULL;
}

static int open_socket(struct requests *requests, struct endpoint *endpoint,
                       const struct config *config)
{
    // libzmq closes the connection of a client that sends more than this. A request that is too
    // long for its kind, but not for this, gets an answer that says so.
    const int64_t max_bytes = config->requests.upload_max_bytes;
    const int hwm = 64;
    requests->socket = endpoint_socket(endpoint, ZMQ_ROUTER);
    if (!requests->socket)
        return -ENOMEM;
    zmq_setsockopt(requests->socket, ZMQ_MAXMSGSIZE, &max_bytes, sizeof max_bytes);
    zmq_setsockopt(requests->socket, ZMQ_RCVHWM, &hwm, sizeof hwm);
    zmq_setsockopt(requests->socket, ZMQ_SNDHWM, &hwm, sizeof hwm);
    return endpoint_bind(endpoint, requests->socket, "req", config->endpoints.req);
}

int requests_create(struct requests **out, struct endpoint *endpoint,
                    const struct handlers *handlers)
{
    const struct config *config = handlers->config;
    *out = NULL;
    struct requests *requests = calloc(1, sizeof *requests);
    if (!requests)
        return -ENOMEM;
    requests->handlers = *handlers;
    handlers_open(&requests->handlers);
    requests->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = requests->wake_fd < 0 ? -errno : 0;
    if (!error)
        error = open_socket(requests, endpoint, config);
    if (!error)
        error = jobs_create(&requests->jobs, &requests->handlers, wake, requests);
    if (!error) {
        // From here on the socket belongs to its thread.
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
    if (r->jobs)
        jobs_end(r->jobs);
    r->stop = true;
    if (r->has_socket_thread) {
        wake(r);
        pthread_join(r->socket_thread, NULL);
    }
    jobs_destroy(&r->jobs);
    handlers_close(&r->handlers);
    if (r->socket)
        zmq_close(r->socket);
    if (r->wake_fd >= 0)
        close(r->wake_fd);
    free(r);
    *requests = NULL;
}

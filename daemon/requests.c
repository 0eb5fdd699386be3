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
#include "daemon/worker.h"

#define IDENTITY_MAX_BYTES 256
#define ROUND_MAX_REQUESTS 64
#define COMPUTE_QUEUE      4 // requests that may carry megabytes and take seconds

// Large answers that libzmq holds for clients who do not read them. A client's queue is bounded in
// messages only, and there may be many clients.
#define UNREAD_MAX_BYTES ((size_t)64 << 20)

// Outlives the socket: libzmq gives memory back until its context has ended.
static _Atomic size_t unread_bytes;

// Who asked, and how the answer must be wrapped (a REQ socket puts an empty part in front).
struct address {
    uint8_t identity[IDENTITY_MAX_BYTES];
    size_t n_identity;
    bool has_delimiter;
};

// A request on its way through a worker. The socket thread owns it before and after; `stop` alone
// is touched by both.
struct job {
    struct requests *requests;
    enum handlers_lane lane;
    struct address address;
    uint64_t id;
    int64_t deadline_ns;
    struct register_stop stop;
    zmq_msg_t message; // framed; the points of a Register stay in it
    uint8_t *answer;   // NULL: no memory was left for it
    size_t n_answer;
    bool is_large;
    struct job *next, **link; // of all that are under way
    struct job *next_done;
};

struct requests {
    void *socket;
    int wake_fd; // worker or stop -> socket thread
    struct handlers handlers;
    _Atomic bool ending; // what waits is refused, what runs is cancelled, nothing new is taken
    _Atomic bool stop;   // the workers have ended: the socket thread, too
    pthread_t socket_thread;
    bool has_socket_thread;
    struct worker *workers[HANDLERS_N_LANES]; // none for HANDLERS_NOW
    posed_Reply *replies[HANDLERS_N_LANES];   // one for each thread that fills replies
    struct job *jobs;                         // under way; the socket thread's

    pthread_mutex_t mutex;
    struct job *done; // answered by a worker, not yet sent

    uint8_t reply_bytes[WIRE_REPLY_MAX_BYTES]; // the socket thread's
};

// libzmq has sent it, or its client has gone.
static void free_sent(void *bytes, void *n_bytes)
{
    atomic_fetch_sub(&unread_bytes, (size_t)(uintptr_t)n_bytes);
    free(bytes);
}

static void wake(struct requests *requests)
{
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

// Takes the answer over, without a copy.
static void send_large(struct requests *requests, struct job *job)
{
    const struct address *address = &job->address;
    zmq_msg_t message;
    if (zmq_msg_init_data(&message, job->answer, job->n_answer, free_sent,
                          (void *)(uintptr_t)job->n_answer) != 0)
        return;
    job->answer = NULL;
    zmq_send(requests->socket, address->identity, address->n_identity, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    if (address->has_delimiter)
        zmq_send(requests->socket, "", 0, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    if (zmq_msg_send(&message, requests->socket, ZMQ_DONTWAIT) < 0)
        zmq_msg_close(&message);
    board_count(requests->handlers.board, BOARD_REQUESTS);
}

static void send_own_reply(struct requests *requests, const struct address *address)
{
    int n = wire_encode_reply(requests->replies[HANDLERS_NOW], requests->reply_bytes,
                              sizeof requests->reply_bytes);
    if (n > 0)
        send_reply(requests, address, requests->reply_bytes, (size_t)n);
}

static void destroy_job(struct job *job)
{
    *job->link = job->next;
    if (job->next)
        job->next->link = job->link;
    zmq_msg_close(&job->message);
    if (job->answer && job->is_large)
        free_sent(job->answer, (void *)(uintptr_t)job->n_answer);
    else
        free(job->answer);
    free(job);
}

// Takes the message over (it is empty afterwards) when the lane has room.
static bool submit(struct requests *requests, enum handlers_lane lane,
                   const struct address *address, const posed_Request *request, int64_t deadline_ns,
                   zmq_msg_t *message)
{
    struct job *job = calloc(1, sizeof *job);
    if (!job)
        return false;
    job->requests = requests;
    job->lane = lane;
    job->address = *address;
    job->id = request->id;
    job->deadline_ns = job->stop.deadline_mono_ns = deadline_ns;
    zmq_msg_init(&job->message);
    zmq_msg_move(&job->message, message);
    job->next = requests->jobs;
    job->link = &requests->jobs;
    if (job->next)
        job->next->link = &job->next;
    requests->jobs = job;
    if (worker_submit(requests->workers[lane], job))
        return true;
    destroy_job(job);
    return false;
}

static void cancel_job(struct job *job)
{
    __atomic_store_n(&job->stop.requested, 1, __ATOMIC_RELEASE);
}

// Cancel is answered here: only this thread knows what is under way.
static void cancel(struct requests *requests, const struct address *address, uint64_t id)
{
    posed_Reply *reply = requests->replies[HANDLERS_NOW];
    bool found = false;
    for (struct job *job = requests->jobs; job; job = job->next)
        if (job->id == id && job->address.n_identity == address->n_identity &&
            memcmp(job->address.identity, address->identity, address->n_identity) == 0) {
            cancel_job(job);
            found = true;
        }
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

static void fail_ending(posed_Reply *reply)
{
    handlers_fail(reply, posed_Code_UNAVAILABLE, NULL, "the daemon is stopping");
}

static void on_request(struct requests *requests, const struct address *address, zmq_msg_t *message)
{
    posed_Reply *reply = requests->replies[HANDLERS_NOW];
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
    } else if (requests->ending) {
        fail_ending(reply);
    } else if (submit(requests, lane, address, &request, deadline_ns, message)) {
        return;
    } else {
        board_count(requests->handlers.board, BOARD_REJECTED_REQUESTS);
        handlers_fail(reply, posed_Code_RESOURCE_EXHAUSTED, NULL,
                      "as many requests as may wait are waiting already");
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
    pthread_mutex_lock(&requests->mutex);
    struct job *job = requests->done;
    requests->done = NULL;
    pthread_mutex_unlock(&requests->mutex);
    while (job) {
        struct job *next = job->next_done;
        if (job->answer && job->is_large)
            send_large(requests, job);
        else if (job->answer)
            send_reply(requests, &job->address, job->answer, job->n_answer);
        destroy_job(job);
        job = next;
    }
}

static void do_round(struct requests *requests)
{
    if (requests->ending)
        for (struct job *job = requests->jobs; job; job = job->next)
            cancel_job(job);
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

static void answer_job(struct job *job, posed_Reply *reply, struct handlers_pieces *pieces)
{
    struct requests *requests = job->requests;
    posed_Request request;
    uint32_t kind;
    const uint8_t *bytes = zmq_msg_data(&job->message);
    size_t n_bytes = zmq_msg_size(&job->message);
    memset(reply, 0, sizeof *reply);
    reply->id = job->id;
    if (requests->ending)
        fail_ending(reply);
    else if (__atomic_load_n(&job->stop.requested, __ATOMIC_ACQUIRE))
        handlers_fail(reply, posed_Code_CANCELLED, NULL, "cancelled while it waited");
    else if (clock_monotonic_ns() >= job->deadline_ns)
        handlers_fail(reply, posed_Code_DEADLINE_EXCEEDED, NULL,
                      "the deadline passed while the request waited");
    else if (wire_decode_request(bytes, n_bytes, &request, &kind) != 0)
        handlers_fail(reply, posed_Code_INTERNAL, NULL, "the request has changed");
    else if (wire_is_download(kind) && unread_bytes > UNREAD_MAX_BYTES)
        handlers_fail(reply, posed_Code_RESOURCE_EXHAUSTED, NULL,
                      "%zu MB of answers wait for clients that do not read them",
                      unread_bytes >> 20);
    else {
        const struct handlers_call call = {&request,
                                           bytes + WIRE_MAGIC_BYTES,
                                           n_bytes - WIRE_MAGIC_BYTES,
                                           job->deadline_ns,
                                           &job->stop,
                                           reply,
                                           pieces};
        handlers_run(&requests->handlers, &call);
    }
}

static void run_job(void *user, void *data)
{
    struct requests *requests = user;
    struct job *job = data;
    posed_Reply *reply = requests->replies[job->lane];
    struct handlers_pieces pieces = {.memory = NULL};
    answer_job(job, reply, &pieces);
    job->is_large = pieces.n_pieces > 0;
    if (job->is_large) {
        int error = wire_encode_large_reply(reply, pieces.pieces, pieces.n_pieces, &job->answer,
                                            &job->n_answer);
        if (!error) // else there is no answer
            atomic_fetch_add(&unread_bytes, job->n_answer);
    } else {
        size_t n_bytes = wire_reply_size(reply);
        job->answer = malloc(n_bytes);
        int n = job->answer ? wire_encode_reply(reply, job->answer, n_bytes) : -ENOMEM;
        job->n_answer = n > 0 ? (size_t)n : 0;
    }
    free(pieces.memory);
    pthread_mutex_lock(&requests->mutex);
    job->next_done = requests->done;
    requests->done = job;
    pthread_mutex_unlock(&requests->mutex);
    wake(requests);
}

static bool be_idle(void *user)
{
    struct requests *requests = user;
    return handlers_idle(&requests->handlers);
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
    pthread_mutex_init(&requests->mutex, NULL);
    requests->handlers = *handlers;
    handlers_open(&requests->handlers);
    requests->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = requests->wake_fd < 0 ? -errno : 0;
    for (int lane = 0; lane < HANDLERS_N_LANES && !error; lane++) {
        requests->replies[lane] = malloc(sizeof *requests->replies[lane]);
        error = requests->replies[lane] ? 0 : -ENOMEM;
    }
    if (!error)
        error = open_socket(requests, endpoint, config);
    if (!error)
        error = worker_create(&requests->workers[HANDLERS_COMMAND], config->requests.queue, false,
                              run_job, NULL, requests);
    if (!error)
        error = worker_create(&requests->workers[HANDLERS_COMPUTE], COMPUTE_QUEUE, true, run_job,
                              be_idle, requests);
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
    // The socket thread goes on until the workers have said their last.
    r->ending = true;
    wake(r);
    for (int lane = 0; lane < HANDLERS_N_LANES; lane++)
        worker_stop(r->workers[lane]);
    r->stop = true;
    if (r->has_socket_thread) {
        wake(r);
        pthread_join(r->socket_thread, NULL);
    }
    for (int lane = 0; lane < HANDLERS_N_LANES; lane++)
        worker_destroy(&r->workers[lane]);
    handlers_close(&r->handlers);
    if (r->socket)
        zmq_close(r->socket);
    if (r->wake_fd >= 0)
        close(r->wake_fd);
    pthread_mutex_destroy(&r->mutex);
    for (int lane = 0; lane < HANDLERS_N_LANES; lane++)
        free(r->replies[lane]);
    free(r);
    *requests = NULL;
}

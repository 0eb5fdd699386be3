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

#define IDENTITY_MAX_BYTES  256
#define ROUND_MAX_REQUESTS  64
// libzmq closes the connection of a client that sends more. Above the protocol's own limit, so that
// a request which is a little too long gets an answer that says so.
#define TRANSPORT_MAX_BYTES (1 << 20)

// Who asked, and how the answer must be wrapped (a REQ socket puts an empty part in front).
struct address {
    uint8_t identity[IDENTITY_MAX_BYTES];
    size_t n_identity;
    bool has_delimiter;
};

struct job {
    struct address address;
    posed_Request request;
    int64_t deadline_ns;
};

struct answer {
    struct address address;
    size_t n_bytes;
    uint8_t bytes[256]; // slow requests have short answers
};

struct requests {
    void *socket;
    int wake_fd; // worker or stop -> socket thread
    struct handlers handlers;
    struct log_sink log;
    _Atomic uint32_t deadline_ms;
    _Atomic bool stop;
    pthread_t socket_thread, worker_thread;
    bool has_socket_thread, has_worker_thread;

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct job *jobs; // ring of n_queue
    size_t n_queue, first_job, n_jobs;
    struct answer *answers; // ring of n_queue + 1: at most one more is being worked on
    size_t first_answer, n_answers;

    // The socket thread's own, too large for its stack.
    posed_Reply reply;
    uint8_t reply_bytes[WIRE_REPLY_MAX_BYTES];
    // The worker's own.
    posed_Reply worker_reply;
};

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

static void send_own_reply(struct requests *requests, const struct address *address)
{
    int n =
        wire_encode_reply(&requests->reply, requests->reply_bytes, sizeof requests->reply_bytes);
    if (n > 0)
        send_reply(requests, address, requests->reply_bytes, (size_t)n);
}

static void enqueue(struct requests *requests, const struct address *address,
                    const posed_Request *request, int64_t deadline_ns)
{
    pthread_mutex_lock(&requests->mutex);
    // Answers not yet sent count as well: their ring must not overflow.
    bool room = requests->n_jobs + requests->n_answers < requests->n_queue;
    if (room) {
        size_t i = (requests->first_job + requests->n_jobs++) % requests->n_queue;
        requests->jobs[i] = (struct job){*address, *request, deadline_ns};
        pthread_cond_signal(&requests->changed);
    }
    pthread_mutex_unlock(&requests->mutex);
    if (room)
        return;
    board_count(requests->handlers.board, BOARD_REJECTED_REQUESTS);
    handlers_fail(&requests->reply, posed_Code_RESOURCE_EXHAUSTED, NULL,
                  "%zu requests are waiting already (requests.queue)", requests->n_queue);
    send_own_reply(requests, address);
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
        handlers_fail(reply, posed_Code_RESOURCE_EXHAUSTED, NULL, "a request has at most %d bytes",
                      WIRE_REQUEST_MAX_BYTES);
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

static void on_request(struct requests *requests, const struct address *address,
                       const uint8_t *bytes, size_t n_bytes)
{
    posed_Request request;
    uint32_t kind;
    int error = wire_decode_request(bytes, n_bytes, &request, &kind);
    if (error == -EPROTO) {
        board_count(requests->handlers.board, BOARD_BAD_REQUESTS);
        return;
    }
    memset(&requests->reply, 0, sizeof requests->reply);
    requests->reply.id = request.id;
    if (error) {
        fail_decode(&requests->reply, error, kind);
        send_own_reply(requests, address);
        return;
    }
    uint32_t deadline_ms = request.deadline_ms ? request.deadline_ms : requests->deadline_ms;
    int64_t deadline_ns = clock_monotonic_ns() + (int64_t)deadline_ms * 1000000;
    if (handlers_is_slow(request.which_what)) {
        enqueue(requests, address, &request, deadline_ns);
        return;
    }
    handlers_run(&requests->handlers, &request, deadline_ns, &requests->reply);
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
        const uint8_t *data = zmq_msg_data(&part);
        size_t n = zmq_msg_size(&part);
        more = zmq_msg_more(&part);
        if (n_parts == 0) {
            bad = n > sizeof address.identity || !more;
            address.n_identity = bad ? 0 : n;
            memcpy(address.identity, data, address.n_identity);
        } else if (n_parts == 1 && n == 0 && more) {
            address.has_delimiter = true;
        } else if (!bad && !done && !more) {
            on_request(requests, &address, data, n);
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
    for (;;) {
        struct answer answer;
        pthread_mutex_lock(&requests->mutex);
        bool any = requests->n_answers > 0;
        if (any) {
            answer = requests->answers[requests->first_answer];
            requests->first_answer = (requests->first_answer + 1) % (requests->n_queue + 1);
            requests->n_answers--;
        }
        pthread_mutex_unlock(&requests->mutex);
        if (!any)
            return;
        send_reply(requests, &answer.address, answer.bytes, answer.n_bytes);
    }
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
        send_answers(requests);
        for (int i = 0; i < ROUND_MAX_REQUESTS && read_message(requests); i++)
            ;
    }
    send_answers(requests);
    return NULL;
}

static void *run_worker(void *user)
{
    struct requests *requests = user;
    posed_Reply *reply = &requests->worker_reply;
    pthread_mutex_lock(&requests->mutex);
    for (;;) {
        while (requests->n_jobs == 0 && !requests->stop)
            pthread_cond_wait(&requests->changed, &requests->mutex);
        if (requests->n_jobs == 0)
            break;
        struct job job = requests->jobs[requests->first_job];
        requests->first_job = (requests->first_job + 1) % requests->n_queue;
        requests->n_jobs--;
        pthread_mutex_unlock(&requests->mutex);

        struct answer answer = {.address = job.address};
        memset(reply, 0, sizeof *reply);
        reply->id = job.request.id;
        if (requests->stop)
            handlers_fail(reply, posed_Code_UNAVAILABLE, NULL, "the daemon is stopping");
        else if (clock_monotonic_ns() >= job.deadline_ns)
            handlers_fail(reply, posed_Code_DEADLINE_EXCEEDED, NULL,
                          "the deadline passed while the request waited");
        else
            handlers_run(&requests->handlers, &job.request, job.deadline_ns, reply);
        int n = wire_encode_reply(reply, answer.bytes, sizeof answer.bytes);
        if (n < 0) {
            handlers_fail(reply, posed_Code_INTERNAL, NULL, "the answer is too long");
            n = wire_encode_reply(reply, answer.bytes, sizeof answer.bytes);
        }

        pthread_mutex_lock(&requests->mutex);
        answer.n_bytes = n > 0 ? (size_t)n : 0;
        requests
            ->answers[(requests->first_answer + requests->n_answers++) % (requests->n_queue + 1)] =
            answer;
        wake(requests);
    }
    pthread_mutex_unlock(&requests->mutex);
    return NULL;
}

static int open_socket(struct requests *requests, struct endpoint *endpoint,
                       const struct config *config)
{
    const int64_t max_bytes = TRANSPORT_MAX_BYTES;
    const int hwm = 64;
    requests->socket = endpoint_socket(endpoint, ZMQ_ROUTER);
    if (!requests->socket)
        return -ENOMEM;
    zmq_setsockopt(requests->socket, ZMQ_MAXMSGSIZE, &max_bytes, sizeof max_bytes);
    zmq_setsockopt(requests->socket, ZMQ_RCVHWM, &hwm, sizeof hwm);
    zmq_setsockopt(requests->socket, ZMQ_SNDHWM, &hwm, sizeof hwm);
    return endpoint_bind(endpoint, requests->socket, "req", config->endpoints.req);
}

int requests_create(struct requests **out, struct endpoint *endpoint, const struct config *config,
                    struct board *board, const struct log_sink *log)
{
    *out = NULL;
    struct requests *requests = calloc(1, sizeof *requests);
    if (!requests)
        return -ENOMEM;
    pthread_mutex_init(&requests->mutex, NULL);
    pthread_cond_init(&requests->changed, NULL);
    requests->handlers = (struct handlers){board, config};
    requests->log = *log;
    requests->deadline_ms = config->requests.deadline_ms;
    requests->n_queue = config->requests.queue;
    requests->jobs = calloc(requests->n_queue, sizeof *requests->jobs);
    requests->answers = calloc(requests->n_queue + 1, sizeof *requests->answers);
    requests->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = -ENOMEM;
    if (!requests->jobs || !requests->answers || requests->wake_fd < 0)
        goto destroy;
    error = open_socket(requests, endpoint, config);
    if (error)
        goto destroy;
    error = -pthread_create(&requests->worker_thread, NULL, run_worker, requests);
    requests->has_worker_thread = error == 0;
    if (error)
        goto destroy;
    // From here on the socket belongs to its thread.
    error = -pthread_create(&requests->socket_thread, NULL, run_socket, requests);
    requests->has_socket_thread = error == 0;
    if (error)
        goto destroy;
    *out = requests;
    return 0;
destroy:
    requests_destroy(&requests);
    return error;
}

void requests_set_deadline(struct requests *requests, uint32_t deadline_ms)
{
    requests->deadline_ms = deadline_ms;
}

void requests_destroy(struct requests **requests)
{
    struct requests *r = *requests;
    if (!r)
        return;
    pthread_mutex_lock(&r->mutex);
    r->stop = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->mutex);
    if (r->has_worker_thread)
        pthread_join(r->worker_thread, NULL);
    if (r->has_socket_thread) {
        wake(r);
        pthread_join(r->socket_thread, NULL);
    }
    if (r->socket)
        zmq_close(r->socket);
    if (r->wake_fd >= 0)
        close(r->wake_fd);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->mutex);
    free(r->jobs);
    free(r->answers);
    free(r);
    *requests = NULL;
}

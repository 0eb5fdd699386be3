// SPDX-License-Identifier: Apache-2.0
#include "daemon/queued_requests.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/fair_queue.h"
#include "proto/clock.h"

#define COMPUTE_QUEUE 8 // requests that may carry megabytes and take seconds

struct queued_requests {
    struct handlers *handlers;
    void (*wake)(void *user);
    void *user;
    struct fair_queue *workers[HANDLERS_N_QUEUES]; // none for HANDLERS_NOW
    posed_Reply *replies[HANDLERS_N_QUEUES];       // one for each worker
    _Atomic bool ending;

    pthread_mutex_t mutex;
    struct queued_request *under_way;
    struct queued_request *done, **done_end; // of these, the answered ones
};

static void link_job(struct queued_requests *queued, struct queued_request *job)
{
    job->next = queued->under_way;
    job->link = &queued->under_way;
    if (job->next)
        job->next->link = &job->next;
    queued->under_way = job;
}

static void unlink_job(struct queued_request *job)
{
    *job->link = job->next;
    if (job->next)
        job->next->link = job->link;
}

// With the mutex held: whether this owner, with however many connections, leaves others some of the
// places, one of which is the worker itself.
static bool has_place(const struct queued_requests *queued, enum handlers_queue queue,
                      const char *owner)
{
    size_t n_places =
        queue == HANDLERS_COMPUTE ? COMPUTE_QUEUE : queued->handlers->config->requests.queue;
    size_t n_own = 0;
    for (const struct queued_request *job = queued->under_way; job; job = job->next)
        n_own += job->queue == queue && !job->is_done && strcmp(job->owner, owner) == 0;
    return n_own < n_places - n_places / 4 + 1;
}

int queued_requests_submit(struct queued_requests *queued, enum handlers_queue queue,
                           struct queued_request *job)
{
    if (queued->ending)
        return -ESHUTDOWN;
    job->queued = queued;
    job->queue = queue;
    job->stop = (struct register_stop){.deadline_mono_ns = job->deadline_ns};
    pthread_mutex_lock(&queued->mutex);
    bool taken = has_place(queued, queue, job->owner);
    if (taken) {
        link_job(queued, job);
        taken = fair_queue_submit(queued->workers[queue], job->client, job);
        if (!taken)
            unlink_job(job);
    }
    pthread_mutex_unlock(&queued->mutex);
    if (taken)
        return 0;
    return queued->ending ? -ESHUTDOWN : -EBUSY; // its worker may have been stopped meanwhile
}

static void cancel(struct queued_request *job)
{
    __atomic_store_n(&job->stop.requested, 1, __ATOMIC_RELEASE);
}

bool queued_requests_cancel(struct queued_requests *queued, const struct client *client,
                            uint64_t id)
{
    bool found = false;
    pthread_mutex_lock(&queued->mutex);
    for (struct queued_request *job = queued->under_way; job; job = job->next)
        if (job->id == id && job->client == client) {
            cancel(job);
            found = true;
        }
    pthread_mutex_unlock(&queued->mutex);
    return found;
}

void queued_requests_cancel_all(struct queued_requests *queued, const struct client *client)
{
    pthread_mutex_lock(&queued->mutex);
    for (struct queued_request *job = queued->under_way; job; job = job->next)
        if (job->client == client)
            cancel(job);
    pthread_mutex_unlock(&queued->mutex);
}

struct queued_request *queued_requests_take_done(struct queued_requests *queued)
{
    pthread_mutex_lock(&queued->mutex);
    struct queued_request *job = queued->done;
    if (job) {
        queued->done = job->next_done;
        if (!queued->done)
            queued->done_end = &queued->done;
        unlink_job(job);
    }
    pthread_mutex_unlock(&queued->mutex);
    return job;
}

static void fill_reply(struct queued_request *job, posed_Reply *reply,
                       struct handlers_payload *pieces)
{
    struct queued_requests *queued = job->queued;
    posed_Request request;
    uint32_t kind;
    memset(reply, 0, sizeof *reply);
    reply->id = job->id;
    if (queued->ending)
        handlers_fail(reply, posed_Code_UNAVAILABLE, NULL, HANDLERS_ENDING);
    else if (__atomic_load_n(&job->stop.requested, __ATOMIC_ACQUIRE))
        handlers_fail(reply, posed_Code_CANCELLED, NULL, "cancelled while it waited");
    else if (clock_monotonic_ns() >= job->deadline_ns)
        handlers_fail(reply, posed_Code_DEADLINE_EXCEEDED, NULL,
                      "the deadline passed while the request waited behind others: nothing was "
                      "done. Give it a longer deadline_ms (posectl: --timeout), or ask later");
    else if (wire_decode_request(job->bytes, job->n_bytes, &request, &kind) != 0)
        handlers_fail(reply, posed_Code_INTERNAL, NULL, "the request has changed");
    else if (wire_is_download(kind) && !client_may_be_sent(job->client))
        handlers_fail(reply, posed_Code_RESOURCE_EXHAUSTED, NULL,
                      "too many answers wait for this client to read them");
    else {
        const struct handlers_call call = {&request,
                                           job->bytes + WIRE_MAGIC_BYTES,
                                           job->n_bytes - WIRE_MAGIC_BYTES,
                                           job->deadline_ns,
                                           &job->stop,
                                           job->turn.turns ? &job->turn : NULL,
                                           reply,
                                           pieces};
        handlers_run(queued->handlers, &call);
    }
}

static void encode_answer(struct queued_request *job, posed_Reply *reply,
                          const struct handlers_payload *pieces)
{
    job->is_large =
        pieces->n_pieces > 0 && wire_encode_large_reply(reply, pieces->pieces, pieces->n_pieces,
                                                        &job->answer, &job->n_answer) == 0;
    if (job->is_large) {
        client_add_unread(job->client, job->n_answer);
        return;
    }
    if (pieces->n_pieces > 0)
        handlers_fail_work(reply, -ENOMEM, NULL);
    size_t n_bytes = wire_reply_size(reply);
    job->answer = malloc(n_bytes);
    int n = job->answer ? wire_encode_reply(reply, job->answer, n_bytes) : -ENOMEM;
    job->n_answer = n > 0 ? (size_t)n : 0;
}

static void run_job(void *user, void *data)
{
    struct queued_requests *queued = user;
    struct queued_request *job = data;
    posed_Reply *reply = queued->replies[job->queue];
    struct handlers_payload pieces = {.memory = NULL};
    fill_reply(job, reply, &pieces);
    map_turn_leave(&job->turn);
    encode_answer(job, reply, &pieces);
    free(pieces.memory);
    pthread_mutex_lock(&queued->mutex);
    job->next_done = NULL;
    job->is_done = true;
    *queued->done_end = job;
    queued->done_end = &job->next_done;
    pthread_mutex_unlock(&queued->mutex);
    queued->wake(queued->user);
}

static bool be_idle(void *user)
{
    const struct queued_requests *queued = user;
    return handlers_idle(queued->handlers);
}

int queued_requests_create(struct queued_requests **out, struct handlers *handlers,
                           void (*wake)(void *user), void *user)
{
    *out = NULL;
    struct queued_requests *queued = calloc(1, sizeof *queued);
    if (!queued)
        return -ENOMEM;
    pthread_mutex_init(&queued->mutex, NULL);
    queued->handlers = handlers;
    queued->wake = wake;
    queued->user = user;
    queued->done_end = &queued->done;
    int error = 0;
    for (int queue = HANDLERS_NOW + 1; queue < HANDLERS_N_QUEUES && !error; queue++) {
        queued->replies[queue] = malloc(sizeof *queued->replies[queue]);
        error = queued->replies[queue] ? 0 : -ENOMEM;
    }
    if (!error)
        error = fair_queue_create(&queued->workers[HANDLERS_COMMAND],
                                  handlers->config->requests.queue, false, run_job, NULL, queued);
    if (!error)
        error = fair_queue_create(&queued->workers[HANDLERS_COMPUTE], COMPUTE_QUEUE, true, run_job,
                                  be_idle, queued);
    if (error) {
        queued_requests_destroy(&queued);
        return error;
    }
    *out = queued;
    return 0;
}

void queued_requests_end(struct queued_requests *queued)
{
    queued->ending = true;
    pthread_mutex_lock(&queued->mutex);
    for (struct queued_request *job = queued->under_way; job; job = job->next)
        cancel(job);
    pthread_mutex_unlock(&queued->mutex);
    for (int queue = 0; queue < HANDLERS_N_QUEUES; queue++)
        fair_queue_stop(queued->workers[queue]);
}

void queued_requests_destroy(struct queued_requests **queued)
{
    struct queued_requests *j = *queued;
    if (!j)
        return;
    for (int queue = 0; queue < HANDLERS_N_QUEUES; queue++) {
        fair_queue_destroy(&j->workers[queue]);
        free(j->replies[queue]);
    }
    pthread_mutex_destroy(&j->mutex);
    free(j);
    *queued = NULL;
}

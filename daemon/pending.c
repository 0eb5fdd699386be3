// SPDX-License-Identifier: Apache-2.0
#include "daemon/pending.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/job_queue.h"
#include "proto/clock.h"

#define COMPUTE_QUEUE 8 // requests that may carry megabytes and take seconds

struct pending {
    struct handlers *handlers;
    void (*wake)(void *user);
    void *user;
    struct job_queue *workers[HANDLERS_N_QUEUES]; // none for HANDLERS_NOW
    posed_Reply *replies[HANDLERS_N_QUEUES];      // one for each worker
    _Atomic bool ending;

    pthread_mutex_t mutex;
    struct pending_request *under_way;
    struct pending_request *done, **done_end; // of these, the answered ones
};

static void link_job(struct pending *pending, struct pending_request *job)
{
    job->next = pending->under_way;
    job->link = &pending->under_way;
    if (job->next)
        job->next->link = &job->next;
    pending->under_way = job;
}

static void unlink_job(struct pending_request *job)
{
    *job->link = job->next;
    if (job->next)
        job->next->link = job->link;
}

// With the mutex held: whether this owner, with however many connections, leaves others some of the
// places, one of which is the worker itself.
static bool has_place(const struct pending *pending, enum handlers_queue lane, const char *owner)
{
    size_t n_places =
        lane == HANDLERS_COMPUTE ? COMPUTE_QUEUE : pending->handlers->config->requests.queue;
    size_t n_own = 0;
    for (const struct pending_request *job = pending->under_way; job; job = job->next)
        n_own += job->lane == lane && !job->is_done && strcmp(job->owner, owner) == 0;
    return n_own < n_places - n_places / 4 + 1;
}

int pending_submit(struct pending *pending, enum handlers_queue lane, struct pending_request *job)
{
    if (pending->ending)
        return -ESHUTDOWN;
    job->pending = pending;
    job->lane = lane;
    job->stop = (struct register_stop){.deadline_mono_ns = job->deadline_ns};
    pthread_mutex_lock(&pending->mutex);
    bool taken = has_place(pending, lane, job->owner);
    if (taken) {
        link_job(pending, job);
        taken = job_queue_submit(pending->workers[lane], job->client, job);
        if (!taken)
            unlink_job(job);
    }
    pthread_mutex_unlock(&pending->mutex);
    if (taken)
        return 0;
    return pending->ending ? -ESHUTDOWN : -EBUSY; // its worker may have been stopped meanwhile
}

static void cancel(struct pending_request *job)
{
    __atomic_store_n(&job->stop.requested, 1, __ATOMIC_RELEASE);
}

bool pending_cancel(struct pending *pending, const struct client *client, uint64_t id)
{
    bool found = false;
    pthread_mutex_lock(&pending->mutex);
    for (struct pending_request *job = pending->under_way; job; job = job->next)
        if (job->id == id && job->client == client) {
            cancel(job);
            found = true;
        }
    pthread_mutex_unlock(&pending->mutex);
    return found;
}

void pending_cancel_all(struct pending *pending, const struct client *client)
{
    pthread_mutex_lock(&pending->mutex);
    for (struct pending_request *job = pending->under_way; job; job = job->next)
        if (job->client == client)
            cancel(job);
    pthread_mutex_unlock(&pending->mutex);
}

struct pending_request *pending_take_done(struct pending *pending)
{
    pthread_mutex_lock(&pending->mutex);
    struct pending_request *job = pending->done;
    if (job) {
        pending->done = job->next_done;
        if (!pending->done)
            pending->done_end = &pending->done;
        unlink_job(job);
    }
    pthread_mutex_unlock(&pending->mutex);
    return job;
}

static void fill_reply(struct pending_request *job, posed_Reply *reply,
                       struct handlers_payload *pieces)
{
    struct pending *pending = job->pending;
    posed_Request request;
    uint32_t kind;
    memset(reply, 0, sizeof *reply);
    reply->id = job->id;
    if (pending->ending)
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
                                           reply,
                                           pieces};
        handlers_run(pending->handlers, &call);
    }
}

static void encode_answer(struct pending_request *job, posed_Reply *reply,
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
    struct pending *pending = user;
    struct pending_request *job = data;
    posed_Reply *reply = pending->replies[job->lane];
    struct handlers_payload pieces = {.memory = NULL};
    fill_reply(job, reply, &pieces);
    encode_answer(job, reply, &pieces);
    free(pieces.memory);
    pthread_mutex_lock(&pending->mutex);
    job->next_done = NULL;
    job->is_done = true;
    *pending->done_end = job;
    pending->done_end = &job->next_done;
    pthread_mutex_unlock(&pending->mutex);
    pending->wake(pending->user);
}

static bool be_idle(void *user)
{
    const struct pending *pending = user;
    return handlers_idle(pending->handlers);
}

int pending_create(struct pending **out, struct handlers *handlers, void (*wake)(void *user),
                   void *user)
{
    *out = NULL;
    struct pending *pending = calloc(1, sizeof *pending);
    if (!pending)
        return -ENOMEM;
    pthread_mutex_init(&pending->mutex, NULL);
    pending->handlers = handlers;
    pending->wake = wake;
    pending->user = user;
    pending->done_end = &pending->done;
    int error = 0;
    for (int lane = HANDLERS_NOW + 1; lane < HANDLERS_N_QUEUES && !error; lane++) {
        pending->replies[lane] = malloc(sizeof *pending->replies[lane]);
        error = pending->replies[lane] ? 0 : -ENOMEM;
    }
    if (!error)
        error = job_queue_create(&pending->workers[HANDLERS_COMMAND],
                                 handlers->config->requests.queue, false, run_job, NULL, pending);
    if (!error)
        error = job_queue_create(&pending->workers[HANDLERS_COMPUTE], COMPUTE_QUEUE, true, run_job,
                                 be_idle, pending);
    if (error) {
        pending_destroy(&pending);
        return error;
    }
    *out = pending;
    return 0;
}

void pending_end(struct pending *pending)
{
    pending->ending = true;
    pthread_mutex_lock(&pending->mutex);
    for (struct pending_request *job = pending->under_way; job; job = job->next)
        cancel(job);
    pthread_mutex_unlock(&pending->mutex);
    for (int lane = 0; lane < HANDLERS_N_QUEUES; lane++)
        job_queue_stop(pending->workers[lane]);
}

void pending_destroy(struct pending **pending)
{
    struct pending *j = *pending;
    if (!j)
        return;
    for (int lane = 0; lane < HANDLERS_N_QUEUES; lane++) {
        job_queue_destroy(&j->workers[lane]);
        free(j->replies[lane]);
    }
    pthread_mutex_destroy(&j->mutex);
    free(j);
    *pending = NULL;
}

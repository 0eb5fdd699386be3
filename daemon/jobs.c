// SPDX-License-Identifier: Apache-2.0
#include "daemon/jobs.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/clock.h"
#include "daemon/worker.h"

#define COMPUTE_QUEUE 8 // requests that may carry megabytes and take seconds

struct jobs {
    struct handlers *handlers;
    void (*wake)(void *user);
    void *user;
    struct worker *workers[HANDLERS_N_LANES]; // none for HANDLERS_NOW
    posed_Reply *replies[HANDLERS_N_LANES];   // one for each worker
    _Atomic bool ending;

    pthread_mutex_t mutex;
    struct job *under_way;
    struct job *done, **done_end; // of these, the answered ones
};

static void link_job(struct jobs *jobs, struct job *job)
{
    job->next = jobs->under_way;
    job->link = &jobs->under_way;
    if (job->next)
        job->next->link = &job->next;
    jobs->under_way = job;
}

static void unlink_job(struct job *job)
{
    *job->link = job->next;
    if (job->next)
        job->next->link = job->link;
}

int jobs_submit(struct jobs *jobs, enum handlers_lane lane, struct job *job)
{
    if (jobs->ending)
        return -ESHUTDOWN;
    job->jobs = jobs;
    job->lane = lane;
    job->stop = (struct register_stop){.deadline_mono_ns = job->deadline_ns};
    pthread_mutex_lock(&jobs->mutex);
    link_job(jobs, job);
    bool taken = worker_submit(jobs->workers[lane], job->client, job);
    if (!taken)
        unlink_job(job);
    pthread_mutex_unlock(&jobs->mutex);
    if (taken)
        return 0;
    return jobs->ending ? -ESHUTDOWN : -EBUSY; // its worker may have been stopped meanwhile
}

static void cancel(struct job *job)
{
    __atomic_store_n(&job->stop.requested, 1, __ATOMIC_RELEASE);
}

bool jobs_cancel(struct jobs *jobs, const struct client *client, uint64_t id)
{
    bool found = false;
    pthread_mutex_lock(&jobs->mutex);
    for (struct job *job = jobs->under_way; job; job = job->next)
        if (job->id == id && job->client == client) {
            cancel(job);
            found = true;
        }
    pthread_mutex_unlock(&jobs->mutex);
    return found;
}

struct job *jobs_take_done(struct jobs *jobs)
{
    pthread_mutex_lock(&jobs->mutex);
    struct job *job = jobs->done;
    if (job) {
        jobs->done = job->next_done;
        if (!jobs->done)
            jobs->done_end = &jobs->done;
        unlink_job(job);
    }
    pthread_mutex_unlock(&jobs->mutex);
    return job;
}

static void fill_reply(struct job *job, posed_Reply *reply, struct handlers_pieces *pieces)
{
    struct jobs *jobs = job->jobs;
    posed_Request request;
    uint32_t kind;
    memset(reply, 0, sizeof *reply);
    reply->id = job->id;
    if (jobs->ending)
        handlers_fail(reply, posed_Code_UNAVAILABLE, NULL, HANDLERS_ENDING);
    else if (__atomic_load_n(&job->stop.requested, __ATOMIC_ACQUIRE))
        handlers_fail(reply, posed_Code_CANCELLED, NULL, "cancelled while it waited");
    else if (clock_monotonic_ns() >= job->deadline_ns)
        handlers_fail(reply, posed_Code_DEADLINE_EXCEEDED, NULL,
                      "the deadline passed while the request waited");
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
        handlers_run(jobs->handlers, &call);
    }
}

static void encode_answer(struct job *job, posed_Reply *reply, const struct handlers_pieces *pieces)
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
    struct jobs *jobs = user;
    struct job *job = data;
    posed_Reply *reply = jobs->replies[job->lane];
    struct handlers_pieces pieces = {.memory = NULL};
    fill_reply(job, reply, &pieces);
    encode_answer(job, reply, &pieces);
    free(pieces.memory);
    pthread_mutex_lock(&jobs->mutex);
    job->next_done = NULL;
    *jobs->done_end = job;
    jobs->done_end = &job->next_done;
    pthread_mutex_unlock(&jobs->mutex);
    jobs->wake(jobs->user);
}

static bool be_idle(void *user)
{
    const struct jobs *jobs = user;
    return handlers_idle(jobs->handlers);
}

int jobs_create(struct jobs **out, struct handlers *handlers, void (*wake)(void *user), void *user)
{
    *out = NULL;
    struct jobs *jobs = calloc(1, sizeof *jobs);
    if (!jobs)
        return -ENOMEM;
    pthread_mutex_init(&jobs->mutex, NULL);
    jobs->handlers = handlers;
    jobs->wake = wake;
    jobs->user = user;
    jobs->done_end = &jobs->done;
    int error = 0;
    for (int lane = HANDLERS_NOW + 1; lane < HANDLERS_N_LANES && !error; lane++) {
        jobs->replies[lane] = malloc(sizeof *jobs->replies[lane]);
        error = jobs->replies[lane] ? 0 : -ENOMEM;
    }
    if (!error)
        error = worker_create(&jobs->workers[HANDLERS_COMMAND], handlers->config->requests.queue,
                              false, run_job, NULL, jobs);
    if (!error)
        error = worker_create(&jobs->workers[HANDLERS_COMPUTE], COMPUTE_QUEUE, true, run_job,
                              be_idle, jobs);
    if (error) {
        jobs_destroy(&jobs);
        return error;
    }
    *out = jobs;
    return 0;
}

void jobs_end(struct jobs *jobs)
{
    jobs->ending = true;
    pthread_mutex_lock(&jobs->mutex);
    for (struct job *job = jobs->under_way; job; job = job->next)
        cancel(job);
    pthread_mutex_unlock(&jobs->mutex);
    for (int lane = 0; lane < HANDLERS_N_LANES; lane++)
        worker_stop(jobs->workers[lane]);
}

void jobs_destroy(struct jobs **jobs)
{
    struct jobs *j = *jobs;
    if (!j)
        return;
    for (int lane = 0; lane < HANDLERS_N_LANES; lane++) {
        worker_destroy(&j->workers[lane]);
        free(j->replies[lane]);
    }
    pthread_mutex_destroy(&j->mutex);
    free(j);
    *jobs = NULL;
}

// SPDX-License-Identifier: Apache-2.0
#include "daemon/fair_queue.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/clock.h"

#define IDLE_NS 4000000 // between two calls of an idle that has something to do

struct waiting {
    void *job;
    const void *client;
    uint64_t turn; // at most one job of a client has the same
};

struct fair_queue {
    void (*run)(void *user, void *job);
    bool (*idle)(void *user);
    void *user;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool end;
    struct waiting *jobs; // in the order in which they came
    size_t n_queue, n_jobs;
    // Of the job that was taken last.
    const void *client;
    uint64_t turn;
    bool background;
};

// With the mutex held: waits for a job or, where there is something to do meanwhile, for a moment.
static void wait_idly(struct fair_queue *worker)
{
    bool busy = false;
    if (worker->idle) {
        pthread_mutex_unlock(&worker->mutex);
        busy = worker->idle(worker->user);
        pthread_mutex_lock(&worker->mutex);
    }
    if (worker->n_jobs || worker->end)
        return;
    if (!busy) {
        pthread_cond_wait(&worker->changed, &worker->mutex);
        return;
    }
    const struct timespec until = clock_until(IDLE_NS);
    pthread_cond_timedwait(&worker->changed, &worker->mutex, &until);
}

// With the mutex held and a job there: the one whose turn is next. Of several the first that came,
// but another client's before that of the one who has just been served.
static void *take_job(struct fair_queue *worker)
{
    struct waiting *next = worker->jobs;
    for (struct waiting *w = next + 1; w < worker->jobs + worker->n_jobs; w++)
        if (w->turn < next->turn || (w->turn == next->turn && next->client == worker->client))
            next = w;
    void *job = next->job;
    worker->turn = next->turn;
    worker->client = next->client;
    worker->n_jobs--;
    memmove(next, next + 1, (size_t)(worker->jobs + worker->n_jobs - next) * sizeof *next);
    return job;
}

static void *run_jobs(void *user)
{
    struct fair_queue *worker = user;
    // Niceness would not do: a thread that wakes up waits for the end of a nice one's time slice,
    // milliseconds, but never for an idle one. Refused where a service manager forbids it: then it
    // runs as everything else does.
    if (worker->background)
        sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
    pthread_mutex_lock(&worker->mutex);
    for (;;) {
        while (worker->n_jobs == 0 && !worker->end)
            wait_idly(worker);
        if (worker->n_jobs == 0)
            break;
        void *job = take_job(worker);
        pthread_mutex_unlock(&worker->mutex);
        worker->run(worker->user, job);
        pthread_mutex_lock(&worker->mutex);
    }
    pthread_mutex_unlock(&worker->mutex);
    return NULL;
}

int fair_queue_create(struct fair_queue **out, size_t n_queue, bool background,
                      void (*run)(void *user, void *job), bool (*idle)(void *user), void *user)
{
    *out = NULL;
    struct fair_queue *worker = calloc(1, sizeof *worker);
    if (!worker)
        return -ENOMEM;
    worker->run = run;
    worker->idle = idle;
    worker->user = user;
    worker->n_queue = n_queue;
    worker->background = background;
    worker->jobs = calloc(n_queue, sizeof *worker->jobs);
    pthread_mutex_init(&worker->mutex, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&worker->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    int error = -ENOMEM;
    if (worker->jobs)
        error = -pthread_create(&worker->thread, NULL, run_jobs, worker);
    if (error) {
        pthread_cond_destroy(&worker->changed);
        pthread_mutex_destroy(&worker->mutex);
        free(worker->jobs);
        free(worker);
        return error;
    }
    *out = worker;
    return 0;
}

bool fair_queue_submit(struct fair_queue *worker, const void *client, void *job)
{
    pthread_mutex_lock(&worker->mutex);
    // A client that has nothing waiting comes after what others have in this turn, as if it had
    // just been served.
    uint64_t turn = worker->turn + 1;
    size_t n_own = 0;
    for (size_t i = 0; i < worker->n_jobs; i++)
        if (worker->jobs[i].client == client) {
            turn = worker->jobs[i].turn + 1;
            n_own++;
        }
    bool room = n_own < worker->n_queue - worker->n_jobs && !worker->end;
    if (room) {
        worker->jobs[worker->n_jobs++] = (struct waiting){job, client, turn};
        pthread_cond_signal(&worker->changed);
    }
    pthread_mutex_unlock(&worker->mutex);
    return room;
}

void fair_queue_stop(struct fair_queue *worker)
{
    if (!worker || worker->end) // only this function sets it
        return;
    pthread_mutex_lock(&worker->mutex);
    worker->end = true;
    pthread_cond_signal(&worker->changed);
    pthread_mutex_unlock(&worker->mutex);
    pthread_join(worker->thread, NULL);
}

void fair_queue_destroy(struct fair_queue **worker)
{
    struct fair_queue *w = *worker;
    if (!w)
        return;
    fair_queue_stop(w);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mutex);
    free(w->jobs);
    free(w);
    *worker = NULL;
}

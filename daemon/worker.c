// SPDX-License-Identifier: Apache-2.0
#include "daemon/worker.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#define IDLE_NS 4000000 // between two calls of an idle that has something to do

struct worker {
    void (*run)(void *user, void *job);
    bool (*idle)(void *user);
    void *user;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool end;
    void **jobs; // ring
    size_t n_queue, first, n_jobs;
    bool background;
};

// With the mutex held: waits for a job or, where there is something to do meanwhile, for a moment.
static void wait_idly(struct worker *worker)
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
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += IDLE_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&worker->changed, &worker->mutex, &until);
}

static void *run_jobs(void *user)
{
    struct worker *worker = user;
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
        void *job = worker->jobs[worker->first];
        worker->first = (worker->first + 1) % worker->n_queue;
        worker->n_jobs--;
        pthread_mutex_unlock(&worker->mutex);
        worker->run(worker->user, job);
        pthread_mutex_lock(&worker->mutex);
    }
    pthread_mutex_unlock(&worker->mutex);
    return NULL;
}

int worker_create(struct worker **out, size_t n_queue, bool background,
                  void (*run)(void *user, void *job), bool (*idle)(void *user), void *user)
{
    *out = NULL;
    struct worker *worker = calloc(1, sizeof *worker);
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

bool worker_submit(struct worker *worker, void *job)
{
    pthread_mutex_lock(&worker->mutex);
    bool room = worker->n_jobs < worker->n_queue && !worker->end;
    if (room) {
        worker->jobs[(worker->first + worker->n_jobs++) % worker->n_queue] = job;
        pthread_cond_signal(&worker->changed);
    }
    pthread_mutex_unlock(&worker->mutex);
    return room;
}

void worker_stop(struct worker *worker)
{
    if (!worker || worker->end) // only this function sets it
        return;
    pthread_mutex_lock(&worker->mutex);
    worker->end = true;
    pthread_cond_signal(&worker->changed);
    pthread_mutex_unlock(&worker->mutex);
    pthread_join(worker->thread, NULL);
}

void worker_destroy(struct worker **worker)
{
    struct worker *w = *worker;
    if (!w)
        return;
    worker_stop(w);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mutex);
    free(w->jobs);
    free(w);
    *worker = NULL;
}

// SPDX-License-Identifier: Apache-2.0
// Requests that are not answered at once: they wait for a worker, commands for one and what takes
// long for another, are cancelled, run, and come back with their answer. Nothing here knows of
// sockets. Any thread.
#ifndef POSED_DAEMON_JOBS_H
#define POSED_DAEMON_JOBS_H

#include "daemon/client.h"
#include "daemon/handlers.h"

struct jobs; // opaque

// One request. Filled in by whoever submits it, in memory of theirs that must stay until
// jobs_take_done hands it back; in between they touch nothing of it.
struct job {
    struct client *client;
    uint64_t id;
    int64_t deadline_ns;  // CLOCK_MONOTONIC
    const uint8_t *bytes; // the framed request
    size_t n_bytes;

    // Afterwards.
    uint8_t *answer; // framed, to be freed. NULL: no memory was left for it
    size_t n_answer;
    bool is_large; // of a kind that wire_is_download; its bytes count as unread by the client

    // Of jobs.c.
    struct jobs *jobs;
    enum handlers_lane lane;
    struct register_stop stop;
    struct job *next, **link; // of all that are under way
    struct job *next_done;
};

// Starts the workers. `handlers` must outlive the jobs. `wake` is called by a worker whenever
// jobs_take_done has something new. Returns 0 or negative errno.
__attribute__((warn_unused_result)) int jobs_create(struct jobs **out, struct handlers *handlers,
                                                    void (*wake)(void *user), void *user);

// Returns 0; -EBUSY when there is no room for a job of this client, -ESHUTDOWN after jobs_end: the
// job is then the caller's still.
__attribute__((warn_unused_result)) int jobs_submit(struct jobs *jobs, enum handlers_lane lane,
                                                    struct job *job);

// Cancels what this client has under way with that id: it will be answered CANCELLED, unless it is
// done before its worker looks. Returns whether there was any.
bool jobs_cancel(struct jobs *jobs, const struct client *client, uint64_t id);

// A job that has its answer; NULL when there is none.
struct job *jobs_take_done(struct jobs *jobs);

// The daemon ends: what waits is answered UNAVAILABLE, what runs is cancelled. Returns when all
// have their answers, which are to be taken still.
void jobs_end(struct jobs *jobs);

// After jobs_end, and when all are taken. Accepts NULL.
void jobs_destroy(struct jobs **jobs);

#endif

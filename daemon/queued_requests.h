// SPDX-License-Identifier: Apache-2.0
// Requests that are not answered at once: they wait for a worker, commands for one and what takes
// long for another, are cancelled, run, and come back with their answer. Nothing here knows of
// sockets. Any thread.
#ifndef POSED_DAEMON_QUEUED_REQUESTS_H
#define POSED_DAEMON_QUEUED_REQUESTS_H

#include "daemon/client.h"
#include "daemon/handlers/handlers.h"

struct queued_requests; // opaque

// One request. Filled in by whoever submits it, in memory of theirs that must stay until
// queued_requests_take_done hands it back; in between they touch nothing of it.
struct queued_request {
    struct client *client;
    char owner[56]; // who the client is: nobody has more than three quarters of the places
    uint64_t id;
    int64_t deadline_ns;  // CLOCK_MONOTONIC
    const uint8_t *bytes; // the framed request
    size_t n_bytes;
    struct map_turn turn; // of handlers_accept; left when the answer is there

    // Afterwards.
    uint8_t *answer; // framed, to be freed. NULL: no memory was left for it
    size_t n_answer;
    bool is_large; // of a kind that wire_is_download; its bytes count as unread by the client

    // Of queued_requests.c.
    struct queued_requests *queued;
    enum handlers_queue queue;
    struct register_stop stop;
    struct queued_request *next, **link; // of all that are under way
    struct queued_request *next_done;
    bool is_done;
};

// Starts the workers. `handlers` must outlive the jobs. `wake` is called by a worker whenever
// queued_requests_take_done has something new. Returns 0 or negative errno.
__attribute__((warn_unused_result)) int queued_requests_create(struct queued_requests **out,
                                                               struct handlers *handlers,
                                                               void (*wake)(void *user),
                                                               void *user);

// Returns 0; -EBUSY when there is no room for a job of this client or owner, -ESHUTDOWN after
// queued_requests_end: the job is then the caller's still.
__attribute__((warn_unused_result)) int queued_requests_submit(struct queued_requests *queued,
                                                               enum handlers_queue queue,
                                                               struct queued_request *job);

// Cancels what this client has under way with that id: it will be answered CANCELLED, unless it is
// done before its worker looks. Returns whether there was any.
bool queued_requests_cancel(struct queued_requests *queued, const struct client *client,
                            uint64_t id);

// The same with all that the client has under way.
void queued_requests_cancel_all(struct queued_requests *queued, const struct client *client);

// A job that has its answer; NULL when there is none.
struct queued_request *queued_requests_take_done(struct queued_requests *queued);

// The daemon ends: what waits is answered UNAVAILABLE, what runs is cancelled. Returns when all
// have their answers, which are to be taken still.
void queued_requests_end(struct queued_requests *queued);

// After queued_requests_end, and when all are taken. Accepts NULL.
void queued_requests_destroy(struct queued_requests **jobs);

#endif

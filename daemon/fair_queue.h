// SPDX-License-Identifier: Apache-2.0
// A thread that runs jobs one after the other, with a bounded queue in front that is fair to the
// clients whose jobs they are. They take turns: however many jobs a client has waiting, another one
// waits for what runs and then for at most one job of each (fair queueing, Nagle 1987, RFC 970).
// And a client may have as many waiting as there are free places, so that nobody fills the queue
// alone (as client.h has it).
#ifndef POSED_DAEMON_FAIR_QUEUE_H
#define POSED_DAEMON_FAIR_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

struct fair_queue; // opaque

// `run` is called on the worker's thread for each job, also for those that still wait when the
// worker is destroyed (the jobs themselves know that they are to end). With `background` the
// thread, and those which its jobs start, run only where nobody else wants the processor: for work
// that must not delay the tracking. `idle` (may be NULL) is called whenever no job waits, again
// every few milliseconds as long as it returns true. Returns 0 or negative errno.
__attribute__((warn_unused_result)) int fair_queue_create(struct fair_queue **out, size_t n_queue,
                                                          bool background,
                                                          void (*run)(void *user, void *job),
                                                          bool (*idle)(void *user), void *user);

// Any thread. Jobs of one client run in the order in which they came. Returns false when the queue
// or the client's share of it is full, or the worker has been stopped; the job is then the caller's
// still.
__attribute__((warn_unused_result)) bool fair_queue_submit(struct fair_queue *worker,
                                                           const void *client, void *job);

// Runs what waits and ends the thread; from then on fair_queue_submit returns false. Accepts NULL.
void fair_queue_stop(struct fair_queue *worker);

// The same, and gives everything back. No other thread may use it any more.
void fair_queue_destroy(struct fair_queue **worker);

#endif

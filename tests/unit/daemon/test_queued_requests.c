// SPDX-License-Identifier: Apache-2.0
// Requests that wait for a worker: how many an owner may have, what a passed deadline, a cancel and
// the daemon's end make of them. handlers_run is this file's (--wrap): it holds until it is let go.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/queued_requests.h"
#include "proto/clock.h"

#define N_PLACES 8
#define N_JOBS   20

static sem_t begun, gate, done;
static atomic_int n_run;
static struct queued_requests *queued;
static struct queued_request jobs[N_JOBS];
static int n_jobs;
static uint8_t bytes[64];
static size_t n_bytes;

void __wrap_handlers_run(struct handlers *handlers, const struct handlers_call *call);
void __wrap_handlers_run(struct handlers *handlers, const struct handlers_call *call)
{
    (void)handlers;
    n_run++;
    sem_post(&begun);
    sem_wait(&gate);
    if (__atomic_load_n(&call->stop->requested, __ATOMIC_ACQUIRE))
        handlers_fail(call->reply, posed_Code_CANCELLED, NULL, "cancelled");
}

static void wake(void *user)
{
    (void)user;
    sem_post(&done);
}

static int setup(void **state)
{
    static struct config config;
    static struct handlers_common common;
    static struct handlers handlers;
    (void)state;
    config.requests.queue = N_PLACES;
    common = (struct handlers_common){.cameras = &handlers, .n_cameras = 1};
    handlers = (struct handlers){.camera = "", .config = &config, .common = &common};
    posed_Request request = posed_Request_init_zero;
    request.which_what = posed_Request_ping_tag;
    const int n = wire_encode_request(&request, bytes, sizeof bytes);
    n_bytes = (size_t)n;
    n_jobs = 0;
    n_run = 0;
    sem_init(&begun, 0, 0);
    sem_init(&gate, 0, 0);
    sem_init(&done, 0, 0);
    return n > 0 ? queued_requests_create(&queued, &handlers, wake, NULL) : -1;
}

static int teardown(void **state)
{
    (void)state;
    queued_requests_destroy(&queued);
    sem_destroy(&begun);
    sem_destroy(&gate);
    sem_destroy(&done);
    return 0;
}

// A job of a client (its number) of an owner; its id is its number.
static int submit(int client, const char *owner, int64_t deadline_ns)
{
    struct queued_request *job = &jobs[n_jobs];
    *job = (struct queued_request){
        .id = (uint64_t)n_jobs, .deadline_ns = deadline_ns, .bytes = bytes, .n_bytes = n_bytes};
    snprintf(job->owner, sizeof job->owner, "%s", owner);
    job->client = client_enter(&client, sizeof client);
    assert_non_null(job->client);
    const int error = queued_requests_submit(queued, HANDLERS_COMMAND, job);
    if (error)
        client_leave(job->client);
    else
        n_jobs++;
    return error;
}

// The answers of all, in the order of their ends.
static void take_all(posed_Code codes[N_JOBS])
{
    for (int i = 0; i < n_jobs; i++) {
        posed_Reply reply;
        sem_wait(&done);
        struct queued_request *job = queued_requests_take_done(queued);
        assert_non_null(job);
        assert_int_equal(wire_decode_reply(job->answer, job->n_answer, &reply), 0);
        assert_int_equal(reply.id, job->id);
        codes[job->id] = reply.code;
        free(job->answer);
        client_leave(job->client);
    }
    assert_null(queued_requests_take_done(queued));
}

static int64_t soon(void)
{
    return clock_monotonic_ns() + INT64_C(60000000000);
}

static void let_go(void)
{
    for (int i = 0; i < N_JOBS; i++)
        sem_post(&gate);
}

// Whatever its connections, an owner has three quarters of the places and the worker at most.
static void owners_leave_places(void **state)
{
    (void)state;
    posed_Code codes[N_JOBS];
    assert_int_equal(submit(0, "uid 1", soon()), 0);
    sem_wait(&begun);
    for (int i = 1; i < N_PLACES - N_PLACES / 4 + 1; i++)
        assert_int_equal(submit(i, "uid 1", soon()), 0);
    assert_int_equal(submit(50, "uid 1", soon()), -EBUSY);
    assert_int_equal(submit(60, "uid 2", soon()), 0);
    assert_int_equal(submit(61, "uid 3", soon()), 0);
    assert_int_equal(submit(62, "uid 4", soon()), -EBUSY); // all places are taken
    let_go();
    take_all(codes);
    for (int i = 0; i < n_jobs; i++)
        assert_int_equal(codes[i], posed_Code_OK);
    assert_int_equal(n_run, n_jobs);
    queued_requests_end(queued);
}

static void deadlines_and_cancels(void **state)
{
    (void)state;
    posed_Code codes[N_JOBS];
    assert_int_equal(submit(0, "a", soon()), 0);
    sem_wait(&begun);
    assert_int_equal(submit(1, "a", clock_monotonic_ns() - 1), 0); // has passed
    assert_int_equal(submit(2, "a", soon()), 0);
    assert_int_equal(submit(3, "a", soon()), 0);
    assert_int_equal(submit(4, "a", soon()), 0);
    assert_true(queued_requests_cancel(queued, jobs[0].client, 0));  // runs
    assert_true(queued_requests_cancel(queued, jobs[2].client, 2));  // waits
    assert_false(queued_requests_cancel(queued, jobs[3].client, 4)); // another client's
    assert_false(queued_requests_cancel(queued, jobs[3].client, 9));
    let_go();
    take_all(codes);
    assert_int_equal(codes[0], posed_Code_CANCELLED);
    assert_int_equal(codes[1], posed_Code_DEADLINE_EXCEEDED);
    assert_int_equal(codes[2], posed_Code_CANCELLED);
    assert_int_equal(codes[3], posed_Code_OK);
    assert_int_equal(codes[4], posed_Code_OK);
    assert_int_equal(n_run, 3); // nothing was done for the others
    queued_requests_end(queued);
}

static void the_end(void **state)
{
    (void)state;
    posed_Code codes[N_JOBS];
    assert_int_equal(submit(0, "a", soon()), 0);
    sem_wait(&begun);
    assert_int_equal(submit(1, "a", soon()), 0);
    queued_requests_cancel_all(queued, jobs[1].client);
    assert_int_equal(submit(2, "a", soon()), 0);
    let_go();
    queued_requests_end(queued);
    assert_int_equal(submit(3, "a", soon()), -ESHUTDOWN);
    take_all(codes);
    assert_true(codes[0] == posed_Code_CANCELLED || codes[0] == posed_Code_OK);
    assert_true(codes[1] == posed_Code_UNAVAILABLE || codes[1] == posed_Code_CANCELLED);
    assert_true(codes[2] != posed_Code_DEADLINE_EXCEEDED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(owners_leave_places, setup, teardown),
        cmocka_unit_test_setup_teardown(deadlines_and_cancels, setup, teardown),
        cmocka_unit_test_setup_teardown(the_end, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

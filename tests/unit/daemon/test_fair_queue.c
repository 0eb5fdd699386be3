// SPDX-License-Identifier: Apache-2.0
// The queue in front of a worker: what each client may have waiting, and whose turn it is.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <semaphore.h>
#include <string.h>

#include "daemon/fair_queue.h"

#define N_QUEUE 16

// A job is its client's letter, and what ran is written down. The gate holds the worker in its
// first job while the queue is filled.
struct bench {
    struct fair_queue *worker;
    sem_t started, gate, ended;
    const char *lively; // come again until N_QUEUE jobs have run
    char ran[N_QUEUE + 1];
    size_t n_ran;
};

static char names[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
static char gate_job = '*';

static bool submit(struct bench *bench, char client)
{
    char *name = names + (client - 'A');
    return fair_queue_submit(bench->worker, name, name);
}

static void run(void *user, void *job)
{
    struct bench *bench = user;
    char client = *(const char *)job;
    if (job == &gate_job) {
        sem_post(&bench->started);
        sem_wait(&bench->gate);
        return;
    }
    if (bench->n_ran == N_QUEUE)
        return;
    bench->ran[bench->n_ran++] = client;
    bool goes_on = bench->n_ran < N_QUEUE;
    if (goes_on && strchr(bench->lively, client))
        goes_on = submit(bench, client);
    if (!goes_on)
        sem_post(&bench->ended);
}

static void open_bench(struct bench *bench, size_t n_queue)
{
    *bench = (struct bench){.lively = ""};
    sem_init(&bench->started, 0, 0);
    sem_init(&bench->gate, 0, 0);
    sem_init(&bench->ended, 0, 0);
    assert_int_equal(fair_queue_create(&bench->worker, n_queue, false, run, NULL, bench), 0);
    assert_true(fair_queue_submit(bench->worker, names, &gate_job)); // A's
    sem_wait(&bench->started);
}

// Runs what waits; ran[] is its order.
static void close_bench(struct bench *bench)
{
    sem_post(&bench->gate);
    fair_queue_destroy(&bench->worker);
    sem_destroy(&bench->started);
    sem_destroy(&bench->gate);
    sem_destroy(&bench->ended);
}

static void nobody_fills_the_queue_alone(void **state)
{
    (void)state;
    static const size_t expected[] = {8, 4, 2, 1, 1, 0};
    struct bench bench;
    open_bench(&bench, N_QUEUE);
    for (size_t client = 0; client < sizeof expected / sizeof expected[0]; client++) {
        size_t n = 0;
        while (submit(&bench, names[client]))
            n++;
        assert_int_equal(n, expected[client]);
    }
    close_bench(&bench);
    assert_int_equal(bench.n_ran, N_QUEUE);
}

static void a_queue_of_one_takes_one(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, 1);
    assert_true(submit(&bench, 'A'));
    assert_false(submit(&bench, 'A'));
    assert_false(submit(&bench, 'B'));
    close_bench(&bench);
    assert_string_equal(bench.ran, "A");
}

static void clients_take_turns(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, N_QUEUE);
    for (const char *c = "AAAABBC"; *c; c++)
        assert_true(submit(&bench, *c));
    close_bench(&bench);
    assert_string_equal(bench.ran, "BACABAA");
}

// Two clients submit their next job as soon as one is done; the third one's jobs run all the same.
static void the_lively_do_not_starve_the_patient(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, N_QUEUE);
    bench.lively = "AB";
    for (const char *c = "CCCAB"; *c; c++)
        assert_true(submit(&bench, *c));
    sem_post(&bench.gate);
    sem_wait(&bench.ended);
    close_bench(&bench);
    assert_memory_equal(bench.ran, "CABCABCABABABABA", N_QUEUE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_fills_the_queue_alone),
        cmocka_unit_test(a_queue_of_one_takes_one),
        cmocka_unit_test(clients_take_turns),
        cmocka_unit_test(the_lively_do_not_starve_the_patient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

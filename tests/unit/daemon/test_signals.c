// SPDX-License-Identifier: Apache-2.0
// A capture may be closed as soon as signals_wake has returned: no handler holds it any more. The
// handlers run on a thread of their own, and capture_interrupt is this file's (--wrap).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "capture/capture.h"
#include "daemon/signals.h"

#define SLOW_NS   50000000
#define N_CHANGES 20000

static atomic_int n_inside, n_calls, n_bad;
static atomic_bool slow, end;
static _Atomic uintptr_t open_capture; // the one that may be used

void __wrap_capture_interrupt(struct capture *capture);
void __wrap_capture_interrupt(struct capture *capture)
{
    atomic_fetch_add(&n_inside, 1);
    if (atomic_load(&slow))
        nanosleep(&(struct timespec){0, SLOW_NS}, NULL);
    if (!capture || atomic_load(&open_capture) != (uintptr_t)capture)
        atomic_fetch_add(&n_bad, 1);
    atomic_fetch_add(&n_calls, 1);
    atomic_fetch_sub(&n_inside, 1);
}

static void *raise_often(void *user)
{
    (void)user;
    while (!atomic_load(&end))
        raise(SIGTERM); // on this thread
    return NULL;
}

static void *raise_once(void *user)
{
    raise(*(int *)user);
    return NULL;
}

static struct capture *capture_at(uintptr_t address)
{
    atomic_store(&open_capture, address);
    return (struct capture *)address; // never looked into
}

static void test_flags(void **state)
{
    (void)state;
    assert_false(signals_stop());
    assert_false(signals_take_reload());
    raise(SIGHUP);
    assert_false(signals_stop());
    assert_true(signals_take_reload());
    assert_false(signals_take_reload());
    signals_wake(3, capture_at(16));
    raise(SIGINT);
    assert_true(signals_stop());
    assert_int_equal(n_calls, 1);
    signals_wake(3, NULL);
    raise(SIGTERM);
    assert_int_equal(n_calls, 1);
}

// A handler that is inside is waited for.
static void test_waits(void **state)
{
    (void)state;
    pthread_t thread;
    int number = SIGTERM;
    atomic_store(&slow, true);
    signals_wake(0, capture_at(32));
    assert_int_equal(pthread_create(&thread, NULL, raise_once, &number), 0);
    while (atomic_load(&n_inside) == 0)
        ;
    signals_wake(0, NULL);
    assert_int_equal(n_inside, 0);
    pthread_join(thread, NULL);
    atomic_store(&slow, false);
    assert_int_equal(n_bad, 0);
}

// No handler ever sees one that has been closed, or none.
static void test_changes(void **state)
{
    (void)state;
    pthread_t thread;
    int before = n_calls;
    assert_int_equal(pthread_create(&thread, NULL, raise_often, NULL), 0);
    for (uintptr_t i = 1; i <= N_CHANGES || n_calls == before; i++) {
        signals_wake(1, capture_at(i * 64));
        signals_wake(1, NULL);
        capture_at(0);
    }
    atomic_store(&end, true);
    pthread_join(thread, NULL);
    assert_true(n_calls > before);
    assert_int_equal(n_bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_changes),
    };
    signals_catch();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

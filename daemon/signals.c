// SPDX-License-Identifier: Apache-2.0
// A handler counts itself in before it takes a pointer and out after its use; who replaces one
// waits until nobody is inside. All of it in one total order (seq_cst): a handler that is not
// counted yet finds the new pointer. A lock would not do, as a handler may stand on its owner.
#include "daemon/signals.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#include "capture/capture.h"
#include "daemon/config/config.h"

static atomic_int stop_signal, reload_signal, n_inside;
static struct capture *_Atomic captures[CONFIG_MAX_CAMERAS];

_Static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_POINTER_LOCK_FREE == 2, "used in a handler");

static void on_signal(int number)
{
    if (number == SIGHUP) {
        atomic_store(&reload_signal, 1);
        return;
    }
    atomic_store(&stop_signal, number);
    atomic_fetch_add(&n_inside, 1);
    for (int i = 0; i < CONFIG_MAX_CAMERAS; i++) {
        struct capture *capture = atomic_load(&captures[i]);
        if (capture)
            capture_interrupt(capture);
    }
    atomic_fetch_sub(&n_inside, 1);
}

void signals_catch(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

bool signals_stop(void)
{
    return atomic_load(&stop_signal) != 0;
}

bool signals_take_reload(void)
{
    return atomic_exchange(&reload_signal, 0) != 0;
}

void signals_wake(uint32_t camera, struct capture *capture)
{
    atomic_store(&captures[camera], capture);
    while (atomic_load(&n_inside) > 0)
        sched_yield();
}

// SPDX-License-Identifier: Apache-2.0
#include "capture/reconnect.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "capture/driver.h"
#include "proto/clock.h"

#define MS            INT64_C(1000000)
#define RETRY_MIN_NS  (20 * MS)
#define RETRY_MAX_NS  (500 * MS)
#define FIRST_OPEN_NS (10000 * MS)
#define SILENCE_NS    (1500 * MS) // a streaming camera sends 30 frames/s
#define HANG_NS       (3000 * MS)

static struct timespec at(int64_t ns)
{
    return (struct timespec){ns / 1000000000, ns % 1000000000};
}

// Sleeps until then, or until told to quit.
static void doze(struct supervise *supervise, int64_t until_ns)
{
    const struct timespec until = at(until_ns);
    pthread_mutex_lock(&supervise->lock);
    while (!atomic_load(&supervise->quit) &&
           pthread_cond_timedwait(&supervise->news, &supervise->lock, &until) == 0)
        ;
    pthread_mutex_unlock(&supervise->lock);
}

static void tell_missing(struct supervise *supervise, const char *reason)
{
    if (!strcmp(supervise->told, reason))
        return;
    snprintf(supervise->told, sizeof supervise->told, "%s", reason);
    log_to(&supervise->log, LOG_LEVEL_WARNING, "%s: %s; waiting for it", supervise->name, reason);
}

static bool try_open(struct supervise *supervise)
{
    char reason[SUPERVISE_REASON_BYTES] = "it cannot be opened";
    if (supervise->camera->open(supervise->user, reason)) {
        supervise->told[0] = 0;
        return true;
    }
    tell_missing(supervise, reason);
    return false;
}

// Until the camera is gone, silent, or no longer wanted. Returns why.
static const char *serve(struct supervise *supervise)
{
    int64_t last_ns = clock_monotonic_ns();
    while (!atomic_load(&supervise->quit)) {
        enum supervise_served served = supervise->camera->serve(supervise->user);
        int64_t now_ns = clock_monotonic_ns();
        if (served == SUPERVISE_GONE)
            return "the camera is gone";
        if (served == SUPERVISE_FRAME)
            last_ns = now_ns;
        else if (now_ns - last_ns > SILENCE_NS)
            return "the camera is silent";
    }
    return NULL;
}

static void watch(struct supervise *supervise)
{
    for (;;) {
        const char *ended = serve(supervise);
        supervise->camera->close(supervise->user);
        if (!ended)
            return;
        tell_missing(supervise, ended);
        int64_t pause_ns = RETRY_MIN_NS;
        do {
            doze(supervise, clock_monotonic_ns() + pause_ns);
            pause_ns = 2 * pause_ns < RETRY_MAX_NS ? 2 * pause_ns : RETRY_MAX_NS;
            if (atomic_load(&supervise->quit))
                return;
        } while (!try_open(supervise));
        log_to(&supervise->log, LOG_LEVEL_NOTICE, "%s: the camera is back", supervise->name);
    }
}

static void *run(void *argument)
{
    struct supervise *supervise = argument;
    watch(supervise);
    atomic_store(&supervise->ended, true);
    return NULL;
}

int supervise_open(struct supervise *supervise, const struct supervise_camera *camera, void *user,
                   const char *name, const struct log_sink *log)
{
    *supervise = (struct supervise){.camera = camera, .user = user, .log = *log};
    snprintf(supervise->name, sizeof supervise->name, "%s", name);
    int64_t until_ns = clock_monotonic_ns() + FIRST_OPEN_NS;
    while (!try_open(supervise)) {
        if (clock_monotonic_ns() > until_ns) {
            log_to(log, LOG_LEVEL_ERROR, "%s: %s", name, supervise->told);
            supervise->camera = NULL;
            return -ENODEV;
        }
        const struct timespec pause = at(RETRY_MAX_NS);
        nanosleep(&pause, NULL);
    }
    return 0;
}

int supervise_start(struct supervise *supervise)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&supervise->lock, NULL);
    pthread_cond_init(&supervise->news, &monotonic);
    pthread_condattr_destroy(&monotonic);
    sigset_t all, old; // signals are the process's business
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int err = pthread_create(&supervise->thread, NULL, run, supervise);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    supervise->runs = !err;
    if (err) {
        pthread_cond_destroy(&supervise->news);
        pthread_mutex_destroy(&supervise->lock);
    }
    return -err;
}

bool supervise_stop(struct supervise *supervise)
{
    if (!supervise->runs) {
        if (supervise->camera)
            supervise->camera->close(supervise->user);
        return true;
    }
    pthread_mutex_lock(&supervise->lock);
    atomic_store(&supervise->quit, true);
    pthread_cond_signal(&supervise->news);
    pthread_mutex_unlock(&supervise->lock);
    const struct timespec until = at(clock_monotonic_ns() + HANG_NS);
    if (pthread_clockjoin_np(supervise->thread, NULL, CLOCK_MONOTONIC, &until) != 0) {
        log_to(&supervise->log, LOG_LEVEL_WARNING, "%s: the camera hangs, it is left behind",
               supervise->name);
        pthread_detach(supervise->thread);
        return false;
    }
    (void)atomic_load(&supervise->ended); // ThreadSanitizer does not know pthread_clockjoin_np
    pthread_cond_destroy(&supervise->news);
    pthread_mutex_destroy(&supervise->lock);
    return true;
}

int supervise_parse(const char *driver, const char *location, const struct log_sink *log,
                    struct supervise_place *out)
{
    *out = (struct supervise_place){.width_px = 0};
    size_t n = strcspn(location, ",");
    const char *option = location + n;
    char end = 0;
    bool has_size =
        *option && sscanf(option, ",size=%4ux%4u%c", &out->width_px, &out->height_px, &end) == 2;
    bool is_sane =
        !*option || (has_size && out->width_px >= 1 && out->height_px >= 1 &&
                     out->width_px <= CAPTURE_MAX_SIDE_PX && out->height_px <= CAPTURE_MAX_SIDE_PX);
    if (n >= sizeof out->place || !is_sane) {
        log_to(log, LOG_LEVEL_ERROR, "%s:%s: expected %s:[CAMERA][,size=WIDTHxHEIGHT]", driver,
               location, driver);
        return -EINVAL;
    }
    memcpy(out->place, location, n);
    return 0;
}

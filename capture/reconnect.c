// SPDX-License-Identifier: Apache-2.0
#include "capture/reconnect.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "capture/driver.h"
#include "proto/clock.h"

#define MS           INT64_C(1000000)
#define FIRST_OPEN_S 10
#define SILENCE_NS   (1500 * MS) // a streaming camera sends 30 frames/s
#define HANG_NS      (3000 * MS)
#define STEP_NS      (20 * MS) // of a pause that may be cut short

// Sleeps until then, or until told to quit.
static void doze(struct reconnect *reconnect, int64_t until_ns)
{
    const struct timespec until = clock_timespec(until_ns);
    pthread_mutex_lock(&reconnect->lock);
    while (!atomic_load(&reconnect->quit) &&
           pthread_cond_timedwait(&reconnect->news, &reconnect->lock, &until) == 0)
        ;
    pthread_mutex_unlock(&reconnect->lock);
}

static void tell_missing(struct reconnect *reconnect, const char *reason, const char *until)
{
    if (!strcmp(reconnect->told, reason))
        return;
    snprintf(reconnect->told, sizeof reconnect->told, "%s", reason);
    log_to(&reconnect->log, LOG_LEVEL_WARNING, "%s: %s; waiting for it%s", reconnect->name, reason,
           until);
}

static bool try_open(struct reconnect *reconnect, const char *until)
{
    char reason[RECONNECT_REASON_BYTES] = "it cannot be opened";
    if (reconnect->camera->open(reconnect->user, reason)) {
        reconnect->told[0] = 0;
        return true;
    }
    tell_missing(reconnect, reason, until);
    return false;
}

// Until the camera is gone, silent, or no longer wanted. Returns why.
static const char *serve(struct reconnect *reconnect)
{
    int64_t last_ns = clock_monotonic_ns();
    while (!atomic_load(&reconnect->quit)) {
        enum reconnect_served served = reconnect->camera->serve(reconnect->user);
        int64_t now_ns = clock_monotonic_ns();
        if (served == RECONNECT_GONE)
            return "the camera is gone";
        if (served == RECONNECT_FRAME)
            last_ns = now_ns;
        else if (now_ns - last_ns > SILENCE_NS)
            return "the camera is silent";
    }
    return NULL;
}

static void watch(struct reconnect *reconnect)
{
    for (;;) {
        const char *ended = serve(reconnect);
        reconnect->camera->close(reconnect->user);
        if (!ended)
            return;
        tell_missing(reconnect, ended, "");
        int64_t pause_ns = RECONNECT_MIN_NS;
        do {
            doze(reconnect, clock_monotonic_ns() + pause_ns);
            pause_ns = 2 * pause_ns < RECONNECT_MAX_NS ? 2 * pause_ns : RECONNECT_MAX_NS;
            if (atomic_load(&reconnect->quit))
                return;
        } while (!try_open(reconnect, ""));
        log_to(&reconnect->log, LOG_LEVEL_NOTICE, "%s: the camera is back", reconnect->name);
    }
}

static void *run(void *argument)
{
    struct reconnect *reconnect = argument;
    watch(reconnect);
    atomic_store(&reconnect->ended, true);
    return NULL;
}

// Between two attempts of the first opening. Returns whether to go on.
static bool pause_unless_stopped(const struct capture_settings *settings)
{
    const struct timespec pause = clock_timespec(STEP_NS);
    for (int64_t slept_ns = 0; slept_ns < RECONNECT_MAX_NS; slept_ns += STEP_NS) {
        if (settings->is_stopped && settings->is_stopped())
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

int reconnect_open(struct reconnect *reconnect, const struct reconnect_camera *camera, void *user,
                   const char *driver, const char *place, const struct capture_settings *settings)
{
    const struct log_sink *log = &settings->log;
    char until[40];
    snprintf(until, sizeof until, ", %d s; see posectl doctor", FIRST_OPEN_S);
    *reconnect = (struct reconnect){.camera = camera, .user = user, .log = *log};
    snprintf(reconnect->name, sizeof reconnect->name, *place ? "%s:%s" : "%s", driver, place);
    int64_t until_ns = clock_monotonic_ns() + FIRST_OPEN_S * 1000 * MS;
    while (!try_open(reconnect, until)) {
        if (clock_monotonic_ns() > until_ns) {
            log_to(log, LOG_LEVEL_ERROR, "%s: %s", reconnect->name, reconnect->told);
            reconnect->camera = NULL;
            return -ENODEV;
        }
        if (!pause_unless_stopped(settings)) {
            reconnect->camera = NULL;
            return -EINTR;
        }
    }
    return 0;
}

int reconnect_start(struct reconnect *reconnect)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&reconnect->lock, NULL);
    pthread_cond_init(&reconnect->news, &monotonic);
    pthread_condattr_destroy(&monotonic);
    sigset_t all, old; // signals are the process's business
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int err = pthread_create(&reconnect->thread, NULL, run, reconnect);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    reconnect->runs = !err;
    if (err) {
        pthread_cond_destroy(&reconnect->news);
        pthread_mutex_destroy(&reconnect->lock);
    }
    return -err;
}

bool reconnect_stop(struct reconnect *reconnect)
{
    if (!reconnect->runs) {
        if (reconnect->camera)
            reconnect->camera->close(reconnect->user);
        return true;
    }
    pthread_mutex_lock(&reconnect->lock);
    atomic_store(&reconnect->quit, true);
    pthread_cond_signal(&reconnect->news);
    pthread_mutex_unlock(&reconnect->lock);
    const struct timespec until = clock_timespec(clock_monotonic_ns() + HANG_NS);
    if (pthread_clockjoin_np(reconnect->thread, NULL, CLOCK_MONOTONIC, &until) != 0) {
        log_to(&reconnect->log, LOG_LEVEL_WARNING, "%s: the camera hangs, it is left behind",
               reconnect->name);
        pthread_detach(reconnect->thread);
        return false;
    }
    (void)atomic_load(&reconnect->ended); // ThreadSanitizer does not know pthread_clockjoin_np
    pthread_cond_destroy(&reconnect->news);
    pthread_mutex_destroy(&reconnect->lock);
    return true;
}

int reconnect_parse(const char *driver, const char *location, const struct log_sink *log,
                    struct reconnect_place *out)
{
    *out = (struct reconnect_place){.width_px = 0};
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

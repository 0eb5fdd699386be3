// SPDX-License-Identifier: Apache-2.0
// Driver `kinect`: Kinect v1 through libfreenect, raw 11-bit disparity converted here with the
// device's own parameters. "kinect:" is the first camera, "kinect:1" the second, any longer word a
// serial number. A supervisor starts a session with the camera, and the next when one has ended or
// hangs, until the driver is closed.
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "capture/driver.h"
#include "capture/kinect/device_clock.h"
#include "capture/kinect/disparity.h"
#include "capture/kinect/kinect.h"
#include "capture/live_clock.h"
#include "capture/live_queue.h"
#include "capture/reconnect.h"
#include "proto/clock.h"

#define W KINECT_WIDTH_PX
#define H KINECT_HEIGHT_PX

#define MS            INT64_C(1000000)
#define FIRST_OPEN_NS (3000 * MS) // how long capture_open waits for the camera's own parameters

struct kinect {
    struct log_sink log;
    char which[64]; // index or serial number
    char name[72];  // "kinect 0", for the log
    double units_per_m;

    pthread_t supervisor;
    pthread_mutex_t lock;
    pthread_cond_t news; // for the supervisor, on CLOCK_MONOTONIC
    bool quit;

    bool tried;    // a first session has opened its camera or failed to
    bool streamed; // the present session has delivered a frame

    double zero_plane[4]; // of the present camera, 0 = the usual ones; and its table
    struct disparity_table table;
    struct device_clock device_clock; // on CLOCK_MONOTONIC
    struct live_clock clock;
    float gravity_m_s2[3];
    uint64_t n_frames;

    struct live live; // to the reader
};

static struct live_camera camera_of(const double zero_plane[4])
{
    double f_px = zero_plane[0] != 0 ? zero_plane[2] / zero_plane[1] / 2 : 120 / 0.1042 / 2;
    struct live_camera camera = {.intrinsics = {f_px, f_px, 314.5, 235.5, W, H}};
    memcpy(camera.zero_plane, zero_plane, sizeof camera.zero_plane);
    return camera;
}

static void on_frame(void *user, const void *raw, uint32_t ticks, uint32_t n_lost)
{
    struct kinect *kinect = user;
    int64_t now_ns = clock_monotonic_ns();
    struct capture_frame frame = {.image = {.width_px = W, .height_px = H},
                                  .flags = n_lost ? CAPTURE_DAMAGED : 0,
                                  .capture_mono_ns = now_ns,
                                  .n_lost_packets = n_lost};
    int64_t taken_ns;
    if (!device_clock_update(&kinect->device_clock, ticks, now_ns, &frame.device_ticks, &taken_ns))
        return; // the same frame again
    const struct live_clock_reading clocks = live_clock_read();
    live_clock_follow(&kinect->clock, &clocks);
    frame.image.time_ns = live_clock_wall_ns(&kinect->clock, taken_ns);
    frame.clock_set_ns = kinect->clock.offsets.set_ns;
    uint16_t *pixels = live_take(&kinect->live);
    if (pixels) { // fakenect's images begin at odd addresses
        memcpy(pixels, raw, sizeof(uint16_t) * W * H);
        disparity_to_mm(&kinect->table, pixels, (size_t)W * H, pixels);
    }
    pthread_mutex_lock(&kinect->lock);
    frame.image.units_per_m = kinect->units_per_m;
    memcpy(frame.gravity_m_s2, kinect->gravity_m_s2, sizeof frame.gravity_m_s2);
    frame.index = kinect->n_frames++;
    kinect->streamed = true;
    const struct live_camera camera = camera_of(kinect->zero_plane);
    pthread_mutex_unlock(&kinect->lock);
    live_put(&kinect->live, &frame, pixels, &camera);
}

// The device's own parameters, or the usual ones, before its first frame.
static void on_parameters(void *user, const double zero_plane[4])
{
    struct kinect *kinect = user;
    struct disparity_table table;
    static const double none[4] = {0};
    struct disparity_model model =
        disparity_from_zero_plane(zero_plane[0], zero_plane[1], zero_plane[2], zero_plane[3]);
    if (disparity_table_fill(&model, &table)) {
        zero_plane = none;
        model = disparity_default();
        if (disparity_table_fill(&model, &table))
            return;
    }
    pthread_mutex_lock(&kinect->lock);
    kinect->table = table;
    memcpy(kinect->zero_plane, zero_plane, sizeof kinect->zero_plane);
    pthread_mutex_unlock(&kinect->lock);
}

// The result of opening goes to capture_open, which waits for the first one.
static void on_opened(void *user, const char *failed)
{
    struct kinect *kinect = user;
    pthread_mutex_lock(&kinect->lock);
    bool first = !kinect->tried;
    kinect->tried = true;
    pthread_cond_broadcast(&kinect->news);
    pthread_mutex_unlock(&kinect->lock);
    if (!failed)
        log_to(&kinect->log, LOG_LEVEL_NOTICE, "kinect %s: camera open", kinect->which);
    else if (first)
        log_to(&kinect->log, LOG_LEVEL_WARNING,
               "kinect %s: %s; waiting for it as long as posed runs; see posectl doctor",
               kinect->which, failed);
}

static void on_gravity(void *user, const float gravity_m_s2[3])
{
    struct kinect *kinect = user;
    pthread_mutex_lock(&kinect->lock);
    memcpy(kinect->gravity_m_s2, gravity_m_s2, sizeof kinect->gravity_m_s2);
    pthread_mutex_unlock(&kinect->lock);
}

static void on_ended(void *user)
{
    struct kinect *kinect = user;
    pthread_mutex_lock(&kinect->lock);
    pthread_cond_broadcast(&kinect->news);
    pthread_mutex_unlock(&kinect->lock);
}

// Waits on the supervisor's condition, at most until_ns. Lock held.
static void doze(struct kinect *kinect, int64_t until_ns)
{
    const struct timespec until = clock_timespec(until_ns);
    pthread_cond_timedwait(&kinect->news, &kinect->lock, &until);
}

// Until the session has ended by itself, or has to be given up. The kinect's lock is not held.
static void attend(struct kinect *kinect, struct kinect_session *session)
{
    int64_t quit_ns = INT64_MAX; // since when it is told to end
    for (;;) {
        enum kinect_session_state state = kinect_session_state(session);
        int64_t now_ns = clock_monotonic_ns();
        if (state == KINECT_SESSION_ENDED)
            return;
        if (state == KINECT_SESSION_HANGS ||
            (now_ns > quit_ns && now_ns - quit_ns > KINECT_CALL_LIMIT_NS)) {
            log_to(&kinect->log, LOG_LEVEL_WARNING,
                   "kinect %s: libfreenect does not answer, session abandoned", kinect->which);
            return;
        }
        pthread_mutex_lock(&kinect->lock);
        bool quit = kinect->quit;
        doze(kinect, clock_monotonic_ns() + 50 * MS);
        pthread_mutex_unlock(&kinect->lock);
        if (quit && quit_ns == INT64_MAX) {
            quit_ns = clock_monotonic_ns();
            kinect_session_stop(session);
        }
    }
}

static void *reconnect(void *argument)
{
    struct kinect *kinect = argument;
    const struct kinect_listener listener = {.opened = on_opened,
                                             .parameters = on_parameters,
                                             .frame = on_frame,
                                             .gravity = on_gravity,
                                             .ended = on_ended,
                                             .user = kinect,
                                             .log = kinect->log};
    int64_t retry_ns = RECONNECT_MIN_NS;
    pthread_mutex_lock(&kinect->lock);
    while (!kinect->quit) {
        kinect->streamed = false;
        pthread_mutex_unlock(&kinect->lock);
        struct kinect_session *session;
        if (kinect_session_start(&session, kinect->which, &listener) == 0) {
            attend(kinect, session);
            kinect_session_release(&session);
        }
        pthread_mutex_lock(&kinect->lock);
        if (kinect->streamed && !kinect->quit) {
            log_to(&kinect->log, LOG_LEVEL_WARNING, "kinect %s: camera gone", kinect->which);
            retry_ns = RECONNECT_MIN_NS;
        }
        int64_t until_ns = clock_monotonic_ns() + retry_ns;
        while (!kinect->quit && clock_monotonic_ns() < until_ns)
            doze(kinect, until_ns);
        retry_ns = 2 * retry_ns < RECONNECT_MAX_NS ? 2 * retry_ns : RECONNECT_MAX_NS;
    }
    pthread_mutex_unlock(&kinect->lock);
    return NULL;
}

static void free_kinect(struct kinect *kinect)
{
    pthread_cond_destroy(&kinect->news);
    pthread_mutex_destroy(&kinect->lock);
    free(kinect);
}

static void kinect_close(void *state)
{
    struct kinect *kinect = state;
    pthread_mutex_lock(&kinect->lock);
    kinect->quit = true;
    pthread_cond_broadcast(&kinect->news);
    pthread_mutex_unlock(&kinect->lock);
    pthread_join(kinect->supervisor, NULL);
    live_destroy(&kinect->live);
    free_kinect(kinect);
}

static void init_locks(struct kinect *kinect)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&kinect->lock, NULL);
    pthread_cond_init(&kinect->news, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

// Signals are the process's business; its threads here take none, so that libusb's waits are not
// cut short.
static int start_supervisor(struct kinect *kinect)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int err = pthread_create(&kinect->supervisor, NULL, reconnect, kinect);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return -err;
}

static void kinect_recalibrate(void *state, struct capture_info *out_info)
{
    const struct live_camera *camera = &((struct kinect *)state)->live.camera;
    memcpy(out_info->zero_plane, camera->zero_plane, sizeof out_info->zero_plane);
    out_info->camera = camera->intrinsics;
    out_info->units_per_m = DISPARITY_UNITS_PER_M;
}

static int kinect_open(void **out_state, const char *location,
                       const struct capture_settings *settings, struct capture_info *out_info)
{
    struct kinect *kinect = calloc(1, sizeof *kinect);
    if (!kinect)
        return -ENOMEM;
    struct disparity_model model = disparity_default();
    kinect->log = settings->log;
    init_locks(kinect);
    int err = snprintf(kinect->which, sizeof kinect->which, "%s", *location ? location : "0") <
                      (int)sizeof kinect->which
                  ? disparity_table_fill(&model, &kinect->table)
                  : -EINVAL;
    if (!err && strlen(kinect->which) <= 2 &&
        strspn(kinect->which, "0123456789") != strlen(kinect->which))
        err = -EINVAL;
    if (err) {
        log_to(&settings->log, LOG_LEVEL_ERROR,
               "kinect:%s: expected a number or a serial number of 3..63 characters", location);
        goto fail;
    }
    for (int i = 0; i < 3; i++)
        kinect->gravity_m_s2[i] = NAN;
    kinect->units_per_m =
        settings->depth_scale != 0 ? settings->depth_scale : DISPARITY_UNITS_PER_M;
    snprintf(kinect->name, sizeof kinect->name, "kinect %s", kinect->which);
    const struct live_clock_reading clocks = live_clock_read();
    live_clock_begin(&kinect->clock, kinect->name, &kinect->log, &clocks);
    struct live_camera camera = camera_of(kinect->zero_plane);
    err = live_create(&kinect->live, &camera, settings->n_kept);
    if (err)
        goto fail;
    err = start_supervisor(kinect);
    if (err) {
        live_destroy(&kinect->live);
        goto fail;
    }

    // a camera that is there tells its parameters; one that comes later does so then
    int64_t until_ns = clock_monotonic_ns() + FIRST_OPEN_NS;
    pthread_mutex_lock(&kinect->lock);
    while (!kinect->tried && clock_monotonic_ns() < until_ns)
        doze(kinect, until_ns);
    camera = camera_of(kinect->zero_plane);
    pthread_mutex_unlock(&kinect->lock);
    live_know(&kinect->live, &camera);
    kinect_recalibrate(kinect, out_info);
    out_info->live = true;
    out_info->period_ns = 1000000000 / 30;
    *out_state = kinect;
    return 0;
fail:
    free_kinect(kinect);
    return err;
}

static int kinect_wait(void *state, int timeout_ms, struct capture_frame *out_frame)
{
    return live_wait(&((struct kinect *)state)->live, timeout_ms, out_frame);
}

static struct buffers *kinect_buffers(void *state)
{
    return &((struct kinect *)state)->live.buffers;
}

static void kinect_interrupt(void *state)
{
    live_interrupt(&((struct kinect *)state)->live);
}

const struct capture_driver capture_driver_kinect = {
    .name = "kinect",
    .summary = "Kinect v1 (first camera, or :NUMBER, or :SERIAL)",
    .open = kinect_open,
    .wait = kinect_wait,
    .recalibrate = kinect_recalibrate,
    .buffers = kinect_buffers,
    .interrupt = kinect_interrupt,
    .close = kinect_close,
};

// SPDX-License-Identifier: Apache-2.0
// The sync API of libfreenect asserts and has no time limit: not used. LED and tilt are left alone.
#include "capture/kinect/kinect.h"

#include <errno.h>
#include <libfreenect.h>
#include <libfreenect_registration.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "capture/kinect/gravity.h"
#include "proto/clock.h"

// fakenect, libfreenect's double for tests, has no registration.
extern __typeof(freenect_copy_registration) freenect_copy_registration __attribute__((weak));
extern __typeof(freenect_destroy_registration) freenect_destroy_registration __attribute__((weak));

#define MS            INT64_C(1000000)
#define OPEN_LIMIT_NS (15000 * MS) // opening may load firmware
#define SILENCE_NS    (1500 * MS)  // a streaming camera sends 30 frames/s
#define GRAVITY_NS    (150 * MS)

// Lives until both its thread and the owner have let go.
struct kinect_session {
    pthread_mutex_t lock;
    struct kinect_listener listener;
    bool heard; // the owner listens; what it is told, it is told under the lock
    bool stop, done;
    int64_t call_begin_ns, call_limit_ns; // the call of libfreenect in progress
    char which[64];
    uint32_t n_lost_packets; // since the last frame; this thread only
    int64_t last_frame_ns;   // likewise
    int n_owners;
};

static void let_go(struct kinect_session *session)
{
    pthread_mutex_lock(&session->lock);
    bool last = --session->n_owners == 0;
    pthread_mutex_unlock(&session->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&session->lock);
    free(session);
}

static void call_begins(struct kinect_session *session, int64_t limit_ns)
{
    pthread_mutex_lock(&session->lock);
    session->call_begin_ns = clock_monotonic_ns();
    session->call_limit_ns = limit_ns;
    pthread_mutex_unlock(&session->lock);
}

static void on_depth(freenect_device *dev, void *depth, uint32_t ticks)
{
    struct kinect_session *session = freenect_get_user(dev);
    pthread_mutex_lock(&session->lock);
    if (session->heard)
        session->listener.frame(session->listener.user, depth, ticks, session->n_lost_packets);
    session->n_lost_packets = 0;
    session->last_frame_ns = clock_monotonic_ns();
    pthread_mutex_unlock(&session->lock);
}

// The session that runs in this thread: libfreenect's log callback has no user pointer.
static _Thread_local struct kinect_session *this_session;

// The only place where libfreenect tells of lost packets (242 make a frame; those that are lost
// leave old bytes in the image) is a log line: "[Stream 70] Lost 3 packets".
static void on_log(freenect_context *ctx, freenect_loglevel level, const char *message)
{
    (void)ctx;
    struct kinect_session *session = this_session;
    unsigned stream;
    int n_lost;
    if (!session)
        return;
    if (sscanf(message, "[Stream %x] Lost %d packets", &stream, &n_lost) == 2) {
        if (stream == 0x70 && n_lost > 0)
            session->n_lost_packets += (uint32_t)n_lost;
        return;
    }
    if (level > FREENECT_LOG_ERROR)
        return;
    pthread_mutex_lock(&session->lock);
    if (session->heard)
        log_to(&session->listener.log, LOG_LEVEL_DEBUG, "libfreenect: %.*s",
               (int)strcspn(message, "\n"), message);
    pthread_mutex_unlock(&session->lock);
}

static int open_which(freenect_context *ctx, freenect_device **dev, const char *which)
{
    if (strlen(which) <= 2)
        return freenect_open_device(ctx, dev, (int)strtol(which, NULL, 10));
    return freenect_open_device_by_camera_serial(ctx, dev, which);
}

// Models 1473 and K4W have their motor behind the audio firmware; where it does not open, the
// camera alone does.
static int open_camera(struct kinect_session *session, freenect_context *ctx, freenect_device **dev,
                       bool *out_motor)
{
    *out_motor = freenect_supported_subdevices() & FREENECT_DEVICE_MOTOR;
    freenect_select_subdevices(
        ctx,
        (freenect_device_flags)(FREENECT_DEVICE_CAMERA | (*out_motor ? FREENECT_DEVICE_MOTOR : 0)));
    int result = open_which(ctx, dev, session->which);
    if (result < 0 && *out_motor) {
        *out_motor = false;
        freenect_select_subdevices(ctx, FREENECT_DEVICE_CAMERA);
        result = open_which(ctx, dev, session->which);
    }
    return result;
}

static void tell_parameters(struct kinect_session *session, freenect_device *dev)
{
    double zero_plane[4] = {0};
    if (freenect_copy_registration && freenect_destroy_registration) {
        freenect_registration registration = freenect_copy_registration(dev);
        const freenect_zero_plane_info *plane = &registration.zero_plane_info;
        zero_plane[0] = registration.const_shift;
        zero_plane[1] = (double)plane->reference_pixel_size;
        zero_plane[2] = (double)plane->reference_distance;
        zero_plane[3] = (double)plane->dcmos_emitter_dist;
        freenect_destroy_registration(&registration);
    }
    pthread_mutex_lock(&session->lock);
    if (session->heard)
        session->listener.parameters(session->listener.user, zero_plane);
    pthread_mutex_unlock(&session->lock);
}

static int start_depth(struct kinect_session *session, freenect_device *dev)
{
    freenect_frame_mode mode =
        freenect_find_depth_mode(FREENECT_RESOLUTION_MEDIUM, FREENECT_DEPTH_11BIT);
    if (!mode.is_valid || mode.width != (int)KINECT_WIDTH_PX ||
        mode.height != (int)KINECT_HEIGHT_PX || freenect_set_depth_mode(dev, mode) < 0)
        return -1;
    freenect_set_user(dev, session);
    freenect_set_depth_callback(dev, on_depth);
    return freenect_start_depth(dev);
}

static void tell_opened(struct kinect_session *session, const char *failed)
{
    pthread_mutex_lock(&session->lock);
    if (session->heard)
        session->listener.opened(session->listener.user, failed);
    pthread_mutex_unlock(&session->lock);
}

static void poll_gravity(struct kinect_session *session, freenect_device *dev)
{
    float gravity[3] = {NAN, NAN, NAN};
    call_begins(session, KINECT_CALL_LIMIT_NS);
    if (freenect_update_tilt_state(dev) >= 0) {
        const freenect_raw_tilt_state *tilt = freenect_get_tilt_state(dev);
        const int16_t counts[3] = {tilt->accelerometer_x, tilt->accelerometer_y,
                                   tilt->accelerometer_z};
        if (counts[0] || counts[1] || counts[2])
            gravity_from_counts(counts, gravity);
    }
    pthread_mutex_lock(&session->lock);
    if (session->heard)
        session->listener.gravity(session->listener.user, gravity);
    pthread_mutex_unlock(&session->lock);
}

static bool is_told_to_stop(struct kinect_session *session)
{
    pthread_mutex_lock(&session->lock);
    bool stop = session->stop || !session->heard;
    pthread_mutex_unlock(&session->lock);
    return stop;
}

static void stream(struct kinect_session *session, freenect_context *ctx, freenect_device *dev,
                   bool motor)
{
    int64_t next_gravity_ns = 0;
    session->last_frame_ns = clock_monotonic_ns();
    while (!is_told_to_stop(session)) {
        struct timeval timeout = {0, 100000};
        call_begins(session, KINECT_CALL_LIMIT_NS);
        if (freenect_process_events_timeout(ctx, &timeout) < 0)
            return;
        int64_t now_ns = clock_monotonic_ns();
        if (now_ns - session->last_frame_ns > SILENCE_NS)
            return;
        if (motor && now_ns >= next_gravity_ns) {
            poll_gravity(session, dev);
            next_gravity_ns = now_ns + GRAVITY_NS;
        }
    }
}

static void *run_session(void *argument)
{
    struct kinect_session *session = argument;
    freenect_context *ctx = NULL;
    freenect_device *dev = NULL;
    bool motor = false;
    const char *failed = NULL;
    this_session = session;
    call_begins(session, OPEN_LIMIT_NS);
    if (freenect_init(&ctx, NULL) < 0) {
        failed = "libfreenect cannot be initialised (USB permissions?)";
        ctx = NULL;
    } else {
        freenect_set_log_callback(ctx, on_log);
        freenect_set_log_level(ctx, FREENECT_LOG_SPEW);
        if (open_camera(session, ctx, &dev, &motor) < 0) {
            failed = "no such camera";
            dev = NULL;
        } else {
            tell_parameters(session, dev);
            if (start_depth(session, dev) < 0)
                failed = "the depth stream does not start";
        }
    }
    tell_opened(session, failed);
    if (!failed)
        stream(session, ctx, dev, motor);
    call_begins(session, KINECT_CALL_LIMIT_NS);
    if (dev) {
        freenect_stop_depth(dev);
        freenect_close_device(dev);
    }
    if (ctx)
        freenect_shutdown(ctx);
    pthread_mutex_lock(&session->lock);
    session->done = true;
    if (session->heard)
        session->listener.ended(session->listener.user);
    pthread_mutex_unlock(&session->lock);
    let_go(session);
    return NULL;
}

int kinect_session_start(struct kinect_session **out, const char *which,
                         const struct kinect_listener *listener)
{
    struct kinect_session *session = *out = calloc(1, sizeof *session);
    if (!session)
        return -ENOMEM;
    pthread_mutex_init(&session->lock, NULL);
    session->listener = *listener;
    session->heard = true;
    session->n_owners = 2;
    session->call_begin_ns = clock_monotonic_ns();
    session->call_limit_ns = OPEN_LIMIT_NS;
    snprintf(session->which, sizeof session->which, "%s", which);
    pthread_t thread;
    int err = -pthread_create(&thread, NULL, run_session, session);
    if (err) {
        pthread_mutex_destroy(&session->lock);
        free(session);
        *out = NULL;
        return err;
    }
    pthread_detach(thread);
    return 0;
}

void kinect_session_stop(struct kinect_session *session)
{
    pthread_mutex_lock(&session->lock);
    session->stop = true;
    pthread_mutex_unlock(&session->lock);
}

enum kinect_session_state kinect_session_state(struct kinect_session *session)
{
    int64_t now_ns = clock_monotonic_ns();
    pthread_mutex_lock(&session->lock);
    bool hangs = now_ns - session->call_begin_ns > session->call_limit_ns;
    enum kinect_session_state state = session->done ? KINECT_SESSION_ENDED
                                      : hangs       ? KINECT_SESSION_HANGS
                                                    : KINECT_SESSION_RUNS;
    pthread_mutex_unlock(&session->lock);
    return state;
}

void kinect_session_release(struct kinect_session **session)
{
    pthread_mutex_lock(&(*session)->lock);
    (*session)->heard = false;
    pthread_mutex_unlock(&(*session)->lock);
    let_go(*session);
    *session = NULL;
}

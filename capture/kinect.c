// SPDX-License-Identifier: Apache-2.0
// Driver `kinect`: Kinect v1 through libfreenect 0.5.3, raw 11-bit disparity converted here with
// the device's own parameters. "kinect:" is the first camera, "kinect:1" the second, any longer
// word a serial number.
//
// libfreenect has no hot-plug: an unplugged camera makes its event call fail or fall silent, and a
// stop may hang for ever. So one thread lives through one session, from freenect_init to
// freenect_shutdown, and a supervisor starts the next when a session has ended, or abandons one
// that answers no more: its thread and memory are left behind, as nothing can take them back, but
// it holds no reference to us. The sync API of libfreenect asserts and has no time limit: not used.
// LED and tilt are left alone.
#include <errno.h>
#include <libfreenect.h>
#include <libfreenect_registration.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "capture/deviceclock.h"
#include "capture/disparity.h"
#include "capture/driver.h"
#include "capture/gravity.h"

// fakenect, libfreenect's double for tests, has no registration.
extern __typeof(freenect_copy_registration) freenect_copy_registration __attribute__((weak));
extern __typeof(freenect_destroy_registration) freenect_destroy_registration __attribute__((weak));

#define W         640u
#define H         480u
#define N_BUFFERS 6  // one with the reader, one being filled, four waiting
#define N_WAITING 64 // frames told of, with or without pixels: two seconds

#define MS            INT64_C(1000000)
// A call of libfreenect that takes longer is taken for hanging. Opening may load firmware.
#define CALL_LIMIT_NS (3000 * MS)
#define OPEN_LIMIT_NS (15000 * MS)
#define SILENCE_NS    (1500 * MS) // a streaming camera sends 30 frames/s
#define GRAVITY_NS    (150 * MS)
#define RETRY_MIN_NS  (20 * MS)
#define RETRY_MAX_NS  (500 * MS)
#define FIRST_OPEN_NS (3000 * MS) // how long capture_open waits for the camera's own parameters

struct waiting {
    struct capture_frame frame;
    uint16_t *pixels; // NULL: there was no buffer left
};

struct kinect {
    struct log_sink log;
    char which[64]; // index or serial number
    double units_per_m;
    int64_t realtime_offset_ns; // CLOCK_REALTIME - CLOCK_MONOTONIC at open: time never goes back

    pthread_t supervisor;
    pthread_mutex_t lock;
    pthread_cond_t news; // for the supervisor, on CLOCK_MONOTONIC
    sem_t wake;          // for the reader
    atomic_bool interrupted;
    bool quit;

    bool tried;    // a first session has opened its camera or failed to
    bool fixed;    // capture_info has told the parameters: they stay
    bool streamed; // the present session has delivered a frame
    bool writing;  // a frame is being converted

    double zero_plane[4];
    struct disparity_table table;
    struct deviceclock clock;
    float gravity_m_s2[3];
    uint64_t n_frames;

    struct buffers buffers;
    uint16_t *held; // the reader's
    struct waiting waiting[N_WAITING];
    uint64_t n_in, n_out;
};

// What libfreenect's callbacks see. Lives until both its thread and the supervisor have let go.
struct session {
    pthread_mutex_t lock;
    struct kinect *kinect; // NULL once abandoned
    bool stop, done;
    int64_t call_begin_ns, call_limit_ns; // the call of libfreenect in progress
    char which[64];
    uint32_t n_lost_packets; // since the last frame; this thread only
    int64_t last_frame_ns;   // likewise
    int n_owners;
};

static int64_t mono_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void session_release(struct session *session)
{
    pthread_mutex_lock(&session->lock);
    bool last = --session->n_owners == 0;
    pthread_mutex_unlock(&session->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&session->lock);
    free(session);
}

static void call_begins(struct session *session, int64_t limit_ns)
{
    pthread_mutex_lock(&session->lock);
    session->call_begin_ns = mono_ns();
    session->call_limit_ns = limit_ns;
    pthread_mutex_unlock(&session->lock);
}

// Takes a buffer for the frame that is now written, NULL when the reader is that far behind.
static uint16_t *take_buffer(struct kinect *kinect)
{
    pthread_mutex_lock(&kinect->lock);
    uint16_t *buffer = buffers_take(&kinect->buffers);
    kinect->writing = true;
    pthread_mutex_unlock(&kinect->lock);
    return buffer;
}

// One frame from libfreenect; the session's lock is held, so the kinect stays.
static void deliver(struct kinect *kinect, const void *raw, uint32_t ticks, uint32_t n_lost)
{
    int64_t now_ns = mono_ns();
    struct capture_frame frame = {.image = {.width_px = W, .height_px = H},
                                  .flags = n_lost ? CAPTURE_DAMAGED : 0,
                                  .capture_mono_ns = now_ns,
                                  .n_lost_packets = n_lost};
    if (!deviceclock_update(&kinect->clock, ticks, now_ns + kinect->realtime_offset_ns,
                            &frame.device_ticks, &frame.image.time_ns))
        return; // the same frame again
    uint16_t *pixels = take_buffer(kinect);
    if (atomic_load(&kinect->buffers.polls))
        sem_post(&kinect->wake);
    if (pixels) { // fakenect's images begin at odd addresses
        memcpy(pixels, raw, sizeof(uint16_t) * W * H);
        disparity_to_mm(&kinect->table, pixels, (size_t)W * H, pixels);
        buffers_written(&kinect->buffers, pixels);
    }
    pthread_mutex_lock(&kinect->lock);
    frame.image.units_per_m = kinect->units_per_m;
    memcpy(frame.gravity_m_s2, kinect->gravity_m_s2, sizeof frame.gravity_m_s2);
    frame.index = kinect->n_frames++;
    kinect->streamed = true;
    kinect->writing = false;
    if (kinect->n_in - kinect->n_out < N_WAITING)
        kinect->waiting[kinect->n_in++ % N_WAITING] = (struct waiting){frame, pixels};
    else
        buffers_give(&kinect->buffers, pixels); // nobody reads
    pthread_mutex_unlock(&kinect->lock);
    sem_post(&kinect->wake);
}

static void on_depth(freenect_device *dev, void *depth, uint32_t ticks)
{
    struct session *session = freenect_get_user(dev);
    pthread_mutex_lock(&session->lock);
    if (session->kinect)
        deliver(session->kinect, depth, ticks, session->n_lost_packets);
    session->n_lost_packets = 0;
    session->last_frame_ns = mono_ns();
    pthread_mutex_unlock(&session->lock);
}

// The session that runs in this thread: libfreenect's log callback has no user pointer.
static _Thread_local struct session *this_session;

// The only place where libfreenect tells of lost packets (242 make a frame; those that are lost
// leave old bytes in the image) is a log line: "[Stream 70] Lost 3 packets".
static void on_log(freenect_context *ctx, freenect_loglevel level, const char *message)
{
    (void)ctx;
    struct session *session = this_session;
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
    if (session->kinect)
        log_to(&session->kinect->log, LOG_LEVEL_DEBUG, "libfreenect: %.*s",
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
static int open_camera(struct session *session, freenect_context *ctx, freenect_device **dev,
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

// The device's own parameters, or the usual ones. Those that capture_info has told hold until the
// end: calibration, depth and recordings agree, even when the camera comes later, or another one.
static void take_parameters(struct session *session, freenect_device *dev)
{
    double zero_plane[4] = {0};
    struct disparity_table table;
    struct disparity_model model = disparity_default();
    if (freenect_copy_registration && freenect_destroy_registration) {
        freenect_registration registration = freenect_copy_registration(dev);
        const freenect_zero_plane_info *plane = &registration.zero_plane_info;
        struct disparity_model own = disparity_from_zero_plane(
            registration.const_shift, (double)plane->reference_pixel_size,
            (double)plane->reference_distance, (double)plane->dcmos_emitter_dist);
        if (!disparity_table_fill(&own, &table)) {
            model = own;
            zero_plane[0] = registration.const_shift;
            zero_plane[1] = (double)plane->reference_pixel_size;
            zero_plane[2] = (double)plane->reference_distance;
            zero_plane[3] = (double)plane->dcmos_emitter_dist;
        }
        freenect_destroy_registration(&registration);
    }
    bool usable = !disparity_table_fill(&model, &table);
    pthread_mutex_lock(&session->lock);
    struct kinect *kinect = session->kinect;
    if (kinect && usable) {
        pthread_mutex_lock(&kinect->lock);
        bool differ = memcmp(kinect->zero_plane, zero_plane, sizeof zero_plane) != 0;
        if (!kinect->fixed) {
            kinect->table = table;
            memcpy(kinect->zero_plane, zero_plane, sizeof zero_plane);
        } else if (differ) {
            log_to(
                &kinect->log, LOG_LEVEL_WARNING,
                "kinect %s: this camera's own parameters are not those at the start, which stay; "
                "start again to use them",
                session->which);
        }
        pthread_mutex_unlock(&kinect->lock);
    }
    pthread_mutex_unlock(&session->lock);
}

static int start_depth(struct session *session, freenect_device *dev)
{
    freenect_frame_mode mode =
        freenect_find_depth_mode(FREENECT_RESOLUTION_MEDIUM, FREENECT_DEPTH_11BIT);
    if (!mode.is_valid || mode.width != (int)W || mode.height != (int)H ||
        freenect_set_depth_mode(dev, mode) < 0)
        return -1;
    freenect_set_user(dev, session);
    freenect_set_depth_callback(dev, on_depth);
    return freenect_start_depth(dev);
}

// The result of opening goes to capture_open, which waits for the first one.
static void tell_tried(struct session *session, const char *failed)
{
    pthread_mutex_lock(&session->lock);
    struct kinect *kinect = session->kinect;
    if (kinect) {
        pthread_mutex_lock(&kinect->lock);
        bool first = !kinect->tried;
        kinect->tried = true;
        pthread_cond_broadcast(&kinect->news);
        pthread_mutex_unlock(&kinect->lock);
        if (!failed)
            log_to(&kinect->log, LOG_LEVEL_NOTICE, "kinect %s: camera open", session->which);
        else if (first)
            log_to(&kinect->log, LOG_LEVEL_WARNING, "kinect %s: %s; waiting for it", session->which,
                   failed);
    }
    pthread_mutex_unlock(&session->lock);
}

static void poll_gravity(struct session *session, freenect_device *dev)
{
    float gravity[3] = {NAN, NAN, NAN};
    call_begins(session, CALL_LIMIT_NS);
    if (freenect_update_tilt_state(dev) >= 0) {
        const freenect_raw_tilt_state *tilt = freenect_get_tilt_state(dev);
        const int16_t counts[3] = {tilt->accelerometer_x, tilt->accelerometer_y,
                                   tilt->accelerometer_z};
        if (counts[0] || counts[1] || counts[2])
            gravity_from_counts(counts, gravity);
    }
    pthread_mutex_lock(&session->lock);
    if (session->kinect) {
        pthread_mutex_lock(&session->kinect->lock);
        memcpy(session->kinect->gravity_m_s2, gravity, sizeof gravity);
        pthread_mutex_unlock(&session->kinect->lock);
    }
    pthread_mutex_unlock(&session->lock);
}

static bool is_told_to_stop(struct session *session)
{
    pthread_mutex_lock(&session->lock);
    bool stop = session->stop || !session->kinect;
    pthread_mutex_unlock(&session->lock);
    return stop;
}

static void stream(struct session *session, freenect_context *ctx, freenect_device *dev, bool motor)
{
    int64_t next_gravity_ns = 0;
    session->last_frame_ns = mono_ns();
    while (!is_told_to_stop(session)) {
        struct timeval timeout = {0, 100000};
        call_begins(session, CALL_LIMIT_NS);
        if (freenect_process_events_timeout(ctx, &timeout) < 0)
            return;
        int64_t now_ns = mono_ns();
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
    struct session *session = argument;
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
            take_parameters(session, dev);
            if (start_depth(session, dev) < 0)
                failed = "the depth stream does not start";
        }
    }
    tell_tried(session, failed);
    if (!failed)
        stream(session, ctx, dev, motor);
    call_begins(session, CALL_LIMIT_NS);
    if (dev) {
        freenect_stop_depth(dev);
        freenect_close_device(dev);
    }
    if (ctx)
        freenect_shutdown(ctx);
    pthread_mutex_lock(&session->lock);
    session->done = true;
    if (session->kinect) {
        pthread_mutex_lock(&session->kinect->lock);
        pthread_cond_broadcast(&session->kinect->news);
        pthread_mutex_unlock(&session->kinect->lock);
    }
    pthread_mutex_unlock(&session->lock);
    session_release(session);
    return NULL;
}

static struct session *start_session(struct kinect *kinect)
{
    struct session *session = calloc(1, sizeof *session);
    if (!session)
        return NULL;
    pthread_mutex_init(&session->lock, NULL);
    session->kinect = kinect;
    session->n_owners = 2;
    session->call_begin_ns = mono_ns();
    session->call_limit_ns = OPEN_LIMIT_NS;
    memcpy(session->which, kinect->which, sizeof session->which);
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_session, session)) {
        pthread_mutex_destroy(&session->lock);
        free(session);
        return NULL;
    }
    pthread_detach(thread);
    return session;
}

// Waits on the supervisor's condition, at most until_ns. Lock held.
static void doze(struct kinect *kinect, int64_t until_ns)
{
    struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    pthread_cond_timedwait(&kinect->news, &kinect->lock, &until);
}

// Until the session has ended by itself, or has to be given up. The kinect's lock is not held.
static void attend(struct kinect *kinect, struct session *session)
{
    int64_t quit_ns = INT64_MAX; // since when it is told to end
    for (;;) {
        int64_t now_ns = mono_ns();
        pthread_mutex_lock(&session->lock);
        bool done = session->done;
        bool hangs = now_ns - session->call_begin_ns > session->call_limit_ns ||
                     (now_ns > quit_ns && now_ns - quit_ns > CALL_LIMIT_NS);
        if (hangs && !done)
            session->kinect = NULL; // from here on it cannot reach us
        pthread_mutex_unlock(&session->lock);
        if (done)
            return;
        if (hangs) {
            log_to(&kinect->log, LOG_LEVEL_WARNING,
                   "kinect %s: libfreenect does not answer, session abandoned", kinect->which);
            return;
        }
        pthread_mutex_lock(&kinect->lock);
        bool quit = kinect->quit;
        doze(kinect, mono_ns() + 50 * MS);
        pthread_mutex_unlock(&kinect->lock);
        if (quit && quit_ns == INT64_MAX) {
            quit_ns = mono_ns();
            pthread_mutex_lock(&session->lock);
            session->stop = true;
            pthread_mutex_unlock(&session->lock);
        }
    }
}

static void *supervise(void *argument)
{
    struct kinect *kinect = argument;
    int64_t retry_ns = RETRY_MIN_NS;
    pthread_mutex_lock(&kinect->lock);
    while (!kinect->quit) {
        kinect->streamed = false;
        pthread_mutex_unlock(&kinect->lock);
        struct session *session = start_session(kinect);
        if (session) {
            attend(kinect, session);
            session_release(session);
        }
        pthread_mutex_lock(&kinect->lock);
        if (kinect->streamed && !kinect->quit) {
            log_to(&kinect->log, LOG_LEVEL_WARNING, "kinect %s: camera gone", kinect->which);
            retry_ns = RETRY_MIN_NS;
        }
        int64_t until_ns = mono_ns() + retry_ns;
        while (!kinect->quit && mono_ns() < until_ns)
            doze(kinect, until_ns);
        retry_ns = 2 * retry_ns < RETRY_MAX_NS ? 2 * retry_ns : RETRY_MAX_NS;
    }
    pthread_mutex_unlock(&kinect->lock);
    return NULL;
}

static void free_kinect(struct kinect *kinect)
{
    buffers_destroy(&kinect->buffers);
    pthread_cond_destroy(&kinect->news);
    pthread_mutex_destroy(&kinect->lock);
    sem_destroy(&kinect->wake);
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
    sem_init(&kinect->wake, 0, 0);
}

// Signals are the process's business; its threads here take none, so that libusb's waits are not
// cut short.
static int start_supervisor(struct kinect *kinect)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int err = pthread_create(&kinect->supervisor, NULL, supervise, kinect);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return -err;
}

static int kinect_open(void **out_state, const char *location,
                       const struct capture_settings *settings, struct capture_info *out_info)
{
    struct kinect *kinect = calloc(1, sizeof *kinect);
    if (!kinect)
        return -ENOMEM;
    struct timespec realtime;
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
    clock_gettime(CLOCK_REALTIME, &realtime);
    kinect->realtime_offset_ns =
        (int64_t)realtime.tv_sec * 1000000000 + realtime.tv_nsec - mono_ns();
    err = buffers_create(&kinect->buffers, N_BUFFERS, sizeof(uint16_t) * W * H);
    if (!err)
        err = start_supervisor(kinect);
    if (err)
        goto fail;

    // a camera that is there tells its parameters; one that is not may come later
    int64_t until_ns = mono_ns() + FIRST_OPEN_NS;
    pthread_mutex_lock(&kinect->lock);
    while (!kinect->tried && mono_ns() < until_ns)
        doze(kinect, until_ns);
    kinect->fixed = true;
    memcpy(out_info->zero_plane, kinect->zero_plane, sizeof out_info->zero_plane);
    pthread_mutex_unlock(&kinect->lock);
    const double *plane = out_info->zero_plane;
    double f_px = plane[0] != 0 ? plane[2] / plane[1] / 2 : 120 / 0.1042 / 2;
    out_info->live = true;
    out_info->camera = (struct intrinsics){f_px, f_px, 314.5, 235.5, W, H};
    out_info->units_per_m = DISPARITY_UNITS_PER_M;
    out_info->period_ns = 1000000000 / 30;
    *out_state = kinect;
    return 0;
fail:
    free_kinect(kinect);
    return err;
}

// Takes the oldest waiting frame. When a newer one is there already, it is late. Lock held.
static bool take_frame(struct kinect *kinect, struct capture_frame *out)
{
    if (kinect->n_in == kinect->n_out)
        return false;
    struct waiting *waiting = &kinect->waiting[kinect->n_out++ % N_WAITING];
    *out = waiting->frame;
    if (!waiting->pixels || kinect->n_in > kinect->n_out) {
        buffers_give(&kinect->buffers, waiting->pixels);
        out->flags |= CAPTURE_LATE;
        return true;
    }
    buffers_give(&kinect->buffers, kinect->held);
    kinect->held = waiting->pixels;
    out->image.depth = waiting->pixels;
    return true;
}

static int kinect_wait(void *state, int timeout_ms, struct capture_frame *out_frame)
{
    struct kinect *kinect = state;
    const struct capture_hooks *hooks = &kinect->buffers.hooks;
    int64_t deadline_ns = timeout_ms < 0 ? INT64_MAX : mono_ns() + timeout_ms * MS;
    bool told = false;
    for (;;) {
        while (sem_trywait(&kinect->wake) == 0)
            ; // old news
        if (atomic_load(&kinect->interrupted))
            return -EINTR;
        pthread_mutex_lock(&kinect->lock);
        bool got = take_frame(kinect, out_frame);
        bool soon = kinect->writing && hooks->soon;
        pthread_mutex_unlock(&kinect->lock);
        if (got)
            return 0;
        if (mono_ns() >= deadline_ns)
            return -EAGAIN;
        if (soon && !told)
            hooks->soon(hooks->user);
        else
            buffers_wait(&kinect->wake, deadline_ns, soon);
        told = soon;
    }
}

static struct buffers *kinect_buffers(void *state)
{
    return &((struct kinect *)state)->buffers;
}

static void kinect_interrupt(void *state)
{
    struct kinect *kinect = state;
    atomic_store(&kinect->interrupted, true);
    sem_post(&kinect->wake);
}

const struct capture_driver capture_driver_kinect = {
    .name = "kinect",
    .summary = "Kinect v1 (first camera, or :NUMBER, or :SERIAL)",
    .open = kinect_open,
    .wait = kinect_wait,
    .buffers = kinect_buffers,
    .interrupt = kinect_interrupt,
    .close = kinect_close,
};

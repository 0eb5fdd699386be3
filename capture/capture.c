// SPDX-License-Identifier: Apache-2.0
// The contract's front: finds the driver, applies overrides, has the source looked at, and hands
// reading to the replay (recordings) or to the driver itself (cameras).
#include "capture/capture.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "capture/driver.h"
#include "capture/explain_source.h"
#include "capture/overrides.h"
#include "capture/plausible.h"
#include "capture/probe.h"
#include "capture/recognise.h"
#include "capture/replay.h"

static const struct capture_driver *const drivers[] = {
    &capture_driver_tum,     &capture_driver_sevenscenes, &capture_driver_png,
    &capture_driver_klg,     &capture_driver_fakenect,    &capture_driver_rawpgm,
    &capture_driver_synth,   &capture_driver_mcap,        &capture_driver_ros1bag,
#ifdef POSED_HAVE_SQLITE
    &capture_driver_ros2db3,
#endif
#ifdef POSED_HAVE_ROS2
    &capture_driver_ros2,
#endif
#ifdef POSED_HAVE_KINECT
    &capture_driver_kinect,
#endif
#ifdef POSED_HAVE_OPENNI2
    &capture_driver_openni2,
#endif
#ifdef POSED_HAVE_V4L2
    &capture_driver_v4l2,
#endif
};
#define N_DRIVERS (sizeof drivers / sizeof *drivers)

struct capture {
    const struct capture_driver *driver;
    void *state;
    struct capture_info info;
    struct replay *replay;            // NULL when live
    uint64_t n_left;                  // live: frames until the end
    struct capture_settings settings; // its overrides and log, for live recalibration
};

static bool is_within(double value, double low, double high)
{
    return value >= low && value <= high; // false for NaN
}

int capture_settings_check(const struct capture_settings *s)
{
    const struct {
        const char *name;
        double value, low, high;
        bool or_zero;
    } ranges[] = {
        {"capture.speed", s->rate, CAPTURE_RATE_RANGE, true},
        {"capture.start_s", s->start_s, CAPTURE_PART_S_RANGE, false},
        {"capture.duration_s", s->duration_s, CAPTURE_PART_S_RANGE, false},
        {"camera.fx", s->fx_px, INTRINSICS_FOCAL_LENGTH_PX_RANGE, true},
        {"|camera.fy|", fabs(s->fy_px), INTRINSICS_FOCAL_LENGTH_PX_RANGE, true},
        {"camera.cx", s->cx_px, INTRINSICS_CENTRE_PX_RANGE, false},
        {"camera.cy", s->cy_px, INTRINSICS_CENTRE_PX_RANGE, false},
        {"camera.depth_scale", s->depth_scale, DEPTH_UNITS_PER_M_RANGE, true},
        {"camera.float_scale", s->float_scale, DEPTH_FLOAT_PER_M_RANGE, true},
        {"frames that are kept", s->n_kept, 0, CAPTURE_MAX_KEPT, false},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (is_within(ranges[i].value, ranges[i].low, ranges[i].high) ||
            (ranges[i].or_zero && ranges[i].value == 0))
            continue;
        log_to(&s->log, LOG_LEVEL_ERROR, "%s = %.9g must be %sin %g..%g", ranges[i].name,
               ranges[i].value, ranges[i].or_zero ? "0 or " : "", ranges[i].low, ranges[i].high);
        return -EINVAL;
    }
    const struct intrinsics given = {s->fx_px, s->fy_px, s->cx_px, s->cy_px, 0, 0};
    return s->allow_implausible ? 0 : plausible_for_any_image(&given, &s->log);
}

static const struct capture_driver *find_driver(const char *source, const char **out_location)
{
    size_t n = strcspn(source, ":");
    *out_location = source[n] ? source + n + 1 : "";
    for (size_t i = 0; i < N_DRIVERS; i++)
        if (strlen(drivers[i]->name) == n && !memcmp(drivers[i]->name, source, n))
            return drivers[i];
    return NULL;
}

static const struct capture_driver *driver_of_name(const char *name)
{
    for (size_t i = 0; name && i < N_DRIVERS; i++)
        if (!strcmp(drivers[i]->name, name))
            return drivers[i];
    return NULL;
}

int capture_look(const char *name, const struct log_sink *log)
{
    const struct capture_driver *driver = driver_of_name(name);
    return driver && driver->look ? driver->look(log) : -ENOTSUP;
}

// The library that a driver needs, when this program has neither, and how it gets it.
static const char *left_out_library(const char *source)
{
    static const struct {
        const char *driver, *library;
    } optional[] = {{"kinect", "libfreenect (build it with -DPOSED_KINECT=ON)"},
                    {"openni2", "OpenNI 2 (build it with -DPOSED_OPENNI2=ON)"},
                    {"v4l2", "Video4Linux (build it with -DPOSED_V4L2=ON)"},
                    {"ros2", "Cyclone DDS (build it with -DPOSED_ROS2=ON)"},
                    {"ros2db3", "libsqlite3 (build it where libsqlite3-dev is)"}};
    size_t n = strcspn(source, ":");
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++)
        if (strlen(optional[i].driver) == n && !memcmp(optional[i].driver, source, n))
            return optional[i].library;
    return NULL;
}

static const char *name_of_driver(size_t i)
{
    return i < N_DRIVERS ? drivers[i]->name : NULL;
}

static int open_recording(struct capture *capture, const struct capture_settings *settings)
{
    int err =
        replay_create(&capture->replay, capture->driver, capture->state, settings, &capture->info);
    if (err)
        return err;
    err =
        probe_recording(capture->driver, capture->state, capture->replay, &capture->info, settings);
    return err ? err : replay_start(capture->replay);
}

static int choose_driver(const char *source, const struct capture_driver **out_driver,
                         const char **out_location, const struct log_sink *log)
{
    const struct capture_driver *driver = find_driver(source, out_location);
    const char *name = NULL;
    int error = 0;
    if (!driver) { // a bare path
        bool is_mixed;
        error = recognise(source, &name, &is_mixed);
        driver = driver_of_name(name);
        *out_location = source;
    }
    *out_driver = driver;
    const char *left_out = driver ? NULL : left_out_library(name ? name : source);
    if (left_out) {
        log_to(log, LOG_LEVEL_ERROR, "source '%s': this program was built without %s", source,
               left_out);
        return -ENOTSUP;
    }
    if (!driver) {
        explain_unknown(source, error, name_of_driver, log);
        return -EINVAL;
    }
    if (driver->decode && !(*out_location)[0]) {
        log_to(log, LOG_LEVEL_ERROR,
               "source '%s': a place is missing, expected DRIVER:PLACE, e.g. tum:FOLDER or "
               "synth:room",
               source);
        return -EINVAL;
    }
    return 0;
}

int capture_source_check(const char *source, const struct log_sink *log)
{
    const struct capture_driver *driver;
    const char *location;
    return source[0] && !strchr(source, ':') ? 0 : choose_driver(source, &driver, &location, log);
}

int capture_open(struct capture **out, const struct capture_settings *settings)
{
    const struct log_sink *log = &settings->log;
    const struct capture_driver *driver;
    const char *location;
    *out = NULL;
    int err = choose_driver(settings->source ? settings->source : "", &driver, &location, log);
    if (!err)
        err = capture_settings_check(settings);
    if (err)
        return err;
    struct capture *capture = calloc(1, sizeof *capture);
    if (!capture)
        return -ENOMEM;
    capture->driver = driver;
    capture->n_left = settings->n_frames ? settings->n_frames : UINT64_MAX;
    capture->settings = *settings;
    capture->settings.source = capture->settings.ros_interface =
        capture->settings.ros_domain_origin = NULL; // the caller's
    struct capture_info *info = &capture->info;
    snprintf(info->driver, sizeof info->driver, "%s", driver->name);
    err = driver->open(&capture->state, location, settings, info);
    if (err)
        explain_unopened(driver->name, location, name_of_driver, log);
    if (err)
        goto fail;
    if (!info->description[0])
        snprintf(info->description, sizeof info->description, "%s:%s", driver->name, location);
    overrides_apply(info, settings);
    err = info->live ? probe_intrinsics(info, settings) : open_recording(capture, settings);
    if (err)
        goto fail;
    *out = capture;
    return 0;
fail:
    capture_close(&capture);
    return err;
}

static void recalibrate(struct capture *capture)
{
    capture->driver->recalibrate(capture->state, &capture->info);
    overrides_apply(&capture->info, &capture->settings);
    int implausible =
        plausible_intrinsics(&capture->info.camera, &capture->settings.log, LOG_LEVEL_WARNING);
    (void)implausible; // it is in the log, and no reason to end what runs
}

static struct buffers *buffers_of(const struct capture *capture)
{
    return capture->replay ? replay_buffers(capture->replay)
                           : capture->driver->buffers(capture->state);
}

int capture_read(struct capture *capture, int timeout_ms, struct capture_frame *out_frame)
{
    if (!capture->replay && capture->n_left == 0)
        return -ENODATA;
    int err = capture->replay ? replay_read(capture->replay, timeout_ms, out_frame)
                              : capture->driver->wait(capture->state, timeout_ms, out_frame);
    if (err)
        return err;
    out_frame->buffers = buffers_of(capture);
    if (capture->replay)
        return 0;
    capture->n_left--;
    if (out_frame->flags & CAPTURE_RECALIBRATED)
        recalibrate(capture);
    return 0;
}

uint64_t capture_n_left_out(const struct capture *capture)
{
    return capture->driver->n_left_out ? capture->driver->n_left_out(capture->state) : 0;
}

void capture_set_max_waiting(struct capture *capture, uint32_t n_frames)
{
    uint32_t n = n_frames < CAPTURE_MAX_WAITING ? n_frames : CAPTURE_MAX_WAITING;
    atomic_store(&buffers_of(capture)->max_waiting, n);
}

bool capture_keep(const struct capture_frame *frame)
{
    return frame->buffers && buffers_keep(frame->buffers, frame->image.depth);
}

void capture_release(const struct capture_frame *frame)
{
    buffers_release(frame->buffers, frame->image.depth);
}

int capture_control(struct capture *capture, enum capture_control control, double value,
                    struct capture_playback *out)
{
    if (!capture->replay)
        return -ENOTSUP;
    return replay_control(capture->replay, control, value, out);
}

void capture_interrupt(struct capture *capture)
{
    if (capture->replay)
        replay_interrupt(capture->replay);
    else
        capture->driver->interrupt(capture->state);
}

const struct capture_info *capture_info(const struct capture *capture)
{
    return &capture->info;
}

void capture_tell_overrides(const struct capture *capture, const struct log_sink *log)
{
    overrides_tell(&capture->info, &capture->settings, log);
}

bool capture_info_is_same_camera(const struct capture_info *a, const struct capture_info *b)
{
    return memcmp(&a->camera, &b->camera, sizeof a->camera) == 0 &&
           a->units_per_m == b->units_per_m &&
           memcmp(a->zero_plane, b->zero_plane, sizeof a->zero_plane) == 0;
}

void *capture_memory(const struct capture *capture, size_t *out_bytes)
{
    const struct buffers *buffers = buffers_of(capture);
    *out_bytes = buffers->n_bytes;
    return buffers->block;
}

void capture_set_hooks(struct capture *capture, const struct capture_hooks *hooks)
{
    buffers_set_hooks(buffers_of(capture), hooks);
}

long capture_ground_truth(const struct capture *capture, struct stamped_pose **out)
{
    *out = NULL;
    return capture->driver->ground_truth ? capture->driver->ground_truth(capture->state, out) : 0;
}

void capture_close(struct capture **capture)
{
    if (!*capture)
        return;
    replay_destroy(&(*capture)->replay); // its thread uses the driver's state
    if ((*capture)->state)
        (*capture)->driver->close((*capture)->state);
    free(*capture);
    *capture = NULL;
}

#ifdef POSED_HAVE_KINECT
#define HAS_KINECT true
#else
#define HAS_KINECT false
#endif
#ifdef POSED_HAVE_OPENNI2
#define HAS_OPENNI2 true
#else
#define HAS_OPENNI2 false
#endif
#ifdef POSED_HAVE_DEFLATE
#define HAS_DEFLATE true
#else
#define HAS_DEFLATE false
#endif
#ifdef POSED_HAVE_BZ2
#define HAS_BZ2 true
#else
#define HAS_BZ2 false
#endif
#ifdef POSED_HAVE_ROS2
#define HAS_ROS2 true
#else
#define HAS_ROS2 false
#endif
#ifdef POSED_HAVE_SQLITE
#define HAS_SQLITE true
#else
#define HAS_SQLITE false
#endif
#ifdef POSED_HAVE_ZSTD
#define HAS_ZSTD true
#else
#define HAS_ZSTD false
#endif
#ifdef POSED_HAVE_LZ4
#define HAS_LZ4 true
#else
#define HAS_LZ4 false
#endif

const struct capture_library *capture_libraries(void)
{
    static const struct capture_library libraries[] = {
        {"libfreenect", HAS_KINECT, "no live Kinect", NULL},
        {"libopenni2", HAS_OPENNI2, "no openni2: no PrimeSense, Xtion, Astra", "POSED_OPENNI2"},
        {"libdeflate", HAS_DEFLATE, "PNG and klg are read at half the speed", NULL},
        {"libzstd", HAS_ZSTD, "MCAP recordings are not packed, those packed so cannot be read",
         NULL},
        {"liblz4", HAS_LZ4, "MCAP files and ROS 1 bags packed with it cannot be read", NULL},
        {"libbz2", HAS_BZ2, "ROS 1 bags packed with it cannot be read", NULL},
        {"cyclonedds", HAS_ROS2, "no ros2: no cameras and no poses over DDS", NULL},
        {"libsqlite3", HAS_SQLITE, "no ros2db3: the .db3 recordings of ROS 2", NULL},
        {NULL, false, NULL, NULL},
    };
    return libraries;
}

const struct capture_driver_name *capture_drivers(void)
{
    static struct capture_driver_name names[N_DRIVERS + 1];
    for (size_t i = 0; i < N_DRIVERS; i++)
        names[i] = (struct capture_driver_name){drivers[i]->name, drivers[i]->summary};
    return names;
}

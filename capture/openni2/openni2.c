// SPDX-License-Identifier: Apache-2.0
// Driver `openni2`: PrimeSense, Asus Xtion, Orbbec Astra and what else OpenNI 2 has a driver for.
// "openni2:" is the first camera, "openni2:1" the second, any other word a URI of OpenNI's or a
// serial number. Intrinsics come from the fields of view that the camera tells, about the middle of
// the image as OpenNI has it. The image is never mirrored, whatever the camera's default.
//
// The library is opened once in a process and never shut down: oniShutdown unloads drivers whose
// threads still run (the Dummy device's does).
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

// OniCAPI.h is C++ but for these.
typedef struct _OniDevice _OniDevice;
typedef struct _OniStream _OniStream;
typedef struct _OniRecorder _OniRecorder;
#include <OniCAPI.h>

#include "capture/driver.h"
#include "capture/live_clock.h"
#include "capture/live_damage.h"
#include "capture/live_queue.h"
#include "capture/openni2/camera_clock.h"
#include "capture/reconnect.h"
#include "proto/clock.h"

#define WAIT_MS         100
#define USUAL_WIDTH_PX  640
#define USUAL_HEIGHT_PX 480
#define USUAL_FOV_RAD   1.01447 // horizontal, of the PrimeSense sensor

struct openni2 {
    struct log_sink log;
    struct reconnect reconnect;
    struct live live;
    struct reconnect_place place;
    struct intrinsics camera;  // of the open camera; all must have the first one's size
    double device_units_per_m; // of the first camera; all others must have it
    double units_per_m;        // of the frames: what the settings say, else the camera's
    struct live_clock clock;
    struct live_damage damage;
    bool has_live, told_fov;

    // Of the open camera; of the supervisor's thread.
    OniDeviceHandle device;
    OniStreamHandle stream;
    bool is_mirrored; // by the camera, and to be undone
    struct camera_clock camera_clock;
    OniCallbackHandle callbacks;
    char uri[ONI_MAX_STR], serial[64];
    atomic_bool is_gone; // OpenNI's thread says so

    uint64_t n_frames;
    int64_t last_taken_ns; // CLOCK_MONOTONIC
};

// ---- the library ----

static OniStatus initialised = ONI_STATUS_ERROR;

static void initialise(void)
{
    initialised = oniInitialize(ONI_API_VERSION);
}

// What OpenNI said last, one line; false when it said nothing.
static bool last_words(char *out, size_t room)
{
    const char *said = oniGetExtendedError();
    said += strspn(said, " \t\r\n");
    snprintf(out, room, "%.*s", (int)strcspn(said, "\r\n"), said);
    return out[0];
}

static bool fail(char *reason, const char *what)
{
    char said[120];
    bool has_words = last_words(said, sizeof said);
    snprintf(reason, RECONNECT_REASON_BYTES, "%s%s%s%s", what, has_words ? " (" : "",
             has_words ? said : "", has_words ? ")" : "");
    return false;
}

// ---- which camera ----

static void read_serial(OniDeviceHandle device, char out[64])
{
    int n_bytes = 64;
    memset(out, 0, 64);
    if (oniDeviceGetProperty(device, ONI_DEVICE_PROPERTY_SERIAL_NUMBER, out, &n_bytes) !=
        ONI_STATUS_OK)
        out[0] = 0;
    out[63] = 0;
}

static bool open_uri(struct openni2 *openni2, const char *uri)
{
    if (oniDeviceOpen(uri, &openni2->device) != ONI_STATUS_OK)
        return false;
    snprintf(openni2->uri, sizeof openni2->uri, "%s", uri);
    read_serial(openni2->device, openni2->serial);
    return true;
}

// Among those that are plugged in: by number, or by serial number.
static bool open_listed(struct openni2 *openni2, const char *place, bool is_number)
{
    OniDeviceInfo *devices = NULL;
    int n = 0, wanted = *place ? (int)strtol(place, NULL, 10) : 0;
    bool found = false;
    if (oniGetDeviceList(&devices, &n) != ONI_STATUS_OK)
        return false;
    for (int i = 0; i < n && !found; i++) {
        if (is_number && i != wanted)
            continue;
        found = open_uri(openni2, devices[i].uri);
        if (found && !is_number && strcmp(openni2->serial, place) != 0) {
            oniDeviceClose(openni2->device);
            found = false;
        }
    }
    oniReleaseDeviceList(devices);
    return found;
}

static bool open_device(struct openni2 *openni2, char *reason)
{
    const char *place = openni2->place.place;
    size_t n = strlen(place);
    bool is_number = n <= 2 && strspn(place, "0123456789") == n;
    if (is_number ? open_listed(openni2, place, true)
                  : open_uri(openni2, place) || open_listed(openni2, place, false))
        return true;
    openni2->device = NULL;
    return fail(reason, "no such camera");
}

// ---- a session with it ----

static bool get(OniStreamHandle stream, int property, void *out, int n_bytes)
{
    int n = n_bytes;
    return oniStreamGetProperty(stream, property, out, &n) == ONI_STATUS_OK && n == n_bytes;
}

static bool is_wanted(const OniVideoMode *mode, uint32_t width_px, uint32_t height_px)
{
    return (mode->pixelFormat == ONI_PIXEL_FORMAT_DEPTH_1_MM ||
            mode->pixelFormat == ONI_PIXEL_FORMAT_DEPTH_100_UM) &&
           mode->resolutionX == (int)width_px && mode->resolutionY == (int)height_px;
}

// Of the modes of that size: millimetres before tenths, which reach 6.5 m only; then 30 frames/s.
static int rank(const OniVideoMode *mode)
{
    return 2 * (mode->pixelFormat == ONI_PIXEL_FORMAT_DEPTH_1_MM) + (mode->fps == 30);
}

static bool is_depth_in_bounds(const OniVideoMode *mode)
{
    const int max = (int)CAPTURE_MAX_SIDE_PX;
    return mode->resolutionX > 0 && mode->resolutionY > 0 && mode->resolutionX <= max &&
           mode->resolutionY <= max &&
           is_wanted(mode, (uint32_t)mode->resolutionX, (uint32_t)mode->resolutionY);
}

// The size that was had before, asked for, or usual; else the camera's own choice.
static bool choose_mode(struct openni2 *openni2, OniVideoMode *out, char *reason)
{
    const OniSensorInfo *sensor = oniStreamGetSensorInfo(openni2->stream);
    bool is_again = openni2->camera.width_px != 0, is_asked = openni2->place.width_px != 0;
    uint32_t width_px = is_again   ? openni2->camera.width_px
                        : is_asked ? openni2->place.width_px
                                   : USUAL_WIDTH_PX;
    uint32_t height_px = is_again   ? openni2->camera.height_px
                         : is_asked ? openni2->place.height_px
                                    : USUAL_HEIGHT_PX;
    int best = -1;
    for (int i = 0; sensor && i < sensor->numSupportedVideoModes; i++) {
        const OniVideoMode *mode = &sensor->pSupportedVideoModes[i];
        if (is_wanted(mode, width_px, height_px) && rank(mode) > best) {
            best = rank(mode);
            *out = *mode;
        }
    }
    if (best < 0 && !is_again && !is_asked &&
        get(openni2->stream, ONI_STREAM_PROPERTY_VIDEO_MODE, out, sizeof *out) &&
        is_depth_in_bounds(out))
        best = 0;
    if (best < 0)
        snprintf(reason, RECONNECT_REASON_BYTES, "%.100s: no depth of %ux%u", openni2->uri,
                 width_px, height_px);
    return best >= 0;
}

// True when the camera runs in this mode, because it was told or did anyway.
static bool set_mode(struct openni2 *openni2, const OniVideoMode *mode)
{
    OniVideoMode now;
    return oniStreamSetProperty(openni2->stream, ONI_STREAM_PROPERTY_VIDEO_MODE, mode,
                                sizeof *mode) == ONI_STATUS_OK ||
           (get(openni2->stream, ONI_STREAM_PROPERTY_VIDEO_MODE, &now, sizeof now) &&
            is_wanted(&now, (uint32_t)mode->resolutionX, (uint32_t)mode->resolutionY) &&
            now.pixelFormat == mode->pixelFormat);
}

// Depth of the depth camera, not shifted to another's view, and not mirrored: what does not obey is
// turned back in copy_rows.
static void set_properties(struct openni2 *openni2)
{
    const OniBool no = FALSE;
    const OniImageRegistrationMode off = ONI_IMAGE_REGISTRATION_OFF;
    OniBool is_mirrored = FALSE;
    oniDeviceSetProperty(openni2->device, ONI_DEVICE_PROPERTY_IMAGE_REGISTRATION, &off, sizeof off);
    oniStreamSetProperty(openni2->stream, ONI_STREAM_PROPERTY_MIRRORING, &no, sizeof no);
    openni2->is_mirrored =
        get(openni2->stream, ONI_STREAM_PROPERTY_MIRRORING, &is_mirrored, sizeof is_mirrored) &&
        is_mirrored;
}

static void read_intrinsics(struct openni2 *openni2, const OniVideoMode *mode)
{
    struct intrinsics *camera = &openni2->camera;
    float horizontal_rad = 0, vertical_rad = 0;
    bool tells = get(openni2->stream, ONI_STREAM_PROPERTY_HORIZONTAL_FOV, &horizontal_rad,
                     sizeof horizontal_rad) &&
                 horizontal_rad > 0.1f && horizontal_rad < 3.0f;
    bool tells_both = tells &&
                      get(openni2->stream, ONI_STREAM_PROPERTY_VERTICAL_FOV, &vertical_rad,
                          sizeof vertical_rad) &&
                      vertical_rad > 0.1f && vertical_rad < 3.0f;
    camera->width_px = (uint32_t)mode->resolutionX;
    camera->height_px = (uint32_t)mode->resolutionY;
    camera->fx_px =
        camera->width_px / 2.0 / tan((tells ? (double)horizontal_rad : USUAL_FOV_RAD) / 2);
    camera->fy_px =
        tells_both ? camera->height_px / 2.0 / tan((double)vertical_rad / 2) : camera->fx_px;
    camera->cx_px = camera->width_px / 2.0;
    camera->cy_px = camera->height_px / 2.0;
    if (!tells && !openni2->told_fov)
        log_to(&openni2->log, LOG_LEVEL_NOTICE,
               "openni2:%s: the camera tells no field of view, that of a PrimeSense sensor is "
               "taken; camera.fx and camera.fy say it better",
               openni2->place.place);
    openni2->told_fov = true;
}

static void on_disconnected(const OniDeviceInfo *device, void *user)
{
    struct openni2 *openni2 = user;
    if (!strcmp(device->uri, openni2->uri))
        atomic_store(&openni2->is_gone, true);
}

static bool start(struct openni2 *openni2, char *reason)
{
    OniVideoMode mode;
    if (oniDeviceCreateStream(openni2->device, ONI_SENSOR_DEPTH, &openni2->stream) !=
        ONI_STATUS_OK) {
        openni2->stream = NULL;
        return fail(reason, "it has no depth stream");
    }
    if (!choose_mode(openni2, &mode, reason))
        return false;
    double units_per_m = mode.pixelFormat == ONI_PIXEL_FORMAT_DEPTH_100_UM ? 10000 : 1000;
    if (!set_mode(openni2, &mode))
        return fail(reason, "it does not take its own video mode");
    if (openni2->device_units_per_m != 0 && openni2->device_units_per_m != units_per_m)
        return fail(reason, "its depth is in other units than before");
    openni2->device_units_per_m = units_per_m;
    set_properties(openni2);
    read_intrinsics(openni2, &mode);
    if (oniStreamStart(openni2->stream) != ONI_STATUS_OK)
        return fail(reason, "its depth stream does not start");
    OniDeviceCallbacks callbacks = {.deviceDisconnected = on_disconnected};
    if (oniRegisterDeviceCallbacks(&callbacks, openni2, &openni2->callbacks) != ONI_STATUS_OK)
        openni2->callbacks = NULL; // its silence will tell
    return true;
}

static void close_camera(void *user)
{
    struct openni2 *openni2 = user;
    if (openni2->callbacks)
        oniUnregisterDeviceCallbacks(openni2->callbacks);
    if (openni2->stream) {
        oniStreamStop(openni2->stream);
        oniStreamDestroy(openni2->stream);
    }
    oniDeviceClose(openni2->device);
    openni2->callbacks = NULL;
    openni2->stream = NULL;
    openni2->device = NULL;
}

static bool open_camera(void *user, char reason[RECONNECT_REASON_BYTES])
{
    struct openni2 *openni2 = user;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, initialise);
    if (initialised != ONI_STATUS_OK)
        return fail(reason, "OpenNI 2 cannot be initialised");
    if (!open_device(openni2, reason))
        return false;
    atomic_store(&openni2->is_gone, false);
    openni2->camera_clock = (struct camera_clock){.is_anchored = false};
    if (start(openni2, reason))
        return true;
    close_camera(openni2);
    return false;
}

// ---- frames ----

static void copy_rows(const struct openni2 *openni2, const OniFrame *frame, uint16_t *out)
{
    size_t width = openni2->camera.width_px;
    for (int y = 0; y < frame->height; y++) {
        const char *row = (const char *)frame->data + (size_t)y * (size_t)frame->stride;
        uint16_t *to = out + (size_t)y * width;
        memcpy(to, row, width * sizeof *to);
        for (size_t x = 0; openni2->is_mirrored && x < width / 2; x++) {
            uint16_t left = to[x];
            to[x] = to[width - 1 - x];
            to[width - 1 - x] = left;
        }
    }
}

static enum reconnect_served put(struct openni2 *openni2, const OniFrame *depth)
{
    const int64_t now_ns = clock_monotonic_ns();
    const int64_t taken_ns =
        camera_clock_monotonic_ns(&openni2->camera_clock, depth->timestamp, now_ns);
    size_t row_bytes = sizeof(uint16_t) * openni2->camera.width_px;
    bool is_damaged =
        depth->width != (int)openni2->camera.width_px ||
        depth->height != (int)openni2->camera.height_px || depth->stride < (int)row_bytes ||
        (size_t)depth->dataSize < (size_t)depth->stride * (size_t)(depth->height - 1) + row_bytes;
    struct capture_frame frame = {.image = {.width_px = openni2->camera.width_px,
                                            .height_px = openni2->camera.height_px,
                                            .units_per_m = openni2->units_per_m},
                                  .index = openni2->n_frames,
                                  .capture_mono_ns = now_ns,
                                  .gravity_m_s2 = {NAN, NAN, NAN}};
    if (taken_ns <= openni2->last_taken_ns) // the same frame again, or of before
        return RECONNECT_NOTHING;
    openni2->last_taken_ns = taken_ns;
    const struct live_clock_reading clocks = live_clock_read();
    live_clock_follow(&openni2->clock, &clocks);
    frame.image.time_ns = live_clock_wall_ns(&openni2->clock, taken_ns);
    frame.clock_set_ns = openni2->clock.offsets.set_ns;
    openni2->n_frames++;
    uint16_t *pixels = is_damaged ? NULL : live_take(&openni2->live);
    if (pixels)
        copy_rows(openni2, depth, pixels);
    if (is_damaged) {
        frame.flags |= CAPTURE_DAMAGED;
        live_damage_note(&openni2->damage, now_ns, frame.index, "%dx%d, %d bytes came",
                         depth->width, depth->height, depth->dataSize);
    }
    live_put(&openni2->live, &frame, pixels, &(struct live_camera){.intrinsics = openni2->camera});
    return RECONNECT_FRAME;
}

static enum reconnect_served serve(void *user)
{
    struct openni2 *openni2 = user;
    OniFrame *frame;
    int which;
    OniStatus status = oniWaitForAnyStream(&openni2->stream, 1, &which, WAIT_MS);
    if (atomic_load(&openni2->is_gone))
        return RECONNECT_GONE;
    if (status == ONI_STATUS_TIME_OUT)
        return RECONNECT_NOTHING;
    if (status != ONI_STATUS_OK || oniStreamReadFrame(openni2->stream, &frame) != ONI_STATUS_OK)
        return RECONNECT_GONE;
    enum reconnect_served served = put(openni2, frame);
    oniFrameRelease(frame);
    return served;
}

// ---- the driver ----

static void close_openni2(void *state)
{
    struct openni2 *openni2 = state;
    if (!reconnect_stop(&openni2->reconnect))
        return; // its thread has it
    live_damage_end(&openni2->damage);
    if (openni2->has_live)
        live_destroy(&openni2->live);
    free(openni2);
}

static int open_openni2(void **out_state, const char *location,
                        const struct capture_settings *settings, struct capture_info *out_info)
{
    struct openni2 *openni2 = calloc(1, sizeof *openni2);
    if (!openni2)
        return -ENOMEM;
    openni2->log = settings->log;
    openni2->damage = (struct live_damage){.log = openni2->log, .name = openni2->reconnect.name};
    const struct live_clock_reading clocks = live_clock_read();
    live_clock_begin(&openni2->clock, openni2->reconnect.name, &openni2->log, &clocks);
    int err = reconnect_parse("openni2", location, &settings->log, &openni2->place);
    static const struct reconnect_camera camera = {open_camera, serve, close_camera};
    if (!err)
        err = reconnect_open(&openni2->reconnect, &camera, openni2, "openni2", openni2->place.place,
                             settings);
    if (!err)
        err = live_create(&openni2->live, &(struct live_camera){.intrinsics = openni2->camera},
                          settings->n_kept);
    if (err)
        goto fail;
    openni2->has_live = true;
    out_info->camera = openni2->camera;
    out_info->units_per_m = openni2->device_units_per_m;
    snprintf(out_info->told.units_by, sizeof out_info->told.units_by, "the camera");
    out_info->live = true;
    out_info->period_ns = 1000000000 / 30;
    snprintf(out_info->serial, sizeof out_info->serial, "%s", openni2->serial);
    snprintf(out_info->description, sizeof out_info->description, "openni2:%.150s (%ux%u)",
             openni2->uri, openni2->camera.width_px, openni2->camera.height_px);
    openni2->units_per_m =
        settings->depth_scale != 0 ? settings->depth_scale : openni2->device_units_per_m;
    err = reconnect_start(&openni2->reconnect);
    if (err)
        goto fail;
    *out_state = openni2;
    return 0;
fail:
    close_openni2(openni2);
    return err;
}

static int wait_openni2(void *state, int timeout_ms, struct capture_frame *out_frame)
{
    return live_wait(&((struct openni2 *)state)->live, timeout_ms, out_frame);
}

static void recalibrate(void *state, struct capture_info *out_info)
{
    out_info->camera = ((struct openni2 *)state)->live.camera.intrinsics;
}

static struct buffers *buffers_of(void *state)
{
    return &((struct openni2 *)state)->live.buffers;
}

static void interrupt(void *state)
{
    live_interrupt(&((struct openni2 *)state)->live);
}

const struct capture_driver capture_driver_openni2 = {
    .name = "openni2",
    .summary = "PrimeSense, Xtion, Astra through OpenNI 2 (openni2:[CAMERA][,size=WxH])",
    .open = open_openni2,
    .wait = wait_openni2,
    .recalibrate = recalibrate,
    .buffers = buffers_of,
    .interrupt = interrupt,
    .close = close_openni2,
};

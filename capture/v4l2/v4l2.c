// SPDX-License-Identifier: Apache-2.0
// Driver `v4l2`: depth of a camera that the kernel's own driver serves (Video4Linux2, format Z16:
// Intel RealSense D4xx through uvcvideo). "v4l2:" is the first device node with Z16, "v4l2:2" is
// /dev/video2, any other word a path (/dev/v4l/by-id/... stays the same when it is plugged in
// again). The kernel knows neither intrinsics nor the unit: the first must be set, the second is
// RealSense's millimetre unless camera.depth_scale is.
#include <errno.h>
#include <fcntl.h>
#include <linux/videodev2.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capture/driver.h"
#include "capture/live_clock.h"
#include "capture/live_damage.h"
#include "capture/live_queue.h"
#include "capture/reconnect.h"
#include "proto/clock.h"

#define N_MAPPED         4 // buffers of the kernel's
#define N_NODES          64
#define WAIT_MS          100
#define USUAL_WIDTH_PX   640
#define USUAL_HEIGHT_PX  480
#define REALSENSE_UNIT_M 1000.0 // units per metre, as the camera comes

struct v4l2 {
    struct log_sink log;
    struct reconnect reconnect;
    struct live live;
    struct reconnect_place place;
    struct intrinsics camera; // of the first camera; all others must have its size
    double units_per_m;
    struct live_clock clock;
    struct live_damage damage;
    bool has_live;

    // Of the open camera; of the supervisor's thread.
    int fd; // -1 = none
    char node[RECONNECT_PLACE_BYTES];
    uint32_t stride_bytes, n_mapped, next_sequence;
    bool is_first;
    struct {
        void *bytes;
        size_t n_bytes;
    } mapped[N_MAPPED];

    uint64_t n_frames, n_missed;
    int64_t last_taken_ns; // CLOCK_MONOTONIC
};

// A signal may interrupt any of them.
static int control(int fd, unsigned long request, void *argument)
{
    int result;
    do
        result = ioctl(fd, request, argument);
    while (result < 0 && errno == EINTR);
    return result < 0 ? -errno : 0;
}

// ---- which node ----

// "Z16", or a list of the formats there are.
static bool has_depth(int fd, char *out_formats, size_t room)
{
    struct v4l2_fmtdesc format = {.type = V4L2_BUF_TYPE_VIDEO_CAPTURE};
    size_t n = 0;
    *out_formats = 0;
    for (; control(fd, VIDIOC_ENUM_FMT, &format) == 0; format.index++) {
        if (format.pixelformat == V4L2_PIX_FMT_Z16)
            return true;
        int added = snprintf(out_formats + n, room - n, "%s%.4s", n ? " " : "",
                             (const char *)&format.pixelformat);
        n += added > 0 && (size_t)added < room - n ? (size_t)added : 0;
    }
    return false;
}

// Opens a node that captures Z16. Returns it, or a negative errno with the reason in words.
static int open_node(const char *node, char *reason)
{
    struct v4l2_capability capability;
    char formats[80];
    int fd = open(node, O_RDWR | O_NONBLOCK | O_CLOEXEC), err = fd < 0 ? -errno : 0;
    if (err) {
        snprintf(reason, RECONNECT_REASON_BYTES, "%s", strerror(-err));
        return err;
    }
    err = control(fd, VIDIOC_QUERYCAP, &capability);
    uint32_t has = capability.capabilities & V4L2_CAP_DEVICE_CAPS ? capability.device_caps
                                                                  : capability.capabilities;
    uint32_t needs = V4L2_CAP_VIDEO_CAPTURE | V4L2_CAP_STREAMING;
    if (err)
        snprintf(reason, RECONNECT_REASON_BYTES, "no video device (%s)", strerror(-err));
    else if ((has & needs) != needs)
        snprintf(reason, RECONNECT_REASON_BYTES, "a video device that captures nothing");
    else if (!has_depth(fd, formats, sizeof formats))
        snprintf(reason, RECONNECT_REASON_BYTES, "no depth (Z16), its formats are: %s",
                 formats[0] ? formats : "none");
    else
        return fd;
    close(fd);
    return err ? err : -ENODEV;
}

// The first node with depth. The reason names one that may not be opened.
static int find_node(struct v4l2 *v4l2, char *reason)
{
    char why[RECONNECT_REASON_BYTES];
    snprintf(reason, RECONNECT_REASON_BYTES, "no video device has depth (Z16)");
    for (int i = 0; i < N_NODES; i++) {
        snprintf(v4l2->node, sizeof v4l2->node, "/dev/video%d", i);
        int fd = open_node(v4l2->node, why);
        if (fd >= 0)
            return fd;
        if (fd == -EACCES || fd == -EBUSY)
            snprintf(reason, RECONNECT_REASON_BYTES, "%s: %.100s", v4l2->node, why);
    }
    return -ENODEV;
}

// A node that captures something else is not told of: every machine with a webcam has some.
static int look(const struct log_sink *log)
{
    int n = 0;
    for (int i = 0; i < N_NODES; i++) {
        char node[32], why[RECONNECT_REASON_BYTES];
        snprintf(node, sizeof node, "/dev/video%d", i);
        int fd = open_node(node, why);
        if (fd >= 0) {
            log_to(log, LOG_LEVEL_INFO, "%s has depth: source v4l2:%d", node, i);
            close(fd);
            n++;
        } else if (fd == -EACCES || fd == -EPERM || fd == -EBUSY) {
            log_to(log, LOG_LEVEL_ERROR, "%s: %s", node, why);
        }
    }
    return n;
}

static int open_place(struct v4l2 *v4l2, char *reason)
{
    const char *place = v4l2->place.place;
    size_t n = strlen(place);
    if (!n)
        return find_node(v4l2, reason);
    bool is_number = n <= 3 && strspn(place, "0123456789") == n;
    snprintf(v4l2->node, sizeof v4l2->node, "%s%.150s", is_number ? "/dev/video" : "", place);
    return open_node(v4l2->node, reason);
}

// ---- a session with the camera ----

// Asks for the size; what the driver makes of it must be what was asked for, or was had before.
static bool set_format(struct v4l2 *v4l2, char *reason)
{
    const struct reconnect_place *place = &v4l2->place;
    bool is_again = v4l2->camera.width_px != 0;
    uint32_t width_px = is_again ? v4l2->camera.width_px : place->width_px;
    uint32_t height_px = is_again ? v4l2->camera.height_px : place->height_px;
    bool is_free = !width_px; // any size will do
    struct v4l2_format format = {.type = V4L2_BUF_TYPE_VIDEO_CAPTURE};
    struct v4l2_pix_format *pixels = &format.fmt.pix;
    pixels->width = is_free ? USUAL_WIDTH_PX : width_px;
    pixels->height = is_free ? USUAL_HEIGHT_PX : height_px;
    pixels->pixelformat = V4L2_PIX_FMT_Z16;
    pixels->field = V4L2_FIELD_NONE;
    int err = control(v4l2->fd, VIDIOC_S_FMT, &format);
    if (err) {
        snprintf(reason, RECONNECT_REASON_BYTES, "%s: depth (Z16) is refused: %s", v4l2->node,
                 err == -EBUSY ? "another program uses the camera" : strerror(-err));
        return false;
    }
    if (pixels->pixelformat != V4L2_PIX_FMT_Z16 || !pixels->width || !pixels->height ||
        pixels->width > CAPTURE_MAX_SIDE_PX || pixels->height > CAPTURE_MAX_SIDE_PX ||
        (!is_free && (pixels->width != width_px || pixels->height != height_px))) {
        snprintf(reason, RECONNECT_REASON_BYTES, "%s: depth of %ux%u is not offered, but %ux%u",
                 v4l2->node, width_px, height_px, pixels->width, pixels->height);
        return false;
    }
    v4l2->camera.width_px = pixels->width;
    v4l2->camera.height_px = pixels->height;
    v4l2->stride_bytes = pixels->bytesperline ? pixels->bytesperline : 2 * pixels->width;
    return true;
}

static int queue(struct v4l2 *v4l2, uint32_t i)
{
    struct v4l2_buffer buffer = {
        .type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .memory = V4L2_MEMORY_MMAP, .index = i};
    return control(v4l2->fd, VIDIOC_QBUF, &buffer);
}

static int map_buffer(struct v4l2 *v4l2, uint32_t i)
{
    struct v4l2_buffer buffer = {
        .type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .memory = V4L2_MEMORY_MMAP, .index = i};
    int err = control(v4l2->fd, VIDIOC_QUERYBUF, &buffer);
    if (err)
        return err;
    if (buffer.length < (size_t)v4l2->stride_bytes * v4l2->camera.height_px)
        return -EPROTO;
    void *bytes = mmap(NULL, buffer.length, PROT_READ, MAP_SHARED, v4l2->fd, buffer.m.offset);
    if (bytes == MAP_FAILED)
        return -errno;
    v4l2->mapped[i].bytes = bytes;
    v4l2->mapped[i].n_bytes = buffer.length;
    v4l2->n_mapped = i + 1;
    return queue(v4l2, i);
}

static bool stream(struct v4l2 *v4l2, char *reason)
{
    struct v4l2_streamparm rate = {.type = V4L2_BUF_TYPE_VIDEO_CAPTURE};
    rate.parm.capture.timeperframe = (struct v4l2_fract){1, 30};
    int err = control(v4l2->fd, VIDIOC_S_PARM, &rate); // a wish: other rates are as good
    struct v4l2_requestbuffers request = {
        .count = N_MAPPED, .type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .memory = V4L2_MEMORY_MMAP};
    err = control(v4l2->fd, VIDIOC_REQBUFS, &request);
    if (!err && request.count < 2)
        err = -ENOMEM;
    uint32_t n = request.count < N_MAPPED ? request.count : N_MAPPED;
    for (uint32_t i = 0; i < n && !err; i++)
        err = map_buffer(v4l2, i);
    enum v4l2_buf_type type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
    if (!err)
        err = control(v4l2->fd, VIDIOC_STREAMON, &type);
    if (err)
        snprintf(reason, RECONNECT_REASON_BYTES, "%s: streaming does not start: %s", v4l2->node,
                 err == -EBUSY ? "another program uses the camera" : strerror(-err));
    return !err;
}

static void close_camera(void *user)
{
    struct v4l2 *v4l2 = user;
    enum v4l2_buf_type type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
    int err = control(v4l2->fd, VIDIOC_STREAMOFF, &type);
    (void)err; // it may be gone
    for (uint32_t i = 0; i < v4l2->n_mapped; i++)
        munmap(v4l2->mapped[i].bytes, v4l2->mapped[i].n_bytes);
    v4l2->n_mapped = 0;
    close(v4l2->fd);
    v4l2->fd = -1;
}

static bool open_camera(void *user, char reason[RECONNECT_REASON_BYTES])
{
    struct v4l2 *v4l2 = user;
    v4l2->fd = open_place(v4l2, reason);
    if (v4l2->fd < 0)
        return false;
    v4l2->is_first = true;
    if (set_format(v4l2, reason) && stream(v4l2, reason))
        return true;
    close_camera(v4l2);
    return false;
}

// ---- frames ----

// Frames that the kernel had no buffer for have a number, too.
static void count_missed(struct v4l2 *v4l2, uint32_t sequence)
{
    uint32_t n_missed = v4l2->is_first ? 0 : sequence - v4l2->next_sequence;
    v4l2->is_first = false;
    v4l2->next_sequence = sequence + 1;
    if (!n_missed || n_missed > 1000000) // some drivers count nothing
        return;
    if (!v4l2->n_missed)
        log_to(&v4l2->log, LOG_LEVEL_WARNING,
               "%s: the kernel has lost %u frames: the machine is "
               "too slow, or the USB bus too full",
               v4l2->reconnect.name, n_missed);
    v4l2->n_missed += n_missed;
}

static void copy_rows(const struct v4l2 *v4l2, const char *rows, uint16_t *out)
{
    size_t width = v4l2->camera.width_px;
    for (uint32_t y = 0; y < v4l2->camera.height_px; y++)
        memcpy(out + y * width, rows + (size_t)y * v4l2->stride_bytes, width * sizeof *out);
}

static enum reconnect_served put(struct v4l2 *v4l2, const struct v4l2_buffer *buffer)
{
    int64_t now_ns = clock_monotonic_ns();
    bool is_monotonic =
        (buffer->flags & V4L2_BUF_FLAG_TIMESTAMP_MASK) == V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC;
    int64_t taken_ns = is_monotonic ? (int64_t)buffer->timestamp.tv_sec * 1000000000 +
                                          (int64_t)buffer->timestamp.tv_usec * 1000
                                    : now_ns;
    size_t needs = (size_t)v4l2->stride_bytes * (v4l2->camera.height_px - 1) +
                   2 * (size_t)v4l2->camera.width_px;
    bool is_damaged = buffer->flags & V4L2_BUF_FLAG_ERROR || buffer->bytesused < needs;
    struct capture_frame frame = {.image = {.width_px = v4l2->camera.width_px,
                                            .height_px = v4l2->camera.height_px,
                                            .units_per_m = v4l2->units_per_m},
                                  .index = v4l2->n_frames,
                                  .capture_mono_ns = now_ns,
                                  .gravity_m_s2 = {NAN, NAN, NAN}};
    if (taken_ns <= v4l2->last_taken_ns) // the same moment twice is no frame
        return RECONNECT_NOTHING;
    v4l2->last_taken_ns = taken_ns;
    const struct live_clock_reading clocks = live_clock_read();
    live_clock_follow(&v4l2->clock, &clocks);
    frame.image.time_ns = live_clock_wall_ns(&v4l2->clock, taken_ns);
    frame.clock_set_ns = v4l2->clock.offsets.set_ns;
    v4l2->n_frames++;
    count_missed(v4l2, buffer->sequence);
    uint16_t *pixels = is_damaged ? NULL : live_take(&v4l2->live);
    if (pixels)
        copy_rows(v4l2, v4l2->mapped[buffer->index].bytes, pixels);
    if (is_damaged) {
        frame.flags |= CAPTURE_DAMAGED;
        live_damage_note(&v4l2->damage, now_ns, frame.index, "%u of %zu bytes came%s",
                         buffer->bytesused, needs,
                         buffer->flags & V4L2_BUF_FLAG_ERROR ? ", with errors" : "");
    }
    live_put(&v4l2->live, &frame, pixels, &(struct live_camera){.intrinsics = v4l2->camera});
    return RECONNECT_FRAME;
}

static enum reconnect_served serve(void *user)
{
    struct v4l2 *v4l2 = user;
    struct pollfd waits = {.fd = v4l2->fd, .events = POLLIN};
    if (poll(&waits, 1, WAIT_MS) == 0)
        return RECONNECT_NOTHING;
    struct v4l2_buffer buffer = {.type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .memory = V4L2_MEMORY_MMAP};
    int err = control(v4l2->fd, VIDIOC_DQBUF, &buffer);
    if (err == -EAGAIN)
        return RECONNECT_NOTHING;
    if (err || buffer.index >= v4l2->n_mapped)
        return RECONNECT_GONE;
    enum reconnect_served served = put(v4l2, &buffer);
    return queue(v4l2, buffer.index) ? RECONNECT_GONE : served;
}

// ---- the driver ----

static void close_v4l2(void *state)
{
    struct v4l2 *v4l2 = state;
    if (!reconnect_stop(&v4l2->reconnect))
        return; // its thread has it
    if (v4l2->n_missed)
        log_to(&v4l2->log, LOG_LEVEL_NOTICE, "%s: the kernel lost %llu frames in all",
               v4l2->reconnect.name, (unsigned long long)v4l2->n_missed);
    live_damage_end(&v4l2->damage);
    if (v4l2->has_live)
        live_destroy(&v4l2->live);
    free(v4l2);
}

static int check_intrinsics(const struct capture_settings *settings, const char *name)
{
    if (settings->fx_px > 0 && settings->fy_px != 0)
        return 0;
    log_to(&settings->log, LOG_LEVEL_ERROR,
           "%s: Video4Linux tells no intrinsics: set camera.fx and camera.fy (and camera.cx, "
           "camera.cy where they are not the middle of the image), or -c FILE of config/cameras",
           name);
    return -EINVAL;
}

static int open_v4l2(void **out_state, const char *location,
                     const struct capture_settings *settings, struct capture_info *out_info)
{
    struct v4l2 *v4l2 = calloc(1, sizeof *v4l2);
    if (!v4l2)
        return -ENOMEM;
    v4l2->log = settings->log;
    v4l2->fd = -1;
    v4l2->units_per_m = settings->depth_scale != 0 ? settings->depth_scale : REALSENSE_UNIT_M;
    v4l2->damage = (struct live_damage){.log = v4l2->log, .name = v4l2->reconnect.name};
    const struct live_clock_reading clocks = live_clock_read();
    live_clock_begin(&v4l2->clock, v4l2->reconnect.name, &v4l2->log, &clocks);
    int err = reconnect_parse("v4l2", location, &settings->log, &v4l2->place);
    static const struct reconnect_camera camera = {open_camera, serve, close_camera};
    if (!err)
        err = reconnect_open(&v4l2->reconnect, &camera, v4l2, "v4l2", v4l2->place.place, settings);
    if (!err) // only now: where no camera is, that is said first
        err = check_intrinsics(settings, v4l2->reconnect.name);
    if (err)
        goto fail;
    v4l2->camera.fx_px = settings->fx_px;
    v4l2->camera.fy_px = settings->fy_px;
    v4l2->camera.cx_px = (v4l2->camera.width_px - 1) / 2.0;
    v4l2->camera.cy_px = (v4l2->camera.height_px - 1) / 2.0;
    err = live_create(&v4l2->live, &(struct live_camera){.intrinsics = v4l2->camera},
                      settings->n_kept);
    if (err)
        goto fail;
    v4l2->has_live = true;
    out_info->camera = v4l2->camera;
    out_info->units_per_m = v4l2->units_per_m;
    out_info->live = true;
    out_info->period_ns = 1000000000 / 30;
    snprintf(out_info->description, sizeof out_info->description, "v4l2:%s (%ux%u)", v4l2->node,
             v4l2->camera.width_px, v4l2->camera.height_px);
    err = reconnect_start(&v4l2->reconnect);
    if (err)
        goto fail;
    *out_state = v4l2;
    return 0;
fail:
    close_v4l2(v4l2);
    return err;
}

static int wait_v4l2(void *state, int timeout_ms, struct capture_frame *out_frame)
{
    return live_wait(&((struct v4l2 *)state)->live, timeout_ms, out_frame);
}

static struct buffers *buffers_of(void *state)
{
    return &((struct v4l2 *)state)->live.buffers;
}

static void interrupt(void *state)
{
    live_interrupt(&((struct v4l2 *)state)->live);
}

const struct capture_driver capture_driver_v4l2 = {
    .name = "v4l2",
    .summary = "Z16 depth of the kernel's own drivers, RealSense D4xx (v4l2:[NODE][,size=WxH])",
    .open = open_v4l2,
    .wait = wait_v4l2,
    .buffers = buffers_of,
    .interrupt = interrupt,
    .look = look,
    .close = close_v4l2,
};

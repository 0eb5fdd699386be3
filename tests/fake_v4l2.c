// SPDX-License-Identifier: Apache-2.0
// System calls are made directly: what is replaced here is the C library's.
#include "tests/fake_v4l2.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/videodev2.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define N_BUFFERS    8
#define PADDED(w)    (2 * (w) + 2) // bytes of a row
#define BUFFER_BYTES 618496u       // whole pages for 480 rows

static struct fake_v4l2 inside; // without FAKE_V4L2
struct fake_v4l2 *fake_v4l2 = &inside;

static const uint16_t (*frames)[640 * 480];
static size_t n_frames;

enum { COLOUR = 1, METADATA, DEPTH };

// A device is used by one thread at a time. Which one a descriptor is, any thread may ask that
// opens or closes something.
static struct {
    _Atomic int fd, kind; // kind 0: free
    bool streams, gone;   // gone: it was plugged out since it was opened
    uint32_t width, height, n_buffers;
    char *memory;
    bool queued[N_BUFFERS];
    uint32_t next;
    int64_t due_ns;
} devices[64];

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void *map(const char *variable, int flags, int protection, size_t *out_bytes)
{
    const char *path = getenv(variable);
    struct stat st;
    int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC) : -1;
    *out_bytes = 0;
    if (fd < 0 || fstat(fd, &st))
        return NULL;
    *out_bytes = (size_t)st.st_size;
    void *memory = mmap(NULL, *out_bytes, protection, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    return memory == MAP_FAILED ? NULL : memory;
}

__attribute__((constructor)) static void find_files(void)
{
    size_t n_bytes;
    void *switches = map("FAKE_V4L2", O_RDWR, PROT_READ | PROT_WRITE, &n_bytes);
    if (switches && n_bytes == sizeof *fake_v4l2)
        fake_v4l2 = switches;
    frames = map("FAKE_V4L2_FRAMES", O_RDONLY, PROT_READ, &n_bytes);
    n_frames = frames ? n_bytes / sizeof *frames : 0;
}

// ThreadSanitizer opens and closes the programs that it names in a report: under its lock, so what
// such a call passes must report nothing itself.
#define UNWATCHED __attribute__((no_sanitize("thread")))

UNWATCHED static int device_of(int fd)
{
    for (int i = 0; i < 64; i++)
        if (fd > 0 && devices[i].kind && devices[i].fd == fd)
            return i;
    return -1;
}

UNWATCHED static bool is_video(const char *path)
{
    const char *start = "/dev/video";
    while (*start && *path == *start)
        path++, start++;
    return !*start;
}

// A free device becomes one of `kind`: its index, or -1.
static int claim(int kind)
{
    for (int i = 0; i < 64; i++) {
        int is_free = 0;
        if (!atomic_compare_exchange_strong(&devices[i].kind, &is_free, kind))
            continue;
        devices[i].streams = devices[i].gone = false;
        devices[i].width = devices[i].height = devices[i].n_buffers = devices[i].next = 0;
        devices[i].memory = NULL;
        devices[i].due_ns = 0;
        memset(devices[i].queued, 0, sizeof devices[i].queued);
        return i;
    }
    return -1;
}

static int open_video(const char *path)
{
    int number = -1;
    char end;
    if (sscanf(path, "/dev/video%d%c", &number, &end) != 1)
        number = -1;
    int kind = number == 0                                            ? COLOUR
               : number == 1                                          ? METADATA
               : number == fake_v4l2->node && fake_v4l2->plugged != 0 ? DEPTH
                                                                      : 0;
    int i = kind ? claim(kind) : -1;
    if (i < 0) {
        errno = ENOENT;
        return -1;
    }
    devices[i].fd = memfd_create("fake_v4l2", MFD_CLOEXEC);
    fake_v4l2->n_open++;
    fake_v4l2->n_opened += kind == DEPTH;
    return devices[i].fd;
}

UNWATCHED static int open_any(const char *path, int flags, mode_t mode)
{
    if (is_video(path))
        return open_video(path);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

#define MODE(flags, mode)                        \
    do {                                         \
        if ((flags) & (O_CREAT | __O_TMPFILE)) { \
            va_list rest;                        \
            va_start(rest, flags);               \
            (mode) = va_arg(rest, mode_t);       \
            va_end(rest);                        \
        }                                        \
    } while (0)

UNWATCHED int open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    MODE(flags, mode);
    return open_any(path, flags, mode);
}

UNWATCHED int open64(const char *path, int flags, ...)
{
    mode_t mode = 0;
    MODE(flags, mode);
    return open_any(path, flags, mode);
}

static void close_video(int i)
{
    fake_v4l2->n_streams -= devices[i].streams;
    if (devices[i].memory)
        munmap(devices[i].memory, (size_t)N_BUFFERS * BUFFER_BYTES);
    devices[i].fd = -1;
    devices[i].kind = 0;
    fake_v4l2->n_open--;
}

// ThreadSanitizer has to see that a socket is closed, or it takes the next file of this number for
// one that two threads use. The programs that it opens itself are no sockets.
UNWATCHED int close(int fd)
{
    static _Atomic(int (*)(int)) watched;
    struct stat st;
    int i = device_of(fd);
    if (i >= 0)
        close_video(i);
    if (syscall(SYS_fstat, fd, &st) != 0 || !S_ISSOCK(st.st_mode))
        return (int)syscall(SYS_close, fd);
    if (!watched)
        watched = (int (*)(int))dlsym(RTLD_NEXT, "close");
    return watched(fd);
}

static bool is_gone(int i)
{
    devices[i].gone = devices[i].gone || (devices[i].kind == DEPTH && !fake_v4l2->plugged);
    return devices[i].gone;
}

// By its label: the C library's declaration says that `fds` is only written.
int fake_poll(struct pollfd *fds, nfds_t n, int timeout_ms) __asm__("poll");

int fake_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    int i = n == 1 ? device_of(fds->fd) : -1;
    if (i < 0) {
        struct timespec timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000000};
        return (int)syscall(SYS_ppoll, fds, n, timeout_ms < 0 ? NULL : &timeout, NULL, 0);
    }
    int64_t until_ns = now_ns() + timeout_ms * INT64_C(1000000);
    for (;;) {
        bool ready = devices[i].streams && !fake_v4l2->silent && now_ns() >= devices[i].due_ns;
        if (is_gone(i) || ready || !devices[i].streams) {
            fds->revents = ready && !devices[i].gone ? POLLIN : POLLERR;
            return 1;
        }
        if (now_ns() > until_ns)
            return 0;
        nanosleep(&(struct timespec){0, 500000}, NULL);
    }
}

// ---- requests ----

static int refuse(int err)
{
    errno = err;
    return -1;
}

static int query(int i, struct v4l2_capability *out)
{
    memset(out, 0, sizeof *out);
    out->capabilities =
        V4L2_CAP_DEVICE_CAPS | V4L2_CAP_VIDEO_CAPTURE | V4L2_CAP_STREAMING | V4L2_CAP_META_CAPTURE;
    out->device_caps = V4L2_CAP_STREAMING | (devices[i].kind == METADATA ? V4L2_CAP_META_CAPTURE
                                                                         : V4L2_CAP_VIDEO_CAPTURE);
    return 0;
}

static int list_format(int i, struct v4l2_fmtdesc *format)
{
    static const uint32_t colour[] = {V4L2_PIX_FMT_YUYV, V4L2_PIX_FMT_MJPEG};
    static const uint32_t depth[] = {V4L2_PIX_FMT_UYVY, V4L2_PIX_FMT_Z16};
    if (format->index > 1)
        return refuse(EINVAL);
    format->pixelformat = (devices[i].kind == DEPTH ? depth : colour)[format->index];
    return 0;
}

static int set_format(int i, struct v4l2_format *format)
{
    struct v4l2_pix_format *pixels = &format->fmt.pix;
    if (fake_v4l2->busy || devices[i].streams)
        return refuse(EBUSY);
    bool is_small = fake_v4l2->only_small || pixels->width <= 320;
    devices[i].width = pixels->width = is_small ? 320 : 640;
    devices[i].height = pixels->height = is_small ? 240 : 480;
    pixels->bytesperline = PADDED(pixels->width);
    pixels->sizeimage = pixels->bytesperline * pixels->height;
    return 0;
}

static int request_buffers(int i, struct v4l2_requestbuffers *request)
{
    request->count = request->count > N_BUFFERS ? N_BUFFERS : request->count;
    devices[i].n_buffers = request->count;
    if (ftruncate(devices[i].fd, (off_t)N_BUFFERS * BUFFER_BYTES))
        return -1;
    devices[i].memory = mmap(NULL, (size_t)N_BUFFERS * BUFFER_BYTES, PROT_READ | PROT_WRITE,
                             MAP_SHARED, devices[i].fd, 0);
    return devices[i].memory == MAP_FAILED ? -1 : 0;
}

static void draw(int i, uint32_t buffer, uint32_t frame)
{
    char *rows = devices[i].memory + (size_t)buffer * BUFFER_BYTES;
    size_t round = n_frames > 1 ? 2 * n_frames - 2 : 1, k = frame % round;
    const uint16_t *played = n_frames ? frames[k < n_frames ? k : round - k] : NULL;
    for (uint32_t y = 0; y < devices[i].height; y++)
        for (uint32_t x = 0; x < devices[i].width; x++) {
            uint32_t at = y * devices[i].width + x;
            uint16_t value = played ? played[y * 640 + x] : fake_v4l2_pixel(frame, at);
            memcpy(rows + y * PADDED(devices[i].width) + 2 * x, &value, 2);
        }
}

static int take(int i, struct v4l2_buffer *buffer)
{
    uint32_t k = 0;
    while (k < devices[i].n_buffers && !devices[i].queued[k])
        k++;
    if (now_ns() < devices[i].due_ns || fake_v4l2->silent || k == devices[i].n_buffers)
        return refuse(EAGAIN);
    int64_t taken_ns = now_ns();
    uint32_t size = PADDED(devices[i].width) * devices[i].height;
    devices[i].next += (uint32_t)atomic_exchange(&fake_v4l2->skip, 0);
    draw(i, k, devices[i].next);
    devices[i].queued[k] = false;
    devices[i].due_ns = taken_ns + fake_v4l2->period_ms * INT64_C(1000000);
    buffer->index = k;
    buffer->sequence = devices[i].next++;
    buffer->bytesused = atomic_exchange(&fake_v4l2->torn, 0) ? size / 2 : size;
    buffer->flags = V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC;
    buffer->timestamp.tv_sec = taken_ns / 1000000000;
    buffer->timestamp.tv_usec = taken_ns / 1000 % 1000000;
    fake_v4l2->n_frames++;
    return 0;
}

static int serve_buffer(int i, unsigned long request, struct v4l2_buffer *buffer)
{
    if (request != VIDIOC_DQBUF && buffer->index >= devices[i].n_buffers) {
        fake_v4l2->n_wrong++;
        return refuse(EINVAL);
    }
    if (request == VIDIOC_DQBUF)
        return take(i, buffer);
    if (request == VIDIOC_QBUF) {
        fake_v4l2->n_wrong += devices[i].queued[buffer->index];
        devices[i].queued[buffer->index] = true;
        return 0;
    }
    buffer->length = BUFFER_BYTES;
    buffer->m.offset = buffer->index * BUFFER_BYTES;
    return 0;
}

static int serve(int i, unsigned long request, void *argument)
{
    switch (request) {
    case VIDIOC_QUERYCAP:
        return query(i, argument);
    case VIDIOC_ENUM_FMT:
        return list_format(i, argument);
    case VIDIOC_S_FMT:
        return set_format(i, argument);
    case VIDIOC_S_PARM:
        return refuse(ENOTTY);
    case VIDIOC_REQBUFS:
        return request_buffers(i, argument);
    case VIDIOC_QUERYBUF:
    case VIDIOC_QBUF:
    case VIDIOC_DQBUF:
        return serve_buffer(i, request, argument);
    case VIDIOC_STREAMON:
        fake_v4l2->n_wrong += devices[i].streams;
        fake_v4l2->n_streams += !devices[i].streams;
        devices[i].streams = true;
        return 0;
    case VIDIOC_STREAMOFF:
        fake_v4l2->n_streams -= devices[i].streams;
        devices[i].streams = false;
        return 0;
    default:
        fake_v4l2->n_wrong++;
        return refuse(ENOTTY);
    }
}

int ioctl(int fd, unsigned long request, ...)
{
    va_list rest;
    va_start(rest, request);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    int i = device_of(fd);
    if (i < 0)
        return (int)syscall(SYS_ioctl, fd, request, argument);
    if (is_gone(i) && request != VIDIOC_STREAMOFF)
        return refuse(ENODEV);
    return serve(i, request, argument);
}

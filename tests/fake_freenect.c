// SPDX-License-Identifier: Apache-2.0
#include "tests/fake_freenect.h"
#include "proto/clock.h"

#include <fcntl.h>
#include <libfreenect.h>
#include <libfreenect_registration.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define N (640u * 480u)

static struct fake_freenect inside; // without FAKE_FREENECT
struct fake_freenect *fake = &inside;

static const uint16_t (*frames)[N]; // to be played
static size_t n_frames;

struct _freenect_context {
    freenect_log_cb log;
    freenect_device_flags subdevices;
    struct _freenect_device *device;
};

struct _freenect_device {
    freenect_context *ctx;
    void *user;
    freenect_depth_cb on_depth;
    int index;
    bool streams;
    uint64_t n_sent;
    int64_t next_ns;
    uint16_t pixels[N];
    freenect_raw_tilt_state tilt;
};

static void *map(const char *variable, int flags, int protection, size_t *out_bytes)
{
    const char *path = getenv(variable);
    struct stat st;
    int fd = path ? open(path, flags | O_CLOEXEC) : -1;
    if (fd < 0 || fstat(fd, &st)) {
        *out_bytes = 0;
        return NULL;
    }
    *out_bytes = (size_t)st.st_size;
    void *memory = mmap(NULL, *out_bytes, protection, MAP_SHARED, fd, 0);
    close(fd);
    return memory == MAP_FAILED ? NULL : memory;
}

__attribute__((constructor)) static void find_files(void)
{
    size_t n_bytes;
    void *switches = map("FAKE_FREENECT", O_RDWR, PROT_READ | PROT_WRITE, &n_bytes);
    if (switches && n_bytes == sizeof *fake)
        fake = switches;
    frames = map("FAKE_FREENECT_FRAMES", O_RDONLY, PROT_READ, &n_bytes);
    n_frames = frames ? n_bytes / sizeof *frames : 0;
}

static void pause_ns(int64_t ns)
{
    if (ns > 0)
        nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL);
}

static void hang(void)
{
    do
        pause_ns(2000000);
    while (fake->held);
}

int freenect_init(freenect_context **ctx, freenect_usb_context *usb)
{
    (void)usb;
    *ctx = calloc(1, sizeof **ctx);
    fake->n_contexts++;
    return *ctx ? 0 : -1;
}

int freenect_shutdown(freenect_context *ctx)
{
    if (ctx->device)
        freenect_close_device(ctx->device);
    free(ctx);
    fake->n_contexts--;
    return 0;
}

void freenect_set_log_level(freenect_context *ctx, freenect_loglevel level)
{
    (void)ctx;
    (void)level;
}

void freenect_set_log_callback(freenect_context *ctx, freenect_log_cb cb)
{
    ctx->log = cb;
}

int freenect_supported_subdevices(void)
{
    return FREENECT_DEVICE_CAMERA | FREENECT_DEVICE_MOTOR;
}

void freenect_select_subdevices(freenect_context *ctx, freenect_device_flags subdevices)
{
    ctx->subdevices = subdevices;
}

int freenect_open_device(freenect_context *ctx, freenect_device **dev, int index)
{
    if (fake->hang_open)
        hang();
    if (!fake->plugged || index < 0 || index > 1 ||
        (fake->no_motor && ctx->subdevices & FREENECT_DEVICE_MOTOR))
        return -1;
    *dev = calloc(1, sizeof **dev);
    if (!*dev)
        return -1;
    (*dev)->ctx = ctx;
    (*dev)->index = index;
    ctx->device = *dev;
    fake->n_devices++;
    fake->n_opened++;
    return 0;
}

int freenect_open_device_by_camera_serial(freenect_context *ctx, freenect_device **dev,
                                          const char *serial)
{
    int index = !strcmp(serial, FAKE_FREENECT_SERIAL)    ? 0
                : !strcmp(serial, FAKE_FREENECT_SERIAL2) ? 1
                                                         : -1;
    return freenect_open_device(ctx, dev, index);
}

int freenect_close_device(freenect_device *dev)
{
    if (dev->streams)
        freenect_stop_depth(dev);
    dev->ctx->device = NULL;
    free(dev);
    fake->n_devices--;
    return 0;
}

void freenect_set_user(freenect_device *dev, void *user)
{
    dev->user = user;
}

void *freenect_get_user(freenect_device *dev)
{
    return dev->user;
}

void freenect_set_depth_callback(freenect_device *dev, freenect_depth_cb cb)
{
    dev->on_depth = cb;
}

freenect_frame_mode freenect_find_depth_mode(freenect_resolution res, freenect_depth_format fmt)
{
    fake->n_wrong += res != FREENECT_RESOLUTION_MEDIUM || fmt != FREENECT_DEPTH_11BIT;
    return (freenect_frame_mode){.bytes = 2 * N, .width = 640, .height = 480, .is_valid = 1};
}

int freenect_set_depth_mode(freenect_device *dev, freenect_frame_mode mode)
{
    (void)dev;
    return mode.is_valid ? 0 : -1;
}

int freenect_start_depth(freenect_device *dev)
{
    fake->n_wrong += dev->streams;
    dev->streams = true;
    fake->n_streams++;
    return fake->plugged ? 0 : -1;
}

int freenect_stop_depth(freenect_device *dev)
{
    if (fake->hang_stop)
        hang();
    if (!dev->streams)
        return -1;
    dev->streams = false;
    fake->n_streams--;
    return 0;
}

static void lose_packets(freenect_context *ctx)
{
    int n_lost = atomic_exchange(&fake->lose_packets, 0);
    char line[64];
    if (!n_lost)
        return;
    snprintf(line, sizeof line, "[Stream 80] Lost %d packets\n", n_lost + 1000);
    ctx->log(ctx, FREENECT_LOG_SPEW, line);
    snprintf(line, sizeof line, "[Stream 70] Lost %d packets\n", n_lost);
    ctx->log(ctx, FREENECT_LOG_SPEW, line);
}

static void draw(freenect_device *dev)
{
    if (!n_frames) {
        for (size_t i = 0; i < N; i += 1000)
            dev->pixels[i] = (uint16_t)fake->raw_value;
        return;
    }
    size_t round = n_frames > 1 ? 2 * n_frames - 2 : 1, k = dev->n_sent++ % round;
    const uint16_t *frame = frames[k < n_frames ? k : round - k];
    for (size_t i = 0; i < N; i++)
        dev->pixels[dev->index ? N - 1 - i : i] = frame[i];
}

int freenect_process_events_timeout(freenect_context *ctx, struct timeval *timeout)
{
    (void)timeout;
    freenect_device *dev = ctx->device;
    if (fake->hang_events)
        hang();
    if (dev && fake->period_ms && !fake->silent) { // a frame that was missed does not come twice
        int64_t now_ns = clock_monotonic_ns();
        dev->next_ns += fake->period_ms * INT64_C(1000000);
        dev->next_ns = dev->next_ns < now_ns ? now_ns : dev->next_ns;
        pause_ns(dev->next_ns - now_ns);
    } else {
        pause_ns(fake->silent ? 20000000 : 1000000);
    }
    if (!fake->plugged)
        return -1;
    if (fake->silent || !dev || !dev->streams)
        return 0;
    lose_packets(ctx);
    draw(dev);
    dev->on_depth(dev, dev->pixels, atomic_fetch_add(&fake->next_ticks, 2000000));
    return 0;
}

int freenect_update_tilt_state(freenect_device *dev)
{
    if (!(dev->ctx->subdevices & FREENECT_DEVICE_MOTOR))
        return -1;
    dev->tilt.accelerometer_y = 819;
    return 0;
}

freenect_raw_tilt_state *freenect_get_tilt_state(freenect_device *dev)
{
    return &dev->tilt;
}

freenect_registration freenect_copy_registration(freenect_device *dev)
{
    (void)dev;
    freenect_registration registration = {0};
    if (fake->own_parameters) {
        registration.const_shift = 200;
        registration.zero_plane_info = (freenect_zero_plane_info){7.5f, 2.3f, 120, 0.1052f};
    }
    registration.raw_to_mm_shift = malloc(16);
    return registration;
}

int freenect_destroy_registration(freenect_registration *registration)
{
    free(registration->raw_to_mm_shift);
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "tests/fake_openni2.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef struct _OniDevice _OniDevice;
typedef struct _OniStream _OniStream;
typedef struct _OniRecorder _OniRecorder;
#include <OniCAPI.h>

static struct fake_openni2 inside; // without FAKE_OPENNI2
struct fake_openni2 *fake_openni2 = &inside;
uint16_t fake_openni2_raw[320 * 240];

static OniDeviceCallbacks callbacks;
static void *cookie;

// The library's own function of that name.
#define REAL(name) ((__typeof(&(name)))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void find_file(void)
{
    const char *path = getenv("FAKE_OPENNI2");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *memory = mmap(NULL, sizeof inside, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory != MAP_FAILED)
        fake_openni2 = memory;
    close(fd);
}

OniStatus oniDeviceOpen(const char *uri, OniDeviceHandle *device)
{
    if (!fake_openni2->plugged)
        return ONI_STATUS_NO_DEVICE;
    OniStatus status = REAL(oniDeviceOpen)(uri, device);
    fake_openni2->n_devices += status == ONI_STATUS_OK;
    fake_openni2->n_opened += status == ONI_STATUS_OK;
    return status;
}

OniStatus oniDeviceClose(OniDeviceHandle device)
{
    fake_openni2->n_devices--;
    return REAL(oniDeviceClose)(device);
}

OniStatus oniDeviceCreateStream(OniDeviceHandle device, OniSensorType type, OniStreamHandle *stream)
{
    OniStatus status = REAL(oniDeviceCreateStream)(device, type, stream);
    fake_openni2->n_streams += status == ONI_STATUS_OK;
    return status;
}

void oniStreamDestroy(OniStreamHandle stream)
{
    fake_openni2->n_streams--;
    REAL(oniStreamDestroy)(stream);
}

OniStatus oniRegisterDeviceCallbacks(OniDeviceCallbacks *given, void *user,
                                     OniCallbackHandle *handle)
{
    callbacks = *given;
    cookie = user;
    return REAL(oniRegisterDeviceCallbacks)(given, user, handle);
}

OniStatus oniWaitForAnyStream(OniStreamHandle *streams, int n, int *which, int timeout_ms)
{
    static const OniDeviceInfo dummy = {.uri = "Dummy"};
    if (fake_openni2->plugged && !fake_openni2->silent)
        return REAL(oniWaitForAnyStream)(streams, n, which, timeout_ms);
    if (!fake_openni2->plugged && fake_openni2->told && callbacks.deviceDisconnected)
        callbacks.deviceDisconnected(&dummy, cookie);
    nanosleep(&(struct timespec){0, timeout_ms * 1000000L}, NULL);
    return ONI_STATUS_TIME_OUT;
}

OniStatus oniStreamReadFrame(OniStreamHandle stream, OniFrame **frame)
{
    OniStatus status = REAL(oniStreamReadFrame)(stream, frame);
    if (status == ONI_STATUS_OK && (*frame)->dataSize == (int)sizeof fake_openni2_raw)
        memcpy(fake_openni2_raw, (*frame)->data, sizeof fake_openni2_raw);
    return status;
}

OniStatus oniStreamGetProperty(OniStreamHandle stream, int property, void *data, int *n_bytes)
{
    const float fov_rad[2] = {1.0f, 0.8f};
    const OniBool yes = TRUE;
    if (property == ONI_STREAM_PROPERTY_MIRRORING && fake_openni2->mirrored)
        memcpy(data, &yes, sizeof yes);
    else if (property == ONI_STREAM_PROPERTY_HORIZONTAL_FOV && fake_openni2->tells_fov)
        memcpy(data, &fov_rad[0], sizeof fov_rad[0]);
    else if (property == ONI_STREAM_PROPERTY_VERTICAL_FOV && fake_openni2->tells_fov)
        memcpy(data, &fov_rad[1], sizeof fov_rad[1]);
    else
        return REAL(oniStreamGetProperty)(stream, property, data, n_bytes);
    return ONI_STATUS_OK;
}

// SPDX-License-Identifier: Apache-2.0
// A recording that is one file, through its driver as capture.c would use it: opened, every frame
// told the time of and decoded.
#ifndef POSED_TESTS_FUZZ_FUZZ_DRIVER_H
#define POSED_TESTS_FUZZ_FUZZ_DRIVER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capture/driver.h"

#define FUZZ_MAX_PIXELS 4096u

// The recording stands at `place`.
static inline void fuzz_driver_at(const struct capture_driver *driver, const char *place)
{
    static uint16_t pixels[FUZZ_MAX_PIXELS];
    const struct capture_settings settings = {.source = "", .allow_implausible = true};
    struct capture_info info = {0};
    void *state = NULL;
    if (driver->open(&state, place, &settings, &info)) {
        if (state)
            abort();
        return;
    }
    if (info.n_frames == 0 || info.camera.width_px < 1 ||
        info.camera.width_px > CAPTURE_MAX_SIDE_PX || info.camera.height_px < 1 ||
        info.camera.height_px > CAPTURE_MAX_SIDE_PX || !(info.units_per_m > 0))
        abort();
    bool small = (uint64_t)info.camera.width_px * info.camera.height_px <= FUZZ_MAX_PIXELS;
    int64_t last_ns = -1, time_ns;
    for (uint64_t i = 0; i < info.n_frames; i++) {
        struct capture_frame frame = {0};
        uint64_t index;
        driver->stamp(state, i, &time_ns, &index);
        if (time_ns <= last_ns)
            abort();
        last_ns = time_ns;
        int err = small ? driver->decode(state, i, pixels, &frame) : 0;
        if (err > 0)
            abort();
    }
    driver->close(state);
}

static inline void fuzz_driver(const struct capture_driver *driver, const uint8_t *data,
                               size_t n_bytes)
{
    static int fd = -1;
    char place[40];
    if (fd < 0 && (fd = memfd_create("recording", 0)) < 0)
        abort();
    if (ftruncate(fd, 0) || pwrite(fd, data, n_bytes, 0) != (ssize_t)n_bytes)
        abort();
    snprintf(place, sizeof place, "/proc/self/fd/%d", fd);
    fuzz_driver_at(driver, place);
}

#endif

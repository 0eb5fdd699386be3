// SPDX-License-Identifier: Apache-2.0
// Inside capture/ only: the thread of a camera that may be unplugged and come back. It serves the
// open camera, closes one that is gone or has fallen silent, and tries to open it again until the
// driver is closed. Drivers whose library reports frames by itself (kinect, ros2) need none.
#ifndef POSED_CAPTURE_RECONNECT_H
#define POSED_CAPTURE_RECONNECT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "capture/capture.h"
#include "proto/log.h"

#define RECONNECT_REASON_BYTES 400
#define RECONNECT_PLACE_BYTES  200

// Between two attempts to open a camera: at first, and after each twice as long up to the second.
// The Kinect's, too.
#define RECONNECT_MIN_NS ((int64_t)20000000)
#define RECONNECT_MAX_NS ((int64_t)500000000)

enum reconnect_served {
    RECONNECT_FRAME,   // one was put
    RECONNECT_NOTHING, // none within 100 ms
    RECONNECT_GONE,    // the camera does not answer any more
};

// Of a driver. All are called by one thread at a time: `open` by reconnect_start's caller first.
struct reconnect_camera {
    // Returns true, or false with the reason in words. Nothing is open then.
    bool (*open)(void *user, char reason[RECONNECT_REASON_BYTES]);
    // Waits for a frame, at most 100 ms or so, and puts it.
    enum reconnect_served (*serve)(void *user);
    void (*close)(void *user);
};

struct reconnect {
    const struct reconnect_camera *camera;
    void *user;
    char name[RECONNECT_PLACE_BYTES + 16]; // "v4l2:/dev/video2", for the log
    struct log_sink log;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t news; // on CLOCK_MONOTONIC
    atomic_bool quit, ended;
    bool runs;
    char told[RECONNECT_REASON_BYTES]; // why the camera cannot be opened, once
};

// Opens the camera, for which it waits up to 10 s. Returns 0, -EINTR (settings->is_stopped), or
// -ENODEV with the reason in the log, which knows it as DRIVER:PLACE, or DRIVER alone where the
// place is empty. The first frame is served only after reconnect_start.
__attribute__((warn_unused_result)) int
reconnect_open(struct reconnect *reconnect, const struct reconnect_camera *camera, void *user,
               const char *driver, const char *place, const struct capture_settings *settings);

// Starts the thread. Returns 0 or a negative errno; the camera stays open in either case.
__attribute__((warn_unused_result)) int reconnect_start(struct reconnect *reconnect);

// Ends the thread and closes the camera. Returns false when a call into the camera hangs for more
// than 3 s: then the thread is left behind, and what it uses must not be freed. Accepts one that is
// all zero, or whose open failed.
__attribute__((warn_unused_result)) bool reconnect_stop(struct reconnect *reconnect);

// What follows the driver's name: PLACE[,size=WIDTHxHEIGHT].
struct reconnect_place {
    char place[RECONNECT_PLACE_BYTES];
    uint32_t width_px, height_px; // 0 = not given
};

// Returns 0, or -EINVAL with the reason in the log.
__attribute__((warn_unused_result)) int reconnect_parse(const char *driver, const char *location,
                                                        const struct log_sink *log,
                                                        struct reconnect_place *out);

#endif

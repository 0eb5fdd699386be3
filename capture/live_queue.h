// SPDX-License-Identifier: Apache-2.0
// Inside capture/ only: the way from the thread of a live source to the reader. The source takes
// pixels, fills them and puts them; the reader gets the oldest frame, without pixels when newer
// ones wait already, more than may (it is late). Neither waits for the other. What gathers
// until the reader begins, while other cameras are opened, says nothing of its speed
// (CAPTURE_EARLY).
#ifndef POSED_CAPTURE_LIVE_QUEUE_H
#define POSED_CAPTURE_LIVE_QUEUE_H

#include "capture/buffers.h"

#define LIVE_WAITING 64 // frames told of, with or without pixels: two seconds

struct live_camera {
    struct intrinsics intrinsics;
    double zero_plane[4]; // a Kinect's parameters that the depth was converted with; 0: none
};

struct live_waiting {
    struct capture_frame frame;
    uint16_t *pixels;          // NULL: there was no buffer left, or it is damaged
    struct live_camera camera; // that took it
};

struct live {
    pthread_mutex_t lock;
    sem_t wake;
    atomic_bool interrupted;
    struct buffers buffers;
    struct live_camera camera; // that the reader knows of
    uint16_t *held;            // the reader's
    struct live_waiting waiting[LIVE_WAITING];
    uint64_t n_in, n_out;
    uint64_t n_early;    // came before the first live_wait
    bool is_read;        // live_wait was called
    unsigned owed_flags; // of frames that found no room: the next one's
};

// Returns 0 or -ENOMEM (then nothing is to be destroyed).
__attribute__((warn_unused_result)) int
live_create(struct live *live, const struct live_camera *camera, uint32_t n_kept);
void live_destroy(struct live *live);

// Before the first live_wait: the reader has been told of this camera.
void live_know(struct live *live, const struct live_camera *camera);

// The source's thread. Pixels for one frame, NULL when the reader is that far behind.
uint16_t *live_take(struct live *live);

// The frame is there: size, time and index are filled in, pixels are live_take's or NULL. A camera
// other than that of the frame before is told to the reader (CAPTURE_RECALIBRATED).
void live_put(struct live *live, const struct capture_frame *frame, uint16_t *pixels,
              const struct live_camera *camera);

// The driver's `wait` and `interrupt`.
__attribute__((warn_unused_result)) int live_wait(struct live *live, int timeout_ms,
                                                  struct capture_frame *out_frame);
void live_interrupt(struct live *live);

#endif

// SPDX-License-Identifier: Apache-2.0
// Inside capture/ only: a camera that counts microseconds from some moment on, on CLOCK_MONOTONIC.
// The wall's clock is no part of it, as that may be set.
#ifndef POSED_CAPTURE_OPENNI2_CAMERA_CLOCK_H
#define POSED_CAPTURE_OPENNI2_CAMERA_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

// Further apart the camera's clock has begun anew, or was set. Nearer it runs fast or slow, and is
// followed by so much of the time that passed: crystals are 0.01 % off.
#define CAMERA_CLOCK_APART_NS INT64_C(2000000000)
#define CAMERA_CLOCK_FOLLOWS  1000 // 0.1 %

struct camera_clock { // begins as all zero, with each opening of the camera
    bool is_anchored;
    int64_t offset_ns; // CLOCK_MONOTONIC - the camera's clock
    int64_t camera_ns; // of the newest frame
};

// When the camera has taken the frame, with its usual delay, on CLOCK_MONOTONIC. Grows as the
// camera's clock does, also where that is faster than the machine's.
int64_t camera_clock_monotonic_ns(struct camera_clock *clock, uint64_t camera_us,
                                  int64_t arrived_ns);

#endif

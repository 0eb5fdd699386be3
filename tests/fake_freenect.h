// SPDX-License-Identifier: Apache-2.0
// A libfreenect of our own making: Kinects that can be unplugged, plugged in again, fall silent,
// hang and lose packets. Linked into a test in place of the library, or as a shared library
// preloaded before it into the daemon; FAKE_FREENECT then names a file of sizeof(struct
// fake_freenect) bytes that is mapped, so that a scenario turns the switches from outside.
#ifndef POSED_TESTS_FAKE_FREENECT_H
#define POSED_TESTS_FAKE_FREENECT_H

#include <stdatomic.h>
#include <stdint.h>

#define FAKE_FREENECT_SERIAL  "A00362913019107A" // of the first camera
#define FAKE_FREENECT_SERIAL2 "B00362913019107B" // of the second

// All 32 bits, in this order, for the scenario's sake (see 233_replug.py).
struct fake_freenect {
    // Switches of the test.
    atomic_int plugged, silent;
    atomic_int hang_open, hang_events, hang_stop; // calls that begin to hang
    atomic_int held;                              // those that hang stay so
    atomic_int no_motor, own_parameters;
    atomic_int lose_packets; // with the next frame; then 0 again
    atomic_int raw_value;    // of some pixels, unless frames are played
    atomic_int period_ms;    // between frames; 0 = as fast as 1 ms allows
    atomic_uint next_ticks;  // of the device's clock; 2000000 more with each frame

    // What the library counts: what is open, and calls that make no sense.
    atomic_int n_contexts, n_devices, n_streams, n_wrong;
    atomic_int n_opened; // devices, in all
};

extern struct fake_freenect *fake;

// FAKE_FREENECT_FRAMES: a file of raw 640x480 images of 16 bits, one behind the other, that are
// played forwards and backwards; the second camera plays them upside down.

#endif

// SPDX-License-Identifier: Apache-2.0
// In front of the real OpenNI 2 and its Dummy device: a camera that can be unplugged and come back,
// fall silent, be mirrored, and tell its fields of view. The frames are the Dummy device's own.
// Linked into a test, or as a shared library preloaded into the daemon; FAKE_OPENNI2 then names a
// file of sizeof(struct fake_openni2) bytes that is mapped.
#ifndef POSED_TESTS_FAKE_OPENNI2_H
#define POSED_TESTS_FAKE_OPENNI2_H

#include <stdatomic.h>
#include <stdint.h>

// All 32 bits, in this order, for the scenario's sake (see 254_cameras.py).
struct fake_openni2 {
    // Switches of the test.
    atomic_int plugged;
    atomic_int silent;    // unplugged without a word
    atomic_int told;      // what disconnects is told of, as OpenNI does of USB cameras
    atomic_int mirrored;  // and does not obey
    atomic_int tells_fov; // 1.0 and 0.8 rad

    // What it counts.
    atomic_int n_devices, n_streams, n_opened;
};

extern struct fake_openni2 *fake_openni2;

// The frame that was read last, as OpenNI gave it.
extern uint16_t fake_openni2_raw[320 * 240];

#endif

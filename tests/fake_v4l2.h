// SPDX-License-Identifier: Apache-2.0
// Video devices of our own making: open, ioctl, poll and close in front of the C library's, with a
// depth camera that can be unplugged, come back under another number, fall silent, send torn frames
// and lose some. What is mapped is a memory file. Linked into a test, or as a shared library
// preloaded into the daemon; FAKE_V4L2 then names a file of sizeof(struct fake_v4l2) bytes that is
// mapped, so that a scenario turns the switches from outside.
//
//   /dev/video0   a colour camera: YUYV
//   /dev/video1   metadata: captures no images
//   /dev/videoN   the depth camera, N = `node`: Z16 of 640x480 and 320x240, 2 bytes a row more
#ifndef POSED_TESTS_FAKE_V4L2_H
#define POSED_TESTS_FAKE_V4L2_H

#include <stdatomic.h>
#include <stdint.h>

// All 32 bits, in this order, for the scenario's sake (see 254_cameras.py).
struct fake_v4l2 {
    // Switches of the test.
    atomic_int plugged, silent, node;
    atomic_int only_small; // 320x240 alone
    atomic_int busy;       // another program streams
    atomic_int torn;       // the next frame comes in half, then 0 again
    atomic_int skip;       // so many frames are lost before the next one, then 0 again
    atomic_int period_ms;

    // What it counts: what is open, and calls that make no sense.
    atomic_int n_open, n_streams, n_wrong;
    atomic_int n_opened; // depth cameras, in all
    atomic_int n_frames;
};

extern struct fake_v4l2 *fake_v4l2;

// FAKE_V4L2_FRAMES: a file of raw 640x480 images of 16 bits, played forwards and backwards;
// without it pixel i of frame k is fake_v4l2_pixel(k, i).
static inline uint16_t fake_v4l2_pixel(uint32_t frame, uint32_t i)
{
    return (uint16_t)(500 + (i * 7 + frame * 13) % 3000);
}

#endif

// SPDX-License-Identifier: Apache-2.0
// The Kinect stamps its frames with a 32-bit counter at 60 MHz, which wraps every 71.58 s.
// Unwrapped to 64 bit with the help of the host's clock it gives capture times without the jitter
// of USB and of the scheduler. Used live and for fakenect recordings, which keep both clocks.
#ifndef POSED_CAPTURE_KINECT_DEVICE_CLOCK_H
#define POSED_CAPTURE_KINECT_DEVICE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define DEVICE_CLOCK_HZ 60000000

// {0} is a clock without a history.
struct device_clock {
    bool started;
    uint64_t ticks;        // unwrapped, of the frame before
    int64_t host_ns;       // of the frame before
    uint64_t origin_ticks; // device time and host time of the anchor of the mapping
    int64_t origin_ns;
};

// Takes the stamps of the next frame. Whole wraps that went by unseen are counted by the host's
// clock. When the two clocks disagree by more than 2 s afterwards, or only the host's goes forward
// (the device was restarted, a recording was repeated), the mapping is anchored anew. Returns true
// with the unwrapped ticks and the device's time on the host's clock, both later than all before;
// false when the stamp repeats, or goes backwards on both clocks: such a frame is not new, and the
// clock stays as it was.
bool device_clock_update(struct device_clock *clock, uint32_t ticks, int64_t host_ns,
                         uint64_t *out_ticks, int64_t *out_time_ns);

#endif

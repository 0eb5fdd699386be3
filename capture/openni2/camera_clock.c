// SPDX-License-Identifier: Apache-2.0
#include "capture/openni2/camera_clock.h"

static int64_t bounded(int64_t value, int64_t most)
{
    return value < -most ? -most : value > most ? most : value;
}

int64_t camera_clock_monotonic_ns(struct camera_clock *clock, uint64_t camera_us,
                                  int64_t arrived_ns)
{
    const int64_t camera_ns = (int64_t)(camera_us % (UINT64_MAX / 2000)) * 1000;
    const int64_t step_ns = camera_ns - clock->camera_ns;
    const int64_t apart_ns = arrived_ns - camera_ns - clock->offset_ns;
    const bool is_far = apart_ns > CAMERA_CLOCK_APART_NS || apart_ns < -CAMERA_CLOCK_APART_NS;
    if (!clock->is_anchored || is_far)
        clock->offset_ns = arrived_ns - camera_ns;
    else if (step_ns > 0)
        clock->offset_ns += bounded(apart_ns, step_ns / CAMERA_CLOCK_FOLLOWS);
    clock->is_anchored = true;
    clock->camera_ns = camera_ns;
    return camera_ns + clock->offset_ns;
}

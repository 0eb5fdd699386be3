// SPDX-License-Identifier: Apache-2.0
#include "capture/kinect/device_clock.h"

#include <stdlib.h>

#define WRAP_TICKS      (INT64_C(1) << 32)
#define DISAGREEMENT_NS INT64_C(2000000000)
#define LONGEST_STEP_NS (INT64_C(1000000000) * 86400 * 365)

static int64_t ticks_to_ns(int64_t ticks)
{
    return ticks / DEVICE_CLOCK_HZ * 1000000000 +
           ticks % DEVICE_CLOCK_HZ * 1000000000 / DEVICE_CLOCK_HZ;
}

static void anchor(struct device_clock *clock, uint64_t ticks, int64_t host_ns)
{
    clock->started = true;
    clock->ticks = clock->origin_ticks = ticks;
    clock->host_ns = clock->origin_ns = host_ns;
}

bool device_clock_update(struct device_clock *clock, uint32_t ticks, int64_t host_ns,
                         uint64_t *out_ticks, int64_t *out_time_ns)
{
    if (!clock->started) {
        anchor(clock, ticks, host_ns);
        *out_ticks = ticks;
        *out_time_ns = host_ns;
        return true;
    }
    int64_t last_ns = clock->origin_ns + ticks_to_ns((int64_t)(clock->ticks - clock->origin_ticks));
    int64_t host_step_ns = host_ns - clock->host_ns;
    if (llabs(host_step_ns) > LONGEST_STEP_NS)
        return false; // no clock does this
    // the step of the counter that fits the host's step best
    int64_t step = (int64_t)(uint32_t)(ticks - (uint32_t)clock->ticks);
    int64_t host_step = host_step_ns / 1000 * (DEVICE_CLOCK_HZ / 1000000);
    int64_t excess = host_step - step + WRAP_TICKS / 2;
    int64_t n_wraps = excess / WRAP_TICKS - (excess % WRAP_TICKS < 0);
    step += n_wraps * WRAP_TICKS;
    bool disagree = llabs(ticks_to_ns(step) - host_step_ns) > DISAGREEMENT_NS;
    if ((disagree || step < 0) && host_step_ns > 0 && host_ns > last_ns) {
        uint32_t ahead = ticks - (uint32_t)clock->ticks; // 0: the counter began anew, up to there
        anchor(clock, clock->ticks + (ahead ? ahead : (uint64_t)WRAP_TICKS), host_ns);
        *out_ticks = clock->ticks;
        *out_time_ns = host_ns;
        return true;
    }
    if (disagree || step <= 0)
        return false;
    clock->ticks += (uint64_t)step;
    clock->host_ns = host_ns;
    *out_ticks = clock->ticks;
    *out_time_ns = clock->origin_ns + ticks_to_ns((int64_t)(clock->ticks - clock->origin_ticks));
    return true;
}

// SPDX-License-Identifier: Apache-2.0
#include "gpu/track/alignment_effort.h"

uint32_t effort_finest_level(const struct gpu_align_settings *settings)
{
    uint32_t level = 0;
    while (level + 1 < GPU_LEVELS && settings->iterations[level] == 0)
        level++;
    return level;
}

// The next coarser level gets the iterations of the finest one, where it has fewer.
static void leave_out_finest(struct gpu_align_settings *settings)
{
    const uint32_t level = effort_finest_level(settings);
    if (level + 1 == GPU_LEVELS)
        return;
    const uint32_t n = settings->iterations[level];
    if (settings->iterations[level + 1] < n)
        settings->iterations[level + 1] = n;
    settings->iterations[level] = 0;
}

void effort_align(const struct gpu_align_settings *full, enum track_effort effort,
                  struct gpu_align_settings *out)
{
    *out = *full;
    if (effort == TRACK_EFFORT_FULL)
        return;
    out->early_stop = true;
    leave_out_finest(out);
    while (effort == TRACK_EFFORT_LEAST && effort_finest_level(out) + 1 < GPU_LEVELS)
        leave_out_finest(out);
}

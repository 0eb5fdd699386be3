// SPDX-License-Identifier: Apache-2.0
#include "daemon/timing.h"

#include <stdlib.h>
#include <string.h>

static const char *const stage_names[TIMING_N_STAGES] = {"wait", "track", "added"};

void timing_add(struct timing *timing, enum timing_stage stage, double duration_us)
{
    timing->stages[stage].samples_us[timing->stages[stage].n++ % TIMING_MAX_SAMPLES] =
        (float)duration_us;
    timing->stages[stage].n_total++;
    timing->stages[stage].sum_us += duration_us;
    if (duration_us > timing->stages[stage].max_us)
        timing->stages[stage].max_us = duration_us;
}

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

void timing_report(struct timing *timing, posed_Timing *out)
{
    *out = (posed_Timing)posed_Timing_init_zero;
    out->stages_count = TIMING_N_STAGES;
    for (int i = 0; i < TIMING_N_STAGES; i++) {
        float *samples = timing->stages[i].samples_us;
        uint32_t n = timing->stages[i].n;
        posed_Timing_Stage *stage = &out->stages[i];
        strcpy(stage->name, stage_names[i]);
        stage->n = n;
        timing->stages[i].n = 0;
        if (n > TIMING_MAX_SAMPLES)
            n = TIMING_MAX_SAMPLES;
        if (n == 0)
            continue;
        qsort(samples, n, sizeof *samples, by_size);
        stage->p50_us = samples[n / 2];
        stage->p99_us = samples[(n - 1) * 99 / 100];
        stage->max_us = samples[n - 1];
    }
}

double timing_mean_us(const struct timing *timing, enum timing_stage stage)
{
    uint64_t n = timing->stages[stage].n_total;
    return n ? timing->stages[stage].sum_us / (double)n : 0;
}

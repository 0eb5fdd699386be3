// SPDX-License-Identifier: Apache-2.0
// How often a duration was how long: counts below fixed bounds, as Prometheus wants a histogram.
// One thread adds, any thread prints meanwhile; a reader may see a count without its sum.
#ifndef POSED_DAEMON_HISTOGRAM_H
#define POSED_DAEMON_HISTOGRAM_H

#include <stdint.h>
#include <stdio.h>

#define HISTOGRAM_N_BOUNDS 14

// All zero to begin with. Plain words, read and written atomically.
struct histogram {
    uint64_t counts[HISTOGRAM_N_BOUNDS + 1]; // of each interval; the last is above all bounds
    uint64_t sum_ns;
};

// Negative durations count as 0.
void histogram_add(struct histogram *histogram, int64_t duration_ns);

// Cumulative buckets in seconds, sum and count of `name`; `label` is none (""), or KEY="VALUE".
void histogram_print(const struct histogram *histogram, const char *name, const char *label,
                     FILE *file);

#endif

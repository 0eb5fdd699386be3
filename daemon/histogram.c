// SPDX-License-Identifier: Apache-2.0
#include "daemon/histogram.h"

#include <inttypes.h>

// From the 0.1 ms of a large GPU to a frame that is a second old.
static const struct {
    int64_t ns;
    const char *seconds;
} bounds[HISTOGRAM_N_BOUNDS] = {
    {100000, "0.0001"},  {250000, "0.00025"}, {500000, "0.0005"}, {1000000, "0.001"},
    {2500000, "0.0025"}, {5000000, "0.005"},  {10000000, "0.01"}, {20000000, "0.02"},
    {33000000, "0.033"}, {50000000, "0.05"},  {100000000, "0.1"}, {250000000, "0.25"},
    {500000000, "0.5"},  {1000000000, "1"},
};

void histogram_add(struct histogram *histogram, int64_t duration_ns)
{
    int i = 0;
    if (duration_ns < 0)
        duration_ns = 0;
    while (i < HISTOGRAM_N_BOUNDS && duration_ns > bounds[i].ns)
        i++;
    __atomic_fetch_add(&histogram->counts[i], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&histogram->sum_ns, (uint64_t)duration_ns, __ATOMIC_RELAXED);
}

void histogram_print(const struct histogram *histogram, const char *name, const char *label,
                     FILE *file)
{
    uint64_t n = 0;
    const char *comma = label[0] ? "," : "", *open = label[0] ? "{" : "";
    const char *close = label[0] ? "}" : "";
    for (int i = 0; i < HISTOGRAM_N_BOUNDS; i++) {
        n += __atomic_load_n(&histogram->counts[i], __ATOMIC_RELAXED);
        fprintf(file, "%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", name, label, comma,
                bounds[i].seconds, n);
    }
    n += __atomic_load_n(&histogram->counts[HISTOGRAM_N_BOUNDS], __ATOMIC_RELAXED);
    fprintf(file, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, label, comma, n);
    fprintf(file, "%s_sum%s%s%s %.9f\n", name, open, label, close,
            (double)__atomic_load_n(&histogram->sum_ns, __ATOMIC_RELAXED) * 1e-9);
    fprintf(file, "%s_count%s%s%s %" PRIu64 "\n", name, open, label, close, n);
}

// SPDX-License-Identifier: Apache-2.0
#include "capture/recording/accelerometer.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "capture/recording/tum.h"

#define HALF_FRAME_NS 16666667
#define NEAR_NS       100000000
#define MOST_M_S2     1000.0 // a hundred g: more is no camera's

static int compare_samples(const void *a, const void *b)
{
    const struct accelerometer_sample *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return memcmp(x->gravity_m_s2, y->gravity_m_s2, sizeof x->gravity_m_s2);
}

static const char *parse_line(const char *p, struct accelerometer_sample *out)
{
    if (!tum_parse_time(&p, &out->time_ns))
        return "expected 'timestamp ax ay az'";
    for (int i = 0; i < 3; i++) {
        p += strspn(p, " \t,");
        char *end;
        double value = strtod(p, &end);
        if (end == p || (*end && !strchr(" \t,\r", *end)))
            return "expected 'timestamp ax ay az'";
        if (!(fabs(value) <= MOST_M_S2))
            return "no acceleration in m/s^2";
        out->gravity_m_s2[i] = (float)(i == 2 ? -value : value);
        p = end;
    }
    return NULL;
}

int accelerometer_parse(char *text, const char *name, const struct log_sink *log,
                        struct accelerometer *out)
{
    size_t n_lines = 1, line_number = 0, bad_line = 0, n_bad = 0;
    const char *bad_reason = NULL;
    bool sorted = true;
    for (const char *p = text; *p; p++)
        n_lines += *p == '\n';
    *out = (struct accelerometer){.samples = malloc(n_lines * sizeof *out->samples)};
    if (!out->samples)
        return -ENOMEM;
    if (!strncmp(text, "\xef\xbb\xbf", 3))
        text += 3;
    for (char *line = text, *next; line; line = next) {
        line_number++;
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        const char *first = line + strspn(line, " \t\r,");
        struct accelerometer_sample *sample = &out->samples[out->n_samples];
        if (*first == '\0' || *first == '#')
            continue;
        const char *reason = parse_line(first, sample);
        if (reason) {
            bad_line = n_bad++ ? bad_line : line_number;
            bad_reason = bad_reason ? bad_reason : reason;
            continue;
        }
        sorted = sorted && (out->n_samples == 0 || sample[-1].time_ns <= sample->time_ns);
        out->n_samples++;
    }
    if (n_bad)
        log_to(log, LOG_LEVEL_WARNING, "%s:%zu: %s; %zu such lines are left out", name, bad_line,
               bad_reason, n_bad);
    if (!sorted)
        qsort(out->samples, out->n_samples, sizeof *out->samples, compare_samples);
    return 0;
}

void accelerometer_free(struct accelerometer *accelerometer)
{
    free(accelerometer->samples);
    *accelerometer = (struct accelerometer){0};
}

// The first sample at time_ns or later.
static size_t first_at(const struct accelerometer *a, int64_t time_ns)
{
    size_t low = 0, high = a->n_samples;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (a->samples[middle].time_ns < time_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void accelerometer_at(const struct accelerometer *a, int64_t time_ns, float out_m_s2[3])
{
    const size_t begin = first_at(a, time_ns - HALF_FRAME_NS);
    const size_t end = first_at(a, time_ns + HALF_FRAME_NS);
    double sum[3] = {0};
    for (int i = 0; i < 3; i++)
        out_m_s2[i] = NAN;
    if (begin < end) {
        for (size_t k = begin; k < end; k++)
            for (int i = 0; i < 3; i++)
                sum[i] += (double)a->samples[k].gravity_m_s2[i];
        for (int i = 0; i < 3; i++)
            out_m_s2[i] = (float)(sum[i] / (double)(end - begin));
        return;
    }
    if (begin == 0 || begin == a->n_samples)
        return;
    const struct accelerometer_sample *before = &a->samples[begin - 1], *after = before + 1;
    if (time_ns - before->time_ns > NEAR_NS || after->time_ns - time_ns > NEAR_NS)
        return;
    double share = (double)(time_ns - before->time_ns) / (double)(after->time_ns - before->time_ns);
    for (int i = 0; i < 3; i++)
        out_m_s2[i] = (float)((1 - share) * (double)before->gravity_m_s2[i] +
                              share * (double)after->gravity_m_s2[i]);
}

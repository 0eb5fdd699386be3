// SPDX-License-Identifier: Apache-2.0
// Both speeds on a grid of 5 ms, smoothed over 100 ms (a frame's own rotation is mostly noise);
// their correlation at each difference, and the top of a parabola through the best three.
#include "proto/clock_offset.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define STEP_NS    5000000
#define SMOOTH     10        // steps to either side
#define GAP_NS     150000000 // a turn over more says nothing
#define MAX_STEPS  (1 << 20)
#define MAX_SHIFT  ((long)(CLOCK_OFFSET_MAX_S * 1e9) / STEP_NS)
#define N_SHIFTS   ((size_t)(2 * MAX_SHIFT + 1))
#define MIN_COMMON ((size_t)(CLOCK_OFFSET_MIN_S * 1e9) / STEP_NS)
// Neighbours on the grid repeat each other: independent is one value in so many.
#define REPEATED   (2 * SMOOTH + 1)

struct speeds {
    int64_t begin_ns;
    size_t n;
    double (*rad_s)[3]; // NaN: not known
};

static int sample(const struct clock_offset_turn *turns, size_t n_turns, struct speeds *out)
{
    out->begin_ns = turns[0].begin_ns;
    int64_t steps = (turns[n_turns - 1].end_ns - out->begin_ns) / STEP_NS + 1;
    out->n = steps < MAX_STEPS ? (size_t)steps : MAX_STEPS;
    double(*raw)[3] = malloc(out->n * sizeof *raw);
    out->rad_s = malloc(out->n * sizeof *out->rad_s);
    if (!raw || !out->rad_s) {
        free(raw);
        return -ENOMEM;
    }
    for (size_t i = 0, k = 0; i < out->n; i++) {
        int64_t time_ns = out->begin_ns + (int64_t)i * STEP_NS;
        while (k + 1 < n_turns && turns[k].end_ns < time_ns)
            k++;
        bool is_known = turns[k].begin_ns <= time_ns && time_ns <= turns[k].end_ns &&
                        turns[k].end_ns - turns[k].begin_ns <= GAP_NS;
        for (int c = 0; c < 3; c++)
            raw[i][c] = is_known ? turns[k].rad_s[c] : NAN;
    }
    for (size_t i = 0; i < out->n; i++)
        for (int c = 0; c < 3; c++) {
            double sum = i >= SMOOTH && i + SMOOTH < out->n ? 0 : NAN;
            for (size_t k = i - SMOOTH; !isnan(sum) && k <= i + SMOOTH; k++)
                sum += raw[k][c];
            out->rad_s[i][c] = sum / REPEATED;
        }
    free(raw);
    return 0;
}

// Of A's value at i with B's at i + shift, those that both have. NaN: too few, or too even.
static double correlation(const struct speeds *a, const struct speeds *b, long shift,
                          size_t *out_common)
{
    double sa[3] = {0}, sb[3] = {0}, saa = 0, sbb = 0, sab = 0, n = 0;
    for (size_t i = 0; i < a->n; i++) {
        long k = (long)i + shift;
        if (k < 0 || k >= (long)b->n || isnan(a->rad_s[i][0]) || isnan(b->rad_s[k][0]))
            continue;
        for (int c = 0; c < 3; c++) {
            const double x = a->rad_s[i][c], y = b->rad_s[k][c];
            sa[c] += x, sb[c] += y, saa += x * x, sbb += y * y, sab += x * y;
        }
        n++;
    }
    *out_common = (size_t)n;
    if (*out_common < MIN_COMMON)
        return NAN;
    for (int c = 0; c < 3; c++) {
        saa -= sa[c] * sa[c] / n;
        sbb -= sb[c] * sb[c] / n;
        sab -= sa[c] * sb[c] / n;
    }
    const double least = n * CLOCK_OFFSET_MIN_RAD * CLOCK_OFFSET_MIN_RAD;
    return saa > least && sbb > least ? sab / sqrt(saa * sbb) : NAN;
}

// The grids begin at times of their own: `first` is the shift of no difference.
static int best_shift(const struct speeds *a, const struct speeds *b, long first,
                      struct clock_offset *out)
{
    double *r = malloc(N_SHIFTS * sizeof *r);
    size_t best = N_SHIFTS, n_most = 0, n_best = 0;
    if (!r)
        return -ENOMEM;
    for (size_t s = 0; s < N_SHIFTS; s++) {
        size_t n;
        r[s] = correlation(a, b, first + (long)s - MAX_SHIFT, &n);
        n_most = n > n_most ? n : n_most;
        if (isnan(r[s]) || (best < N_SHIFTS && !(r[s] > r[best])))
            continue;
        best = s;
        n_best = n;
    }
    int status = n_most < MIN_COMMON ? -ENODATA : 0;
    if (best < N_SHIFTS)
        out->correlation = r[best];
    if (status == 0 &&
        (best == N_SHIFTS || best == 0 || best + 1 == N_SHIFTS || !(r[best] >= CLOCK_OFFSET_MATCH)))
        status = -EDOM;
    if (status == 0) {
        // NaN beside the best: it is at the end of what both have in common.
        const double curve = r[best - 1] - 2 * r[best] + r[best + 1];
        const double past = 0.5 * (r[best - 1] - r[best + 1]) / curve;
        // r falls by half the squared slope of the speeds times the squared difference; what is
        // left of it at best is noise, of so many independent values.
        const double noise2 = (1 - r[best] * r[best]) / ((double)n_best / REPEATED);
        if (!(curve < 0) || !(fabs(past) <= 1))
            status = -EDOM;
        out->offset_s = status ? 0 : ((double)best - (double)MAX_SHIFT + past) * STEP_NS * 1e-9;
        out->std_s = status ? 0 : sqrt(noise2 / -curve) * STEP_NS * 1e-9;
    }
    free(r);
    return status;
}

int clock_offset_find(const struct clock_offset_turn *a, size_t n_a,
                      const struct clock_offset_turn *b, size_t n_b, struct clock_offset *out)
{
    struct speeds of_a = {0}, of_b = {0};
    memset(out, 0, sizeof *out);
    if (n_a == 0 || n_b == 0)
        return -ENODATA;
    int status = sample(a, n_a, &of_a);
    if (status == 0)
        status = sample(b, n_b, &of_b);
    if (status == 0) {
        // The grids' begins differ by whole steps and a rest, which is part of the answer.
        const int64_t apart_ns = of_a.begin_ns - of_b.begin_ns;
        const long whole = (long)llround((double)apart_ns / STEP_NS);
        status = best_shift(&of_a, &of_b, whole, out);
        if (status == 0)
            out->offset_s += ((double)whole * STEP_NS - (double)apart_ns) * 1e-9;
    }
    free(of_a.rad_s);
    free(of_b.rad_s);
    return status;
}

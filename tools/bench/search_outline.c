// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/search_outline.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REACH      9 // pixels that a distance to the outline is looked for
#define LEAST_SEEN 200

struct images {
    const float *model;
    const struct depth_frame *frame;
    int width, height;
};

static float model_at(const struct images *in, int u, int v)
{
    return u < 0 || v < 0 || u >= in->width || v >= in->height ? 0 : in->model[v * in->width + u];
}

static float measured_at(const struct images *in, int u, int v)
{
    const uint16_t raw = in->frame->depth[v * in->width + u];
    return raw == 65535 ? 0 : (float)(raw / in->frame->units_per_m);
}

// Pixels to the nearest one that the model does (not) cover, rounded up; REACH: none nearer. out_z:
// the model's depth there.
static int distance_to(const struct images *in, int u, int v, bool covered, float *out_z)
{
    int best = REACH * REACH;
    for (int y = -REACH; y <= REACH; y++)
        for (int x = -REACH; x <= REACH; x++) {
            const float z = model_at(in, u + x, v + y);
            if ((z > 0) != covered || x * x + y * y >= best)
                continue;
            best = x * x + y * y;
            *out_z = z;
        }
    return (int)ceil(sqrt((double)best));
}

static int ring_of(int distance)
{
    return distance <= 3 ? distance - 1 : distance <= 5 ? 3 : distance <= 8 ? 4 : 5;
}

static int bin_of(float off_m)
{
    const int bin = (int)lrintf(off_m * 1e3f) + OUTLINE_BINS / 2;
    return bin < 0 ? 0 : bin >= OUTLINE_BINS ? OUTLINE_BINS - 1 : bin;
}

static double quantile(const uint32_t bins[OUTLINE_BINS], double share)
{
    uint32_t n = 0, sum = 0;
    for (int i = 0; i < OUTLINE_BINS; i++)
        n += bins[i];
    for (int i = 0; i < OUTLINE_BINS; i++) {
        sum += bins[i];
        if (sum >= share * n)
            return i - OUTLINE_BINS / 2;
    }
    return 0;
}

static void add_pixel(const struct images *in, int u, int v, struct outline_statistics *one)
{
    float unused, z = model_at(in, u, v), near = 0;
    const float measured = measured_at(in, u, v);
    if (z > 0) {
        const int ring = ring_of(distance_to(in, u, v, false, &unused));
        if (measured > 0 && measured < z - OUTLINE_FAR_M)
            return; // hidden
        one->inside[ring].n++;
        one->inside[ring].n_none += !(measured > 0);
        one->inside[ring].n_far += measured > z + OUTLINE_FAR_M;
        if (ring == OUTLINE_RINGS - 1 && measured > 0 && measured < z + 2 * OUTLINE_FAR_M)
            one->off_mm[bin_of(measured - z)]++;
        return;
    }
    const int distance = measured > 0 ? distance_to(in, u, v, true, &near) : REACH;
    if (distance > OUTLINE_OUTSIDE)
        return;
    one->n_outside[distance - 1]++;
    one->n_bled[distance - 1] += fabsf(measured - near) < OUTLINE_FAR_M;
}

int outline_add(const float *model_z_m, const struct depth_frame *frame,
                struct outline_statistics *io)
{
    const struct images in = {model_z_m, frame, (int)frame->width_px, (int)frame->height_px};
    struct outline_statistics *one = calloc(1, sizeof *one);
    uint32_t n = 0, n_far = 0;
    if (!one)
        return -ENOMEM;
    for (int v = 0; v < in.height; v++)
        for (int u = 0; u < in.width; u++)
            add_pixel(&in, u, v, one);
    for (int k = 0; k < OUTLINE_RINGS; k++) {
        n += one->inside[k].n;
        n_far += one->inside[k].n_far;
    }
    if (n >= LEAST_SEEN) {
        for (int k = 0; k < OUTLINE_RINGS; k++) {
            io->inside[k].n += one->inside[k].n;
            io->inside[k].n_far += one->inside[k].n_far;
            io->inside[k].n_none += one->inside[k].n_none;
        }
        for (int k = 0; k < OUTLINE_OUTSIDE; k++) {
            io->n_outside[k] += one->n_outside[k];
            io->n_bled[k] += one->n_bled[k];
        }
        for (int k = 0; k < OUTLINE_BINS; k++)
            io->off_mm[k] += one->off_mm[k];
        io->n_objects++;
        io->sum_far += (double)n_far / n;
        io->sum_off_mm += fabs(quantile(one->off_mm, 0.5));
        io->sum_spread_mm += (quantile(one->off_mm, 0.84) - quantile(one->off_mm, 0.16)) / 2;
    }
    free(one);
    return 0;
}

static double percent(uint32_t part, uint32_t whole)
{
    return 100.0 * part / (whole ? whole : 1);
}

void outline_print(const struct outline_statistics *s)
{
    static const char *const names[OUTLINE_RINGS] = {"1 px inside", "2 px",      "3 px",
                                                     "4 to 5 px",   "6 to 8 px", "deeper"};
    const double n = s->n_objects ? s->n_objects : 1;
    printf("%u objects: %.1f %% of their seen pixels more than %.0f mm too far; inside a median "
           "off by %.1f mm, spread %.1f mm (means of the objects)\n",
           s->n_objects, 100 * s->sum_far / n, 1e3 * (double)OUTLINE_FAR_M, s->sum_off_mm / n,
           s->sum_spread_mm / n);
    for (int k = 0; k < OUTLINE_RINGS; k++)
        printf("%-12s %8u pixels, %5.1f %% too far, %5.1f %% without depth\n", names[k],
               s->inside[k].n, percent(s->inside[k].n_far, s->inside[k].n),
               percent(s->inside[k].n_none, s->inside[k].n));
    for (int k = 0; k < OUTLINE_OUTSIDE; k++)
        printf("%d px outside %8u pixels, %5.1f %% at the model's depth\n", k + 1, s->n_outside[k],
               percent(s->n_bled[k], s->n_outside[k]));
}

// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/register_clutter.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/eigen.h"
#include "tools/bench/testrandom.h"

#define N_POINTS  2000
#define N_AROUND  40000
#define RADIUS_M  0.08
#define LEAST     10 // points around one, for a normal
#define BENT_M    0.01
#define PLANE_M   0.05
#define PLANE_COS 0.9659 // 15 degrees
#define N_LARGEST 3

struct facet {
    float at[3], normal[3], rms_m;
    bool is_known;
};

static void read_point(const struct cloud *cloud, size_t i, float out[3])
{
    out[0] = cloud->x_m[i];
    out[1] = cloud->y_m[i];
    out[2] = cloud->z_m[i];
}

static void fit(const float (*around)[3], size_t n, struct facet *io)
{
    double sum[3] = {0}, square[9] = {0}, values[3], vectors[9];
    size_t n_near = 0;
    for (size_t i = 0; i < n; i++) {
        const float d[3] = {around[i][0] - io->at[0], around[i][1] - io->at[1],
                            around[i][2] - io->at[2]};
        if (d[0] * d[0] + d[1] * d[1] + d[2] * d[2] > (float)(RADIUS_M * RADIUS_M))
            continue;
        n_near++;
        for (int k = 0; k < 9; k++)
            square[k] += (double)d[k / 3] * (double)d[k % 3];
        for (int k = 0; k < 3; k++)
            sum[k] += (double)d[k];
    }
    io->is_known = n_near >= LEAST;
    if (!io->is_known)
        return;
    for (int k = 0; k < 9; k++)
        square[k] =
            square[k] / (double)n_near - sum[k / 3] * sum[k % 3] / (double)(n_near * n_near);
    eigen_symmetric(square, 3, values, vectors);
    io->rms_m = (float)sqrt(fmax(values[0], 0));
    for (int k = 0; k < 3; k++)
        io->normal[k] = (float)vectors[k];
}

static bool is_in_plane(const struct facet *plane, const struct facet *other)
{
    const float *n = plane->normal, *m = other->normal;
    const float along = (other->at[0] - plane->at[0]) * n[0] +
                        (other->at[1] - plane->at[1]) * n[1] + (other->at[2] - plane->at[2]) * n[2];
    return other->is_known && fabsf(n[0] * m[0] + n[1] * m[1] + n[2] * m[2]) > (float)PLANE_COS &&
           fabsf(along) < (float)PLANE_M;
}

// Takes the largest plane out. Returns how many points it had.
static unsigned remove_largest(struct facet *facets)
{
    unsigned largest = 0;
    int at = 0;
    for (int i = 0; i < N_POINTS; i++) {
        unsigned n = 0;
        for (int j = 0; j < N_POINTS && facets[i].is_known; j++)
            n += is_in_plane(&facets[i], &facets[j]);
        if (n > largest) {
            largest = n;
            at = i;
        }
    }
    const struct facet plane = facets[at];
    for (int j = 0; j < N_POINTS; j++)
        facets[j].is_known = facets[j].is_known && !is_in_plane(&plane, &facets[j]);
    return largest;
}

int bench_clutter_of(const struct cloud *cloud, struct bench_clutter *out)
{
    float(*around)[3] = malloc(N_AROUND * sizeof *around);
    struct facet *facets = calloc(N_POINTS, sizeof *facets);
    uint64_t random = 1;
    unsigned n_known = 0, n_bent = 0, n_walls = 0;
    *out = (struct bench_clutter){0};
    if (!around || !facets) {
        free(around);
        free(facets);
        return -ENOMEM;
    }
    for (int i = 0; i < N_AROUND && cloud->n_points; i++)
        read_point(cloud, testrandom_next(&random) % cloud->n_points, around[i]);
    for (int i = 0; i < N_POINTS && cloud->n_points; i++) {
        memcpy(facets[i].at, around[i], sizeof facets[i].at);
        fit((const float(*)[3])around, N_AROUND, &facets[i]);
        n_known += facets[i].is_known;
        n_bent += facets[i].is_known && facets[i].rms_m > (float)BENT_M;
    }
    for (int i = 0; i < N_POINTS; i++) {
        unsigned n = 0;
        for (int j = 0; j < N_POINTS && facets[i].is_known; j++)
            n += is_in_plane(&facets[i], &facets[j]);
        out->n_surfaces += n ? 1.0 / n : 0;
    }
    for (int k = 0; k < N_LARGEST; k++)
        n_walls += remove_largest(facets);
    out->walls = n_known ? (double)n_walls / n_known : 0;
    out->bent = n_known ? (double)n_bent / n_known : 0;
    free(around);
    free(facets);
    return 0;
}

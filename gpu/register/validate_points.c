// SPDX-License-Identifier: Apache-2.0
#include "gpu/register/validate_points.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "gpu/base/parallel.h"
#include "gpu/register/register.h"

// Points go to the threads in pieces of this many.
#define CHUNK 16384u

// Of a set's size (standard deviation): so far apart are the floats of its coordinates at most. A
// room at a map's coordinates, millions of metres, is rounded to decimetres: what it has in common
// with another one is the rounding.
#define MOST_ROUNDED 1e-3

// Of the points of a chunk relative to the set's first point: a small set far from its origin must
// not look collinear.
struct moments {
    double sum[3], m[6]; // xx yy zz xy xz yz
    bool bad_point, bad_normal;
};

struct measuring {
    const struct point_set *points;
    struct moments *moments; // by chunk
};

static uint32_t n_chunks(size_t n)
{
    return (uint32_t)((n + CHUNK - 1) / CHUNK);
}

static void measure_chunk(void *user, uint32_t chunk, uint32_t thread)
{
    (void)thread;
    const struct measuring *measuring = user;
    const struct point_set *points = measuring->points;
    struct moments out = {{0}, {0}, false, false};
    const double first[3] = {points->x_m[0], points->y_m[0], points->z_m[0]};
    const size_t begin = (size_t)chunk * CHUNK, left = points->n_points - begin;
    const size_t end = begin + (left < CHUNK ? left : CHUNK);
    for (size_t i = begin; i < end; i++) {
        double x = points->x_m[i] - first[0], y = points->y_m[i] - first[1];
        double z = points->z_m[i] - first[2];
        out.sum[0] += x;
        out.sum[1] += y;
        out.sum[2] += z;
        out.m[0] += x * x;
        out.m[1] += y * y;
        out.m[2] += z * z;
        out.m[3] += x * y;
        out.m[4] += x * z;
        out.m[5] += y * z;
    }
    // A number that is none, or infinite, leaves no finite square.
    out.bad_point = !isfinite(out.m[0]) || !isfinite(out.m[1]) || !isfinite(out.m[2]);
    for (size_t i = begin; points->nx && i < end; i++)
        out.bad_normal = out.bad_normal || !isfinite(points->nx[i]) || !isfinite(points->ny[i]) ||
                         !isfinite(points->nz[i]);
    measuring->moments[chunk] = out;
}

// NULL, or why a set of these moments, far_m from the origin, cannot be registered.
static const char *judge_moments(const struct moments *chunks, size_t n_points, double far_m)
{
    double sum[3] = {0, 0, 0}, m[6] = {0}, n = (double)n_points;
    for (uint32_t c = 0; c < n_chunks(n_points); c++) {
        if (chunks[c].bad_point)
            return "a coordinate is NaN or infinite";
        if (chunks[c].bad_normal)
            return "a normal is NaN or infinite";
        for (int a = 0; a < 3; a++)
            sum[a] += chunks[c].sum[a];
        for (int a = 0; a < 6; a++)
            m[a] += chunks[c].m[a];
    }
    for (int a = 0; a < 3; a++)
        m[a] -= sum[a] * sum[a] / n;
    m[3] -= sum[0] * sum[1] / n;
    m[4] -= sum[0] * sum[2] / n;
    m[5] -= sum[1] * sum[2] / n;
    double trace = m[0] + m[1] + m[2];
    double minors =
        m[0] * m[1] - m[3] * m[3] + m[0] * m[2] - m[4] * m[4] + m[1] * m[2] - m[5] * m[5];
    if (!(trace > 0))
        return "all points are equal";
    if (far_m * FLT_EPSILON > MOST_ROUNDED * sqrt(trace / n))
        return "so far from the origin that its coordinates, 32-bit floats, are rounded to more "
               "than a thousandth of its size: take one offset off both sets, in the files";
    if (!(minors > 1e-10 * trace * trace))
        return "all points are on a line";
    return NULL;
}

int register_points_check(const struct point_set *points, struct pool *pool, const char **out_why)
{
    size_t n = points->n_points;
    *out_why = n < 3                     ? "fewer than 3 points"
               : n > REGISTER_MAX_POINTS ? "more than 50,000,000 points"
                                         : NULL;
    if (*out_why)
        return -EINVAL;
    struct measuring measuring = {points, malloc(n_chunks(n) * sizeof(struct moments))};
    if (!measuring.moments)
        return -ENOMEM;
    parallel_for(pool, n_chunks(n), measure_chunk, &measuring);
    const double far_m = fmax(fmax(fabs((double)points->x_m[0]), fabs((double)points->y_m[0])),
                              fabs((double)points->z_m[0]));
    *out_why = judge_moments(measuring.moments, n, far_m);
    free(measuring.moments);
    return *out_why ? -EINVAL : 0;
}

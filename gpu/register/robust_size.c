// SPDX-License-Identifier: Apache-2.0
#include "gpu/register/robust_size.h"

#include <math.h>

#include "gpu/base/parallel.h"

// Robust figures are taken from this many points at most: their error, about 1 / sqrt(1024), is
// far below what the anneal forgives.
#define SAMPLE          1024u
// Nearest distances: this many points against at most so many others.
#define SPACING_QUERIES 256u
#define SPACING_POINTS  8192u

// Hoare's selection, ten times faster than qsort.
double register_shape_nth(double *values, size_t n, size_t k)
{
    size_t low = 0, high = n - 1;
    while (low < high) {
        // cppcheck-suppress uninitvar; the caller filled n of them
        double pivot = values[low + (high - low) / 2];
        size_t i = low, j = high;
        for (;;) {
            while (values[i] < pivot)
                i++;
            while (pivot < values[j])
                j--;
            if (i >= j)
                break;
            double swap = values[i];
            values[i++] = values[j];
            values[j--] = swap;
        }
        // Now low .. j are not above the pivot and j + 1 .. high not below it.
        if (k <= j)
            high = j;
        else
            low = j + 1;
    }
    return values[k];
}

static double median(double *values, size_t n)
{
    return register_shape_nth(values, n, n / 2);
}

static double distance(const struct register_set *set, size_t i, const double from[3])
{
    double dx = set->x[i] - from[0], dy = set->y[i] - from[1], dz = set->z[i] - from[2];
    return sqrt(dx * dx + dy * dy + dz * dz);
}

double register_shape_centre(const struct register_set *set, double out_centre[3])
{
    double values[SAMPLE];
    size_t n = set->n < SAMPLE ? set->n : SAMPLE;
    const float *const axes[3] = {set->x, set->y, set->z};
    for (int a = 0; a < 3; a++) {
        for (size_t i = 0; i < n; i++)
            values[i] = axes[a][i];
        out_centre[a] = median(values, n);
    }
    for (size_t i = 0; i < n; i++)
        values[i] = distance(set, i, out_centre);
    return median(values, n);
}

void register_shape_mode(const struct register_set *set, double radius, double centre[3])
{
    size_t n = set->n < SAMPLE ? set->n : SAMPLE;
    for (int round = 0; round < 30; round++) {
        double sum = 0, mean[3] = {0, 0, 0};
        for (size_t i = 0; i < n; i++) {
            double d = distance(set, i, centre) / radius, w = exp(-0.5 * d * d);
            sum += w;
            mean[0] += w * set->x[i];
            mean[1] += w * set->y[i];
            mean[2] += w * set->z[i];
        }
        if (!(sum > 0))
            return;
        double moved = 0;
        for (int a = 0; a < 3; a++) {
            moved += fabs(mean[a] / sum - centre[a]);
            centre[a] = mean[a] / sum;
        }
        if (moved < 1e-3 * radius)
            return;
    }
}

static float other_distance2(const struct register_set *set, size_t i, size_t j)
{
    float dx = set->x[j] - set->x[i], dy = set->y[j] - set->y[i], dz = set->z[j] - set->z[i];
    float d2 = dx * dx + dy * dy + dz * dz;
    return d2 > 0 ? d2 : INFINITY;
}

// Distance of point i to its nearest other point among the first n; equal points do not count.
// Sixteen minima side by side, so that the loop becomes vector instructions; the least is the same
// with any of them.
CPU_CLONES static double nearest_distance(const struct register_set *set, size_t i, size_t n)
{
    float best[16];
    size_t whole = n / 16 * 16;
    for (int k = 0; k < 16; k++)
        best[k] = INFINITY;
    for (size_t j = 0; j < whole; j += 16)
        for (size_t k = 0; k < 16; k++) {
            float d2 = other_distance2(set, i, j + k);
            best[k] = d2 < best[k] ? d2 : best[k];
        }
    for (size_t j = whole; j < n; j++) {
        float d2 = other_distance2(set, i, j);
        best[0] = d2 < best[0] ? d2 : best[0];
    }
    for (int k = 1; k < 16; k++)
        best[0] = best[k] < best[0] ? best[k] : best[0];
    return sqrt((double)best[0]);
}

struct queries {
    const struct register_set *set;
    size_t n_points; // among which nearest ones are looked for
    double *nearest; // by query
};

static void query_nearest(void *user, uint32_t query, uint32_t thread)
{
    (void)thread;
    const struct queries *queries = user;
    queries->nearest[query] = nearest_distance(queries->set, query, queries->n_points);
}

double register_shape_spacing(const struct register_set *set, struct pool *pool)
{
    double nearest[SPACING_QUERIES];
    size_t n = set->n < SPACING_POINTS ? set->n : SPACING_POINTS;
    size_t n_queries = n < SPACING_QUERIES ? n : SPACING_QUERIES;
    struct queries queries = {set, n, nearest};
    parallel_for(pool, (uint32_t)n_queries, query_nearest, &queries);
    // On a surface the spacing goes with the root of the number of points.
    double spacing = median(nearest, n_queries) * sqrt((double)n / (double)set->n);
    // Sets with many equal points: a tenth of what n points on a sphere of radius 1 would have.
    double least = 0.2 / sqrt((double)set->n);
    return spacing > least ? spacing : least;
}

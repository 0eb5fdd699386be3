// SPDX-License-Identifier: Apache-2.0
#include "gpu/register_sets.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Robust figures are taken from this many points at most: their error, about 1 / sqrt(1024), is
// far below what the anneal forgives.
#define SAMPLE          1024u
// Nearest distances: this many points against at most so many others.
#define SPACING_QUERIES 256u
#define SPACING_POINTS  8192u

static uint64_t random_next(uint64_t *state) // splitmix64
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int set_reserve(struct register_set *set, size_t n, bool with_normals)
{
    if (n > set->room || with_normals != (set->nx != NULL)) {
        free(set->x);
        free(set->nx);
        set->room = 0;
        set->x = malloc(3 * n * sizeof *set->x);
        set->nx = with_normals ? malloc(3 * n * sizeof *set->nx) : NULL;
        if (!set->x || (with_normals && !set->nx))
            return -ENOMEM;
        set->room = n;
    }
    set->n = n;
    set->y = set->x + n;
    set->z = set->y + n;
    if (set->nx) {
        set->ny = set->nx + n;
        set->nz = set->ny + n;
    }
    return 0;
}

// Copies in random order. The order is a function of the number of points and the seed only.
static int set_shuffle(struct register_set *set, const struct point_set *points, uint64_t seed)
{
    size_t n = points->n_points;
    uint32_t *order = malloc(n * sizeof *order);
    if (!order)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    for (size_t i = 0; i < n && i < REGISTER_SETS_SHUFFLED; i++) {
        size_t j = i + (size_t)((random_next(&seed) >> 32) * (n - i) >> 32);
        uint32_t swap = order[j];
        order[j] = order[i];
        order[i] = swap;
    }
    const float *const from[6] = {points->x_m, points->y_m, points->z_m,
                                  points->nx,  points->ny,  points->nz};
    float *const to[6] = {set->x, set->y, set->z, set->nx, set->ny, set->nz};
    for (int a = 0; a < (set->nx ? 6 : 3); a++)
        for (size_t i = 0; i < n; i++)
            to[a][i] = from[a][order[i]];
    free(order);
    return 0;
}

// The element that would stand at n / 2 if the values were sorted: Hoare's selection, ten times
// faster than qsort. Reorders the values.
static double median(double *values, size_t n)
{
    size_t low = 0, high = n - 1, middle = n / 2;
    while (low < high) {
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
        if (middle <= j)
            high = j;
        else
            low = j + 1;
    }
    return values[middle];
}

static double distance(const struct register_set *set, size_t i, const double from[3])
{
    double dx = set->x[i] - from[0], dy = set->y[i] - from[1], dz = set->z[i] - from[2];
    return sqrt(dx * dx + dy * dy + dz * dz);
}

// Median of the coordinates, and the median distance from it.
static double robust_centre(const struct register_set *set, double out_centre[3])
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

// Mean shift with a Gaussian of the object's size: outliers spread over a larger volume stop
// pulling at the centre.
static void shift_to_mode(const struct register_set *set, double radius, double centre[3])
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
// Sixteen minima side by side, so that the loop becomes vector instructions.
static double nearest_distance(const struct register_set *set, size_t i, size_t n)
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

static double measure_spacing(const struct register_set *set)
{
    double nearest[SPACING_QUERIES];
    size_t n = set->n < SPACING_POINTS ? set->n : SPACING_POINTS;
    size_t n_queries = n < SPACING_QUERIES ? n : SPACING_QUERIES;
    for (size_t i = 0; i < n_queries; i++)
        nearest[i] = nearest_distance(set, i, n);
    // On a surface the spacing goes with the root of the number of points.
    double spacing = median(nearest, n_queries) * sqrt((double)n / (double)set->n);
    // Sets with many equal points: a tenth of what n points on a sphere of radius 1 would have.
    double least = 0.2 / sqrt((double)set->n);
    return spacing > least ? spacing : least;
}

// NULL, or why the set cannot be registered.
static const char *check_points(const struct point_set *points)
{
    if (points->n_points < 3)
        return "fewer than 3 points";
    if (points->n_points > REGISTER_MAX_POINTS)
        return "more than 50,000,000 points";
    double sum[3] = {0, 0, 0}, m[6] = {0};
    for (size_t i = 0; i < points->n_points; i++) {
        double p[3] = {points->x_m[i], points->y_m[i], points->z_m[i]};
        if (!isfinite(p[0]) || !isfinite(p[1]) || !isfinite(p[2]))
            return "a coordinate is NaN or infinite";
        if (points->nx &&
            !(isfinite(points->nx[i]) && isfinite(points->ny[i]) && isfinite(points->nz[i])))
            return "a normal is NaN or infinite";
        // Relative to the first point: a small set far from its origin must not look collinear.
        p[0] -= points->x_m[0];
        p[1] -= points->y_m[0];
        p[2] -= points->z_m[0];
        for (int a = 0; a < 3; a++)
            sum[a] += p[a];
        m[0] += p[0] * p[0];
        m[1] += p[1] * p[1];
        m[2] += p[2] * p[2];
        m[3] += p[0] * p[1];
        m[4] += p[0] * p[2];
        m[5] += p[1] * p[2];
    }
    double n = (double)points->n_points;
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
    if (!(minors > 1e-10 * trace * trace))
        return "all points are on a line";
    return NULL;
}

static void set_normalise(struct register_set *set, double radius_m)
{
    float *const axes[3] = {set->x, set->y, set->z};
    double inverse = 1 / radius_m;
    for (int a = 0; a < 3; a++)
        for (size_t i = 0; i < set->n; i++)
            axes[a][i] = (float)((axes[a][i] - set->centre_m[a]) * inverse);
}

int register_sets_fill(struct register_sets *sets, const struct point_set *source,
                       const struct point_set *target, const struct register_stop *stop,
                       enum register_side *out_side, const char **out_why)
{
    const struct point_set *const points[2] = {source, target};
    double radius[2];
    for (int side = 0; side < 2; side++) {
        struct register_set *set = &sets->side[side];
        *out_side = (enum register_side)side;
        *out_why = check_points(points[side]);
        if (*out_why)
            return -EINVAL;
        int rc = register_stopped(stop);
        if (rc == 0)
            rc = set_reserve(set, points[side]->n_points, points[side]->nx != NULL);
        if (rc == 0)
            rc = set_shuffle(set, points[side], (uint64_t)side + 1);
        if (rc == 0)
            rc = register_stopped(stop);
        if (rc < 0)
            return rc;
        radius[side] = robust_centre(set, set->centre_m);
    }
    // Partial views and outliers make sets look unlike in size; the smaller one is the object.
    sets->radius_m = radius[0] < radius[1] ? radius[0] : radius[1];
    if (!(sets->radius_m > 0)) // more than half of the points are equal
        sets->radius_m = radius[0] > radius[1] ? radius[0] : radius[1];
    if (!(sets->radius_m > 0)) {
        *out_why = "more than half of the points are equal";
        return -EINVAL;
    }
    for (int side = 0; side < 2; side++) {
        int rc = register_stopped(stop);
        if (rc < 0)
            return rc;
        shift_to_mode(&sets->side[side], sets->radius_m, sets->side[side].centre_m);
        set_normalise(&sets->side[side], sets->radius_m);
        sets->side[side].spacing = measure_spacing(&sets->side[side]);
    }
    return 0;
}

void register_sets_free(struct register_sets *sets)
{
    for (int side = 0; side < 2; side++) {
        free(sets->side[side].x);
        free(sets->side[side].nx);
    }
    memset(sets, 0, sizeof *sets);
}

double register_sets_spacing(const struct register_sets *sets, size_t n_source, size_t n_target)
{
    const struct register_set *s = &sets->side[REGISTER_SOURCE], *t = &sets->side[REGISTER_TARGET];
    double source = s->spacing * sqrt((double)s->n / (double)n_source);
    double target = t->spacing * sqrt((double)t->n / (double)n_target);
    return source < target ? source : target;
}

// x_m = R y_m + t, x = (x_m - cx) / r, y = (y_m - cy) / r  =>  x = R y + (R cy + t - cx) / r
struct se3 register_sets_normalise(const struct register_sets *sets, const struct se3 *T_m)
{
    struct se3 out = *T_m;
    double moved[3];
    se3_apply(T_m, sets->side[REGISTER_SOURCE].centre_m, moved);
    for (int a = 0; a < 3; a++)
        out.t_m[a] = (moved[a] - sets->side[REGISTER_TARGET].centre_m[a]) / sets->radius_m;
    return out;
}

struct se3 register_sets_metric(const struct register_sets *sets, const struct se3 *T)
{
    struct se3 out = *T;
    const double *cy = sets->side[REGISTER_SOURCE].centre_m;
    for (int a = 0; a < 3; a++)
        out.t_m[a] = sets->radius_m * T->t_m[a] + sets->side[REGISTER_TARGET].centre_m[a] -
                     (T->r[3 * a] * cy[0] + T->r[3 * a + 1] * cy[1] + T->r[3 * a + 2] * cy[2]);
    return out;
}

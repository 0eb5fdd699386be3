// SPDX-License-Identifier: Apache-2.0
#include "gpu/register_sets.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/cpu/parallel.h"

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

void register_sets_begin(struct register_sets *sets, const struct register_ops *ops, void *device)
{
    memset(sets, 0, sizeof *sets);
    sets->ops = ops;
    sets->device = device;
}

static void give_memory(struct register_sets *sets, struct register_set *set)
{
    if (sets->ops->give_host)
        sets->ops->give_host(sets->device, set->memory);
    else
        free(set->memory);
    set->memory = NULL;
    set->room = 0;
}

// Room for n points with three or six coordinates each.
static int set_reserve(struct register_sets *sets, struct register_set *set, size_t n,
                       bool with_normals)
{
    size_t n_floats = (with_normals ? 6 : 3) * n;
    if (n_floats > set->room) {
        give_memory(sets, set);
        void *memory = NULL;
        if (sets->ops->take_host) {
            int rc = sets->ops->take_host(sets->device, n_floats * sizeof(float), &memory);
            if (rc < 0)
                return rc;
        } else {
            memory = malloc(n_floats * sizeof(float));
        }
        if (!memory)
            return -ENOMEM;
        set->memory = memory;
        set->room = n_floats;
    }
    float **axes[6] = {&set->x, &set->y, &set->z, &set->nx, &set->ny, &set->nz};
    for (size_t a = 0; a < 6; a++)
        *axes[a] = a < 3 || with_normals ? set->memory + a * n : NULL;
    set->n = n;
    return 0;
}

static int order_reserve(struct register_sets *sets, size_t n)
{
    if (n <= sets->order_room)
        return 0;
    free(sets->order);
    sets->order = malloc(n * sizeof *sets->order);
    sets->order_room = sets->order ? n : 0;
    return sets->order ? 0 : -ENOMEM;
}

// Points go to the threads in pieces of this many.
#define CHUNK 16384u

struct filling {
    const struct point_set *points;
    struct register_sets *sets;
    struct register_set *set;
    struct moments *moments; // by chunk
    double *nearest;         // by query
    size_t n_points;         // of those among which nearest ones are looked for
};

static uint32_t n_chunks(size_t n)
{
    return (uint32_t)((n + CHUNK - 1) / CHUNK);
}

static size_t chunk_end(uint32_t chunk, size_t n)
{
    size_t end = ((size_t)chunk + 1) * CHUNK;
    return end < n ? end : n;
}

static void gather_chunk(void *user, uint32_t chunk, uint32_t thread)
{
    (void)thread;
    const struct filling *f = user;
    const struct point_set *points = f->points;
    const struct register_set *set = f->set;
    const float *const from[6] = {points->x_m, points->y_m, points->z_m,
                                  points->nx,  points->ny,  points->nz};
    float *const to[6] = {set->x, set->y, set->z, set->nx, set->ny, set->nz};
    for (int a = 0; a < (set->nx ? 6 : 3); a++)
        for (size_t i = (size_t)chunk * CHUNK; i < chunk_end(chunk, set->n); i++)
            to[a][i] = from[a][f->sets->order[i]];
}

// Copies in random order. The order is a function of the number of points and the seed only.
static void set_shuffle(const struct filling *f, struct pool *pool, uint64_t seed)
{
    size_t n = f->set->n;
    uint32_t *order = f->sets->order;
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    for (size_t i = 0; i < n && i < REGISTER_SETS_SHUFFLED; i++) {
        size_t j = i + (size_t)((random_next(&seed) >> 32) * (n - i) >> 32);
        uint32_t swap = order[j];
        order[j] = order[i];
        order[i] = swap;
    }
    parallel_for(pool, n_chunks(n), gather_chunk, (void *)f);
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

static void query_nearest(void *user, uint32_t query, uint32_t thread)
{
    (void)thread;
    const struct filling *f = user;
    f->nearest[query] = nearest_distance(f->set, query, f->n_points);
}

static double measure_spacing(struct filling *f, struct pool *pool)
{
    double nearest[SPACING_QUERIES];
    const struct register_set *set = f->set;
    size_t n = set->n < SPACING_POINTS ? set->n : SPACING_POINTS;
    size_t n_queries = n < SPACING_QUERIES ? n : SPACING_QUERIES;
    f->nearest = nearest;
    f->n_points = n;
    parallel_for(pool, (uint32_t)n_queries, query_nearest, f);
    // On a surface the spacing goes with the root of the number of points.
    double spacing = median(nearest, n_queries) * sqrt((double)n / (double)set->n);
    // Sets with many equal points: a tenth of what n points on a sphere of radius 1 would have.
    double least = 0.2 / sqrt((double)set->n);
    return spacing > least ? spacing : least;
}

// Of the points of a chunk relative to the set's first point: a small set far from its origin must
// not look collinear.
struct moments {
    double sum[3], m[6]; // xx yy zz xy xz yz
    bool bad_point, bad_normal;
};

static void measure_chunk(void *user, uint32_t chunk, uint32_t thread)
{
    (void)thread;
    const struct filling *f = user;
    const struct point_set *points = f->points;
    struct moments out = {{0}, {0}, false, false};
    const double first[3] = {points->x_m[0], points->y_m[0], points->z_m[0]};
    for (size_t i = (size_t)chunk * CHUNK; i < chunk_end(chunk, points->n_points); i++) {
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
    for (size_t i = (size_t)chunk * CHUNK; points->nx && i < chunk_end(chunk, points->n_points);
         i++)
        out.bad_normal = out.bad_normal || !isfinite(points->nx[i]) || !isfinite(points->ny[i]) ||
                         !isfinite(points->nz[i]);
    f->moments[chunk] = out;
}

// NULL, or why a set of these moments cannot be registered.
static const char *judge_moments(const struct moments *chunks, size_t n_points)
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
    if (!(minors > 1e-10 * trace * trace))
        return "all points are on a line";
    return NULL;
}

// 0, -ENOMEM, or -EINVAL with *out_why.
static int check_points(struct filling *f, struct pool *pool, const char **out_why)
{
    size_t n = f->points->n_points;
    *out_why = n < 3                     ? "fewer than 3 points"
               : n > REGISTER_MAX_POINTS ? "more than 50,000,000 points"
                                         : NULL;
    if (*out_why)
        return -EINVAL;
    f->moments = malloc(n_chunks(n) * sizeof *f->moments);
    if (!f->moments)
        return -ENOMEM;
    parallel_for(pool, n_chunks(n), measure_chunk, f);
    *out_why = judge_moments(f->moments, n);
    free(f->moments);
    return *out_why ? -EINVAL : 0;
}

static void normalise_chunk(void *user, uint32_t chunk, uint32_t thread)
{
    (void)thread;
    const struct filling *f = user;
    const struct register_set *set = f->set;
    float *const axes[3] = {set->x, set->y, set->z};
    double inverse = 1 / f->sets->radius_m;
    for (int a = 0; a < 3; a++)
        for (size_t i = (size_t)chunk * CHUNK; i < chunk_end(chunk, set->n); i++)
            axes[a][i] = (float)((axes[a][i] - set->centre_m[a]) * inverse);
}

int register_sets_fill(struct register_sets *sets, struct pool *pool,
                       const struct point_set *source, const struct point_set *target,
                       const struct register_stop *stop, enum register_side *out_side,
                       const char **out_why)
{
    const struct point_set *const points[2] = {source, target};
    double radius[2];
    for (int side = 0; side < 2; side++) {
        struct filling f = {.points = points[side], .sets = sets, .set = &sets->side[side]};
        *out_side = (enum register_side)side;
        int rc = check_points(&f, pool, out_why);
        if (rc == 0)
            rc = register_stopped(stop);
        if (rc == 0)
            rc = set_reserve(sets, f.set, f.points->n_points, f.points->nx != NULL);
        if (rc == 0)
            rc = order_reserve(sets, f.points->n_points);
        if (rc < 0)
            return rc;
        set_shuffle(&f, pool, (uint64_t)side + 1);
        rc = register_stopped(stop);
        if (rc < 0)
            return rc;
        radius[side] = robust_centre(f.set, f.set->centre_m);
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
        struct filling f = {.sets = sets, .set = &sets->side[side]};
        int rc = register_stopped(stop);
        if (rc < 0)
            return rc;
        shift_to_mode(f.set, sets->radius_m, f.set->centre_m);
        parallel_for(pool, n_chunks(f.set->n), normalise_chunk, &f);
        f.set->spacing = measure_spacing(&f, pool);
    }
    return 0;
}

void register_sets_free(struct register_sets *sets)
{
    for (int side = 0; side < 2; side++)
        give_memory(sets, &sets->side[side]);
    free(sets->order);
    register_sets_begin(sets, sets->ops, sets->device);
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

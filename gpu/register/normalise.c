// SPDX-License-Identifier: Apache-2.0
#include "gpu/register/normalise.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/parallel.h"
#include "gpu/register/robust_size.h"
#include "gpu/register/validate_points.h"

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
        int rc = register_points_check(f.points, pool, out_why);
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
        radius[side] = register_shape_centre(f.set, f.set->centre_m);
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
        register_shape_mode(f.set, sets->radius_m, f.set->centre_m);
        parallel_for(pool, n_chunks(f.set->n), normalise_chunk, &f);
        f.set->spacing = register_shape_spacing(f.set, pool);
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

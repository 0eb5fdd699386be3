// SPDX-License-Identifier: Apache-2.0
#include "gpu/register/surface_levels.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/register/robust_size.h"

#define SAMPLE       768u  // points from which a set's box is taken
#define SPACED       3072u // and its spacing
#define MOST_BLOCKS  (1 << 21)
#define COARSE_CELLS 12.0 // along the largest edge, at the coarsest level

// From the hundredth to the last hundredth of a sample, and the same length again on both sides,
// but no farther than the sample goes: few far points are left outside.
static void box_along(const float *values, size_t n, double *out_low, double *out_high,
                      double *out_middle, double *out_length)
{
    double sample[SAMPLE], least = values[0], most = values[0];
    const size_t n_sample = n < SAMPLE ? n : SAMPLE;
    for (size_t i = 0; i < n_sample; i++) {
        sample[i] = values[i * n / n_sample];
        least = fmin(least, sample[i]);
        most = fmax(most, sample[i]);
    }
    const double first = register_shape_nth(sample, n_sample, n_sample / 100);
    const double last = register_shape_nth(sample, n_sample, n_sample - 1 - n_sample / 100);
    const double length = last - first, margin = 0.05 * length;
    *out_low = fmax(first - length, least - margin);
    *out_high = fmin(last + length, most + margin);
    *out_middle = 0.5 * (first + last);
    *out_length = length;
}

struct box {
    double low[3], high[3]; // local
};

static struct box box_of(const struct point_set *points, double out_origin[3], double *out_extent)
{
    const float *const axes[3] = {points->x_m, points->y_m, points->z_m};
    struct box box;
    *out_extent = 0;
    for (int a = 0; a < 3; a++) {
        double length;
        box_along(axes[a], points->n_points, &box.low[a], &box.high[a], &out_origin[a], &length);
        box.low[a] -= out_origin[a];
        box.high[a] -= out_origin[a];
        *out_extent = fmax(*out_extent, length);
    }
    return box;
}

double register_surfaces_extent(const struct point_set *points)
{
    double origin[3], extent;
    box_of(points, origin, &extent);
    return extent;
}

// Edge of the cells in which about n points of the set would stand one a cell: twice the median
// distance to the nearest of so many.
static double cell_for(const struct point_set *points, size_t n, const double origin_m[3],
                       double extent_m, struct pool *pool)
{
    const double unit = extent_m > 0 ? 0.5 * extent_m : 1;
    const size_t n_sample = points->n_points < SPACED ? points->n_points : SPACED;
    float *memory = malloc(3 * n_sample * sizeof *memory);
    if (!memory)
        return 0;
    struct register_set sample = {
        .x = memory, .y = memory + n_sample, .z = memory + 2 * n_sample, .n = n_sample};
    // Neighbours in the file are neighbours in space: the queries, which come first, are spread.
    for (size_t i = 0; i < n_sample; i++) {
        const size_t j = (i * 769 % n_sample) * points->n_points / n_sample;
        sample.x[i] = (float)((points->x_m[j] - origin_m[0]) / unit);
        sample.y[i] = (float)((points->y_m[j] - origin_m[1]) / unit);
        sample.z[i] = (float)((points->z_m[j] - origin_m[2]) / unit);
    }
    const double spacing = register_shape_spacing(&sample, pool);
    free(memory);
    return 2 * unit * spacing * sqrt((double)n_sample / (double)n);
}

static struct register_cells cells_of(const struct box *box, double cell_m)
{
    struct register_cells cells = {.mask = NULL};
    for (;; cell_m *= 1.26) {
        double n_blocks = 1;
        cells.cell_m = (float)cell_m;
        cells.inverse = 1.0f / cells.cell_m;
        for (int a = 0; a < 3; a++) {
            const double length = box->high[a] - box->low[a];
            cells.low[a] = (float)(box->low[a] - cell_m);
            cells.n_blocks[a] = (int32_t)fmin((length + 2 * cell_m) / (4 * cell_m), 1e6) + 1;
            n_blocks *= cells.n_blocks[a];
        }
        if (n_blocks <= MOST_BLOCKS)
            return cells;
    }
}

static size_t fewer(size_t a, size_t b)
{
    return a < b ? a : b;
}

int register_surfaces_build(struct register_surfaces *out, const struct register_ops *ops,
                            void *device, struct pool *pool, const struct point_set *source,
                            const struct point_set *target, const struct register_stop *stop)
{
    const struct point_set *const points[2] = {source, target};
    struct box box[2];
    double cell[2], least[2];
    memset(out, 0, sizeof *out);
    for (int side = 0; side < 2; side++) {
        const size_t n = points[side]->n_points;
        box[side] = box_of(points[side], out->origin_m[side], &out->extent_m[side]);
        least[side] = cell_for(points[side], n, out->origin_m[side], out->extent_m[side], pool);
        cell[side] = least[side] * sqrt((double)n / (double)fewer(n, REGISTER_FINE_POINTS));
        if (!(least[side] > 0))
            return -ENOMEM;
    }
    // The smaller set says how fine, the sparser one how fine at most.
    out->cell_m = fmax(fmin(cell[0], cell[1]), fmax(least[0], least[1]));
    const double extent = fmax(out->extent_m[0], out->extent_m[1]);
    for (int side = 0; side < 2; side++)
        out->cell_m = fmax(out->cell_m, cells_of(&box[side], out->cell_m).cell_m);
    while (
        out->n_levels < REGISTER_MOST_LEVELS &&
        (out->n_levels == 0 || out->cell_m * (1 << out->n_levels) * COARSE_CELLS < 1.42 * extent))
        out->n_levels++;
    const struct register_surface_load load[2] = {{*source, {0}}, {*target, {0}}};
    struct register_surface_load loads[2] = {load[0], load[1]};
    for (int side = 0; side < 2; side++) {
        memcpy(loads[side].origin_m, out->origin_m[side], sizeof out->origin_m[side]);
        for (uint32_t l = 0; l < out->n_levels; l++)
            out->info[side][l].cells = cells_of(&box[side], out->cell_m * (1 << l));
    }
    int rc = register_stopped(stop);
    if (rc == 0)
        rc = ops->surfaces(device, loads, out->n_levels, out->info);
    return rc;
}

struct se3 register_surfaces_local(const struct register_surfaces *surfaces, const struct se3 *T_m)
{
    struct se3 out = *T_m;
    double moved[3];
    se3_apply(T_m, surfaces->origin_m[REGISTER_SOURCE], moved);
    for (int a = 0; a < 3; a++)
        out.t_m[a] = moved[a] - surfaces->origin_m[REGISTER_TARGET][a];
    return out;
}

struct se3 register_surfaces_metric(const struct register_surfaces *surfaces, const struct se3 *T)
{
    struct se3 out = *T, turn = *T;
    double turned[3];
    memset(turn.t_m, 0, sizeof turn.t_m);
    se3_apply(&turn, surfaces->origin_m[REGISTER_SOURCE], turned);
    for (int a = 0; a < 3; a++)
        out.t_m[a] = T->t_m[a] + surfaces->origin_m[REGISTER_TARGET][a] - turned[a];
    return out;
}

// SPDX-License-Identifier: Apache-2.0
// Brings two point sets into the normalised form in which all methods work: checked, moved to
// robust centres, divided by one radius, in random order. Private to gpu.
#ifndef POSED_GPU_REGISTER_NORMALISE_H
#define POSED_GPU_REGISTER_NORMALISE_H

#include "gpu/register/ops.h"
#include "proto/se3.h"

struct register_set {
    float *memory;
    float *x, *y, *z;    // n, normalised, random order
    float *nx, *ny, *nz; // NULL: none
    size_t n, room;
    double centre_m[3];
    double spacing; // median distance of a point to its nearest, all n points, normalised
};

struct register_sets {
    struct register_set side[2]; // enum register_side
    double radius_m;             // the unit
    uint32_t *order;             // room for the larger side
    size_t order_room;
    const struct register_ops *ops; // whose memory the points are in
    void *device;
};

// Only so many points stand in random order: no stage takes a larger subsample.
#define REGISTER_SETS_SHUFFLED 131072u

// Begins with no points; they will be in memory of this device.
void register_sets_begin(struct register_sets *sets, const struct register_ops *ops, void *device);

// Fills both sets, the threads of the pool share the work; memory of earlier sets is used again.
// Returns 0, -ENOMEM, -ECANCELED or -ETIME (`stop`, which may be NULL), or -EINVAL with *out_side
// and *out_why (a text without a newline).
__attribute__((warn_unused_result)) int
register_sets_fill(struct register_sets *sets, struct pool *pool, const struct point_set *source,
                   const struct point_set *target, const struct register_stop *stop,
                   enum register_side *out_side, const char **out_why);
void register_sets_free(struct register_sets *sets);

// Spacing of the first n points of both sets, the finer of the two.
double register_sets_spacing(const struct register_sets *sets, size_t n_source, size_t n_target);

// Between the caller's metres and normalised coordinates.
struct se3 register_sets_normalise(const struct register_sets *sets, const struct se3 *T_m);
struct se3 register_sets_metric(const struct register_sets *sets, const struct se3 *T);

#endif

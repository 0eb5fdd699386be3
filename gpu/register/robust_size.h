// SPDX-License-Identifier: Apache-2.0
// What a set is like, in figures that outliers do not pull at: its centre, size and spacing. The
// set's points stand in random order. Private to gpu.
#ifndef POSED_GPU_REGISTER_ROBUST_SIZE_H
#define POSED_GPU_REGISTER_ROBUST_SIZE_H

#include "gpu/base/pool.h"
#include "gpu/register/normalise.h"

// The element that would stand at k < n if the n values were sorted; reorders them. None is NaN.
double register_shape_nth(double *values, size_t n, size_t k);

// The median of the coordinates. Returns the median distance from it.
double register_shape_centre(const struct register_set *set, double out_centre[3]);

// Mean shift of the centre with a Gaussian of the object's size: outliers spread over a larger
// volume stop pulling at it.
void register_shape_mode(const struct register_set *set, double radius, double centre[3]);

// The median distance of a point to its nearest one, if all n points are looked at.
double register_shape_spacing(const struct register_set *set, struct pool *pool);

#endif

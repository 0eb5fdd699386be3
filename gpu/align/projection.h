// SPDX-License-Identifier: Apache-2.0
// The projection of a range image, from the cells that its vertices lie in.
#ifndef POSED_GPU_ALIGN_PROJECTION_H
#define POSED_GPU_ALIGN_PROJECTION_H

#include "gpu/align/image.h"

// Fits the 3x4 matrix that says best in which cell a vertex lies: first one with parallel rays
// (linear least squares), and where that errs by more than a quarter of a cell (rms) a pinhole
// (direct linear transform, Hartley and Zisserman 7.1). The third row is scaled so that
// its value is positive for all vertices and 1 on average. Returns the rms error in cells.
double projection_fit(const struct align_grid *grid, double out_m[12]);

// Where a pinhole stands (out_at, returns true), or the direction of parallel rays towards the
// sensor (returns false): of the two the one with positive z, as scanners have it.
bool projection_centre(const double m[12], double out_at[3]);

#endif

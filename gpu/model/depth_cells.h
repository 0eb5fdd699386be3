// SPDX-License-Identifier: Apache-2.0
// A depth image in 16 x 12 cells, to tell which images may show the same place: those whose mean
// depths are like each other, as they are or moved by some cells, as a camera that turned sees
// them.
#ifndef POSED_GPU_MODEL_DEPTH_CELLS_H
#define POSED_GPU_MODEL_DEPTH_CELLS_H

#include <stdint.h>

// Row by row.
#define DEPTH_CELLS_X 16
#define DEPTH_CELLS_Y 12
#define DEPTH_CELLS   (DEPTH_CELLS_X * DEPTH_CELLS_Y)

// Logarithm of each cell's mean depth [m]; NAN where less than a quarter of its pixels have one.
// z_m: row-major, 0 = none; so many floats from one pixel to the next.
void depth_cells_of(const float *z_m, uint32_t floats_a_pixel, uint32_t width_px,
                    uint32_t height_px, float out_log_z[DEPTH_CELLS]);

// Mean difference of the logarithms of depth where both have one, cell (x, y) of `a` with
// (x + shift_x, y + shift_y) of `b`; INFINITY where that is less than half of the cells that meet
// and have depth in either. *out_n_shared: of how many cells.
double depth_cells_unlikeness(const float *a, const float *b, int shift_x, int shift_y,
                              int *out_n_shared);

#endif

// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/depth_cells.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#define MIN_SHARED 0.5 // of the cells with depth in either
#define MOST       0.5 // that one cell counts: beyond, it is another surface

void depth_cells_of(const float *z_m, uint32_t floats_a_pixel, uint32_t width_px,
                    uint32_t height_px, float out_log_z[DEPTH_CELLS])
{
    for (uint32_t cell = 0; cell < DEPTH_CELLS; cell++) {
        uint32_t i = cell % DEPTH_CELLS_X, j = cell / DEPTH_CELLS_X, n = 0;
        uint32_t u0 = i * width_px / DEPTH_CELLS_X, u1 = (i + 1) * width_px / DEPTH_CELLS_X;
        uint32_t v0 = j * height_px / DEPTH_CELLS_Y, v1 = (j + 1) * height_px / DEPTH_CELLS_Y;
        double sum = 0;
        for (uint32_t v = v0; v < v1; v++)
            for (uint32_t u = u0; u < u1; u++) {
                float z = z_m[floats_a_pixel * ((size_t)v * width_px + u)];
                sum += (double)z;
                n += z > 0;
            }
        out_log_z[cell] = n > 0 && 4 * n >= (u1 - u0) * (v1 - v0) ? (float)log(sum / n) : NAN;
    }
}

double depth_cells_unlikeness(const float *a, const float *b, int shift_x, int shift_y,
                              int *out_n_shared)
{
    const int x0 = shift_x < 0 ? -shift_x : 0, y0 = shift_y < 0 ? -shift_y : 0;
    const int x1 = DEPTH_CELLS_X - (shift_x > 0 ? shift_x : 0);
    const int y1 = DEPTH_CELLS_Y - (shift_y > 0 ? shift_y : 0);
    double sum = 0;
    int n_shared = 0, n_any = 0;
    for (int y = y0; y < y1; y++)
        for (int x = x0; x < x1; x++) {
            const float in_a = a[y * DEPTH_CELLS_X + x];
            const float in_b = b[(y + shift_y) * DEPTH_CELLS_X + x + shift_x];
            bool has_a = !isnan(in_a), has_b = !isnan(in_b);
            n_any += has_a || has_b;
            if (!has_a || !has_b)
                continue;
            n_shared++;
            sum += fmin(fabs((double)in_a - (double)in_b), MOST);
        }
    *out_n_shared = n_shared;
    return n_shared > 0 && n_shared >= MIN_SHARED * n_any ? sum / n_shared : INFINITY;
}

// SPDX-License-Identifier: Apache-2.0
#include "gpu/register/free_space.h"

#include <math.h>
#include <string.h>

#define MARGIN_CELLS 1.5f  // so far before a surface is before it, not drift and noise
#define MOST_HIDDEN  0.15f // of the set's points behind others: a moving sensor looks around edges
#define LEAST_AROUND 0.04f // of the sphere

static float look(const float from[3], const float p[3], int *out_row, int *out_column)
{
    const float d[3] = {p[0] - from[0], p[1] - from[1], p[2] - from[2]};
    const float r = sqrtf(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
    const float up = r > 0 ? acosf(fmaxf(-1, fminf(1, d[1] / r))) / (float)M_PI : 0;
    const float around = (atan2f(d[0], d[2]) / (float)M_PI + 1) / 2;
    const int row = (int)(up * REGISTER_SIGHT_ROWS);
    *out_row = row < REGISTER_SIGHT_ROWS ? row : REGISTER_SIGHT_ROWS - 1;
    *out_column = (int)(around * REGISTER_SIGHT_COLUMNS) % REGISTER_SIGHT_COLUMNS;
    return r;
}

// The nearest in a direction and those around it: an edge is nowhere behind what it hides.
static float nearest_around(const struct register_sight *sight, int row, int column)
{
    float nearest = sight->nearest_m[row][column];
    for (int i = row > 0 ? row - 1 : 0; i <= row + 1 && i < REGISTER_SIGHT_ROWS; i++)
        for (int k = -1; k <= 1; k++) {
            const int j = (column + k + REGISTER_SIGHT_COLUMNS) % REGISTER_SIGHT_COLUMNS;
            const float other = sight->nearest_m[i][j];
            nearest = other > 0 && other < nearest ? other : nearest;
        }
    return nearest;
}

void register_sight_make(const struct register_cell_point *points, uint32_t n, float cell_m,
                         const double from[3], struct register_sight *out)
{
    uint32_t n_hidden = 0;
    double seen = 0, all = 0;
    int row, column;
    memset(out, 0, sizeof *out);
    out->margin_m = MARGIN_CELLS * cell_m;
    for (int a = 0; a < 3; a++)
        out->from[a] = (float)from[a];
    for (uint32_t i = 0; i < n; i++) {
        const float p[3] = {points[i].x, points[i].y, points[i].z};
        const float r = look(out->from, p, &row, &column);
        float *nearest = &out->nearest_m[row][column];
        *nearest = *nearest > 0 && *nearest < r ? *nearest : r;
    }
    for (uint32_t i = 0; i < n; i++) {
        const float p[3] = {points[i].x, points[i].y, points[i].z};
        const float r = look(out->from, p, &row, &column);
        n_hidden += r > 1.2f * out->nearest_m[row][column] + out->margin_m;
    }
    for (row = 0; row < REGISTER_SIGHT_ROWS; row++) {
        const double solid = sin((row + 0.5) * M_PI / REGISTER_SIGHT_ROWS);
        for (column = 0; column < REGISTER_SIGHT_COLUMNS; column++) {
            all += solid;
            seen += out->nearest_m[row][column] > 0 ? solid : 0;
        }
    }
    out->valid = (float)n_hidden <= MOST_HIDDEN * (float)n && seen >= (double)LEAST_AROUND * all;
}

double register_sight_before(const struct register_sight *sight, const struct se3 *T,
                             const struct register_cell_point *points, uint32_t n)
{
    uint32_t n_before = 0;
    for (uint32_t i = 0; i < n && sight->valid; i++) {
        const double p[3] = {points[i].x, points[i].y, points[i].z};
        double moved[3];
        int row, column;
        se3_apply(T, p, moved);
        const float q[3] = {(float)moved[0], (float)moved[1], (float)moved[2]};
        const float r = look(sight->from, q, &row, &column);
        n_before += r + sight->margin_m < nearest_around(sight, row, column);
    }
    return n > 0 ? (double)n_before / n : 0;
}

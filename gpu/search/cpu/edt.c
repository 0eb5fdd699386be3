// SPDX-License-Identifier: Apache-2.0
// Edges and the signed Euclidean distance transform on the CPU. Exact: down and up each column for
// the distance to the column's nearest edge, then along each row the nearest of all columns in
// reach (Saito and Toriwaki 1994, with a reach of 8 px).
#include "gpu/search/cpu/edt.h"

#include <math.h>
#include <string.h>

#include "gpu/search/kernels/depth_edges.h"

#define REACH       SEARCH_EDT_MAX_PX
#define FAR         (REACH + 1)
#define SIZE_MAX_PX SEARCH_WINDOW_PX

void search_kinds(const int16_t *z, int size, uint8_t *out)
{
    for (int v = 0; v < size; v++)
        for (int u = 0; u < size; u++) {
            const int16_t *p = z + v * size + u;
            out[v * size + u] = (uint8_t)search_kind(
                p[0], u > 0 ? p[-1] : SEARCH_Z_NONE, u < size - 1 ? p[1] : SEARCH_Z_NONE,
                v > 0 ? p[-size] : SEARCH_Z_NONE, v < size - 1 ? p[size] : SEARCH_Z_NONE);
        }
}

// Squared distances (px^2, cut above REACH^2) of one row from the columns' distances.
static void row_distances(const uint8_t *column, int size, int16_t *out)
{
    int16_t squared[SIZE_MAX_PX + 2 * REACH];
    for (int u = 0; u < size + 2 * REACH; u++)
        squared[u] = FAR * FAR;
    for (int u = 0; u < size; u++)
        squared[u + REACH] = (int16_t)(column[u] * column[u]);
    for (int u = 0; u < size; u++)
        out[u] = squared[u + REACH];
    for (int k = -REACH; k <= REACH; k++)
        for (int u = 0; u < size; u++) {
            int16_t here = (int16_t)(squared[u + REACH + k] + k * k);
            out[u] = here < out[u] ? here : out[u];
        }
}

void search_edt(const uint8_t *kind, int size, int16_t *out)
{
    uint8_t column[SIZE_MAX_PX * SIZE_MAX_PX];
    for (int v = 0; v < size; v++)
        for (int u = 0; u < size; u++) {
            uint8_t above = v > 0 ? column[(v - 1) * size + u] : FAR;
            uint8_t next = above < FAR ? (uint8_t)(above + 1) : FAR;
            column[v * size + u] = kind[v * size + u] == SEARCH_KIND_EDGE ? 0 : next;
        }
    for (int v = size - 2; v >= 0; v--)
        for (int u = 0; u < size; u++) {
            uint8_t next = (uint8_t)(column[(v + 1) * size + u] + 1), *here = &column[v * size + u];
            *here = next < *here ? next : *here;
        }
    int16_t distance[FAR * FAR + REACH * REACH + 1];
    for (int i = 0; i <= FAR * FAR + REACH * REACH; i++)
        distance[i] = (int16_t)search_edt_distance(i);
    for (int v = 0; v < size; v++) {
        int16_t squared[SIZE_MAX_PX];
        row_distances(column + v * size, size, squared);
        for (int u = 0; u < size; u++)
            out[v * size + u] = (int16_t)search_edt_sign(distance[squared[u]], kind[v * size + u]);
    }
}

void search_edt_sweeps(const uint8_t *kind, int size, int n_sweeps, int16_t *out)
{
    enum { NONE = -1 };
    int16_t nearest[2][SIZE_MAX_PX * SIZE_MAX_PX]; // index of the nearest edge found so far
    for (int i = 0; i < size * size; i++)
        nearest[0][i] = kind[i] == SEARCH_KIND_EDGE ? (int16_t)i : NONE;
    int from = 0;
    for (int sweep = 0; sweep < n_sweeps; sweep++, from = 1 - from)
        for (int v = 0; v < size; v++)
            for (int u = 0; u < size; u++) {
                int best = (n_sweeps + 1) * (n_sweeps + 1);
                int16_t at = NONE;
                for (int k = 0; k < 9; k++) {
                    int x = u + (k + 1) % 3 - 1, y = v + (k / 3 + 1) % 3 - 1;
                    if (x < 0 || y < 0 || x >= size || y >= size ||
                        nearest[from][y * size + x] == NONE)
                        continue;
                    int16_t edge = nearest[from][y * size + x];
                    int dx = u - edge % size, dy = v - edge / size, d = dx * dx + dy * dy;
                    if (d < best) {
                        best = d;
                        at = edge;
                    }
                }
                nearest[1 - from][v * size + u] = at;
            }
    for (int i = 0; i < size * size; i++) {
        int edge = nearest[from][i], dx = i % size - edge % size, dy = i / size - edge / size;
        int d = edge == NONE ? (n_sweeps + 1) * SEARCH_UNIT
                             : (int)(sqrtf((float)(dx * dx + dy * dy)) * SEARCH_UNIT + 0.5f);
        out[i] = (int16_t)search_edt_sign(d, kind[i]);
    }
}

// SPDX-License-Identifier: Apache-2.0
// Packing of reference views. Foreground pixels are stored in chunks of 16 along a row: a chunk is
// one vector load on a CPU and one coalesced half-warp load on a GPU, and the input under it is
// contiguous too; a list of single pixels would need a gather for each.
#include "gpu/search/object/view_packing.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/search/kernels/depth_edges.h"

// First foreground pixel of row v from u on, SEARCH_MAP_PX if none.
static int next_foreground(const struct search_map *map, int v, int u)
{
    while (u < SEARCH_MAP_PX && map->edt[v * SEARCH_MAP_PX + u] < 0)
        u++;
    return u;
}

uint32_t search_count_chunks(const struct search_map *map)
{
    uint32_t n = 0;
    for (int v = 0; v < SEARCH_MAP_PX; v++)
        for (int u = next_foreground(map, v, 0); u < SEARCH_MAP_PX;
             u = next_foreground(map, v, u + SEARCH_CHUNK))
            n++;
    return n;
}

// The paper's equation 7 prints a comparison that would shun the middle of the object; meant is the
// pixel that maximises closeness + EDT / 2 (the last of equals).
static void start_point(const struct search_map *map, struct search_view *out)
{
    int best = INT32_MIN;
    for (int i = 0; i < SEARCH_MAP_PX * SEARCH_MAP_PX; i++) {
        int value = map->edt[i] - 2 * map->z[i];
        if (map->edt[i] < 0 || value < best)
            continue;
        best = value;
        out->start_u = (int16_t)(i % SEARCH_MAP_PX);
        out->start_v = (int16_t)(i / SEARCH_MAP_PX);
        out->start_z = map->z[i];
    }
}

void search_pack_view(const struct search_map *map, struct search_view *out_view,
                      uint16_t *out_offset, uint32_t *out_pairs)
{
    uint32_t n = 0, n_cover = 0;
    for (int v = 0; v < SEARCH_MAP_PX; v++)
        for (int u = next_foreground(map, v, 0); u < SEARCH_MAP_PX;
             u = next_foreground(map, v, u + SEARCH_CHUNK), n++) {
            out_offset[n] = (uint16_t)(v * SEARCH_WINDOW_PX + u);
            for (int k = 0; k < SEARCH_CHUNK; k++) {
                const int at = v * SEARCH_MAP_PX + u + k;
                bool foreground = u + k < SEARCH_MAP_PX && map->edt[at] >= 0;
                out_pairs[n * SEARCH_CHUNK + (uint32_t)k] =
                    foreground ? search_pair(map->z[at], map->edt[at]) : search_pair(0, -1);
                n_cover += foreground;
            }
        }
    out_view->n_chunks = n;
    out_view->n_cover = n_cover;
    out_view->start_u = out_view->start_v = SEARCH_MAP_PX / 2;
    out_view->start_z = 0;
    start_point(map, out_view);
}

#define CELLS SEARCH_COARSE_CELLS

static bool is_cell(const struct search_coarse *c, int u, int v)
{
    return u >= 0 && v >= 0 && u < CELLS && v < CELLS && c->z[v * CELLS + u] != SEARCH_COARSE_NONE;
}

// Anchors: inner cells far from each other, so that one of them is likely to be seen when half of
// the object is hidden. The first is the one nearest to the middle of the view's cells.
static void choose_anchors(struct search_coarse *c)
{
    int inner[CELLS * CELLS], n = 0, sum_u = 0, sum_v = 0;
    for (int least = 4; n < SEARCH_ANCHORS && least >= 0; least -= 2) {
        n = sum_u = sum_v = 0;
        for (int i = 0; i < CELLS * CELLS; i++) {
            int u = i % CELLS, v = i / CELLS;
            if (!is_cell(c, u, v) || is_cell(c, u - 1, v) + is_cell(c, u + 1, v) +
                                             is_cell(c, u, v - 1) + is_cell(c, u, v + 1) <
                                         least)
                continue;
            inner[n++] = i;
            sum_u += u;
            sum_v += v;
        }
    }
    for (int k = 0; k < SEARCH_ANCHORS; k++) {
        int best = -1, best_score = -1;
        for (int j = 0; j < n; j++) {
            int u = inner[j] % CELLS, v = inner[j] / CELLS, score = 1 << 20;
            if (k == 0) {
                int du = u * n - sum_u, dv = v * n - sum_v;
                score -= (du * du + dv * dv) / (n * n);
            }
            for (int other = 0; other < k; other++) {
                int du = u - c->anchor_u[other], dv = v - c->anchor_v[other];
                score = du * du + dv * dv < score ? du * du + dv * dv : score;
            }
            if (score > best_score) {
                best = inner[j];
                best_score = score;
            }
        }
        if (best < 0 || (k > 0 && best_score < 2))
            return;
        c->anchor_u[k] = (uint8_t)(best % CELLS);
        c->anchor_v[k] = (uint8_t)(best / CELLS);
        c->anchor_z[k] = c->z[best];
        c->n_anchors = (uint8_t)(k + 1);
    }
}

// Mean normal of the anchor's cell.
static void anchor_normal(const struct search_map *map, int cell_u, int cell_v, int8_t out[4])
{
    int sum[3] = {0};
    for (int k = 0; k < SEARCH_COARSE_PX * SEARCH_COARSE_PX; k++) {
        int u = cell_u * SEARCH_COARSE_PX + k % SEARCH_COARSE_PX;
        int v = cell_v * SEARCH_COARSE_PX + k / SEARCH_COARSE_PX;
        for (int j = 0; j < 3; j++)
            sum[j] += map->normal[3 * (v * SEARCH_MAP_PX + u) + j];
    }
    float length = sqrtf((float)(sum[0] * sum[0] + sum[1] * sum[1] + sum[2] * sum[2]));
    for (int j = 0; j < 3; j++)
        out[j] = (int8_t)(length > 0 ? lrintf(127 * (float)sum[j] / length) : 0);
}

void search_pack_coarse(const struct search_map *map, struct search_coarse *out)
{
    memset(out, 0, sizeof *out);
    for (int i = 0; i < CELLS * CELLS; i++) {
        int n = 0, sum = 0;
        for (int k = 0; k < SEARCH_COARSE_PX * SEARCH_COARSE_PX; k++) {
            int u = i % CELLS * SEARCH_COARSE_PX + k % SEARCH_COARSE_PX;
            int v = i / CELLS * SEARCH_COARSE_PX + k / SEARCH_COARSE_PX;
            if (map->edt[v * SEARCH_MAP_PX + u] < 0)
                continue;
            n++;
            sum += map->z[v * SEARCH_MAP_PX + u];
        }
        bool cell = 2 * n >= SEARCH_COARSE_PX * SEARCH_COARSE_PX;
        out->z[i] = (int16_t)(cell ? sum / n : SEARCH_COARSE_NONE);
        out->n_cells = (uint16_t)(out->n_cells + cell);
    }
    for (int i = 0; i < CELLS * CELLS; i++) {
        int u = i % CELLS, v = i / CELLS, n = 0, sum = 0;
        out->ring[i] = SEARCH_COARSE_NONE;
        if (is_cell(out, u, v))
            continue;
        for (int k = 0; k < 9; k++) {
            int nu = u + k % 3 - 1, nv = v + k / 3 - 1;
            if (!is_cell(out, nu, nv))
                continue;
            n++;
            sum += out->z[nv * CELLS + nu];
        }
        if (n == 0)
            continue;
        out->ring[i] = (int16_t)(sum / n);
        out->n_ring++;
        out->row_first = (uint8_t)(out->row_end == 0 ? v : out->row_first);
        out->row_end = (uint8_t)(v + 1);
    }
    // An object that fills the map has no ring above or below.
    for (int u = 0; u < CELLS; u++) {
        out->row_first = is_cell(out, u, 0) ? 0 : out->row_first;
        out->row_end = is_cell(out, u, CELLS - 1) ? CELLS : out->row_end;
    }
    choose_anchors(out);
    for (int k = 0; k < out->n_anchors; k++)
        anchor_normal(map, out->anchor_u[k], out->anchor_v[k], out->anchor_normal[k]);
}

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
    return b ? common_divisor(b, a % b) : a;
}

// Puts points in reading order into one whose every beginning is spread over all of them: steps of
// the golden section.
static void spread(const struct search_point *points, uint32_t n, struct search_point *out)
{
    uint32_t step = (uint32_t)(0.618034 * n);
    while (step > 1 && common_divisor(n, step) > 1)
        step--;
    for (uint32_t i = 0; i < n; i++)
        out[i] = points[(uint64_t)i * step % n];
}

uint32_t search_pack_points(const struct search_map *map, struct search_point *out)
{
    // Away from the silhouette, where a pixel of noise changes the surface; all when too few.
    enum { N = SEARCH_MAP_PX * SEARCH_MAP_PX, FEW = 48 };
    int least = SEARCH_UNIT, n = 0;
    for (int i = 0; i < N; i++)
        n += map->edt[i] >= least;
    if (n < FEW) {
        least = 0;
        for (int i = n = 0; i < N; i++)
            n += map->edt[i] >= least;
    }
    struct search_point kept[SEARCH_POINTS];
    uint32_t n_out = 0;
    for (int i = 0, seen = 0; i < N; i++) {
        if (map->edt[i] < least)
            continue;
        seen++;
        // Every n / SEARCH_POINTS-th pixel in reading order.
        if (n > SEARCH_POINTS && seen * SEARCH_POINTS / n == (seen - 1) * SEARCH_POINTS / n)
            continue;
        struct search_point *p = &kept[n_out++];
        p->u = (uint8_t)(i % SEARCH_MAP_PX);
        p->v = (uint8_t)(i / SEARCH_MAP_PX);
        p->z = map->z[i];
        memcpy(p->normal, map->normal + 3 * i, 3);
        p->unused = 0;
    }
    spread(kept, n_out, out);
    return n_out;
}

// The foreground pixel nearest to background pixel (p->u, p->v), no farther than 5 px: its depth,
// and in normal[0] and [1] the way to the pixel behind it.
static bool nearest_inside(const struct search_map *map, struct search_point *p)
{
    int best = INT32_MAX;
    for (int y = p->v - 5; y <= p->v + 5; y++)
        for (int x = p->u - 5; x <= p->u + 5; x++) {
            int du = x - p->u, dv = y - p->v, d2 = du * du + dv * dv;
            if (x < 0 || y < 0 || x >= SEARCH_MAP_PX || y >= SEARCH_MAP_PX || d2 >= best ||
                map->edt[y * SEARCH_MAP_PX + x] < 0)
                continue;
            best = d2;
            p->z = map->z[y * SEARCH_MAP_PX + x];
            p->normal[0] = (int8_t)(du + (du > 0) - (du < 0));
            p->normal[1] = (int8_t)(dv + (dv > 0) - (dv < 0));
        }
    return best < INT32_MAX;
}

uint32_t search_pack_ring(const struct search_map *map, struct search_point *out)
{
    enum { N = SEARCH_MAP_PX * SEARCH_MAP_PX };
    int n = 0;
    for (int i = 0; i < N; i++)
        n += map->edt[i] <= -3 * SEARCH_UNIT && map->edt[i] > -4 * SEARCH_UNIT;
    struct search_point kept[SEARCH_RING_POINTS];
    uint32_t n_out = 0;
    for (int i = 0, seen = 0; i < N; i++) {
        if (map->edt[i] > -3 * SEARCH_UNIT || map->edt[i] <= -4 * SEARCH_UNIT)
            continue;
        seen++;
        struct search_point p = {
            (uint8_t)(i % SEARCH_MAP_PX), (uint8_t)(i / SEARCH_MAP_PX), 0, {0, 0, 0}, 0};
        if (n > SEARCH_RING_POINTS &&
            seen * SEARCH_RING_POINTS / n == (seen - 1) * SEARCH_RING_POINTS / n)
            continue;
        if (nearest_inside(map, &p))
            kept[n_out++] = p;
    }
    spread(kept, n_out, out);
    return n_out;
}

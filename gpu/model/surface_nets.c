// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/surface_nets.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EDGE      MODEL_BLOCK_EDGE
#define CORNERS   (EDGE + 1) // of a block's cells along an axis
#define NO_VERTEX UINT32_MAX

struct mesher {
    const struct model_block *blocks;
    uint32_t n_blocks;
    float voxel_m;
    uint16_t min_weight;
    uint32_t *cells; // vertex of each cell of each block
    struct model_surface *out;
    size_t room_points, room_triangles;
};

// Distances at the corners of a block's cells; NAN: unseen.
struct corners {
    float d[CORNERS][CORNERS][CORNERS]; // [z][y][x]
};

static int by_place(const void *left, const void *right)
{
    const int32_t *a = left;
    const struct model_block *b = right;
    if (a[2] != b->z)
        return a[2] < b->z ? -1 : 1;
    if (a[1] != b->y)
        return a[1] < b->y ? -1 : 1;
    return a[0] < b->x ? -1 : a[0] > b->x;
}

// NULL: nothing is there. A neighbour of the last place that there can be is nowhere.
static const struct model_block *find(const struct mesher *m, int64_t x, int64_t y, int64_t z)
{
    const int32_t place[3] = {(int32_t)x, (int32_t)y, (int32_t)z};
    if (place[0] != x || place[1] != y || place[2] != z)
        return NULL;
    return bsearch(place, m->blocks, m->n_blocks, sizeof *m->blocks, by_place);
}

static void corners_fill(const struct mesher *m, const struct model_block *block,
                         struct corners *out)
{
    const struct model_block *next[8];
    for (int i = 0; i < 8; i++)
        next[i] = i == 0 ? block
                         : find(m, (int64_t)block->x + (i & 1), (int64_t)block->y + (i >> 1 & 1),
                                (int64_t)block->z + (i >> 2));
    for (int z = 0; z < CORNERS; z++)
        for (int y = 0; y < CORNERS; y++)
            for (int x = 0; x < CORNERS; x++) {
                const struct model_block *from =
                    next[(x == EDGE) | (y == EDGE) << 1 | (z == EDGE) << 2];
                int at = (x & 7) | (y & 7) << 3 | (z & 7) << 6;
                out->d[z][y][x] =
                    from && from->weight[at] >= m->min_weight ? (float)from->distance[at] : NAN;
            }
}

// Room for one more element of `size` bytes in each of n arrays.
static int grow(void **const arrays[], int n_arrays, size_t size, size_t n, size_t *room)
{
    if (n < *room)
        return 0;
    size_t wanted = *room ? 2 * *room : 4096;
    for (int i = 0; i < n_arrays; i++) {
        void *more = realloc(*arrays[i], wanted * size);
        if (!more)
            return -ENOMEM;
        *arrays[i] = more;
    }
    *room = wanted;
    return 0;
}

static int vertex_add(struct mesher *m, const double p[3], const double n[3])
{
    struct model_surface *s = m->out;
    void **const arrays[] = {(void **)&s->x_m, (void **)&s->y_m, (void **)&s->z_m,
                             (void **)&s->nx,  (void **)&s->ny,  (void **)&s->nz};
    if (s->n_points > INT32_MAX)
        return -EFBIG;
    int rc = grow(arrays, 6, sizeof(float), s->n_points, &m->room_points);
    if (rc < 0)
        return rc;
    double length = sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
    double scale = length > 0 ? 1 / length : 0;
    s->x_m[s->n_points] = (float)p[0];
    s->y_m[s->n_points] = (float)p[1];
    s->z_m[s->n_points] = (float)p[2];
    s->nx[s->n_points] = (float)(n[0] * scale);
    s->ny[s->n_points] = (float)(n[1] * scale);
    s->nz[s->n_points] = (float)(n[2] * scale);
    s->n_points++;
    return 0;
}

// The cell with lowest corner (x, y, z) of the block: its vertex if the surface passes.
static int cell_vertex(struct mesher *m, const struct model_block *block, const struct corners *c,
                       int x, int y, int z, uint32_t *out_vertex)
{
    float d[8];
    int n_in_front = 0, n_crossings = 0;
    double sum[3] = {0, 0, 0}, gradient[3] = {0, 0, 0}, p[3];
    for (int i = 0; i < 8; i++) {
        d[i] = c->d[z + (i >> 2)][y + (i >> 1 & 1)][x + (i & 1)];
        if (isnan(d[i]))
            return 0;
        n_in_front += d[i] > 0;
    }
    if (n_in_front == 0 || n_in_front == 8)
        return 0;
    for (int i = 0; i < 8; i++)
        for (int axis = 0; axis < 3; axis++) {
            int j = i | 1 << axis;
            if (j == i)
                continue;
            gradient[axis] += (double)d[j] - (double)d[i];
            if ((d[i] > 0) == (d[j] > 0))
                continue;
            double along = (double)d[i] / ((double)d[i] - (double)d[j]);
            for (int k = 0; k < 3; k++)
                sum[k] += k == axis ? along : (double)(i >> k & 1);
            n_crossings++;
        }
    const int64_t edge = EDGE;
    const int64_t base[3] = {edge * block->x + x, edge * block->y + y, edge * block->z + z};
    for (int k = 0; k < 3; k++)
        p[k] = ((double)base[k] + sum[k] / n_crossings) * (double)m->voxel_m;
    *out_vertex = (uint32_t)m->out->n_points;
    return vertex_add(m, p, gradient);
}

static uint32_t vertex_at(const struct mesher *m, const struct model_block *block, int x, int y,
                          int z)
{
    if (x < 0 || y < 0 || z < 0)
        block = find(m, (int64_t)block->x - (x < 0), (int64_t)block->y - (y < 0),
                     (int64_t)block->z - (z < 0));
    if (!block)
        return NO_VERTEX;
    return m->cells[(size_t)(block - m->blocks) * MODEL_BLOCK_VOXELS +
                    (size_t)((x & 7) | (y & 7) << 3 | (z & 7) << 6)];
}

static int triangle_add(struct mesher *m, uint32_t a, uint32_t b, uint32_t c)
{
    struct model_surface *s = m->out;
    void **const arrays[] = {(void **)&s->triangles};
    int rc = grow(arrays, 1, 3 * sizeof(uint32_t), s->n_triangles, &m->room_triangles);
    if (rc < 0)
        return rc;
    uint32_t *t = s->triangles + 3 * s->n_triangles++;
    t[0] = a;
    t[1] = b;
    t[2] = c;
    return 0;
}

// The edge from corner (x, y, z) along `axis`: the four cells around it make two triangles.
static int edge_triangles(struct mesher *m, const struct model_block *block,
                          const struct corners *c, int x, int y, int z, int axis)
{
    float from = c->d[z][y][x];
    float to = c->d[z + (axis == 2)][y + (axis == 1)][x + (axis == 0)];
    if (isnan(from) || isnan(to) || (from > 0) == (to > 0))
        return 0;
    const int b = (axis + 1) % 3, d = (axis + 2) % 3;
    uint32_t v[4]; // around the edge, counter-clockwise seen from its far end
    for (int i = 0; i < 4; i++) {
        int at[3] = {x, y, z};
        at[b] -= i == 1 || i == 2;
        at[d] -= i == 2 || i == 3;
        v[i] = vertex_at(m, block, at[0], at[1], at[2]);
        if (v[i] == NO_VERTEX)
            return 0;
    }
    int rc;
    if (to > from) { // the camera's side is the far end
        rc = triangle_add(m, v[0], v[1], v[2]);
        return rc < 0 ? rc : triangle_add(m, v[0], v[2], v[3]);
    }
    rc = triangle_add(m, v[0], v[2], v[1]);
    return rc < 0 ? rc : triangle_add(m, v[0], v[3], v[2]);
}

static int block_vertices(struct mesher *m, uint32_t b, struct corners *corners)
{
    const struct model_block *block = &m->blocks[b];
    int rc = 0;
    corners_fill(m, block, corners);
    for (int i = 0; i < MODEL_BLOCK_VOXELS && rc == 0; i++) {
        uint32_t *cell = &m->cells[(size_t)b * MODEL_BLOCK_VOXELS + (size_t)i];
        *cell = NO_VERTEX;
        rc = cell_vertex(m, block, corners, i & 7, i >> 3 & 7, i >> 6, cell);
    }
    return rc;
}

static int block_triangles(struct mesher *m, uint32_t b, struct corners *corners)
{
    const struct model_block *block = &m->blocks[b];
    int rc = 0;
    corners_fill(m, block, corners);
    for (int i = 0; i < 3 * MODEL_BLOCK_VOXELS && rc == 0; i++) {
        int at = i / 3;
        rc = edge_triangles(m, block, corners, at & 7, at >> 3 & 7, at >> 6, i % 3);
    }
    return rc;
}

int model_surface_create(const struct model_block *blocks, uint32_t n_blocks, float voxel_m,
                         uint16_t min_weight, struct model_surface *out)
{
    struct mesher m = {.blocks = blocks,
                       .n_blocks = n_blocks,
                       .voxel_m = voxel_m,
                       .min_weight = min_weight > 0 ? min_weight : 1,
                       .out = out};
    struct corners corners;
    int rc = 0;
    memset(out, 0, sizeof *out);
    m.cells = malloc(((size_t)n_blocks * MODEL_BLOCK_VOXELS + 1) * sizeof *m.cells);
    if (!m.cells)
        return -ENOMEM;
    for (uint32_t b = 0; b < n_blocks && rc == 0; b++)
        rc = block_vertices(&m, b, &corners);
    for (uint32_t b = 0; b < n_blocks && rc == 0; b++)
        rc = block_triangles(&m, b, &corners);
    free(m.cells);
    if (rc < 0)
        model_surface_free(out);
    return rc;
}

void model_surface_free(struct model_surface *surface)
{
    free(surface->x_m);
    free(surface->y_m);
    free(surface->z_m);
    free(surface->nx);
    free(surface->ny);
    free(surface->nz);
    free(surface->triangles);
    memset(surface, 0, sizeof *surface);
}

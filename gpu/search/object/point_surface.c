// SPDX-License-Identifier: Apache-2.0
#include "gpu/search/object/point_surface.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FARTHEST_M      1e6
#define N_SPACINGS      512    // points whose neighbours tell the spacing
#define N_NEAREST       6      // as many touch a point where they are packed densely
#define NEIGHBOURS_MOST 512    // of a point within two radii
#define GRID_MOST       128    // cells along an axis
#define CLOSED_LESS     0.002  // share of vertices that a smaller ball may leave open
#define BALL_EMPTY      0.9999 // of the radius: points of a regular grid share one sphere

// Of the balls, in spacings. Of points at random within a plane one circle in thirty of the first
// radius is empty, and one in 10^10 of the fourth; corners of a mesh lie less evenly.
static const double radii[] = {0.75, 1, 1.4, 2, 2.8, 4};

struct grid {
    double low[3], cell;
    uint32_t dim[3];
    uint32_t *first, *order; // points of cell c: order[first[c]] .. order[first[c + 1]]
};

struct neighbour {
    double d2, p[3];
    uint32_t index;
};

static uint32_t cell_along(const struct grid *grid, float x, int axis)
{
    double at = floor(((double)x - grid->low[axis]) / grid->cell);
    return at < 0 ? 0 : at >= grid->dim[axis] ? grid->dim[axis] - 1 : (uint32_t)at;
}

static uint32_t cell_of(const struct grid *grid, const float p[3])
{
    return (cell_along(grid, p[2], 2) * grid->dim[1] + cell_along(grid, p[1], 1)) * grid->dim[0] +
           cell_along(grid, p[0], 0);
}

static void free_grid(struct grid *grid)
{
    free(grid->first);
    free(grid->order);
}

static void bounds(const float *points, size_t n, double low[3], double high[3])
{
    for (int k = 0; k < 3; k++) {
        low[k] = INFINITY;
        high[k] = -INFINITY;
    }
    for (size_t i = 0; i < 3 * n; i++) {
        low[i % 3] = fmin(low[i % 3], (double)points[i]);
        high[i % 3] = fmax(high[i % 3], (double)points[i]);
    }
}

// Cells of at least `cell_m`, so that what is within it of a point lies in its cell or beside.
static int make_grid(const float *points, size_t n, double cell_m, struct grid *out)
{
    double high[3];
    memset(out, 0, sizeof *out);
    bounds(points, n, out->low, high);
    out->cell = cell_m;
    for (int k = 0; k < 3; k++)
        out->cell = fmax(out->cell, (high[k] - out->low[k]) / GRID_MOST);
    size_t n_cells = 1;
    for (int k = 0; k < 3; k++) {
        out->dim[k] = 1 + (uint32_t)((high[k] - out->low[k]) / out->cell);
        n_cells *= out->dim[k];
    }
    out->first = calloc(n_cells + 2, sizeof *out->first);
    out->order = malloc((n + 1) * sizeof *out->order);
    if (!out->first || !out->order) {
        free_grid(out);
        return -ENOMEM;
    }
    for (size_t i = 0; i < n; i++)
        out->first[cell_of(out, points + 3 * i) + 2]++;
    for (size_t c = 2; c < n_cells + 2; c++)
        out->first[c] += out->first[c - 1];
    for (size_t i = 0; i < n; i++)
        out->order[out->first[cell_of(out, points + 3 * i) + 1]++] = (uint32_t)i;
    return 0;
}

struct keyed {
    uint64_t key; // of the cell
    uint32_t index;
};

static int by_key(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

// What shares a cell becomes its mean, in place. Returns how many are left, 0 without memory.
static size_t thin(float *points, size_t n, double cell_m)
{
    struct keyed *scratch = malloc((n + 1) * sizeof *scratch);
    float *mean = malloc((3 * n + 1) * sizeof *mean);
    size_t n_left = 0;
    double low[3], high[3];
    if (!scratch || !mean)
        goto out;
    bounds(points, n, low, high);
    for (size_t i = 0; i < n; i++) {
        uint64_t key = 0;
        for (size_t k = 0; k < 3; k++) // 21 bits each
            key = key << 21 | (uint64_t)(((double)points[3 * i + k] - low[k]) / cell_m);
        scratch[i] = (struct keyed){key, (uint32_t)i};
    }
    qsort(scratch, n, sizeof *scratch, by_key);
    for (size_t i = 0, end; i < n; i = end) {
        double sum[3] = {0};
        for (end = i; end < n && scratch[end].key == scratch[i].key; end++)
            for (size_t k = 0; k < 3; k++)
                sum[k] += (double)points[3 * (size_t)scratch[end].index + k];
        for (size_t k = 0; k < 3; k++)
            mean[3 * n_left + k] = (float)(sum[k] / (double)(end - i));
        n_left++;
    }
    memcpy(points, mean, 3 * n_left * sizeof *mean);
out:
    free(scratch);
    free(mean);
    return n_left;
}

static int by_coordinate(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

// The diagonal of the box that holds all but a hundredth of the points at each of its sides: a few
// that lie far out do not make the cells coarse. 0: no memory, or nearly all at one place.
static double inner_diagonal(const float *points, size_t n)
{
    float *along = malloc(n * sizeof *along);
    double span[3] = {0};
    for (size_t k = 0; along && k < 3; k++) {
        for (size_t i = 0; i < n; i++)
            along[i] = points[3 * i + k];
        qsort(along, n, sizeof *along, by_coordinate);
        span[k] = (double)along[n - 1 - n / 100] - (double)along[n / 100];
    }
    free(along);
    return hypot(hypot(span[0], span[1]), span[2]);
}

// Finite points, thinned. The caller frees *out.
static int prepare(const float *points_m, size_t n, uint32_t n_across, float **out, size_t *out_n)
{
    float *points = malloc((3 * n + 1) * sizeof *points);
    size_t n_left = 0;
    int err = points ? 0 : -ENOMEM;
    for (size_t i = 0; !err && i < n; i++) {
        const float *p = points_m + 3 * i;
        if (fabs((double)p[0]) <= FARTHEST_M && fabs((double)p[1]) <= FARTHEST_M &&
            fabs((double)p[2]) <= FARTHEST_M)
            memcpy(points + 3 * n_left++, p, 3 * sizeof *p);
    }
    if (!err && n_left >= 3) {
        double low[3], high[3];
        bounds(points, n_left, low, high);
        double diagonal = hypot(hypot(high[0] - low[0], high[1] - low[1]), high[2] - low[2]);
        double cell = fmax(inner_diagonal(points, n_left) / n_across, diagonal / (1 << 20));
        do {
            n_left = cell > 0 ? thin(points, n_left, cell) : 0;
            cell *= 1.26; // half as many of a solid, two thirds of a surface
            err = n_left ? 0 : diagonal > 0 ? -ENOMEM : -EINVAL;
        } while (!err && n_left > POINT_SURFACE_MOST);
    }
    if (!err && n_left < 3)
        err = -EINVAL;
    if (err)
        free(points);
    *out = err ? NULL : points;
    *out_n = n_left;
    return err;
}

// The median distance to the N_NEAREST-th neighbour, of a sample of the points.
static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double find_spacing(const float *points, size_t n)
{
    double distance[N_SPACINGS] = {0};
    size_t n_sample = n < N_SPACINGS ? n : N_SPACINGS;
    for (size_t s = 0; s < n_sample; s++) {
        const float *p = points + 3 * (s * n / n_sample);
        double nearest[N_NEAREST + 1]; // itself among them
        for (int k = 0; k <= N_NEAREST; k++)
            nearest[k] = INFINITY;
        for (size_t i = 0; i < n; i++) {
            const float *q = points + 3 * i;
            double d2 = 0;
            for (int k = 0; k < 3; k++)
                d2 += ((double)p[k] - (double)q[k]) * ((double)p[k] - (double)q[k]);
            if (d2 >= nearest[N_NEAREST])
                continue;
            size_t at = N_NEAREST;
            for (; at > 0 && nearest[at - 1] > d2; at--)
                nearest[at] = nearest[at - 1];
            nearest[at] = d2;
        }
        distance[s] = sqrt(nearest[n > N_NEAREST ? N_NEAREST : n - 1]);
    }
    qsort(distance, n_sample, sizeof *distance, by_value);
    return distance[n_sample / 2];
}

// All within `radius` of point i but itself, the nearest first; SIZE_MAX when there are more than
// NEIGHBOURS_MOST.
static int by_distance(const void *a, const void *b)
{
    const struct neighbour *x = a, *y = b;
    if (x->d2 != y->d2)
        return x->d2 < y->d2 ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static size_t find_neighbours(const struct grid *grid, const float *points, size_t i, double radius,
                              struct neighbour out[NEIGHBOURS_MOST])
{
    const float *p = points + 3 * i;
    uint32_t from[3], to[3];
    size_t n = 0;
    for (int k = 0; k < 3; k++) {
        uint32_t at = cell_along(grid, p[k], k);
        from[k] = at > 0 ? at - 1 : 0;
        to[k] = at + 1 < grid->dim[k] ? at + 1 : at;
    }
    for (uint32_t z = from[2]; z <= to[2]; z++)
        for (uint32_t y = from[1]; y <= to[1]; y++) {
            uint32_t row = (z * grid->dim[1] + y) * grid->dim[0];
            for (uint32_t a = grid->first[row + from[0]]; a < grid->first[row + to[0] + 1]; a++) {
                uint32_t j = grid->order[a];
                struct neighbour found = {.index = j};
                for (int k = 0; k < 3; k++) {
                    found.p[k] = (double)points[3 * (size_t)j + (size_t)k] - (double)p[k];
                    found.d2 += found.p[k] * found.p[k];
                }
                if (j == i || found.d2 > radius * radius)
                    continue;
                if (n == NEIGHBOURS_MOST)
                    return SIZE_MAX;
                out[n++] = found;
            }
        }
    qsort(out, n, sizeof *out, by_distance);
    return n;
}

// The centres of the two balls of `alpha` that touch the origin, b and c; false when none does.
static bool touching_balls(const double b[3], const double c[3], double alpha, double out[2][3])
{
    double n[3] = {b[1] * c[2] - b[2] * c[1], b[2] * c[0] - b[0] * c[2], b[0] * c[1] - b[1] * c[0]};
    double bb = 0, cc = 0, nn = 0, mid[3], radius2 = 0;
    for (int k = 0; k < 3; k++) {
        bb += b[k] * b[k];
        cc += c[k] * c[k];
        nn += n[k] * n[k];
    }
    if (nn <= 1e-12 * bb * cc) // on a line
        return false;
    for (int k = 0; k < 3; k++) { // of the circle: ((c.c) (n x b) - (b.b) (n x c)) / 2 n.n
        int u = (k + 1) % 3, v = (k + 2) % 3;
        mid[k] = (bb * (c[u] * n[v] - c[v] * n[u]) - cc * (b[u] * n[v] - b[v] * n[u])) / (2 * nn);
        radius2 += mid[k] * mid[k];
    }
    if (radius2 > alpha * alpha)
        return false;
    double aside = sqrt((alpha * alpha - radius2) / nn);
    for (int k = 0; k < 3; k++) {
        out[0][k] = mid[k] + aside * n[k];
        out[1][k] = mid[k] - aside * n[k];
    }
    return true;
}

static bool ball_is_empty(const double centre[3], double alpha, const struct neighbour *around,
                          size_t n)
{
    double limit = alpha * alpha * BALL_EMPTY * BALL_EMPTY;
    for (size_t i = 0; i < n; i++) {
        double d2 = 0;
        for (int k = 0; k < 3; k++)
            d2 += (around[i].p[k] - centre[k]) * (around[i].p[k] - centre[k]);
        if (d2 < limit)
            return false;
    }
    return true;
}

struct triangles {
    uint32_t *corners;
    size_t n, capacity;
};

static int add_triangle(struct triangles *to, size_t a, size_t b, size_t c)
{
    if (to->n == to->capacity) {
        size_t capacity = 2 * to->capacity + 1024;
        uint32_t *corners = realloc(to->corners, 3 * capacity * sizeof *corners);
        if (!corners)
            return -ENOMEM;
        to->corners = corners;
        to->capacity = capacity;
    }
    uint32_t *t = to->corners + 3 * to->n++;
    t[0] = (uint32_t)a;
    t[1] = (uint32_t)b;
    t[2] = (uint32_t)c;
    return 0;
}

// The triangles of which i is the lowest corner. What touches i within alpha of a ball's centre is
// within two alpha of i, so that its neighbours are all that can lie in the ball.
static int add_triangles_at(size_t i, const struct neighbour *around, size_t n, double alpha,
                            struct triangles *out)
{
    for (size_t j = 0; j < n; j++) {
        if (around[j].index < i)
            continue;
        for (size_t k = j + 1; k < n; k++) {
            double centres[2][3];
            if (around[k].index < i || !touching_balls(around[j].p, around[k].p, alpha, centres) ||
                (!ball_is_empty(centres[0], alpha, around, n) &&
                 !ball_is_empty(centres[1], alpha, around, n)))
                continue;
            int err = add_triangle(out, i, around[j].index, around[k].index);
            if (err)
                return err;
        }
    }
    return 0;
}

// Every triangle of one radius. -E2BIG: too many neighbours.
static int make_triangles(const float *points, size_t n, double alpha, struct triangles *out)
{
    struct grid grid;
    out->n = 0;
    struct neighbour *around = malloc(NEIGHBOURS_MOST * sizeof *around);
    int err = around ? make_grid(points, n, 2 * alpha, &grid) : -ENOMEM;
    if (!err) {
        for (size_t i = 0; i < n && !err; i++) {
            size_t n_around = find_neighbours(&grid, points, i, 2 * alpha, around);
            err = n_around == SIZE_MAX ? -E2BIG : add_triangles_at(i, around, n_around, alpha, out);
        }
        free_grid(&grid);
    }
    free(around);
    return err;
}

// An edge of a triangle and the corner across.
struct edge {
    uint32_t a, b, across; // a < b
};

static int by_ends(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    if (x->a != y->a)
        return x->a < y->a ? -1 : 1;
    return x->b < y->b ? -1 : x->b > y->b;
}

// The edges of one triangle only. Returns 0 or -ENOMEM; the caller frees *out.
static int find_open_edges(const struct triangles *triangles, struct edge **out, size_t *out_n)
{
    struct edge *edges = malloc((3 * triangles->n + 1) * sizeof *edges);
    *out = edges;
    *out_n = 0;
    if (!edges)
        return -ENOMEM;
    for (size_t i = 0; i < 3 * triangles->n; i++) {
        const uint32_t *t = triangles->corners + i / 3 * 3;
        uint32_t a = t[i % 3], b = t[(i + 1) % 3];
        edges[i] = (struct edge){a < b ? a : b, a < b ? b : a, t[(i + 2) % 3]};
    }
    qsort(edges, 3 * triangles->n, sizeof *edges, by_ends);
    for (size_t i = 0, end; i < 3 * triangles->n; i = end) {
        for (end = i + 1; end < 3 * triangles->n && by_ends(&edges[i], &edges[end]) == 0; end++)
            ;
        if (end == i + 1)
            edges[(*out_n)++] = edges[i];
    }
    return 0;
}

// The triangles that a ball makes with an open edge; `around` are neighbours of the edge's a.
static int add_triangles_on(const struct edge *edge, const struct neighbour *around, size_t n,
                            double alpha, struct triangles *out)
{
    size_t b = 0;
    while (b < n && around[b].index != edge->b)
        b++;
    int err = 0;
    for (size_t c = 0; c < n && b < n && !err; c++) {
        double centres[2][3];
        if (c != b && around[c].index != edge->across &&
            touching_balls(around[b].p, around[c].p, alpha, centres) &&
            (ball_is_empty(centres[0], alpha, around, n) ||
             ball_is_empty(centres[1], alpha, around, n)))
            err = add_triangle(out, edge->a, edge->b, around[c].index);
    }
    return err;
}

static int by_corners(const void *a, const void *b)
{
    return memcmp(a, b, 3 * sizeof(uint32_t));
}

// Those found at two of their edges once.
static void leave_out_doubles(struct triangles *triangles, size_t from)
{
    if (triangles->n == from)
        return;
    uint32_t *t = triangles->corners;
    for (size_t i = from; i < triangles->n; i++)
        for (int k = 0; k < 3; k++) // three corners sorted by three exchanges
            if (t[3 * i + (size_t)(k % 2)] > t[3 * i + (size_t)(k % 2) + 1]) {
                uint32_t corner = t[3 * i + (size_t)(k % 2)];
                t[3 * i + (size_t)(k % 2)] = t[3 * i + (size_t)(k % 2) + 1];
                t[3 * i + (size_t)(k % 2) + 1] = corner;
            }
    qsort(t + 3 * from, triangles->n - from, 3 * sizeof *t, by_corners);
    size_t n = from;
    for (size_t i = from; i < triangles->n; i++)
        if (i == from || by_corners(t + 3 * (n - 1), t + 3 * i) != 0)
            memmove(t + 3 * n++, t + 3 * i, 3 * sizeof *t);
    triangles->n = n;
}

// Triangles at open edges, and at the open edges of those, as far as balls of that radius go.
static int close_gaps(const float *points, size_t n, double alpha, struct triangles *triangles)
{
    struct grid grid;
    struct neighbour *around = malloc(NEIGHBOURS_MOST * sizeof *around);
    int err = around ? make_grid(points, n, 2 * alpha, &grid) : -ENOMEM;
    if (err) {
        free(around);
        return err;
    }
    for (size_t before = SIZE_MAX; !err && triangles->n != before;) {
        struct edge *open;
        size_t n_open, n_around = 0;
        before = triangles->n;
        err = find_open_edges(triangles, &open, &n_open);
        for (size_t i = 0; i < n_open && !err; i++) {
            if (i == 0 || open[i].a != open[i - 1].a)
                n_around = find_neighbours(&grid, points, open[i].a, 2 * alpha, around);
            if (n_around != SIZE_MAX) // so many: no gap of the sampling
                err = add_triangles_on(&open[i], around, n_around, alpha, triangles);
        }
        free(open);
        leave_out_doubles(triangles, before);
    }
    free_grid(&grid);
    free(around);
    return err;
}

int point_surface_make(const float *points_m, size_t n, uint32_t n_across,
                       struct point_surface *out)
{
    memset(out, 0, sizeof *out);
    int err = n < 3 || n > UINT32_MAX
                  ? -EINVAL
                  : prepare(points_m, n, n_across, &out->vertices_m, &out->n_vertices);
    if (err)
        return err;
    struct triangles made = {0};
    out->spacing_m = find_spacing(out->vertices_m, out->n_vertices);
    err = make_triangles(out->vertices_m, out->n_vertices, radii[0] * out->spacing_m, &made);
    for (int fine = 4; err == -E2BIG && fine > 0; fine--) { // much denser somewhere than elsewhere
        out->n_vertices = thin(out->vertices_m, out->n_vertices, out->spacing_m / fine);
        err = out->n_vertices ? make_triangles(out->vertices_m, out->n_vertices,
                                               radii[0] * out->spacing_m, &made)
                              : -ENOMEM;
    }
    for (size_t i = 1; i < sizeof radii / sizeof *radii && !err; i++)
        err = close_gaps(out->vertices_m, out->n_vertices, radii[i] * out->spacing_m, &made);
    out->triangles = made.corners;
    out->n_triangles = made.n;
    out->gap_m = 2 * radii[sizeof radii / sizeof *radii - 1] * out->spacing_m;
    if (err)
        point_surface_free(out);
    return err;
}

void point_surface_free(struct point_surface *surface)
{
    free(surface->vertices_m);
    free(surface->triangles);
    surface->vertices_m = NULL;
    surface->triangles = NULL;
}

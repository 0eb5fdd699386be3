// SPDX-License-Identifier: Apache-2.0
// The solve in a build without SuiteSparse: rows from their first nonzero column on (the envelope),
// images numbered by reverse Cuthill-McKee. Slower than CHOLMOD where the graph has no narrow
// order, and without any library.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/align/sparse.h"

struct sparse {
    uint32_t n_images, n_pairs;
    struct align_pair *pairs;
    uint32_t *place; // of an image in the order
    uint32_t *first; // first column of each row
    size_t *row;     // where a row's values begin
    double *values, *b;
};

struct numbering {
    uint32_t *begin, *near, *degree, *queue;
};

static void fill_neighbours(const struct sparse *s, struct numbering *g)
{
    for (uint32_t k = 0; k < s->n_pairs; k++) {
        g->degree[s->pairs[k].i]++;
        g->degree[s->pairs[k].j]++;
    }
    g->begin[0] = 0;
    for (uint32_t i = 0; i < s->n_images; i++)
        g->begin[i + 1] = g->begin[i] + g->degree[i];
    memset(g->degree, 0, s->n_images * sizeof *g->degree);
    for (uint32_t k = 0; k < s->n_pairs; k++) {
        uint32_t i = s->pairs[k].i, j = s->pairs[k].j;
        g->near[g->begin[i] + g->degree[i]++] = j;
        g->near[g->begin[j] + g->degree[j]++] = i;
    }
}

// Breadth first from the image of least degree, neighbours of least degree first; then reversed.
static void number(struct sparse *s, struct numbering *g)
{
    uint32_t n = s->n_images, n_done = 0, read = 0;
    fill_neighbours(s, g);
    memset(s->place, 0xff, n * sizeof *s->place);
    while (n_done < n) {
        if (read == n_done) {
            uint32_t best = UINT32_MAX;
            for (uint32_t i = 0; i < n; i++)
                if (s->place[i] == UINT32_MAX &&
                    (best == UINT32_MAX || g->degree[i] < g->degree[best]))
                    best = i;
            s->place[best] = n_done;
            g->queue[n_done++] = best;
        }
        uint32_t from = g->queue[read++], begin = n_done;
        for (uint32_t k = g->begin[from]; k < g->begin[from + 1]; k++)
            if (s->place[g->near[k]] == UINT32_MAX) {
                uint32_t at = n_done++;
                for (; at > begin && g->degree[g->queue[at - 1]] > g->degree[g->near[k]]; at--)
                    g->queue[at] = g->queue[at - 1];
                g->queue[at] = g->near[k];
                s->place[g->near[k]] = 0;
            }
    }
    for (uint32_t k = 0; k < n; k++)
        s->place[g->queue[k]] = n - 1 - k;
}

static int build(struct sparse *s)
{
    uint32_t n = s->n_images;
    struct numbering g = {malloc((n + 1) * sizeof(uint32_t)),
                          malloc((2 * (size_t)s->n_pairs + 1) * sizeof(uint32_t)),
                          calloc(n + 1, sizeof(uint32_t)), malloc((n + 1) * sizeof(uint32_t))};
    int rc = g.begin && g.near && g.degree && g.queue ? 0 : -ENOMEM;
    if (rc == 0)
        number(s, &g);
    free(g.begin);
    free(g.near);
    free(g.degree);
    free(g.queue);
    if (rc < 0)
        return rc;
    for (uint32_t r = 0; r < 6 * n; r++)
        s->first[r] = r / 6 * 6;
    for (uint32_t k = 0; k < s->n_pairs; k++) {
        uint32_t a = s->place[s->pairs[k].i], b = s->place[s->pairs[k].j];
        uint32_t high = a > b ? a : b, low = a > b ? b : a;
        for (uint32_t r = 6 * high; r < 6 * high + 6; r++)
            s->first[r] = 6 * low < s->first[r] ? 6 * low : s->first[r];
    }
    s->row[0] = 0;
    for (uint32_t r = 0; r < 6 * n; r++)
        s->row[r + 1] = s->row[r] + r - s->first[r] + 1;
    s->values = malloc(s->row[6 * n] * sizeof *s->values);
    return s->values ? 0 : -ENOMEM;
}

int sparse_create(struct sparse **out, uint32_t n_images, const struct align_pair *pairs,
                  uint32_t n_pairs)
{
    struct sparse *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return -ENOMEM;
    s->n_images = n_images;
    s->n_pairs = n_pairs;
    s->pairs = malloc((n_pairs + 1) * sizeof *s->pairs);
    s->place = malloc(n_images * sizeof *s->place);
    s->first = malloc(6 * (size_t)n_images * sizeof *s->first);
    s->row = malloc((6 * (size_t)n_images + 1) * sizeof *s->row);
    s->b = malloc(6 * (size_t)n_images * sizeof *s->b);
    int rc = s->pairs && s->place && s->first && s->row && s->b ? 0 : -ENOMEM;
    if (rc == 0) {
        memcpy(s->pairs, pairs, n_pairs * sizeof *pairs);
        rc = build(s);
    }
    if (rc < 0)
        sparse_destroy(&s);
    *out = s;
    return rc;
}

void sparse_destroy(struct sparse **sparse)
{
    struct sparse *s = *sparse;
    if (!s)
        return;
    free(s->pairs);
    free(s->place);
    free(s->first);
    free(s->row);
    free(s->values);
    free(s->b);
    free(s);
    *sparse = NULL;
}

// Sums in eight strands, so that they become vectors; the order is fixed.
static double dot(const double *restrict a, const double *restrict b, size_t n)
{
    double sums[8] = {0}, sum = 0;
    size_t k = 0;
    for (; k + 8 <= n; k += 8)
        for (int i = 0; i < 8; i++)
            sums[i] += a[k + (size_t)i] * b[k + (size_t)i];
    for (; k < n; k++)
        sum += a[k] * b[k];
    for (int i = 0; i < 8; i++)
        sum += sums[i];
    return sum;
}

int sparse_factor(struct sparse *s, const double *diagonal, const double *beside)
{
    uint32_t n = 6 * s->n_images;
    memset(s->values, 0, s->row[n] * sizeof *s->values);
    for (uint32_t i = 0; i < s->n_images; i++)
        for (uint32_t r = 0; r < 6; r++) {
            uint32_t at = 6 * s->place[i] + r;
            for (uint32_t c = 0; c <= r; c++)
                s->values[s->row[at] + 6 * s->place[i] + c - s->first[at]] =
                    diagonal[36 * (size_t)i + 6 * r + c];
        }
    for (uint32_t k = 0; k < s->n_pairs; k++) {
        uint32_t a = s->place[s->pairs[k].i], b = s->place[s->pairs[k].j];
        const double *block = beside + 36 * (size_t)k;
        for (uint32_t r = 0; r < 6; r++)
            for (uint32_t c = 0; c < 6; c++) {
                uint32_t at = a > b ? 6 * a + r : 6 * b + r;
                uint32_t column = a > b ? 6 * b + c : 6 * a + c;
                s->values[s->row[at] + column - s->first[at]] =
                    a > b ? block[6 * r + c] : block[6 * c + r];
            }
    }
    for (uint32_t r = 0; r < n; r++) {
        double *row = s->values + s->row[r];
        for (uint32_t c = s->first[r]; c <= r; c++) {
            const double *other = s->values + s->row[c];
            uint32_t from = s->first[r] > s->first[c] ? s->first[r] : s->first[c];
            double sum = row[c - s->first[r]];
            if (from < c)
                sum -= dot(row + from - s->first[r], other + from - s->first[c], c - from);
            if (c < r)
                row[c - s->first[r]] = sum / other[c - s->first[c]];
            else if (sum > 0)
                row[c - s->first[r]] = sqrt(sum);
            else
                return -EDOM;
        }
    }
    return 0;
}

int sparse_solve(struct sparse *s, double *inout_b, uint32_t n_columns)
{
    uint32_t n = 6 * s->n_images;
    double *b = s->b;
    for (uint32_t column = 0; column < n_columns; column++) {
        double *x = inout_b + (size_t)column * n;
        for (uint32_t i = 0; i < s->n_images; i++)
            memcpy(b + 6 * (size_t)s->place[i], x + 6 * (size_t)i, 6 * sizeof *b);
        for (uint32_t r = 0; r < n; r++) {
            const double *row = s->values + s->row[r];
            uint32_t width = r - s->first[r];
            b[r] = (b[r] - dot(row, b + s->first[r], width)) / row[width];
        }
        for (uint32_t r = n; r-- > 0;) {
            const double *row = s->values + s->row[r];
            uint32_t width = r - s->first[r];
            b[r] /= row[width];
            for (uint32_t c = 0; c < width; c++)
                b[s->first[r] + c] -= row[c] * b[r];
        }
        for (uint32_t i = 0; i < s->n_images; i++)
            memcpy(x + 6 * (size_t)i, b + 6 * (size_t)s->place[i], 6 * sizeof *b);
    }
    return 0;
}

const char *sparse_name(void)
{
    return "envelope Cholesky (built without SuiteSparse)";
}

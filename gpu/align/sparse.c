// SPDX-License-Identifier: Apache-2.0
#include "gpu/align/sparse.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/parallel.h"

// A column of blocks of the factor: the diagonal's, then those below it.
struct sparse {
    uint32_t n_images, n_pairs;
    uint32_t *place;    // of an image in the order of elimination
    uint32_t *begin;    // n_images + 1: where a column's blocks below the diagonal begin,
    uint32_t *row;      // and the place of each one's row, ascending in a column
    uint32_t *target;   // of each pair: its block below the diagonal
    bool *is_turned;    // of each pair: its block stands there transposed
    double *diagonal;   // 36 a column: lower triangles
    double *below;      // 36 a block, row-major
    double *transposed; // 36 a block of one column
    double *b;          // 6 an image, in the order of elimination
};

// ---- order and pattern, once ----

// The graph while it is eliminated: a row of bits an image.
struct graph_bits {
    uint64_t *rows;
    size_t n_words;
    uint32_t *degree; // of those that are left
};

static uint64_t *bits_of(const struct graph_bits *g, uint32_t image)
{
    return g->rows + (size_t)image * g->n_words;
}

static void connect(struct graph_bits *g, uint32_t a, uint32_t b)
{
    bits_of(g, a)[b / 64] |= UINT64_C(1) << b % 64;
    bits_of(g, b)[a / 64] |= UINT64_C(1) << a % 64;
}

static uint32_t count_bits(const uint64_t *bits, size_t n_words)
{
    uint32_t n = 0;
    for (size_t w = 0; w < n_words; w++)
        n += (uint32_t)__builtin_popcountll(bits[w]);
    return n;
}

// The first bit that is set at `from` or beyond; n when there is none.
static uint32_t next_bit(const uint64_t *bits, uint32_t n, uint32_t from)
{
    while (from < n) {
        uint64_t left = bits[from / 64] >> from % 64;
        if (left)
            return from + (uint32_t)__builtin_ctzll(left);
        from = (from / 64 + 1) * 64;
    }
    return n;
}

// Takes an image out; what it was connected to becomes connected to each other.
static void eliminate(struct graph_bits *g, uint32_t n, uint32_t image)
{
    const uint64_t *gone = bits_of(g, image);
    for (uint32_t a = next_bit(gone, n, 0); a < n; a = next_bit(gone, n, a + 1)) {
        uint64_t *bits = bits_of(g, a);
        for (size_t w = 0; w < g->n_words; w++)
            bits[w] |= gone[w];
        bits[a / 64] &= ~(UINT64_C(1) << a % 64);
        bits[image / 64] &= ~(UINT64_C(1) << image % 64);
        g->degree[a] = count_bits(bits, g->n_words);
    }
}

// Least degree first, of equals the least image. What is left in an image's bits when it goes is
// the pattern of its column. Returns the number of blocks below the diagonal.
static size_t order_images(struct sparse *s, struct graph_bits *g)
{
    uint32_t n = s->n_images;
    size_t n_below = 0;
    for (uint32_t i = 0; i < n; i++) {
        s->place[i] = UINT32_MAX;
        g->degree[i] = count_bits(bits_of(g, i), g->n_words);
    }
    for (uint32_t at = 0; at < n; at++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t i = 0; i < n; i++)
            if (s->place[i] == UINT32_MAX && (best == UINT32_MAX || g->degree[i] < g->degree[best]))
                best = i;
        s->place[best] = at;
        n_below += g->degree[best];
        eliminate(g, n, best);
    }
    return n_below;
}

static int compare_places(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void fill_pattern(struct sparse *s, const struct graph_bits *g)
{
    uint32_t n = s->n_images;
    for (uint32_t i = 0; i < n; i++)
        s->begin[s->place[i] + 1] = g->degree[i];
    for (uint32_t c = 0; c < n; c++)
        s->begin[c + 1] += s->begin[c];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t *at = s->row + s->begin[s->place[i]], *to = at;
        const uint64_t *bits = bits_of(g, i);
        for (uint32_t k = next_bit(bits, n, 0); k < n; k = next_bit(bits, n, k + 1))
            *to++ = s->place[k];
        qsort(at, (size_t)(to - at), sizeof *at, compare_places);
    }
}

static void place_pairs(struct sparse *s, const struct align_pair *pairs)
{
    for (uint32_t k = 0; k < s->n_pairs; k++) {
        uint32_t i = s->place[pairs[k].i], j = s->place[pairs[k].j];
        uint32_t column = i < j ? i : j, row = i < j ? j : i, at = s->begin[column];
        while (s->row[at] != row)
            at++;
        s->target[k] = at;
        s->is_turned[k] = i < j;
    }
}

static int analyse(struct sparse *s, const struct align_pair *pairs)
{
    uint32_t n = s->n_images;
    struct graph_bits g = {.n_words = (n + 63) / 64, .degree = malloc(n * sizeof *g.degree)};
    g.rows = calloc(n * g.n_words, sizeof *g.rows);
    int rc = g.rows && g.degree ? 0 : -ENOMEM;
    if (rc == 0) {
        for (uint32_t k = 0; k < s->n_pairs; k++)
            connect(&g, pairs[k].i, pairs[k].j);
        size_t n_below = order_images(s, &g);
        s->row = malloc((n_below + 1) * sizeof *s->row);
        s->below = malloc((n_below + 1) * 36 * sizeof *s->below);
        rc = s->row && s->below ? 0 : -ENOMEM;
    }
    if (rc == 0) {
        fill_pattern(s, &g);
        place_pairs(s, pairs);
    }
    free(g.rows);
    free(g.degree);
    return rc;
}

int sparse_create(struct sparse **out, uint32_t n_images, const struct align_pair *pairs,
                  uint32_t n_pairs)
{
    struct sparse *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return -ENOMEM;
    size_t n = n_images;
    s->n_images = n_images;
    s->n_pairs = n_pairs;
    s->place = malloc((n + 1) * sizeof *s->place);
    s->begin = calloc(n + 1, sizeof *s->begin);
    s->target = malloc((n_pairs + (size_t)1) * sizeof *s->target);
    s->is_turned = malloc((n_pairs + (size_t)1) * sizeof *s->is_turned);
    s->diagonal = malloc((n + 1) * 36 * sizeof *s->diagonal);
    s->transposed = malloc((n + 1) * 36 * sizeof *s->transposed);
    s->b = malloc((n + 1) * 6 * sizeof *s->b);
    bool has_all =
        s->place && s->begin && s->target && s->is_turned && s->diagonal && s->transposed && s->b;
    int rc = has_all ? analyse(s, pairs) : -ENOMEM;
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
    free(s->place);
    free(s->begin);
    free(s->row);
    free(s->target);
    free(s->is_turned);
    free(s->diagonal);
    free(s->below);
    free(s->transposed);
    free(s->b);
    free(s);
    *sparse = NULL;
}

// ---- numbers ----

static void fill(struct sparse *s, const double *diagonal, const double *beside)
{
    memset(s->below, 0, 36 * sizeof *s->below * s->begin[s->n_images]);
    for (uint32_t i = 0; i < s->n_images; i++)
        memcpy(s->diagonal + 36 * (size_t)s->place[i], diagonal + 36 * (size_t)i,
               36 * sizeof *diagonal);
    for (uint32_t k = 0; k < s->n_pairs; k++) {
        double *to = s->below + 36 * (size_t)s->target[k];
        const double *from = beside + 36 * (size_t)k;
        for (uint32_t r = 0; r < 6; r++)
            for (uint32_t c = 0; c < 6; c++)
                to[6 * r + c] += s->is_turned[k] ? from[6 * c + r] : from[6 * r + c];
    }
}

// The lower triangle of a block becomes its factor's, whose diagonal holds reciprocals.
static inline bool factor_block(double a[36])
{
    for (int j = 0; j < 6; j++) {
        double pivot = a[7 * j];
        for (int k = 0; k < j; k++)
            pivot -= a[6 * j + k] * a[6 * j + k];
        if (!(pivot > 0) || !isfinite(pivot))
            return false;
        a[7 * j] = 1 / sqrt(pivot);
        for (int i = j + 1; i < 6; i++) {
            double sum = a[6 * i + j];
            for (int k = 0; k < j; k++)
                sum -= a[6 * i + k] * a[6 * j + k];
            a[6 * i + j] = sum * a[7 * j];
        }
    }
    return true;
}

// out[c] = column c of block L^-T: rows of the block are solved, six beside each other.
static inline void divide_block(const double l[36], double block[36], double out[36])
{
    for (int r = 0; r < 6; r++)
        for (int c = 0; c < 6; c++)
            out[6 * c + r] = block[6 * r + c];
    for (int c = 0; c < 6; c++) {
        for (int k = 0; k < c; k++)
            for (int r = 0; r < 6; r++)
                out[6 * c + r] -= l[6 * c + k] * out[6 * k + r];
        for (int r = 0; r < 6; r++)
            out[6 * c + r] *= l[7 * c];
    }
    for (int r = 0; r < 6; r++)
        for (int c = 0; c < 6; c++)
            block[6 * r + c] = out[6 * c + r];
}

// to -= a b^T, with b's transpose.
static inline void subtract(double *restrict to, const double *restrict a,
                            const double *restrict b_transposed)
{
    for (int r = 0; r < 6; r++)
        for (int k = 0; k < 6; k++)
            for (int c = 0; c < 6; c++)
                to[6 * r + c] -= a[6 * r + k] * b_transposed[6 * k + c];
}

// Column by column; what a column has below the diagonal is taken from those to its right at once.
// A column's rows below one of them are rows of that one's column, too.
CPU_CLONES static bool factor_columns(struct sparse *s)
{
    for (uint32_t column = 0; column < s->n_images; column++) {
        double *l = s->diagonal + 36 * (size_t)column;
        uint32_t begin = s->begin[column], end = s->begin[column + 1];
        if (!factor_block(l))
            return false;
        for (uint32_t k = begin; k < end; k++)
            divide_block(l, s->below + 36 * (size_t)k, s->transposed + 36 * (size_t)(k - begin));
        for (uint32_t k = begin; k < end; k++) {
            uint32_t right = s->row[k], at = s->begin[right];
            const double *b = s->transposed + 36 * (size_t)(k - begin);
            subtract(s->diagonal + 36 * (size_t)right, s->below + 36 * (size_t)k, b);
            for (uint32_t m = k + 1; m < end; m++, at++) {
                while (s->row[at] != s->row[m])
                    at++;
                subtract(s->below + 36 * (size_t)at, s->below + 36 * (size_t)m, b);
            }
        }
    }
    return true;
}

int sparse_factor(struct sparse *s, const double *diagonal, const double *beside)
{
    fill(s, diagonal, beside);
    return factor_columns(s) ? 0 : -EDOM;
}

static void solve_column(const struct sparse *s, double *b)
{
    for (uint32_t column = 0; column < s->n_images; column++) {
        const double *l = s->diagonal + 36 * (size_t)column;
        double *x = b + 6 * (size_t)column;
        for (int r = 0; r < 6; r++) {
            for (int c = 0; c < r; c++)
                x[r] -= l[6 * r + c] * x[c];
            x[r] *= l[7 * r];
        }
        for (uint32_t k = s->begin[column]; k < s->begin[column + 1]; k++) {
            const double *block = s->below + 36 * (size_t)k;
            double *to = b + 6 * (size_t)s->row[k];
            for (int r = 0; r < 6; r++)
                for (int c = 0; c < 6; c++)
                    to[r] -= block[6 * r + c] * x[c];
        }
    }
    for (uint32_t column = s->n_images; column-- > 0;) {
        const double *l = s->diagonal + 36 * (size_t)column;
        double *x = b + 6 * (size_t)column;
        for (uint32_t k = s->begin[column]; k < s->begin[column + 1]; k++) {
            const double *block = s->below + 36 * (size_t)k, *from = b + 6 * (size_t)s->row[k];
            for (int r = 0; r < 6; r++)
                for (int c = 0; c < 6; c++)
                    x[c] -= block[6 * r + c] * from[r];
        }
        for (int r = 6; r-- > 0;) {
            x[r] *= l[7 * r];
            for (int c = 0; c < r; c++)
                x[c] -= l[6 * r + c] * x[r];
        }
    }
}

void sparse_solve(struct sparse *s, double *inout_b, uint32_t n_columns)
{
    for (uint32_t k = 0; k < n_columns; k++) {
        double *x = inout_b + 6 * (size_t)s->n_images * k;
        for (uint32_t i = 0; i < s->n_images; i++)
            memcpy(s->b + 6 * (size_t)s->place[i], x + 6 * (size_t)i, 6 * sizeof *x);
        solve_column(s, s->b);
        for (uint32_t i = 0; i < s->n_images; i++)
            memcpy(x + 6 * (size_t)i, s->b + 6 * (size_t)s->place[i], 6 * sizeof *x);
    }
}

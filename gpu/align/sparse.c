// SPDX-License-Identifier: Apache-2.0
// The solve with CHOLMOD. Blocks go straight to their places in the compressed columns: nothing is
// sorted between iterations.
#include "gpu/align/sparse.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cholmod.h>

struct sparse {
    cholmod_common common;
    cholmod_sparse *a; // lower triangle
    cholmod_factor *factor;
    uint32_t n_images, n_pairs;
    uint32_t *at_beside;   // which of the blocks below the diagonal a pair is, in its column
    uint32_t *pair_column; // the image whose columns a pair's block stands in
};

// CHOLMOD prints nothing by itself.
static void silence(int status, const char *file, int line, const char *message)
{
    (void)status;
    (void)file;
    (void)line;
    (void)message;
}

// Column c of block column j: the rows c..5 of the diagonal block, then 6 rows of each pair (j, i)
// with i > j, in the order of the pairs.
static int build(struct sparse *s, const struct align_pair *pairs)
{
    uint32_t n = s->n_images;
    uint32_t *n_below = calloc(n, sizeof *n_below), *begin = malloc((n + 1) * sizeof *begin);
    uint32_t *order = malloc((s->n_pairs + 1) * sizeof *order);
    int rc = n_below && begin && order ? 0 : -ENOMEM;
    if (rc < 0)
        goto free_all;
    for (uint32_t k = 0; k < s->n_pairs; k++)
        n_below[pairs[k].i]++;
    begin[0] = 0;
    for (uint32_t i = 0; i < n; i++)
        begin[i + 1] = begin[i] + n_below[i];
    memset(n_below, 0, n * sizeof *n_below);
    for (uint32_t k = 0; k < s->n_pairs; k++) // pairs come sorted by (i, j)
        order[begin[pairs[k].i] + n_below[pairs[k].i]++] = k;
    s->a = cholmod_allocate_sparse(6 * n, 6 * n, (size_t)21 * n + (size_t)36 * s->n_pairs, 1, 1, -1,
                                   CHOLMOD_REAL, &s->common);
    if (!s->a) {
        rc = -ENOMEM;
        goto free_all;
    }
    int *columns = s->a->p, *rows = s->a->i, at = 0;
    for (uint32_t j = 0; j < n; j++)
        for (int c = 0; c < 6; c++) {
            columns[6 * j + (uint32_t)c] = at;
            for (int r = c; r < 6; r++)
                rows[at++] = (int)(6 * j) + r;
            for (uint32_t k = begin[j]; k < begin[j + 1]; k++)
                for (int r = 0; r < 6; r++)
                    rows[at++] = (int)(6 * pairs[order[k]].j) + r;
        }
    columns[6 * n] = at;
    for (uint32_t j = 0; j < n; j++)
        for (uint32_t k = begin[j]; k < begin[j + 1]; k++)
            s->at_beside[order[k]] = k - begin[j];
free_all:
    free(n_below);
    free(begin);
    free(order);
    return rc;
}

int sparse_create(struct sparse **out, uint32_t n_images, const struct align_pair *pairs,
                  uint32_t n_pairs)
{
    struct sparse *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return -ENOMEM;
    cholmod_start(&s->common);
    s->common.supernodal = CHOLMOD_SIMPLICIAL;
    s->common.final_ll = 1;
    s->common.print = 0;
    s->common.error_handler = silence;
    s->common.nmethods = 1; // AMD: the graphs are small and near planar
    s->common.method[0].ordering = CHOLMOD_AMD;
    s->n_images = n_images;
    s->n_pairs = n_pairs;
    s->at_beside = malloc((n_pairs + 1) * sizeof *s->at_beside);
    s->pair_column = malloc((n_pairs + 1) * sizeof *s->pair_column);
    int rc = s->at_beside && s->pair_column ? build(s, pairs) : -ENOMEM;
    for (uint32_t k = 0; rc == 0 && k < n_pairs; k++)
        s->pair_column[k] = pairs[k].i;
    if (rc == 0) {
        s->factor = cholmod_analyze(s->a, &s->common);
        rc = s->factor ? 0 : -ENOMEM;
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
    cholmod_free_factor(&s->factor, &s->common);
    cholmod_free_sparse(&s->a, &s->common);
    cholmod_finish(&s->common);
    free(s->at_beside);
    free(s->pair_column);
    free(s);
    *sparse = NULL;
}

int sparse_factor(struct sparse *s, const double *diagonal, const double *beside)
{
    const int *columns = s->a->p;
    double *values = s->a->x;
    for (uint32_t j = 0; j < s->n_images; j++)
        for (uint32_t c = 0; c < 6; c++)
            for (uint32_t r = c; r < 6; r++)
                values[(uint32_t)columns[6 * j + c] + r - c] = diagonal[36 * (size_t)j + 6 * r + c];
    // Below the diagonal stands the transpose of a pair's block.
    for (uint32_t k = 0; k < s->n_pairs; k++)
        for (uint32_t c = 0; c < 6; c++) {
            double *to = values + columns[6 * s->pair_column[k] + c] + 6 - c + 6 * s->at_beside[k];
            for (uint32_t r = 0; r < 6; r++)
                to[r] = beside[36 * (size_t)k + 6 * c + r];
        }
    if (!cholmod_factorize(s->a, s->factor, &s->common))
        return s->common.status == CHOLMOD_OUT_OF_MEMORY ? -ENOMEM : -EDOM;
    return s->factor->minor < s->factor->n ? -EDOM : 0;
}

int sparse_solve(struct sparse *s, double *inout_b, uint32_t n_columns)
{
    size_t n = 6 * (size_t)s->n_images;
    cholmod_dense b = {.nrow = n,
                       .ncol = n_columns,
                       .nzmax = n * n_columns,
                       .d = n,
                       .x = inout_b,
                       .xtype = CHOLMOD_REAL,
                       .dtype = CHOLMOD_DOUBLE};
    cholmod_dense *x = cholmod_solve(CHOLMOD_A, s->factor, &b, &s->common);
    if (!x)
        return -ENOMEM;
    memcpy(inout_b, x->x, n * n_columns * sizeof *inout_b);
    cholmod_free_dense(&x, &s->common);
    return 0;
}

const char *sparse_name(void)
{
    static char name[64];
    snprintf(name, sizeof name, "CHOLMOD %d.%d.%d, simplicial", CHOLMOD_MAIN_VERSION,
             CHOLMOD_SUB_VERSION, CHOLMOD_SUBSUB_VERSION);
    return name;
}

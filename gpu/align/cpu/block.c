// SPDX-License-Identifier: Apache-2.0
// A block of vertices in three loops over small arrays that stay in the first-level cache: project,
// fetch the cells (the only gather, 16 bytes each), weigh and sum. Compiled once per instruction
// set under the name ALIGN_BLOCK.
#include "gpu/align/cpu/block.h"

block_sum_fn ALIGN_BLOCK;

typedef float four __attribute__((vector_size(16)));

struct block {
    float q[3][BLOCK_VERTICES], n[3][BLOCK_VERTICES], precision[BLOCK_VERTICES];
    four plane[BLOCK_VERTICES];
    int32_t cell[BLOCK_VERTICES], inside[BLOCK_VERTICES];
    float j[6][BLOCK_VERTICES], w[BLOCK_VERTICES], r[BLOCK_VERTICES];
    float tukey[BLOCK_VERTICES], e[BLOCK_VERTICES], pair[BLOCK_VERTICES];
};

static void project(const struct align_image *source, const struct align_image *target,
                    const struct pair_pose *T_target_source, uint32_t first, uint32_t n,
                    struct block *restrict b)
{
    const float *restrict x = source->x_m + first, *restrict y = source->y_m + first;
    const float *restrict z = source->z_m + first, *restrict nx = source->nx + first;
    const float *restrict ny = source->ny + first, *restrict nz = source->nz + first;
    struct pair_pose T = *T_target_source;
    struct pair_noise noise = source->noise;
    const float *restrict m = target->projection;
    int32_t width = (int32_t)target->width, height = (int32_t)target->height;
#pragma omp simd
    for (uint32_t k = 0; k < n; k++) {
        struct pair_vec3 p = {x[k], y[k], z[k]}, normal = {nx[k], ny[k], nz[k]};
        struct pair_vec3 q = pair_transform(&T, p), rotated = pair_rotate(&T, normal);
        struct pair_cell cell = pair_project(m, width, height, q);
        b->q[0][k] = q.x;
        b->q[1][k] = q.y;
        b->q[2][k] = q.z;
        b->n[0][k] = rotated.x;
        b->n[1][k] = rotated.y;
        b->n[2][k] = rotated.z;
        b->precision[k] = pair_precision(noise, z[k]);
        b->cell[k] = cell.v * width + cell.u;
        b->inside[k] = cell.inside;
    }
}

// 16 bytes at once: four gathers of one value each take longer than all the rest.
static void fetch(const struct align_image *target, uint32_t n, struct block *restrict b)
{
    const four *restrict planes = (const four *)(const void *)target->planes;
    for (uint32_t k = 0; k < n; k++)
        b->plane[k] = planes[b->cell[k]];
}

static void weigh(const struct pair_gates *with, uint32_t n, struct block *restrict b)
{
    struct pair_gates gates = *with;
    const float *restrict plane = (const float *)b->plane;
#pragma omp simd
    for (uint32_t k = 0; k < n; k++) {
        struct pair_vec3 q = {b->q[0][k], b->q[1][k], b->q[2][k]};
        struct pair_vec3 normal = {b->n[0][k], b->n[1][k], b->n[2][k]};
        struct pair_plane seen = {plane[4 * k], plane[4 * k + 1], plane[4 * k + 2],
                                  plane[4 * k + 3]};
        struct pair_row row =
            pair_residual(&gates, b->inside[k] != 0, q, normal, b->precision[k], seen);
        for (int i = 0; i < 6; i++)
            b->j[i][k] = row.j[i];
        b->w[k] = row.w;
        b->r[k] = row.r_m;
        b->tukey[k] = row.tukey;
        b->e[k] = row.e;
        b->pair[k] = row.n;
    }
}

// Sums of products with a row of J; four at once keep the loads of a and of J shared.
static inline __attribute__((always_inline)) void
sum_row(const float *restrict wj, const struct block *b, int i, uint32_t n, double *restrict sums)
{
    static const int start[6] = {0, 6, 11, 15, 18, 20};
    float h[6] = {0}, g = 0;
    float h0 = 0, h1 = 0, h2 = 0, h3 = 0, h4 = 0, h5 = 0;
    const float *restrict j0 = b->j[0], *restrict j1 = b->j[1], *restrict j2 = b->j[2];
    const float *restrict j3 = b->j[3], *restrict j4 = b->j[4], *restrict j5 = b->j[5];
    const float *restrict r = b->r;
#pragma omp simd reduction(+ : h0, h1, h2, h3, h4, h5, g)
    for (uint32_t k = 0; k < n; k++) {
        float a = wj[k];
        if (i <= 0)
            h0 += a * j0[k];
        if (i <= 1)
            h1 += a * j1[k];
        if (i <= 2)
            h2 += a * j2[k];
        if (i <= 3)
            h3 += a * j3[k];
        if (i <= 4)
            h4 += a * j4[k];
        h5 += a * j5[k];
        g += a * r[k];
    }
    h[0] = h0, h[1] = h1, h[2] = h2, h[3] = h3, h[4] = h4, h[5] = h5;
    for (int c = i; c < 6; c++)
        sums[PAIR_SUM_H + start[i] + c - i] += (double)h[c];
    sums[PAIR_SUM_G + i] += (double)g;
}

static void sum_scalars(const struct block *b, uint32_t n, double *restrict sums)
{
    float wee = 0, tw = 0, abs = 0, pairs = 0, rr = 0;
#pragma omp simd reduction(+ : wee, tw, abs, pairs, rr)
    for (uint32_t k = 0; k < n; k++) {
        float t = b->tukey[k], e = b->e[k], r = b->r[k];
        wee += t * e * e;
        tw += t;
        abs += t * kernel_abs(e);
        pairs += b->pair[k];
        rr += t * r * r;
    }
    sums[PAIR_SUM_WEE] += (double)wee;
    sums[PAIR_SUM_TW] += (double)tw;
    sums[PAIR_SUM_ABS] += (double)abs;
    sums[PAIR_SUM_N] += (double)pairs;
    sums[PAIR_SUM_RR] += (double)rr;
}

void ALIGN_BLOCK(const struct align_image *source, const struct align_image *target,
                 const struct pair_pose *T_target_source, const struct pair_gates *gates,
                 uint32_t first, uint32_t n, double *inout_sums)
{
    struct block b __attribute__((aligned(64)));
    float wj[BLOCK_VERTICES] __attribute__((aligned(64)));
    project(source, target, T_target_source, first, n, &b);
    uint32_t any = 0;
    for (uint32_t k = 0; k < n; k++)
        any |= (uint32_t)b.inside[k];
    if (!any)
        return;
    fetch(target, n, &b);
    weigh(gates, n, &b);
#define ROW(i)                                                                       \
    _Pragma("omp simd") for (uint32_t k = 0; k < n; k++) wj[k] = b.w[k] * b.j[i][k]; \
    sum_row(wj, &b, i, n, inout_sums)
    ROW(0);
    ROW(1);
    ROW(2);
    ROW(3);
    ROW(4);
    ROW(5);
#undef ROW
    sum_scalars(&b, n, inout_sums);
}

// SPDX-License-Identifier: Apache-2.0
// A block of vertices in three loops over small arrays that stay in the first-level cache: project,
// fetch the cells (the only gather, 16 bytes each), weigh and sum. Compiled once per instruction
// set under the name ALIGN_BLOCK; sums go lane by lane, so that the set does not show in them.
#include "gpu/align/cpu/block.h"

#include "gpu/base/lanes.h"

block_sum_fn ALIGN_BLOCK;

typedef float four __attribute__((vector_size(16)));

struct block {
    float q[3][BLOCK_VERTICES], n[3][BLOCK_VERTICES], precision[BLOCK_VERTICES];
    four plane[BLOCK_VERTICES];
    int32_t cell[BLOCK_VERTICES], inside[BLOCK_VERTICES];
    float j[6][BLOCK_VERTICES], w[BLOCK_VERTICES], r[BLOCK_VERTICES];
    float tukey[BLOCK_VERTICES], pair[BLOCK_VERTICES];
    float e[BLOCK_VERTICES]; // without sign
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
        b->e[k] = kernel_abs(row.e);
        b->pair[k] = row.n;
    }
}

// Behind the last vertex up to a whole number of lanes: nothing, which adds nothing.
static void fill_up(uint32_t n, struct block *b)
{
    for (uint32_t k = n; k % LANES; k++) {
        for (int i = 0; i < 6; i++)
            b->j[i][k] = 0;
        b->w[k] = b->r[k] = b->tukey[k] = b->e[k] = b->pair[k] = 0;
    }
}

// Sums of products with row i of J, weighted: wj. `i` is constant at each call.
static inline __attribute__((always_inline)) void
sum_row(const float *restrict wj, const struct block *b, int i, uint32_t n, double *restrict sums)
{
    static const int start[6] = {0, 6, 11, 15, 18, 20};
    _Alignas(64) float lanes[7][LANES];
    for (int part = 0; part < LANES; part += LANES_PART) {
        lanes_part h0 = {0}, h1 = {0}, h2 = {0}, h3 = {0}, h4 = {0}, h5 = {0}, g = {0};
        for (uint32_t k = (uint32_t)part; k < n; k += LANES) {
            lanes_part a = lanes_load(wj + k);
            h0 = i <= 0 ? lanes_fma(a, lanes_load(b->j[0] + k), h0) : h0;
            h1 = i <= 1 ? lanes_fma(a, lanes_load(b->j[1] + k), h1) : h1;
            h2 = i <= 2 ? lanes_fma(a, lanes_load(b->j[2] + k), h2) : h2;
            h3 = i <= 3 ? lanes_fma(a, lanes_load(b->j[3] + k), h3) : h3;
            h4 = i <= 4 ? lanes_fma(a, lanes_load(b->j[4] + k), h4) : h4;
            h5 = lanes_fma(a, lanes_load(b->j[5] + k), h5);
            g = lanes_fma(a, lanes_load(b->r + k), g);
        }
        const lanes_part all[7] = {h0, h1, h2, h3, h4, h5, g};
        for (int c = i; c < 7; c++)
            lanes_store(lanes[c] + part, all[c]);
    }
    for (int c = i; c < 6; c++)
        sums[PAIR_SUM_H + start[i] + c - i] += (double)lanes_sum(lanes[c]);
    sums[PAIR_SUM_G + i] += (double)lanes_sum(lanes[6]);
}

static void sum_scalars(const struct block *b, uint32_t n, double *restrict sums)
{
    static const enum pair_sum which[5] = {PAIR_SUM_WEE, PAIR_SUM_TW, PAIR_SUM_ABS, PAIR_SUM_N,
                                           PAIR_SUM_RR};
    _Alignas(64) float lanes[5][LANES];
    for (int part = 0; part < LANES; part += LANES_PART) {
        lanes_part wee = {0}, tw = {0}, abs = {0}, pairs = {0}, rr = {0};
        for (uint32_t k = (uint32_t)part; k < n; k += LANES) {
            lanes_part t = lanes_load(b->tukey + k), e = lanes_load(b->e + k);
            lanes_part r = lanes_load(b->r + k);
            wee = lanes_fma(t * e, e, wee);
            tw += t;
            abs = lanes_fma(t, e, abs);
            pairs += lanes_load(b->pair + k);
            rr = lanes_fma(t * r, r, rr);
        }
        const lanes_part all[5] = {wee, tw, abs, pairs, rr};
        for (int c = 0; c < 5; c++)
            lanes_store(lanes[c] + part, all[c]);
    }
    for (int c = 0; c < 5; c++)
        sums[which[c]] += (double)lanes_sum(lanes[c]);
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
    fill_up(n, &b);
    n = (n + LANES - 1) / LANES * LANES;
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

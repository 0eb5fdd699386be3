// SPDX-License-Identifier: Apache-2.0
// Compiled once per instruction set with ROWS_TABLE (the symbol) and ROWS_NAME defined; see
// CMakeLists.txt. Loops are plain and branch-free so that the compiler vectorises them; sums go
// lane by lane (gpu/base/lanes.h), so that neither the instruction set nor the number of threads
// shows in them.
#include "gpu/track/cpu/rows.h"

#include <string.h>

#include "gpu/base/raw_depth.h"

static void row_depth(const uint16_t *raw, uint32_t width_px, float m_per_unit, float depth_min_m,
                      float depth_max_m, float *out_z_m)
{
#pragma omp simd
    for (uint32_t x = 0; x < width_px; x++)
        out_z_m[x] = raw_depth_m(raw[x], m_per_unit, depth_min_m, depth_max_m);
}

static void row_correct(const float *restrict field_per_m, uint32_t width_px, float *restrict z_m)
{
#pragma omp simd
    for (uint32_t x = 0; x < width_px; x++)
        z_m[x] = raw_depth_corrected_m(z_m[x], field_per_m[x]);
}

// The window's rows outside, the taps of a row unrolled inside: the two running sums of a pixel
// are loaded and stored once per window row instead of once per tap.
static inline __attribute__((always_inline)) void
bilateral_radius(const struct bilateral_window *window, const struct padded_image *depth,
                 uint32_t width_px, int32_t y, float *out_z_m, int32_t radius_px)
{
    float factor[ROWS_MAX_WIDTH_PX], sum_w[ROWS_MAX_WIDTH_PX], sum_wd[ROWS_MAX_WIDTH_PX];
    const float *restrict centre = padded_row(depth, y);
#pragma omp simd
    for (uint32_t x = 0; x < width_px; x++) {
        factor[x] = bilateral_range_factor(centre[x], window->cut_sigmas);
        sum_w[x] = 0;
        sum_wd[x] = 0;
    }
    for (int32_t dy = -radius_px; dy <= radius_px; dy++) {
        const float *restrict row = padded_row(depth, y + dy);
        // cppcheck-suppress negativeIndex; dy begins at -radius_px
        const float *spatial = window->spatial[dy + radius_px];
#pragma omp simd
        for (uint32_t x = 0; x < width_px; x++) {
            float w = sum_w[x], wd = sum_wd[x];
#pragma GCC unroll 13
            for (int32_t dx = -radius_px; dx <= radius_px; dx++)
                bilateral_tap(centre[x], row[(int32_t)x + dx], spatial[dx + radius_px],
                              spatial[dx + radius_px] * factor[x], &w, &wd);
            sum_w[x] = w;
            sum_wd[x] = wd;
        }
    }
#pragma omp simd
    for (uint32_t x = 0; x < width_px; x++)
        out_z_m[x] = bilateral_result(centre[x], sum_w[x], sum_wd[x]);
}

static void row_bilateral(const struct bilateral_window *window, const struct padded_image *depth,
                          uint32_t width_px, int32_t y, float *out_z_m)
{
    switch (window->radius_px) {
    case 0:
        memcpy(out_z_m, padded_row(depth, y), width_px * sizeof *out_z_m);
        break;
    case 1:
        bilateral_radius(window, depth, width_px, y, out_z_m, 1);
        break;
    case 2:
        bilateral_radius(window, depth, width_px, y, out_z_m, 2);
        break;
    case 3:
        bilateral_radius(window, depth, width_px, y, out_z_m, 3);
        break;
    case 4:
        bilateral_radius(window, depth, width_px, y, out_z_m, 4);
        break;
    case 5:
        bilateral_radius(window, depth, width_px, y, out_z_m, 5);
        break;
    default:
        bilateral_radius(window, depth, width_px, y, out_z_m, 6);
        break;
    }
}

// `step` constant at each call: level 0, where nearly all pixels are, becomes unit stride.
static inline __attribute__((always_inline)) void maps_step(const struct level_camera *camera,
                                                            const struct padded_image *z, int32_t y,
                                                            struct map_px *restrict out,
                                                            int32_t step)
{
    const float *restrict row = padded_row(z, y * step);
    const float *restrict above = padded_row(z, y > 0 ? (y - 1) * step : -1);
    const float *restrict below = padded_row(z, y + 1 < camera->height_px ? (y + 1) * step : -1);
    struct level_camera c = *camera;
    int32_t last = c.width_px - 1;
    // The zeros before the row are the first pixel's missing neighbour; behind the last pixel of a
    // coarse level there may be image, so it has none by decree.
#pragma omp simd
    for (int32_t x = 0; x < last; x++)
        out[x] = maps_pixel(&c, (float)x, (float)y, row[x * step], row[(x - 1) * step],
                            row[(x + 1) * step], above[x * step], below[x * step]);
    out[last] = maps_pixel(&c, (float)last, (float)y, row[last * step], row[(last - 1) * step],
                           0.0f, above[last * step], below[last * step]);
}

static void row_maps(const struct level_camera *camera, const struct padded_image *z,
                     uint32_t level, int32_t y, struct map_px *out)
{
    if (level == 0)
        maps_step(camera, z, y, out, 1);
    else
        maps_step(camera, z, y, out, 1 << level);
}

// The numbers of LANES_PART pixels, each to an array of its own, from place `at` on.
static inline __attribute__((always_inline)) void
map_arrays(const struct map_px *const px[], int at, float *nx, float *ny, float *nz, float *z_m)
{
    const float *record[LANES_PART];
    lanes_part number[4];
    for (int l = 0; l < LANES_PART; l++)
        record[l] = &px[l]->nx;
    lanes_transpose4(record, number);
    lanes_store(nx + at, number[0]);
    lanes_store(ny + at, number[1]);
    lanes_store(nz + at, number[2]);
    lanes_store(z_m + at, number[3]);
}

// A piece of a row of maps, each number in an array of its own.
#define SOURCE_BLOCK_PX 256

struct source_block {
    float number[ICP_N_NUMBERS][SOURCE_BLOCK_PX];
    uint8_t valid[SOURCE_BLOCK_PX];
};

static void source_expand(const struct level_camera *camera, const struct map_px *px, int32_t x0,
                          int32_t n_px, struct source_block *b)
{
    struct level_camera c = *camera;
    float(*to)[SOURCE_BLOCK_PX] = b->number;
    int32_t x = 0;
    for (; x + LANES_PART <= n_px; x += LANES_PART) {
        const struct map_px *part[LANES_PART];
        for (int l = 0; l < LANES_PART; l++)
            part[l] = px + x0 + x + l;
        map_arrays(part, x, to[ICP_NX], to[ICP_NY], to[ICP_NZ], to[ICP_Z_M]);
    }
    for (; x < n_px; x++) {
        to[ICP_NX][x] = px[x0 + x].nx;
        to[ICP_NY][x] = px[x0 + x].ny;
        to[ICP_NZ][x] = px[x0 + x].nz;
        to[ICP_Z_M][x] = px[x0 + x].z_m;
    }
#pragma omp simd
    for (x = 0; x < n_px; x++) {
        to[ICP_X_M][x] = camera_ray_x(&c, (float)(x0 + x)) * to[ICP_Z_M][x];
        to[ICP_PRECISION][x] = icp_precision(to[ICP_Z_M][x]);
        b->valid[x] = (to[ICP_NX][x] != 0.0f) | (to[ICP_NY][x] != 0.0f) | (to[ICP_NZ][x] != 0.0f);
    }
}

// The block's valid pixels, which come in long runs, to places n, n + 1, ... Returns the next n.
static uint32_t source_keep(const struct source_block *b, int32_t n_px, float *const to[],
                            uint32_t n)
{
    const uint8_t *end = b->valid + n_px, *run = b->valid;
    while (run < end && (run = memchr(run, 1, (size_t)(end - run)))) {
        const uint8_t *gap = memchr(run, 0, (size_t)(end - run));
        size_t n_run = (size_t)((gap ? gap : end) - run);
        for (int i = 0; i < ICP_N_NUMBERS; i++)
            memcpy(to[i] + n, b->number[i] + (run - b->valid), n_run * sizeof *to[i]);
        n += (uint32_t)n_run;
        run += n_run;
    }
    return n;
}

static void row_source(const struct level_camera *camera, const struct map_px *px, int32_t y,
                       struct icp_source *out)
{
    _Alignas(64) struct source_block block;
    float *to[ICP_N_NUMBERS];
    for (int i = 0; i < ICP_N_NUMBERS; i++)
        to[i] = icp_source_row(out, y, (enum icp_number)i);
    uint32_t n = 0;
    for (int32_t x0 = 0; x0 < camera->width_px; x0 += SOURCE_BLOCK_PX) {
        int32_t left = camera->width_px - x0;
        int32_t n_px = left < SOURCE_BLOCK_PX ? left : SOURCE_BLOCK_PX;
        source_expand(camera, px, x0, n_px, &block);
        n = source_keep(&block, n_px, to, n);
    }
    out->n_px[y] = n;
    for (; n % LANES; n++)
        for (int i = 0; i < ICP_N_NUMBERS; i++)
            to[i][n] = 0;
}

// A piece of a row as structure of arrays: small enough for the first-level cache (14 KB), a
// multiple of the lanes, plain vector loops for the compiler.
#define ICP_BLOCK_PX 128

struct icp_block {
    float q[3][ICP_BLOCK_PX];
    float n[3][ICP_BLOCK_PX];
    float u_px[ICP_BLOCK_PX], v_px[ICP_BLOCK_PX];
    int32_t index[ICP_BLOCK_PX];   // of the pixel it fell on, 0 if on none
    int32_t inside[ICP_BLOCK_PX];  // it fell on a pixel
    float target[4][ICP_BLOCK_PX]; // what stands there, as struct map_px
    float j[6][ICP_BLOCK_PX];
    float r_m[ICP_BLOCK_PX], w[ICP_BLOCK_PX], abs_m[ICP_BLOCK_PX], pair[ICP_BLOCK_PX];
};

// Row y's source pixels from x0 on into the reference's frame, and the pixel each falls on.
static void icp_associate(const struct icp_problem *problem, int32_t y, int32_t x0, int32_t n_px,
                          struct icp_block *b)
{
    struct level_camera camera = problem->camera;
    struct icp_pose pose = problem->pose;
    float ray_y = camera_ray_y(&camera, (float)y);
    const float *restrict x_m = icp_source_row(problem->source, y, ICP_X_M) + x0;
    const float *restrict z_m = icp_source_row(problem->source, y, ICP_Z_M) + x0;
    const float *restrict nx = icp_source_row(problem->source, y, ICP_NX) + x0;
    const float *restrict ny = icp_source_row(problem->source, y, ICP_NY) + x0;
    const float *restrict nz = icp_source_row(problem->source, y, ICP_NZ) + x0;
#pragma omp simd
    for (int32_t x = 0; x < n_px; x++) {
        struct icp_vec3 vertex = {x_m[x], ray_y * z_m[x], z_m[x]}, normal = {nx[x], ny[x], nz[x]};
        struct icp_vec3 q = icp_transform(&pose, vertex), n = icp_rotate(&pose, normal);
        struct icp_px px = icp_project(&camera, q);
        b->q[0][x] = q.x;
        b->q[1][x] = q.y;
        b->q[2][x] = q.z;
        b->n[0][x] = n.x;
        b->n[1][x] = n.y;
        b->n[2][x] = n.z;
        b->u_px[x] = (float)px.u;
        b->v_px[x] = (float)px.v;
        b->index[x] = px.v * camera.width_px + px.u;
        b->inside[x] = px.inside ? 1 : 0;
    }
}

// The only random access of the iteration: 16 bytes a pixel. Without a branch for those that fell
// on none: the processor then keeps more of these loads in flight. The source's next row falls near
// the next row here, which is therefore asked for.
static void icp_gather(const struct icp_problem *problem, int32_t n_px, struct icp_block *b)
{
    const struct map_px *target = problem->target;
    const struct map_px *below = target + problem->camera.width_px;
    for (int32_t x = 0; x < n_px; x += LANES_PART) {
        const struct map_px *part[LANES_PART];
        for (int l = 0; l < LANES_PART; l++)
            part[l] = target + b->index[x + l];
        map_arrays(part, x, b->target[0], b->target[1], b->target[2], b->target[3]);
        for (int l = 0; l < LANES_PART; l += 4) // 4 pixels fill a cache line
            __builtin_prefetch(below + b->index[x + l], 0, 1);
    }
}

static void icp_pairs(const struct icp_problem *problem, int32_t y, int32_t x0, int32_t n_px,
                      struct icp_block *b)
{
    struct level_camera camera = problem->camera;
    struct icp_gates gates = problem->gates;
    const float *restrict precision = icp_source_row(problem->source, y, ICP_PRECISION) + x0;
#pragma omp simd
    for (int32_t x = 0; x < n_px; x++) {
        struct icp_vec3 q = {b->q[0][x], b->q[1][x], b->q[2][x]};
        struct icp_vec3 n = {b->n[0][x], b->n[1][x], b->n[2][x]};
        struct map_px target = {b->target[0][x], b->target[1][x], b->target[2][x], b->target[3][x]};
        struct icp_row row = icp_pair(&camera, &gates, b->inside[x] != 0, q, n, precision[x],
                                      b->u_px[x], b->v_px[x], target);
        b->j[0][x] = row.j[0];
        b->j[1][x] = row.j[1];
        b->j[2][x] = row.j[2];
        b->j[3][x] = row.j[3];
        b->j[4][x] = row.j[4];
        b->j[5][x] = row.j[5];
        b->r_m[x] = row.r_m;
        b->w[x] = row.w;
        b->abs_m[x] = row.abs_m;
        b->pair[x] = row.pair;
    }
}

// Rows i and i + 1 of the upper triangle and of the gradient: sums of w j_i (j_i ... j_5, r) and of
// w j_i+1 (j_i+1 ... j_5, r). Two at once, because they read the same numbers and fill the
// registers of AVX2. `i` is constant at each call, so only the products of these rows remain.
static inline __attribute__((always_inline)) void
icp_products(const struct icp_block *b, int32_t n_px, int i, float (*h)[LANES], float (*g)[LANES])
{
    float(*h2)[LANES] = h + 6 - i; // the next row
    const int n = 6 - i;
    for (int part = 0; part < LANES; part += LANES_PART) {
        lanes_part a0 = lanes_load(h[0] + part), a1 = lanes_load(h[1] + part), a2 = {0}, a3 = {0},
                   a4 = {0}, a5 = {0}, ar = lanes_load(g[i] + part);
        lanes_part b1 = lanes_load(h2[0] + part), b2 = {0}, b3 = {0}, b4 = {0}, b5 = {0},
                   br = lanes_load(g[i + 1] + part);
        a2 = n > 2 ? lanes_load(h[2] + part) : a2;
        b2 = n > 2 ? lanes_load(h2[1] + part) : b2;
        a3 = n > 2 ? lanes_load(h[3] + part) : a3;
        b3 = n > 2 ? lanes_load(h2[2] + part) : b3;
        a4 = n > 4 ? lanes_load(h[4] + part) : a4;
        b4 = n > 4 ? lanes_load(h2[3] + part) : b4;
        a5 = n > 4 ? lanes_load(h[5] + part) : a5;
        b5 = n > 4 ? lanes_load(h2[4] + part) : b5;
        for (int32_t x = part; x < n_px; x += LANES) {
            lanes_part w = lanes_load(b->w + x), next = lanes_load(b->j[i + 1] + x);
            lanes_part first = lanes_load(b->j[i] + x), v = w * first, u = w * next;
            a0 = lanes_fma(v, first, a0);
            a1 = lanes_fma(v, next, a1);
            b1 = lanes_fma(u, next, b1);
            if (n > 2) {
                next = lanes_load(b->j[i + 2 < 6 ? i + 2 : 5] + x);
                a2 = lanes_fma(v, next, a2);
                b2 = lanes_fma(u, next, b2);
                next = lanes_load(b->j[i + 3 < 6 ? i + 3 : 5] + x);
                a3 = lanes_fma(v, next, a3);
                b3 = lanes_fma(u, next, b3);
            }
            if (n > 4) {
                next = lanes_load(b->j[4] + x);
                a4 = lanes_fma(v, next, a4);
                b4 = lanes_fma(u, next, b4);
                next = lanes_load(b->j[5] + x);
                a5 = lanes_fma(v, next, a5);
                b5 = lanes_fma(u, next, b5);
            }
            next = lanes_load(b->r_m + x);
            ar = lanes_fma(v, next, ar);
            br = lanes_fma(u, next, br);
        }
        lanes_store(h[0] + part, a0);
        lanes_store(h[1] + part, a1);
        lanes_store(h2[0] + part, b1);
        lanes_store(g[i] + part, ar);
        lanes_store(g[i + 1] + part, br);
        if (n > 2) {
            lanes_store(h[2] + part, a2);
            lanes_store(h[3] + part, a3);
            lanes_store(h2[1] + part, b2);
            lanes_store(h2[2] + part, b3);
        }
        if (n > 4) {
            lanes_store(h[4] + part, a4);
            lanes_store(h[5] + part, a5);
            lanes_store(h2[3] + part, b4);
            lanes_store(h2[4] + part, b5);
        }
    }
}

static void icp_normal_equations(const struct icp_block *b, int32_t n_px, float (*sums)[LANES])
{
    float(*h)[LANES] = sums + ICP_SUM_H, (*g)[LANES] = sums + ICP_SUM_G;
    icp_products(b, n_px, 0, h + 0, g);
    icp_products(b, n_px, 2, h + 11, g);
    icp_products(b, n_px, 4, h + 18, g);
}

static void icp_scalars(const struct icp_block *b, int32_t n_px, float (*sums)[LANES])
{
    for (int part = 0; part < LANES; part += LANES_PART) {
        lanes_part wrr = lanes_load(sums[ICP_SUM_WRR] + part);
        lanes_part w = lanes_load(sums[ICP_SUM_W] + part);
        lanes_part abs_m = lanes_load(sums[ICP_SUM_ABS] + part);
        lanes_part pairs = lanes_load(sums[ICP_SUM_PAIRS] + part);
        for (int32_t x = part; x < n_px; x += LANES) {
            lanes_part r = lanes_load(b->r_m + x), weight = lanes_load(b->w + x);
            wrr = lanes_fma(weight * r, r, wrr);
            w += weight;
            abs_m += lanes_load(b->abs_m + x);
            pairs += lanes_load(b->pair + x);
        }
        lanes_store(sums[ICP_SUM_WRR] + part, wrr);
        lanes_store(sums[ICP_SUM_W] + part, w);
        lanes_store(sums[ICP_SUM_ABS] + part, abs_m);
        lanes_store(sums[ICP_SUM_PAIRS] + part, pairs);
    }
}

// For the information pass: the block's rows become half the sum (0.5) of the two normals' rows
// and then half their difference (-0.5), whose products count negative.
static void icp_halves(int32_t n_px, float half, struct icp_block *b)
{
#pragma omp simd
    for (int32_t x = 0; x < n_px; x++) {
        struct icp_vec3 q = {b->q[0][x], b->q[1][x], b->q[2][x]};
        struct icp_vec3 n = {b->n[0][x], b->n[1][x], b->n[2][x]};
        struct icp_vec3 t = {b->target[0][x], b->target[1][x], b->target[2][x]};
        struct icp_half row = icp_half_row(q, n, t, half);
        b->j[0][x] = row.j[0];
        b->j[1][x] = row.j[1];
        b->j[2][x] = row.j[2];
        b->j[3][x] = row.j[3];
        b->j[4][x] = row.j[4];
        b->j[5][x] = row.j[5];
    }
}

static void icp_negate_weights(int32_t n_px, struct icp_block *b)
{
#pragma omp simd
    for (int32_t x = 0; x < n_px; x++)
        b->w[x] = -b->w[x];
}

static void icp_information(struct icp_block *b, int32_t n_px, float (*sums)[LANES])
{
    icp_halves(n_px, 0.5f, b);
    icp_normal_equations(b, n_px, sums);
    icp_halves(n_px, -0.5f, b);
    icp_negate_weights(n_px, b);
    icp_normal_equations(b, n_px, sums);
}

static void row_icp(const struct icp_problem *problem, int32_t y, float (*sums)[LANES])
{
    _Alignas(64) struct icp_block block;
    struct icp_block *b = &block;
    uint32_t n_valid = problem->source->n_px[y];
    int32_t n_row = (int32_t)((n_valid + LANES - 1) / LANES * LANES);
    for (int32_t x0 = 0; x0 < n_row; x0 += ICP_BLOCK_PX) {
        int32_t n_px = n_row - x0 < ICP_BLOCK_PX ? n_row - x0 : ICP_BLOCK_PX;
        icp_associate(problem, y, x0, n_px, b);
        icp_gather(problem, n_px, b);
        icp_pairs(problem, y, x0, n_px, b);
        icp_scalars(b, n_px, sums);
        if (problem->information)
            icp_information(b, n_px, sums);
        else
            icp_normal_equations(b, n_px, sums);
    }
    sums[ICP_SUM_VALID][0] += (float)n_valid;
}

const struct rows ROWS_TABLE = {
    .name = ROWS_NAME,
    .depth = row_depth,
    .correct = row_correct,
    .bilateral = row_bilateral,
    .maps = row_maps,
    .source = row_source,
    .icp = row_icp,
};

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

// A piece of a row as structure of arrays: small enough for the first-level cache (20 KB), a
// divisor of the usual widths, plain vector loops for the compiler.
#define ICP_BLOCK_PX 160

struct icp_block {
    float q[3][ICP_BLOCK_PX];
    float n[3][ICP_BLOCK_PX];
    float precision[ICP_BLOCK_PX];
    float u_px[ICP_BLOCK_PX], v_px[ICP_BLOCK_PX];
    int32_t index[ICP_BLOCK_PX];     // of the pixel it fell on, 0 if on none
    int32_t candidate[ICP_BLOCK_PX]; // it has a normal and fell on a pixel
    struct map_px target[ICP_BLOCK_PX];
    float j[6][ICP_BLOCK_PX], wj[6][ICP_BLOCK_PX];
    float r_m[ICP_BLOCK_PX], w[ICP_BLOCK_PX], abs_m[ICP_BLOCK_PX], pair[ICP_BLOCK_PX];
    float valid[ICP_BLOCK_PX];
};

// Source pixels x0 .. x0 + n_px into the reference's frame, and the pixel each falls on.
static void icp_associate(const struct icp_problem *problem, int32_t x0, int32_t y, int32_t n_px,
                          struct icp_block *b)
{
    struct level_camera camera = problem->camera;
    struct icp_pose pose = problem->pose;
    const struct map_px *restrict source =
        problem->source + (size_t)y * (size_t)camera.width_px + (size_t)x0;
    float ray_y = camera_ray_y(&camera, (float)y);
#pragma omp simd
    for (int32_t x = 0; x < n_px; x++) {
        struct map_px p = source[x];
        float ray_x = camera_ray_x(&camera, (float)(x0 + x));
        struct icp_vec3 vertex = {ray_x * p.z_m, ray_y * p.z_m, p.z_m}, normal = {p.nx, p.ny, p.nz};
        struct icp_vec3 q = icp_transform(&pose, vertex), n = icp_rotate(&pose, normal);
        struct icp_px px = icp_project(&camera, q);
        bool valid = (p.nx != 0.0f) | (p.ny != 0.0f) | (p.nz != 0.0f);
        b->q[0][x] = q.x;
        b->q[1][x] = q.y;
        b->q[2][x] = q.z;
        b->n[0][x] = n.x;
        b->n[1][x] = n.y;
        b->n[2][x] = n.z;
        b->precision[x] = icp_precision(p.z_m);
        b->u_px[x] = (float)px.u;
        b->v_px[x] = (float)px.v;
        b->index[x] = px.v * camera.width_px + px.u;
        b->candidate[x] = (valid & px.inside) ? 1 : 0;
        b->valid[x] = valid ? 1.0f : 0.0f;
    }
}

// The only random access of the iteration: 16 bytes a pixel. Without a branch for those that fell
// on none: the processor then keeps more of these loads in flight (align: 10 % less).
static void icp_gather(const struct map_px *restrict target, int32_t n_px, struct icp_block *b)
{
    for (int32_t x = 0; x < n_px; x++)
        b->target[x] = target[b->index[x]];
}

static void icp_pairs(const struct icp_problem *problem, int32_t n_px, struct icp_block *b)
{
    struct level_camera camera = problem->camera;
    struct icp_gates gates = problem->gates;
#pragma omp simd
    for (int32_t x = 0; x < n_px; x++) {
        struct icp_vec3 q = {b->q[0][x], b->q[1][x], b->q[2][x]};
        struct icp_vec3 n = {b->n[0][x], b->n[1][x], b->n[2][x]};
        struct icp_row row = icp_pair(&camera, &gates, b->candidate[x] != 0, q, n, b->precision[x],
                                      b->u_px[x], b->v_px[x], b->target[x]);
        b->j[0][x] = row.j[0];
        b->j[1][x] = row.j[1];
        b->j[2][x] = row.j[2];
        b->j[3][x] = row.j[3];
        b->j[4][x] = row.j[4];
        b->j[5][x] = row.j[5];
        b->wj[0][x] = row.w * row.j[0];
        b->wj[1][x] = row.w * row.j[1];
        b->wj[2][x] = row.w * row.j[2];
        b->wj[3][x] = row.w * row.j[3];
        b->wj[4][x] = row.w * row.j[4];
        b->wj[5][x] = row.w * row.j[5];
        b->r_m[x] = row.r_m;
        b->w[x] = row.w;
        b->abs_m[x] = row.abs_m;
        b->pair[x] = row.pair;
    }
}

// Behind the last pixel of the block up to a whole number of lanes: nothing, which adds nothing.
static void icp_fill_up(int32_t n_px, struct icp_block *b)
{
    for (int32_t x = n_px; x % LANES; x++) {
        for (int i = 0; i < 6; i++)
            b->j[i][x] = b->wj[i][x] = 0;
        b->r_m[x] = b->w[x] = b->abs_m[x] = b->pair[x] = b->valid[x] = 0;
    }
}

// Row i of the upper triangle and of the gradient: sum of wj_i * (j_i ... j_5, r). `i` is constant
// at each call, so only the products of this row remain.
static inline __attribute__((always_inline)) void
icp_products(const struct icp_block *b, int32_t n_px, int i, float (*h)[LANES], float *g)
{
    for (int part = 0; part < LANES; part += LANES_PART) {
        lanes_part h0 = {0}, h1 = {0}, h2 = {0}, h3 = {0}, h4 = {0};
        h0 = i <= 0 ? lanes_load(h[0] + part) : h0;
        h1 = i <= 1 ? lanes_load(h[1 - i] + part) : h1;
        h2 = i <= 2 ? lanes_load(h[2 - i] + part) : h2;
        h3 = i <= 3 ? lanes_load(h[3 - i] + part) : h3;
        h4 = i <= 4 ? lanes_load(h[4 - i] + part) : h4;
        lanes_part h5 = lanes_load(h[5 - i] + part), gr = lanes_load(g + part);
        for (int32_t x = part; x < n_px; x += LANES) {
            lanes_part v = lanes_load(b->wj[i] + x);
            h0 = i <= 0 ? lanes_fma(v, lanes_load(b->j[0] + x), h0) : h0;
            h1 = i <= 1 ? lanes_fma(v, lanes_load(b->j[1] + x), h1) : h1;
            h2 = i <= 2 ? lanes_fma(v, lanes_load(b->j[2] + x), h2) : h2;
            h3 = i <= 3 ? lanes_fma(v, lanes_load(b->j[3] + x), h3) : h3;
            h4 = i <= 4 ? lanes_fma(v, lanes_load(b->j[4] + x), h4) : h4;
            h5 = lanes_fma(v, lanes_load(b->j[5] + x), h5);
            gr = lanes_fma(v, lanes_load(b->r_m + x), gr);
        }
        if (i <= 0)
            lanes_store(h[0] + part, h0);
        if (i <= 1)
            lanes_store(h[1 - i] + part, h1);
        if (i <= 2)
            lanes_store(h[2 - i] + part, h2);
        if (i <= 3)
            lanes_store(h[3 - i] + part, h3);
        if (i <= 4)
            lanes_store(h[4 - i] + part, h4);
        lanes_store(h[5 - i] + part, h5);
        lanes_store(g + part, gr);
    }
}

static void icp_normal_equations(const struct icp_block *b, int32_t n_px, float (*sums)[LANES])
{
    float(*h)[LANES] = sums + ICP_SUM_H, (*g)[LANES] = sums + ICP_SUM_G;
    icp_products(b, n_px, 0, h + 0, g[0]);
    icp_products(b, n_px, 1, h + 6, g[1]);
    icp_products(b, n_px, 2, h + 11, g[2]);
    icp_products(b, n_px, 3, h + 15, g[3]);
    icp_products(b, n_px, 4, h + 18, g[4]);
    icp_products(b, n_px, 5, h + 20, g[5]);
}

static void icp_scalars(const struct icp_block *b, int32_t n_px, float (*sums)[LANES])
{
    for (int part = 0; part < LANES; part += LANES_PART) {
        lanes_part wrr = lanes_load(sums[ICP_SUM_WRR] + part);
        lanes_part w = lanes_load(sums[ICP_SUM_W] + part);
        lanes_part abs_m = lanes_load(sums[ICP_SUM_ABS] + part);
        lanes_part pairs = lanes_load(sums[ICP_SUM_PAIRS] + part);
        lanes_part valid = lanes_load(sums[ICP_SUM_VALID] + part);
        for (int32_t x = part; x < n_px; x += LANES) {
            lanes_part r = lanes_load(b->r_m + x), weight = lanes_load(b->w + x);
            wrr = lanes_fma(weight * r, r, wrr);
            w += weight;
            abs_m += lanes_load(b->abs_m + x);
            pairs += lanes_load(b->pair + x);
            valid += lanes_load(b->valid + x);
        }
        lanes_store(sums[ICP_SUM_WRR] + part, wrr);
        lanes_store(sums[ICP_SUM_W] + part, w);
        lanes_store(sums[ICP_SUM_ABS] + part, abs_m);
        lanes_store(sums[ICP_SUM_PAIRS] + part, pairs);
        lanes_store(sums[ICP_SUM_VALID] + part, valid);
    }
}

// For the information pass: the block's rows become half the sum (0.5) of the two normals' rows,
// then half their difference with the weight's sign turned (-0.5).
static void icp_halves(int32_t n_px, float half, struct icp_block *b)
{
#pragma omp simd
    for (int32_t x = 0; x < n_px; x++) {
        struct icp_vec3 q = {b->q[0][x], b->q[1][x], b->q[2][x]};
        struct icp_vec3 n = {b->n[0][x], b->n[1][x], b->n[2][x]};
        struct icp_vec3 t = {b->target[x].nx, b->target[x].ny, b->target[x].nz};
        struct icp_half row = icp_half_row(q, n, t, half);
        float w = half > 0.0f ? b->w[x] : -b->w[x];
        b->j[0][x] = row.j[0];
        b->j[1][x] = row.j[1];
        b->j[2][x] = row.j[2];
        b->j[3][x] = row.j[3];
        b->j[4][x] = row.j[4];
        b->j[5][x] = row.j[5];
        b->wj[0][x] = w * row.j[0];
        b->wj[1][x] = w * row.j[1];
        b->wj[2][x] = w * row.j[2];
        b->wj[3][x] = w * row.j[3];
        b->wj[4][x] = w * row.j[4];
        b->wj[5][x] = w * row.j[5];
    }
}

static void row_icp(const struct icp_problem *problem, int32_t y, float (*sums)[LANES])
{
    _Alignas(64) struct icp_block block;
    struct icp_block *b = &block;
    for (int32_t x0 = 0; x0 < problem->camera.width_px; x0 += ICP_BLOCK_PX) {
        int32_t left = problem->camera.width_px - x0;
        int32_t n_px = left < ICP_BLOCK_PX ? left : ICP_BLOCK_PX;
        icp_associate(problem, x0, y, n_px, b);
        icp_gather(problem->target, n_px, b);
        icp_pairs(problem, n_px, b);
        icp_fill_up(n_px, b);
        if (problem->information) {
            icp_halves(n_px, 0.5f, b);
            icp_normal_equations(b, n_px, sums);
            icp_halves(n_px, -0.5f, b);
        }
        icp_normal_equations(b, n_px, sums);
        icp_scalars(b, n_px, sums);
    }
}

const struct rows ROWS_TABLE = {
    .name = ROWS_NAME,
    .depth = row_depth,
    .correct = row_correct,
    .bilateral = row_bilateral,
    .maps = row_maps,
    .icp = row_icp,
};

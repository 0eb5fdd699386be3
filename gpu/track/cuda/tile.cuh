// SPDX-License-Identifier: Apache-2.0
// Raw depth to maps in shared memory, one or three pieces of 40 x 20 px at a time: depth with a
// halo, the bilateral filter, the maps of three levels.
//
// The filter is computed where the maps need it and nowhere else: the piece, a ring of one pixel
// for the full resolution, and the samples two and four pixels away to the left and above that the
// coarser levels' normals use: 965 px for 800. A thread filters two pixels, one above the other, so
// that the 2 r + 2 rows of neighbours are read once; 462 + 45 such items just fill 512 threads.
#ifndef POSED_GPU_TRACK_CUDA_TILE_CUH
#define POSED_GPU_TRACK_CUDA_TILE_CUH

#include "gpu/base/raw_depth.h"
#include "gpu/track/cuda/device.cuh"
#include "gpu/track/kernels/normal_maps.h"

#define PIECE_W      40
#define PIECE_H      20
#define PIECE_BEFORE 4 // filtered pixels to the left and above
#define FILTERED_W   (PIECE_BEFORE + PIECE_W + 1)
#define FILTERED_H   (PIECE_BEFORE + PIECE_H + 1)
#define TILE_MAX_W   (FILTERED_W + 2 * BILATERAL_MAX_RADIUS_PX)
// From row to row: where a warp's items of the filter go on two rows below, they go on in the bank
// of shared memory that follows.
#define TILE_STRIDE  69
#define TILE_MAX_H   (FILTERED_H + 2 * BILATERAL_MAX_RADIUS_PX)
#define RING_W       (PIECE_W + 2)
#define RING_ITEMS   (RING_W * (PIECE_H + 2) / 2)
#define SPARSE_ITEMS (PIECE_H / 2 + PIECE_W / 2 + PIECE_H / 4 + PIECE_W / 4)
#define PIECE_PX(l)  ((PIECE_W >> (l)) * (PIECE_H >> (l)))
#define PIECE_ALL_PX (PIECE_PX(0) + PIECE_PX(1) + PIECE_PX(2))

#define TILE_GROUP   3 // pieces at a time: more loads on their way, no barrier between
#define TILE_THREADS 512
#define ROW_THREADS  64 // that load a row of a tile
#define TILE_ROWS    (TILE_THREADS / ROW_THREADS)
#define FILTER_ITEMS (RING_ITEMS + SPARSE_ITEMS)
#define TILE_PASSES  ((TILE_MAX_H + TILE_ROWS - 1) / TILE_ROWS)

#if TILE_STRIDE < TILE_MAX_W || (2 * TILE_STRIDE - RING_W) % 32 != 0
#error "TILE_STRIDE must hold a row and leave no two lanes of a warp on one bank"
#endif

// A piece's corner in the image; far outside when there is no such piece.
struct piece_corner {
    int x, y;
};
#define NO_PIECE (1 << 24)

struct __align__(16) tile
{
    float z_m[TILE_MAX_H * TILE_STRIDE];
    float filtered_m[FILTERED_H * FILTERED_W];
};

// What a thread brings into the tiles: its pixels of a column, TILE_ROWS apart.
struct tile_load {
    uint16_t raw[TILE_GROUP][TILE_PASSES];
};

// Asks for the depth around each of n <= N pieces, 0 outside the image: 2 bytes a pixel from the L2
// cache, 2 times over for the halo of a 7x7 filter.
template <int N>
static __device__ __forceinline__ void
tiles_load_begin(int n, const struct piece_corner *corners, const struct cuda_filter *filter,
                 const struct level_camera *image, const uint16_t *raw, struct tile_load *out)
{
    const int before = PIECE_BEFORE + filter->radius_px;
    const int w = FILTERED_W + 2 * filter->radius_px, h = FILTERED_H + 2 * filter->radius_px;
    const int x = (int)threadIdx.x % ROW_THREADS, y0 = (int)threadIdx.x / ROW_THREADS;
#pragma unroll
    for (int t = 0; t < N; t++) {
        const struct piece_corner corner = corners[t < n ? t : 0];
        int u = corner.x - before + x;
#pragma unroll
        for (int pass = 0; pass < TILE_PASSES; pass++) {
            int y = y0 + pass * TILE_ROWS, v = corner.y - before + y;
            bool inside = (t < n) & (x < w) & (y < h) & (u >= 0) & (v >= 0) &
                          (u < image->width_px) & (v < image->height_px);
            out->raw[t][pass] = inside ? __ldcg(raw + v * image->width_px + u) : (uint16_t)0;
        }
    }
}

// Writes it to the tiles, in metres. FIELD: the sensor's own error taken out, 4 bytes a pixel from
// the L2 cache, which are asked for here and not ahead: they would cost registers.
template <int N, bool FIELD>
static __device__ __forceinline__ void
tiles_load_finish(struct tile *tiles, int n, const struct piece_corner *corners,
                  const struct cuda_filter *filter, const struct level_camera *image,
                  const struct tile_load *load)
{
    const int before = PIECE_BEFORE + filter->radius_px;
    const int w = FILTERED_W + 2 * filter->radius_px, h = FILTERED_H + 2 * filter->radius_px;
    const int x = (int)threadIdx.x % ROW_THREADS, y0 = (int)threadIdx.x / ROW_THREADS;
#pragma unroll
    for (int t = 0; t < N; t++)
#pragma unroll
        for (int pass = 0; pass < TILE_PASSES; pass++) {
            int y = y0 + pass * TILE_ROWS;
            if (t < n && x < w && y < h) {
                float z_m = raw_depth_m(load->raw[t][pass], filter->m_per_unit, filter->depth_min_m,
                                        filter->depth_max_m);
                if (FIELD && z_m > 0.0f) { // inside the image, then
                    const int u = corners[t].x - before + x, v = corners[t].y - before + y;
                    z_m = raw_depth_corrected_m(
                        z_m, __ldg(filter->field_per_m + v * image->width_px + u));
                }
                tiles[t].z_m[y * TILE_STRIDE + x] = z_m;
            }
        }
}

// A row of taps for each of two pixels, of which only the first or the second may be in reach. The
// roots of the weights: those of dx = 0 .. RADIUS.
template <int RADIUS>
static __device__ __forceinline__ void
filter_row(const float *roots_first, const float *roots_second, const float *neighbours, bool first,
           bool second, const float z_m[2], const float factor[2], float sum_w[2], float sum_wd[2])
{
#pragma unroll
    for (int dx = 0; dx < 2 * RADIUS + 1; dx++) {
        float neighbour_m = neighbours[dx];
        if (first)
            bilateral_tap(z_m[0], neighbour_m, roots_first[abs(dx - RADIUS)],
                          roots_first[abs(dx - RADIUS)] * factor[0], &sum_w[0], &sum_wd[0]);
        if (second)
            bilateral_tap(z_m[1], neighbour_m, roots_second[abs(dx - RADIUS)],
                          roots_second[abs(dx - RADIUS)] * factor[1], &sum_w[1], &sum_wd[1]);
    }
}

// Pixels (ix, iy) and (ix, iy + 1) of the filtered tile. 6 operations a tap: 98 taps for 7x7.
template <int RADIUS>
static __device__ __forceinline__ void filter_pair(const struct tile *tile,
                                                   const struct cuda_filter *filter, int ix, int iy,
                                                   float out_m[2])
{
    const float *corner = tile->z_m + iy * TILE_STRIDE + ix;
    float z_m[2] = {corner[RADIUS * TILE_STRIDE + RADIUS],
                    corner[(RADIUS + 1) * TILE_STRIDE + RADIUS]};
    float sum_w[2] = {0, 0}, sum_wd[2] = {0, 0}, factor[2];
    out_m[0] = out_m[1] = 0.0f;
    if (!(z_m[0] > 0.0f) && !(z_m[1] > 0.0f))
        return;
    factor[0] = bilateral_range_factor(z_m[0], filter->cut_sigmas);
    factor[1] = bilateral_range_factor(z_m[1], filter->cut_sigmas);
    const int last = 2 * RADIUS + 1, edge = RADIUS * FILTER_QUADRANT;
    if (RADIUS <= 3) { // unrolled: the roots are operands in constant memory
        filter_row<RADIUS>(filter->spatial + edge, filter->spatial + edge, corner, true, false, z_m,
                           factor, sum_w, sum_wd);
#pragma unroll
        for (int row = 1; row < last; row++)
            filter_row<RADIUS>(filter->spatial + abs(row - RADIUS) * FILTER_QUADRANT,
                               filter->spatial + abs(row - 1 - RADIUS) * FILTER_QUADRANT,
                               corner + row * TILE_STRIDE, true, true, z_m, factor, sum_w, sum_wd);
        filter_row<RADIUS>(filter->spatial + edge, filter->spatial + edge,
                           corner + last * TILE_STRIDE, false, true, z_m, factor, sum_w, sum_wd);
    } else { // a row's roots serve the next row's second pixel
        float before[RADIUS + 1], now[RADIUS + 1];
#pragma unroll
        for (int dx = 0; dx <= RADIUS; dx++)
            before[dx] = filter->spatial[edge + dx];
        filter_row<RADIUS>(before, before, corner, true, false, z_m, factor, sum_w, sum_wd);
#pragma unroll 2
        for (int row = 1; row < last; row++) {
#pragma unroll
            for (int dx = 0; dx <= RADIUS; dx++)
                now[dx] = filter->spatial[abs(row - RADIUS) * FILTER_QUADRANT + dx];
            filter_row<RADIUS>(now, before, corner + row * TILE_STRIDE, true, true, z_m, factor,
                               sum_w, sum_wd);
#pragma unroll
            for (int dx = 0; dx <= RADIUS; dx++)
                before[dx] = now[dx];
        }
        filter_row<RADIUS>(before, before, corner + last * TILE_STRIDE, false, true, z_m, factor,
                           sum_w, sum_wd);
    }
    out_m[0] = bilateral_result(z_m[0], sum_w[0], sum_wd[0]);
    out_m[1] = bilateral_result(z_m[1], sum_w[1], sum_wd[1]);
}

// The k-th sample that only the normals of a coarser level need.
static __device__ __forceinline__ void sparse_item(int k, int *out_ix, int *out_iy)
{
    const int b = PIECE_BEFORE;
    if (k < PIECE_H / 2) {
        *out_ix = b - 2;
        *out_iy = b + 2 * k;
    } else if (k < PIECE_H / 2 + PIECE_W / 2) {
        *out_ix = b + 2 * (k - PIECE_H / 2);
        *out_iy = b - 2;
    } else if (k < PIECE_H / 2 + PIECE_W / 2 + PIECE_H / 4) {
        *out_ix = b - 4;
        *out_iy = b + 4 * (k - PIECE_H / 2 - PIECE_W / 2);
    } else {
        *out_ix = b + 4 * (k - PIECE_H / 2 - PIECE_W / 2 - PIECE_H / 4);
        *out_iy = b - 4;
    }
}

template <int RADIUS>
static __device__ __forceinline__ void tiles_filter_radius(struct tile *tiles, int n,
                                                           const struct cuda_filter *filter)
{
    for (int item = (int)threadIdx.x; item < n * FILTER_ITEMS; item += TILE_THREADS) {
        struct tile *tile = tiles + item / FILTER_ITEMS;
        int k = item % FILTER_ITEMS;
        int ix = PIECE_BEFORE - 1 + k % RING_W, iy = PIECE_BEFORE - 1 + 2 * (k / RING_W);
        if (k >= RING_ITEMS)
            sparse_item(k - RING_ITEMS, &ix, &iy);
        float out_m[2];
        filter_pair<RADIUS>(tile, filter, ix, iy, out_m);
        tile->filtered_m[iy * FILTERED_W + ix] = out_m[0];
        if (k < RING_ITEMS)
            tile->filtered_m[(iy + 1) * FILTERED_W + ix] = out_m[1];
    }
}

static __device__ __forceinline__ void tiles_filter(struct tile *tiles, int n,
                                                    const struct cuda_filter *filter)
{
    switch (filter->radius_px) {
    case 0:
        tiles_filter_radius<0>(tiles, n, filter);
        break;
    case 1:
        tiles_filter_radius<1>(tiles, n, filter);
        break;
    case 2:
        tiles_filter_radius<2>(tiles, n, filter);
        break;
    case 3:
        tiles_filter_radius<3>(tiles, n, filter);
        break;
    case 4:
        tiles_filter_radius<4>(tiles, n, filter);
        break;
    case 5:
        tiles_filter_radius<5>(tiles, n, filter);
        break;
    default:
        tiles_filter_radius<6>(tiles, n, filter);
        break;
    }
}

// Pixel (x, y) of the piece on a level; (u0, v0) is the piece's corner on that level. A pixel
// outside the image is 0.
static __device__ __forceinline__ float4 tile_map_px(const struct tile *tile,
                                                     const struct level_camera *camera, int level,
                                                     int u0, int v0, int x, int y)
{
    int u = u0 + x, v = v0 + y, step = 1 << level;
    float4 out = {0, 0, 0, 0};
    if (u >= camera->width_px || v >= camera->height_px)
        return out;
    const float *z =
        tile->filtered_m + (PIECE_BEFORE + (y << level)) * FILTERED_W + PIECE_BEFORE + (x << level);
    // Before the first pixel the tile holds zeros; behind the last of a coarse level there may be
    // image, but no neighbour of the level.
    float right_m = u + 1 < camera->width_px ? z[step] : 0.0f;
    float down_m = v + 1 < camera->height_px ? z[step * FILTERED_W] : 0.0f;
    struct map_px px = maps_pixel(camera, (float)u, (float)v, z[0], z[-step], right_m,
                                  z[-step * FILTERED_W], down_m);
    out.x = px.nx;
    out.y = px.ny;
    out.z = px.nz;
    out.w = px.z_m;
    return out;
}

#endif

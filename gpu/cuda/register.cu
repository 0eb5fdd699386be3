// SPDX-License-Identifier: Apache-2.0
// The registration on CUDA, streaming form: a whole anneal is one launch.
//
// A team of blocks works on one run: all blocks of a cooperative launch on a single run, a few on
// each of a handful, one block on each of a batch. A block owns some rows; a warp takes 8 of them
// in registers and its lanes walk over the columns, which pass through shared memory as
// (x, y, z, b), so that the exponent of a pair is three multiply-adds and an addition:
//   log2 e_ij = 2k p_i . x_j - k |p_i|^2 + b_j
//   b_j = log2 w_j - k |x_j|^2,  k = log2(e) / (2 sigma^2)
// A weight costs nothing: it rides in b. Every block gathers all partial sums in the same order, in
// double, and solves the M-step for itself: one barrier, no broadcast, the same bits everywhere.
#include "gpu/cuda/register.cuh"

#include <cuda_fp16.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/kernels/register_weights.h"
#include "gpu/register_schedule.h"

#define ROWS_PER_WARP 8
#define MAX_TILE      8192u // columns in shared memory at a time: 128 KiB
#define BIG_BLOCK     512   // threads
#define SMALL_BLOCK   256
#define MAX_WARPS     (BIG_BLOCK / 32)

struct plan {
    struct register_anneal anneal;
    const float4 *source, *target, *normals;
    struct register_run *runs;
    uint32_t team; // blocks of a run
    uint32_t tile; // columns of a tile
    bool tensor;   // the paper's pass runs on tensor cores
    // By run: log2 u and log2 v, two sets of partial sums by parity, arrivals at the barrier.
    float *log2_u, *log2_v;
    double *partial;
    unsigned *arrivals;
};

// Shared state of a block: the head of its dynamic shared memory. The tile of columns follows, then
// the sums of its rows. All functions name it as shared_state, so that the compiler knows the
// memory as shared also where a function is not inlined.
struct block_state {
    float4 T[3]; // rows of (R | t)
    double sums[REGISTER_N_SUMS];
    double warp_sums[MAX_WARPS][REGISTER_N_SUMS];
    struct register_run run;
    struct register_schedule schedule;
    double mean[3], sigma2, outlier, slack;
    double next_sigma2, next_outlier; // what a schedule that goes on brings
    float k, k_before;                // log2(e) / (2 sigma^2), now and in the last iteration
    bool more;
    float split[MAX_WARPS][5 * 16];
    float4 tile[1]; // plan.tile of them
};

extern __shared__ float4 dynamic_memory[];
#define shared_state (*(struct block_state *)dynamic_memory)

struct team {
    uint32_t run, block, n_blocks;
    unsigned *arrivals, n_passed;
};

static __device__ void team_barrier(struct team *team)
{
    if (team->n_blocks == 1) {
        __syncthreads();
        return;
    }
    __syncthreads();
    team->n_passed += team->n_blocks;
    if (threadIdx.x == 0) {
        // Release and acquire carry what the whole block wrote and reads: bar.sync orders it.
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(team->arrivals) : "memory");
        unsigned seen;
        do
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                         : "=r"(seen)
                         : "l"(team->arrivals)
                         : "memory");
        while ((int)(seen - team->n_passed) < 0);
    }
    __syncthreads();
}

static __device__ __forceinline__ float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Sums each of 8 values over the warp with 9 shuffles; lane l returns value (l >> 2) & 7.
static __device__ __forceinline__ float reduce8(const float v[ROWS_PER_WARP], int lane)
{
    bool upper = lane & 16;
    float a[4], b[2], c;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float keep = upper ? v[i + 4] : v[i], give = upper ? v[i] : v[i + 4];
        a[i] = keep + __shfl_xor_sync(0xffffffffu, give, 16);
    }
    upper = lane & 8;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float keep = upper ? a[i + 2] : a[i], give = upper ? a[i] : a[i + 2];
        b[i] = keep + __shfl_xor_sync(0xffffffffu, give, 8);
    }
    upper = lane & 4;
    float keep = upper ? b[1] : b[0], give = upper ? b[0] : b[1];
    c = keep + __shfl_xor_sync(0xffffffffu, give, 4);
    c += __shfl_xor_sync(0xffffffffu, c, 2);
    return c + __shfl_xor_sync(0xffffffffu, c, 1);
}

// T in shared memory, three rows of (R | t). The last lane holds |p|^2.
static __device__ __forceinline__ float4 moved(const float4 p, const float4 *T)
{
    float x = __fmaf_rn(T[0].x, p.x, __fmaf_rn(T[0].y, p.y, __fmaf_rn(T[0].z, p.z, T[0].w)));
    float y = __fmaf_rn(T[1].x, p.x, __fmaf_rn(T[1].y, p.y, __fmaf_rn(T[1].z, p.z, T[1].w)));
    float z = __fmaf_rn(T[2].x, p.x, __fmaf_rn(T[2].y, p.y, __fmaf_rn(T[2].z, p.z, T[2].w)));
    return make_float4(x, y, z, __fmaf_rn(x, x, __fmaf_rn(y, y, z * z)));
}

// What a pass sums: e; e and e x; e, e x and e^2.
enum { SUM_E = 1, SUM_MOMENTS = 4, SUM_SQUARES = 5 };

struct pass_input {
    const float4 *rows, *columns;
    const float *log2_w;               // of the columns, NULL: weights 1
    bool move_rows, move_columns;      // by shared_state.T
    uint32_t first, n_rows, n_columns; // rows of this block: [first, first + n_rows)
    uint32_t tile;                     // columns in shared memory at a time
    float k, k_before; // k_before > 0: this pass's columns are in the tile, for that k
};

// Columns first .. first + n into shared memory as (x, y, z, log2 w - k |x|^2). Four loads of a
// thread are under way at a time.
static __device__ void stage_tile(const struct pass_input *in, uint32_t first, uint32_t n)
{
    for (uint32_t begin = threadIdx.x; begin < n; begin += 4 * blockDim.x) {
        float4 x[4];
        float w[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t j = min(begin + (uint32_t)i * blockDim.x, n - 1);
            x[i] = in->columns[first + j];
            w[i] = in->log2_w ? __ldcg(&in->log2_w[first + j]) : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t j = begin + (uint32_t)i * blockDim.x;
            if (in->move_columns)
                x[i] = moved(x[i], shared_state.T);
            x[i].w = __fmaf_rn(-in->k, x[i].w, w[i]);
            if (j < n)
                shared_state.tile[j] = x[i];
        }
    }
}

// Columns without weights that are there from the last pass, for another k: only b changes.
static __device__ void rescale_tile(uint32_t n, float factor)
{
    for (uint32_t j = threadIdx.x; j < n; j += blockDim.x)
        shared_state.tile[j].w *= factor;
}

static __device__ __forceinline__ float weight_of(float ax, float ay, float az, float c, float4 x)
{
    return exp2_fast(__fmaf_rn(ax, x.x, __fmaf_rn(ay, x.y, __fmaf_rn(az, x.z, c + x.w))));
}

// Adds what the warps that share groups left in `split`, for the rows from `first` on.
template <int WHAT, int ROWS>
static __device__ void join_slices(float *out, uint32_t first, uint32_t n_rows, uint32_t split)
{
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < (n_rows - first) * WHAT; i += blockDim.x) {
        const uint32_t row = i / WHAT, warp = row / ROWS * split;
        float sum = 0;
        for (uint32_t slice = 0; slice < split; slice++)
            sum += shared_state.split[warp + slice][row % ROWS * WHAT + i % WHAT];
        out[first * WHAT + i] = sum;
    }
}

// Sums of this block's rows over all columns, behind the tile: out[row * WHAT + s]; s = e, e x,
// e y, e z, e^2. Not inlined: its registers are then its own, and the double arithmetic around it
// does not push the row constants into local memory.
template <int WHAT> static __device__ __noinline__ void pass(const struct pass_input in)
{
    float *out = (float *)(shared_state.tile + in.tile);
    const int lane = threadIdx.x & 31;
    const uint32_t warp = threadIdx.x / 32, n_warps = blockDim.x / 32;
    const uint32_t n_groups = (in.n_rows + ROWS_PER_WARP - 1) / ROWS_PER_WARP;
    const uint32_t n_rounds = (n_groups + n_warps - 1) / n_warps;
    const uint32_t n_tiles = (in.n_columns + in.tile - 1) / in.tile;
    for (uint32_t round = 0; round < n_rounds; round++) {
        // The last round has fewer groups than warps: several warps share the columns of a group.
        const uint32_t done = round * n_warps, left = n_groups - done;
        const uint32_t split = left >= n_warps ? 1 : n_warps / left;
        const uint32_t group = done + warp / split, slice = warp % split;
        const bool active = group < n_groups;
        float ax[ROWS_PER_WARP], ay[ROWS_PER_WARP], az[ROWS_PER_WARP], c[ROWS_PER_WARP];
        float acc[WHAT][ROWS_PER_WARP];
#pragma unroll
        for (int r = 0; r < ROWS_PER_WARP; r++) {
            uint32_t row = group * ROWS_PER_WARP + (uint32_t)r;
            float4 p = make_float4(0, 0, 0, 0);
            if (row < in.n_rows)
                p = in.rows[in.first + row];
            if (in.move_rows)
                p = moved(p, shared_state.T);
            ax[r] = 2 * in.k * p.x;
            ay[r] = 2 * in.k * p.y;
            az[r] = 2 * in.k * p.z;
            c[r] = -in.k * p.w;
#pragma unroll
            for (int s = 0; s < WHAT; s++)
                acc[s][r] = 0;
        }
        for (uint32_t t = 0; t < n_tiles; t++) {
            const uint32_t first = t * in.tile, n = min(in.tile, in.n_columns - first);
            if (n_tiles > 1 || round == 0) {
                __syncthreads();
                if (n_tiles == 1 && in.k_before > 0)
                    rescale_tile(n, in.k / in.k_before);
                else
                    stage_tile(&in, first, n);
                __syncthreads();
            }
            const uint32_t step = 32 * split;
            uint32_t j = active ? (uint32_t)lane + 32 * slice : n;
            // Two columns at once: warps in step would else all wait for the exponential unit and
            // then all for the multiply-adds. Sums of e alone are faster without.
            for (; WHAT != SUM_E && j + step < n; j += 2 * step) {
                const float4 x = shared_state.tile[j], x2 = shared_state.tile[j + step];
#pragma unroll
                for (int r = 0; r < ROWS_PER_WARP; r++) {
                    const float e = weight_of(ax[r], ay[r], az[r], c[r], x);
                    const float e2 = weight_of(ax[r], ay[r], az[r], c[r], x2);
                    acc[0][r] += e + e2;
                    acc[1 % WHAT][r] = __fmaf_rn(e, x.x, acc[1 % WHAT][r]);
                    acc[2 % WHAT][r] = __fmaf_rn(e, x.y, acc[2 % WHAT][r]);
                    acc[3 % WHAT][r] = __fmaf_rn(e, x.z, acc[3 % WHAT][r]);
                    acc[1 % WHAT][r] = __fmaf_rn(e2, x2.x, acc[1 % WHAT][r]);
                    acc[2 % WHAT][r] = __fmaf_rn(e2, x2.y, acc[2 % WHAT][r]);
                    acc[3 % WHAT][r] = __fmaf_rn(e2, x2.z, acc[3 % WHAT][r]);
                    if (WHAT >= SUM_SQUARES)
                        acc[4 % WHAT][r] = __fmaf_rn(e, e, __fmaf_rn(e2, e2, acc[4 % WHAT][r]));
                }
            }
            for (; j < n; j += step) {
                const float4 x = shared_state.tile[j];
#pragma unroll
                for (int r = 0; r < ROWS_PER_WARP; r++) {
                    const float e = weight_of(ax[r], ay[r], az[r], c[r], x);
                    acc[0][r] += e;
                    if (WHAT >= SUM_MOMENTS) {
                        acc[1 % WHAT][r] = __fmaf_rn(e, x.x, acc[1 % WHAT][r]);
                        acc[2 % WHAT][r] = __fmaf_rn(e, x.y, acc[2 % WHAT][r]);
                        acc[3 % WHAT][r] = __fmaf_rn(e, x.z, acc[3 % WHAT][r]);
                    }
                    if (WHAT >= SUM_SQUARES)
                        acc[4 % WHAT][r] = __fmaf_rn(e, e, acc[4 % WHAT][r]);
                }
            }
        }
        const uint32_t row = group * ROWS_PER_WARP + (uint32_t)(lane >> 2);
#pragma unroll
        for (int s = 0; s < WHAT; s++) {
            float sum = reduce8(acc[s], lane);
            if (split > 1 && (lane & 3) == 0)
                shared_state.split[warp][(lane >> 2) * WHAT + s] = sum;
            else if (active && (lane & 3) == 0 && row < in.n_rows)
                out[row * WHAT + (uint32_t)s] = sum;
        }
        if (split > 1)
            join_slices<WHAT, ROWS_PER_WARP>(out, done * ROWS_PER_WARP, in.n_rows, split);
    }
    __syncthreads();
}

// The paper's pass on tensor cores.
// A column is stored as eight halves, xh yh zh 1 xl yl zl qh, and a word, ql qh (h and l: a number
// split in two halves; q = |x|^2); nothing of it depends on sigma. One m16n8k16 product makes the
// exponents of 16 rows and 8 columns, its sixteen slots being
//   rows    2kp_h (3)  c_h | 2kp_h (3)  -k_h | 2kp_l (3)  c_l | -k_h  -k_l  0 0     c = -k |p|^2
//   columns x_h (3)    1   | x_l (3)    q_h  | x_h (3)    1   | q_l   q_h
// The weights, packed to halves, lie in the registers as the left operand of the product with the
// same bytes, read transposed, that sums w and w x; sum w^2 stays in float. 22 bits of a coordinate
// take part in the exponent and 11 of a weight in the sums, where they average out: the transform
// agrees with the float pass to 1e-5.
#define TENSOR_ROWS 16

static __device__ __forceinline__ uint32_t pack_halves(__half low, __half high)
{
    return (uint32_t)__half_as_ushort(low) | (uint32_t)__half_as_ushort(high) << 16;
}

static __device__ __forceinline__ void split_halves(float x, __half *high, __half *low)
{
    *high = __float2half_rn(x);
    *low = __float2half_rn(x - __half2float(*high));
}

static __device__ __forceinline__ void multiply_add(float d[4], const uint32_t a[4], uint32_t b0,
                                                    uint32_t b1)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// Columns that fit: 20 bytes each in the room of the tile's float4.
static __device__ __forceinline__ uint32_t tensor_tile(uint32_t tile)
{
    return tile * 4 / 5 / 16 * 16;
}

static __device__ void stage_tensor_tile(const struct pass_input *in, uint32_t first, uint32_t n)
{
    uint4 *records = (uint4 *)shared_state.tile;
    uint32_t *extras = (uint32_t *)(records + tensor_tile(in->tile));
    const uint32_t n_padded = (n + 15) / 16 * 16;
    for (uint32_t j = threadIdx.x; j < n_padded; j += blockDim.x) {
        // Padding is far away: its exponent is below -150 for every k that is let through.
        float4 x = make_float4(0, 0, 0, 60000.0f);
        if (j < n)
            x = in->columns[first + j];
        __half xh, xl, yh, yl, zh, zl, qh, ql;
        split_halves(x.x, &xh, &xl);
        split_halves(x.y, &yh, &yl);
        split_halves(x.z, &zh, &zl);
        split_halves(x.w, &qh, &ql);
        records[j] = make_uint4(pack_halves(xh, yh), pack_halves(zh, __float2half_rn(1.0f)),
                                pack_halves(xl, yl), pack_halves(zl, qh));
        extras[j] = pack_halves(ql, qh);
    }
}

// This lane's part of the left operand for rows `row` and `row + 8` of the block.
static __device__ void load_tensor_rows(const struct pass_input *in, uint32_t row, int t,
                                        uint32_t a[4])
{
    __half kh, kl;
    split_halves(-in->k, &kh, &kl);
    for (int i = 0; i < 2; i++) {
        float4 p = make_float4(0, 0, 0, 0);
        if (row + 8 * (uint32_t)i < in->n_rows)
            p = moved(in->rows[in->first + row + 8 * (uint32_t)i], shared_state.T);
        __half xh, xl, yh, yl, zh, zl, ch, cl;
        split_halves(2 * in->k * p.x, &xh, &xl);
        split_halves(2 * in->k * p.y, &yh, &yl);
        split_halves(2 * in->k * p.z, &zh, &zl);
        split_halves(-in->k * p.w, &ch, &cl);
        a[i] = t == 1 ? pack_halves(zh, ch) : t == 3 ? pack_halves(zh, kh) : pack_halves(xh, yh);
        a[2 + i] = t == 0   ? pack_halves(xl, yl)
                   : t == 1 ? pack_halves(zl, cl)
                   : t == 2 ? pack_halves(kh, kl)
                            : 0;
    }
}

// Adds columns first, first + step, ... (16 at a time) below n to the sums of 16 rows.
static __device__ __forceinline__ void add_tensor_columns(const uint32_t a[4], uint32_t records,
                                                          uint32_t extras, uint32_t first,
                                                          uint32_t n, uint32_t step, float sums[4],
                                                          float squares[2])
{
#if __CUDA_ARCH__ >= 800
    const uint32_t lane = threadIdx.x & 31, g = lane / 4, t = lane & 3;
    for (uint32_t j = first; j < n; j += step) {
        uint32_t b[2], extra[2], x[2], w[4];
        float e[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            const uint32_t at = j + 8 * i + g;
            asm volatile("ld.shared.u32 %0, [%1];" : "=r"(b[i]) : "r"(records + at * 16 + t * 4));
            asm volatile("ld.shared.u32 %0, [%1];" : "=r"(extra[i]) : "r"(extras + at * 4));
            multiply_add(e[i], a, b[i], t < 2 ? b[i] : extra[i]); // t = 3: times 0
        }
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                     : "=r"(x[0]), "=r"(x[1])
                     : "r"(records + (j + (lane & 15)) * 16));
#pragma unroll
        for (int i = 0; i < 2; i++) {
#pragma unroll
            for (int c = 0; c < 4; c++) {
                e[i][c] = exp2_fast(e[i][c]);
                squares[c / 2] = __fmaf_rn(e[i][c], e[i][c], squares[c / 2]);
            }
            asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w[2 * i]) : "f"(e[i][1]), "f"(e[i][0]));
            asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w[2 * i + 1]) : "f"(e[i][3]), "f"(e[i][2]));
        }
        multiply_add(sums, w, x[0], x[1]);
    }
#endif
}

// As pass<SUM_SQUARES>, rows moved, columns without weights. `staged`: the columns are there.
static __device__ __noinline__ void tensor_pass(const struct pass_input in, bool staged)
{
    float *out = (float *)(shared_state.tile + in.tile);
    const uint32_t lane = threadIdx.x & 31, g = lane / 4, t = lane & 3;
    const uint32_t warp = threadIdx.x / 32, n_warps = blockDim.x / 32, room = tensor_tile(in.tile);
    const uint32_t records = (uint32_t)__cvta_generic_to_shared(shared_state.tile);
    const uint32_t extras = records + room * 16;
    const uint32_t n_groups = (in.n_rows + TENSOR_ROWS - 1) / TENSOR_ROWS;
    const uint32_t n_rounds = (n_groups + n_warps - 1) / n_warps;
    const uint32_t n_tiles = (in.n_columns + room - 1) / room;
    for (uint32_t round = 0; round < n_rounds; round++) {
        const uint32_t done = round * n_warps, left = n_groups - done;
        const uint32_t split = left >= n_warps ? 1 : n_warps / left;
        const uint32_t group = done + warp / split, slice = warp % split;
        uint32_t a[4];
        float sums[4] = {0, 0, 0, 0}, squares[2] = {0, 0};
        load_tensor_rows(&in, group * TENSOR_ROWS + g, (int)t, a);
        for (uint32_t tile = 0; tile < n_tiles; tile++) {
            const uint32_t first = tile * room, n = min(room, in.n_columns - first);
            if (n_tiles > 1 || (round == 0 && !staged)) {
                __syncthreads();
                stage_tensor_tile(&in, first, n);
                __syncthreads();
            }
            if (group < n_groups)
                add_tensor_columns(a, records, extras, 16 * slice, n, 16 * split, sums, squares);
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            // Lanes t = 0 and 2 hold x and y (high and low part), 1 and 3 hold z, 1 holds sum w.
            const float u = sums[2 * i] + __shfl_xor_sync(0xffffffffu, sums[2 * i], 2);
            const float v = sums[2 * i + 1] + __shfl_xor_sync(0xffffffffu, sums[2 * i + 1], 2);
            squares[i] += __shfl_xor_sync(0xffffffffu, squares[i], 1);
            squares[i] += __shfl_xor_sync(0xffffffffu, squares[i], 2);
            const uint32_t in_group = g + 8 * (uint32_t)i, row = group * TENSOR_ROWS + in_group;
            float *to = split > 1 ? &shared_state.split[warp][in_group * SUM_SQUARES]
                                  : &out[row * SUM_SQUARES];
            if (split == 1 && (group >= n_groups || row >= in.n_rows))
                continue;
            if (t == 0) {
                to[1] = u;
                to[2] = v;
            } else if (t == 1) {
                to[0] = sums[2 * i + 1];
                to[3] = u;
            } else if (t == 2) {
                to[4] = squares[i];
            }
        }
        if (split > 1)
            join_slices<SUM_SQUARES, TENSOR_ROWS>(out, done * TENSOR_ROWS, in.n_rows, split);
    }
    __syncthreads();
}

// Sums up to 32 values of each lane over the warp with 31 shuffles of doubles instead of 5 a value:
// each step hands half of the values to the other half of the lanes. Lane l ends up with value l.
template <int N>
static __device__ __forceinline__ void reduce32(const double *values, int lane, double *out)
{
    double v[32];
#pragma unroll
    for (int i = 0; i < 32; i++)
        v[i] = i < N ? values[i] : 0;
#pragma unroll
    for (int half = 16; half > 0; half >>= 1) {
        const bool upper = lane & half;
#pragma unroll
        for (int i = 0; i < half; i++) {
            const double keep = upper ? v[i + half] : v[i], give = upper ? v[i] : v[i + half];
            v[i] = keep + __shfl_xor_sync(0xffffffffu, give, half);
        }
    }
    if (lane < N)
        out[lane] = v[0];
}

// Adds the threads' sums over the block, then posts them for the team, waits, and gathers what all
// blocks posted into shared_state.sums. One barrier of the team. Only the first n_busy threads have
// sums.
template <int N_SUMS>
static __device__ void exchange_sums(const struct plan *plan, struct team *team, const double *mine,
                                     uint32_t n_busy, uint32_t parity)
{
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32, n_warps = blockDim.x / 32;
    const int n_busy_warps = (int)min((n_busy + 31) / 32, (uint32_t)n_warps);
    if (warp < n_busy_warps) {
        if (N_SUMS <= 32) {
            reduce32<N_SUMS>(mine, lane, shared_state.warp_sums[warp]);
        } else {
            for (int s = 0; s < N_SUMS; s++) {
                double v = mine[s];
                for (int d = 16; d > 0; d >>= 1)
                    v += __shfl_xor_sync(0xffffffffu, v, d);
                if (lane == 0)
                    shared_state.warp_sums[warp][s] = v;
            }
        }
    }
    __syncthreads();
    double *posted =
        plan->partial + ((size_t)(team->run * 2 + parity) * team->n_blocks) * REGISTER_N_SUMS;
    for (int s = (int)threadIdx.x; s < N_SUMS; s += (int)blockDim.x) {
        double v = 0;
        for (int w = 0; w < n_busy_warps; w++)
            v += shared_state.warp_sums[w][s];
        if (team->n_blocks == 1)
            shared_state.sums[s] = v;
        else
            posted[(size_t)s * team->n_blocks + team->block] = v;
    }
    team_barrier(team);
    if (team->n_blocks == 1)
        return;
    // Half a warp a sum, so that 512 threads gather all point sums in one round; nine loads of a
    // thread are under way at a time.
    const int half = (int)threadIdx.x / 16;
    const uint32_t place = threadIdx.x & 15;
    for (int s = half; s < (N_SUMS + 1) / 2 * 2; s += 2 * n_warps) {
        const double *from = posted + (size_t)min(s, N_SUMS - 1) * team->n_blocks;
        double v = 0;
        for (uint32_t begin = place; begin < team->n_blocks; begin += 16 * 9) {
            double part[9];
#pragma unroll
            for (uint32_t i = 0; i < 9; i++)
                part[i] = begin + 16 * i < team->n_blocks ? __ldcg(&from[begin + 16 * i]) : 0.0;
#pragma unroll
            for (int i = 0; i < 9; i++)
                v += part[i];
        }
#pragma unroll
        for (int d = 8; d > 0; d >>= 1)
            v += __shfl_xor_sync(0xffffffffu, v, d);
        if (place == 0 && s < N_SUMS)
            shared_state.sums[s] = v;
    }
    __syncthreads();
}

// Thread 0: what the next iteration needs of pose and sigma.
static __device__ void take_state(const struct plan *plan)
{
    const struct se3 *T = &shared_state.run.T;
    for (int i = 0; i < 3; i++)
        shared_state.T[i] = make_float4((float)T->r[3 * i], (float)T->r[3 * i + 1],
                                        (float)T->r[3 * i + 2], (float)T->t_m[i]);
    const struct register_anneal *anneal = &plan->anneal;
    const double sigma2 = shared_state.schedule.sigma2;
    shared_state.k_before = shared_state.k;
    if (sigma2 == shared_state.sigma2)
        return;
    shared_state.sigma2 = sigma2;
    shared_state.k = (float)(0.72134752044448170 / sigma2);
    if (anneal->weighting == REGISTER_WEIGHTING_PAPER) {
        shared_state.outlier = sigma2 == shared_state.next_sigma2
                                   ? shared_state.next_outlier
                                   : exp(-anneal->outlier_d2 / sigma2);
        return;
    }
    shared_state.slack = anneal->slack * exp(-anneal->slack_alpha / (2 * sigma2));
    if (anneal->slack_spacing > 0)
        shared_state.slack = register_slack(shared_state.slack, sigma2, anneal->slack_spacing);
}

// Rows [first, last) of n that a block of the team owns.
static __device__ uint32_t share_of(uint32_t n, const struct team *team, uint32_t *first)
{
    *first = (uint32_t)((uint64_t)n * team->block / team->n_blocks);
    return (uint32_t)((uint64_t)n * (team->block + 1) / team->n_blocks) - *first;
}

// A pass whose rows are points of `side`, columns those of the other; the source is moved.
static __device__ struct pass_input pass_over(const struct plan *plan, const struct team *team,
                                              enum register_side side, const float *log2_w, float k)
{
    const bool by_source = side == REGISTER_SOURCE;
    struct pass_input in;
    in.rows = by_source ? plan->source : plan->target;
    in.columns = by_source ? plan->target : plan->source;
    in.log2_w = log2_w;
    in.move_rows = by_source;
    in.move_columns = !by_source;
    in.n_rows =
        share_of(by_source ? plan->anneal.n_source : plan->anneal.n_target, team, &in.first);
    in.n_columns = by_source ? plan->anneal.n_target : plan->anneal.n_source;
    in.tile = plan->tile;
    in.k = k;
    in.k_before = 0;
    return in;
}

// E- and M-step of the paper's EM-ICP: rows are source points.
static __device__ void paper_iteration(const struct plan *plan, struct team *team,
                                       uint32_t iteration)
{
    const uint32_t parity = iteration & 1;
    struct pass_input in = pass_over(plan, team, REGISTER_SOURCE, NULL, shared_state.k);
    in.k_before = iteration > 0 ? shared_state.k_before : 0;
    const float *rows = (const float *)(shared_state.tile + in.tile);
    if (threadIdx.x == 32) { // while the others begin, and not on the way of the solve
        shared_state.next_sigma2 = shared_state.sigma2 * plan->anneal.factor;
        shared_state.next_outlier = exp(-plan->anneal.outlier_d2 / shared_state.next_sigma2);
    }
    if (plan->tensor)
        tensor_pass(in, iteration > 0 && in.n_columns <= tensor_tile(in.tile));
    else
        pass<SUM_SQUARES>(in);
    double mine[REGISTER_N_POINT_SUMS] = {0};
    for (uint32_t i = threadIdx.x; i < in.n_rows; i += blockDim.x) {
        const float *row = rows + i * SUM_SQUARES;
        const float4 p = moved(in.rows[in.first + i], shared_state.T);
        const double sum_x[3] = {row[1], row[2], row[3]}, y[3] = {p.x, p.y, p.z};
        double x[3];
        double lambda =
            register_paper_row(row[0], row[4], sum_x, shared_state.outlier, shared_state.mean, x);
        register_add_pair(mine, lambda, x, y);
    }
    exchange_sums<REGISTER_N_POINT_SUMS>(plan, team, mine, in.n_rows, parity);
}

// Row sums of one side against the weights of the other -> log2 weights of the rows.
static __device__ void scale_rows(struct team *team, const struct pass_input *in, float *out_log2)
{
    const float *rows = (const float *)(shared_state.tile + in->tile);
    const float slack = (float)shared_state.slack;
    pass<SUM_E>(*in);
    for (uint32_t i = threadIdx.x; i < in->n_rows; i += blockDim.x)
        out_log2[in->first + i] = -__log2f(slack + rows[i]);
    team_barrier(team);
}

// The moments of this block's target rows -> pairs, and log2 v.
template <bool PLANES>
static __device__ void add_pairs(const struct plan *plan, const struct pass_input *in,
                                 float *log2_v, double *mine)
{
    const float *rows = (const float *)(shared_state.tile + in->tile);
    const double slack = shared_state.slack;
    for (uint32_t i = threadIdx.x; i < in->n_rows; i += blockDim.x) {
        const float *row = rows + i * SUM_MOMENTS;
        const float4 p = in->rows[in->first + i];
        log2_v[in->first + i] = -__log2f((float)slack + row[0]);
        if (!(row[0] > 1e-37f))
            continue;
        const double inverse = 1.0 / row[0], weight = row[0] / (slack + row[0]);
        const double x[3] = {p.x, p.y, p.z};
        const double y[3] = {row[1] * inverse, row[2] * inverse, row[3] * inverse};
        register_add_pair(mine, weight, x, y);
        if (PLANES) {
            const float4 normal = plan->normals[in->first + i];
            const double n[3] = {normal.x, normal.y, normal.z};
            register_add_plane(mine, weight, x, y, n);
        }
    }
}

static __device__ void sinkhorn_iteration(const struct plan *plan, struct team *team,
                                          uint32_t iteration)
{
    const struct register_anneal *anneal = &plan->anneal;
    const uint32_t parity = iteration & 1;
    float *log2_u = plan->log2_u + (size_t)team->run * anneal->n_source;
    float *log2_v = plan->log2_v + (size_t)team->run * anneal->n_target;
    struct pass_input by_source = pass_over(plan, team, REGISTER_SOURCE, log2_v, shared_state.k);
    const struct pass_input by_target =
        pass_over(plan, team, REGISTER_TARGET, log2_u, shared_state.k);
    for (uint32_t sweep = 1; sweep <= anneal->n_sweeps; sweep++) {
        bool fresh = sweep == 1 && (anneal->cold || iteration == 0);
        by_source.log2_w = fresh ? NULL : log2_v;
        scale_rows(team, &by_source, log2_u);
        if (sweep < anneal->n_sweeps)
            scale_rows(team, &by_target, log2_v);
    }
    pass<SUM_MOMENTS>(by_target);
    if (anneal->planes) {
        double mine[REGISTER_N_SUMS] = {0};
        add_pairs<true>(plan, &by_target, log2_v, mine);
        exchange_sums<REGISTER_N_SUMS>(plan, team, mine, by_target.n_rows, parity);
    } else {
        double mine[REGISTER_N_POINT_SUMS] = {0};
        add_pairs<false>(plan, &by_target, log2_v, mine);
        exchange_sums<REGISTER_N_POINT_SUMS>(plan, team, mine, by_target.n_rows, parity);
    }
}

static __device__ void measure_presence(const struct plan *plan, struct team *team, uint32_t parity)
{
    const struct register_anneal *anneal = &plan->anneal;
    const double sigma2 = anneal->presence_sigma2, spacing = anneal->presence_spacing;
    double mine[2] = {0, 0};
    for (int side = 0; side < 2; side++) {
        const struct pass_input in = pass_over(plan, team, (enum register_side)side, NULL,
                                               (float)(0.72134752044448170 / sigma2));
        const float *rows = (const float *)(shared_state.tile + in.tile);
        __syncthreads();
        pass<SUM_E>(in);
        for (uint32_t i = threadIdx.x; i < in.n_rows; i += blockDim.x)
            mine[side] += register_presence(rows[i], sigma2, spacing);
    }
    exchange_sums<2>(plan, team, mine, blockDim.x, parity);
    if (threadIdx.x == 0) {
        shared_state.run.presence_source = shared_state.sums[0] / anneal->n_source;
        shared_state.run.presence_target = shared_state.sums[1] / anneal->n_target;
    }
}

// Mean of the target points, by every block for itself.
static __device__ void find_mean(const struct plan *plan)
{
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    double mine[3] = {0, 0, 0};
    for (uint32_t j = threadIdx.x; j < plan->anneal.n_target; j += blockDim.x) {
        const float4 p = plan->target[j];
        mine[0] += p.x;
        mine[1] += p.y;
        mine[2] += p.z;
    }
    for (int a = 0; a < 3; a++) {
        for (int d = 16; d > 0; d >>= 1)
            mine[a] += __shfl_xor_sync(0xffffffffu, mine[a], d);
        if (lane == 0)
            shared_state.warp_sums[warp][a] = mine[a];
    }
    __syncthreads();
    if (threadIdx.x < 3) {
        double sum = 0;
        for (uint32_t w = 0; w < blockDim.x / 32; w++)
            sum += shared_state.warp_sums[w][threadIdx.x];
        shared_state.mean[threadIdx.x] = sum / plan->anneal.n_target;
    }
    __syncthreads();
}

template <int BLOCK>
static __global__ void __launch_bounds__(BLOCK, BIG_BLOCK / BLOCK)
    anneal_kernel(const __grid_constant__ struct plan plan)
{
    struct team team = {blockIdx.x / plan.team, blockIdx.x % plan.team, plan.team, NULL, 0};
    team.arrivals = plan.arrivals + team.run;
    const bool paper = plan.anneal.weighting == REGISTER_WEIGHTING_PAPER;
    if (threadIdx.x == 0) {
        shared_state.run = plan.runs[team.run];
        shared_state.schedule = register_schedule_begin(&plan.anneal, &shared_state.run);
        shared_state.sigma2 = 0;
        take_state(&plan);
    }
    if (paper)
        find_mean(&plan);
    __syncthreads();
    uint32_t iteration = 0;
    do {
        if (paper)
            paper_iteration(&plan, &team, iteration);
        else
            sinkhorn_iteration(&plan, &team, iteration);
        iteration++;
        if (threadIdx.x == 0) {
            double size = register_step(shared_state.sums, plan.anneal.planes, &shared_state.run);
            register_schedule_note(&plan.anneal, size, &shared_state.run);
            shared_state.more =
                register_schedule_next(&plan.anneal, &shared_state.run, &shared_state.schedule);
            if (!shared_state.more)
                register_finish(shared_state.sums, &shared_state.run);
            take_state(&plan);
        }
        __syncthreads();
    } while (shared_state.more);
    if (plan.anneal.presence_sigma2 > 0)
        measure_presence(&plan, &team, iteration & 1);
    if (threadIdx.x == 0 && team.block == 0)
        plan.runs[team.run] = shared_state.run;
}

static __global__ void pack_kernel(const float *x, const float *y, const float *z, uint32_t n,
                                   float4 *out)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = make_float4(x[i], y[i], z[i],
                             __fmaf_rn(x[i], x[i], __fmaf_rn(y[i], y[i], z[i] * z[i])));
}

int register_cuda_check(struct register_cuda *cuda, cudaError_t error, const char *what, int line)
{
    if (error == cudaSuccess)
        return 0;
    if (!cuda->logged_error)
        log_to(&cuda->log, LOG_LEVEL_ERROR, "cuda: register line %d: %s: %s", line, what,
               cudaGetErrorString(error));
    cuda->logged_error = error != cudaErrorMemoryAllocation;
    return error == cudaErrorMemoryAllocation ? -ENOMEM : -EIO;
}

int register_cuda_reserve(struct register_cuda *cuda, struct register_memory *memory, size_t bytes)
{
    if (bytes <= memory->bytes)
        return 0;
    if (memory->at)
        cudaFree(memory->at);
    memory->at = NULL;
    memory->bytes = 0;
    CHECK(cudaMalloc(&memory->at, bytes));
    memory->bytes = bytes;
    return 0;
}

// How a batch is laid out on the device.
struct layout {
    int block;
    uint32_t team;
    size_t shared_bytes;
};

static const void *kernel_for(int block)
{
    return block == BIG_BLOCK ? (const void *)anneal_kernel<BIG_BLOCK>
                              : (const void *)anneal_kernel<SMALL_BLOCK>;
}

static size_t shared_for(const struct register_cuda *cuda, const struct register_anneal *anneal,
                         uint32_t team, bool tensor, uint32_t *out_tile)
{
    uint32_t most = anneal->n_source > anneal->n_target ? anneal->n_source : anneal->n_target;
    uint32_t rows = most / team + 2;
    size_t row_bytes = ((size_t)rows * SUM_SQUARES * sizeof(float) + 15) / 16 * 16;
    size_t room =
        cuda->shared_bytes > row_bytes ? (cuda->shared_bytes - row_bytes) / sizeof(float4) : 0;
    uint32_t tile = most < MAX_TILE ? most : MAX_TILE;
    tile = (tensor ? tile * 5 / 4 + 20 : tile);
    *out_tile = tile < room ? tile : (uint32_t)room;
    return sizeof(struct block_state) + *out_tile * sizeof(float4) + row_bytes;
}

// Tensor cores: for the paper's weights, where no slot of the products leaves the range of a half
// (6e4) and padding is far enough; a source point may stand as far off as both sets are large.
static bool fits_tensor(const struct register_cuda *cuda, const struct register_anneal *anneal)
{
    const double reach = 2 * (cuda->reach[0] + cuda->reach[1]);
    const double k_last = 0.72134752044448170 / anneal->sigma2_last;
    const double k_first = 0.72134752044448170 / anneal->sigma2_first;
    // Small sets wait for the barrier, not for arithmetic, and have fewer weights to average over.
    const bool large = (uint64_t)anneal->n_source * anneal->n_target >= 1u << 20;
    return cuda->has_tensor && large && anneal->weighting == REGISTER_WEIGHTING_PAPER &&
           k_last * (reach * reach + 2 * reach) < 5e4 && reach * reach < 5e4 && k_first > 0.01;
}

static int choose_layout(struct register_cuda *cuda, const struct register_anneal *anneal,
                         uint32_t n_runs, struct layout *out, struct plan *plan)
{
    uint32_t most = anneal->n_source > anneal->n_target ? anneal->n_source : anneal->n_target;
    // Fewer than 16 rows a block and the barrier costs more than the rows.
    uint32_t useful = (most + 15) / 16;
    out->team = (uint32_t)cuda->n_sms / n_runs;
    out->team = out->team < 1 ? 1 : out->team > useful ? useful : out->team;
    out->block = n_runs > (uint32_t)cuda->n_sms ? SMALL_BLOCK : BIG_BLOCK;
    out->shared_bytes = shared_for(cuda, anneal, out->team, plan->tensor, &plan->tile);
    plan->team = out->team;
    if (plan->tile < 32 && plan->tile < most) // so many rows a block that no room is left
        return -ENOMEM;
    CHECK(cudaFuncSetAttribute(kernel_for(out->block), cudaFuncAttributeMaxDynamicSharedMemorySize,
                               (int)out->shared_bytes));
    return 0;
}

static int launch(struct register_cuda *cuda, const struct layout *layout, uint32_t n_runs,
                  struct plan *plan)
{
    void *arguments[] = {plan};
    if (layout->team > 1)
        CHECK(cudaLaunchCooperativeKernel(kernel_for(layout->block), dim3(n_runs * layout->team),
                                          dim3((unsigned)layout->block), arguments,
                                          layout->shared_bytes, cuda->stream));
    else
        CHECK(cudaLaunchKernel(kernel_for(layout->block), dim3(n_runs),
                               dim3((unsigned)layout->block), arguments, layout->shared_bytes,
                               cuda->stream));
    return 0;
}

static int anneal_streaming(struct register_cuda *cuda, const struct register_anneal *anneal,
                            struct register_run *runs, uint32_t n_runs)
{
    struct plan plan;
    struct layout layout;
    memset(&plan, 0, sizeof plan);
    plan.anneal = *anneal;
    plan.source = (const float4 *)cuda->points[REGISTER_SOURCE].at;
    plan.target = (const float4 *)cuda->points[REGISTER_TARGET].at;
    plan.normals = (const float4 *)cuda->normals[REGISTER_TARGET].at;
    plan.tensor = fits_tensor(cuda, anneal);
    int rc = choose_layout(cuda, anneal, n_runs, &layout, &plan);
    if (rc < 0)
        return rc;
    size_t u_bytes = (size_t)n_runs * anneal->n_source * sizeof(float);
    size_t v_bytes = (size_t)n_runs * anneal->n_target * sizeof(float);
    size_t partial_bytes = (size_t)n_runs * 2 * layout.team * REGISTER_N_SUMS * sizeof(double);
    size_t arrival_bytes = n_runs * sizeof(unsigned), run_bytes = n_runs * sizeof *runs;
    rc = register_cuda_reserve(cuda, &cuda->scratch,
                               partial_bytes + u_bytes + v_bytes + arrival_bytes);
    if (rc == 0)
        rc = register_cuda_reserve(cuda, &cuda->runs, run_bytes);
    if (rc < 0)
        return rc;
    plan.partial = (double *)cuda->scratch.at;
    plan.log2_u = (float *)((char *)cuda->scratch.at + partial_bytes);
    plan.log2_v = plan.log2_u + (size_t)n_runs * anneal->n_source;
    plan.arrivals = (unsigned *)(plan.log2_v + (size_t)n_runs * anneal->n_target);
    plan.runs = (struct register_run *)cuda->runs.at;
    CHECK(cudaMemsetAsync(plan.arrivals, 0, arrival_bytes, cuda->stream));
    CHECK(cudaMemcpyAsync(plan.runs, runs, run_bytes, cudaMemcpyHostToDevice, cuda->stream));
    rc = launch(cuda, &layout, n_runs, &plan);
    if (rc < 0)
        return rc;
    CHECK(cudaMemcpyAsync(runs, plan.runs, run_bytes, cudaMemcpyDeviceToHost, cuda->stream));
    CHECK(cudaStreamSynchronize(cuda->stream));
    return 0;
}

static int cuda_anneal(void *device, const struct register_anneal *anneal,
                       struct register_run *runs, uint32_t n_runs, const struct register_stop *stop)
{
    struct register_cuda *cuda = (struct register_cuda *)device;
    int rc = register_stopped(stop);
    if (rc < 0)
        return rc;
    CHECK(cudaSetDevice(cuda->index));
    if (anneal->form == REGISTER_FORM_DENSE)
        return register_cuda_anneal_dense(cuda, anneal, runs, stop);
    return anneal_streaming(cuda, anneal, runs, n_runs);
}

static int upload(struct register_cuda *cuda, const float *const axes[3], uint32_t n,
                  struct register_memory *out)
{
    int rc = register_cuda_reserve(cuda, &cuda->staging, 3 * (size_t)n * sizeof(float));
    if (rc == 0)
        rc = register_cuda_reserve(cuda, out, n * sizeof(float4));
    if (rc < 0)
        return rc;
    float *staging = (float *)cuda->staging.at;
    for (int a = 0; a < 3; a++)
        CHECK(cudaMemcpyAsync(staging + (size_t)a * n, axes[a], n * sizeof(float),
                              cudaMemcpyHostToDevice, cuda->stream));
    pack_kernel<<<(n + 255) / 256, 256, 0, cuda->stream>>>(
        staging, staging + n, staging + 2 * (size_t)n, n, (float4 *)out->at);
    CHECK(cudaGetLastError());
    return 0;
}

static int cuda_load(void *device, enum register_side side, const struct point_set *points)
{
    struct register_cuda *cuda = (struct register_cuda *)device;
    CHECK(cudaSetDevice(cuda->index));
    const float *const axes[3] = {points->x_m, points->y_m, points->z_m};
    const float *const normals[3] = {points->nx, points->ny, points->nz};
    cuda->n[side] = (uint32_t)points->n_points;
    double reach2 = 0;
    for (size_t i = 0; i < points->n_points; i++) {
        double x = axes[0][i], y = axes[1][i], z = axes[2][i];
        reach2 = fmax(reach2, x * x + y * y + z * z);
    }
    cuda->reach[side] = sqrt(reach2);
    int rc = upload(cuda, axes, cuda->n[side], &cuda->points[side]);
    if (side == REGISTER_TARGET) {
        for (int a = 0; a < 3; a++) {
            cuda->low[a] = cuda->high[a] = axes[a][0];
            for (size_t i = 1; i < points->n_points; i++) {
                cuda->low[a] = fminf(cuda->low[a], axes[a][i]);
                cuda->high[a] = fmaxf(cuda->high[a], axes[a][i]);
            }
        }
        if (rc == 0 && points->nx)
            rc = upload(cuda, normals, cuda->n[side], &cuda->normals[side]);
    }
    return rc;
}

static void cuda_close(void *device)
{
    struct register_cuda *cuda = (struct register_cuda *)device;
    if (!cuda)
        return;
    cudaSetDevice(cuda->index);
    struct register_memory *const memories[] = {
        &cuda->points[0], &cuda->points[1], &cuda->normals[0], &cuda->normals[1],
        &cuda->staging,   &cuda->scratch,   &cuda->runs,       &cuda->grid};
    register_cuda_dense_close(cuda);
    for (size_t i = 0; i < sizeof memories / sizeof memories[0]; i++)
        if (memories[i]->at)
            cudaFree(memories[i]->at);
    if (cuda->stream)
        cudaStreamDestroy(cuda->stream);
    free(cuda);
}

static int cuda_open(void **out_device, const struct register_config *config)
{
    int n_devices = 0;
    if (cudaGetDeviceCount(&n_devices) != cudaSuccess || n_devices == 0 ||
        config->cuda_device >= n_devices) {
        cudaGetLastError();
        return -ENODEV;
    }
    struct register_cuda *cuda = (struct register_cuda *)calloc(1, sizeof *cuda);
    if (!cuda)
        return -ENOMEM;
    struct cudaDeviceProp properties;
    cuda->index = config->cuda_device < 0 ? 0 : config->cuda_device;
    cuda->log = config->log;
    if (cudaGetDeviceProperties(&properties, cuda->index) != cudaSuccess ||
        !properties.cooperativeLaunch || cudaSetDevice(cuda->index) != cudaSuccess ||
        cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking) != cudaSuccess) {
        cudaGetLastError();
        free(cuda);
        return -ENODEV;
    }
    cuda->n_sms = properties.multiProcessorCount;
    cuda->has_tensor = properties.major >= 8;
    cuda->shared_bytes = properties.sharedMemPerBlockOptin - sizeof(struct block_state);
    snprintf(cuda->name, sizeof cuda->name, "cuda: %.90s, %d SMs", properties.name, cuda->n_sms);
    *out_device = cuda;
    return 0;
}

static void cuda_describe(const void *device, char *out, size_t size)
{
    snprintf(out, size, "%s", ((const struct register_cuda *)device)->name);
}

static size_t cuda_memory_bytes(const void *device)
{
    const struct register_cuda *cuda = (const struct register_cuda *)device;
    return cuda->points[0].bytes + cuda->points[1].bytes + cuda->normals[0].bytes +
           cuda->normals[1].bytes + cuda->staging.bytes + cuda->scratch.bytes + cuda->runs.bytes +
           cuda->grid.bytes;
}

extern "C" const struct register_ops register_cuda_ops = {
    GPU_BACKEND_CUDA,      cuda_open,         cuda_close, cuda_describe, cuda_load, cuda_anneal,
    register_cuda_nearest, cuda_memory_bytes,
};

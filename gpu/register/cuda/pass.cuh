// SPDX-License-Identifier: Apache-2.0
// One pass over a tile of columns: for each row i of a block the sums over the tile's columns j of
//   e_ij = w_j exp(-|p_i - x_j|^2 / (2 sigma^2)), and of e x_j, e^2 where they are wanted.
// Columns pass through shared memory as (x, y, z, b), so that the exponent of a pair is three
// multiply-adds and an addition:
//   log2 e_ij = 2k p_i . x_j - k |p_i|^2 + b_j
//   b_j = log2 w_j - k |x_j|^2,  k = log2(e) / (2 sigma^2)
// A weight costs nothing: it rides in b. It is always the rows that are moved into the frame of the
// columns, so that a tile's coordinates stay as they are and only b changes.
//
// The work of a block is cut evenly: its groups of rows times the tile's steps of columns are one
// line, of which each warp takes the same length, wherever groups begin and end; what warps that
// share a group found is then added in their order.
#ifndef POSED_GPU_REGISTER_CUDA_PASS_CUH
#define POSED_GPU_REGISTER_CUDA_PASS_CUH

#include "gpu/register/cuda/block.cuh"

#define FLOAT_ROWS 8 // rows of a group: a lane holds all of them
#define FLOAT_STEP 32

struct pass {
    const float4 *rows; // of this chunk
    uint32_t n_rows;    // of this chunk
    int side;           // of the rows
    float k;
    const float4 *columns; // of the whole set
    uint32_t first, n;     // columns of this tile
    uint32_t tile_at;      // of the tile, bytes into shared memory
    uint32_t tile_room;    // columns for which the tile has room
    uint32_t out_at;       // sums of the chunk's rows, bytes into shared memory
    bool add;              // to what is there, else in its place
    bool prepared;         // the operands of the rows are in shared memory
};

static __device__ __forceinline__ float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// T: rows of (R | t). The last lane holds |p|^2, as pack_kernel makes it.
static __device__ __forceinline__ float4 moved(const float4 p, const float4 *T)
{
    float x = __fmaf_rn(T[0].x, p.x, __fmaf_rn(T[0].y, p.y, __fmaf_rn(T[0].z, p.z, T[0].w)));
    float y = __fmaf_rn(T[1].x, p.x, __fmaf_rn(T[1].y, p.y, __fmaf_rn(T[1].z, p.z, T[1].w)));
    float z = __fmaf_rn(T[2].x, p.x, __fmaf_rn(T[2].y, p.y, __fmaf_rn(T[2].z, p.z, T[2].w)));
    return make_float4(x, y, z, __fmaf_rn(x, x, __fmaf_rn(y, y, z * z)));
}

// Row `row` of the chunk in the columns' frame; beyond the last one the origin.
static __device__ __forceinline__ float4 row_of(const struct pass *in, uint32_t row)
{
    if (row >= in->n_rows)
        return make_float4(0, 0, 0, 0);
    return moved(in->rows[row], shared_state.T[in->side]);
}

static __device__ __forceinline__ float4 *float_tile(const struct pass *in)
{
    return (float4 *)((char *)dynamic_memory + in->tile_at);
}

// Which part of a block's line of work a warp has: units [begin, end) of n_groups * n_steps.
static __device__ __forceinline__ uint32_t warp_begin(uint32_t n_units, uint32_t warp)
{
    return n_units * warp / (blockDim.x / 32);
}

// Where the sums of a warp's part of a group go: to the rows when it has all of it, else to one of
// the warp's two slots (only its first and its last group can be shared).
static __device__ __forceinline__ float *split_slot(uint32_t warp, bool is_first)
{
    return shared_state.split[warp][is_first ? 0 : 1];
}

// Adds what the warps that share groups left in their slots.
template <int WHAT, int ROWS>
static __device__ __forceinline__ void join_warps(const struct pass *in, uint32_t n_steps)
{
    const uint32_t n_warps = blockDim.x / 32;
    const uint32_t n_units = (in->n_rows + ROWS - 1) / ROWS * n_steps;
    float *out = (float *)((char *)dynamic_memory + in->out_at);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < in->n_rows * WHAT; i += blockDim.x) {
        const uint32_t begin = i / WHAT / ROWS * n_steps; // the group's units
        // The warps that have its first and its last unit.
        const uint32_t w0 = (n_warps * (begin + 1) - 1) / n_units;
        const uint32_t w1 = (n_warps * (begin + n_steps) - 1) / n_units;
        if (w0 == w1)
            continue;
        float sum = split_slot(w0, warp_begin(n_units, w0) == begin)[i % (ROWS * WHAT)];
        for (uint32_t w = w0 + 1; w <= w1; w++)
            if (warp_begin(n_units, w) < warp_begin(n_units, w + 1))
                sum += split_slot(w, true)[i % (ROWS * WHAT)];
        out[i] = in->add ? out[i] + sum : sum;
    }
    __syncthreads();
}

// log2 of the columns' weights, from where their owners post them with `tag`; NULL: all 0. Each
// goes to `put`, two a load, BATCH loads of a thread under way at a time. False: the time was over
// before all were there.
template <uint32_t BATCH>
static __device__ __forceinline__ bool
stage_weights(const struct pass *in, const struct plan *plan, const struct block *b,
              const unsigned long long *weights, uint32_t tag,
              void (*put)(const struct pass *in, uint32_t column, float log2_weight))
{
    const uint32_t n_pairs = (in->n + 1) / 2;
    bool late = false;
    if (weights && plan->team > 1 && !wait_for_blocks(plan, b, weights, 1 - in->side, tag))
        return false;
    for (uint32_t j = threadIdx.x; j < n_pairs; j += BATCH * blockDim.x) {
        unsigned long long word[BATCH][2];
        bool there = true;
        do {
            late = late || (!there && time_is_over(plan, b));
            there = true;
#pragma unroll
            for (uint32_t i = 0; i < BATCH; i++) {
                const uint32_t at = 2 * min(j + i * blockDim.x, n_pairs - 1);
                word[i][0] = word[i][1] = weight_word(0, tag);
                if (weights)
                    load_words(&weights[in->first + at], &word[i][0], &word[i][1]);
                there = there && (uint32_t)(word[i][0] >> 32) == tag &&
                        (at + 1 >= in->n || (uint32_t)(word[i][1] >> 32) == tag);
            }
        } while (!there && !late);
#pragma unroll
        for (uint32_t i = 0; i < 2 * BATCH; i++) {
            const uint32_t at = 2 * (j + i / 2 * blockDim.x) + i % 2;
            if (at < in->n)
                put(in, at, __uint_as_float((uint32_t)word[i / 2][i % 2]));
        }
    }
    return !__syncthreads_or(late);
}

static __device__ __forceinline__ void put_float_weight(const struct pass *in, uint32_t column,
                                                        float log2_weight)
{
    float4 *tile = float_tile(in);
    const float4 x = tile[column];
    const float q = __fmaf_rn(x.x, x.x, __fmaf_rn(x.y, x.y, x.z * x.z));
    tile[column].w = __fmaf_rn(-in->k, q, log2_weight);
}

// Columns into shared memory, or only their b when `coordinates` is false. `weights` and what is
// returned: see stage_weights.
static __device__ __forceinline__ bool stage_float(const struct pass *in, const struct plan *plan,
                                                   const struct block *b,
                                                   const unsigned long long *weights, uint32_t tag,
                                                   bool coordinates)
{
    float4 *tile = float_tile(in);
    for (uint32_t j = threadIdx.x; coordinates && j < in->n; j += 4 * blockDim.x) {
        float4 x[4];
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            x[i] = in->columns[in->first + min(j + i * blockDim.x, in->n - 1)];
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            if (j + i * blockDim.x < in->n)
                tile[j + i * blockDim.x] = x[i];
    }
    if (coordinates)
        __syncthreads();
    return stage_weights<4>(in, plan, b, weights, tag, put_float_weight);
}

// Sums each of 8 values over the warp with 9 shuffles; lane l returns value (l >> 2) & 7.
static __device__ __forceinline__ float reduce8(const float v[FLOAT_ROWS], int lane)
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

struct float_row_group {
    float ax[FLOAT_ROWS], ay[FLOAT_ROWS], az[FLOAT_ROWS], c[FLOAT_ROWS];
};

template <int WHAT>
static __device__ __forceinline__ void add_column(const struct float_row_group *g, const float4 x,
                                                  float acc[WHAT][FLOAT_ROWS])
{
#pragma unroll
    for (int r = 0; r < FLOAT_ROWS; r++) {
        const float e = exp2_fast(__fmaf_rn(
            g->ax[r], x.x, __fmaf_rn(g->ay[r], x.y, __fmaf_rn(g->az[r], x.z, g->c[r] + x.w))));
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

// out[row * WHAT + s]; s = e, e x, e y, e z, e^2. Not inlined: its registers are then its own, and
// the double arithmetic around it does not push the row constants into local memory.
template <int WHAT> static __device__ __noinline__ void float_pass(const struct pass in)
{
    float *out = (float *)((char *)dynamic_memory + in.out_at);
    const float4 *tile = float_tile(&in);
    const int lane = threadIdx.x & 31;
    const uint32_t warp = threadIdx.x / 32, n_steps = (in.n + FLOAT_STEP - 1) / FLOAT_STEP;
    const uint32_t n_units = (in.n_rows + FLOAT_ROWS - 1) / FLOAT_ROWS * n_steps;
    const uint32_t begin = warp_begin(n_units, warp), end = warp_begin(n_units, warp + 1);
    for (uint32_t unit = begin; unit < end;) {
        const uint32_t group = unit / n_steps, step = unit - group * n_steps;
        const uint32_t n = min(n_steps - step, end - unit);
        struct float_row_group g;
        float acc[WHAT][FLOAT_ROWS];
#pragma unroll
        for (int r = 0; r < FLOAT_ROWS; r++) {
            const float4 p = row_of(&in, group * FLOAT_ROWS + (uint32_t)r);
            g.ax[r] = 2 * in.k * p.x;
            g.ay[r] = 2 * in.k * p.y;
            g.az[r] = 2 * in.k * p.z;
            g.c[r] = -in.k * p.w;
#pragma unroll
            for (int s = 0; s < WHAT; s++)
                acc[s][r] = 0;
        }
        const uint32_t last = min((step + n) * FLOAT_STEP, in.n);
        uint32_t j = step * FLOAT_STEP + (uint32_t)lane;
        // Two columns at once: warps in step would else all wait for the exponential unit and then
        // all for the multiply-adds. Sums of e alone are faster without.
        for (; WHAT != SUM_E && j + FLOAT_STEP < last; j += 2 * FLOAT_STEP) {
            const float4 x = tile[j], x2 = tile[j + FLOAT_STEP];
            add_column<WHAT>(&g, x, acc);
            add_column<WHAT>(&g, x2, acc);
        }
        for (; j < last; j += FLOAT_STEP)
            add_column<WHAT>(&g, tile[j], acc);
        const uint32_t in_group = (uint32_t)lane >> 2, row = group * FLOAT_ROWS + in_group;
        float *slot = split_slot(warp, unit == begin);
        __syncwarp();
#pragma unroll
        for (int s = 0; s < WHAT; s++) {
            const float sum = reduce8(acc[s], lane);
            if ((lane & 3) != 0)
                continue;
            if (n < n_steps)
                slot[in_group * WHAT + (uint32_t)s] = sum;
            else if (row < in.n_rows)
                out[row * WHAT + (uint32_t)s] = in.add ? out[row * WHAT + (uint32_t)s] + sum : sum;
        }
        unit += n;
    }
    join_warps<WHAT, FLOAT_ROWS>(&in, n_steps);
}

#endif

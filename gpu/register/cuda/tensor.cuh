// SPDX-License-Identifier: Apache-2.0
// The pass of pass.cuh on tensor cores.
// A warp's product makes the exponents of 16 rows and 8 columns.
// A column is stored as eight halves, X_h Y_h Z_h S X_l Y_l Z_l q_h, and a word (h and l: a number
// split in two halves; S = 64, X = S x). Where columns have no weights (SUM_SQUARES) the word is
// q_l q_h, q = |x|^2, and nothing depends on sigma; the sixteen slots of m16n8k16 are then
//   rows    2kp_h/S (3)  c_h | 2kp_h/S (3)  -k_h | 2kp_l/S (3)  c_l | -k_h  -k_l  0 0
//   columns X_h (3)      S   | X_l (3)      q_h  | X_h (3)      S   | q_l   q_h
// with c = -k |p|^2 / S. Where they have weights the word is b_j in float, which the product starts
// from, and the slots of k and q are 0. S keeps the parts within the range of a half.
// The weights, packed to halves, lie in the registers as the left operand of the product with the
// same bytes, read transposed, that sums w and w x; sums of e alone and of e^2 stay in float. 22
// bits of a coordinate take part in the exponent and 11 of a weight in the sums, where they average
// out: the transform agrees with the float pass to 1e-5.
#ifndef POSED_GPU_REGISTER_CUDA_TENSOR_CUH
#define POSED_GPU_REGISTER_CUDA_TENSOR_CUH

#include "gpu/register/cuda/pass.cuh"

#include <cuda_fp16.h> // last: it declares a global `half`, a name that others use

#define TENSOR_ROWS  16
#define TENSOR_STEP  16
#define TENSOR_SCALE 64.0f

static __device__ __forceinline__ uint32_t pack_halves(__half low, __half high)
{
    return (uint32_t)__half_as_ushort(low) | (uint32_t)__half_as_ushort(high) << 16;
}

static __device__ __forceinline__ void split_halves(float x, __half *high, __half *low)
{
    *high = __float2half_rn(x);
    *low = __float2half_rn(x - __half2float(*high));
}

static __device__ __forceinline__ float join_halves(uint32_t high, uint32_t low, int at)
{
    return __half2float(__ushort_as_half((unsigned short)(high >> at))) +
           __half2float(__ushort_as_half((unsigned short)(low >> at)));
}

// d = a b + c
static __device__ __forceinline__ void multiply_add(float d[4], const uint32_t a[4], uint32_t b0,
                                                    uint32_t b1, const float c[4])
{
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
        "{%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]),
          "f"(c[2]), "f"(c[3]));
#endif
}

static __device__ __forceinline__ uint4 *tensor_records(const struct pass *in)
{
    return (uint4 *)((char *)dynamic_memory + in->tile_at);
}

static __device__ __forceinline__ uint32_t *tensor_words(const struct pass *in)
{
    return (uint32_t *)(tensor_records(in) + in->tile_room);
}

// Padding up to whole steps is so far away that its e is 0.
static __device__ __forceinline__ void stage_records(const struct pass *in, bool weighted)
{
    uint4 *records = tensor_records(in);
    uint32_t *words = tensor_words(in);
    const uint32_t n_padded = (in->n + TENSOR_STEP - 1) / TENSOR_STEP * TENSOR_STEP;
    for (uint32_t j = threadIdx.x; j < n_padded; j += blockDim.x) {
        float4 x = make_float4(0, 0, 0, 60000.0f);
        if (j < in->n)
            x = in->columns[in->first + j];
        __half xh, xl, yh, yl, zh, zl, qh, ql;
        split_halves(TENSOR_SCALE * x.x, &xh, &xl);
        split_halves(TENSOR_SCALE * x.y, &yh, &yl);
        split_halves(TENSOR_SCALE * x.z, &zh, &zl);
        split_halves(weighted ? 0.0f : x.w, &qh, &ql);
        records[j] = make_uint4(pack_halves(xh, yh), pack_halves(zh, __float2half_rn(TENSOR_SCALE)),
                                pack_halves(xl, yl), pack_halves(zl, qh));
        words[j] = weighted ? __float_as_uint(-1e30f) : pack_halves(ql, qh);
    }
}

static __device__ __forceinline__ void put_tensor_weight(const struct pass *in, uint32_t column,
                                                         float log2_weight)
{
    const float k = in->k / (TENSOR_SCALE * TENSOR_SCALE);
    // |x|^2 of what the records hold, so that its error is theirs.
    const uint4 r = tensor_records(in)[column];
    const float x = join_halves(r.x, r.z, 0), y = join_halves(r.x, r.z, 16);
    const float z = join_halves(r.y, r.w, 0);
    const float q = __fmaf_rn(x, x, __fmaf_rn(y, y, z * z));
    ((float *)tensor_words(in))[column] = __fmaf_rn(-k, q, log2_weight);
}

// As stage_float. Without `weighted` nothing is left to do when the coordinates are there.
static __device__ __forceinline__ bool stage_tensor(const struct pass *in, const struct plan *plan,
                                                    const struct block *b, bool weighted,
                                                    const unsigned long long *weights, uint32_t tag,
                                                    bool coordinates)
{
    if (coordinates) {
        stage_records(in, weighted);
        __syncthreads();
    }
    return !weighted || stage_weights<5>(in, plan, b, weights, tag, put_tensor_weight);
}

// This lane's part of the left operand for rows `row` and `row + 8`.
static __device__ __forceinline__ void load_tensor_rows(const struct pass *in, uint32_t row,
                                                        uint32_t t, bool weighted, uint32_t a[4])
{
    const float k2 = 2 * in->k / TENSOR_SCALE, kc = -in->k / TENSOR_SCALE;
    __half kh, kl;
    split_halves(weighted ? 0.0f : -in->k, &kh, &kl);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float4 p = row_of(in, row + 8 * (uint32_t)i);
        __half xh, xl, yh, yl, zh, zl, ch, cl;
        split_halves(k2 * p.x, &xh, &xl);
        split_halves(k2 * p.y, &yh, &yl);
        split_halves(k2 * p.z, &zh, &zl);
        split_halves(kc * p.w, &ch, &cl);
        a[i] = t == 1 ? pack_halves(zh, ch) : t == 3 ? pack_halves(zh, kh) : pack_halves(xh, yh);
        a[2 + i] = t == 0   ? pack_halves(xl, yl)
                   : t == 1 ? pack_halves(zl, cl)
                   : t == 2 ? pack_halves(kh, kl)
                            : 0;
    }
}

// A degree-3 polynomial for 2^x on multiply-adds, right to 1e-4: takes a share of the exponentials
// off the unit that makes 16 a clock, which bounds the pass.
static __device__ __forceinline__ float exp2_polynomial(float x)
{
    const float shift = 12582912.0f; // 1.5 * 2^23: rounds to a whole number, in the low bits
    const float clamped = fmaxf(x, -126.0f), t = clamped + shift, f = clamped - (t - shift);
    const float p = __fmaf_rn(__fmaf_rn(__fmaf_rn(0.05517167f, f, 0.24261112f), f, 0.69326099f), f,
                              0.99992807f);
    return __int_as_float((__float_as_int(t) << 23) + __float_as_int(p));
}

// How many of the eight exponentials that a lane makes in a step it takes. Measured on an H200,
// clocks of a scheduler for a step (16 x 16 pairs) with 0, 1, 2, 3, 4 of them: 69, 67, 70, 79, 84
// with e^2, 69, 65, 64 without; the exponential unit alone would need 64, 56, 48 ...
template <int WHAT> static __device__ __forceinline__ constexpr int n_polynomials(void)
{
    return WHAT == SUM_SQUARES ? 1 : 2;
}

// Where a lane reads a step's columns, bytes into shared memory: its part of the right operands,
// its words, and the columns for the sums.
struct tensor_reader {
    const char *records, *words;
    uint32_t columns;
};

static __device__ __forceinline__ struct tensor_reader read_from(const struct pass *in,
                                                                 uint32_t column, bool weighted)
{
    const uint32_t lane = threadIdx.x & 31, g = lane / 4, t = lane & 3;
    const uint4 *records = tensor_records(in) + column;
    struct tensor_reader r;
    r.records = (const char *)(records + g) + 4 * t;
    r.words = (const char *)(tensor_words(in) + column) + (weighted ? 8 * t : 4 * g);
    r.columns = (uint32_t)__cvta_generic_to_shared(records + (lane & 15));
    return r;
}

static __device__ __forceinline__ void next_step(struct tensor_reader *r)
{
    r->records += TENSOR_STEP * 16;
    r->words += TENSOR_STEP * 4;
    r->columns += TENSOR_STEP * 16;
}

// The exponents of 16 rows and 16 columns.
template <int WHAT>
static __device__ __forceinline__ void
load_exponents(const uint32_t a[4], const struct tensor_reader *r, bool upper, float e[8])
{
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t b = *(const uint32_t *)(r->records + i * 8 * 16);
        if (WHAT == SUM_SQUARES) {
            const float zero[4] = {0, 0, 0, 0};
            const uint32_t extra = *(const uint32_t *)(r->words + i * 8 * 4);
            multiply_add(e + 4 * i, a, b, upper ? extra : b, zero); // t = 3: times 0
        } else {
            const float2 w = *(const float2 *)(r->words + i * 8 * 4);
            const float c[4] = {w.x, w.y, w.x, w.y};
            multiply_add(e + 4 * i, a, b, b, c); // t >= 2: times 0
        }
    }
}

template <int WHAT>
static __device__ __forceinline__ void add_exponents(float e[8], uint32_t columns, float sums[4],
                                                     float plain[8])
{
#pragma unroll
    for (int i = 0; i < 8; i++) {
        e[i] =
            i % 4 == 3 && i / 4 < n_polynomials<WHAT>() ? exp2_polynomial(e[i]) : exp2_fast(e[i]);
        if (WHAT == SUM_SQUARES)
            plain[i] = __fmaf_rn(e[i], e[i], plain[i]);
        else if (WHAT == SUM_E)
            plain[i] += e[i];
    }
    if (WHAT == SUM_E)
        return;
    uint32_t x[2], w[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(x[0]), "=r"(x[1])
                 : "r"(columns));
#pragma unroll
    for (int i = 0; i < 4; i++)
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w[i]) : "f"(e[2 * i + 1]), "f"(e[2 * i]));
    multiply_add(sums, w, x[0], x[1], sums);
}

// Sums of a row (g or g + 8) of a group over the lanes that share it, to `to`. plain: of e or e^2.
template <int WHAT>
static __device__ __forceinline__ void store_tensor_row(const float sums[2], float plain,
                                                        uint32_t t, bool add, float *to)
{
    float out[WHAT];
    bool mine[WHAT];
    if (WHAT != SUM_MOMENTS) {
        plain += __shfl_xor_sync(0xffffffffu, plain, 1);
        plain += __shfl_xor_sync(0xffffffffu, plain, 2);
    }
    if (WHAT == SUM_E) {
        out[0] = plain;
        mine[0] = t == 0;
    } else {
        // Lanes t = 0 and 2 hold x and y (high and low part), 1 and 3 hold z, 1 holds sum w.
        const float inverse = 1 / TENSOR_SCALE;
        const float u = sums[0] + __shfl_xor_sync(0xffffffffu, sums[0], 2);
        const float v = sums[1] + __shfl_xor_sync(0xffffffffu, sums[1], 2);
        out[0] = sums[1] * inverse;
        out[1 % WHAT] = out[3 % WHAT] = u * inverse;
        out[2 % WHAT] = v * inverse;
        mine[0] = mine[3 % WHAT] = t == 1;
        mine[1 % WHAT] = mine[2 % WHAT] = t == 0;
        if (WHAT == SUM_SQUARES) {
            out[4 % WHAT] = plain;
            mine[4 % WHAT] = t == 2;
        }
    }
#pragma unroll
    for (int s = 0; s < WHAT; s++)
        if (to && mine[s])
            to[s] = add ? to[s] + out[s] : out[s];
}

// As float_pass.
template <int WHAT> static __device__ __noinline__ void tensor_pass(const struct pass in)
{
    float *out = (float *)((char *)dynamic_memory + in.out_at);
    const uint32_t *records = (const uint32_t *)tensor_records(&in), *words = tensor_words(&in);
    const uint32_t lane = threadIdx.x & 31, g = lane / 4, t = lane & 3, warp = threadIdx.x / 32;
    const uint32_t n_steps = (in.n + TENSOR_STEP - 1) / TENSOR_STEP;
    const uint32_t n_units = (in.n_rows + TENSOR_ROWS - 1) / TENSOR_ROWS * n_steps;
    const uint32_t begin = warp_begin(n_units, warp), end = warp_begin(n_units, warp + 1);
    for (uint32_t unit = begin; unit < end;) {
        const uint32_t group = unit / n_steps, step = unit - group * n_steps;
        const uint32_t n = min(n_steps - step, end - unit);
        uint32_t a[4];
        // Eight plain sums, added up at the end: two would make chains of additions to wait for.
        float sums[4] = {0, 0, 0, 0}, plain[8] = {0, 0, 0, 0, 0, 0, 0, 0}, e[2][8];
        if (in.prepared) {
            const uint4 kept = shared_state.operands[in.side][group][lane];
            a[0] = kept.x;
            a[1] = kept.y;
            a[2] = kept.z;
            a[3] = kept.w;
        } else {
            load_tensor_rows(&in, group * TENSOR_ROWS + g, t, WHAT != SUM_SQUARES, a);
        }
        // The products of a step are under way while the exponentials of the one before are made;
        // the last one makes some of what lies behind, for nobody.
        struct tensor_reader r = read_from(&in, step * TENSOR_STEP, WHAT != SUM_SQUARES);
        uint32_t columns = r.columns;
        load_exponents<WHAT>(a, &r, t >= 2, e[0]);
        for (uint32_t i = n / 2; i > 0; i--) {
            next_step(&r);
            load_exponents<WHAT>(a, &r, t >= 2, e[1]);
            add_exponents<WHAT>(e[0], columns, sums, plain);
            next_step(&r);
            load_exponents<WHAT>(a, &r, t >= 2, e[0]);
            add_exponents<WHAT>(e[1], columns + TENSOR_STEP * 16, sums, plain);
            columns += 2 * TENSOR_STEP * 16;
        }
        if (n & 1)
            add_exponents<WHAT>(e[0], columns, sums, plain);
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            const uint32_t in_group = g + 8 * i, row = group * TENSOR_ROWS + in_group;
            const bool whole = n == n_steps;
            float *to = !whole            ? &split_slot(warp, unit == begin)[in_group * WHAT]
                        : row < in.n_rows ? &out[row * WHAT]
                                          : NULL;
            const float *part = plain + 2 * i;
            store_tensor_row<WHAT>(sums + 2 * i, part[0] + part[1] + (part[4] + part[5]), t,
                                   whole && in.add, to);
        }
        unit += n;
    }
    join_warps<WHAT, TENSOR_ROWS>(&in, n_steps);
}

#endif

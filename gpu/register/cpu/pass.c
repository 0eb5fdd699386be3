// SPDX-License-Identifier: Apache-2.0
// Compiled once for each instruction set: POSED_PASS_NAME is the table's symbol, the compiler's
// own macros say what the set is. GCC's vector extension keeps the text the same for all.
#include "gpu/register/cpu/pass.h"

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <immintrin.h>
#endif
#ifdef __AVX512F__
#define LANES      16
#define PASS_LABEL "AVX-512"
#elif defined(__AVX2__)
#define LANES      8
#define PASS_LABEL "AVX2"
#else
#define LANES      4
#define PASS_LABEL "baseline"
#endif

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));
typedef uint32_t bits __attribute__((vector_size(4 * LANES))); // wraps

// Vectors of rows in flight: enough to hide the latency of the chain of multiply-adds of exp2.
#define WIDE 2
_Static_assert(REGISTER_PASS_BLOCK % (LANES * WIDE) == 0, "a block is a whole number of vectors");

static inline vec load(const float *from)
{
    vec v;
    memcpy(&v, from, sizeof v);
    return v;
}

static inline void store(float *to, vec v)
{
    memcpy(to, &v, sizeof v);
}

// 2^f on [-0.5, 0.5], relative error below 2.4e-6 (minimax, degree 4).
static inline vec exp2_fraction(vec f)
{
    return (((f * 9.570100e-3f + 5.5917646e-2f) * f + 2.40241490e-1f) * f + 6.93121687e-1f) * f +
           1.0f;
}

// 2^a for a <= 0; below 2^-126 the result is 0 or nearly so.
static inline vec exp2_negative(vec a)
{
#ifdef __AVX512F__
    __m512 n = _mm512_roundscale_ps((__m512)a, 0);
    return (vec)_mm512_scalef_ps((__m512)exp2_fraction(a - (vec)n), n);
#else
    const float magic = 12582912.0f; // 1.5 * 2^23: adding it rounds to an integer
    ivec low = a < -126.0f;
    vec t = a + magic, f = a - (t - magic);
    bits sum = (bits)exp2_fraction(f) + ((bits)t << 23);
    return (vec)(sum & ~(bits)low);
#endif
}

// One text for the three passes: what is not asked for is known at compile time and falls away.
static inline __attribute__((always_inline)) void pass(const struct register_rows *rows,
                                                       const struct register_columns *columns,
                                                       size_t begin, size_t end, int with_weights,
                                                       int with_squares, int with_moments)
{
    for (size_t i = begin; i < end; i += LANES * WIDE) {
        vec px[WIDE], py[WIDE], pz[WIDE];
        vec sum[WIDE], sum2[WIDE], sx[WIDE], sy[WIDE], sz[WIDE];
        for (int k = 0; k < WIDE; k++) {
            px[k] = load(rows->x + i + (size_t)(k * LANES));
            py[k] = load(rows->y + i + (size_t)(k * LANES));
            pz[k] = load(rows->z + i + (size_t)(k * LANES));
            sum[k] = sum2[k] = sx[k] = sy[k] = sz[k] = (vec){0};
        }
        for (size_t j = 0; j < columns->n; j++) {
            float x = columns->x[j], y = columns->y[j], z = columns->z[j];
            float w = with_weights ? columns->w[j] : 1.0f;
            for (int k = 0; k < WIDE; k++) {
                vec dx = px[k] - x, dy = py[k] - y, dz = pz[k] - z;
                vec e = exp2_negative(-dx * dx - dy * dy - dz * dz);
                if (with_weights)
                    e *= w;
                sum[k] += e;
                if (with_squares)
                    sum2[k] += e * e;
                if (with_moments) {
                    sx[k] += e * x;
                    sy[k] += e * y;
                    sz[k] += e * z;
                }
            }
        }
        for (int k = 0; k < WIDE; k++) {
            size_t at = i + (size_t)(k * LANES);
            store(rows->sum + at, sum[k]);
            if (with_squares)
                store(rows->sum2 + at, sum2[k]);
            if (with_moments) {
                store(rows->sum_x + at, sx[k]);
                store(rows->sum_y + at, sy[k]);
                store(rows->sum_z + at, sz[k]);
            }
        }
    }
}

// Far pairs underflow all the time. Without this an Intel core spends 150 cycles on each of them
// (27 times the run time of a whole anneal was measured); AMD's do not mind.
static unsigned flush_denormals(void)
{
#ifdef __SSE2__
    unsigned saved = _mm_getcsr();
    _mm_setcsr(saved | 0x8040); // flush to zero, denormals are zero
    return saved;
#else
    return 0;
#endif
}

static void restore_denormals(unsigned saved)
{
#ifdef __SSE2__
    _mm_setcsr(saved);
#else
    (void)saved;
#endif
}

static void sums(const struct register_rows *rows, const struct register_columns *columns,
                 size_t begin, size_t end)
{
    unsigned saved = flush_denormals();
    if (columns->w)
        pass(rows, columns, begin, end, 1, 0, 0);
    else
        pass(rows, columns, begin, end, 0, 0, 0);
    restore_denormals(saved);
}

static void moments(const struct register_rows *rows, const struct register_columns *columns,
                    size_t begin, size_t end)
{
    unsigned saved = flush_denormals();
    if (columns->w)
        pass(rows, columns, begin, end, 1, 0, 1);
    else
        pass(rows, columns, begin, end, 0, 0, 1);
    restore_denormals(saved);
}

static void emicp(const struct register_rows *rows, const struct register_columns *columns,
                  size_t begin, size_t end)
{
    unsigned saved = flush_denormals();
    pass(rows, columns, begin, end, 0, 1, 1);
    restore_denormals(saved);
}

extern const struct register_passes POSED_PASS_NAME;
const struct register_passes POSED_PASS_NAME = {PASS_LABEL, sums, moments, emicp};

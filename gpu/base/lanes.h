// SPDX-License-Identifier: Apache-2.0
// Sums that come out the same on every processor with fused multiply and add: number k goes to lane
// k % LANES, and at the end the lanes are added in a fixed order. A processor whose vectors are
// shorter goes over the numbers several times, with some of the lanes each time: LANES_PART at
// once, which fill one register of it.
//
// A processor without FMA (the baseline build for x86-64) sums in the same order, but rounds twice.
#ifndef POSED_GPU_BASE_LANES_H
#define POSED_GPU_BASE_LANES_H

#include "gpu/base/kernel.h"

#define LANES 16 // of single precision; arrays begin at 64 bytes and are a multiple of it long

#if defined(__AVX512F__)
#include <immintrin.h>
#define LANES_PART 16
#elif defined(__AVX__)
#include <immintrin.h>
#define LANES_PART 8
#else
#define LANES_PART 4
#if defined(__ARM_NEON)
#include <arm_neon.h>
#endif
#endif

typedef float lanes_part __attribute__((vector_size(LANES_PART * sizeof(float)), may_alias));

static inline __attribute__((always_inline)) lanes_part lanes_load(const float *from)
{
    return *(const lanes_part *)from;
}

static inline __attribute__((always_inline)) void lanes_store(float *to, lanes_part part)
{
    *(lanes_part *)to = part;
}

// a b + c, rounded once where the processor can.
static inline __attribute__((always_inline)) lanes_part lanes_fma(lanes_part a, lanes_part b,
                                                                  lanes_part c)
{
#if defined(__AVX512F__)
    return (lanes_part)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX__) && defined(__FMA__)
    return (lanes_part)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__ARM_NEON) && defined(__ARM_FEATURE_FMA)
    return (lanes_part)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

// LANES_PART records of four numbers, 16 bytes each and aligned to it: number k of record l goes to
// lane l of out[k].
static inline __attribute__((always_inline)) void
lanes_transpose4(const float *const record[LANES_PART], lanes_part out[4])
{
#if defined(__AVX512F__)
    __m512 r[4];
    for (int l = 0; l < 4; l++) {
        r[l] = _mm512_castps128_ps512(*(const __m128 *)record[l]);
        r[l] = _mm512_insertf32x4(r[l], *(const __m128 *)record[l + 4], 1);
        r[l] = _mm512_insertf32x4(r[l], *(const __m128 *)record[l + 8], 2);
        r[l] = _mm512_insertf32x4(r[l], *(const __m128 *)record[l + 12], 3);
    }
    __m512d low = (__m512d)_mm512_unpacklo_ps(r[0], r[1]);
    __m512d high = (__m512d)_mm512_unpackhi_ps(r[0], r[1]);
    __m512d low2 = (__m512d)_mm512_unpacklo_ps(r[2], r[3]);
    __m512d high2 = (__m512d)_mm512_unpackhi_ps(r[2], r[3]);
    out[0] = (lanes_part)_mm512_unpacklo_pd(low, low2);
    out[1] = (lanes_part)_mm512_unpackhi_pd(low, low2);
    out[2] = (lanes_part)_mm512_unpacklo_pd(high, high2);
    out[3] = (lanes_part)_mm512_unpackhi_pd(high, high2);
#elif defined(__AVX__)
    __m256 r[4];
    for (int l = 0; l < 4; l++) {
        r[l] = _mm256_castps128_ps256(*(const __m128 *)record[l]);
        r[l] = _mm256_insertf128_ps(r[l], *(const __m128 *)record[l + 4], 1);
    }
    __m256d low = (__m256d)_mm256_unpacklo_ps(r[0], r[1]);
    __m256d high = (__m256d)_mm256_unpackhi_ps(r[0], r[1]);
    __m256d low2 = (__m256d)_mm256_unpacklo_ps(r[2], r[3]);
    __m256d high2 = (__m256d)_mm256_unpackhi_ps(r[2], r[3]);
    out[0] = (lanes_part)_mm256_unpacklo_pd(low, low2);
    out[1] = (lanes_part)_mm256_unpackhi_pd(low, low2);
    out[2] = (lanes_part)_mm256_unpacklo_pd(high, high2);
    out[3] = (lanes_part)_mm256_unpackhi_pd(high, high2);
#else
    lanes_part r[4];
    for (int l = 0; l < 4; l++)
        r[l] = lanes_load(record[l]);
    lanes_part low = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5);
    lanes_part high = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
    lanes_part low2 = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
    lanes_part high2 = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
    out[0] = __builtin_shufflevector(low, low2, 0, 1, 4, 5);
    out[1] = __builtin_shufflevector(low, low2, 2, 3, 6, 7);
    out[2] = __builtin_shufflevector(high, high2, 0, 1, 4, 5);
    out[3] = __builtin_shufflevector(high, high2, 2, 3, 6, 7);
#endif
}

// Halves are added until one number is left.
static inline float lanes_sum(const float lanes[LANES])
{
    float half[LANES / 2];
    for (int l = 0; l < LANES / 2; l++)
        half[l] = lanes[l] + lanes[l + LANES / 2];
    for (int n = LANES / 4; n > 0; n /= 2)
        for (int l = 0; l < n; l++)
            half[l] += half[l + n];
    return half[0];
}

#endif

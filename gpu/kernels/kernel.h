// SPDX-License-Identifier: Apache-2.0
// What the formulas in this folder need to compile as C (vectorised loops of the CPU twin), as CUDA
// (kernels) and as plain host code (the tracker).
//
// The twins must agree to the bit on everything that decides validity. Therefore no formula leaves
// the fusing of multiply and add to the compiler: both twins are compiled without contraction, and
// where a fused operation is wanted it is written: kernel_fma. Division and square root are IEEE on
// both sides. A CPU without FMA (the baseline build) rounds twice instead; its results differ in
// the last digit.
#ifndef POSED_GPU_KERNELS_KERNEL_H
#define POSED_GPU_KERNELS_KERNEL_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define KERNEL_FN static __forceinline__ __host__ __device__
#else
#define KERNEL_FN static inline __attribute__((always_inline))
#endif

KERNEL_FN float kernel_fma(float a, float b, float c)
{
#if defined(__CUDA_ARCH__)
    return __fmaf_rn(a, b, c);
#elif defined(__FMA__)
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

KERNEL_FN float kernel_max(float a, float b)
{
    return a > b ? a : b;
}

KERNEL_FN float kernel_min(float a, float b)
{
    return a < b ? a : b;
}

KERNEL_FN float kernel_abs(float a)
{
    return a < 0.0f ? -a : a;
}

#endif

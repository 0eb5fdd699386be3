// SPDX-License-Identifier: Apache-2.0
// What the formulas in this folder need to compile as C (vectorised loops of the CPU twin), as CUDA
// (kernels) and as plain host code (the tracker).
//
// The twins must agree to the bit on everything that decides validity. Therefore no formula leaves
// the fusing of multiply and add to the compiler: both twins are compiled without contraction, and
// where a fused operation is wanted it is written: kernel_fma. Division and square root are IEEE on
// both sides. A CPU without FMA (the baseline build) rounds twice instead; its results differ in
// the last digit.
#ifndef POSED_GPU_BASE_KERNEL_H
#define POSED_GPU_BASE_KERNEL_H

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
#elif defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

// Of numbers; what a NaN gives differs between the twins and must not matter.
KERNEL_FN float kernel_max(float a, float b)
{
#if defined(__CUDA_ARCH__)
    return fmaxf(a, b);
#else
    return a > b ? a : b;
#endif
}

KERNEL_FN float kernel_min(float a, float b)
{
#if defined(__CUDA_ARCH__)
    return fminf(a, b);
#else
    return a < b ? a : b;
#endif
}

// max(a b + c, 0) where a b + c is known not to exceed 1: on the device one instruction.
KERNEL_FN float kernel_fma_clamped(float a, float b, float c)
{
#if defined(__CUDA_ARCH__)
    float out;
    asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(out) : "f"(a), "f"(b), "f"(c));
    return out;
#else
    return kernel_max(kernel_fma(a, b, c), 0.0f);
#endif
}

KERNEL_FN float kernel_abs(float a)
{
#if defined(__CUDA_ARCH__)
    return fabsf(a);
#else
    return __builtin_fabsf(a);
#endif
}

// For formulas that are defined for both precisions; double needs no fusing.
KERNEL_FN float kernel_fma_float(float a, float b, float c)
{
    return kernel_fma(a, b, c);
}

KERNEL_FN double kernel_fma_double(double a, double b, double c)
{
    return a * b + c;
}

// Every operation rounded, on every processor.
KERNEL_FN float kernel_mul_add(float a, float b, float c)
{
    return a * b + c;
}

// 1 / a where nothing but the last digit of a step depends on it: the device's approximation.
KERNEL_FN float kernel_reciprocal_float(float a)
{
#if defined(__CUDA_ARCH__)
    float out;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(a));
    return out;
#else
    return 1.0f / a;
#endif
}

KERNEL_FN double kernel_reciprocal_double(double a)
{
    return 1.0 / a;
}

#endif

// SPDX-License-Identifier: Apache-2.0
// SIMD chosen at run time for loops over pixels: the function is compiled for AVX-512, AVX2 and the
// baseline, the loader picks. Files that use it are compiled with -ffp-contract=off and hold no
// reduction, so that every version computes the same bits (see CMakeLists.txt). Sanitizers do not
// get along with the loader's choice and take the baseline.
#ifndef POSED_CAPTURE_IO_SIMD_H
#define POSED_CAPTURE_IO_SIMD_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CAPTURE_SIMD __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CAPTURE_SIMD
#endif

#endif

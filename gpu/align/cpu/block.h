// SPDX-License-Identifier: Apache-2.0
// The inner loop of the CPU twin, once per instruction set; cpu/device.c chooses at run time.
#ifndef POSED_GPU_ALIGN_CPU_BLOCK_H
#define POSED_GPU_ALIGN_CPU_BLOCK_H

#include "gpu/align/image.h"

#define BLOCK_VERTICES 256

// Adds vertices first .. first + n (n <= BLOCK_VERTICES) of `source` against `target` to
// inout_sums (PAIR_N_SUMS).
typedef void block_sum_fn(const struct align_image *source, const struct align_image *target,
                          const struct pair_pose *T_target_source, const struct pair_gates *gates,
                          uint32_t first, uint32_t n, double *inout_sums);

block_sum_fn align_block_baseline;
#if defined(__x86_64__)
block_sum_fn align_block_avx2, align_block_avx512;
#endif

#endif

// SPDX-License-Identifier: Apache-2.0
#include "gpu/register/cpu/pass.h"

extern const struct register_passes register_passes_baseline;
#if defined(__x86_64__)
extern const struct register_passes register_passes_avx2, register_passes_avx512;
#endif

const struct register_passes *register_pass_choose(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        return &register_passes_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &register_passes_avx2;
#endif
    return &register_passes_baseline;
}

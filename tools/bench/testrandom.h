// SPDX-License-Identifier: Apache-2.0
// Random numbers of the synthetic scenes: the same on every machine.
#ifndef POSED_TOOLS_BENCH_TESTRANDOM_H
#define POSED_TOOLS_BENCH_TESTRANDOM_H

#include <math.h>
#include <stdint.h>

// splitmix64: small, and the same everywhere.
static inline uint64_t testrandom_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline double testrandom_uniform(uint64_t *state, double low, double high)
{
    return low + (high - low) * (double)(testrandom_next(state) >> 11) * 0x1p-53;
}

static inline double testrandom_normal(uint64_t *state)
{
    double u = testrandom_uniform(state, 1e-12, 1), v = testrandom_uniform(state, 0, 2 * M_PI);
    return sqrt(-2 * log(u)) * cos(v);
}

#endif

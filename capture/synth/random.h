// SPDX-License-Identifier: Apache-2.0
// Random numbers that are functions of a counter: the same bits on every machine, in any order.
#ifndef POSED_CAPTURE_SYNTH_RANDOM_H
#define POSED_CAPTURE_SYNTH_RANDOM_H

#include <stdint.h>

// Integer hash of full avalanche (Wellons' "lowbias32").
static inline __attribute__((always_inline)) uint32_t random_mix(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

// The sum of a hash's four bytes: nearly normal, mean 510, standard deviation 147.8.
static inline __attribute__((always_inline)) int32_t random_bell(uint32_t h)
{
    return (int32_t)((h & 255) + (h >> 8 & 255) + (h >> 16 & 255) + (h >> 24)) - 510;
}

#define RANDOM_BELL_SIGMA 147.8f

static inline uint32_t random_row_key(uint64_t seed, uint64_t frame, uint32_t row)
{
    uint32_t key = random_mix((uint32_t)seed ^ 0x9e3779b9u) ^ (uint32_t)(seed >> 32);
    key = random_mix(key + 0x85ebca6bu * (uint32_t)frame) ^ (uint32_t)(frame >> 32);
    return random_mix(key + 0xc2b2ae35u * (row + 1));
}

#endif

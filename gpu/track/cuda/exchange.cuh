// SPDX-License-Identifier: Apache-2.0
// How the blocks of the fused kernel add their 32 sums: integer accumulators that count their own
// arrivals. One word per sum holds (fixed-point value << 8) + 1 per block, added by one relaxed
// 64-bit reduction; each block remembers the word's content before, and when the low byte of the
// difference equals the number of blocks, the rest of it is the sum. No fence, no barrier, no
// zeroing, no second hop, and integer addition makes the bits independent of the arrival order.
//
// Two word sets, by parity of the iteration: a block that adds to a set again has seen the other
// set complete, which every block adds to only after it has read this one. Two more for the
// information pass, which block 0 alone reads, before it adds to the next iteration's sums. Two
// copies, by parity of the block, halve the queue at one address. Four words lie side by side,
// because an access costs by its 32-byte sectors, and such groups 2 KB apart, so that they fall on
// different slices of the L2 cache.
#ifndef POSED_GPU_TRACK_CUDA_EXCHANGE_CUH
#define POSED_GPU_TRACK_CUDA_EXCHANGE_CUH

#include "gpu/track/cuda/device.cuh"

#define EXCHANGE_SETS        4
#define EXCHANGE_INFORMATION 2 // the first of the information pass's two
#define EXCHANGE_COPIES      2
#define EXCHANGE_GROUP       4   // accumulators side by side
#define EXCHANGE_STRIDE      256 // 64-bit words between two groups
#define EXCHANGE_MAX_BLOCKS  (EXCHANGE_COPIES * 255)
#define EXCHANGE_N_WORDS     (EXCHANGE_SETS * EXCHANGE_COPIES * ICP_N_SUMS * EXCHANGE_STRIDE)
#define EXCHANGE_N_BASES     (EXCHANGE_SETS * EXCHANGE_COPIES * ICP_N_SUMS)

struct exchange_memory {
    unsigned long long *words; // EXCHANGE_N_WORDS
    unsigned long long *bases; // EXCHANGE_N_BASES: content of the words after the last launch
};

// A block's memory of the words, in shared memory: their contents when last complete.
struct exchange_shared {
    unsigned long long base[EXCHANGE_SETS][EXCHANGE_COPIES][ICP_N_SUMS];
};

// Where a sum's accumulator lies in its set and copy.
static __device__ __forceinline__ unsigned exchange_offset(unsigned lane)
{
    return lane / EXCHANGE_GROUP * EXCHANGE_STRIDE + lane % EXCHANGE_GROUP;
}

// One warp calls these, lane = sum.
static __device__ __forceinline__ void
exchange_begin(struct exchange_shared *s, const struct exchange_memory *memory, unsigned lane)
{
#pragma unroll
    for (int i = 0; i < EXCHANGE_SETS * EXCHANGE_COPIES; i++)
        (&s->base[0][0][0])[i * ICP_N_SUMS + lane] = memory->bases[i * ICP_N_SUMS + lane];
}

// Adds this block's share to word set `set`.
static __device__ __forceinline__ void exchange_add(const struct exchange_memory *memory,
                                                    unsigned lane, unsigned set, long long value)
{
    unsigned long long word = ((unsigned long long)value << 8) + 1;
    unsigned long long *add =
        memory->words + (set * EXCHANGE_COPIES + blockIdx.x % 2) * ICP_N_SUMS * EXCHANGE_STRIDE +
        exchange_offset(lane);
    asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(add), "l"(word) : "memory");
}

// Waits until all blocks have added to the set. Returns the total.
static __device__ __forceinline__ long long exchange_wait(struct exchange_shared *s,
                                                          const struct exchange_memory *memory,
                                                          unsigned lane, unsigned set,
                                                          unsigned n_blocks)
{
    const unsigned step = ICP_N_SUMS * EXCHANGE_STRIDE;
    unsigned long long now0, now1,
        *word0 = memory->words + set * EXCHANGE_COPIES * step + exchange_offset(lane);
    unsigned long long base0 = s->base[set][0][lane], base1 = s->base[set][1][lane];
    unsigned n0 = (n_blocks + 1) / 2, n1 = n_blocks / 2; // arrivals that complete a copy
    do {
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(now0) : "l"(word0) : "memory");
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];"
                     : "=l"(now1)
                     : "l"(word0 + step)
                     : "memory");
    } while (((unsigned)(now0 - base0) & 255) != n0 || ((unsigned)(now1 - base1) & 255) != n1);
    s->base[set][0][lane] = now0;
    s->base[set][1][lane] = now1;
    return ((long long)(now0 - base0) >> 8) + ((long long)(now1 - base1) >> 8);
}

// Leaves the contents for the next launch; one block does it.
static __device__ __forceinline__ void
exchange_end(const struct exchange_shared *s, const struct exchange_memory *memory, unsigned lane)
{
#pragma unroll
    for (int i = 0; i < EXCHANGE_SETS * EXCHANGE_COPIES; i++)
        memory->bases[i * ICP_N_SUMS + lane] = (&s->base[0][0][0])[i * ICP_N_SUMS + lane];
}

// Fixed point: the largest power of two that keeps |sum| below 2^52 (56 bits of a word are the
// value's; the rest is margin). `bound` is what no sum of that kind can exceed.
static inline float exchange_scale(double bound)
{
    int exponent;
    frexp(bound, &exponent);
    return (float)ldexp(1.0, 52 - exponent);
}

#endif

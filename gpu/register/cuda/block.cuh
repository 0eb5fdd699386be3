// SPDX-License-Identifier: Apache-2.0
// What a block of the registration's anneal kernel knows, where it stands, and how the blocks of a
// team exchange what they found.
//
// A team of blocks works on one run: all SMs on a single run, a few on each of a handful, one block
// on each of a batch. Nothing is broadcast and there is no barrier: what others need is posted as
// words that carry a tag beside the value (the number of the exchange), and who needs it polls
// until the tag is the one that comes next. One hop through L2 instead of fence, arrival, poll and
// read. Every block gathers everything in the same order and solves the M-step for itself, so all
// have the same bits.
//
// A launch holds the device for a bounded time only (plan.slice_clocks), because a tracker may wait
// for the same SMs: a block that finds its time is over, also while it polls, stores where it
// stands and leaves; the next launch goes on there. Where a block leaves never changes a bit, and
// a block that waits for one that is not on the device leaves too instead of hanging.
#ifndef POSED_GPU_REGISTER_CUDA_BLOCK_CUH
#define POSED_GPU_REGISTER_CUDA_BLOCK_CUH

#include "gpu/register/cuda/device.cuh"
#include "gpu/register/kernels/annealing_step.h"
#include "gpu/register/kernels/weights.h"

#define BIG_BLOCK      512 // threads
#define SMALL_BLOCK    256
#define MAX_WARPS      (BIG_BLOCK / 32)
#define CHUNK_ROWS     1024u // rows of a block whose sums are in shared memory at a time
#define OPERAND_GROUPS 4     // of 16 rows, whose operands are kept
#define OWN_ROWS       64u   // rows of a block that are kept in shared memory
#define BATCH_ROWS     64u   // rows that are added up at a time

// What a pass sums for each row: e; e and e x; e, e x and e^2.
enum { SUM_E = 1, SUM_MOMENTS = 4, SUM_SQUARES = 5 };

enum stage { STAGE_ANNEAL, STAGE_PRESENCE, STAGE_DONE };

// Where a block stands. All its threads hold the same.
struct position {
    uint32_t stage, iteration;
    uint32_t pass, chunk, tile; // of the iteration; of the block's rows; of the columns
    uint32_t waiting;           // the sums are posted, the others' not yet gathered
    uint32_t n_exchanges;       // of sums so far
    uint32_t tag[2];            // of the weights last posted, by side
};

// What stays of a block between two launches.
struct progress {
    struct position at;
    struct register_run run;
    struct register_schedule schedule;
    double partial[REGISTER_N_SUMS], mean[3];
};

struct plan {
    struct register_anneal anneal;
    const float4 *points[2], *normals; // points by side
    const struct register_run *starts; // by run
    struct register_run *runs;         // by run, in the host's memory: the results
    uint32_t *unfinished;              // there too: set by a block that has to go on
    struct progress *progress;         // by block
    float *rows;                       // by block: the sums of a chunk between two launches
    unsigned long long *weights[2];    // by side, run and point: tag << 32 | log2 weight
    unsigned long long *posted;        // by run, parity, sum and block: value | tag (16 bits)
    long long slice_clocks;
    uint32_t team;                // blocks of a run
    uint32_t rows_each[2];        // rows of a block, by side; the last ones have fewer
    uint32_t tile[2], n_tiles[2]; // columns in shared memory at a time, by side ...
    uint32_t tile_at[2], rows_at; // ... and where, bytes; then the sums of a chunk,
    uint32_t chunk_floats;        // so many
    bool tensor;                  // passes run on tensor cores
    bool begins;                  // the first launch of these runs
};

// What follows from sigma.
struct level {
    double sigma2, outlier, slack;
    float k; // log2(e) / (2 sigma^2)
};

// What a row brings to the sums.
enum factor {
    FACTOR_ONE = 0,
    FACTOR_X = 1,      // 3
    FACTOR_Y = 4,      // 3
    FACTOR_R2 = 7,     // |x - y|^2
    FACTOR_J = 8,      // 6: (n, y x n)
    FACTOR_PLANE = 14, // n . (y - x)
    N_FACTORS = 15,
};

// Shared state of a block: the head of its dynamic shared memory. The tiles of columns follow, then
// the sums of its rows. All functions name it as shared_state, so that the compiler knows the
// memory as shared also where a function is not inlined.
struct block_state {
    float4 T[2][3]; // by side of the rows: into the other set's frame, rows of (R | t)
    double sums[REGISTER_N_SUMS], partial[REGISTER_N_SUMS];
    double row_weights[BATCH_ROWS], rows[N_FACTORS][BATCH_ROWS];
    double mean[3];
    struct register_run run;
    struct register_schedule schedule;
    struct level level, next, after;       // next: what a schedule that goes on brings
    float4 own_rows[2][OWN_ROWS];          // by side, where they are few
    uint4 operands[2][OPERAND_GROUPS][32]; // by side, group of rows and lane
    bool more, late;
    float split[MAX_WARPS][2][5 * 16]; // what warps that share a group of rows found
};

extern __shared__ float4 dynamic_memory[];
#define shared_state (*(struct block_state *)dynamic_memory)

// One block at work; the same in all its threads.
struct block {
    uint32_t run, index; // index: in the team
    long long began;
    struct position at;
    uint32_t first[2], n[2]; // its rows, by side
    bool staged[2];          // the coordinates of that side are in shared memory, all of them
    bool prepared;           // the operands of its rows are there, for pose and sigma as they are
};

static __device__ __forceinline__ bool time_is_over(const struct plan *plan, const struct block *b)
{
    return clock64() - b->began > plan->slice_clocks;
}

static __device__ __forceinline__ uint32_t set_size(const struct plan *plan, int side)
{
    return side == REGISTER_SOURCE ? plan->anneal.n_source : plan->anneal.n_target;
}

// The first row of a side that block `index` of a team owns; the next one's is its end.
static __device__ __forceinline__ uint32_t first_row(const struct plan *plan, uint32_t index,
                                                     int side)
{
    return min(index * plan->rows_each[side], set_size(plan, side));
}

// A block's own rows: a read of them from L2 takes as long as some 20 columns.
static __device__ __forceinline__ const float4 *own_rows(const struct plan *plan,
                                                         const struct block *b, int side)
{
    return plan->rows_each[side] <= OWN_ROWS ? shared_state.own_rows[side]
                                             : plan->points[side] + b->first[side];
}

static __device__ __forceinline__ void store_word(unsigned long long *at, unsigned long long word)
{
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(word) : "memory");
}

static __device__ __forceinline__ unsigned long long load_word(const unsigned long long *at)
{
    unsigned long long word;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(at) : "memory");
    return word;
}

static __device__ __forceinline__ void load_words(const unsigned long long *at,
                                                  unsigned long long *a, unsigned long long *b)
{
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(*a), "=l"(*b)
                 : "l"(at)
                 : "memory");
}

// Weights of a side, for this run; a run's begin on 16 bytes.
static __device__ __forceinline__ unsigned long long *weights_of(const struct plan *plan,
                                                                 const struct block *b, int side)
{
    return plan->weights[side] + (size_t)b->run * ((set_size(plan, side) + 1) / 2 * 2);
}

static __device__ __forceinline__ unsigned long long weight_word(float log2_weight, uint32_t tag)
{
    return (unsigned long long)tag << 32 | __float_as_uint(log2_weight);
}

// A double with a tag in its last 16 bits: what is left of it is right to 1e-11.
static __device__ __forceinline__ unsigned long long sum_word(double value, uint32_t tag)
{
    const unsigned long long bits = (unsigned long long)__double_as_longlong(value) + 0x8000u;
    return (bits & ~0xffffull) | (tag & 0xffffu);
}

static __device__ __forceinline__ unsigned long long *posted_sums(const struct plan *plan,
                                                                  const struct block *b)
{
    // A block is at most one exchange ahead of another one: two sets by parity are enough.
    const uint32_t set = b->run * 2 + (b->at.n_exchanges & 1);
    return plan->posted + (size_t)set * REGISTER_N_SUMS * plan->team;
}

// The sums over a block's rows. Each is a sum of w a b, a and b taken from what a row brings: the
// rows lie side by side in shared memory and half a warp adds up one sum. (A thread that adds all
// sums of its row, and shuffles that add the threads', took 5 us: code that runs once an iteration
// comes slowly, 4 clocks an instruction, so little of it counts for more than few operations.)
// By sum (enum register_sum): which two factors, four bits each.
static __constant__ const unsigned char sum_factors[REGISTER_N_SUMS] = {
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06,                         // w, x, y
    0x41, 0x42, 0x43, 0x51, 0x52, 0x53, 0x61, 0x62, 0x63,             // y x
    0x44, 0x45, 0x46, 0x55, 0x56, 0x66, 0x07,                         // y y, r2
    0x88, 0x89, 0x8a, 0x8b, 0x8c, 0x8d, 0x99, 0x9a, 0x9b, 0x9c, 0x9d, // j j
    0xaa, 0xab, 0xac, 0xad, 0xbb, 0xbc, 0xbd, 0xcc, 0xcd, 0xdd,       //
    0x8e, 0x9e, 0xae, 0xbe, 0xce, 0xde};                              // j plane

// Adds n_rows <= BATCH_ROWS rows of shared_state.rows to the sums, which begin at 0 when `first`;
// after the last ones posts them for the team.
static __device__ __forceinline__ void add_rows(const struct plan *plan, struct block *b,
                                                uint32_t n_rows, int n_sums, bool first, bool last)
{
    const uint32_t place = threadIdx.x & 15;
    const int half = (int)threadIdx.x / 16, n_halves = (int)blockDim.x / 16;
    __syncthreads();
    b->at.n_exchanges += last;
    unsigned long long *posted = posted_sums(plan, b);
    for (int s = half; s < (n_sums + 1) / 2 * 2; s += n_halves) {
        const int factors = sum_factors[min(s, n_sums - 1)];
        const double *f = shared_state.rows[factors >> 4], *g = shared_state.rows[factors & 15];
        double v = 0;
        for (uint32_t i = place; i < n_rows; i += 16)
            v += shared_state.row_weights[i] * f[i] * g[i];
#pragma unroll
        for (int d = 8; d > 0; d >>= 1)
            v += __shfl_xor_sync(0xffffffffu, v, d);
        if (place != 0 || s >= n_sums)
            continue;
        v += first ? 0 : shared_state.partial[s];
        if (!last)
            shared_state.partial[s] = v;
        else if (plan->team == 1)
            shared_state.sums[s] = v;
        else
            store_word(&posted[(size_t)s * plan->team + b->index], sum_word(v, b->at.n_exchanges));
    }
    if (plan->team == 1 || !last)
        __syncthreads();
}

// One warp looks whether the last word of each block is there, before all warps fetch all words and
// look at their tags: if all of them polled, L2 would have no room for the stores that they wait
// for. `side` < 0: words of one sum, one a block; else weights, of which each block has its rows.
// False: the time was over before.
static __device__ __forceinline__ bool wait_for_blocks(const struct plan *plan,
                                                       const struct block *b,
                                                       const unsigned long long *words, int side,
                                                       uint32_t tag)
{
    bool late = false;
    for (uint32_t begin = threadIdx.x; threadIdx.x < 32 && begin < plan->team; begin += 32 * 5) {
        const unsigned long long *last[5];
#pragma unroll
        for (uint32_t i = 0; i < 5; i++) {
            const uint32_t other = min(begin + 32 * i, plan->team - 1);
            last[i] = words + (side < 0 ? other : first_row(plan, other + 1, side) - 1);
        }
        bool there;
        do {
            unsigned long long word[5];
            there = true;
#pragma unroll
            for (int i = 0; i < 5; i++)
                word[i] = load_word(last[i]);
#pragma unroll
            for (int i = 0; i < 5; i++)
                there = there && (side < 0 ? (uint32_t)(word[i] & 0xffffu)
                                           : (uint32_t)(word[i] >> 32)) == tag;
            late = late || (!there && time_is_over(plan, b));
        } while (!there && !late);
    }
    return !__syncthreads_or(late);
}

// What all blocks posted, into shared_state.sums. False: the time was over before all were there.
static __device__ __forceinline__ bool gather_sums(const struct plan *plan, const struct block *b,
                                                   int n_sums)
{
    if (plan->team == 1)
        return true;
    // Half a warp a sum, so that 512 threads gather all point sums in one round; nine loads of a
    // thread are under way at a time.
    const unsigned long long *posted = posted_sums(plan, b);
    const uint32_t place = threadIdx.x & 15, tag = b->at.n_exchanges & 0xffffu;
    const int half = (int)threadIdx.x / 16, n_halves = (int)blockDim.x / 16;
    bool late = false;
    if (!wait_for_blocks(plan, b, posted + (size_t)(n_sums - 1) * plan->team, -1, tag))
        return false;
    for (int s = half; s < (n_sums + 1) / 2 * 2; s += n_halves) {
        const unsigned long long *from = posted + (size_t)min(s, n_sums - 1) * plan->team;
        double v = 0;
        for (uint32_t begin = place; begin < plan->team; begin += 16 * 9) {
            unsigned long long word[9];
            bool there;
            do {
                there = true;
#pragma unroll
                for (uint32_t i = 0; i < 9; i++)
                    word[i] = begin + 16 * i < plan->team ? load_word(&from[begin + 16 * i]) : tag;
#pragma unroll
                for (int i = 0; i < 9; i++)
                    there = there && (word[i] & 0xffffu) == tag;
                late = late || (!there && time_is_over(plan, b));
            } while (!there && !late);
#pragma unroll
            for (int i = 0; i < 9; i++)
                v += __longlong_as_double((long long)(word[i] & ~0xffffull));
        }
        __syncwarp();
#pragma unroll
        for (int d = 8; d > 0; d >>= 1)
            v += __shfl_xor_sync(0xffffffffu, v, d);
        if (place == 0 && s < n_sums)
            shared_state.sums[s] = v;
    }
    return !__syncthreads_or(late);
}

#endif

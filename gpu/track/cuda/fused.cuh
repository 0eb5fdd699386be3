// SPDX-License-Identifier: Apache-2.0
// What the parts of the fused kernel (fused_frame.cu) share: the parameters of a launch, what a
// block keeps in shared memory, the layout of the result, and where a thread's pixels lie.
#ifndef POSED_GPU_TRACK_CUDA_FUSED_CUH
#define POSED_GPU_TRACK_CUDA_FUSED_CUH

#include "gpu/track/cuda/exchange.cuh"
#include "gpu/track/cuda/icp.cuh"
#include "gpu/track/cuda/tile.cuh"

#define FUSED_THREADS    512
#define FUSED_WARPS      (FUSED_THREADS / 32)
#define SMALL_ROUNDS     3 // pieces of a block whose source pixels fit into registers
#define SMALL_PX(l)      (((SMALL_ROUNDS * PIECE_PX(l)) + SMALL_THREADS(l) - 1) / SMALL_THREADS(l))
// Pixels that a thread brings into shared memory.
#define LOAD_PX(l)       ((SMALL_ROUNDS * PIECE_PX(l) + FUSED_THREADS - 1) / FUSED_THREADS)
// Threads that work on a level. On the coarse ones a thread takes two pixels rather than few
// threads one each, because a warp's sums cost as much as four of its pixels.
#define SMALL_THREADS(l) ((l) == 0 ? FUSED_THREADS : (l) == 1 ? 320 : 160)

// Result in mapped host memory: 16-byte words, written and seen as one, of three 32-bit payloads
// and the launch's tag. The payloads in order:
enum result_payload {
    RESULT_SUMS = 0, // ICP_N_SUMS doubles, low half first
    RESULT_POSE = 2 * ICP_N_SUMS,
    RESULT_INFORMATION = RESULT_POSE + 12, // ICP_N_SUMS floats
    RESULT_SIZE2 = RESULT_INFORMATION + ICP_N_SUMS,
    RESULT_ITERATIONS,
    RESULT_FLAGS = RESULT_ITERATIONS + GPU_LEVELS, // solvable | converged << 1
    RESULT_STAGES,
    RESULT_N = RESULT_STAGES + GPU_N_STAGES,
    RESULT_N_WORDS = (RESULT_N + 2) / 3,
};

// A frame on its way from the host's memory, in chunks of 512 bytes. A band is what the chunks hold
// that begin in one row of pieces; its counter only grows, by one a chunk.
struct upload {
    const uint4 *depth; // host memory; NULL: no upload
    uint4 *raw;
    unsigned *bands; // BAND_STRIDE words apart
    unsigned n;      // uploads that these counters have seen, this one included
};
#define CHUNK_UNITS 32 // of 16 bytes: a load of a warp
#define CHUNK_BYTES (CHUNK_UNITS * 16)
#define BAND_STRIDE 32

struct fused_params {
    struct cuda_filter filter;
    struct level_camera cameras[GPU_LEVELS];
    struct cuda_align align;
    float scales[ICP_N_SUMS]; // fixed point of each sum
    struct upload now, next;  // of this frame, and of the one after it
    bool prepare_wanted;
    struct map_px *maps[GPU_LEVELS]; // of the frame
    bool align_wanted;
    struct map_px *next_maps[GPU_LEVELS];
    unsigned *next_stages; // GPU_N_STAGES: clocks that preparing it took, for the launch to come
    bool was_next;         // this frame was prepared by the launch before
    unsigned n_chunks, band_bytes;    // of a raw image
    unsigned n_units;                 // of 16 bytes, of a raw image
    int n_blocks;                     // that work on the frame; further ones upload
    int n_pieces, pieces_x, n_rounds; // a round: one piece for each block
    struct exchange_memory exchange;
    uint4 *result;
    unsigned tag;
};

struct __align__(16) fused_shared
{
    float partial[FUSED_WARPS][ICP_N_SUMS];
    float information_partial[FUSED_WARPS][ICP_N_SUMS];
    float sums[ICP_N_SUMS];
    struct icp_pose pose, summed_pose; // the newest; the one that the newest sums were taken at
    struct icp_gates gates, summed_gates;
    int state; // enum loop_state
    // Warp 0's own; here so that it costs the other warps no registers.
    struct exchange_shared exchange;
    long long totals[ICP_N_SUMS];
    float scales[ICP_N_SUMS], inv_scales[ICP_N_SUMS];
    float size2_m2;
    int n_iterations[GPU_LEVELS];
    int solvable, converged;
    float information[ICP_N_SUMS];
    unsigned payload[3 * RESULT_N_WORDS];
    unsigned next_stages[GPU_N_STAGES]; // what the launch before has left
    long long clocks[GPU_N_STAGES + 1]; // start, then the end of each stage
    // Behind it: the tiles, the corners of the block's pieces, then (SMALL only) their source
    // pixels, level by level.
};

enum loop_state { LOOP_GO_ON, LOOP_LEVEL_DONE, LOOP_STOP };

static __device__ __forceinline__ struct tile *shared_tiles(struct fused_shared *s)
{
    return (struct tile *)(s + 1);
}

static __device__ __forceinline__ struct piece_corner *shared_corners(const struct fused_params *p,
                                                                      struct fused_shared *s)
{
    return (struct piece_corner *)(shared_tiles(s) + TILE_GROUP);
}

static __host__ __device__ __forceinline__ size_t corners_bytes(int n_rounds)
{
    return ((size_t)n_rounds * sizeof(struct piece_corner) + 15) / 16 * 16;
}

static __device__ __forceinline__ float4 *shared_source(const struct fused_params *p,
                                                        struct fused_shared *s)
{
    return (float4 *)((char *)shared_corners(p, s) + corners_bytes(p->n_rounds));
}

static __device__ __forceinline__ void clock_mark(struct fused_shared *s, int stage)
{
    if (threadIdx.x == 0)
        s->clocks[stage] = clock64();
}

// Where pixel i of a block's pieces lies on a level.
struct local_px {
    int x, y;
    bool inside;
};

template <int LEVEL>
static __device__ __forceinline__ struct local_px local_px_of(const struct fused_params *p,
                                                              struct fused_shared *s, int i)
{
    const int w = PIECE_W >> LEVEL, n = PIECE_PX(LEVEL), n_local = p->n_rounds * n;
    int round = i / n, k = i % n;
    struct piece_corner corner = shared_corners(p, s)[i < n_local ? round : 0];
    struct local_px px;
    px.x = (corner.x >> LEVEL) + k % w;
    px.y = (corner.y >> LEVEL) + k / w;
    px.inside =
        (i < n_local) & (px.x < p->cameras[LEVEL].width_px) & (px.y < p->cameras[LEVEL].height_px);
    return px;
}

// First pixel of a level in the block's source array.
template <int LEVEL>
static __device__ __forceinline__ int source_offset(const struct fused_params *p)
{
    return p->n_rounds * (LEVEL > 0 ? PIECE_PX(0) : 0) +
           p->n_rounds * (LEVEL > 1 ? PIECE_PX(1) : 0);
}

#endif

// SPDX-License-Identifier: Apache-2.0
// The registration on CUDA, streaming form: a whole anneal on the device, in launches of bounded
// length. Here: how a batch of runs is laid out on the device, and the launches. What a block does
// stands in steps.cuh, the sums over all pairs in pass.cuh and, for tensor cores, tensor.cuh.
#include "gpu/register/cuda/steps.cuh"

#include <string.h>

template <int BLOCK>
static __global__ void __launch_bounds__(BLOCK, BIG_BLOCK / BLOCK)
    anneal_kernel(const __grid_constant__ struct plan plan)
{
    struct block b;
    begin_block(&plan, &b);
    bool goes_on = true;
    while (goes_on && b.at.stage != STAGE_DONE)
        goes_on = b.at.waiting ? collect(&plan, &b) : advance(&plan, &b);
    end_block(&plan, &b);
}

// How a batch is laid out on the device.
struct layout {
    int block;
    uint32_t team;
    size_t shared_bytes;
};

static const void *kernel_for(int block)
{
    return block == BIG_BLOCK ? (const void *)anneal_kernel<BIG_BLOCK>
                              : (const void *)anneal_kernel<SMALL_BLOCK>;
}

// Whether tensor cores do: no slot of the products may leave the range of a half, and the exponents
// keep 22 bits of terms as large as k |p|^2.
static bool fits_tensor(const struct register_cuda *cuda, const struct register_anneal *anneal,
                        uint32_t team)
{
    const double *r = cuda->reach, largest = fmax(r[0], r[1]);
    const double reach = 2 * (r[0] + r[1]); // of a point in the other set's frame
    const double k = 0.72134752044448170 / anneal->sigma2_last;
    const double k_first = 0.72134752044448170 / anneal->sigma2_first;
    const double slack = anneal->slack * exp(-anneal->slack_alpha / (2 * anneal->sigma2_last));
    // A block with few pairs waits for the others, not for arithmetic. A step to planes may be all
    // but undetermined and ask for every digit.
    const bool large = (uint64_t)anneal->n_source * anneal->n_target / team >= 1u << 14;
    return cuda->has_tensor && large && !anneal->planes && k < 5e4 &&
           k * largest * largest < 16384 && k * reach * reach / TENSOR_SCALE < 5e4 &&
           k * reach / TENSOR_SCALE < 2e4 && reach * reach < 5e4 && TENSOR_SCALE * largest < 5e4 &&
           k_first > 0.01 && (anneal->weighting == REGISTER_WEIGHTING_PAPER || slack > 1e-3);
}

static uint32_t rounded_to(uint32_t n, uint32_t step)
{
    return (n + step - 1) / step * step;
}

// Room in shared memory: both sides' columns where they fit, else tiles of them; then the sums of
// the rows.
static int choose_tiles(const struct register_cuda *cuda, const struct register_anneal *anneal,
                        struct layout *layout, struct plan *plan)
{
    const uint32_t n[2] = {anneal->n_source, anneal->n_target};
    const uint32_t rows =
        plan->rows_each[0] > plan->rows_each[1] ? plan->rows_each[0] : plan->rows_each[1];
    const uint32_t column_bytes = plan->tensor ? 20 : 16;
    plan->chunk_floats = rounded_to((rows < CHUNK_ROWS ? rows : CHUNK_ROWS) * SUM_SQUARES, 4);
    const size_t fixed = sizeof(struct block_state) + plan->chunk_floats * sizeof(float);
    if (cuda->dev.shared_bytes < fixed + 256 * column_bytes)
        return -ENOMEM;
    // A warp reads one step beyond a tile.
    const uint32_t room =
        (uint32_t)((cuda->dev.shared_bytes - fixed) / column_bytes - 2 * TENSOR_STEP) / 32 * 32;
    const bool both = (uint64_t)rounded_to(n[0], 32) + rounded_to(n[1], 32) <= room;
    uint32_t end = (uint32_t)sizeof(struct block_state);
    for (int side = 0; side < 2; side++) {
        plan->n_tiles[side] = (n[side] + room - 1) / room;
        plan->tile[side] =
            rounded_to((n[side] + plan->n_tiles[side] - 1) / plan->n_tiles[side], 32);
        plan->tile_at[side] = end;
        end += both ? (plan->tile[side] + TENSOR_STEP) * column_bytes : 0;
    }
    if (!both)
        end += ((plan->tile[0] > plan->tile[1] ? plan->tile[0] : plan->tile[1]) + TENSOR_STEP) *
               column_bytes;
    plan->rows_at = end;
    layout->shared_bytes = end + plan->chunk_floats * sizeof(float);
    return 0;
}

static int choose_layout(struct register_cuda *cuda, const struct register_anneal *anneal,
                         uint32_t n_runs, struct layout *out, struct plan *plan)
{
    uint32_t most = anneal->n_source > anneal->n_target ? anneal->n_source : anneal->n_target;
    // Fewer than 16 rows a block and the exchange costs more than the rows.
    uint32_t useful = (most + 15) / 16;
    out->team = (uint32_t)cuda->dev.n_sms / n_runs;
    out->team = out->team < 1 ? 1 : out->team > useful ? useful : out->team;
    out->block = n_runs > (uint32_t)cuda->dev.n_sms ? SMALL_BLOCK : BIG_BLOCK;
    plan->team = out->team;
    plan->rows_each[0] = (anneal->n_source + out->team - 1) / out->team;
    plan->rows_each[1] = (anneal->n_target + out->team - 1) / out->team;
    plan->tensor = fits_tensor(cuda, anneal, out->team);
    return choose_tiles(cuda, anneal, out, plan);
}

// Device memory of a batch: what is not worth a name of its own in struct plan is cut from one
// piece. Tags begin at 0, so words are cleared.
static int take_memory(struct register_cuda *cuda, uint32_t n_runs, struct plan *plan)
{
    const size_t n_blocks = (size_t)n_runs * plan->team, n = n_runs;
    const bool tiled = plan->n_tiles[0] > 1 || plan->n_tiles[1] > 1;
    const size_t posted = 2 * n_blocks * REGISTER_N_SUMS * 8;
    const size_t weights[2] = {n * rounded_to(plan->anneal.n_source, 2) * 8,
                               n * rounded_to(plan->anneal.n_target, 2) * 8};
    const size_t words = (posted + weights[0] + weights[1] + 255) / 256 * 256;
    const size_t starts = (n * sizeof(struct register_run) + 255) / 256 * 256;
    const size_t progress = (n_blocks * sizeof(struct progress) + 255) / 256 * 256;
    const size_t rows = tiled ? n_blocks * plan->chunk_floats * sizeof(float) : 0;
    int rc = cuda_grow(&cuda->dev, &cuda->scratch, words + starts + progress + rows);
    if (rc < 0)
        return rc;
    char *at = (char *)cuda->scratch.at;
    plan->weights[0] = (unsigned long long *)at;
    plan->weights[1] = (unsigned long long *)(at + weights[0]);
    plan->posted = (unsigned long long *)(at + weights[0] + weights[1]);
    plan->starts = (struct register_run *)(at + words);
    plan->progress = (struct progress *)(at + words + starts);
    plan->rows = (float *)(at + words + starts + progress);
    CUDA_OR_RETURN(&cuda->dev, cudaMemsetAsync(at, 0, words, cuda->dev.stream));
    return 0;
}

// One launch, until all blocks are done or their time is over.
static int launch(struct register_cuda *cuda, const struct layout *layout, uint32_t n_runs,
                  struct plan *plan)
{
    void *arguments[] = {plan};
    const void *kernel = kernel_for(layout->block);
    const dim3 blocks(n_runs * layout->team), threads((unsigned)layout->block);
    // Cooperative, so that a team is on the device as a whole. Where it does not fit (other
    // processes may hold a share of the SMs) it runs all the same, in turns: who waits leaves.
    cudaError_t error = cudaErrorCooperativeLaunchTooLarge;
    if (layout->team > 1)
        error = cudaLaunchCooperativeKernel(kernel, blocks, threads, arguments,
                                            layout->shared_bytes, cuda->dev.stream);
    if (error == cudaErrorCooperativeLaunchTooLarge) {
        (void)cudaGetLastError();
        error = cudaLaunchKernel(kernel, blocks, threads, arguments, layout->shared_bytes,
                                 cuda->dev.stream);
    }
    CUDA_OR_RETURN(&cuda->dev, error);
    CUDA_OR_RETURN(&cuda->dev, cudaStreamSynchronize(cuda->dev.stream));
    return 0;
}

static int anneal_batch(struct register_cuda *cuda, const struct register_anneal *anneal,
                        struct register_run *runs, uint32_t n_runs,
                        const struct register_stop *stop)
{
    struct plan plan;
    struct layout layout;
    memset(&plan, 0, sizeof plan);
    plan.anneal = *anneal;
    plan.points[REGISTER_SOURCE] = (const float4 *)cuda->points[REGISTER_SOURCE].at;
    plan.points[REGISTER_TARGET] = (const float4 *)cuda->points[REGISTER_TARGET].at;
    plan.normals = (const float4 *)cuda->normals[REGISTER_TARGET].at;
    plan.slice_clocks = cuda->slice_clocks;
    plan.runs = cuda->host_runs->runs;
    plan.unfinished = &cuda->host_runs->unfinished;
    int rc = choose_layout(cuda, anneal, n_runs, &layout, &plan);
    if (rc == 0)
        rc = take_memory(cuda, n_runs, &plan);
    if (rc < 0)
        return rc;
    memcpy(cuda->host_runs->runs, runs, n_runs * sizeof *runs);
    CUDA_OR_RETURN(&cuda->dev, cudaMemcpyAsync((void *)plan.starts, cuda->host_runs->runs,
                                               n_runs * sizeof *runs, cudaMemcpyHostToDevice,
                                               cuda->dev.stream));
    plan.begins = true;
    do {
        rc = register_stopped(stop);
        if (rc < 0)
            return rc;
        yield_now(&cuda->dev.yield);
        cuda->host_runs->unfinished = 0;
        rc = launch(cuda, &layout, n_runs, &plan);
        if (rc < 0)
            return rc;
        plan.begins = false;
    } while (cuda->host_runs->unfinished);
    memcpy(runs, cuda->host_runs->runs, n_runs * sizeof *runs);
    return 0;
}

// Beside a tracker no more runs at a time than the device holds: the time of a block that waits
// until another has ended begins only then.
int register_cuda_anneal_streaming(struct register_cuda *cuda, const struct register_anneal *anneal,
                                   struct register_run *runs, uint32_t n_runs,
                                   const struct register_stop *stop)
{
    const uint32_t held = (uint32_t)cuda->dev.n_sms * (BIG_BLOCK / SMALL_BLOCK);
    const uint32_t most =
        cuda->dev.yield.wait && held < REGISTER_CUDA_MAX_RUNS ? held : REGISTER_CUDA_MAX_RUNS;
    const uint32_t n_batches = (n_runs + most - 1) / most;
    int rc = 0;
    for (uint32_t i = 0; i < n_batches && rc == 0; i++) {
        const uint32_t first = (uint32_t)((uint64_t)n_runs * i / n_batches);
        const uint32_t end = (uint32_t)((uint64_t)n_runs * (i + 1) / n_batches);
        rc = anneal_batch(cuda, anneal, runs + first, end - first, stop);
    }
    return rc;
}

int register_cuda_anneal_open(struct register_cuda *cuda)
{
    for (int i = 0; i < 2; i++) {
        const int block = i ? BIG_BLOCK : SMALL_BLOCK;
        CUDA_OR_RETURN(&cuda->dev, cudaFuncSetAttribute(kernel_for(block),
                                                        cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                        (int)cuda->dev.shared_bytes));
    }
    // Of the code that was loaded, which may be older than the device.
    struct cudaFuncAttributes attributes;
    CUDA_OR_RETURN(&cuda->dev, cudaFuncGetAttributes(&attributes, kernel_for(BIG_BLOCK)));
    cuda->has_tensor = attributes.ptxVersion >= 80;
    CUDA_OR_RETURN(&cuda->dev, cudaHostAlloc((void **)&cuda->host_runs, sizeof *cuda->host_runs,
                                             cudaHostAllocMapped | cudaHostAllocPortable));
    return 0;
}

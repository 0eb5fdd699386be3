// SPDX-License-Identifier: Apache-2.0
// GICP on the device: an iteration is one launch. Threads look for their points' counterparts in
// the cells; the block that ends last adds all blocks' sums in their order, and takes the step.
#include "gpu/register/cuda/device.cuh"

#include <string.h>

#define BLOCK 128
#define AHEAD \
    6u // launches that are queued before the host looks whether all poses are at their end

// A pose under way.
struct pose {
    struct register_fit fit;
    struct se3 judged; // what the points are moved by: fit.T, or its inverse
    uint32_t ended;    // blocks of this launch
    uint32_t done;
};

struct launch {
    const struct register_cell_point *points, *normals;
    uint32_t n;
    struct register_pair_target target;
    struct register_pair_rule rule;
    double reach_m, tolerance_m;
    double *partial; // by pose and block
    struct pose *poses;
    bool score_only; // the last launch: no step
};

static __device__ void add_block(const double *mine, double *out)
{
    __shared__ double warps[BLOCK / 32][GICP_N_SUMS];
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    for (int s = 0; s < GICP_N_SUMS; s++) {
        double v = mine[s];
        for (int d = 16; d > 0; d >>= 1)
            v += __shfl_down_sync(0xffffffffu, v, d);
        if (lane == 0)
            warps[warp][s] = v;
    }
    __syncthreads();
    if (threadIdx.x < GICP_N_SUMS) {
        double v = warps[0][threadIdx.x];
        for (int w = 1; w < BLOCK / 32; w++)
            v += warps[w][threadIdx.x];
        out[threadIdx.x] = v;
    }
}

static __global__ void iterate(struct launch l)
{
    struct pose *pose = &l.poses[blockIdx.y];
    double *partial = l.partial + (size_t)blockIdx.y * gridDim.x * GICP_N_SUMS;
    __shared__ bool is_last;
    __shared__ double sums[GICP_N_SUMS];
    double mine[GICP_N_SUMS];
    if (pose->done && !l.score_only)
        return;
    for (int s = 0; s < GICP_N_SUMS; s++)
        mine[s] = 0;
    const uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < l.n)
        register_pair_add(mine, &l.target, &l.rule, &pose->judged, &l.points[i], &l.normals[i]);
    add_block(mine, partial + (size_t)blockIdx.x * GICP_N_SUMS);
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        is_last = atomicAdd(&pose->ended, 1) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (!is_last)
        return;
    if (threadIdx.x < GICP_N_SUMS) {
        double v = 0;
        for (uint32_t b = 0; b < gridDim.x; b++)
            v += __ldcg(&partial[(size_t)b * GICP_N_SUMS + threadIdx.x]);
        sums[threadIdx.x] = v;
    }
    __syncthreads();
    if (threadIdx.x > 0)
        return;
    pose->ended = 0;
    if (l.score_only) {
        register_pair_judge(sums, l.n, &pose->fit);
        return;
    }
    const double moved = register_pair_step(sums, l.reach_m, &pose->fit);
    pose->fit.determined = moved >= 0;
    pose->fit.converged = pose->fit.determined && moved < l.tolerance_m;
    pose->fit.n_iterations++;
    pose->done = pose->fit.converged || !pose->fit.determined;
    pose->judged = pose->fit.T;
}

// T as a rotation again, and what the points are judged by.
static __global__ void end_iterations(struct pose *poses, uint32_t n, bool inverse)
{
    const uint32_t i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i >= n)
        return;
    poses[i].fit.T = se3_normalized(&poses[i].fit.T);
    poses[i].judged = inverse ? se3_inverse(&poses[i].fit.T) : poses[i].fit.T;
}

static int run_iterations(struct register_cuda *cuda, const struct register_gicp *gicp,
                          const struct launch *l, dim3 grid, uint32_t n_fits,
                          const struct register_stop *stop)
{
    struct cuda_dev *dev = &cuda->dev;
    struct pose *host = (struct pose *)cuda->surfaces.host.at;
    for (uint32_t k = 0; k < gicp->n_iterations; k++) {
        iterate<<<grid, BLOCK, 0, dev->stream>>>(*l);
        if ((k + 1) % AHEAD != 0 || k + 1 == gicp->n_iterations)
            continue;
        bool all_done = true;
        CUDA_OR_RETURN(dev, cudaMemcpyAsync(host, l->poses, n_fits * sizeof *host,
                                            cudaMemcpyDeviceToHost, dev->stream));
        CUDA_OR_RETURN(dev, cudaStreamSynchronize(dev->stream));
        for (uint32_t i = 0; i < n_fits; i++)
            all_done = all_done && host[i].done;
        if (all_done)
            break;
        const int rc = register_stopped(stop);
        if (rc < 0)
            return rc;
        yield_now(&dev->yield);
    }
    return CUDA_TRY(dev, cudaGetLastError());
}

int register_cuda_gicp(void *device, const struct register_gicp *gicp, bool inverse,
                       struct register_fit *fits, uint32_t n_fits, const struct register_stop *stop)
{
    struct register_cuda *cuda = (struct register_cuda *)device;
    struct cuda_dev *dev = &cuda->dev;
    struct register_cuda_levels *s = &cuda->surfaces;
    const struct register_cuda_level *source =
        &s->level[inverse ? REGISTER_TARGET : REGISTER_SOURCE][gicp->level];
    const struct register_cuda_level *target =
        &s->level[inverse ? REGISTER_SOURCE : REGISTER_TARGET][gicp->level];
    const dim3 grid((source->n + BLOCK - 1) / BLOCK, n_fits);
    const size_t poses_bytes = n_fits * sizeof(struct pose);
    if (source->n == 0 || n_fits == 0)
        return 0;
    int rc = cuda_enter(dev);
    if (rc == 0)
        rc = cuda_grow(dev, &s->partial, (size_t)grid.x * n_fits * GICP_N_SUMS * sizeof(double));
    if (rc == 0)
        rc = cuda_grow(dev, &s->fits, poses_bytes);
    if (rc == 0)
        rc = cuda_grow_host(dev, &s->host, poses_bytes);
    if (rc < 0)
        return rc;
    struct pose *host = (struct pose *)s->host.at;
    memset(host, 0, poses_bytes);
    for (uint32_t i = 0; i < n_fits; i++) {
        fits[i].converged = false;
        fits[i].determined = true;
        host[i].fit = fits[i];
        host[i].judged = fits[i].T;
    }
    struct launch l;
    memset(&l, 0, sizeof l);
    l.points = (const struct register_cell_point *)source->points.at;
    l.normals = (const struct register_cell_point *)source->normals.at;
    l.n = source->n;
    l.target.cells = target->cells;
    l.target.points = (const struct register_cell_point *)target->points.at;
    l.target.normals = (const struct register_cell_point *)target->normals.at;
    l.rule.reach_m = (float)gicp->reach_m;
    l.rule.cut2 = gicp->cut_m * gicp->cut_m;
    l.rule.inverse_cut2 = 1 / l.rule.cut2;
    l.rule.epsilon = gicp->epsilon;
    for (int a = 0; a < 3; a++)
        l.reach_m = fmax(l.reach_m, (double)source->cells.cell_m * 2 * source->cells.n_blocks[a]);
    l.tolerance_m = gicp->tolerance_m;
    l.partial = (double *)s->partial.at;
    l.poses = (struct pose *)s->fits.at;
    CUDA_OR_RETURN(
        dev, cudaMemcpyAsync(l.poses, host, poses_bytes, cudaMemcpyHostToDevice, dev->stream));
    rc = run_iterations(cuda, gicp, &l, grid, n_fits, stop);
    if (rc < 0)
        return rc;
    end_iterations<<<n_fits / 32 + 1, 32, 0, dev->stream>>>(l.poses, n_fits, inverse);
    l.score_only = true;
    iterate<<<grid, BLOCK, 0, dev->stream>>>(l);
    CUDA_OR_RETURN(dev, cudaGetLastError());
    CUDA_OR_RETURN(
        dev, cudaMemcpyAsync(host, l.poses, poses_bytes, cudaMemcpyDeviceToHost, dev->stream));
    CUDA_OR_RETURN(dev, cudaStreamSynchronize(dev->stream));
    for (uint32_t i = 0; i < n_fits; i++)
        fits[i] = host[i].fit;
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Iterations over near pairs only, on CUDA. Weights cut off at 3 sigma look into the 27 cells of a
// uniform grid around a point (sorted points, so that three cells in a row are one range). ICP goes
// down a tree of boxes (box_tree.cuh), from the last iteration's nearest point, which is not far.
#include "gpu/register/cuda/box_tree.cuh"

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <string.h>

#include "gpu/register/kernels/m_step.h"

#define BLOCK            256
#define SOLVE_THREADS    832 // 16 for each of the sums
#define MAX_CELLS        160 // along one axis
// Target points that a thread looks at one after another: a stop waits for the launch, and so does
// a tracker on the same device, or at least for the blocks that are there.
#define SLICE            8192u
#define COUNT_STEP       64u // how exactly the points of the fullest cell are known
#define ITERATIONS_AHEAD 8u  // what the host queues before it looks, unless it gives way to others

// Cells of a box that holds most of the points; those outside of it belong to the cells at its
// rim. That way one far point does not make all others share a cell.
struct grid {
    float origin[3], inverse;
    float low[3], high[3]; // of all points
    int n[3];
    const uint32_t *starts; // n cells + 1
    const float4 *points;   // sorted by cell
    const float4 *normals;
};

// How the steps become smaller, and whether the run is at its end.
struct pace {
    struct register_pace steps;
    uint32_t done;
};

struct near {
    struct register_nearest settings;
    const float4 *source; // ICP: in the order of register_boxes_order
    struct grid grid;
    struct register_boxes boxes;
    uint32_t *nearest;        // ICP: among the points of `boxes`, by source point
    double *partial;          // REGISTER_N_SUMS + 1 a block
    struct soft *soft;        // by source point, between two slices
    uint32_t slice, n_slices; // of the pairs that a thread looks at: this one, of so many
    uint32_t n_blocks;
    struct register_run *run;
    struct pace *pace;
};

// Of a point's neighbours: weights, weighted differences and normals.
struct soft {
    float sum, sx[3], sn[3], unused;
};

// Also of points far outside.
static __device__ int cell_along(const struct grid *grid, int axis, float p)
{
    const float c = floorf((p - grid->origin[axis]) * grid->inverse);
    return (int)fminf(fmaxf(c, -2.0f), (float)grid->n[axis] + 1);
}

static __device__ int cell_inside(const struct grid *grid, int axis, int c)
{
    return min(max(c, 0), grid->n[axis] - 1);
}

static __global__ void find_cells(struct grid grid, const float4 *points, uint32_t n,
                                  uint32_t *out_keys, uint32_t *out_order, uint32_t *counts,
                                  uint32_t *out_most)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float4 p = points[i];
    const int x = cell_inside(&grid, 0, cell_along(&grid, 0, p.x));
    const int y = cell_inside(&grid, 1, cell_along(&grid, 1, p.y));
    const int z = cell_inside(&grid, 2, cell_along(&grid, 2, p.z));
    const uint32_t key = (uint32_t)((z * grid.n[1] + y) * grid.n[0] + x);
    out_keys[i] = key;
    out_order[i] = i;
    const uint32_t count = atomicAdd(&counts[key], 1) + 1;
    if (count % COUNT_STEP == 0)
        atomicMax(out_most, count);
}

// The points in the order of their cells.
static __global__ void fill_grid(const uint32_t *order, const float4 *points, const float4 *normals,
                                 uint32_t n, float4 *out_points, float4 *out_normals)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out_points[i] = points[order[i]];
    if (normals)
        out_normals[i] = normals[order[i]];
}

static __device__ void source_point(const struct near *near, uint32_t i, double y[3])
{
    const float4 p = near->source[i];
    const double local[3] = {p.x, p.y, p.z};
    se3_apply(&near->run->T, local, y);
}

// Adds the block's sums and posts them.
static __device__ void post_sums(const struct near *near, const double *mine)
{
    __shared__ double warp_sums[BLOCK / 32][REGISTER_N_SUMS + 1];
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    for (int s = 0; s <= REGISTER_N_SUMS; s++) {
        double v = mine[s];
        for (int d = 16; d > 0; d >>= 1)
            v += __shfl_xor_sync(0xffffffffu, v, d);
        if (lane == 0)
            warp_sums[warp][s] = v;
    }
    __syncthreads();
    for (int s = (int)threadIdx.x; s <= REGISTER_N_SUMS; s += BLOCK) {
        double v = 0;
        for (int w = 0; w < BLOCK / 32; w++)
            v += warp_sums[w][s];
        near->partial[(size_t)blockIdx.x * (REGISTER_N_SUMS + 1) + (size_t)s] = v;
    }
}

static __device__ __forceinline__ void add_near(const struct near *near, uint32_t j,
                                                const float p[3], float limit2, float k,
                                                struct soft *soft)
{
    const float4 x = near->grid.points[j];
    float dx = x.x - p[0], dy = x.y - p[1], dz = x.z - p[2];
    float d2 = dx * dx + dy * dy + dz * dz;
    if (d2 > limit2)
        return;
    float e = exp2f(k * d2);
    soft->sum += e;
    // Differences keep the digits that sums of coordinates would lose.
    soft->sx[0] += e * dx;
    soft->sx[1] += e * dy;
    soft->sx[2] += e * dz;
    if (near->settings.planes) {
        const float4 n = near->grid.normals[j];
        soft->sn[0] += e * n.x;
        soft->sn[1] += e * n.y;
        soft->sn[2] += e * n.z;
    }
}

// The slice's share of the points around p: they are counted through, row by row.
static __device__ void look_around(const struct near *near, const float p[3], struct soft *soft)
{
    const struct grid *grid = &near->grid;
    const float limit2 = (float)(9 * near->settings.sigma2), reach = 1 / grid->inverse;
    const float k = (float)(-0.72134752044448170 / near->settings.sigma2);
    const uint32_t from = near->slice * SLICE;
    const uint32_t to = near->slice + 1 < near->n_slices ? from + SLICE : UINT32_MAX;
    int first[3], last[3];
    for (int a = 0; a < 3; a++) {
        const int c = cell_along(grid, a, p[a]);
        if (p[a] < grid->low[a] - reach || p[a] > grid->high[a] + reach)
            return;
        first[a] = cell_inside(grid, a, c - 1);
        last[a] = cell_inside(grid, a, c + 1);
    }
    uint32_t before = 0;
    for (int cz = first[2]; cz <= last[2]; cz++)
        for (int cy = first[1]; cy <= last[1]; cy++) {
            const uint32_t row = (uint32_t)((cz * grid->n[1] + cy) * grid->n[0]);
            const uint32_t begin = grid->starts[row + (uint32_t)first[0]];
            const uint32_t n = grid->starts[row + (uint32_t)last[0] + 1] - begin;
            const uint32_t end = begin + min(n, max(to, before) - before);
            for (uint32_t j = begin + max(from, before) - before; j < end; j++)
                add_near(near, j, p, limit2, k, soft);
            before += n;
        }
}

static __global__ void __launch_bounds__(BLOCK) sum_truncated(struct near near)
{
    if (near.pace->done)
        return;
    uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
    const bool there = i < near.settings.n_source, is_last = near.slice + 1 == near.n_slices;
    double mine[REGISTER_N_SUMS + 1] = {0}, y[3] = {0, 0, 0};
    float p[3] = {0, 0, 0};
    struct soft soft = {};
    if (there) {
        source_point(&near, i, y);
        for (int a = 0; a < 3; a++)
            p[a] = (float)y[a];
        if (near.slice > 0)
            soft = near.soft[i];
        look_around(&near, p, &soft);
    }
    if (!is_last) {
        if (there)
            near.soft[i] = soft;
        return;
    }
    if (there) {
        const float sum = soft.sum, *sx = soft.sx, *sn = soft.sn;
        if (sum > 0) {
            const double weight = sum / (near.settings.slack + sum);
            const double x[3] = {p[0] + (double)sx[0] / sum, p[1] + (double)sx[1] / sum,
                                 p[2] + (double)sx[2] / sum};
            register_add_pair(mine, weight, x, y);
            if (near.settings.planes) {
                const double length =
                    sqrt((double)sn[0] * sn[0] + (double)sn[1] * sn[1] + (double)sn[2] * sn[2]);
                const double inverse = length > 0 ? 1 / length : 0;
                const double n[3] = {sn[0] * inverse, sn[1] * inverse, sn[2] * inverse};
                register_add_plane(mine, weight, x, y, n);
            }
            mine[REGISTER_N_SUMS] = 1;
        }
    }
    post_sums(&near, mine);
}

// Eight threads a source point.
static __global__ void __launch_bounds__(BLOCK) find_nearest(struct near near)
{
    if (near.pace->done)
        return;
    const uint32_t i = (blockIdx.x * BLOCK + threadIdx.x) / REGISTER_BOXES_FAN;
    if (i >= near.settings.n_source)
        return;
    double y[3];
    source_point(&near, i, y);
    const float p[3] = {(float)y[0], (float)y[1], (float)y[2]};
    const uint32_t found = register_boxes_nearest(&near.boxes, p, near.nearest[i]);
    if (threadIdx.x % REGISTER_BOXES_FAN == 0)
        near.nearest[i] = found;
}

static __global__ void __launch_bounds__(BLOCK) sum_nearest(struct near near)
{
    if (near.pace->done)
        return;
    const uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
    double mine[REGISTER_N_SUMS + 1] = {0};
    if (i < near.settings.n_source) {
        const uint32_t found = near.nearest[i];
        const float4 x4 = near.boxes.points[found];
        const double x[3] = {x4.x, x4.y, x4.z};
        double y[3];
        source_point(&near, i, y);
        register_add_pair(mine, 1, x, y);
        if (near.settings.planes) {
            const float4 n4 = near.boxes.normals[found];
            const double n[3] = {n4.x, n4.y, n4.z};
            register_add_plane(mine, 1, x, y, n);
        }
        mine[REGISTER_N_SUMS] = 1;
    }
    post_sums(&near, mine);
}

// Sixteen threads a sum, always the same ones for the same blocks.
static __global__ void __launch_bounds__(SOLVE_THREADS) solve_step(struct near near)
{
    __shared__ double sums[SOLVE_THREADS / 16];
    if (near.pace->done)
        return;
    const uint32_t s = threadIdx.x / 16;
    double v = 0;
    if (s <= REGISTER_N_SUMS)
#pragma unroll 8
        for (uint32_t b = threadIdx.x & 15; b < near.n_blocks; b += 16)
            v += near.partial[(size_t)b * (REGISTER_N_SUMS + 1) + s];
#pragma unroll
    for (int d = 8; d > 0; d >>= 1)
        v += __shfl_xor_sync(0xffffffffu, v, d);
    if ((threadIdx.x & 15) == 0)
        sums[s] = v;
    __syncthreads();
    if (threadIdx.x == 0) {
        struct register_run *run = near.run;
        struct se3 step;
        run->n_iterations++;
        run->determined =
            sums[REGISTER_N_SUMS] >= 3 && register_step(sums, near.settings.planes, run, &step);
        run->converged = run->determined && register_pace_take(&near.pace->steps, sums, &step,
                                                               run) < near.settings.tolerance;
        near.pace->done = !run->determined || run->converged;
        register_finish(sums, run);
    }
}

// Cells of 3 sigma, or larger where the box would need too many.
static uint32_t shape_grid(const struct register_cuda *cuda, double sigma2, struct grid *grid)
{
    float size = 3 * (float)sqrt(sigma2);
    uint32_t n_cells = 1;
    for (int a = 0; a < 3; a++)
        size = fmaxf(size, (cuda->box_high[a] - cuda->box_low[a]) / (MAX_CELLS - 1));
    for (int a = 0; a < 3; a++) {
        grid->low[a] = cuda->low[a];
        grid->high[a] = cuda->high[a];
        grid->origin[a] = cuda->box_low[a];
        grid->n[a] = (int)((cuda->box_high[a] - cuda->box_low[a]) / size) + 1;
        n_cells *= (uint32_t)grid->n[a];
    }
    grid->inverse = 1 / size;
    return n_cells;
}

static size_t rounded(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

// out_n_slices: in how many pieces a thread is to look at its pairs.
static int build_grid(struct register_cuda *cuda, uint32_t n, double sigma2, bool with_normals,
                      struct grid *grid, uint32_t *out_n_slices)
{
    const uint32_t n_cells = shape_grid(cuda, sigma2, grid), n_starts = n_cells + 1;
    int bits = 1;
    while (n_cells >> bits)
        bits++;
    size_t sort_bytes = 0, scan_bytes = 0;
    CUDA_OR_RETURN(&cuda->dev, cub::DeviceRadixSort::SortPairs(NULL, sort_bytes, (uint32_t *)NULL,
                                                               (uint32_t *)NULL, (uint32_t *)NULL,
                                                               (uint32_t *)NULL, (int)n, 0, bits));
    CUDA_OR_RETURN(&cuda->dev, cub::DeviceScan::ExclusiveSum(NULL, scan_bytes, (uint32_t *)NULL,
                                                             (uint32_t *)NULL, (int)n_starts));
    enum { POINTS, NORMALS, KEYS, ORDER, SORTED_KEYS, SORTED_ORDER, COUNTS, STARTS, WORK, N_PARTS };
    const size_t sizes[N_PARTS] = {rounded(n * sizeof(float4)),
                                   rounded(with_normals ? n * sizeof(float4) : 0),
                                   rounded(n * 4),
                                   rounded(n * 4),
                                   rounded(n * 4),
                                   rounded(n * 4),
                                   rounded(((size_t)n_starts + 1) * 4), // and the most
                                   rounded((size_t)n_starts * 4),
                                   rounded(sort_bytes > scan_bytes ? sort_bytes : scan_bytes)};
    size_t total = 0;
    for (size_t i = 0; i < N_PARTS; i++)
        total += sizes[i];
    int rc = cuda_grow(&cuda->dev, &cuda->grid, total);
    if (rc < 0)
        return rc;
    char *part[N_PARTS], *at = (char *)cuda->grid.at;
    for (size_t i = 0; i < N_PARTS; at += sizes[i++])
        part[i] = at;
    uint32_t *keys = (uint32_t *)part[KEYS], *order = (uint32_t *)part[ORDER];
    uint32_t *sorted_keys = (uint32_t *)part[SORTED_KEYS];
    uint32_t *sorted_order = (uint32_t *)part[SORTED_ORDER];
    uint32_t *counts = (uint32_t *)part[COUNTS], *most = counts + n_starts;
    const float4 *points = (const float4 *)cuda->points[REGISTER_TARGET].at;
    const float4 *normals =
        with_normals ? (const float4 *)cuda->normals[REGISTER_TARGET].at : (const float4 *)NULL;
    CUDA_OR_RETURN(&cuda->dev,
                   cudaMemsetAsync(counts, 0, ((size_t)n_starts + 1) * 4, cuda->dev.stream));
    find_cells<<<(n + BLOCK - 1) / BLOCK, BLOCK, 0, cuda->dev.stream>>>(*grid, points, n, keys,
                                                                        order, counts, most);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    CUDA_OR_RETURN(&cuda->dev, cudaMemcpyAsync(&cuda->host_runs->densest, most, sizeof *most,
                                               cudaMemcpyDeviceToHost, cuda->dev.stream));
    CUDA_OR_RETURN(&cuda->dev, cub::DeviceScan::ExclusiveSum(part[WORK], scan_bytes, counts,
                                                             (uint32_t *)part[STARTS],
                                                             (int)n_starts, cuda->dev.stream));
    CUDA_OR_RETURN(&cuda->dev, cub::DeviceRadixSort::SortPairs(part[WORK], sort_bytes, keys,
                                                               sorted_keys, order, sorted_order,
                                                               (int)n, 0, bits, cuda->dev.stream));
    fill_grid<<<(n + BLOCK - 1) / BLOCK, BLOCK, 0, cuda->dev.stream>>>(
        sorted_order, points, normals, n, (float4 *)part[POINTS], (float4 *)part[NORMALS]);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    CUDA_OR_RETURN(&cuda->dev, cudaStreamSynchronize(cuda->dev.stream));
    grid->points = (const float4 *)part[POINTS];
    grid->normals = (const float4 *)part[NORMALS];
    grid->starts = (const uint32_t *)part[STARTS];
    const uint64_t around = 27ull * (cuda->host_runs->densest + COUNT_STEP);
    *out_n_slices = (uint32_t)((around < n ? around : n) / SLICE) + 1;
    return 0;
}

// Where cells are full, a launch a slice.
static int sum_around(struct register_cuda *cuda, struct near near,
                      const struct register_stop *stop)
{
    for (near.slice = 0; near.slice < near.n_slices; near.slice++) {
        if (near.slice > 0) {
            CUDA_OR_RETURN(&cuda->dev, cudaStreamSynchronize(cuda->dev.stream));
            int rc = register_stopped(stop);
            if (rc < 0)
                return rc;
            yield_now(&cuda->dev.yield);
        }
        sum_truncated<<<near.n_blocks, BLOCK, 0, cuda->dev.stream>>>(near);
        CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    }
    return 0;
}

static int iterate(struct register_cuda *cuda, const struct near *near,
                   const struct register_stop *stop)
{
    if (near->settings.kind == REGISTER_NEAREST_TRUNCATED) {
        int rc = sum_around(cuda, *near, stop);
        if (rc < 0)
            return rc;
    } else {
        const uint32_t n_threads = near->settings.n_source * REGISTER_BOXES_FAN;
        find_nearest<<<(n_threads + BLOCK - 1) / BLOCK, BLOCK, 0, cuda->dev.stream>>>(*near);
        CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
        sum_nearest<<<near->n_blocks, BLOCK, 0, cuda->dev.stream>>>(*near);
    }
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    solve_step<<<1, SOLVE_THREADS, 0, cuda->dev.stream>>>(*near);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    return 0;
}

// All iterations. The host looks every few whether the run is done, which also bounds what a stop
// has to wait for.
static int iterate_all(struct register_cuda *cuda, const struct near *near,
                       struct register_run *run, const struct register_stop *stop)
{
    const uint32_t ahead = cuda->dev.yield.wait ? 1 : ITERATIONS_AHEAD;
    for (uint32_t k = 0; k < near->settings.n_iterations; k++) {
        int rc = register_stopped(stop);
        yield_now(&cuda->dev.yield);
        if (rc == 0)
            rc = iterate(cuda, near, stop);
        if (rc < 0)
            return rc;
        if (k % ahead != ahead - 1 && k + 1 != near->settings.n_iterations)
            continue;
        CUDA_OR_RETURN(&cuda->dev, cudaMemcpyAsync(cuda->host_runs->runs, near->run, sizeof *run,
                                                   cudaMemcpyDeviceToHost, cuda->dev.stream));
        CUDA_OR_RETURN(&cuda->dev, cudaStreamSynchronize(cuda->dev.stream));
        *run = cuda->host_runs->runs[0];
        if (run->converged || !run->determined)
            return 0;
    }
    return 0;
}

int register_cuda_nearest(void *device, const struct register_nearest *settings,
                          struct register_run *run, const struct register_stop *stop)
{
    struct register_cuda *cuda = (struct register_cuda *)device;
    struct near near;
    memset(&near, 0, sizeof near);
    CUDA_OR_RETURN(&cuda->dev, cudaSetDevice(cuda->dev.index));
    near.settings = *settings;
    near.source = (const float4 *)cuda->points[REGISTER_SOURCE].at;
    near.n_blocks = (settings->n_source + BLOCK - 1) / BLOCK;
    const bool icp = settings->kind == REGISTER_NEAREST_ICP;
    int rc = icp ? register_boxes_build(cuda, settings->n_target, settings->planes, &near.boxes)
                 : build_grid(cuda, settings->n_target, settings->sigma2, settings->planes,
                              &near.grid, &near.n_slices);
    const size_t n_source = settings->n_source;
    const size_t partial_bytes = rounded(near.n_blocks * (REGISTER_N_SUMS + 1) * sizeof(double));
    const size_t source_bytes = icp ? rounded(n_source * sizeof *near.source) : 0;
    const size_t nearest_bytes = icp ? rounded(n_source * sizeof *near.nearest) : 0;
    const size_t soft_bytes = near.n_slices > 1 ? n_source * sizeof *near.soft : 0;
    const size_t run_bytes = rounded(sizeof *run);
    if (rc == 0)
        rc = cuda_grow(&cuda->dev, &cuda->scratch,
                       partial_bytes + source_bytes + nearest_bytes + soft_bytes);
    if (rc == 0)
        rc = cuda_grow(&cuda->dev, &cuda->runs, run_bytes + sizeof *near.pace);
    if (rc < 0)
        return rc;
    char *memory = (char *)cuda->scratch.at;
    near.partial = (double *)memory;
    near.nearest = (uint32_t *)(memory + partial_bytes + source_bytes);
    near.soft = (struct soft *)(memory + partial_bytes + source_bytes + nearest_bytes);
    near.run = (struct register_run *)cuda->runs.at;
    near.pace = (struct pace *)((char *)cuda->runs.at + run_bytes);
    const struct pace begin = {register_pace_begin(), 0};
    run->converged = false;
    run->determined = true;
    cuda->host_runs->runs[0] = *run;
    CUDA_OR_RETURN(&cuda->dev, cudaMemcpyAsync(near.run, cuda->host_runs->runs, sizeof *run,
                                               cudaMemcpyHostToDevice, cuda->dev.stream));
    CUDA_OR_RETURN(&cuda->dev, cudaMemcpyAsync(near.pace, &begin, sizeof begin,
                                               cudaMemcpyHostToDevice, cuda->dev.stream));
    if (icp) {
        float4 *source = (float4 *)(memory + partial_bytes);
        near.source = source;
        CUDA_OR_RETURN(&cuda->dev, // REGISTER_BOXES_NONE
                       cudaMemsetAsync(near.nearest, 0xff, nearest_bytes, cuda->dev.stream));
        rc = register_boxes_order(cuda, settings->n_source, &run->T, source);
    }
    if (rc == 0)
        rc = iterate_all(cuda, &near, run, stop);
    if (rc < 0) // whoever comes next may take the memory away from what is still under way
        CUDA_OR_RETURN(&cuda->dev, cudaStreamSynchronize(cuda->dev.stream));
    return rc;
}

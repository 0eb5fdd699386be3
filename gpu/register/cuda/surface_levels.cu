// SPDX-License-Identifier: Apache-2.0
// Levels of the surfaces on the device. Bits of the cells are set and sums are added with integer
// atomics: the same result in any order, and the bits of the CPU's. Everything of both sets is
// queued; the host waits once, for the counts.
#include "gpu/register/cuda/device.cuh"
extern "C" {
#include "gpu/register/kernels/plane.h"
}

#include <cub/device/device_scan.cuh>
#include <string.h>

#define BLOCK 128

// Points of a set, local: of the caller's three arrays, or of a finer level.
struct input {
    const float *x, *y, *z;
    double origin[3];
    const struct register_cell_point *points;
    const uint32_t *n_points; // of a finer level: on the device
    uint32_t n;
};

static __device__ bool input_point(const struct input *in, uint32_t i, float p[3], uint64_t *weight)
{
    if (in->points) {
        if (i >= *in->n_points)
            return false;
        const struct register_cell_point point = in->points[i];
        p[0] = point.x, p[1] = point.y, p[2] = point.z;
        *weight = (uint64_t)point.weight;
        return true;
    }
    if (i >= in->n)
        return false;
    p[0] = (float)((double)in->x[i] - in->origin[0]);
    p[1] = (float)((double)in->y[i] - in->origin[1]);
    p[2] = (float)((double)in->z[i] - in->origin[2]);
    *weight = 1;
    return true;
}

static __global__ void mark_cells(struct input in, struct register_cells cells)
{
    const uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
    float p[3];
    uint64_t weight;
    uint32_t fraction[3];
    if (!input_point(&in, i, p, &weight))
        return;
    const uint32_t cell = register_cells_find(&cells, p, fraction);
    const unsigned long long bit = 1ull << (cell & 63);
    if (cell != REGISTER_CELLS_NONE && !(cells.mask[cell >> 6] & bit))
        atomicOr((unsigned long long *)&cells.mask[cell >> 6], bit);
}

// The last element, one beyond the blocks, becomes the number of points after the scan.
static __global__ void count_bits(struct register_cells cells, uint32_t n_blocks, uint32_t *out)
{
    const uint32_t b = blockIdx.x * BLOCK + threadIdx.x;
    if (b <= n_blocks)
        out[b] = b < n_blocks ? register_cells_bits(cells.mask[b]) : 0;
}

static __global__ void add_points(struct input in, struct register_cells cells,
                                  unsigned long long *sums)
{
    const uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
    float p[3];
    uint64_t weight;
    uint32_t fraction[3];
    if (!input_point(&in, i, p, &weight))
        return;
    const uint32_t cell = register_cells_find(&cells, p, fraction);
    if (cell == REGISTER_CELLS_NONE)
        return;
    unsigned long long *s = sums + 4 * (size_t)register_cells_index(&cells, cell);
    for (int a = 0; a < 3; a++)
        atomicAdd(&s[a], weight * fraction[a]);
    atomicAdd(&s[3], (unsigned long long)weight);
}

static __global__ void take_means(struct register_cells cells, uint32_t n_blocks,
                                  const unsigned long long *sums, struct register_cell_point *out)
{
    const uint32_t b = blockIdx.x * BLOCK + threadIdx.x;
    if (b >= n_blocks)
        return;
    const int32_t x = (int32_t)b % cells.n_blocks[0];
    const int32_t y = (int32_t)b / cells.n_blocks[0] % cells.n_blocks[1];
    const int32_t z = (int32_t)b / (cells.n_blocks[0] * cells.n_blocks[1]);
    uint32_t i = cells.first[b];
    for (uint64_t left = cells.mask[b]; left; left &= left - 1, i++) {
        const int32_t bit = (int32_t)register_cells_lowest(left);
        const unsigned long long *s = sums + 4 * (size_t)i;
        const uint32_t n = (uint32_t)s[3];
        struct register_cell_point point;
        point.x = register_cells_mean(&cells, 0, 4 * x + (bit & 3), s[0], n);
        point.y = register_cells_mean(&cells, 1, 4 * y + (bit >> 2 & 3), s[1], n);
        point.z = register_cells_mean(&cells, 2, 4 * z + (bit >> 4), s[2], n);
        point.weight = (float)n;
        out[i] = point;
    }
}

// The levels of both sets whose planes are fitted in one launch: each takes as long as its slowest
// point, whatever the number of points.
struct plane_level {
    struct register_cells cells;
    const struct register_cell_point *points;
    const uint32_t *n; // on the device
    struct register_cell_point *normals;
    uint32_t *bins;
};

struct plane_levels {
    struct plane_level level[2 * REGISTER_MOST_LEVELS];
};

static __global__ void fit_planes(struct plane_levels levels)
{
    __shared__ uint32_t mine[REGISTER_NOISE_BINS];
    const struct plane_level *l = &levels.level[blockIdx.y];
    const uint32_t i = blockIdx.x * BLOCK + threadIdx.x, n = *l->n;
    if (blockIdx.x * BLOCK >= n)
        return;
    for (uint32_t b = threadIdx.x; b < REGISTER_NOISE_BINS; b += BLOCK)
        mine[b] = 0;
    __syncthreads();
    if (i < n && register_plane_around(&l->cells, l->points, i, &l->normals[i]))
        atomicAdd(&mine[register_noise_bin(&l->cells, l->normals[i].weight)], 1);
    __syncthreads();
    for (uint32_t b = threadIdx.x; b < REGISTER_NOISE_BINS; b += BLOCK)
        if (mine[b])
            atomicAdd(&l->bins[b], mine[b]);
}

// Of a level on the device, beside each other: number of points, noise bins.
#define COUNTS (1 + REGISTER_NOISE_BINS)

static int grow_level(struct cuda_dev *dev, struct register_cuda_level *level,
                      const struct register_cells *cells, uint32_t most_points)
{
    const uint32_t n_blocks = register_cells_count(cells);
    int rc = cuda_grow(dev, &level->mask, n_blocks * sizeof(uint64_t));
    if (rc == 0)
        rc = cuda_grow(dev, &level->first, (n_blocks + 1) * sizeof(uint32_t));
    if (rc == 0)
        rc = cuda_grow(dev, &level->points, most_points * sizeof(struct register_cell_point));
    if (rc == 0)
        rc = cuda_grow(dev, &level->normals, most_points * sizeof(struct register_cell_point));
    level->cells = *cells;
    level->cells.mask = (uint64_t *)level->mask.at;
    level->cells.first = (uint32_t *)level->first.at;
    return rc;
}

// Queues all that makes a level but its planes. `most`: of its points.
static int queue_level(struct cuda_dev *dev, struct register_cuda_levels *s,
                       struct register_cuda_level *level, const struct input *in, uint32_t most,
                       uint32_t *counts)
{
    const uint32_t n_blocks = register_cells_count(&level->cells);
    const uint32_t over_points = (most + BLOCK - 1) / BLOCK;
    const uint32_t over_blocks = n_blocks / BLOCK + 1;
    cudaStream_t stream = dev->stream;
    size_t scan_bytes = 0;
    CUDA_OR_RETURN(dev, cudaMemsetAsync(level->mask.at, 0, n_blocks * sizeof(uint64_t), stream));
    mark_cells<<<over_points, BLOCK, 0, stream>>>(*in, level->cells);
    count_bits<<<over_blocks, BLOCK, 0, stream>>>(level->cells, n_blocks, (uint32_t *)s->bits.at);
    CUDA_OR_RETURN(dev,
                   cub::DeviceScan::ExclusiveSum(NULL, scan_bytes, (uint32_t *)s->bits.at,
                                                 level->cells.first, (int)n_blocks + 1, stream));
    int rc = cuda_grow(dev, &s->scan, scan_bytes);
    if (rc < 0)
        return rc;
    CUDA_OR_RETURN(dev,
                   cub::DeviceScan::ExclusiveSum(s->scan.at, scan_bytes, (uint32_t *)s->bits.at,
                                                 level->cells.first, (int)n_blocks + 1, stream));
    CUDA_OR_RETURN(dev, cudaMemcpyAsync(counts, level->cells.first + n_blocks, sizeof(uint32_t),
                                        cudaMemcpyDeviceToDevice, stream));
    CUDA_OR_RETURN(dev,
                   cudaMemsetAsync(s->sums.at, 0, 4 * (size_t)most * sizeof(uint64_t), stream));
    add_points<<<over_points, BLOCK, 0, stream>>>(*in, level->cells,
                                                  (unsigned long long *)s->sums.at);
    take_means<<<over_blocks, BLOCK, 0, stream>>>(level->cells, n_blocks,
                                                  (const unsigned long long *)s->sums.at,
                                                  (struct register_cell_point *)level->points.at);
    return CUDA_TRY(dev, cudaGetLastError());
}

static int queue_side(struct register_cuda *cuda, const struct register_surface_load *load,
                      uint32_t side, uint32_t n_levels, const struct register_surface *info)
{
    struct cuda_dev *dev = &cuda->dev;
    struct register_cuda_levels *s = &cuda->surfaces;
    const uint32_t n = (uint32_t)load->points.n_points;
    const float *const axes[3] = {load->points.x_m, load->points.y_m, load->points.z_m};
    float *raw = (float *)s->raw.at;
    uint32_t most = n;
    struct input in;
    memset(&in, 0, sizeof in);
    for (int a = 0; a < 3; a++) {
        yield_now(&dev->yield);
        CUDA_OR_RETURN(dev, cudaMemcpyAsync(raw + (size_t)a * n, axes[a], n * sizeof(float),
                                            cudaMemcpyHostToDevice, dev->stream));
    }
    in.x = raw, in.y = raw + n, in.z = raw + 2 * (size_t)n;
    memcpy(in.origin, load->origin_m, sizeof in.origin);
    in.n = n;
    for (uint32_t l = 0; l < n_levels; l++) {
        struct register_cuda_level *level = &s->level[side][l];
        uint32_t *counts = (uint32_t *)s->counts.at + (side * REGISTER_MOST_LEVELS + l) * COUNTS;
        const uint64_t n_cells = 64 * (uint64_t)register_cells_count(&info[l].cells);
        most = n_cells < most ? (uint32_t)n_cells : most;
        int rc = grow_level(dev, level, &info[l].cells, most);
        if (rc == 0)
            rc = queue_level(dev, s, level, &in, l == 0 ? n : most, counts);
        if (rc < 0)
            return rc;
        memset(&in, 0, sizeof in);
        in.points = (const struct register_cell_point *)level->points.at;
        in.n_points = counts;
    }
    return 0;
}

// Queues the planes of all levels of both sets, once their points are queued. `most`: points of the
// largest level.
static int queue_planes(struct register_cuda *cuda, uint32_t n_levels, uint32_t most)
{
    struct register_cuda_levels *s = &cuda->surfaces;
    struct plane_levels levels;
    memset(&levels, 0, sizeof levels);
    for (uint32_t i = 0; i < 2 * n_levels; i++) {
        const uint32_t side = i / n_levels, l = i % n_levels;
        struct register_cuda_level *level = &s->level[side][l];
        uint32_t *counts = (uint32_t *)s->counts.at + (side * REGISTER_MOST_LEVELS + l) * COUNTS;
        levels.level[i].cells = level->cells;
        levels.level[i].points = (const struct register_cell_point *)level->points.at;
        levels.level[i].n = counts;
        levels.level[i].normals = (struct register_cell_point *)level->normals.at;
        levels.level[i].bins = counts + 1;
    }
    yield_now(&cuda->dev.yield);
    const dim3 grid((most + BLOCK - 1) / BLOCK, 2 * n_levels);
    fit_planes<<<grid, BLOCK, 0, cuda->dev.stream>>>(levels);
    return CUDA_TRY(&cuda->dev, cudaGetLastError());
}

int register_cuda_surfaces(void *device, const struct register_surface_load loads[2],
                           uint32_t n_levels, struct register_surface info[2][REGISTER_MOST_LEVELS])
{
    struct register_cuda *cuda = (struct register_cuda *)device;
    struct cuda_dev *dev = &cuda->dev;
    struct register_cuda_levels *s = &cuda->surfaces;
    const size_t n_source = loads[0].points.n_points, n_target = loads[1].points.n_points;
    const size_t most = n_source > n_target ? n_source : n_target;
    const size_t counts_bytes = 2 * REGISTER_MOST_LEVELS * COUNTS * sizeof(uint32_t);
    uint32_t most_blocks = 0;
    for (int side = 0; side < 2; side++)
        for (uint32_t l = 0; l < n_levels; l++)
            if (register_cells_count(&info[side][l].cells) > most_blocks)
                most_blocks = register_cells_count(&info[side][l].cells);
    int rc = cuda_enter(dev);
    if (rc == 0)
        rc = cuda_grow(dev, &s->raw, 3 * most * sizeof(float));
    if (rc == 0)
        rc = cuda_grow(dev, &s->sums, 4 * most * sizeof(uint64_t));
    if (rc == 0)
        rc = cuda_grow(dev, &s->bits, (most_blocks + 1) * sizeof(uint32_t));
    if (rc == 0)
        rc = cuda_grow(dev, &s->counts, counts_bytes);
    if (rc == 0)
        rc = cuda_grow_host(dev, &s->host, counts_bytes);
    if (rc < 0)
        return rc;
    CUDA_OR_RETURN(dev, cudaMemsetAsync(s->counts.at, 0, counts_bytes, dev->stream));
    for (uint32_t side = 0; rc == 0 && side < 2; side++)
        rc = queue_side(cuda, &loads[side], side, n_levels, info[side]);
    if (rc == 0)
        rc = queue_planes(cuda, n_levels, (uint32_t)most);
    if (rc < 0)
        return rc;
    CUDA_OR_RETURN(dev, cudaMemcpyAsync(s->host.at, s->counts.at, counts_bytes,
                                        cudaMemcpyDeviceToHost, dev->stream));
    CUDA_OR_RETURN(dev, cudaStreamSynchronize(dev->stream));
    for (int side = 0; side < 2; side++)
        for (uint32_t l = 0; l < n_levels; l++) {
            const uint32_t *counts =
                (const uint32_t *)s->host.at + (side * REGISTER_MOST_LEVELS + l) * COUNTS;
            struct register_surface *out = &info[side][l];
            uint32_t planar = 0;
            for (uint32_t b = 0; b < REGISTER_NOISE_BINS; b++)
                planar += counts[1 + b];
            out->n = s->level[side][l].n = counts[0];
            out->noise_m = register_noise_of(&out->cells, counts + 1);
            out->planar = out->n ? (double)planar / out->n : 0;
        }
    return 0;
}

int register_cuda_fetch(void *device, enum register_side side, uint32_t level,
                        struct register_cell_point *out_points,
                        struct register_cell_point *out_normals)
{
    struct register_cuda *cuda = (struct register_cuda *)device;
    struct cuda_dev *dev = &cuda->dev;
    const struct register_cuda_level *from = &cuda->surfaces.level[side][level];
    const size_t bytes = from->n * sizeof *out_points;
    int rc = cuda_enter(dev);
    if (rc < 0)
        return rc;
    CUDA_OR_RETURN(dev, cudaMemcpyAsync(out_points, from->points.at, bytes, cudaMemcpyDeviceToHost,
                                        dev->stream));
    CUDA_OR_RETURN(dev, cudaMemcpyAsync(out_normals, from->normals.at, bytes,
                                        cudaMemcpyDeviceToHost, dev->stream));
    CUDA_OR_RETURN(dev, cudaStreamSynchronize(dev->stream));
    return 0;
}

size_t register_cuda_surfaces_bytes(const struct register_cuda_levels *s)
{
    size_t bytes = s->raw.bytes + s->sums.bytes + s->bits.bytes + s->scan.bytes + s->counts.bytes +
                   s->partial.bytes + s->fits.bytes;
    for (int side = 0; side < 2; side++)
        for (uint32_t l = 0; l < REGISTER_MOST_LEVELS; l++) {
            const struct register_cuda_level *level = &s->level[side][l];
            bytes +=
                level->mask.bytes + level->first.bytes + level->points.bytes + level->normals.bytes;
        }
    return bytes;
}

void register_cuda_surfaces_close(struct cuda_dev *dev, struct register_cuda_levels *s)
{
    struct cuda_memory *const all[] = {&s->raw,    &s->sums,    &s->bits, &s->scan,
                                       &s->counts, &s->partial, &s->fits};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        cuda_shrink(dev, all[i]);
    for (int side = 0; side < 2; side++)
        for (uint32_t l = 0; l < REGISTER_MOST_LEVELS; l++) {
            cuda_shrink(dev, &s->level[side][l].mask);
            cuda_shrink(dev, &s->level[side][l].first);
            cuda_shrink(dev, &s->level[side][l].points);
            cuda_shrink(dev, &s->level[side][l].normals);
        }
    cuda_shrink_host(dev, &s->host);
}

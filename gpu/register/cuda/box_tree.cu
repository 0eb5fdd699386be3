// SPDX-License-Identifier: Apache-2.0
#include "gpu/register/cuda/box_tree.cuh"

#include <cub/device/device_radix_sort.cuh>
#include <string.h>

#define BLOCK       256
#define MORTON_BITS 10 // an axis

struct morton {
    float low[3], inverse;
    struct se3 T;
};

// Every third bit.
static __device__ uint32_t spread(uint32_t v)
{
    v = (v | v << 16) & 0x030000ffu;
    v = (v | v << 8) & 0x0300f00fu;
    v = (v | v << 4) & 0x030c30c3u;
    return (v | v << 2) & 0x09249249u;
}

static __global__ void find_keys(struct morton morton, const float4 *points, uint32_t n,
                                 uint32_t *out_keys, uint32_t *out_order)
{
    const uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= n)
        return;
    const float4 at = points[i];
    const double p[3] = {at.x, at.y, at.z};
    double y[3];
    uint32_t key = 0;
    se3_apply(&morton.T, p, y);
    for (int a = 0; a < 3; a++) {
        const float c = ((float)y[a] - morton.low[a]) * morton.inverse;
        key |= spread((uint32_t)fminf(fmaxf(c, 0.0f), (float)((1 << MORTON_BITS) - 1))) << a;
    }
    out_keys[i] = key;
    out_order[i] = i;
}

static __global__ void take_points(const uint32_t *order, const float4 *points,
                                   const float4 *normals, uint32_t n, float4 *out_points,
                                   float4 *out_normals)
{
    const uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= n)
        return;
    const uint32_t from = order[i];
    float4 p = points[from];
    p.w = __uint_as_float(from);
    out_points[i] = p;
    if (normals)
        out_normals[i] = normals[from];
}

static __device__ void put_box(struct register_box_group *groups, uint32_t box, const float low[3],
                               const float high[3])
{
    struct register_box_group *group = &groups[box / REGISTER_BOXES_FAN];
    for (int a = 0; a < 3; a++) {
        group->low[a][box % REGISTER_BOXES_FAN] = low[a];
        group->high[a][box % REGISTER_BOXES_FAN] = high[a];
    }
}

// A thread a box of level 0; n_places is a whole number of groups.
static __global__ void box_points(const float4 *points, uint32_t n, uint32_t n_places,
                                  struct register_box_group *out)
{
    const uint32_t box = blockIdx.x * BLOCK + threadIdx.x;
    float low[3] = {INFINITY, INFINITY, INFINITY}, high[3] = {-INFINITY, -INFINITY, -INFINITY};
    if (box >= n_places)
        return;
    const uint32_t first = min(REGISTER_BOXES_POINTS * box, n);
    for (uint32_t j = first; j < min(first + REGISTER_BOXES_POINTS, n); j++) {
        const float p[3] = {points[j].x, points[j].y, points[j].z};
        for (int a = 0; a < 3; a++) {
            low[a] = fminf(low[a], p[a]);
            high[a] = fmaxf(high[a], p[a]);
        }
    }
    put_box(out, box, low, high);
}

// The same of the groups of the level below.
static __global__ void box_groups(const struct register_box_group *below, uint32_t n,
                                  uint32_t n_places, struct register_box_group *out)
{
    const uint32_t box = blockIdx.x * BLOCK + threadIdx.x;
    float low[3] = {INFINITY, INFINITY, INFINITY}, high[3] = {-INFINITY, -INFINITY, -INFINITY};
    if (box >= n_places)
        return;
    for (uint32_t k = 0; box < n && k < REGISTER_BOXES_FAN; k++)
        for (int a = 0; a < 3; a++) {
            low[a] = fminf(low[a], below[box].low[a][k]);
            high[a] = fmaxf(high[a], below[box].high[a][k]);
        }
    put_box(out, box, low, high);
}

static uint32_t groups_of(uint32_t n)
{
    return (n + REGISTER_BOXES_FAN - 1) / REGISTER_BOXES_FAN;
}

static size_t rounded(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

// What sorting n points needs.
struct sorting {
    uint32_t *keys, *order, *sorted_keys, *sorted;
    void *work;
    size_t work_bytes, part_bytes;
};

static int sorting_size(struct register_cuda *cuda, uint32_t n, struct sorting *out)
{
    out->work_bytes = 0;
    CUDA_OR_RETURN(&cuda->dev, cub::DeviceRadixSort::SortPairs(
                                   NULL, out->work_bytes, (uint32_t *)NULL, (uint32_t *)NULL,
                                   (uint32_t *)NULL, (uint32_t *)NULL, (int)n, 0, 3 * MORTON_BITS));
    out->part_bytes = rounded((size_t)n * sizeof *out->keys);
    return 0;
}

static size_t sorting_bytes(const struct sorting *sorting)
{
    return 4 * sorting->part_bytes + rounded(sorting->work_bytes);
}

static int sort(struct register_cuda *cuda, enum register_side side, uint32_t n,
                const struct se3 *T, char *memory, struct sorting *sorting)
{
    struct morton morton = {{0, 0, 0}, 0, *T};
    float extent = 1e-30f;
    for (int a = 0; a < 3; a++) {
        morton.low[a] = cuda->box_low[a];
        extent = fmaxf(extent, cuda->box_high[a] - cuda->box_low[a]);
    }
    morton.inverse = (float)(1 << MORTON_BITS) / extent;
    sorting->keys = (uint32_t *)memory;
    sorting->order = (uint32_t *)(memory + sorting->part_bytes);
    sorting->sorted_keys = (uint32_t *)(memory + 2 * sorting->part_bytes);
    sorting->sorted = (uint32_t *)(memory + 3 * sorting->part_bytes);
    sorting->work = memory + 4 * sorting->part_bytes;
    find_keys<<<(n + BLOCK - 1) / BLOCK, BLOCK, 0, cuda->dev.stream>>>(
        morton, (const float4 *)cuda->points[side].at, n, sorting->keys, sorting->order);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    CUDA_OR_RETURN(&cuda->dev, cub::DeviceRadixSort::SortPairs(
                                   sorting->work, sorting->work_bytes, sorting->keys,
                                   sorting->sorted_keys, sorting->order, sorting->sorted, (int)n, 0,
                                   3 * MORTON_BITS, cuda->dev.stream));
    return 0;
}

int register_boxes_build(struct register_cuda *cuda, uint32_t n, bool with_normals,
                         struct register_boxes *out)
{
    const struct se3 identity = se3_identity();
    uint32_t n_boxes[REGISTER_BOXES_LEVELS], n_groups = 0;
    memset(out, 0, sizeof *out);
    out->n = n;
    uint32_t count = (n + REGISTER_BOXES_POINTS - 1) / REGISTER_BOXES_POINTS;
    do {
        n_boxes[out->n_levels] = count;
        out->first[out->n_levels++] = n_groups;
        count = groups_of(count);
        n_groups += count;
    } while (count > 1);
    struct sorting sorting;
    int rc = sorting_size(cuda, n, &sorting);
    if (rc < 0)
        return rc;
    const size_t points_bytes = rounded((size_t)n * sizeof(float4));
    const size_t normals_bytes = with_normals ? points_bytes : 0;
    const size_t groups_bytes = rounded((size_t)n_groups * sizeof(struct register_box_group));
    rc = cuda_grow(&cuda->dev, &cuda->grid,
                   points_bytes + normals_bytes + groups_bytes + sorting_bytes(&sorting));
    if (rc < 0)
        return rc;
    char *memory = (char *)cuda->grid.at;
    float4 *points = (float4 *)memory, *normals = (float4 *)(memory + points_bytes);
    struct register_box_group *groups =
        (struct register_box_group *)(memory + points_bytes + normals_bytes);
    rc = sort(cuda, REGISTER_TARGET, n, &identity,
              memory + points_bytes + normals_bytes + groups_bytes, &sorting);
    if (rc < 0)
        return rc;
    take_points<<<(n + BLOCK - 1) / BLOCK, BLOCK, 0, cuda->dev.stream>>>(
        sorting.sorted, (const float4 *)cuda->points[REGISTER_TARGET].at,
        with_normals ? (const float4 *)cuda->normals[REGISTER_TARGET].at : (const float4 *)NULL, n,
        points, normals);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    for (int l = 0; l < out->n_levels; l++) {
        const uint32_t n_places = groups_of(n_boxes[l]) * REGISTER_BOXES_FAN;
        const uint32_t n_blocks = (n_places + BLOCK - 1) / BLOCK;
        if (l == 0)
            box_points<<<n_blocks, BLOCK, 0, cuda->dev.stream>>>(points, n, n_places, groups);
        else
            box_groups<<<n_blocks, BLOCK, 0, cuda->dev.stream>>>(
                groups + out->first[l - 1], n_boxes[l], n_places, groups + out->first[l]);
        CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    }
    out->points = points;
    out->normals = with_normals ? normals : (const float4 *)NULL;
    out->groups = groups;
    return 0;
}

int register_boxes_order(struct register_cuda *cuda, uint32_t n, const struct se3 *T, float4 *out)
{
    struct sorting sorting;
    int rc = sorting_size(cuda, n, &sorting);
    if (rc == 0)
        rc = cuda_grow(&cuda->dev, &cuda->staging, sorting_bytes(&sorting));
    if (rc == 0)
        rc = sort(cuda, REGISTER_SOURCE, n, T, (char *)cuda->staging.at, &sorting);
    if (rc < 0)
        return rc;
    take_points<<<(n + BLOCK - 1) / BLOCK, BLOCK, 0, cuda->dev.stream>>>(
        sorting.sorted, (const float4 *)cuda->points[REGISTER_SOURCE].at, (const float4 *)NULL, n,
        out, (float4 *)NULL);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    return 0;
}

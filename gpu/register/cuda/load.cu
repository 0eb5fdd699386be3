// SPDX-License-Identifier: Apache-2.0
// Takes a set to the device: copies it, packs it, and measures its extent on the host meanwhile.
extern "C" {
#include "gpu/base/parallel.h"
}
#include "gpu/register/cuda/device.cuh"

#include <stdlib.h>

#define COPY_POINTS   524288u // of an axis at once: 0.05 ms from page-locked memory, else 0.3
#define EXTENT_POINTS 16384u  // that a thread of the host measures at a time
#define BOX_SAMPLE    1000

static __global__ void pack_kernel(const float *x, const float *y, const float *z, uint32_t n,
                                   float4 *out)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = make_float4(x[i], y[i], z[i],
                             __fmaf_rn(x[i], x[i], __fmaf_rn(y[i], y[i], z[i] * z[i])));
}

static int upload(struct register_cuda *cuda, const float *const axes[3], uint32_t n,
                  struct cuda_memory *out)
{
    int rc = cuda_grow(&cuda->dev, &cuda->staging, 3 * (size_t)n * sizeof(float));
    if (rc == 0)
        rc = cuda_grow(&cuda->dev, out, n * sizeof(float4));
    if (rc < 0)
        return rc;
    float *staging = (float *)cuda->staging.at;
    for (int a = 0; a < 3; a++)
        for (size_t from = 0; from < n; from += COPY_POINTS) {
            if (from > 0 && cuda->dev.yield.wait)
                CUDA_OR_RETURN(&cuda->dev, cudaStreamSynchronize(cuda->dev.stream));
            yield_now(&cuda->dev.yield);
            const size_t n_here = n - from < COPY_POINTS ? n - from : COPY_POINTS;
            CUDA_OR_RETURN(&cuda->dev, cudaMemcpyAsync(staging + (size_t)a * n + from,
                                                       axes[a] + from, n_here * sizeof(float),
                                                       cudaMemcpyHostToDevice, cuda->dev.stream));
        }
    pack_kernel<<<(n + 255) / 256, 256, 0, cuda->dev.stream>>>(
        staging, staging + n, staging + 2 * (size_t)n, n, (float4 *)out->at);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    return 0;
}

struct extent {
    float low[3], high[3], reach2; // of the points of a piece
};

struct measuring {
    const float *axes[3];
    size_t n;
    struct extent *extents;
};

// Sixteen of each side by side, so that the loop becomes vector instructions; fminf would be a
// call.
static void measure_piece(void *user, uint32_t piece, uint32_t thread)
{
    (void)thread;
    const struct measuring *m = (const struct measuring *)user;
    const size_t first = (size_t)piece * EXTENT_POINTS;
    const size_t n = m->n - first < EXTENT_POINTS ? m->n - first : EXTENT_POINTS;
    float least[16], most[16], square[EXTENT_POINTS] = {0};
    struct extent *out = &m->extents[piece];
    for (int a = 0; a < 4; a++) {
        const float *v = a < 3 ? m->axes[a] + first : square;
        for (int k = 0; k < 16; k++)
            least[k] = most[k] = v[0];
        for (size_t i = 0; i < n / 16 * 16; i += 16)
            for (size_t k = 0; k < 16; k++) {
                least[k] = v[i + k] < least[k] ? v[i + k] : least[k];
                most[k] = v[i + k] > most[k] ? v[i + k] : most[k];
            }
        for (size_t i = n / 16 * 16; i < n; i++) {
            least[0] = v[i] < least[0] ? v[i] : least[0];
            most[0] = v[i] > most[0] ? v[i] : most[0];
        }
        for (int k = 1; k < 16; k++) {
            least[0] = least[k] < least[0] ? least[k] : least[0];
            most[0] = most[k] > most[0] ? most[k] : most[0];
        }
        for (size_t i = 0; a < 3 && i < n; i++)
            square[i] += v[i] * v[i];
        if (a < 3) {
            out->low[a] = least[0];
            out->high[a] = most[0];
        } else {
            out->reach2 = most[0];
        }
    }
}

// The box of the points, and how far one of them is from the origin at most.
static int measure(struct pool *pool, const float *const axes[3], size_t n, struct extent *out)
{
    const uint32_t n_pieces = (uint32_t)((n + EXTENT_POINTS - 1) / EXTENT_POINTS);
    struct measuring m = {
        {axes[0], axes[1], axes[2]}, n, (struct extent *)malloc(n_pieces * sizeof(struct extent))};
    if (!m.extents)
        return -ENOMEM;
    parallel_for(pool, n_pieces, measure_piece, &m);
    *out = m.extents[0];
    for (uint32_t i = 1; i < n_pieces; i++) {
        for (int a = 0; a < 3; a++) {
            out->low[a] = fminf(out->low[a], m.extents[i].low[a]);
            out->high[a] = fmaxf(out->high[a], m.extents[i].high[a]);
        }
        out->reach2 = fmaxf(out->reach2, m.extents[i].reach2);
    }
    free(m.extents);
    return 0;
}

static int compare_floats(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

// From the first to the last hundredth of a sample, and half as much again: a few far points do not
// make it wide.
static void box_along(struct register_cuda *cuda, int axis, const float *values, size_t n)
{
    float sample[BOX_SAMPLE];
    const size_t n_sample = n < BOX_SAMPLE ? n : BOX_SAMPLE;
    for (size_t i = 0; i < n_sample; i++)
        sample[i] = values[i * n / n_sample];
    qsort(sample, n_sample, sizeof *sample, compare_floats);
    const float first = sample[n_sample / 100], last = sample[n_sample - 1 - n_sample / 100];
    const float margin = (last - first) / 4;
    cuda->box_low[axis] = fmaxf(cuda->low[axis], first - margin);
    cuda->box_high[axis] = fminf(cuda->high[axis], last + margin);
}

int register_cuda_load(void *device, enum register_side side, const struct point_set *points)
{
    struct register_cuda *cuda = (struct register_cuda *)device;
    CUDA_OR_RETURN(&cuda->dev, cudaSetDevice(cuda->dev.index));
    const float *const axes[3] = {points->x_m, points->y_m, points->z_m};
    const float *const normals[3] = {points->nx, points->ny, points->nz};
    struct extent extent = {{0, 0, 0}, {0, 0, 0}, 0};
    cuda->n[side] = (uint32_t)points->n_points;
    int rc = upload(cuda, axes, cuda->n[side], &cuda->points[side]);
    if (rc == 0 && side == REGISTER_TARGET && points->nx)
        rc = upload(cuda, normals, cuda->n[side], &cuda->normals[side]);
    if (rc == 0)
        rc = measure(cuda->pool, axes, points->n_points, &extent);
    if (rc < 0)
        return rc;
    cuda->reach[side] = sqrt((double)extent.reach2);
    for (int a = 0; side == REGISTER_TARGET && a < 3; a++) {
        cuda->low[a] = extent.low[a];
        cuda->high[a] = extent.high[a];
        box_along(cuda, a, axes[a], points->n_points);
    }
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
// What the files of the registration's CUDA backend share.
#ifndef POSED_GPU_REGISTER_CUDA_DEVICE_CUH
#define POSED_GPU_REGISTER_CUDA_DEVICE_CUH

#include <errno.h>
#include <math.h>

#include "gpu/base/cuda.cuh"
#include "proto/se3.h"
extern "C" {
#include "gpu/register/ops.h"
}
#include "gpu/register/cuda/surface_levels.cuh"

#define REGISTER_CUDA_MAX_RUNS 2112u // of a launch: eight times what an H200 holds, about 5 ms

// Pinned: what a launch leaves for the host.
struct register_cuda_host {
    uint32_t unfinished; // some block has to go on
    uint32_t densest;    // points of the grid's fullest cell
    struct register_run runs[REGISTER_CUDA_MAX_RUNS];
};

struct register_cuda {
    struct cuda_dev dev;
    struct pool *pool; // the caller's
    // By side: points as (x, y, z, |p|^2), normals as (x, y, z, 0).
    struct cuda_memory points[2], normals[2], staging;
    uint32_t n[2];
    float low[3], high[3];         // the target's box ...
    float box_low[3], box_high[3]; // ... and the one that all but a few of its points lie in
    double reach[2];               // largest distance from the origin, by side
    bool has_tensor;               // m16n8k16 products: code for compute capability 8.0
    struct cuda_memory scratch, runs, grid;
    struct register_cuda_levels surfaces;
    struct register_cuda_host *host_runs;
    long long slice_clocks;            // after so many a launch of an anneal ends
    void *blas;                        // dense form: cublasHandle_t, made when first needed
    const struct blas *blas_functions; // set with blas
};

int register_cuda_load(void *device, enum register_side side, const struct point_set *points);
int register_cuda_anneal_open(struct register_cuda *cuda);
int register_cuda_anneal_streaming(struct register_cuda *cuda, const struct register_anneal *anneal,
                                   struct register_run *runs, uint32_t n_runs,
                                   const struct register_stop *stop);
int register_cuda_anneal_dense(struct register_cuda *cuda, const struct register_anneal *anneal,
                               struct register_run *run, const struct register_stop *stop);
void register_cuda_dense_close(struct register_cuda *cuda);
int register_cuda_nearest(void *device, const struct register_nearest *nearest,
                          struct register_run *run, const struct register_stop *stop);

#endif

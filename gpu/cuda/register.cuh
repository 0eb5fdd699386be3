// SPDX-License-Identifier: Apache-2.0
// What the files of the registration's CUDA backend share.
#ifndef POSED_GPU_CUDA_REGISTER_CUH
#define POSED_GPU_CUDA_REGISTER_CUH

#include <cuda_runtime.h>
#include <errno.h>
#include <math.h>

#include "proto/se3.h"
extern "C" {
#include "gpu/register_ops.h"
}

// Device memory that grows and stays.
struct register_memory {
    void *at;
    size_t bytes;
};

#define REGISTER_CUDA_MAX_RUNS 2112u // of a launch: eight times what an H200 holds, about 5 ms

// Pinned: what a launch leaves for the host.
struct register_cuda_host {
    uint32_t unfinished; // some block has to go on
    uint32_t densest;    // points of the grid's fullest cell
    struct register_run runs[REGISTER_CUDA_MAX_RUNS];
};

struct register_cuda {
    int index, n_sms;
    struct pool *pool; // the caller's
    char name[128];
    cudaStream_t stream;
    struct log_sink log;
    struct gpu_courtesy courtesy;
    bool logged_error; // one line is enough: what follows is its consequence
    // By side: points as (x, y, z, |p|^2), normals as (x, y, z, 0).
    struct register_memory points[2], normals[2], staging;
    uint32_t n[2];
    float low[3], high[3];         // the target's box ...
    float box_low[3], box_high[3]; // ... and the one that all but a few of its points lie in
    double reach[2];               // largest distance from the origin, by side
    bool has_tensor;               // m16n8k16 products: code for compute capability 8.0
    size_t shared_bytes;           // dynamic shared memory that a block may have
    struct register_memory scratch, runs, grid;
    struct register_cuda_host *host_runs;
    long long slice_clocks;            // after so many a launch of an anneal ends
    void *blas;                        // dense form: cublasHandle_t, made when first needed
    const struct blas *blas_functions; // set with blas
};

// 0, or -EIO (-ENOMEM) after logging expression and line.
int register_cuda_check(struct register_cuda *cuda, cudaError_t error, const char *what, int line);
#define CHECK(expression)                                                              \
    do {                                                                               \
        int check_rc = register_cuda_check(cuda, (expression), #expression, __LINE__); \
        if (check_rc < 0)                                                              \
            return check_rc;                                                           \
    } while (0)

// Makes room; what was there is lost. 0, -ENOMEM or -EIO.
int register_cuda_reserve(struct register_cuda *cuda, struct register_memory *memory, size_t bytes);

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

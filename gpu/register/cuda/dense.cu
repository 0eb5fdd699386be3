// SPDX-License-Identifier: Apache-2.0
// The dense form on CUDA, as Tamaki et al. 2010 describe it (section IV): the matrix in memory, its
// elements by kernels, its sums and products by cuBLAS sgemv and sgemm. Only the M-step's solve
// stays on the device instead of going to the host. It is the second method that the streaming
// form is checked against, and what the paper's memory limit looks like.
#include "gpu/register/cuda/device.cuh"

#include <string.h>

#include "gpu/register/kernels/annealing_step.h"
#include "gpu/register/kernels/weights.h"

#include "gpu/register/cuda/blas.cuh" // last: it declares a global `half`, a name that others use

#define BLOCK            256
#define MAX_MATRIX_BYTES ((size_t)4 << 30)

// Column-major n x m like cuBLAS: element (i, j) at m[i + j n]; i source, j target.
struct dense {
    uint32_t n, m;
    float *matrix;
    float *ones;                     // max(n, m)
    float *rows, *columns;           // n: sums of rows; m: sums of columns
    float *slack_column, *slack_row; // n, m
    float *source, *target;          // n x 3, m x 3, column-major; the source as T moves it
    float *product;                  // max(n, m) x 3
    float *mean;                     // 3: of the target, for the paper's empty rows
    float *v;                        // m: the column scaling that a warm start keeps
    double *sums;                    // REGISTER_N_SUMS
    struct register_run *run;
};

static __global__ void place_source(struct dense dense, const float4 *points)
{
    uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= dense.n)
        return;
    const double p[3] = {points[i].x, points[i].y, points[i].z};
    double y[3];
    se3_apply(&dense.run->T, p, y);
    for (int a = 0; a < 3; a++)
        dense.source[i + (size_t)a * dense.n] = (float)y[a];
}

static __global__ void place_target(struct dense dense, const float4 *points)
{
    uint32_t j = blockIdx.x * BLOCK + threadIdx.x;
    if (j >= dense.m)
        return;
    dense.target[j] = points[j].x;
    dense.target[j + dense.m] = points[j].y;
    dense.target[j + 2 * (size_t)dense.m] = points[j].z;
}

static __global__ void fill_vector(float *out, uint32_t n, float value)
{
    uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n)
        out[i] = value;
}

// matrix = exp(-d^2 / denominator), times the column's scaling when there is one.
static __global__ void fill_matrix(struct dense dense, float denominator, const float *scaling)
{
    uint32_t i = blockIdx.x * BLOCK + threadIdx.x, j = blockIdx.y;
    if (i >= dense.n)
        return;
    for (; j < dense.m; j += gridDim.y) {
        float d2 = 0;
        for (int a = 0; a < 3; a++) {
            float d = dense.source[i + (size_t)a * dense.n] - dense.target[j + (size_t)a * dense.m];
            d2 += d * d;
        }
        float v = scaling ? scaling[j] : 1.0f;
        dense.matrix[i + (size_t)j * dense.n] = v * expf(-d2 / denominator);
    }
}

// A <- sqrt(A / C); C arrives in rows without the outlier.
static __global__ void paper_elements(struct dense dense, float outlier)
{
    uint32_t i = blockIdx.x * BLOCK + threadIdx.x, j = blockIdx.y;
    if (i >= dense.n)
        return;
    const float c = dense.rows[i] + outlier;
    for (; j < dense.m; j += gridDim.y) {
        float *element = &dense.matrix[i + (size_t)j * dense.n];
        *element = c > 0 ? sqrtf(*element / c) : 0.0f;
    }
    if (blockIdx.y == 0)
        dense.slack_column[i] = c; // kept for the rule about empty rows
}

static __global__ void divide_rows(struct dense dense)
{
    uint32_t i = blockIdx.x * BLOCK + threadIdx.x, j = blockIdx.y;
    if (i >= dense.n)
        return;
    const float sum = dense.rows[i] + dense.slack_column[i];
    for (; j < dense.m; j += gridDim.y)
        dense.matrix[i + (size_t)j * dense.n] /= sum;
}

static __global__ void divide_columns(struct dense dense)
{
    uint32_t i = blockIdx.x * BLOCK + threadIdx.x, j = blockIdx.y;
    if (i >= dense.n)
        return;
    for (; j < dense.m; j += gridDim.y)
        dense.matrix[i + (size_t)j * dense.n] /= dense.columns[j] + dense.slack_row[j];
}

static __global__ void divide_slack(float *slack, const float *sums, uint32_t n)
{
    uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n)
        slack[i] /= slack[i] + sums[i];
}

// One block sums all pairs in a fixed order. Paper: rows are pairs; two-sided: columns are.
static __global__ void __launch_bounds__(BLOCK)
    sum_pairs(struct dense dense, bool paper, bool planes, const float4 *normals)
{
    __shared__ double warp_sums[BLOCK / 32][REGISTER_N_SUMS];
    double mine[REGISTER_N_SUMS] = {0};
    const uint32_t n = paper ? dense.n : dense.m;
    for (uint32_t k = threadIdx.x; k < n; k += BLOCK) {
        const float *sums = paper ? dense.rows : dense.columns;
        double weight = sums[k], x[3], y[3];
        bool empty = paper && !(dense.slack_column[k] > (float)REGISTER_PAPER_MIN_C);
        if (!empty && !(weight > 0))
            continue;
        for (int a = 0; a < 3; a++) {
            double mean = dense.product[k + (size_t)a * n] / weight;
            double own = paper ? dense.source[k + (size_t)a * n] : dense.target[k + (size_t)a * n];
            x[a] = paper ? (empty ? dense.mean[a] : mean) : own;
            y[a] = paper ? own : mean;
        }
        weight = empty ? 1 : weight;
        register_add_pair(mine, weight, x, y);
        if (planes) {
            const double normal[3] = {normals[k].x, normals[k].y, normals[k].z};
            register_add_plane(mine, weight, x, y, normal);
        }
    }
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    for (int s = 0; s < REGISTER_N_SUMS; s++) {
        double v = mine[s];
        for (int d = 16; d > 0; d >>= 1)
            v += __shfl_xor_sync(0xffffffffu, v, d);
        if (lane == 0)
            warp_sums[warp][s] = v;
    }
    __syncthreads();
    if (threadIdx.x < REGISTER_N_SUMS) {
        double v = 0;
        for (int w = 0; w < BLOCK / 32; w++)
            v += warp_sums[w][threadIdx.x];
        dense.sums[threadIdx.x] = v;
    }
}

// presence of rows and columns from their sums, in sums[0] and [1].
static __global__ void sum_presence(struct dense dense, double sigma2, double spacing)
{
    double source = 0, target = 0;
    for (uint32_t i = threadIdx.x; i < dense.n; i += 32)
        source += register_presence(dense.rows[i], sigma2, spacing);
    for (uint32_t j = threadIdx.x; j < dense.m; j += 32)
        target += register_presence(dense.columns[j], sigma2, spacing);
    for (int d = 16; d > 0; d >>= 1) {
        source += __shfl_xor_sync(0xffffffffu, source, d);
        target += __shfl_xor_sync(0xffffffffu, target, d);
    }
    if (threadIdx.x == 0) {
        dense.run->presence_source = source / dense.n;
        dense.run->presence_target = target / dense.m;
    }
}

static dim3 blocks(uint32_t n)
{
    return dim3((n + BLOCK - 1) / BLOCK);
}

static dim3 matrix_blocks(const struct dense *dense)
{
    return dim3((dense->n + BLOCK - 1) / BLOCK, dense->m < 4096 ? dense->m : 4096);
}

static int blas_failed(struct register_cuda *cuda, cublasStatus_t status)
{
    log_to(&cuda->dev.log, LOG_LEVEL_ERROR, "cuda: register: cuBLAS: status %d", (int)status);
    return -EIO;
}

#define BLAS(expression)                           \
    do {                                           \
        cublasStatus_t blas_status = (expression); \
        if (blas_status != CUBLAS_STATUS_SUCCESS)  \
            return blas_failed(cuda, blas_status); \
    } while (0)

static int sum_rows(struct register_cuda *cuda, const struct dense *dense)
{
    const float one = 1, zero = 0;
    BLAS(cuda->blas_functions->sgemv((cublasHandle_t)cuda->blas, CUBLAS_OP_N, (int)dense->n,
                                     (int)dense->m, &one, dense->matrix, (int)dense->n, dense->ones,
                                     1, &zero, dense->rows, 1));
    return 0;
}

static int sum_columns(struct register_cuda *cuda, const struct dense *dense)
{
    const float one = 1, zero = 0;
    BLAS(cuda->blas_functions->sgemv((cublasHandle_t)cuda->blas, CUBLAS_OP_T, (int)dense->n,
                                     (int)dense->m, &one, dense->matrix, (int)dense->n, dense->ones,
                                     1, &zero, dense->columns, 1));
    return 0;
}

// Between two pieces of work: what was enqueued is done first, so that none of it is under way when
// a frame comes.
static int wait(struct register_cuda *cuda)
{
    if (cuda->dev.yield.wait)
        CUDA_OR_RETURN(&cuda->dev, cudaStreamSynchronize(cuda->dev.stream));
    yield_now(&cuda->dev.yield);
    return 0;
}

// Tamaki et al., IV-B.
static int paper_sums(struct register_cuda *cuda, const struct register_anneal *anneal,
                      const struct dense *dense, double sigma2)
{
    const float one = 1, zero = 0;
    fill_matrix<<<matrix_blocks(dense), BLOCK, 0, cuda->dev.stream>>>(*dense, (float)sigma2, NULL);
    int rc = sum_rows(cuda, dense);
    if (rc < 0)
        return rc;
    paper_elements<<<matrix_blocks(dense), BLOCK, 0, cuda->dev.stream>>>(
        *dense, (float)exp(-anneal->outlier_d2 / sigma2));
    if ((rc = sum_rows(cuda, dense)) < 0)
        return rc;
    BLAS(cuda->blas_functions->sgemm((cublasHandle_t)cuda->blas, CUBLAS_OP_N, CUBLAS_OP_N,
                                     (int)dense->n, 3, (int)dense->m, &one, dense->matrix,
                                     (int)dense->n, dense->target, (int)dense->m, &zero,
                                     dense->product, (int)dense->n));
    sum_pairs<<<1, BLOCK, 0, cuda->dev.stream>>>(*dense, true, false, NULL);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    return 0;
}

// Tamaki et al., IV-A, the slack row and column reset before each round of normalisations.
static int sinkhorn_sums(struct register_cuda *cuda, const struct register_anneal *anneal,
                         const struct dense *dense, double sigma2, bool fresh)
{
    const float one = 1, zero = 0;
    double slack = anneal->slack * exp(-anneal->slack_alpha / (2 * sigma2));
    if (anneal->slack_spacing > 0)
        slack = register_slack(slack, sigma2, anneal->slack_spacing);
    if (fresh)
        fill_vector<<<blocks(dense->m), BLOCK, 0, cuda->dev.stream>>>(dense->v, dense->m, 1.0f);
    fill_matrix<<<matrix_blocks(dense), BLOCK, 0, cuda->dev.stream>>>(*dense, (float)(2 * sigma2),
                                                                      dense->v);
    fill_vector<<<blocks(dense->n), BLOCK, 0, cuda->dev.stream>>>(dense->slack_column, dense->n,
                                                                  (float)slack);
    CUDA_OR_RETURN(&cuda->dev, cudaMemcpyAsync(dense->slack_row, dense->v, dense->m * sizeof(float),
                                               cudaMemcpyDeviceToDevice, cuda->dev.stream));
    const float scale = (float)slack, unscale = (float)(1 / slack);
    BLAS(cuda->blas_functions->sscal((cublasHandle_t)cuda->blas, (int)dense->m, &scale,
                                     dense->slack_row, 1));
    for (uint32_t sweep = 0; sweep < anneal->n_sweeps; sweep++) {
        int rc = wait(cuda);
        if (rc == 0)
            rc = sum_rows(cuda, dense);
        if (rc < 0)
            return rc;
        divide_rows<<<matrix_blocks(dense), BLOCK, 0, cuda->dev.stream>>>(*dense);
        divide_slack<<<blocks(dense->n), BLOCK, 0, cuda->dev.stream>>>(dense->slack_column,
                                                                       dense->rows, dense->n);
        if ((rc = sum_columns(cuda, dense)) < 0)
            return rc;
        divide_columns<<<matrix_blocks(dense), BLOCK, 0, cuda->dev.stream>>>(*dense);
        divide_slack<<<blocks(dense->m), BLOCK, 0, cuda->dev.stream>>>(dense->slack_row,
                                                                       dense->columns, dense->m);
    }
    CUDA_OR_RETURN(&cuda->dev, cudaMemcpyAsync(dense->v, dense->slack_row, dense->m * sizeof(float),
                                               cudaMemcpyDeviceToDevice, cuda->dev.stream));
    BLAS(cuda->blas_functions->sscal((cublasHandle_t)cuda->blas, (int)dense->m, &unscale, dense->v,
                                     1));
    int rc = sum_columns(cuda, dense);
    if (rc < 0)
        return rc;
    BLAS(cuda->blas_functions->sgemm((cublasHandle_t)cuda->blas, CUBLAS_OP_T, CUBLAS_OP_N,
                                     (int)dense->m, 3, (int)dense->n, &one, dense->matrix,
                                     (int)dense->n, dense->source, (int)dense->n, &zero,
                                     dense->product, (int)dense->m));
    sum_pairs<<<1, BLOCK, 0, cuda->dev.stream>>>(*dense, false, anneal->planes,
                                                 (const float4 *)cuda->normals[REGISTER_TARGET].at);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    return 0;
}

static int dense_presence(struct register_cuda *cuda, const struct register_anneal *anneal,
                          const struct dense *dense)
{
    place_source<<<blocks(dense->n), BLOCK, 0, cuda->dev.stream>>>(
        *dense, (const float4 *)cuda->points[REGISTER_SOURCE].at);
    fill_matrix<<<matrix_blocks(dense), BLOCK, 0, cuda->dev.stream>>>(
        *dense, (float)(2 * anneal->presence_sigma2), NULL);
    int rc = sum_rows(cuda, dense);
    if (rc == 0)
        rc = sum_columns(cuda, dense);
    if (rc < 0)
        return rc;
    sum_presence<<<1, 32, 0, cuda->dev.stream>>>(*dense, anneal->presence_sigma2,
                                                 anneal->presence_spacing);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    return 0;
}

static int prepare(struct register_cuda *cuda, const struct register_anneal *anneal,
                   struct dense *dense)
{
    const size_t n = anneal->n_source, m = anneal->n_target, most = n > m ? n : m;
    if (n > MAX_MATRIX_BYTES / sizeof(float) / m)
        return -ENOMEM;
    if (!cuda->blas) {
        cublasHandle_t handle;
        const char *why;
        cuda->blas_functions = blas_load(&why);
        if (!cuda->blas_functions) {
            log_to(&cuda->dev.log, LOG_LEVEL_ERROR,
                   "cuda: register: the dense form needs cuBLAS: %s", why);
            return -ENOTSUP;
        }
        BLAS(cuda->blas_functions->create(&handle));
        cuda->blas = handle;
        BLAS(cuda->blas_functions->set_stream(handle, cuda->dev.stream));
    }
    const size_t lengths[] = {n * m, most, n, m, n, m, 3 * n, 3 * m, 3 * most, 3, m};
    float **const parts[] = {
        &dense->matrix,       &dense->ones,      &dense->rows,   &dense->columns,
        &dense->slack_column, &dense->slack_row, &dense->source, &dense->target,
        &dense->product,      &dense->mean,      &dense->v};
    size_t total = REGISTER_N_SUMS * sizeof(double);
    for (size_t i = 0; i < 11; i++)
        total += (lengths[i] + 63) / 64 * 256;
    int rc = cuda_grow(&cuda->dev, &cuda->scratch, total);
    if (rc == 0)
        rc = cuda_grow(&cuda->dev, &cuda->runs, sizeof *dense->run);
    if (rc < 0)
        return rc;
    char *at = (char *)cuda->scratch.at;
    for (size_t i = 0; i < 11; at += (lengths[i++] + 63) / 64 * 256)
        *parts[i] = (float *)at;
    dense->sums = (double *)at;
    dense->run = (struct register_run *)cuda->runs.at;
    dense->n = (uint32_t)n;
    dense->m = (uint32_t)m;
    fill_vector<<<blocks((uint32_t)most), BLOCK, 0, cuda->dev.stream>>>(dense->ones, (uint32_t)most,
                                                                        1);
    place_target<<<blocks(dense->m), BLOCK, 0, cuda->dev.stream>>>(
        *dense, (const float4 *)cuda->points[REGISTER_TARGET].at);
    CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
    return 0;
}

// The mean of the target, for the paper's rule about empty rows.
static int find_mean(struct register_cuda *cuda, const struct dense *dense)
{
    const float share = 1 / (float)dense->m, zero = 0;
    BLAS(cuda->blas_functions->sgemv((cublasHandle_t)cuda->blas, CUBLAS_OP_T, (int)dense->m, 3,
                                     &share, dense->target, (int)dense->m, dense->ones, 1, &zero,
                                     dense->mean, 1));
    return 0;
}

int register_cuda_anneal_dense(struct register_cuda *cuda, const struct register_anneal *anneal,
                               struct register_run *run, const struct register_stop *stop)
{
    struct dense dense;
    memset(&dense, 0, sizeof dense);
    struct register_schedule schedule = register_schedule_begin(anneal, run);
    int rc = prepare(cuda, anneal, &dense);
    if (rc == 0)
        rc = find_mean(cuda, &dense);
    if (rc < 0)
        return rc;
    bool first = true;
    double sums[REGISTER_N_SUMS];
    do {
        if ((rc = register_stopped(stop)) < 0)
            return rc;
        yield_now(&cuda->dev.yield);
        CUDA_OR_RETURN(&cuda->dev, cudaMemcpyAsync(dense.run, run, sizeof *run,
                                                   cudaMemcpyHostToDevice, cuda->dev.stream));
        place_source<<<blocks(dense.n), BLOCK, 0, cuda->dev.stream>>>(
            dense, (const float4 *)cuda->points[REGISTER_SOURCE].at);
        CUDA_OR_RETURN(&cuda->dev, cudaGetLastError());
        rc = anneal->weighting == REGISTER_WEIGHTING_PAPER
                 ? paper_sums(cuda, anneal, &dense, schedule.sigma2)
                 : sinkhorn_sums(cuda, anneal, &dense, schedule.sigma2, anneal->cold || first);
        if (rc < 0)
            return rc;
        first = false;
        CUDA_OR_RETURN(&cuda->dev, cudaMemcpyAsync(sums, dense.sums, sizeof sums,
                                                   cudaMemcpyDeviceToHost, cuda->dev.stream));
        CUDA_OR_RETURN(&cuda->dev, cudaStreamSynchronize(cuda->dev.stream));
    } while (register_schedule_take(anneal, sums, run, &schedule));
    if (anneal->presence_sigma2 > 0) {
        CUDA_OR_RETURN(&cuda->dev, cudaMemcpyAsync(dense.run, run, sizeof *run,
                                                   cudaMemcpyHostToDevice, cuda->dev.stream));
        rc = dense_presence(cuda, anneal, &dense);
        if (rc < 0)
            return rc;
        CUDA_OR_RETURN(&cuda->dev, cudaMemcpyAsync(run, dense.run, sizeof *run,
                                                   cudaMemcpyDeviceToHost, cuda->dev.stream));
        CUDA_OR_RETURN(&cuda->dev, cudaStreamSynchronize(cuda->dev.stream));
    }
    return 0;
}

void register_cuda_dense_close(struct register_cuda *cuda)
{
    if (cuda->blas)
        cuda->blas_functions->destroy((cublasHandle_t)cuda->blas);
    cuda->blas = NULL;
}

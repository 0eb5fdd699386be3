// SPDX-License-Identifier: Apache-2.0
// The few functions of cuBLAS that the dense registration needs, loaded when it is first asked for.
// Linked, the library's relocated tables alone make every process 180 MB larger, also one that
// tracks on the CPU of a machine without a GPU.
#ifndef POSED_GPU_REGISTER_CUDA_BLAS_CUH
#define POSED_GPU_REGISTER_CUDA_BLAS_CUH

#include <cublas_v2.h>

struct blas {
    decltype(&cublasCreate_v2) create;
    decltype(&cublasDestroy_v2) destroy;
    decltype(&cublasSetStream_v2) set_stream;
    decltype(&cublasSgemm_v2) sgemm;
    decltype(&cublasSgemv_v2) sgemv;
    decltype(&cublasSscal_v2) sscal;
};

// Loads the library the first time; the table lives as long as the process. NULL when the library
// of this toolkit's version is not there: *out_why then says so. Any thread.
const struct blas *blas_load(const char **out_why);

#endif

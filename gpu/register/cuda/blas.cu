// SPDX-License-Identifier: Apache-2.0
#include "gpu/register/cuda/blas.cuh"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
#define LIBRARY    "libcublas.so." TEXT(CUBLAS_VER_MAJOR)

static struct blas table;
static const char *why;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    const struct {
        const char *name;
        void **function;
    } wanted[] = {
        {"cublasCreate_v2", (void **)&table.create},
        {"cublasDestroy_v2", (void **)&table.destroy},
        {"cublasSetStream_v2", (void **)&table.set_stream},
        {"cublasSgemm_v2", (void **)&table.sgemm},
        {"cublasSgemv_v2", (void **)&table.sgemv},
        {"cublasSscal_v2", (void **)&table.sscal},
    };
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) // not on the loader's path: where the toolkit was when this was built
        library = dlopen(POSED_CUDA_LIBRARY_DIR "/" LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        why = LIBRARY " was not found";
        return;
    }
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        *wanted[i].function = dlsym(library, wanted[i].name);
        if (!*wanted[i].function)
            why = LIBRARY " lacks a function of its own interface";
    }
}

const struct blas *blas_load(const char **out_why)
{
    pthread_once(&once, load);
    *out_why = why;
    return why ? NULL : &table;
}

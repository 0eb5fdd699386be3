// SPDX-License-Identifier: Apache-2.0
// What the files of the pose search's CUDA backend share. The formulas are those of gpu/kernels,
// compiled without contraction, and all sums are of integers: every result equals the CPU twin's to
// the bit.
#ifndef POSED_GPU_CUDA_SEARCH_CUH
#define POSED_GPU_CUDA_SEARCH_CUH

#include <cuda_runtime.h>

extern "C" {
#include "gpu/search_ops.h"
}
#include "gpu/kernels/search_frame.h"

#define SEARCH_WINDOW_PIXELS (SEARCH_WINDOW_PX * SEARCH_WINDOW_PX)

struct search_cuda {
    struct log_sink log;
    int device;
    char name[96];
    cudaStream_t stream;
    struct search_camera camera;
    float *z_m;
    size_t n_pixels;
    uint32_t *window; // SEARCH_WINDOW_PIXELS pairs
    // Grown on demand: results on the device and, page-locked, on the host.
    void *result, *result_host;
    size_t result_bytes;
    void *work; // inputs of an operation: rotations, frames, view lists
    size_t work_bytes;
};

// The device's copy of an object.
struct cuda_object {
    struct search_view *views;
    // The views' foreground pixels without the gaps of the chunks: view i's from pixel_first[i] on.
    uint32_t *pixel_first;
    float2 *pixels;         // z and EDT, as floats that hold integers
    uint16_t *pixel_offset; // in the window
    struct search_coarse *coarse;
    uint32_t *seeds;
};

// 0, or -EIO (-ENOMEM) after logging expression, file and line.
int search_cuda_check(const struct search_cuda *cuda, cudaError_t error, const char *what,
                      const char *file, int line);
#define TRY(call)                                                                   \
    do {                                                                            \
        int try_error = search_cuda_check(cuda, (call), #call, __FILE__, __LINE__); \
        if (try_error)                                                              \
            return try_error;                                                       \
    } while (0)

// Make room; what was there is lost. 0, -ENOMEM or -EIO.
int search_cuda_grow_result(struct search_cuda *cuda, size_t bytes);
int search_cuda_grow_work(struct search_cuda *cuda, size_t bytes);

// What search_fit.cu needs of a device once. 0 or -EIO.
int search_cuda_prepare_fit(struct search_cuda *cuda);

// The operations of gpu/search_ops.h.
int search_cuda_maps(void *device, const struct search_object *object, const float *rotations,
                     uint32_t n, struct search_map *out);
int search_cuda_window(void *device, const struct search_frame *frame, uint32_t *out);
int search_cuda_fit(void *device, const struct search_object *object,
                    const struct search_frame *frame, const uint32_t *views, uint32_t n,
                    uint32_t n_iterations, struct search_fit *out);
int search_cuda_scan(void *device, const struct search_object *object,
                     const struct search_frame *starts, uint32_t n_starts, uint32_t keep,
                     struct search_hit *out);

#endif

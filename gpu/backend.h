// SPDX-License-Identifier: Apache-2.0
// The table that a backend fills, and what gpu.c keeps for it. Included by gpu.c, the backends and
// the operations that share a device (register, search); nobody outside gpu/.
#ifndef POSED_GPU_BACKEND_H
#define POSED_GPU_BACKEND_H

#include "gpu/gpu.h"

struct gpu {
    const struct gpu_ops *ops;
    struct gpu_settings settings;
    enum gpu_backend backend;
    char description[160];
};

// Same contracts as the functions of gpu.h that are named alike. `open` allocates a struct whose
// first member is struct gpu; gpu.c has checked the settings and fills ops, settings and backend
// after it returns.
struct gpu_ops {
    int (*open)(struct gpu **out, const struct gpu_settings *settings);
    void (*close)(struct gpu *gpu);
    void *(*host_alloc)(struct gpu *gpu, size_t bytes);
    void (*host_free)(struct gpu *gpu, void *memory, size_t bytes);
    int (*host_register)(struct gpu *gpu, void *memory, size_t bytes); // optional, and its undoing
    void (*host_unregister)(struct gpu *gpu, void *memory);
    void (*wake)(struct gpu *gpu);                                 // optional
    void (*limits)(const struct gpu *gpu, struct gpu_limits *out); // optional
    int (*frame_create)(struct gpu *gpu, struct gpu_frame **out);
    void (*frame_destroy)(struct gpu *gpu, struct gpu_frame *frame);
    int (*prepare)(struct gpu *gpu, const uint16_t *depth, struct gpu_frame *out_frame);
    int (*align)(struct gpu *gpu, const struct gpu_frame *frame, const struct gpu_frame *reference,
                 const struct se3 *T_reference_frame, const struct gpu_align_settings *settings,
                 struct gpu_alignment *out);
    // Optional: NULL = prepare, then align.
    int (*prepare_align)(struct gpu *gpu, const uint16_t *depth, struct gpu_frame *out_frame,
                         const struct gpu_frame *reference, const struct se3 *T_reference_frame,
                         const struct gpu_align_settings *settings, struct gpu_alignment *out);
    void (*prefetch)(struct gpu *gpu, const uint16_t *depth); // optional
    int (*frame_read)(struct gpu *gpu, const struct gpu_frame *frame, uint32_t level, float *out);
};

extern const struct gpu_ops gpu_cpu_ops;
#ifdef POSED_HAVE_CUDA
extern const struct gpu_ops gpu_cuda_ops;
#endif

// Which twin runs a room: one rule for tracking, registration, search and alignment. CUDA where it
// is asked for or, with AUTO, where it opens; else the CPU. `open_cuda` NULL: not built in. The log
// says which and why. Returns 0, or what the asked one's `open` returned; -ENOTSUP without CUDA
// built in.
__attribute__((warn_unused_result)) int gpu_open_twin(const char *room, enum gpu_backend asked,
                                                      int (*open_cuda)(void *user),
                                                      int (*open_cpu)(void *user), void *user,
                                                      const struct log_sink *log,
                                                      enum gpu_backend *out);

// Fills *out from what the last iteration summed and what the information pass did (ICP_N_SUMS
// values each, gpu/track/kernels/icp.h). The backend adds pose, iterations, flags and times.
void gpu_alignment_from_sums(const double *sums, const double *information_sums,
                             struct gpu_alignment *out);

#endif

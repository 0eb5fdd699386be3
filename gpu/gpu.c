// SPDX-License-Identifier: Apache-2.0
#include "gpu/gpu.h"

#include <errno.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "gpu/backend.h"

enum gpu_backend gpu_backend_beside(enum gpu_backend tracking)
{
    return tracking == GPU_BACKEND_CPU ? GPU_BACKEND_CPU : GPU_BACKEND_AUTO;
}

struct opening {
    struct gpu *gpu;
    const struct gpu_settings *settings;
};

#ifdef POSED_HAVE_CUDA
static int open_cuda(void *user)
{
    struct opening *opening = user;
    return gpu_cuda_ops.open(&opening->gpu, opening->settings);
}
#define OPEN_CUDA open_cuda
#define CUDA_OPS  &gpu_cuda_ops
#else
#define OPEN_CUDA NULL
#define CUDA_OPS  NULL
#endif

static int open_cpu(void *user)
{
    struct opening *opening = user;
    return gpu_cpu_ops.open(&opening->gpu, opening->settings);
}

int gpu_open(struct gpu **out, enum gpu_backend backend, const struct gpu_settings *settings)
{
    *out = NULL;
    int rc = gpu_settings_check(settings);
    if (rc < 0)
        return rc;
    struct opening opening = {NULL, settings};
    enum gpu_backend chosen;
    rc = gpu_open_twin("tracking", backend, OPEN_CUDA, open_cpu, &opening, &settings->log, &chosen);
    if (rc < 0)
        return rc;
    *out = opening.gpu;
    (*out)->ops = chosen == GPU_BACKEND_CUDA ? CUDA_OPS : &gpu_cpu_ops;
    (*out)->settings = *settings;
    (*out)->settings.field_per_m = NULL; // the caller's, who may free it now
    (*out)->backend = chosen;
    return 0;
}

void gpu_close(struct gpu **gpu)
{
    if (gpu && *gpu) {
        (*gpu)->ops->close(*gpu);
        *gpu = NULL;
    }
}

enum gpu_backend gpu_backend(const struct gpu *gpu)
{
    return gpu->backend;
}

const struct gpu_settings *gpu_settings_get(const struct gpu *gpu)
{
    return &gpu->settings;
}

const char *gpu_description(const struct gpu *gpu)
{
    return gpu->description;
}

void gpu_limits_get(const struct gpu *gpu, struct gpu_limits *out)
{
    *out = (struct gpu_limits){0};
    if (gpu->ops->limits)
        gpu->ops->limits(gpu, out);
}

void *gpu_host_alloc(struct gpu *gpu, size_t bytes)
{
    return gpu->ops->host_alloc(gpu, bytes);
}

void gpu_host_free(struct gpu *gpu, void *memory, size_t bytes)
{
    if (memory)
        gpu->ops->host_free(gpu, memory, bytes);
}

int gpu_host_register(struct gpu *gpu, void *memory, size_t bytes)
{
    return gpu->ops->host_register ? gpu->ops->host_register(gpu, memory, bytes) : -ENOTSUP;
}

void gpu_host_unregister(struct gpu *gpu, void *memory)
{
    if (gpu->ops->host_unregister)
        gpu->ops->host_unregister(gpu, memory);
}

#if defined(__x86_64__)
__attribute__((target("clwb"))) static void lines_write_back(const char *memory, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64)
        _mm_clwb((void *)(uintptr_t)(memory + i));
    _mm_sfence();
}

static bool has_clwb(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 24 & 1);
}

void gpu_host_written(const void *memory, size_t bytes)
{
    if (has_clwb())
        lines_write_back(memory, bytes);
}
#else
void gpu_host_written(const void *memory, size_t bytes)
{
    (void)memory;
    (void)bytes;
}
#endif

void gpu_wake(struct gpu *gpu)
{
    if (gpu->ops->wake)
        gpu->ops->wake(gpu);
}

int gpu_frame_create(struct gpu *gpu, struct gpu_frame **out)
{
    *out = NULL;
    return gpu->ops->frame_create(gpu, out);
}

void gpu_frame_destroy(struct gpu *gpu, struct gpu_frame **frame)
{
    if (frame && *frame) {
        gpu->ops->frame_destroy(gpu, *frame);
        *frame = NULL;
    }
}

void gpu_prefetch(struct gpu *gpu, const uint16_t *depth)
{
    if (gpu->ops->prefetch)
        gpu->ops->prefetch(gpu, depth);
}

int gpu_prepare(struct gpu *gpu, const uint16_t *depth, struct gpu_frame *out_frame)
{
    return gpu->ops->prepare(gpu, depth, out_frame);
}

int gpu_align(struct gpu *gpu, const struct gpu_frame *frame, const struct gpu_frame *reference,
              const struct se3 *T_reference_frame, const struct gpu_align_settings *settings,
              struct gpu_alignment *out)
{
    int rc = gpu_align_settings_check(settings, &gpu->settings.log);
    if (rc < 0)
        return rc;
    return gpu->ops->align(gpu, frame, reference, T_reference_frame, settings, out);
}

int gpu_prepare_align(struct gpu *gpu, const uint16_t *depth, struct gpu_frame *out_frame,
                      const struct gpu_frame *reference, const struct se3 *T_reference_frame,
                      const struct gpu_align_settings *settings, struct gpu_alignment *out)
{
    int rc = gpu_align_settings_check(settings, &gpu->settings.log);
    if (rc < 0)
        return rc;
    if (gpu->ops->prepare_align)
        return gpu->ops->prepare_align(gpu, depth, out_frame, reference, T_reference_frame,
                                       settings, out);
    rc = gpu->ops->prepare(gpu, depth, out_frame);
    if (rc < 0)
        return rc;
    return gpu->ops->align(gpu, out_frame, reference, T_reference_frame, settings, out);
}

int gpu_frame_read(struct gpu *gpu, const struct gpu_frame *frame, uint32_t level, float *out)
{
    return gpu->ops->frame_read(gpu, frame, level, out);
}

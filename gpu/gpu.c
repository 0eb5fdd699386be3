// SPDX-License-Identifier: Apache-2.0
#include "gpu/gpu.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "gpu/backend.h"
#include "gpu/kernels/bilateral.h"
#include "gpu/kernels/icp.h"

void gpu_settings_default(struct gpu_settings *out)
{
    *out = (struct gpu_settings){
        .camera = {525, 525, 319.5, 239.5, 640, 480},
        .units_per_m = 1000,
        .depth_min_m = 0.3f,
        .depth_max_m = 8.0f,
        .bilateral_radius_px = 3,
        .bilateral_sigma_px = 4.5f,
        .bilateral_cut_sigmas = 12.0f,
        .cuda_device = -1,
        .n_sharing = 1,
    };
}

void gpu_align_settings_default(struct gpu_align_settings *out)
{
    *out = (struct gpu_align_settings){
        .iterations = {10, 5, 4},
        .early_stop = true,
        .gate_distance_m = 0.1f,
        .gate_angle_rad = 0.4363323f,
    };
}

struct range {
    const char *name;
    double value, low, high;
};

static int ranges_check(const struct log_sink *log, const struct range *ranges, size_t n_ranges)
{
    for (size_t i = 0; i < n_ranges; i++) {
        const struct range *r = &ranges[i];
        if (!(r->value >= r->low && r->value <= r->high)) {
            log_to(log, LOG_LEVEL_ERROR, "gpu: %s = %g is outside %g .. %g", r->name, r->value,
                   r->low, r->high);
            return -EINVAL;
        }
    }
    return 0;
}

static int settings_check(const struct gpu_settings *s)
{
    const struct intrinsics *c = &s->camera;
    double w = c->width_px, h = c->height_px;
    const struct range ranges[] = {
        {"camera width [px]", w, 32, 4096},
        {"camera height [px]", h, 32, 4096},
        {"|camera.fx| [px]", fabs(c->fx_px), 1, 1e5},
        {"|camera.fy| [px]", fabs(c->fy_px), 1, 1e5},
        {"camera.cx [px]", c->cx_px, 0, w},
        {"camera.cy [px]", c->cy_px, 0, h},
        {"depth scale [units/m]", s->units_per_m, 1, 1e6},
        {"depth_min [m]", s->depth_min_m, 0.05, 20},
        {"depth_max [m]", s->depth_max_m, s->depth_min_m, 20},
        {"bilateral radius [px]", s->bilateral_radius_px, 0, BILATERAL_MAX_RADIUS_PX},
        {"bilateral sigma [px]", s->bilateral_sigma_px, 0.1, 100},
        {"bilateral cut [sigmas]", s->bilateral_cut_sigmas, 0.1, 20},
        {"threads", s->n_threads, 0, 1024},
        {"gpus on one device", s->n_sharing, 1, 64},
    };
    return ranges_check(&s->log, ranges, sizeof ranges / sizeof *ranges);
}

int gpu_open(struct gpu **out, enum gpu_backend backend, const struct gpu_settings *settings)
{
    *out = NULL;
    int rc = settings_check(settings);
    if (rc < 0)
        return rc;
    const struct gpu_ops *ops = &gpu_cpu_ops;
    enum gpu_backend chosen = GPU_BACKEND_CPU;
    if (backend != GPU_BACKEND_CPU) {
#ifdef POSED_HAVE_CUDA
        rc = gpu_cuda_ops.open(out, settings);
        if (rc == 0) {
            ops = &gpu_cuda_ops;
            chosen = GPU_BACKEND_CUDA;
        } else if (backend == GPU_BACKEND_CUDA) {
            log_to(&settings->log, LOG_LEVEL_ERROR, "gpu: CUDA was asked for, but does not open");
            return rc;
        }
        const char *why = "no CUDA device answers";
#else
        const char *why = "this build has no CUDA backend";
        if (backend == GPU_BACKEND_CUDA) {
            log_to(&settings->log, LOG_LEVEL_ERROR, "gpu: %s (configure with POSED_CUDA=ON)", why);
            return -ENOTSUP;
        }
#endif
        if (chosen == GPU_BACKEND_CPU)
            log_to(&settings->log, LOG_LEVEL_INFO, "gpu: taking the CPU backend: %s", why);
    }
    if (chosen == GPU_BACKEND_CPU) {
        rc = gpu_cpu_ops.open(out, settings);
        if (rc < 0)
            return rc;
    }
    (*out)->ops = ops;
    (*out)->settings = *settings;
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

static int align_settings_check(const struct gpu *gpu, const struct gpu_align_settings *s)
{
    uint32_t n_iterations = 0;
    for (int level = 0; level < GPU_LEVELS; level++) {
        n_iterations += s->iterations[level];
        if (s->iterations[level] > GPU_MAX_ITERATIONS)
            n_iterations = UINT32_MAX / 2;
    }
    const struct range ranges[] = {
        {"iterations, all levels", n_iterations, 1, GPU_LEVELS * GPU_MAX_ITERATIONS},
        {"gate distance [m]", s->gate_distance_m, 1e-6, 10},
        {"gate angle [rad]", s->gate_angle_rad, 1e-3, 1.5708},
    };
    return ranges_check(&gpu->settings.log, ranges, sizeof ranges / sizeof *ranges);
}

int gpu_align(struct gpu *gpu, const struct gpu_frame *frame, const struct gpu_frame *reference,
              const struct se3 *T_reference_frame, const struct gpu_align_settings *settings,
              struct gpu_alignment *out)
{
    int rc = align_settings_check(gpu, settings);
    if (rc < 0)
        return rc;
    return gpu->ops->align(gpu, frame, reference, T_reference_frame, settings, out);
}

int gpu_prepare_align(struct gpu *gpu, const uint16_t *depth, struct gpu_frame *out_frame,
                      const struct gpu_frame *reference, const struct se3 *T_reference_frame,
                      const struct gpu_align_settings *settings, struct gpu_alignment *out)
{
    int rc = align_settings_check(gpu, settings);
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

static void unpack_normal_matrix(const double *sums, double h[36])
{
    int k = ICP_SUM_H;
    for (int i = 0; i < 6; i++)
        for (int j = i; j < 6; j++)
            h[6 * i + j] = h[6 * j + i] = sums[k++];
}

void gpu_alignment_from_sums(const double *sums, const double *information_sums,
                             struct gpu_alignment *out)
{
    unpack_normal_matrix(sums, out->h);
    unpack_normal_matrix(information_sums, out->information);
    for (int i = 0; i < 6; i++)
        out->g[i] = sums[ICP_SUM_G + i];
    out->weight_sum = sums[ICP_SUM_W];
    out->information_weight = information_sums[ICP_SUM_W];
    out->residual_rms_m = sums[ICP_SUM_W] > 0 ? sqrt(sums[ICP_SUM_WRR] / sums[ICP_SUM_W]) : 0;
    out->n_pairs = (uint32_t)sums[ICP_SUM_PAIRS];
    out->n_valid_px = (uint32_t)sums[ICP_SUM_VALID];
}

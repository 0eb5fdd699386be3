// SPDX-License-Identifier: Apache-2.0
// The pose search's operations on the CPU.
#include "gpu/search/cpu/device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu/base/parallel.h"
#include "gpu/search/context.h"
#include "gpu/search/cpu/reference_map.h"
#include "gpu/search/cpu/scan.h"

static int cpu_open(void **out_device, const struct search_settings *settings, struct pool *pool)
{
    struct search_cpu *cpu = calloc(1, sizeof *cpu);
    *out_device = cpu;
    if (!cpu)
        return -ENOMEM;
    cpu->pool = pool;
    cpu->log = settings->log;
    return 0;
}

static void cpu_close(void *device)
{
    free(device);
}

static void cpu_describe(const void *device, char *out, size_t size)
{
    const struct search_cpu *cpu = device;
#if defined(__x86_64__)
    const char *simd = __builtin_cpu_supports("avx512bw") ? "AVX-512"
                       : __builtin_cpu_supports("avx2")   ? "AVX2"
                                                          : "SSE2";
#else
    const char *simd = "baseline";
#endif
    snprintf(out, size, "cpu: %u threads, %s", pool_n_threads(cpu->pool), simd);
}

struct draw_job {
    const struct search_object *object;
    const float *rotations;
    struct search_map_scratch *scratch; // one a thread
    struct search_map *out;
};

static void draw_one(void *user, uint32_t item, uint32_t thread)
{
    struct draw_job *job = user;
    search_map_draw(job->object, job->rotations + 9 * (size_t)item, &job->scratch[thread],
                    &job->out[item]);
}

static int cpu_maps(void *device, const struct search_object *object, const float *rotations,
                    uint32_t n, struct search_map *out)
{
    struct search_cpu *cpu = device;
    uint32_t n_threads = pool_n_threads(cpu->pool);
    int err = 0;
    struct draw_job job = {object, rotations, calloc(n_threads, sizeof *job.scratch), out};
    if (!job.scratch)
        return -ENOMEM;
    for (uint32_t i = 0; i < n_threads; i++) {
        struct search_map_scratch *s = &job.scratch[i];
        s->corners = malloc(object->n_vertices * sizeof *s->corners);
        s->z = malloc(object->n_vertices * sizeof *s->z);
        if (!s->corners || !s->z)
            err = -ENOMEM;
    }
    if (!err)
        parallel_for(cpu->pool, n, draw_one, &job);
    for (uint32_t i = 0; i < n_threads; i++) {
        free(job.scratch[i].corners);
        free(job.scratch[i].z);
    }
    free(job.scratch);
    return err;
}

static int cpu_attach(void *device, struct search_object *object)
{
    (void)device;
    object->device = NULL; // the host's arrays are the device's
    return 0;
}

static void cpu_detach(void *device, struct search_object *object)
{
    (void)device;
    (void)object;
}

static int cpu_image(void *device, const struct search_depth *depth)
{
    struct search_cpu *cpu = device;
    const struct intrinsics *c = &depth->camera;
    cpu->depth = *depth;
    cpu->camera = (struct search_camera){(float)c->fx_px, (float)c->fy_px,  (float)c->cx_px,
                                         (float)c->cy_px, (int)c->width_px, (int)c->height_px};
    return 0;
}

static int cpu_scan(void *device, const struct search_object *object,
                    const struct search_frame *starts, uint32_t n_starts, uint32_t keep,
                    struct search_hit *out)
{
    const struct search_cpu *cpu = device;
    search_scan(cpu->pool, cpu->depth.z_m, &cpu->camera, object, starts, n_starts, keep, out);
    return pool_stopped(cpu->pool) ? -ECANCELED : 0;
}

const struct search_ops search_ops_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .maps = cpu_maps,
    .attach = cpu_attach,
    .detach = cpu_detach,
    .image = cpu_image,
    .fit_best = search_cpu_fit_best,
    .scan = cpu_scan,
    .find = search_cpu_find,
};

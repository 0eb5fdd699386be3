// SPDX-License-Identifier: Apache-2.0
// The pose search's operations on the CPU.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/base/parallel.h"
#include "gpu/search/cpu/map.h"
#include "gpu/search/cpu/scan.h"
#include "gpu/search/device.h"
#include "gpu/search/kernels/edge.h"
#include "gpu/search/kernels/frame.h"
#include "gpu/search/kernels/germann_error.h"
#include "gpu/search/kernels/simplex.h"
#include "gpu/search/ops.h"

struct search_cpu {
    struct pool *pool; // the search's
    struct log_sink log;
    struct search_depth depth; // borrowed until the next image
    struct search_camera camera;
};

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

// Depths beyond two map widths are background: they belong to something else.
static void sample_window(const struct search_cpu *cpu, const struct search_frame *frame,
                          int16_t *out)
{
    const float limit_m = 2 * SEARCH_MAP_PX * frame->px_m;
    for (int i = 0; i < SEARCH_WINDOW_PX * SEARCH_WINDOW_PX; i++) {
        int u = i % SEARCH_WINDOW_PX - SEARCH_WINDOW_PX / 2;
        int v = i / SEARCH_WINDOW_PX - SEARCH_WINDOW_PX / 2;
        float z_m;
        bool seen =
            search_frame_sample(cpu->depth.z_m, &cpu->camera, frame->rotation, frame->start_m,
                                (float)u * frame->px_m, (float)v * frame->px_m, &z_m) &&
            z_m > -limit_m && z_m < limit_m;
        out[i] = seen ? (int16_t)search_depth_shift(z_m / frame->px_m) : SEARCH_Z_NONE;
    }
}

static void median_window(const int16_t *z, int16_t *out)
{
    enum { N = SEARCH_WINDOW_PX };
    for (int v = 0; v < N; v++)
        for (int u = 0; u < N; u++) {
            int16_t around[9];
            for (int k = 0; k < 9; k++) {
                int x = u + k % 3 - 1, y = v + k / 3 - 1;
                bool inside = x >= 0 && y >= 0 && x < N && y < N;
                around[k] = inside ? z[y * N + x] : SEARCH_Z_NONE;
            }
            out[v * N + u] = (int16_t)search_median9(around);
        }
}

static int cpu_window(void *device, const struct search_frame *frame, uint32_t *out)
{
    enum { N = SEARCH_WINDOW_PX * SEARCH_WINDOW_PX };
    const struct search_cpu *cpu = device;
    int16_t raw[N], z[N], edt[N];
    uint8_t kind[N];
    sample_window(cpu, frame, raw);
    median_window(raw, z);
    search_kinds(z, SEARCH_WINDOW_PX, kind);
    search_edt(kind, SEARCH_WINDOW_PX, edt);
    for (int i = 0; i < N; i++)
        out[i] = search_pair(kind[i] == SEARCH_KIND_BACKGROUND ? 0 : z[i], edt[i]);
    return 0;
}

// A view over a window. Lanes are summed apart: integers, so that the order does not matter.
struct view_on_window {
    const uint32_t *window;
    const uint16_t *offset;
    const uint32_t *pairs;
    uint32_t n_chunks;
    int n_cover;
};

// Eight lanes: wider generic vectors are taken apart by gcc inside target_clones.
#define LANES 8
typedef int32_t lanes __attribute__((vector_size(LANES * sizeof(int32_t))));

CPU_CLONES static float evaluate(const struct view_on_window *view, float x, float y, float z)
{
    const uint32_t *base = view->window + search_shift(y) * SEARCH_WINDOW_PX + search_shift(x);
    const int32_t shift = search_depth_shift(z);
    lanes cover = {0}, range = {0}, n_range = {0};
    for (uint32_t i = 0; i < view->n_chunks; i++) {
        for (uint32_t k = 0; k < SEARCH_CHUNK; k += LANES) {
            // search_error_pixel on LANES pixels (tests/check/search/check_search.c compares).
            lanes in, ref;
            memcpy(&in, base + view->offset[i] + k, sizeof in);
            memcpy(&ref, view->pairs + (size_t)i * SEARCH_CHUNK + k, sizeof ref);
            lanes edt_i = in >> 16, edt_r = ref >> 16;
            lanes counts = edt_r >= 0, both = counts & (edt_i >= 0);
            lanes c = edt_i - edt_r, r = ((in << 16) >> 16) - ((ref << 16) >> 16) - shift;
            // cppcheck-suppress shiftTooManyBitsSigned; of vectors: gcc and clang copy the sign
            lanes c_sign = c >> 31, r_sign = r >> 31;
            cover += ((c ^ c_sign) - c_sign) & counts;
            range += ((r ^ r_sign) - r_sign) & both;
            n_range -= both;
        }
    }
    struct search_sums sums = {0, 0, 0};
    for (int k = 0; k < LANES; k++) {
        sums.cover += cover[k];
        sums.range += range[k];
        sums.n_range += n_range[k];
    }
    return search_error_value(&sums, view->n_cover);
}

struct fit_job {
    const struct search_object *object;
    const struct pool *pool;
    const uint32_t *window;
    const uint32_t *views;
    uint32_t n;
    int n_iterations;
    struct search_fit *out;
};

#define FIT_BATCH 32 // views a thread takes at once

static void fit_some(void *user, uint32_t item, uint32_t thread)
{
    (void)thread;
    const struct fit_job *job = user;
    uint32_t end = (item + 1) * FIT_BATCH < job->n ? (item + 1) * FIT_BATCH : job->n;
    for (uint32_t i = item * FIT_BATCH; i < end && !pool_stopped(job->pool); i++) {
        const struct search_view *view = &job->object->views[job->views ? job->views[i] : i];
        struct view_on_window context = {job->window, job->object->chunk_offset + view->first_chunk,
                                         job->object->chunk_pairs +
                                             (size_t)view->first_chunk * SEARCH_CHUNK,
                                         view->n_chunks, (int)view->n_cover};
        const float half = SEARCH_WINDOW_PX / 2;
        struct simplex simplex;
        simplex_begin(&simplex, half - (float)view->start_u, half - (float)view->start_v,
                      -(float)view->start_z / SEARCH_UNIT, job->n_iterations);
        while (simplex.phase != SIMPLEX_PHASE_DONE)
            simplex_tell(&simplex,
                         evaluate(&context, simplex.trial.x, simplex.trial.y, simplex.trial.z));
        job->out[i] =
            (struct search_fit){simplex.v0.error, simplex.v0.x, simplex.v0.y, simplex.v0.z};
    }
}

static int cpu_fit(void *device, const struct search_object *object,
                   const struct search_frame *frame, const uint32_t *views, uint32_t n,
                   uint32_t n_iterations, struct search_fit *out)
{
    struct search_cpu *cpu = device;
    // A chunk may reach past the last pixel; what it reads there is masked.
    uint32_t window[SEARCH_WINDOW_PX * SEARCH_WINDOW_PX + SEARCH_CHUNK] = {0};
    int err = cpu_window(cpu, frame, window);
    if (err)
        return err;
    struct fit_job job = {object, cpu->pool, window, views, n, (int)n_iterations, out};
    parallel_for(cpu->pool, (n + FIT_BATCH - 1) / FIT_BATCH, fit_some, &job);
    return pool_stopped(cpu->pool) ? -ECANCELED : 0;
}

static int cpu_fit_best(void *device, const struct search_object *object,
                        const struct search_frame *frame, const uint32_t *views, uint32_t n,
                        uint32_t n_iterations, uint32_t n_best, uint32_t *out_place,
                        struct search_fit *out)
{
    struct search_fit *fits = malloc(n * sizeof *fits);
    int err = fits ? cpu_fit(device, object, frame, views, n, n_iterations, fits) : -ENOMEM;
    for (uint32_t k = 0; !err && k < n_best; k++) {
        uint32_t best = n;
        for (uint32_t i = 0; i < n; i++) {
            bool taken = false;
            for (uint32_t j = 0; j < k; j++)
                taken |= out_place[j] == i;
            if (!taken && (best == n || fits[i].error_px < fits[best].error_px))
                best = i;
        }
        out_place[k] = best;
        out[k] = fits[best];
    }
    free(fits);
    return err;
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
    .window = cpu_window,
    .fit = cpu_fit,
    .fit_best = cpu_fit_best,
    .scan = cpu_scan,
    .find = search_cpu_find,
};

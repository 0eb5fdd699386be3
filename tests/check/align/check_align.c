// SPDX-License-Identifier: Apache-2.0
// The pair sums of both twins against a reference that shares no formula with them, on views of a
// model at poses from exact to hopeless; the same bits run after run, for any number of threads and
// whichever other tasks are in a call; time with --bench.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/align/cpu/block.h"
#include "gpu/align/ops.h"
#include "proto/se3.h"
#include "tests/check/align/reference.h"
#include "tests/check/check.h"
#include "tools/align/views.h"

#define N_VIEWS 5
#define N_TASKS 12

static const struct check_limit limits[] = {
    {"sums", 1e-12, 1.0, "what single precision may do to them, see reference.h"},
};
#define ROUNDING 4e-7 // of a residual, in depths of the scene: a few roundings of 6e-8

struct inputs {
    struct views views;
    struct align_image *images[N_VIEWS];
    struct align_task tasks[N_TASKS];
};

static void make_inputs(struct inputs *in, uint32_t n_vertices)
{
    struct views_settings settings = {N_VIEWS, n_vertices, 0.01, 0.1, 0.05, check_random()};
    struct cloud none = {0};
    struct log_sink log = check_log();
    check_that(views_create(&in->views, &none, &settings, &log) == 0, "views");
    for (uint32_t i = 0; i < N_VIEWS; i++)
        check_that(views_load(&in->views, i, &in->images[i]) == 0, "image %u", i);
    for (uint32_t t = 0; t < N_TASKS; t++) {
        uint32_t a = check_random() % N_VIEWS,
                 b = (a + 1 + check_random() % (N_VIEWS - 1)) % N_VIEWS;
        uint64_t state = check_random();
        static const double off_m[4] = {0, 0.02, 0.3, 30};
        double middle[3] = {0, 0, 0};
        struct se3 T = se3_between(&in->views.T_world_truth[b], &in->views.T_world_truth[a]);
        T = views_disturb(&T, middle, off_m[t % 4], off_m[t % 4] * 0.02, &state);
        struct align_task *task = &in->tasks[t];
        task->source = a;
        task->target = b;
        for (int k = 0; k < 9; k++)
            task->T_target_source.r[k] = (float)T.r[k];
        for (int k = 0; k < 3; k++)
            task->T_target_source.t_m[k] = (float)T.t_m[k];
        task->gates = (struct pair_gates){t % 3 ? 0.5f : 0.05f, 0.7f, t % 5 ? 0.02f : 0};
    }
}

static void free_inputs(struct inputs *in)
{
    for (uint32_t i = 0; i < N_VIEWS; i++)
        align_image_destroy(&in->images[i]);
    views_free(&in->views);
}

static void compare(const struct inputs *in, uint32_t t, uint32_t level, const double *sums)
{
    const struct align_task *task = &in->tasks[t];
    const struct align_image *a = in->images[task->source], *b = in->images[task->target];
    struct reference_input with = {{a->x_m, a->y_m, a->z_m},
                                   {a->nx, a->ny, a->nz},
                                   a->n_level[level],
                                   (const float *)b->planes,
                                   (int)b->width,
                                   (int)b->height,
                                   b->projection,
                                   task->T_target_source.r,
                                   task->T_target_source.t_m,
                                   (double)a->noise.a_m,
                                   (double)a->noise.b_per_m,
                                   ROUNDING * in->views.height_m * 2.5,
                                   (double)task->gates.distance_m,
                                   (double)task->gates.cos_angle,
                                   (double)task->gates.inv_cut2};
    struct reference_sums r;
    reference_sum(&with, &r);
    check_that(fabs(sums[PAIR_SUM_N] - r.n) <= r.n_doubtful,
               "task %u: %g pairs, %g expected, %g doubtful", t, sums[PAIR_SUM_N], r.n,
               r.n_doubtful);
    // A doubtful vertex counts or does not: an average one's share of a sum may differ, thrice.
    double more = 3 * r.n_doubtful / (r.n > 1 ? r.n : 1);
    for (int i = 0, at = 0; i < 6; i++)
        for (int j = i; j < 6; j++, at++)
            check_close(&limits[0], sums[PAIR_SUM_H + at], r.h[i][j],
                        r.slack_h[i][j] + more * sqrt(r.h[i][i] * r.h[j][j]), "H");
    for (int i = 0; i < 6; i++)
        check_close(&limits[0], sums[PAIR_SUM_G + i], r.g[i],
                    r.slack_g[i] + more * sqrt(r.h[i][i] * r.ee), "g");
    check_close(&limits[0], sums[PAIR_SUM_WEE], r.ee, r.slack_ee + more * r.ee, "ee");
    check_close(&limits[0], sums[PAIR_SUM_TW], r.w, r.slack_w + more * r.w, "w");
    check_close(&limits[0], sums[PAIR_SUM_ABS], r.abs, r.slack_abs + more * r.abs, "abs");
    check_close(&limits[0], sums[PAIR_SUM_RR], r.rr, r.slack_rr + more * r.rr, "rr");
}

struct timed {
    struct align_device *device;
    const struct inputs *in;
    double *sums;
};

static void sum_all(void *context)
{
    struct timed *t = context;
    check_that(align_device_sum(t->device, t->in->tasks, N_TASKS, 0, t->sums) == 0, "sum");
}

static void check_device(enum gpu_backend backend, const char *name, const struct inputs *in)
{
    struct align_device_settings settings = {N_VIEWS, N_TASKS, 2, -1, check_log()};
    struct align_device *device = NULL;
    size_t bytes = N_TASKS * PAIR_N_SUMS * sizeof(double);
    double *sums = check_alloc(bytes), *again = check_alloc(bytes);
    int rc = align_device_open(&device, backend, &settings);
    if (rc < 0) {
        check_skip("no %s device", name);
        check_free(sums);
        check_free(again);
        return;
    }
    for (uint32_t i = 0; i < N_VIEWS; i++)
        check_that(align_device_load(device, i, in->images[i]) == 0, "load");
    for (uint32_t level = 0; level < ALIGN_LEVELS && !check_bench_wanted(); level++) {
        check_case("%s, level %u, %u vertices", name, level, in->images[0]->n_level[level]);
        memset(sums, 0xff, bytes);
        check_that(align_device_sum(device, in->tasks, N_TASKS, level, sums) == 0, "sum");
        for (uint32_t t = 0; t < N_TASKS; t++)
            compare(in, t, level, sums + t * PAIR_N_SUMS);
        memset(again, 0xff, bytes);
        check_that(align_device_sum(device, in->tasks, N_TASKS, level, again) == 0, "sum");
        check_that(memcmp(sums, again, bytes) == 0, "another run, other bits");
        memset(again, 0xff, bytes);
        for (uint32_t t = 0; t < N_TASKS; t++)
            check_that(align_device_sum(device, in->tasks + t, 1, level, again + t * PAIR_N_SUMS) ==
                           0,
                       "sum");
        check_that(memcmp(sums, again, bytes) == 0, "alone in its call, other bits");
    }
    struct timed timed = {device, in, sums};
    if (check_bench_wanted())
        check_time(name, 50, sum_all, &timed);
    align_device_close(&device);
    if (backend == GPU_BACKEND_CPU && !check_bench_wanted()) {
        settings.n_threads = 1;
        check_that(align_device_open(&device, backend, &settings) == 0, "open");
        for (uint32_t i = 0; i < N_VIEWS; i++)
            check_that(align_device_load(device, i, in->images[i]) == 0, "load");
        check_that(align_device_sum(device, in->tasks, N_TASKS, ALIGN_LEVELS - 1, again) == 0,
                   "sum");
        check_that(memcmp(sums, again, bytes) == 0, "one thread, other bits");
        align_device_close(&device);
    }
    check_free(sums);
    check_free(again);
}

// The instruction set does not show in the sums, also of blocks that end between lanes.
static void check_sets(const struct inputs *in)
{
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("fma") || !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512vl")) {
        check_skip("this processor has not both AVX2 and AVX-512");
        return;
    }
    for (uint32_t t = 0; t < N_TASKS; t++) {
        const struct align_task *task = &in->tasks[t];
        const struct align_image *a = in->images[task->source], *b = in->images[task->target];
        check_case("instruction sets, task %u", t);
        for (uint32_t n = 1; n <= BLOCK_VERTICES; n += 15) {
            double avx2[PAIR_N_SUMS] = {0}, avx512[PAIR_N_SUMS] = {0};
            align_block_avx2(a, b, &task->T_target_source, &task->gates, 0, n, avx2);
            align_block_avx512(a, b, &task->T_target_source, &task->gates, 0, n, avx512);
            check_that(memcmp(avx2, avx512, sizeof avx2) == 0, "%u vertices, other bits", n);
        }
    }
#else
    (void)in;
#endif
}

int main(int argc, char **argv)
{
    static const uint32_t sizes[] = {600, 5000, 40000};
    check_begin(argc, argv);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        struct inputs in;
        if (!check_wanted("", sizes[k]))
            continue;
        make_inputs(&in, sizes[k]);
        if (check_wanted("cpu", sizes[k]))
            check_device(GPU_BACKEND_CPU, "cpu", &in);
        if (check_wanted("cuda", sizes[k]))
            check_device(GPU_BACKEND_CUDA, "cuda", &in);
        if (!check_bench_wanted())
            check_sets(&in);
        free_inputs(&in);
    }
    return check_end();
}

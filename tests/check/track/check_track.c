// SPDX-License-Identifier: Apache-2.0
// The tracker's stages on every backend that runs here, against the reference in double precision
// and against each other: prepare (depth, filter, maps of three levels) and align (one iteration of
// each level: the sums; all iterations: the pose). input.h says of what, expect.h what
// must come out.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check/check.h"
#include "tests/check/track/expect.h"

// One way to run the operations.
struct twin {
    const char *name;
    enum gpu_isa isa;
    enum gpu_path path;
    const char *described; // what the description must contain, else this machine lacks it
    enum gpu_backend backend;
    bool exact; // maps equal, number for number, among all that are
};

static const struct twin twins[] = {
    {"cpu baseline", GPU_ISA_BASELINE, GPU_PATH_AUTO, "baseline", GPU_BACKEND_CPU, false},
    {"cpu avx2", GPU_ISA_AVX2, GPU_PATH_AUTO, "AVX2", GPU_BACKEND_CPU, true},
    {"cpu avx512", GPU_ISA_AVX512, GPU_PATH_AUTO, "AVX-512", GPU_BACKEND_CPU, true},
    {"cuda fused", GPU_ISA_AUTO, GPU_PATH_FUSED, "fused", GPU_BACKEND_CUDA, true},
    {"cuda plain", GPU_ISA_AUTO, GPU_PATH_PLAIN, "plain", GPU_BACKEND_CUDA, true},
};
#define N_TWINS (sizeof twins / sizeof *twins)

static void output_destroy(struct output *out)
{
    for (int f = 0; f < 2; f++)
        for (int level = 0; level < GPU_LEVELS; level++)
            check_free(out->maps[f][level]);
}

static int twin_open(const struct twin *twin, const struct gpu_settings *settings,
                     uint32_t n_threads, struct gpu **out)
{
    struct gpu_settings s = *settings;
    s.n_threads = n_threads;
    s.log = check_log();
    s.isa = twin->isa;
    s.path = twin->path;
    int rc = gpu_open(out, twin->backend, &s);
    if (rc < 0)
        return rc;
    if (!strstr(gpu_description(*out), twin->described)) {
        gpu_close(out);
        return -ENODEV;
    }
    return 0;
}

static void align_one(struct gpu *gpu, struct gpu_frame *const frames[2], const struct input *in,
                      const struct gpu_align_settings *align, struct gpu_alignment *out)
{
    memset(out, 0xFF, sizeof *out);
    int rc = gpu_align(gpu, frames[1], frames[0], &in->T_start, align, out);
    check_that(rc == 0, "gpu_align returned %d", rc);
}

// A frame in the device's own memory, or in memory that it is lent, brought there and prepared
// beside the one before: the same maps and the same pose.
static void check_ahead_at(struct gpu *gpu, struct gpu_frame *frames[2], const struct input *in,
                           const struct output *out, uint16_t *memory, int n_rounds, float *maps)
{
    const size_t n_map_bytes = level_px(&in->settings, 0) * 16;
    struct gpu_alignment a;
    memcpy(memory, in->depth[1], level_px(&in->settings, 0) * sizeof *memory);
    // Prepared, then aligned; then both at once; then after a hint that was wrong.
    for (int round = 0; round < n_rounds; round++) {
        gpu_prefetch(gpu, memory);
        int rc = gpu_prepare(gpu, in->depth[round == 2], frames[0]);
        if (rc == 0 && round == 2)
            rc = gpu_prepare(gpu, in->depth[0], frames[0]);
        gpu_wake(gpu); // changes nothing
        if (rc == 0 && round == 0)
            rc = gpu_prepare(gpu, memory, frames[1]);
        if (rc == 0)
            rc = round == 0 ? gpu_align(gpu, frames[1], frames[0], &in->T_start, &in->align, &a)
                            : gpu_prepare_align(gpu, memory, frames[1], frames[0], &in->T_start,
                                                &in->align, &a);
        memset(maps, 0xFF, n_map_bytes);
        if (rc == 0)
            rc = gpu_frame_read(gpu, frames[1], 0, maps);
        check_that(rc == 0 && memcmp(maps, out->maps[1][0], n_map_bytes) == 0,
                   "a prefetched frame has other maps (%d)", round);
        check_that(rc == 0 && alignment_same_bits(&a, &out->all),
                   "a prefetched frame has another pose (%d)", round);
    }
}

static void check_ahead(struct gpu *gpu, struct gpu_frame *frames[2], const struct input *in,
                        const struct output *out, float *maps)
{
    const size_t page = 4096, bytes = level_px(&in->settings, 0) * sizeof *in->depth[1];
    const size_t n_bytes = (bytes + page - 1) / page * page;
    uint16_t *own = gpu_host_alloc(gpu, bytes), *lent = aligned_alloc(page, n_bytes);
    if (!check_that(own && lent, "no memory"))
        return;
    int rc = gpu_host_register(gpu, lent, n_bytes);
    check_that(rc == 0 || rc == -ENOTSUP, "gpu_host_register returned %d", rc);
    if (rc == 0) {
        check_ahead_at(gpu, frames, in, out, own, 3, maps);
        check_ahead_at(gpu, frames, in, out, lent, 3, maps);
        gpu_host_unregister(gpu, lent);
        check_ahead_at(gpu, frames, in, out, lent, 3, maps); // copied again
    } else { // nothing is done ahead: the calls must only do no harm
        check_ahead_at(gpu, frames, in, out, own, 1, maps);
    }

    // Memory that is given back and comes again with another frame is that other frame.
    memcpy(own, in->depth[0], bytes);
    gpu_prefetch(gpu, own);
    rc = gpu_prepare(gpu, in->depth[0], frames[0]);
    gpu_host_free(gpu, own, bytes);
    own = gpu_host_alloc(gpu, bytes);
    if (check_that(rc == 0 && own, "no memory, or prepare returned %d", rc)) {
        memcpy(own, in->depth[1], bytes);
        rc = gpu_prepare(gpu, own, frames[1]);
        if (rc == 0)
            rc = gpu_frame_read(gpu, frames[1], 0, maps);
        check_that(rc == 0 && memcmp(maps, out->maps[1][0], level_px(&in->settings, 0) * 16) == 0,
                   "memory that came again shows the frame before");
    }
    gpu_host_free(gpu, own, bytes);
    free(lent);
}

static bool twin_run(struct gpu *gpu, const struct input *in, struct output *out)
{
    struct gpu_frame *frames[2] = {NULL, NULL};
    int rc = gpu_frame_create(gpu, &frames[0]);
    if (rc == 0)
        rc = gpu_frame_create(gpu, &frames[1]);
    memset(out, 0, sizeof *out);
    for (int f = 0; f < 2 && rc == 0; f++) {
        rc = gpu_prepare(gpu, in->depth[f], frames[f]);
        for (int level = 0; level < GPU_LEVELS && rc == 0; level++) {
            out->maps[f][level] = check_alloc(level_px(&in->settings, level) * 16);
            rc = gpu_frame_read(gpu, frames[f], (uint32_t)level, out->maps[f][level]);
        }
    }
    if (check_that(rc == 0, "prepare or read returned %d", rc)) {
        struct gpu_align_settings align = in->align;
        for (int level = 0; level < GPU_LEVELS; level++) {
            memset(align.iterations, 0, sizeof align.iterations);
            align.iterations[level] = 1;
            align_one(gpu, frames, in, &align, &out->one[level]);
        }
        align_one(gpu, frames, in, &in->align, &out->all);
        align = in->align;
        align.early_stop = true;
        align_one(gpu, frames, in, &align, &out->early);

        // Both in one call: the same bits.
        struct gpu_alignment fused;
        rc = gpu_prepare_align(gpu, in->depth[1], frames[1], frames[0], &in->T_start, &in->align,
                               &fused);
        memcpy(fused.stage_us, out->all.stage_us, sizeof fused.stage_us);
        check_that(rc == 0 &&
                       memcmp(&fused.T_reference_frame, &out->all.T_reference_frame,
                              sizeof fused.T_reference_frame) == 0 &&
                       memcmp(fused.h, out->all.h, sizeof fused.h) == 0 &&
                       memcmp(fused.g, out->all.g, sizeof fused.g) == 0 &&
                       fused.step_norm == out->all.step_norm,
                   "prepare_align differs from prepare, then align");
        float *again = check_alloc(level_px(&in->settings, 0) * 16);
        rc = gpu_frame_read(gpu, frames[1], 0, again);
        check_that(rc == 0 && memcmp(again, out->maps[1][0], level_px(&in->settings, 0) * 16) == 0,
                   "prepare_align leaves other maps than prepare");
        check_ahead(gpu, frames, in, out, again);
        check_free(again);
    }
    gpu_frame_destroy(gpu, &frames[1]);
    gpu_frame_destroy(gpu, &frames[0]);
    return rc == 0;
}

static void check_case_on_all(struct input *in, const char *name)
{
    size_t n_px = level_px(&in->settings, 0);
    in->filtered = malloc(n_px * sizeof *in->filtered);
    reference_filter(&in->settings, in->depth[1], in->filtered);
    struct output outputs[N_TWINS];
    bool ran[N_TWINS] = {false};
    for (size_t t = 0; t < N_TWINS; t++) {
        struct gpu *gpu;
        if (!check_wanted(twins[t].name, n_px))
            continue;
        int rc = twin_open(&twins[t], &in->settings, 1, &gpu);
        if (rc < 0) {
            check_skip("%s does not run here", twins[t].name);
            continue;
        }
        check_case("%s, %s", name, twins[t].name);
        check_log_reset();
        struct output again;
        ran[t] = twin_run(gpu, in, &outputs[t]);
        if (ran[t] && twin_run(gpu, in, &again)) {
            expect_same_bits(in, &again, &outputs[t], "second run");
            output_destroy(&again);
        }
        gpu_close(&gpu);
        if (!ran[t])
            continue;
        expect_maps(in, &outputs[t]);
        expect_alignment(in, &outputs[t]);
        static const uint32_t n_threads[] = {2, 3, 7};
        for (size_t i = 0; i < 3 && twins[t].backend == GPU_BACKEND_CPU; i++)
            if (twin_open(&twins[t], &in->settings, n_threads[i], &gpu) == 0) {
                char what[32];
                snprintf(what, sizeof what, "%u threads", n_threads[i]);
                if (twin_run(gpu, in, &again)) {
                    expect_same_bits(in, &again, &outputs[t], what);
                    output_destroy(&again);
                }
                gpu_close(&gpu);
            }
        check_that(check_log_count(LOG_LEVEL_WARNING) == 0, "it complained in the log");
    }
    for (size_t a = 0; a < N_TWINS; a++)
        for (size_t b = a + 1; b < N_TWINS; b++)
            if (ran[a] && ran[b]) {
                char names[80];
                snprintf(names, sizeof names, "%s and %s", twins[a].name, twins[b].name);
                check_case("%s, %s", name, names);
                expect_twins(in, &outputs[a], &outputs[b], twins[a].exact && twins[b].exact, names);
            }
    for (size_t t = 0; t < N_TWINS; t++)
        if (ran[t])
            output_destroy(&outputs[t]);
    free(in->filtered);
}

static const struct size {
    uint32_t width_px, height_px;
} sizes[] = {{32, 32}, {33, 64}, {64, 33}, {161, 121}, {640, 480}};
#define N_SIZES (sizeof sizes / sizeof *sizes)

static void run_matrix(void)
{
    for (size_t i = 0; i < N_SIZES; i++)
        for (enum fill fill = 0; fill < N_FILLS; fill++) {
            struct input in;
            if (check_is_short() && i == N_SIZES - 1 && fill > 0)
                break; // the largest
            input_create(&in, sizes[i].width_px, sizes[i].height_px, fill);
            input_fill(&in, fill);
            char name[80];
            snprintf(name, sizeof name, "%ux%u %s", sizes[i].width_px, sizes[i].height_px,
                     fill_names[fill]);
            check_case_on_all(&in, name);
            input_destroy(&in);
        }
}

// Settings off their defaults, one at a time.
static void run_settings(void)
{
    static const char *const names[] = {"no filter",       "filter 3x3",   "filter 13x13",
                                        "fy negative",     "off centre",   "millimetres",
                                        "tight gates",     "narrow range", "two iterations",
                                        "wide iterations", "a field"};
    static float field_per_m[161 * 121];
    for (int i = 0; i < 161 * 121; i++) // 10 mm at 1 m at the borders, and ripples
        field_per_m[i] = 1e-4f * (float)(i % 161 - 80) + 2e-3f * sinf(0.1f * (float)(i / 161));
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        struct input in;
        input_create(&in, 161, 121, FILL_ROOM_NOISE);
        struct gpu_settings *s = &in.settings;
        static const uint32_t radius_px[] = {0, 1, 6};
        switch (k) {
        case 0:
        case 1:
        case 2:
            s->bilateral_radius_px = radius_px[k];
            break;
        case 3:
            s->camera.fy_px = -s->camera.fy_px;
            break;
        case 4:
            s->camera.cx_px = 20.25;
            s->camera.cy_px = 100.75;
            break;
        case 5:
            s->units_per_m = 1000;
            break;
        case 6:
            in.align.gate_distance_m = 0.01f;
            in.align.gate_angle_rad = 0.1f;
            break;
        case 7:
            s->depth_min_m = 1.0f;
            s->depth_max_m = 2.0f;
            break;
        case 8:
            in.align.iterations[0] = 0;
            in.align.iterations[1] = 2;
            in.align.iterations[2] = 0;
            break;
        case 10:
            s->field_per_m = field_per_m;
            break;
        default:
            in.align.iterations[0] = in.align.iterations[1] = in.align.iterations[2] = 30;
            break;
        }
        input_fill(&in, FILL_ROOM_NOISE);
        char name[80];
        snprintf(name, sizeof name, "161x121 noisy room, %s", names[k]);
        check_case_on_all(&in, name);
        input_destroy(&in);
    }
}

struct bench {
    struct gpu *gpu;
    struct gpu_frame *frames[2];
    const struct input *in;
};

static void bench_call(void *context)
{
    struct bench *b = context;
    struct gpu_alignment out;
    int rc = gpu_prepare_align(b->gpu, b->in->depth[1], b->frames[1], b->frames[0], &b->in->T_start,
                               &b->in->align, &out);
    if (rc < 0)
        printf("gpu_prepare_align returned %d\n", rc);
}

static void run_bench(void)
{
    for (size_t i = 0; i < N_SIZES; i++)
        for (size_t t = 0; t < N_TWINS; t++) {
            struct input in;
            struct bench bench = {.in = &in};
            input_create(&in, sizes[i].width_px, sizes[i].height_px, FILL_ROOM_NOISE);
            input_fill(&in, FILL_ROOM_NOISE);
            if (twin_open(&twins[t], &in.settings, 0, &bench.gpu) < 0) {
                check_skip("%s does not run here", twins[t].name);
            } else {
                char name[80];
                snprintf(name, sizeof name, "%ux%u %s", sizes[i].width_px, sizes[i].height_px,
                         gpu_description(bench.gpu));
                if (gpu_frame_create(bench.gpu, &bench.frames[0]) == 0 &&
                    gpu_frame_create(bench.gpu, &bench.frames[1]) == 0 &&
                    gpu_prepare(bench.gpu, in.depth[0], bench.frames[0]) == 0)
                    check_time(name, 50, bench_call, &bench);
                gpu_frame_destroy(bench.gpu, &bench.frames[1]);
                gpu_frame_destroy(bench.gpu, &bench.frames[0]);
                gpu_close(&bench.gpu);
            }
            input_destroy(&in);
        }
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    if (check_bench_wanted()) {
        run_bench();
        return 0;
    }
    run_matrix();
    run_settings();
    return check_end();
}

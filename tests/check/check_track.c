// SPDX-License-Identifier: Apache-2.0
// The tracker's stages on every backend that runs here, against the reference in double precision
// and against each other: prepare (depth, filter, maps of three levels) and align (one iteration of
// each level: the sums; all iterations: the pose).
//
// Each stage of the reference starts from the backend's own output of the stage before, so that a
// limit covers one stage and is tight.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/se3.h"
#include "tests/check/check.h"
#include "tests/check/reference.h"

static const struct check_limit limit_filter = {
    "filtered depth [m]", 1e-7, 1e-6,
    "single precision; up to 169 taps, each within the cut of the centre"};
static const struct check_limit limit_normal = {
    "normal", 1e-6, 0, "single precision on exact inputs; three roundings per component"};
static const struct check_limit limit_sums = {
    "sums of one iteration", 1e-12, 4e-6,
    "single precision per pair, of sum |term|; plus what undecided pairs may change"};
static const struct check_limit limit_information = {
    "information pass", 1e-12, 2e-5,
    "as above; its pose is rounded and its robust scale is a sum of rounded residuals"};
static const struct check_limit limit_gradient = {
    "gradient and residual", 1e-12, 1,
    "r = n . (q - t') cancels: 4 roundings of the distance, against sum w |J|"};
static const struct check_limit limit_step = {
    "size of the last step", 1e-5, 0, "follows from the pose; decides convergence at 1e-5 m"};
static const struct check_limit limit_pose = {
    "pose of all iterations", 4e-6, 0,
    "m and rad; pairs whose association rounding decides move it by this much"};
static const struct check_limit limit_twins = {"pose, twin against twin", 4e-6, 0,
                                               "m and rad; the same, once on each side"};
static const struct check_limit limit_motion = {
    "known motion [m, rad]", 3e-4, 0, "noise, whole units and the filter at edges: 75 um seen"};
static const struct check_limit limit_baseline = {"map without FMA", 2e-6, 2e-6,
                                                  "a processor without FMA rounds twice"};

// One way to run the operations.
struct twin {
    const char *name, *isa, *path; // isa: POSED_CPU_ISA, path: POSED_CUDA_PATH
    const char *described;         // what the description must contain, else this machine lacks it
    enum gpu_backend backend;
    bool exact; // maps equal, number for number, among all that are
};

static const struct twin twins[] = {
    {"cpu baseline", "baseline", "", "baseline", GPU_BACKEND_CPU, false},
    {"cpu avx2", "avx2", "", "AVX2", GPU_BACKEND_CPU, true},
    {"cpu avx512", "avx512", "", "AVX-512", GPU_BACKEND_CPU, true},
    {"cuda fused", "", "fused", "fused", GPU_BACKEND_CUDA, true},
    {"cuda plain", "", "plain", "plain", GPU_BACKEND_CUDA, true},
};
#define N_TWINS (sizeof twins / sizeof *twins)

struct input {
    struct gpu_settings settings;
    struct gpu_align_settings align;
    struct se3 T_start;            // of the reference to the frame
    struct se3 T_true;             // what the depth images were made with
    uint16_t *depth[2];            // 0: reference, 1: frame
    bool well_posed;               // a pose can be compared
    struct reference_px *filtered; // of depth[1], shared by the twins
};

struct output {
    float *maps[2][GPU_LEVELS];
    struct gpu_alignment one[GPU_LEVELS]; // one iteration of this level alone
    struct gpu_alignment all, early;
};

static size_t level_px(const struct gpu_settings *s, int level)
{
    return (size_t)(s->camera.width_px >> level) * (s->camera.height_px >> level);
}

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
    setenv("POSED_CPU_ISA", twin->isa, 1);
    setenv("POSED_CUDA_PATH", twin->path, 1);
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

static bool alignment_same_bits(const struct gpu_alignment *a, const struct gpu_alignment *b)
{
    return memcmp(&a->T_reference_frame, &b->T_reference_frame, sizeof a->T_reference_frame) == 0 &&
           memcmp(a->h, b->h, sizeof a->h) == 0 && memcmp(a->g, b->g, sizeof a->g) == 0 &&
           memcmp(a->information, b->information, sizeof a->information) == 0 &&
           memcmp(&a->weight_sum, &b->weight_sum, sizeof a->weight_sum) == 0 &&
           memcmp(&a->residual_rms_m, &b->residual_rms_m, sizeof a->residual_rms_m) == 0 &&
           a->n_pairs == b->n_pairs && a->n_valid_px == b->n_valid_px &&
           memcmp(a->n_iterations, b->n_iterations, sizeof a->n_iterations) == 0 &&
           a->solvable == b->solvable && a->converged == b->converged;
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

static void check_same_bits(const struct input *in, const struct output *a, const struct output *b,
                            const char *what)
{
    for (int f = 0; f < 2; f++)
        for (int level = 0; level < GPU_LEVELS; level++)
            check_that(memcmp(a->maps[f][level], b->maps[f][level],
                              level_px(&in->settings, level) * 16) == 0,
                       "%s: other bits in the map of level %d", what, level);
    for (int level = 0; level < GPU_LEVELS; level++)
        check_that(alignment_same_bits(&a->one[level], &b->one[level]),
                   "%s: other bits in one iteration of level %d", what, level);
    check_that(alignment_same_bits(&a->all, &b->all), "%s: other bits in the pose", what);
    check_that(alignment_same_bits(&a->early, &b->early), "%s: other bits, early stop", what);
}

static void check_maps(const struct input *in, const struct output *out)
{
    const struct gpu_settings *s = &in->settings;
    size_t n_px = level_px(s, 0), n_bad_depth = 0, n_bad_normal = 0;
    const float *full = out->maps[1][0];
    for (size_t i = 0; i < n_px; i++) {
        double z = (double)full[4 * i + 3], expected = in->filtered[i].z_m;
        if (in->filtered[i].undecided)
            continue;
        n_bad_depth += (z > 0) != (expected > 0) || !(z >= 0);
        check_close(&limit_filter, z, expected, expected, "z");
    }
    check_that(n_bad_depth == 0, "%zu pixels with the wrong depth mask", n_bad_depth);

    struct reference_px *px = malloc(n_px * sizeof *px);
    float *z_m = malloc(n_px * sizeof *z_m);
    for (size_t i = 0; i < n_px; i++)
        z_m[i] = full[4 * i + 3];
    for (int level = 0; level < GPU_LEVELS; level++) {
        reference_maps(s, level, z_m, s->camera.width_px, px);
        for (size_t i = 0; i < level_px(s, level); i++) {
            const float *got = out->maps[1][level] + 4 * i;
            bool valid = got[0] != 0 || got[1] != 0 || got[2] != 0;
            check_that((double)got[3] == px[i].z_m, "level %d samples another depth", level);
            if (px[i].undecided)
                continue;
            n_bad_normal += valid != (px[i].n[2] != 0 || px[i].n[0] != 0 || px[i].n[1] != 0);
            for (int k = 0; k < 3; k++)
                check_close(&limit_normal, (double)got[k], px[i].n[k], 1, "n");
        }
    }
    check_that(n_bad_normal == 0, "%zu pixels with the wrong normal mask", n_bad_normal);
    free(z_m);
    free(px);
}

// The sums that an alignment shows, back in the order of enum icp_sum.
static void check_normal_matrix(const struct check_limit *sums_limit, const double h[36],
                                const struct reference_sums *sums, double range_m, const char *name)
{
    int k = ICP_SUM_H;
    for (int i = 0; i < 6; i++)
        for (int j = i; j < 6; j++, k++) {
            // Products of H share their roundings with the squares on the diagonal.
            double scale = sums->magnitude[k] +
                           1e-2 * range_m * (i < 3 ? 1 : range_m) * sums->magnitude[ICP_SUM_W];
            struct check_limit limit = *sums_limit;
            limit.absolute += sums->undecided[k];
            check_that(fabs(h[6 * i + j] - sums->value[k]) <=
                           limit.absolute + limit.relative * scale,
                       "%s[%d][%d] is %.9g, expected %.9g, limit %.3g", name, i, j, h[6 * i + j],
                       sums->value[k], limit.absolute + limit.relative * scale);
            if (sums->undecided[k] == 0)
                check_close(sums_limit, h[6 * i + j], sums->value[k], scale, name);
        }
}

static void check_sums(const struct gpu_alignment *got, const struct reference_sums *sums,
                       double range_m)
{
    static const char *const names[] = {"h", "g", "pairs", "valid", "sum w", "sum w r^2"};
    check_normal_matrix(&limit_sums, got->h, sums, range_m, names[0]);
    double rounding_m = 4 * 6e-8 * range_m; // of r
    for (int i = 0; i < 6; i++) {
        double scale = rounding_m * sums->magnitude[ICP_SUM_W] * (i < 3 ? 1 : range_m) +
                       4e-6 * sums->magnitude[ICP_SUM_G + i] + sums->undecided[ICP_SUM_G + i];
        check_close(&limit_gradient, got->g[i], sums->value[ICP_SUM_G + i], scale, names[1]);
    }
    check_close(&limit_gradient, got->n_pairs, sums->value[ICP_SUM_PAIRS],
                sums->undecided[ICP_SUM_PAIRS], names[2]);
    check_that(got->n_valid_px == (uint32_t)sums->value[ICP_SUM_VALID],
               "%u valid pixels, expected %.0f", got->n_valid_px, sums->value[ICP_SUM_VALID]);
    double w = sums->magnitude[ICP_SUM_W], wrr = sums->magnitude[ICP_SUM_WRR];
    check_close(&limit_gradient, got->weight_sum, sums->value[ICP_SUM_W],
                4e-6 * w + sums->undecided[ICP_SUM_W], names[4]);
    check_close(&limit_gradient, got->residual_rms_m * got->residual_rms_m * got->weight_sum,
                sums->value[ICP_SUM_WRR],
                8e-6 * wrr + 2 * rounding_m * sqrt(wrr * w) + rounding_m * rounding_m * w +
                    sums->undecided[ICP_SUM_WRR],
                names[5]);
}

static void check_pose(const struct check_limit *limit, const struct se3 *got,
                       const struct se3 *expected)
{
    struct se3 difference = se3_between(expected, got);
    double length_m = 0;
    for (int i = 0; i < 3; i++)
        length_m += difference.t_m[i] * difference.t_m[i];
    check_close(limit, sqrt(length_m), 0, 0, "translation");
    check_close(limit, se3_angle(&difference), 0, 0, "rotation");
}

static void check_alignment(const struct input *in, const struct output *out)
{
    const struct map_px *source[GPU_LEVELS], *target[GPU_LEVELS];
    const struct gpu_settings *s = &in->settings;
    double range_m = 0;
    for (int level = 0; level < GPU_LEVELS; level++) {
        source[level] = (const struct map_px *)out->maps[1][level];
        target[level] = (const struct map_px *)out->maps[0][level];
    }
    for (size_t i = 0; i < level_px(s, 0); i++)
        range_m = fmax(range_m, 1.5 * (double)source[0][i].z_m);
    for (int level = 0; level < GPU_LEVELS; level++) {
        struct reference_scale first = {0};
        struct reference_sums sums;
        reference_icp(s, &in->align, level, source[level], target[level], &in->T_start, &first,
                      &sums);
        check_sums(&out->one[level], &sums, range_m);
        if (!out->one[level].solvable)
            continue;
        struct reference_scale information = reference_scale_next(&sums);
        information.information = true;
        reference_icp(s, &in->align, GPU_LEVELS - 1, source[GPU_LEVELS - 1], target[GPU_LEVELS - 1],
                      &out->one[level].T_reference_frame, &information, &sums);
        check_normal_matrix(&limit_information, out->one[level].information, &sums, range_m,
                            "information");
    }

    struct gpu_alignment expected;
    struct reference_sums last;
    reference_align(s, &in->align, source, target, &in->T_start, &expected, &last);
    if (in->well_posed) {
        check_that(out->all.solvable && expected.solvable, "not solvable");
        check_pose(&limit_pose, &out->all.T_reference_frame, &expected.T_reference_frame);
        check_close(&limit_step, out->all.step_norm, expected.step_norm, 1, "step");
        check_pose(&limit_motion, &out->all.T_reference_frame, &in->T_true);
        check_pose(&limit_motion, &out->early.T_reference_frame, &in->T_true);
    }
    const struct gpu_alignment *all[] = {&out->all, &out->early};
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 9; k++)
            check_that(isfinite(all[i]->T_reference_frame.r[k]), "rotation is not finite");
        for (int k = 0; k < 3; k++)
            check_that(isfinite(all[i]->T_reference_frame.t_m[k]), "translation is not finite");
        if (!all[i]->solvable)
            check_that(memcmp(&all[i]->T_reference_frame, &in->T_start, sizeof in->T_start) == 0,
                       "not solvable, and not the initial pose");
    }
    check_that(out->one[0].solvable || out->one[0].n_pairs < 100000, "not solvable with %u pairs",
               out->one[0].n_pairs);
    for (int level = 0; level < GPU_LEVELS && out->all.solvable; level++)
        check_that(out->all.n_iterations[level] == in->align.iterations[level],
                   "level %d ran %u iterations", level, out->all.n_iterations[level]);
}

// Maps of two twins: the same bits, or nearly where one has no FMA.
static void check_twins(const struct input *in, const struct output *a, const struct output *b,
                        bool exact, const char *names)
{
    for (int f = 0; f < 2; f++)
        for (int level = 0; level < GPU_LEVELS; level++) {
            const float *x = a->maps[f][level], *y = b->maps[f][level];
            size_t n = 4 * level_px(&in->settings, level), n_other = 0, first = 0;
            // As numbers: where a sum is exactly 0, a compiler that folds a negation into a fused
            // operation gives it another sign.
            for (size_t i = n; i-- > 0;)
                if (!(x[i] == y[i])) {
                    n_other++;
                    first = i;
                }
            if (exact)
                check_that(n_other == 0,
                           "%s: %zu of %zu values of level %d differ, first number %zu: %.9g, %.9g",
                           names, n_other, n, level, first, (double)x[first], (double)y[first]);
            for (size_t i = 0; !exact && i < n; i += 4)
                if ((x[i + 2] != 0) == (y[i + 2] != 0))
                    check_close(&limit_baseline, (double)x[i + 3], (double)y[i + 3],
                                (double)y[i + 3], "z");
        }
    if (in->well_posed && exact)
        check_pose(&limit_twins, &a->all.T_reference_frame, &b->all.T_reference_frame);
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
            check_same_bits(in, &again, &outputs[t], "second run");
            output_destroy(&again);
        }
        gpu_close(&gpu);
        if (!ran[t])
            continue;
        check_maps(in, &outputs[t]);
        check_alignment(in, &outputs[t]);
        static const uint32_t n_threads[] = {2, 3, 7};
        for (size_t i = 0; i < 3 && twins[t].backend == GPU_BACKEND_CPU; i++)
            if (twin_open(&twins[t], &in->settings, n_threads[i], &gpu) == 0) {
                char what[32];
                snprintf(what, sizeof what, "%u threads", n_threads[i]);
                if (twin_run(gpu, in, &again)) {
                    check_same_bits(in, &again, &outputs[t], what);
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
                check_twins(in, &outputs[a], &outputs[b], twins[a].exact && twins[b].exact, names);
            }
    for (size_t t = 0; t < N_TWINS; t++)
        if (ran[t])
            output_destroy(&outputs[t]);
    free(in->filtered);
}

// A room of 4 x 3 x 5 m with a ball in it, seen from near its middle.
static double room_z_m(const struct se3 *T_room_camera, const double ray[3])
{
    static const double wall_m[3] = {2.0, 1.5, 2.5}, ball_m[3] = {0.4, 0.3, 1.2}, radius_m = 0.5;
    double d[3], o[3], nearest = INFINITY;
    for (int i = 0; i < 3; i++) {
        o[i] = T_room_camera->t_m[i];
        d[i] = T_room_camera->r[3 * i] * ray[0] + T_room_camera->r[3 * i + 1] * ray[1] +
               T_room_camera->r[3 * i + 2] * ray[2];
        nearest = fmin(nearest, ((d[i] > 0 ? wall_m[i] : -wall_m[i]) - o[i]) / d[i]);
    }
    double b = 0, c = -radius_m * radius_m, a = 0;
    for (int i = 0; i < 3; i++) {
        a += d[i] * d[i];
        b += d[i] * (o[i] - ball_m[i]);
        c += (o[i] - ball_m[i]) * (o[i] - ball_m[i]);
    }
    double root = b * b - a * c;
    if (root > 0 && (-b - sqrt(root)) / a > 0)
        nearest = fmin(nearest, (-b - sqrt(root)) / a);
    return nearest; // rays have z = 1
}

enum fill {
    FILL_ROOM,
    FILL_ROOM_NOISE,
    FILL_RANDOM,
    FILL_INVALID,
    FILL_ONE_PIXEL,
    FILL_STEP,
    FILL_GRAZING,
    FILL_MARKS,
    N_FILLS
};
static const char *const fill_names[] = {"room",      "noisy room", "random",        "all invalid",
                                         "one pixel", "step edge",  "grazing plane", "0 and 65535"};

static uint16_t fill_px(enum fill fill, const struct input *in, const struct se3 *T_room_camera,
                        int u, int v)
{
    const struct intrinsics *c = &in->settings.camera;
    double scale = in->settings.units_per_m;
    double ray[3] = {(u - c->cx_px) / c->fx_px, (v - c->cy_px) / c->fy_px, 1};
    double z_m = 0;
    switch (fill) {
    case FILL_ROOM:
        z_m = room_z_m(T_room_camera, ray);
        break;
    case FILL_ROOM_NOISE:
        z_m = room_z_m(T_room_camera, ray);
        z_m += check_gaussian() * (0.0012 + 0.0019 * (z_m - 0.4) * (z_m - 0.4));
        z_m = check_random() % 50 == 0 ? 0 : z_m;
        break;
    case FILL_RANDOM:
        return (uint16_t)check_random();
    case FILL_ONE_PIXEL:
        z_m = u == (int)c->width_px / 2 && v == (int)c->height_px / 2 ? 1.5 : 0;
        break;
    case FILL_STEP:
        z_m = u < (int)c->width_px / 2 ? 1.0 : 1.2;
        break;
    case FILL_GRAZING: // a floor 0.6 m below the camera, up to the horizon
        z_m = ray[1] > 0.02 ? 0.6 / ray[1] : 0;
        break;
    case FILL_MARKS:
        z_m = 2.0;
        if (check_random() % 5 == 0)
            return check_random() % 2 ? 65535 : 0;
        break;
    default:
        break;
    }
    double raw = nearbyint(z_m * scale);
    return raw > 0 && raw < 65535 ? (uint16_t)raw : 0;
}

static void input_create(struct input *in, uint32_t width_px, uint32_t height_px, enum fill fill)
{
    memset(in, 0, sizeof *in);
    gpu_settings_default(&in->settings);
    gpu_align_settings_default(&in->align);
    in->align.early_stop = false;
    in->settings.camera =
        (struct intrinsics){0.82 * width_px,       0.82 * width_px, 0.5 * width_px - 0.5,
                            0.5 * height_px - 0.5, width_px,        height_px};
    in->settings.units_per_m = 5000;
    in->well_posed = (fill == FILL_ROOM || fill == FILL_ROOM_NOISE) && width_px >= 640;
    double twist[6] = {0.008, -0.005, 0.01, 0.004, -0.006, 0.003};
    in->T_true = se3_exp(twist);
    // The identity is a start of its own: pixels without depth land on the camera's centre.
    for (int i = 0; i < 6; i++)
        twist[i] *= fill == FILL_ROOM_NOISE || fill == FILL_MARKS ? 0 : 0.5;
    in->T_start = se3_exp(twist);
}

static void input_fill(struct input *in, enum fill fill)
{
    const double look[6] = {0.1, 0.05, -0.4, 0.15, -0.3, 0.05};
    struct se3 T_room_camera[2];
    T_room_camera[0] = se3_exp(look);
    T_room_camera[1] = se3_compose(&T_room_camera[0], &in->T_true);
    int w = (int)in->settings.camera.width_px, h = (int)in->settings.camera.height_px;
    for (int f = 0; f < 2; f++) {
        in->depth[f] = check_alloc((size_t)w * (size_t)h * sizeof *in->depth[f]);
        for (int v = 0; v < h; v++)
            for (int u = 0; u < w; u++)
                in->depth[f][v * w + u] = fill_px(fill, in, &T_room_camera[f], u, v);
    }
}

static void input_destroy(struct input *in)
{
    check_free(in->depth[0]);
    check_free(in->depth[1]);
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
    static const char *const names[] = {
        "no filter",   "filter 3x3",  "filter 13x13", "fy negative",    "off centre",
        "millimetres", "tight gates", "narrow range", "two iterations", "wide iterations"};
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

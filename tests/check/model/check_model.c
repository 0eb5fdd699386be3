// SPDX-License-Identifier: Apache-2.0
// The fused model of each twin: every voxel after every frame against the dense double-precision
// reference, views against rays through the model's own blocks and against the true surfaces, and
// the same bits run after run, whatever the number of threads.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/model/surface_nets.h"
#include "proto/se3.h"
#include "tests/check/check.h"
#include "tests/check/model/reference.h"
#include "tests/check/model/room.h"

static const struct check_limit limit_distance = {
    "voxel distance", 3 * MODEL_UNIT_M, 2e-4,
    "half a stored unit, single precision at metres, weights in 1/256 of one"};
static const struct check_limit limit_weight = {"voxel weight", 1.01, 1e-3,
                                                "rounded to 1/256, at least one"};
// Of a view's pixels nearly all lie on the ray's own crossing and on the true surface; the others
// are at creases and edges, which a lattice rounds and half the resolution bridges.
#define RAY_VOXELS 0.05 // three secants are so near
#define TRUTH_M    0.0005
#define ELSEWHERE  0.02 // share of pixels that may be off
#define MISSING    0.05

static const struct check_limit limit_twins = {
    "twin against twin", 1e-5, 0.0, "the same formulas; another rounding where one has no FMA, m"};

struct output {
    struct model_block *blocks;
    uint32_t n_blocks;
    float *view[GPU_LEVELS];
};

static size_t level_px(const struct room_input *in, int level)
{
    return (size_t)(in->settings.camera.width_px >> level) *
           (in->settings.camera.height_px >> level);
}

// One block after one frame: all of it updated, or nothing of it.
static void expect_block(const struct reference_frame *frame, double voxel_m,
                         const struct model_block *before, const struct model_block *after)
{
    bool same = before && memcmp(before, after, sizeof *before) == 0;
    for (int i = 0; i < MODEL_BLOCK_VOXELS && !same; i++) {
        double p[3] = {(8 * after->x + i % 8) * voxel_m, (8 * after->y + i / 8 % 8) * voxel_m,
                       (8 * after->z + i / 64) * voxel_m};
        double distance_m, weight;
        if (!reference_measure(frame, voxel_m, p, &distance_m, &weight))
            continue;
        double old_weight = before ? before->weight[i] : 0;
        double old_m = before ? before->distance[i] * MODEL_UNIT_M : 0;
        double added = weight > 0 ? fmax(1, weight * 256) : 0;
        double expected_m =
            added > 0 ? (old_m * old_weight + distance_m * added) / (old_weight + added) : old_m;
        check_close(&limit_weight, after->weight[i], fmin(old_weight + added, 32768), old_weight,
                    "weight");
        // One unit of weight more or less, of few, moves the mean.
        double slack = added > 0 ? 1 / (old_weight + added) : 0;
        check_close(&limit_distance, after->distance[i] * MODEL_UNIT_M, expected_m,
                    fabs(distance_m) + 1 + 5e3 * slack * fabs(distance_m - old_m), "distance");
    }
}

// Every measured surface point lies in a block that the frame has touched.
static void expect_covered(const struct reference_frame *frame, double voxel_m,
                           const struct output *before, const struct output *after)
{
    const struct intrinsics *c = &frame->camera;
    unsigned n_missing = 0, n_untouched = 0;
    for (uint32_t v = 0; v < c->height_px; v += 2)
        for (uint32_t u = 0; u < c->width_px; u += 2) {
            const float *px = frame->map + 4 * ((size_t)v * c->width_px + u);
            const double ray[3] = {(u - c->cx_px) / c->fx_px, (v - c->cy_px) / c->fy_px, 1};
            double length2 = ray[0] * ray[0] + ray[1] * ray[1] + 1;
            double slant = px[0] * ray[0] + px[1] * ray[1] + (double)px[2];
            if (!(px[3] > 0) || slant * slant / length2 < 0.05)
                continue;
            const double q[3] = {ray[0] * px[3], ray[1] * px[3], px[3]};
            double p[3];
            se3_apply(&frame->T_map_camera, q, p);
            int64_t at[3];
            bool sure = true;
            for (int i = 0; i < 3; i++) {
                double block = p[i] / (8 * voxel_m);
                at[i] = (int64_t)floor(block);
                sure = sure && fabs(block - rint(block)) > 0.05;
            }
            if (!sure)
                continue;
            const struct model_block *now =
                reference_block(after->blocks, after->n_blocks, at[0], at[1], at[2]);
            const struct model_block *was =
                reference_block(before->blocks, before->n_blocks, at[0], at[1], at[2]);
            n_missing += !now;
            n_untouched += now && was && memcmp(now, was, sizeof *now) == 0;
        }
    check_that(n_missing == 0 && n_untouched == 0, "%u surface points lack a block, %u untouched",
               n_missing, n_untouched);
}

static void expect_fused(const struct room_input *in, const float *map, int i,
                         const struct output *before, const struct output *after)
{
    const struct reference_frame frame = {in->settings.camera, map, in->T_map_camera[i]};
    double voxel_m = (double)in->model.voxel_m;
    for (uint32_t b = 0; b < after->n_blocks; b++) {
        const struct model_block *block = &after->blocks[b];
        expect_block(
            &frame, voxel_m,
            reference_block(before->blocks, before->n_blocks, block->x, block->y, block->z), block);
    }
    expect_covered(&frame, voxel_m, before, after);
}

static void expect_view(const struct room_input *in, const struct output *out, enum room_fill fill)
{
    const struct intrinsics *c = &in->settings.camera;
    const struct se3 *T = &in->T_map_camera[ROOM_FRAMES - 1];
    double voxel_m = (double)in->model.voxel_m;
    unsigned n_seen = 0, n_missed = 0, n_off_ray = 0, n_off_truth = 0, n_normals = 0;
    for (uint32_t v = 1; v < c->height_px - 1; v += 3)
        for (uint32_t u = 1; u < c->width_px - 1; u += 3) {
            const float *px = out->view[0] + 4 * ((size_t)v * c->width_px + u);
            double expected =
                reference_ray(out->blocks, out->n_blocks, voxel_m, c, T, u, v, 0.3, 8.0);
            if (expected == 0)
                continue;
            double off_ray = fabs((double)px[3] - expected) / voxel_m;
            double off_truth = fabs((double)px[3] - room_z(in, T, u, v));
            n_seen++;
            n_missed += !(px[3] > 0);
            n_off_ray += px[3] > 0 && !(off_ray <= RAY_VOXELS);
            n_off_truth += px[3] > 0 && !(off_truth <= TRUTH_M);
            n_normals += px[0] != 0 || px[1] != 0 || px[2] != 0;
        }
    // Fewer pixels lie farther apart than voxels, and the filter spans what the room rounds.
    if (fill != ROOM_FILL_ROOM || c->width_px < 160)
        return;
    bool to_truth = c->width_px >= 640;
    printf("view %ux%u: %u pixels, missing %.2f %%, off the ray %.2f %%, off the surface %.2f %%\n",
           c->width_px, c->height_px, n_seen, 1e2 * n_missed / n_seen, 1e2 * n_off_ray / n_seen,
           1e2 * n_off_truth / n_seen);
    check_that(n_seen > 100 && n_missed <= MISSING * n_seen && n_off_ray <= ELSEWHERE * n_seen &&
                   (!to_truth || n_off_truth <= ELSEWHERE * n_seen) && n_normals >= 0.85 * n_seen,
               "of %u pixels %u are missing, %u off the ray, %u off the surface, %u have normals",
               n_seen, n_missed, n_off_ray, n_off_truth, n_normals);
}

// The exported surface: on the room, its normals the room's, its triangles turned as they are.
static void expect_surface(const struct room_input *in, const struct output *out,
                           enum room_fill fill)
{
    struct model_surface s;
    size_t n_off = 0, n_turned = 0, n_flipped = 0;
    if (!check_that(model_surface_create(out->blocks, out->n_blocks, in->model.voxel_m, 1, &s) == 0,
                    "a surface"))
        return;
    for (size_t i = 0; i < s.n_points; i++) {
        const double p[3] = {s.x_m[i], s.y_m[i], s.z_m[i]};
        double n[3] = {0, 0, 0};
        n_off += !(fabs(room_distance(in, p, n)) <= 0.002);
        n_turned +=
            !(n[0] * (double)s.nx[i] + n[1] * (double)s.ny[i] + n[2] * (double)s.nz[i] >= 0.985);
    }
    for (size_t t = 0; t < s.n_triangles; t++) {
        const uint32_t *v = s.triangles + 3 * t;
        double a[3], b[3];
        const float *const axes[3] = {s.x_m, s.y_m, s.z_m};
        for (int i = 0; i < 3; i++) {
            a[i] = (double)axes[i][v[1]] - (double)axes[i][v[0]];
            b[i] = (double)axes[i][v[2]] - (double)axes[i][v[0]];
        }
        double facing = (a[1] * b[2] - a[2] * b[1]) * (double)s.nx[v[0]] +
                        (a[2] * b[0] - a[0] * b[2]) * (double)s.ny[v[0]] +
                        (a[0] * b[1] - a[1] * b[0]) * (double)s.nz[v[0]];
        n_flipped += !(facing >= 0);
    }
    if (fill == ROOM_FILL_ROOM && in->settings.camera.width_px >= 640) {
        printf("surface: %zu points, %.2f %% off by 2 mm, %.2f %% turned by 10 degrees, %zu "
               "triangles, %.2f %% flipped\n",
               s.n_points, 1e2 * (double)n_off / (double)s.n_points,
               1e2 * (double)n_turned / (double)s.n_points, s.n_triangles,
               1e2 * (double)n_flipped / (double)s.n_triangles);
        check_that(s.n_points > 50000 && s.n_triangles > s.n_points &&
                       (double)n_off <= 0.02 * (double)s.n_points &&
                       (double)n_turned <= 0.03 * (double)s.n_points &&
                       (double)n_flipped <= 0.002 * (double)s.n_triangles,
                   "%zu of %zu points off, %zu turned, %zu of %zu triangles flipped", n_off,
                   s.n_points, n_turned, n_flipped, s.n_triangles);
    }
    model_surface_free(&s);
}

// In order, as both twins have them alike.
static int read_blocks(struct model *model, struct model_block **out, uint32_t *out_n_blocks)
{
    int rc = model_read(model, NULL, 0, out_n_blocks);
    *out = NULL;
    if (rc != -ENOBUFS) // also of an empty one
        return rc;
    *out = malloc(*out_n_blocks * sizeof **out);
    if (!*out)
        return -ENOMEM;
    rc = model_read(model, *out, *out_n_blocks, out_n_blocks);
    if (rc == 0)
        model_order(*out, *out_n_blocks);
    return rc;
}

static bool twin_run(const struct room_input *in, enum gpu_backend backend, uint32_t n_threads,
                     bool compare, struct output *out)
{
    struct gpu_settings settings = in->settings;
    struct gpu *gpu = NULL;
    struct gpu_frame *frame = NULL, *view = NULL;
    struct model *model = NULL;
    struct output before = {NULL, 0, {NULL}};
    settings.n_threads = n_threads;
    memset(out, 0, sizeof *out);
    if (gpu_open(&gpu, backend, &settings) != 0)
        return false;
    float *map = check_alloc(level_px(in, 0) * 4 * sizeof *map);
    bool ok = gpu_frame_create(gpu, &frame) == 0 && gpu_frame_create(gpu, &view) == 0 &&
              model_create(&model, gpu, &in->model) == 0;
    for (int i = 0; i < ROOM_FRAMES && ok; i++) {
        ok = gpu_prepare(gpu, in->depth[i], frame) == 0 &&
             model_integrate(model, frame, &in->T_map_camera[i]) == 0;
        if (ok && (compare || i == ROOM_FRAMES - 1)) {
            free(out->blocks);
            ok = gpu_frame_read(gpu, frame, 0, map) == 0 &&
                 read_blocks(model, &out->blocks, &out->n_blocks) == 0;
        }
        if (ok && compare) {
            expect_fused(in, map, i, &before, out);
            free(before.blocks);
            before = *out;
            out->blocks = NULL;
        }
    }
    if (compare)
        *out = before;
    ok = ok && model_view(model, &in->T_map_camera[ROOM_FRAMES - 1], view) == 0;
    for (int level = 0; level < GPU_LEVELS && ok; level++) {
        out->view[level] = check_alloc(level_px(in, level) * 4 * sizeof *out->view[level]);
        ok = gpu_frame_read(gpu, view, (uint32_t)level, out->view[level]) == 0;
    }
    check_that(ok, "the twin does all of it");
    check_free(map);
    model_destroy(&model);
    gpu_frame_destroy(gpu, &frame);
    gpu_frame_destroy(gpu, &view);
    gpu_close(&gpu);
    return ok;
}

static void output_free(struct output *out)
{
    free(out->blocks);
    for (int level = 0; level < GPU_LEVELS; level++)
        if (out->view[level])
            check_free(out->view[level]);
}

static void expect_same_bits(const struct room_input *in, const struct output *a,
                             const struct output *b, const char *what)
{
    check_that(a->n_blocks == b->n_blocks &&
                   (a->n_blocks == 0 ||
                    memcmp(a->blocks, b->blocks, a->n_blocks * sizeof *a->blocks) == 0),
               "%s: the same blocks", what);
    for (int level = 0; level < GPU_LEVELS; level++)
        check_that(memcmp(a->view[level], b->view[level], level_px(in, level) * 16) == 0,
                   "%s: the same view, level %d", what, level);
}

// Twins round alike where both fuse multiply and add; then all bits are equal.
static void expect_twins(const struct room_input *in, const struct output *cpu,
                         const struct output *cuda, bool exact)
{
    if (exact) {
        expect_same_bits(in, cpu, cuda, "cpu and cuda");
        return;
    }
    unsigned n_other = 0;
    for (size_t i = 0; i < level_px(in, 0); i++) {
        float a = cpu->view[0][4 * i + 3], b = cuda->view[0][4 * i + 3];
        if ((a > 0) != (b > 0) || fabs((double)a - (double)b) > 0.001)
            n_other++;
        else
            check_close(&limit_twins, a, b, 1, "depth");
    }
    check_that(n_other <= level_px(in, 0) / 200, "%u pixels differ between the twins", n_other);
}

// Whether the CPU twin fuses multiply and add as the device does (kernel_fma).
static bool cpu_fuses(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

static void check_fill(uint32_t width_px, uint32_t height_px, enum room_fill fill)
{
    struct room_input in;
    struct output cpu, again, cuda;
    check_case("%ux%u %s", width_px, height_px, room_fill_name(fill));
    room_create(&in, width_px, height_px, 2, fill);
    if (check_wanted("cpu", level_px(&in, 0)) && twin_run(&in, GPU_BACKEND_CPU, 1, true, &cpu)) {
        expect_view(&in, &cpu, fill);
        expect_surface(&in, &cpu, fill);
        if (twin_run(&in, GPU_BACKEND_CPU, 3, false, &again))
            expect_same_bits(&in, &cpu, &again, "one thread and three");
        output_free(&again);
        if (check_wanted("cuda", level_px(&in, 0))) {
            if (twin_run(&in, GPU_BACKEND_CUDA, 0, true, &cuda)) {
                expect_view(&in, &cuda, fill);
                expect_twins(&in, &cpu, &cuda, cpu_fuses());
                if (twin_run(&in, GPU_BACKEND_CUDA, 0, false, &again))
                    expect_same_bits(&in, &cuda, &again, "cuda twice");
                output_free(&again);
            } else {
                check_skip("no CUDA device answers");
            }
            output_free(&cuda);
        }
        output_free(&cpu);
    }
    room_destroy(&in);
}

static uint32_t blocks_of(struct gpu *gpu, const struct room_input *in,
                          const struct gpu_frame *frame)
{
    struct model *model;
    struct model_stats stats = {0};
    if (model_create(&model, gpu, &in->model) == 0)
        (void)!(model_integrate(model, frame, &in->T_map_camera[0]) == 0 &&
                model_stats_get(model, &stats) == 0);
    model_destroy(&model);
    return stats.n_blocks;
}

static void check_written(struct model *model)
{
    struct model_stats stats;
    struct model_block *blocks, *after;
    uint32_t n_blocks, n_after;
    if (!check_that(read_blocks(model, &blocks, &n_blocks) == 0, "read"))
        return;
    if (check_that(model_write(model, blocks, n_blocks) == 0 &&
                       read_blocks(model, &after, &n_after) == 0,
                   "written and read")) {
        check_that(n_after == n_blocks && memcmp(after, blocks, n_blocks * sizeof *blocks) == 0,
                   "what is written is read back");
        free(after);
    }
    check_that(model_stats_get(model, &stats) == 0 &&
                   model_write(model, blocks, stats.max_blocks + 1) == -ENOSPC,
               "too many blocks");
    blocks[1] = blocks[0];
    check_that(model_write(model, blocks, n_blocks) == -EINVAL, "a place twice");
    check_that(model_stats_get(model, &stats) == 0 && stats.n_blocks == 0, "then it is empty");
    blocks[1].x = 1 << 21;
    check_that(model_write(model, blocks, 2) == -EINVAL, "a place beyond all numbers");
    free(blocks);
}

// A memory that holds the first frame and little more: another frame's new places are refused, all
// of them, and what is there is refined.
static void check_full(enum gpu_backend backend, const char *name)
{
    struct room_input in;
    struct gpu *gpu;
    struct gpu_frame *frame;
    struct model *model;
    struct model_stats one, stats;
    check_case("%s, a full memory", name);
    if (!check_wanted(name, 0))
        return;
    room_create(&in, 96, 64, 2, ROOM_FILL_ROOM);
    if (gpu_open(&gpu, backend, &in.settings) != 0) {
        check_skip("no CUDA device answers");
        room_destroy(&in);
        return;
    }
    bool ok = gpu_frame_create(gpu, &frame) == 0 && gpu_prepare(gpu, in.depth[0], frame) == 0;
    uint32_t n_first = ok ? blocks_of(gpu, &in, frame) : 0;
    check_that(n_first > 300, "%u blocks of the first frame", n_first);
    in.model.memory_bytes = (uint64_t)(n_first + 3) * 2200;
    in.model.far_bytes = 0;
    const double turn[6] = {0, 0, 0, 0, 0.3, 0};
    const struct se3 T_turned = se3_exp(turn);
    ok = ok && model_create(&model, gpu, &in.model) == 0 &&
         model_integrate(model, frame, &in.T_map_camera[0]) == 0 &&
         model_stats_get(model, &one) == 0 && model_integrate(model, frame, &T_turned) == 0 &&
         model_stats_get(model, &stats) == 0;
    if (check_that(ok, "frames are taken in")) {
        check_that(one.n_blocks == n_first && one.n_refused == 0, "the first frame fits");
        check_that(stats.n_blocks == n_first && stats.n_refused > 0 && stats.n_touched > 0,
                   "the second does not: %u blocks, %u refused, %u touched", stats.n_blocks,
                   stats.n_refused, stats.n_touched);
        check_that(model_integrate(model, frame, &in.T_map_camera[0]) == 0 &&
                       model_stats_get(model, &stats) == 0 && stats.n_touched == n_first &&
                       stats.n_refused == 0,
                   "known places go on: %u of %u", stats.n_touched, n_first);
        check_written(model);
    }
    model_destroy(&model);
    in.model.voxel_m = NAN;
    check_that(model_create(&model, gpu, &in.model) == -EINVAL && !model, "a voxel of NaN");
    gpu_frame_destroy(gpu, &frame);
    gpu_close(&gpu);
    room_destroy(&in);
}

struct bench {
    struct gpu *gpu;
    struct gpu_frame *frame, *view;
    struct model *model;
    const struct room_input *in;
    struct model_stats stats;
};

static void bench_integrate(void *context)
{
    struct bench *b = context;
    (void)!model_integrate(b->model, b->frame, &b->in->T_map_camera[0]);
    (void)!model_stats_get(b->model, &b->stats); // waits
}

static void bench_view(void *context)
{
    struct bench *b = context;
    (void)!model_view(b->model, &b->in->T_map_camera[1], b->view);
    (void)!model_stats_get(b->model, &b->stats);
}

static void bench(enum gpu_backend backend, const char *name)
{
    static const float voxels_m[] = {0.005f, 0.008f};
    struct room_input in;
    struct bench b = {.in = &in};
    char text[80];
    room_create(&in, 640, 480, 2, ROOM_FILL_ROOM);
    for (int i = 0; i < 2; i++) {
        in.model.voxel_m = voxels_m[i];
        if (gpu_open(&b.gpu, backend, &in.settings) != 0)
            break;
        if (gpu_frame_create(b.gpu, &b.frame) == 0 && gpu_frame_create(b.gpu, &b.view) == 0 &&
            model_create(&b.model, b.gpu, &in.model) == 0 &&
            gpu_prepare(b.gpu, in.depth[0], b.frame) == 0) {
            snprintf(text, sizeof text, "%s %.0f mm integrate", name, 1e3 * (double)voxels_m[i]);
            check_time(text, 100, bench_integrate, &b);
            snprintf(text, sizeof text, "%s %.0f mm view", name, 1e3 * (double)voxels_m[i]);
            check_time(text, 100, bench_view, &b);
            printf("  %u blocks, %u touched\n", b.stats.n_blocks, b.stats.n_touched);
        }
        model_destroy(&b.model);
        gpu_frame_destroy(b.gpu, &b.frame);
        gpu_frame_destroy(b.gpu, &b.view);
        gpu_close(&b.gpu);
    }
    room_destroy(&in);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    if (check_bench_wanted()) {
        if (check_wanted("cpu", 0))
            bench(GPU_BACKEND_CPU, "cpu");
        if (check_wanted("cuda", 0))
            bench(GPU_BACKEND_CUDA, "cuda");
        return 0;
    }
    for (enum room_fill fill = 0; fill < ROOM_N_FILLS; fill++) {
        check_fill(33, 64, fill);
        check_fill(160, 121, fill);
    }
    if (!check_is_short())
        check_fill(640, 480, ROOM_FILL_ROOM);
    check_full(GPU_BACKEND_CPU, "cpu");
    check_full(GPU_BACKEND_CUDA, "cuda");
    return check_end();
}

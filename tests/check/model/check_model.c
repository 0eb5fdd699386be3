// SPDX-License-Identifier: Apache-2.0
// The fused model of each twin: every voxel after every frame against the dense double-precision
// reference, views against rays through the model's own blocks and against the true surfaces, and
// the same bits run after run, whatever the number of threads.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/model/recover.h"
#include "gpu/model/surface.h"
#include "proto/se3.h"
#include "tests/check/check.h"
#include "tests/check/model/reference.h"

#define N_FRAMES 4

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

enum fill { FILL_ROOM, FILL_RANDOM, FILL_INVALID, FILL_ONE_PIXEL, N_FILLS };
static const char *const fill_names[N_FILLS] = {"room", "random", "invalid", "one pixel"};

struct input {
    struct gpu_settings settings;
    struct model_settings model;
    uint16_t *depth[N_FRAMES];
    struct se3 T_map_camera[N_FRAMES];
};

struct output {
    struct model_block *blocks;
    uint32_t n_blocks;
    float *view[GPU_LEVELS];
};

static const double sphere_m[3] = {0.2, -0.1, 1.6};
#define N_PLANES 3
static int n_planes = 2; // in the room: with three every direction is held
static const double planes[N_PLANES][4] = {
    {0.3, 0.1, -0.94868330, 2.3}, {0, -1, 0, 0.9}, {1, 0, 0, 0.9}}; // n.p + d = 0

// Depth of the room's nearest surface: two walls, a floor, a ball of radius 0.5.
static double room_z(const struct intrinsics *camera, const struct se3 *T, double u, double v)
{
    const double ray[3] = {(u - camera->cx_px) / camera->fx_px, (v - camera->cy_px) / camera->fy_px,
                           1};
    double d[3], best = INFINITY, b = 0, c = -0.25, a = 0;
    for (int i = 0; i < 3; i++)
        d[i] = T->r[3 * i] * ray[0] + T->r[3 * i + 1] * ray[1] + T->r[3 * i + 2] * ray[2];
    for (int k = 0; k < n_planes; k++) {
        const double *n = planes[k];
        double slope = n[0] * d[0] + n[1] * d[1] + n[2] * d[2];
        double at = n[0] * T->t_m[0] + n[1] * T->t_m[1] + n[2] * T->t_m[2] + n[3];
        if (slope < -1e-9 && -at / slope < best)
            best = -at / slope;
    }
    for (int i = 0; i < 3; i++) {
        double to = T->t_m[i] - sphere_m[i];
        a += d[i] * d[i];
        b += d[i] * to;
        c += to * to;
    }
    double root = b * b - a * c;
    if (root > 0 && (-b - sqrt(root)) / a > 0 && (-b - sqrt(root)) / a < best)
        best = (-b - sqrt(root)) / a;
    return best;
}

static void input_create(struct input *in, uint32_t width_px, uint32_t height_px, enum fill fill)
{
    memset(in, 0, sizeof *in);
    gpu_settings_default(&in->settings);
    double f_px = 0.85 * width_px;
    in->settings.camera = (struct intrinsics){f_px,
                                              fill == FILL_RANDOM ? -f_px : f_px,
                                              0.5 * width_px - 0.3,
                                              0.5 * height_px + 0.2,
                                              width_px,
                                              height_px};
    in->settings.units_per_m = 5000;
    in->settings.log = check_log();
    model_settings_default(&in->model);
    in->model.memory_bytes = (uint64_t)64 << 20;
    for (int i = 0; i < N_FRAMES; i++) {
        const double twist[6] = {0.03 * i, -0.01 * i, 0.02 * i, 0.02 * i, -0.03 * i, 0.01 * i};
        in->T_map_camera[i] = se3_exp(twist);
        in->depth[i] = calloc((size_t)width_px * height_px, sizeof *in->depth[i]);
        for (uint32_t y = 0; y < height_px; y++)
            for (uint32_t x = 0; x < width_px; x++) {
                uint16_t *px = &in->depth[i][y * width_px + x];
                double z = room_z(&in->settings.camera, &in->T_map_camera[i], x, y);
                if (fill == FILL_ROOM && z < 8)
                    *px = (uint16_t)lrint(5000 * z);
                else if (fill == FILL_RANDOM)
                    *px = (uint16_t)check_random();
            }
        if (fill == FILL_ONE_PIXEL)
            in->depth[i][height_px / 2 * width_px + width_px / 2] = 5000;
    }
}

static void input_destroy(struct input *in)
{
    for (int i = 0; i < N_FRAMES; i++)
        free(in->depth[i]);
}

static size_t level_px(const struct input *in, int level)
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

static void expect_fused(const struct input *in, const float *map, int i,
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

static void expect_view(const struct input *in, const struct output *out, enum fill fill)
{
    const struct intrinsics *c = &in->settings.camera;
    const struct se3 *T = &in->T_map_camera[N_FRAMES - 1];
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
            double off_truth = fabs((double)px[3] - room_z(c, T, u, v));
            n_seen++;
            n_missed += !(px[3] > 0);
            n_off_ray += px[3] > 0 && !(off_ray <= RAY_VOXELS);
            n_off_truth += px[3] > 0 && !(off_truth <= TRUTH_M);
            n_normals += px[0] != 0 || px[1] != 0 || px[2] != 0;
        }
    // Fewer pixels lie farther apart than voxels, and the filter spans what the room rounds.
    if (fill != FILL_ROOM || c->width_px < 160)
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

// Signed distance of a map point to the room, positive where the camera is, and its direction.
static double room_distance(const double p[3], double out_n[3])
{
    double best = INFINITY;
    for (int k = 0; k <= n_planes; k++) {
        double n[3] = {0, 0, 0}, distance_m = 0;
        if (k < n_planes) {
            memcpy(n, planes[k], sizeof n);
            distance_m = n[0] * p[0] + n[1] * p[1] + n[2] * p[2] + planes[k][3];
        } else {
            for (int i = 0; i < 3; i++)
                distance_m += pow(n[i] = p[i] - sphere_m[i], 2);
            double length = sqrt(distance_m);
            for (int i = 0; i < 3; i++)
                n[i] /= length;
            distance_m = length - 0.5;
        }
        if (fabs(distance_m) < fabs(best)) {
            best = distance_m;
            memcpy(out_n, n, sizeof n);
        }
    }
    return best;
}

// The exported surface: on the room, its normals the room's, its triangles turned as they are.
static void expect_surface(const struct input *in, const struct output *out, enum fill fill)
{
    struct model_surface s;
    size_t n_off = 0, n_turned = 0, n_flipped = 0;
    if (!check_that(model_surface_create(out->blocks, out->n_blocks, in->model.voxel_m, 1, &s) == 0,
                    "a surface"))
        return;
    for (size_t i = 0; i < s.n_points; i++) {
        const double p[3] = {s.x_m[i], s.y_m[i], s.z_m[i]};
        double n[3] = {0, 0, 0};
        n_off += !(fabs(room_distance(p, n)) <= 0.002);
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
    if (fill == FILL_ROOM && in->settings.camera.width_px >= 640) {
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

static bool twin_run(const struct input *in, enum gpu_backend backend, uint32_t n_threads,
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
    for (int i = 0; i < N_FRAMES && ok; i++) {
        ok = gpu_prepare(gpu, in->depth[i], frame) == 0 &&
             model_integrate(model, frame, &in->T_map_camera[i]) == 0;
        if (ok && (compare || i == N_FRAMES - 1)) {
            free(out->blocks);
            ok = gpu_frame_read(gpu, frame, 0, map) == 0 &&
                 model_read(model, &out->blocks, &out->n_blocks) == 0;
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
    ok = ok && model_view(model, &in->T_map_camera[N_FRAMES - 1], view) == 0;
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

static void expect_same_bits(const struct input *in, const struct output *a, const struct output *b,
                             const char *what)
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
static void expect_twins(const struct input *in, const struct output *cpu,
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

static void check_fill(uint32_t width_px, uint32_t height_px, enum fill fill)
{
    struct input in;
    struct output cpu, again, cuda;
    check_case("%ux%u %s", width_px, height_px, fill_names[fill]);
    input_create(&in, width_px, height_px, fill);
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
    input_destroy(&in);
}

static uint32_t blocks_of(struct gpu *gpu, const struct input *in, const struct gpu_frame *frame)
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
    if (!check_that(model_read(model, &blocks, &n_blocks) == 0, "read"))
        return;
    if (check_that(model_write(model, blocks, n_blocks) == 0 &&
                       model_read(model, &after, &n_after) == 0,
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
    struct input in;
    struct gpu *gpu;
    struct gpu_frame *frame;
    struct model *model;
    struct model_stats one, stats;
    check_case("%s, a full memory", name);
    if (!check_wanted(name, 0))
        return;
    input_create(&in, 96, 64, FILL_ROOM);
    if (gpu_open(&gpu, backend, &in.settings) != 0) {
        check_skip("no CUDA device answers");
        input_destroy(&in);
        return;
    }
    bool ok = gpu_frame_create(gpu, &frame) == 0 && gpu_prepare(gpu, in.depth[0], frame) == 0;
    uint32_t n_first = ok ? blocks_of(gpu, &in, frame) : 0;
    check_that(n_first > 300, "%u blocks of the first frame", n_first);
    in.model.memory_bytes = (uint64_t)(n_first + 3) * 2200;
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
    input_destroy(&in);
}

// A camera beside where the map was made finds itself; one that sees another room does not. Of the
// frames of the map only the columns on the left are taken in: the less they show, the less sure.
static void check_recover(enum gpu_backend backend, const char *name, uint32_t n_columns,
                          enum recover_trust expected)
{
    static const double moves[][6] = {{0.03, -0.03, 0.04, 0.03, -0.04, -0.02},
                                      {-0.04, 0.02, 0.0, -0.04, 0.03, 0.06}};
    struct input in;
    struct gpu *gpu;
    struct gpu_frame *frame;
    struct model *model;
    struct recover *recover;
    struct gpu_align_settings align;
    check_case("%s, found again, %u of 320 columns mapped", name, n_columns);
    if (!check_wanted(name, 320 * 240))
        return;
    n_planes = N_PLANES;
    input_create(&in, 320, 240, FILL_ROOM);
    if (gpu_open(&gpu, backend, &in.settings) != 0) {
        check_skip("no CUDA device answers");
        n_planes = N_PLANES - 1;
        input_destroy(&in);
        return;
    }
    gpu_align_settings_default(&align);
    const struct recover_keyframe *kept;
    bool ok = gpu_frame_create(gpu, &frame) == 0 && model_create(&model, gpu, &in.model) == 0 &&
              recover_create(&recover, gpu, &align) == 0;
    for (int i = 0; i < N_FRAMES && ok; i++) {
        for (uint32_t k = 0; k < 320 * 240; k++)
            in.depth[i][k] = k % 320 < n_columns ? in.depth[i][k] : 0;
        ok = gpu_prepare(gpu, in.depth[i], frame) == 0 &&
             model_integrate(model, frame, &in.T_map_camera[i]) == 0 &&
             recover_add(recover, frame, &in.T_map_camera[i]) == 0;
    }
    check_that(ok && recover_keyframes(recover, &kept) >= 1, "a map with keyframes");
    for (int other = 0; other < 2 && ok; other++)
        for (int move = 0; move < 2; move++) {
            const struct se3 T = se3_exp(moves[move]);
            struct se3 T_found;
            enum recover_trust trust = RECOVER_NOT_FOUND;
            for (uint32_t i = 0; i < 320 * 240; i++) {
                double z = room_z(&in.settings.camera, &T, i % 320, i / 320);
                z = other ? 0.5 + 0.7 * fmod(0.8 * z + 0.004 * (i % 320), 1.5) : z;
                in.depth[0][i] = z < 8 ? (uint16_t)lrint(5000 * z) : 0;
            }
            ok = gpu_prepare(gpu, in.depth[0], frame) == 0 &&
                 recover_find(recover, model, frame, 0, NULL, &trust, &T_found) == 0;
            struct se3 off = se3_between(&T, &T_found);
            double off_m =
                sqrt(off.t_m[0] * off.t_m[0] + off.t_m[1] * off.t_m[1] + off.t_m[2] * off.t_m[2]);
            check_that(ok && trust == (other ? RECOVER_NOT_FOUND : expected),
                       "%s room, move %d: trust %d", other ? "another" : "the same", move,
                       (int)trust);
            check_that(!trust || (off_m < 0.01 && se3_angle(&off) < 0.01),
                       "found %.4f m and %.4f rad beside", off_m, se3_angle(&off));
        }
    n_planes = N_PLANES - 1;
    recover_forget(recover);
    check_that(recover_keyframes(recover, &kept) == 0, "forgotten");
    recover_destroy(&recover);
    model_destroy(&model);
    gpu_frame_destroy(gpu, &frame);
    gpu_close(&gpu);
    input_destroy(&in);
}

struct bench {
    struct gpu *gpu;
    struct gpu_frame *frame, *view;
    struct model *model;
    const struct input *in;
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
    struct input in;
    struct bench b = {.in = &in};
    char text[80];
    input_create(&in, 640, 480, FILL_ROOM);
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
    input_destroy(&in);
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
    for (enum fill fill = 0; fill < N_FILLS; fill++) {
        check_fill(33, 64, fill);
        check_fill(160, 121, fill);
    }
    if (!check_is_short())
        check_fill(640, 480, FILL_ROOM);
    check_full(GPU_BACKEND_CPU, "cpu");
    check_full(GPU_BACKEND_CUDA, "cuda");
    for (int twin = 0; twin < 2; twin++) {
        const enum gpu_backend backend = twin ? GPU_BACKEND_CUDA : GPU_BACKEND_CPU;
        const char *name = twin ? "cuda" : "cpu";
        check_recover(backend, name, 320, RECOVER_SURE);
        check_recover(backend, name, 200, RECOVER_FAIR);
        check_recover(backend, name, 80, RECOVER_NOT_FOUND);
    }
    return check_end();
}

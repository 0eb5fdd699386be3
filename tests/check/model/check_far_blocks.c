// SPDX-License-Identifier: Apache-2.0
// A walk along a corridor and back with a device that holds a part of it: blocks and views are to
// the bit those of a device that holds all, whatever goes to the host and comes back meanwhile; and
// what happens where the host is full, too.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/model/model.h"
#include "proto/se3.h"
#include "tests/check/check.h"

#define WIDTH      96
#define HEIGHT     64
#define N_FRAMES   160
#define LENGTH_M   10.0
#define REACH_M    2.5f
#define VIEW_EVERY 20
#define N_VIEWS    (N_FRAMES / VIEW_EVERY)
#define N_PIXELS   ((size_t)WIDTH * HEIGHT)

static const double half_m[2] = {1.1, 0.8}; // of the corridor, which runs along z

struct walk {
    struct model_block *blocks;
    uint32_t n_blocks;
    struct model_stats most; // n_blocks, n_far, n_refused: the most of any frame
    float *views;
};

static struct se3 pose_at(int frame)
{
    const double t = 2 * M_PI * frame / N_FRAMES;
    const double turn[6] = {0, 0, 0, 0.1 * sin(5 * t), 0.5 * sin(9 * t), 0};
    struct se3 T = se3_exp(turn);
    T.t_m[0] = 0.3 * sin(7 * t);
    T.t_m[2] = 0.5 * LENGTH_M * (1 - cos(t));
    return T;
}

static void draw(const struct gpu_settings *s, const struct se3 *T, uint16_t *out)
{
    for (int v = 0; v < HEIGHT; v++)
        for (int u = 0; u < WIDTH; u++) {
            const double ray[3] = {(u - s->camera.cx_px) / s->camera.fx_px,
                                   (v - s->camera.cy_px) / s->camera.fy_px, 1};
            double z = INFINITY;
            for (int axis = 0; axis < 2; axis++) {
                double along = 0;
                for (int k = 0; k < 3; k++)
                    along += T->r[3 * axis + k] * ray[k];
                const double wall_m = along > 0 ? half_m[axis] : -half_m[axis];
                z = along != 0 ? fmin(z, (wall_m - T->t_m[axis]) / along) : z;
            }
            out[v * WIDTH + u] = z < 13 ? (uint16_t)lrint(z * s->units_per_m) : 0;
        }
}

static void more(uint32_t *most, uint32_t now)
{
    *most = now > *most ? now : *most;
}

static int read_all(struct model *model, struct walk *out)
{
    int rc = model_read(model, NULL, 0, &out->n_blocks);
    if (rc != -ENOBUFS)
        return -EIO;
    out->blocks = malloc(out->n_blocks * sizeof *out->blocks);
    rc = out->blocks ? model_read(model, out->blocks, out->n_blocks, &out->n_blocks) : -ENOMEM;
    if (rc == 0)
        model_order(out->blocks, out->n_blocks);
    return rc;
}

static void settings_of(struct gpu_settings *out)
{
    gpu_settings_default(out);
    out->camera = (struct intrinsics){80, 80, 47.3, 31.8, WIDTH, HEIGHT};
    out->units_per_m = 5000;
    out->depth_max_m = REACH_M;
    out->log = check_log();
}

static bool walk(struct gpu *gpu, const struct gpu_settings *settings,
                 const struct model_settings *wanted, struct walk *out)
{
    struct gpu_frame *frame = NULL, *view = NULL;
    struct model *model = NULL;
    uint16_t *depth = malloc(N_PIXELS * sizeof *depth);
    memset(out, 0, sizeof *out);
    out->views = malloc(N_VIEWS * N_PIXELS * 4 * sizeof *out->views);
    bool ok = depth && out->views && gpu_frame_create(gpu, &frame) == 0 &&
              gpu_frame_create(gpu, &view) == 0 && model_create(&model, gpu, wanted) == 0;
    for (int i = 0; i < N_FRAMES && ok; i++) {
        struct model_stats stats;
        const struct se3 T = pose_at(i);
        draw(settings, &T, depth);
        ok = gpu_prepare(gpu, depth, frame) == 0 && model_integrate(model, frame, &T) == 0 &&
             model_stats_get(model, &stats) == 0;
        if (ok && i % VIEW_EVERY == 0)
            ok = model_view(model, &T, view) == 0 &&
                 gpu_frame_read(gpu, view, 0,
                                out->views + (size_t)(i / VIEW_EVERY) * N_PIXELS * 4) == 0;
        if (!ok)
            break;
        more(&out->most.n_blocks, stats.n_blocks);
        more(&out->most.n_far, stats.n_far);
        more(&out->most.n_refused, stats.n_refused);
    }
    ok = ok && read_all(model, out) == 0;
    // What was read goes into a model of the same size, where it is more than the device holds.
    struct walk again = {0};
    if (ok && check_that(model_write(model, out->blocks, out->n_blocks) == 0 &&
                             read_all(model, &again) == 0,
                         "written and read"))
        check_that(again.n_blocks == out->n_blocks &&
                       memcmp(again.blocks, out->blocks, again.n_blocks * sizeof *again.blocks) ==
                           0,
                   "what is written is read back");
    free(again.blocks);
    free(depth);
    model_destroy(&model);
    gpu_frame_destroy(gpu, &frame);
    gpu_frame_destroy(gpu, &view);
    check_that(ok, "all frames are taken in");
    return ok;
}

static void walk_free(struct walk *walk)
{
    free(walk->blocks);
    free(walk->views);
}

static void expect_same(const struct walk *a, const struct walk *b)
{
    check_that(a->n_blocks == b->n_blocks &&
                   memcmp(a->blocks, b->blocks, a->n_blocks * sizeof *a->blocks) == 0,
               "the same blocks: %u and %u", a->n_blocks, b->n_blocks);
    for (int i = 0; i < N_VIEWS; i++)
        check_that(memcmp(a->views + (size_t)i * N_PIXELS * 4, b->views + (size_t)i * N_PIXELS * 4,
                          N_PIXELS * 4 * sizeof *a->views) == 0,
                   "the same view of frame %d", i * VIEW_EVERY);
}

static void refuse_twice(struct gpu *gpu, const struct model_settings *wanted,
                         const struct walk *all)
{
    struct model *model;
    struct model_stats stats;
    if (!check_that(model_create(&model, gpu, wanted) == 0, "a model"))
        return;
    struct model_block *blocks = malloc(all->n_blocks * sizeof *blocks);
    memcpy(blocks, all->blocks, all->n_blocks * sizeof *blocks);
    blocks[all->n_blocks - 1] = blocks[0];
    check_that(model_write(model, blocks, all->n_blocks) == -EINVAL, "a place twice");
    check_that(model_stats_get(model, &stats) == 0 && stats.n_blocks == 0 && stats.n_far == 0,
               "then it is empty");
    free(blocks);
    model_destroy(&model);
}

static void check_twin(enum gpu_backend backend, const char *name)
{
    struct gpu_settings settings;
    struct model_settings wanted;
    struct gpu *gpu;
    struct walk all, part;
    if (!check_wanted(name, N_PIXELS))
        return;
    settings_of(&settings);
    if (gpu_open(&gpu, backend, &settings) != 0) {
        check_skip("no CUDA device answers");
        return;
    }
    model_settings_default(&wanted);
    wanted.voxel_m = 0.0125f;
    wanted.memory_bytes = (uint64_t)64 << 20;
    wanted.far_bytes = 0;
    check_case("%s, all on the device", name);
    if (walk(gpu, &settings, &wanted, &all)) {
        check_that(all.most.n_refused == 0 && all.most.n_far == 0 && all.n_blocks > 4000,
                   "%u blocks", all.n_blocks);
        // Two fifths of the corridor: more than is ever in sight.
        check_case("%s, two fifths on the device", name);
        wanted.memory_bytes = (uint64_t)all.n_blocks * 2 / 5 * 2200;
        wanted.far_bytes = (uint64_t)1 << 30;
        if (walk(gpu, &settings, &wanted, &part)) {
            check_that(part.most.n_far > all.n_blocks / 3 && part.most.n_refused == 0,
                       "%u of %u far, %u refused", part.most.n_far, all.n_blocks,
                       part.most.n_refused);
            expect_same(&all, &part);
        }
        walk_free(&part);
        refuse_twice(gpu, &wanted, &all);
        check_case("%s, too little on the host, too", name);
        wanted.far_bytes = all.n_blocks / 5 * sizeof(struct model_block);
        if (walk(gpu, &settings, &wanted, &part))
            check_that(part.most.n_refused > 0 && part.n_blocks < all.n_blocks &&
                           part.most.n_far <= all.n_blocks / 5 + 512 && part.most.n_far > 0,
                       "%u of %u blocks, %u far", part.n_blocks, all.n_blocks, part.most.n_far);
        walk_free(&part);
    }
    walk_free(&all);
    gpu_close(&gpu);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_twin(GPU_BACKEND_CPU, "cpu");
    check_twin(GPU_BACKEND_CUDA, "cuda");
    return check_end();
}

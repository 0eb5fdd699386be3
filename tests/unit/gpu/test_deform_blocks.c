// SPDX-License-Identifier: Apache-2.0
// The map moved to where its keyframes agree: a turn through the furnished room, fused at the poses
// of a tracker that drifts, comes to lie where fusing at the exact poses puts it, the wall that is
// seen twice included; what must be exact is.
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "capture/synth/motion.h"
#include "capture/synth/scene.h"
#include "gpu/model/deform_blocks.h"
#include "gpu/model/keyframe_images.h"
#include "gpu/model/surface_nets.h"
#include "proto/se3.h"

#define WIDTH  160u
#define HEIGHT 120u
#define STEP   2u // of what a keyframe keeps
#ifdef POSED_SANITIZED
#define N 20u
#else
#define N 92u // a turn of 80, and 12 that see the start again
#endif
#define STEP_S     0.25
#define DRIFT_M    0.0025    // a step: 0.2 m at the end
#define DRIFT_RAD  0.0007    // 4 degrees
#define VOXEL_M    0.015625f // a power of two
#define MIN_WEIGHT 8

struct blocks {
    struct model_block *blocks;
    uint32_t n;
};

static struct se3 T_true[N], T_odom[N];
static struct graph_keyframe keyframes[N];
static struct keyframe_images seen;
static struct deformation_field correction;
static struct blocks fused_true, fused_odom;

static struct blocks read_blocks(struct model *model)
{
    struct blocks out;
    assert_int_equal(model_read(model, NULL, 0, &out.n), -ENOBUFS);
    out.blocks = malloc(out.n * sizeof *out.blocks);
    assert_non_null(out.blocks);
    assert_int_equal(model_read(model, out.blocks, out.n, &out.n), 0);
    model_order(out.blocks, out.n);
    return out;
}

static void keep_seen(uint32_t k, const uint16_t *depth)
{
    static float z_m[WIDTH * HEIGHT];
    for (uint32_t i = 0; i < WIDTH * HEIGHT; i++)
        z_m[i] = (float)(depth[i] / SCENE_UNITS_PER_M);
    keyframe_images_keep(&seen, k, z_m);
}

static int load(void **state)
{
    static uint16_t depth[WIDTH * HEIGHT];
    const double twist[6] = {DRIFT_M, 0, 0, 0, DRIFT_RAD, 0};
    const struct se3 drift = se3_exp(twist);
    const struct model_settings settings = {.voxel_m = VOXEL_M, .memory_bytes = 256 << 20};
    struct gpu_settings gpu_settings;
    struct model *exact, *drifted;
    struct gpu *gpu;
    struct gpu_frame *frame;
    struct scene *scene;
    (void)state;
    gpu_settings_default(&gpu_settings);
    const struct intrinsics whole = scene_default_camera();
    gpu_settings.camera = (struct intrinsics){whole.fx_px / 4, whole.fy_px / 4, whole.cx_px / 4,
                                              whole.cy_px / 4, WIDTH,           HEIGHT};
    gpu_settings.units_per_m = SCENE_UNITS_PER_M;
    assert_int_equal(keyframe_images_create(&seen, &gpu_settings.camera, N), 0);
    assert_int_equal(scene_create(&scene, "room", &gpu_settings.camera), 0);
    assert_int_equal(gpu_open(&gpu, GPU_BACKEND_CPU, &gpu_settings), 0);
    assert_int_equal(gpu_frame_create(gpu, &frame), 0);
    assert_int_equal(model_create(&exact, gpu, &settings), 0);
    assert_int_equal(model_create(&drifted, gpu, &settings), 0);
    for (uint32_t k = 0; k < N; k++) {
        T_odom[k] = T_true[k] = motion_at(MOTION_LOOP, STEP_S * k);
        if (k > 0) {
            const struct se3 step = se3_between(&T_true[k - 1], &T_true[k]);
            const struct se3 T = se3_compose(&T_odom[k - 1], &step);
            T_odom[k] = se3_compose(&T, &drift);
        }
        keyframes[k] = (struct graph_keyframe){
            .seq = k, .T_odom_camera = T_odom[k], .T_map_camera = T_true[k]};
        scene_render_clean(scene, &T_true[k], depth);
        keep_seen(k, depth);
        assert_int_equal(gpu_prepare(gpu, depth, frame), 0);
        assert_int_equal(model_integrate(exact, frame, &T_true[k]), 0);
        assert_int_equal(model_integrate(drifted, frame, &T_odom[k]), 0);
    }
    assert_int_equal(keyframe_images_correction(&seen, keyframes, N, &correction), 0);
    assert_int_equal(correction.n, N);
    fused_true = read_blocks(exact);
    fused_odom = read_blocks(drifted);
    model_destroy(&exact);
    model_destroy(&drifted);
    gpu_frame_destroy(gpu, &frame);
    gpu_close(&gpu);
    scene_destroy(&scene);
    return 0;
}

static int unload(void **state)
{
    (void)state;
    free(fused_true.blocks);
    free(fused_odom.blocks);
    deformation_field_free(&correction);
    keyframe_images_free(&seen);
    return 0;
}

static struct blocks copy_of(const struct blocks *from)
{
    struct blocks out = {malloc(from->n * sizeof *out.blocks), from->n};
    assert_non_null(out.blocks);
    memcpy(out.blocks, from->blocks, from->n * sizeof *out.blocks);
    return out;
}

static const struct model_block *find(const struct blocks *in, const int32_t at[3])
{
    for (uint32_t low = 0, high = in->n; low < high;) {
        const uint32_t middle = (low + high) / 2;
        const struct model_block *b = &in->blocks[middle];
        const bool same_z = b->z == at[2], same_y = same_z && b->y == at[1];
        if (same_y && b->x == at[0])
            return b;
        if (b->z < at[2] || (same_z && b->y < at[1]) || (same_y && b->x < at[0]))
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static bool is_ordered(const struct blocks *in)
{
    bool ordered = true;
    for (uint32_t i = 1; i < in->n; i++) {
        const struct model_block *a = &in->blocks[i - 1], *b = &in->blocks[i];
        ordered = ordered &&
                  (a->z < b->z || (a->z == b->z && (a->y < b->y || (a->y == b->y && a->x < b->x))));
    }
    return ordered;
}

// How far the surface of `a` lies from that of `b`, root mean square, by b's own distance at the
// nearest voxel; *out_missing: the share of points where b has seen nothing, or nothing near.
static double apart_m(const struct blocks *a, const struct blocks *b, size_t min_points,
                      double *out_missing)
{
    struct model_surface surface;
    double sum2 = 0, n = 0;
    assert_int_equal(model_surface_create(a->blocks, a->n, VOXEL_M, MIN_WEIGHT, &surface), 0);
    assert_true(surface.n_points >= min_points);
    for (size_t i = 0; i < surface.n_points; i++) {
        const double p[3] = {(double)surface.x_m[i], (double)surface.y_m[i],
                             (double)surface.z_m[i]};
        const double normal[3] = {(double)surface.nx[i], (double)surface.ny[i],
                                  (double)surface.nz[i]};
        int32_t block[3];
        uint32_t voxel = 0;
        double along_m = 0;
        for (int k = 2; k >= 0; k--) {
            const int32_t at = (int32_t)lround(p[k] / (double)VOXEL_M);
            block[k] = at >> 3;
            voxel = 8 * voxel + (uint32_t)(at & 7);
            along_m += normal[k] * (p[k] - at * (double)VOXEL_M);
        }
        const struct model_block *there = find(b, block);
        if (!there || there->weight[voxel] == 0)
            continue;
        const double off_m = there->distance[voxel] * MODEL_UNIT_M + along_m;
        if (fabs(off_m) > 2 * (double)VOXEL_M)
            continue;
        sum2 += off_m * off_m;
        n++;
    }
    *out_missing = 1 - n / (double)surface.n_points;
    model_surface_free(&surface);
    return sqrt(sum2 / fmax(1, n));
}

static void comes_to_lie_where_it_belongs(void **state)
{
    (void)state;
    if (N < 90) // how well alone: not under a sanitizer
        return;
    struct blocks moved = copy_of(&fused_odom);
    double extra_before, extra, lacking;
    apart_m(&fused_odom, &fused_true, 10000, &extra_before);
    assert_int_equal(deform_blocks(&correction, VOXEL_M, UINT32_MAX, &moved.blocks, &moved.n), 0);
    const double off_m = apart_m(&moved, &fused_true, 10000, &extra);
    const double back_m = apart_m(&fused_true, &moved, 10000, &lacking);
    print_message("%u blocks, %u moved, %u exact; surface apart %.2f mm, back %.2f mm; elsewhere "
                  "%.2f %% before, then %.2f %%; lacking %.2f %%\n",
                  fused_odom.n, moved.n, fused_true.n, off_m * 1e3, back_m * 1e3,
                  extra_before * 100, extra * 100, lacking * 100);
    assert_true(is_ordered(&moved));
    assert_true(extra_before > 0.3); // what was put in is there
    // Parts of a voxel: what the drift within a place's own views smears stays smeared.
    assert_true(off_m < 0.45 * (double)VOXEL_M && back_m < 0.33 * (double)VOXEL_M);
    assert_true(extra < 0.07 && lacking < 0.01);
    free(moved.blocks);
}

static void nothing_moves_without_a_reason(void **state)
{
    (void)state;
    struct blocks same = copy_of(&fused_odom);
    struct graph_keyframe still[N];
    struct deformation_field none;
    for (uint32_t k = 0; k < N; k++) {
        still[k] = keyframes[k];
        still[k].T_map_camera = still[k].T_odom_camera;
    }
    assert_int_equal(keyframe_images_correction(&seen, still, N, &none), 0);
    assert_true(deformation_field_is_none(&none, (double)VOXEL_M));
    assert_int_equal(deform_blocks(&none, VOXEL_M, UINT32_MAX, &same.blocks, &same.n), 0);
    deformation_field_free(&none); // no keyframe at all
    assert_int_equal(deform_blocks(&none, VOXEL_M, UINT32_MAX, &same.blocks, &same.n), 0);
    assert_int_equal(same.n, fused_odom.n);
    assert_memory_equal(same.blocks, fused_odom.blocks, same.n * sizeof *same.blocks);
    free(same.blocks);
}

// One motion for all keyframes.
static void move_all(const struct se3 *T_map_odom, struct deformation_field *out)
{
    const struct se3 here = se3_identity();
    assert_int_equal(deformation_field_create(out, &seen.camera, 1), 0);
    memset(deformation_field_add(out, &here, T_map_odom), 0,
           (size_t)seen.camera.width_px * seen.camera.height_px * sizeof(uint16_t));
}

// A shift by whole voxels: every voxel is another's, to the last digit.
static void whole_voxels(void **state)
{
    (void)state;
    static const int32_t shift[3] = {3, -8, 21};
    struct blocks moved = copy_of(&fused_odom);
    struct deformation_field all;
    uint64_t n_voxels[2] = {0, 0};
    struct se3 T = se3_identity();
    for (int i = 0; i < 3; i++)
        T.t_m[i] = shift[i] * (double)VOXEL_M;
    move_all(&T, &all);
    assert_int_equal(deform_blocks(&all, VOXEL_M, UINT32_MAX, &moved.blocks, &moved.n), 0);
    deformation_field_free(&all);
    for (uint32_t b = 0; b < fused_odom.n; b++)
        for (uint32_t i = 0; i < MODEL_BLOCK_VOXELS; i++)
            n_voxels[0] += fused_odom.blocks[b].weight[i] > 0;
    for (uint32_t b = 0; b < moved.n; b++) {
        const struct model_block *m = &moved.blocks[b];
        for (int32_t i = 0; i < MODEL_BLOCK_VOXELS; i++) {
            const int32_t at[3] = {8 * m->x + i % 8 - shift[0], 8 * m->y + i / 8 % 8 - shift[1],
                                   8 * m->z + i / 64 - shift[2]};
            const int32_t block[3] = {at[0] >> 3, at[1] >> 3, at[2] >> 3};
            const struct model_block *was = find(&fused_odom, block);
            const int32_t voxel = (at[0] & 7) + 8 * (at[1] & 7) + 64 * (at[2] & 7);
            assert_int_equal(m->weight[i], was ? was->weight[voxel] : 0);
            assert_int_equal(m->distance[i], was && m->weight[i] ? was->distance[voxel] : 0);
            n_voxels[1] += m->weight[i] > 0;
        }
    }
    assert_int_equal(n_voxels[0], n_voxels[1]);
    free(moved.blocks);
}

// Rows that hardly lean: where they meet a block's side is as far off as one likes.
static void hardly_turned(void **state)
{
    (void)state;
    for (int axis = 3; axis < 6; axis++)
        for (double turn = 1e-10; turn < 1e-7; turn *= 4) {
            struct blocks moved = copy_of(&fused_odom);
            struct deformation_field all;
            double twist[6] = {0.05, 0.03, -0.04, 0, 0, 0}, lacking;
            twist[axis] = turn;
            const struct se3 T = se3_exp(twist), back = se3_inverse(&T);
            moved.n = moved.n > 500 ? 500 : moved.n;
            move_all(&T, &all);
            assert_int_equal(deform_blocks(&all, VOXEL_M, UINT32_MAX, &moved.blocks, &moved.n), 0);
            deformation_field_free(&all);
            move_all(&back, &all);
            assert_int_equal(deform_blocks(&all, VOXEL_M, UINT32_MAX, &moved.blocks, &moved.n), 0);
            deformation_field_free(&all);
            assert_true(apart_m(&moved, &fused_odom, 100, &lacking) <
                        0.4 * (double)VOXEL_M); // read anew twice
            free(moved.blocks);
        }
}

static void no_more_than_there_is_room_for(void **state)
{
    (void)state;
    struct blocks all = copy_of(&fused_odom), few = copy_of(&fused_odom);
    double lacking, lacking_few;
    assert_int_equal(deform_blocks(&correction, VOXEL_M, UINT32_MAX, &all.blocks, &all.n), 0);
    const uint32_t max = all.n - all.n / 8;
    assert_int_equal(deform_blocks(&correction, VOXEL_M, max, &few.blocks, &few.n), 0);
    assert_int_equal(few.n, max);
    assert_true(is_ordered(&few));
    apart_m(&fused_true, &all, 1000, &lacking);
    apart_m(&fused_true, &few, 1000, &lacking_few);
    assert_true(lacking_few < lacking + 0.01); // those that hold least are left out
    free(all.blocks);
    free(few.blocks);
}

static void places_go_along(void **state)
{
    (void)state;
    static struct relocalise_keyframe places[N];
    const struct intrinsics *c = &correction.camera;
    double worst_m = 0;
    for (uint32_t k = 0; k < N; k++) {
        places[k].T_map_camera = T_odom[k];
        for (uint32_t cell = 0; cell < DEPTH_CELLS; cell++) {
            const uint32_t u = (cell % DEPTH_CELLS_X * 2 + 1) * c->width_px / DEPTH_CELLS_X / 2;
            const uint32_t v = (cell / DEPTH_CELLS_X * 2 + 1) * c->height_px / DEPTH_CELLS_Y / 2;
            const double z_mm = correction.z_mm[(k * c->height_px + v) * c->width_px + u];
            places[k].log_z[cell] = z_mm > 0 ? (float)log(z_mm * 1e-3) : NAN;
        }
    }
    deformation_field_of_places(&correction, (double)VOXEL_M, places, N);
    for (uint32_t k = 0; k < N; k++) {
        const struct se3 off = se3_between(&T_true[k], &places[k].T_map_camera);
        worst_m = fmax(worst_m, hypot(hypot(off.t_m[0], off.t_m[1]), off.t_m[2]));
    }
    print_message("worst place %.1f mm off\n", worst_m * 1e3);
    assert_true(worst_m < 0.02); // of 200
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_to_lie_where_it_belongs),
        cmocka_unit_test(nothing_moves_without_a_reason),
        cmocka_unit_test(whole_voxels),
        cmocka_unit_test(hardly_turned),
        cmocka_unit_test(no_more_than_there_is_room_for),
        cmocka_unit_test(places_go_along),
    };
    return cmocka_run_group_tests(tests, load, unload);
}

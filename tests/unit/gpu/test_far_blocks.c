// SPDX-License-Identifier: Apache-2.0
// Which blocks wait on the host, when the device is asked how full it is, and what comes back: on a
// device that only keeps a list.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/model/kernels/voxel.h"
#include "gpu/model/ops.h"
#include "proto/se3.h"

#define MOST 4096u

static struct gpu gpu;
static struct model model;
static struct model_block held[MOST];
static uint32_t n_held, n_asked, n_added;

static int stats(struct model *m, struct model_stats *out)
{
    assert_true(m == &model);
    out->n_blocks = n_held;
    n_asked++;
    return 0;
}

static int keys(struct model *m, uint64_t *out, uint32_t n_blocks)
{
    (void)m;
    for (uint32_t i = 0; i < n_blocks; i++)
        out[i] = voxel_key(held[i].x, held[i].y, held[i].z);
    return 0;
}

static int take(struct model *m, const uint32_t *slots, uint32_t n, struct model_block *out)
{
    (void)m;
    uint32_t n_left = 0, k = 0;
    for (uint32_t i = 0; i < n_held; i++)
        if (k < n && slots[k] == i)
            out[k++] = held[i];
        else
            held[n_left++] = held[i];
    n_held = n_left;
    return k == n ? 0 : -EIO;
}

static int add(struct model *m, const struct model_block *blocks, uint32_t n_blocks)
{
    assert_true(n_held + n_blocks <= m->max_blocks);
    memcpy(held + n_held, blocks, n_blocks * sizeof *blocks);
    n_held += n_blocks;
    n_added += n_blocks;
    return 0;
}

static int clear(struct model *m)
{
    (void)m;
    n_held = 0;
    return 0;
}

static const struct model_ops ops = {
    .stats = stats, .keys = keys, .take = take, .add = add, .clear = clear};

// Voxels of 1 cm: a region is 0.64 m wide. The camera looks along z.
static void reset(uint32_t max_blocks, uint32_t max_far)
{
    far_blocks_clear(&model.far);
    gpu_settings_default(&gpu.settings);
    gpu.settings.camera = (struct intrinsics){60, 60, 39.5, 29.5, 80, 60};
    model = (struct model){
        .ops = &ops, .gpu = &gpu, .settings = {.voxel_m = 0.01f}, .max_blocks = max_blocks};
    model.far.max_blocks = max_far;
    n_held = n_asked = n_added = 0;
}

static int end(void **state)
{
    (void)state;
    far_blocks_clear(&model.far);
    return 0;
}

// So many blocks of a region on the device.
static void hold(int x, int y, int z, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        held[n_held++] = (struct model_block){
            .x = 8 * x + (int)(i & 7), .y = 8 * y + (int)(i >> 3 & 7), .z = 8 * z + (int)(i >> 6)};
}

static uint32_t n_here_of(int x, int y, int z)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_held; i++)
        n += held[i].x >> 3 == x && held[i].y >> 3 == y && held[i].z >> 3 == z;
    return n;
}

static struct se3 at(double x_m, double y_m, double z_m)
{
    struct se3 T = se3_identity();
    T.t_m[0] = x_m;
    T.t_m[1] = y_m;
    T.t_m[2] = z_m;
    return T;
}

static bool follow(const struct se3 *T, bool is_new)
{
    bool all_here;
    assert_int_equal(far_blocks_follow(&model, T, is_new, &all_here), 0);
    return all_here;
}

// An eighth is kept free, and as much again when something has to go: the farthest regions,
// wherever the camera is; what it sees stays.
static void the_farthest_goes(void **state)
{
    (void)state;
    static const struct {
        double x_m, y_m, z_m;
        int far[3], near[3]; // all behind it
    } cases[] = {
        {3, 0, 0, {-5, 0, -9}, {5, 0, -9}},  {-3, 0, 0, {5, 0, -9}, {-5, 0, -9}},
        {0, 3, 0, {0, -5, -9}, {0, 5, -9}},  {0, -3, 0, {0, 5, -9}, {0, -5, -9}},
        {0, 0, 10, {0, 0, -10}, {0, 0, -5}},
    };
    for (int i = 0; i < 5; i++) {
        const int *far = cases[i].far, *near = cases[i].near;
        const struct se3 T = at(cases[i].x_m, cases[i].y_m, cases[i].z_m);
        reset(800, 1000);
        hold(far[0], far[1], far[2], 101);
        hold(near[0], near[1], near[2], 300);
        hold(near[0], near[1], near[2] + 1, 300);
        assert_true(follow(&T, true));
        assert_int_equal(model.far.n_blocks, 101);
        assert_int_equal(n_here_of(far[0], far[1], far[2]), 0);
    }
    reset(800, 1000);
    hold(0, 0, 4, 400); // 2.5 m before the camera
    hold(0, 0, -2, 301);
    const struct se3 origin = at(0, 0, 0);
    assert_true(follow(&origin, true));
    assert_int_equal(n_here_of(0, 0, 4), 400);
    assert_int_equal(n_here_of(0, 0, -2), 0);
}

static void nothing_goes_while_there_is_room(void **state)
{
    (void)state;
    const struct se3 T = at(0, 0, 0);
    reset(800, 1000);
    hold(0, 0, -20, 350);
    hold(0, 0, -22, 350);
    follow(&T, true);
    assert_int_equal(model.far.n_blocks, 0);
    reset(800, 0); // no host
    hold(0, 0, -20, 400);
    hold(0, 0, -22, 400);
    assert_true(follow(&T, true));
    assert_int_equal(n_asked, 0);
    reset(800, 300); // no room for a whole region
    hold(0, 0, -20, 301);
    hold(0, 0, -22, 200);
    hold(0, 0, -24, 250);
    follow(&T, true);
    assert_int_equal(model.far.n_blocks, 250);
    assert_int_equal(n_here_of(0, 0, -24), 0);
}

// Every 16th frame, and sooner where it fills faster: four times as fast as up to now it may. Views
// are no frames.
static void it_is_seldom_asked(void **state)
{
    (void)state;
    static const struct {
        uint32_t grown, asked_after; // of 100 blocks to spare
    } cases[] = {{0, 16}, {16, 16}, {17, 12}, {34, 8}, {153, 2}, {408, 1}};
    const struct se3 T = at(0, 0, 0);
    for (int i = 0; i < 6; i++) {
        uint32_t n = 0;
        reset(800, 1000);
        for (int k = 0; k < 17; k++) {
            follow(&T, true);
            follow(&T, false);
        }
        assert_int_equal(n_asked, 1);
        hold(0, 0, -20, cases[i].grown);
        follow(&T, true);
        assert_int_equal(n_asked, 2);
        for (; n_asked == 2 && n < 20; n++)
            follow(&T, true);
        assert_int_equal(n - 1, cases[i].asked_after);
    }
}

// As soon as it is in sight, one block, too, whether the device would be asked or not.
static void what_is_seen_comes_back(void **state)
{
    (void)state;
    const struct se3 away = at(0, 0, 23), there = at(0, 0, 0);
    for (uint32_t n = 1; n <= 2; n++) {
        reset(800, 1000);
        hold(0, 0, 4, n);
        hold(0, 0, 40, 350);
        hold(0, 1, 40, 350);
        follow(&away, true);
        assert_int_equal(model.far.n_blocks, n);
        assert_int_equal(model.far.n_regions, 1);
        follow(&away, true); // not due
        assert_int_equal(n_added, 0);
        n_held -= 350; // nothing else has to go for it
        assert_true(follow(&there, false));
        assert_int_equal(n_added, n);
        assert_int_equal(n_here_of(0, 0, 4), n);
        assert_int_equal(model.far.n_blocks, 0);
        assert_int_equal(model.far.n_regions, 0);
    }
}

// The nearest first, as far as there is room: then new places have to wait.
static void not_all_may_come_back(void **state)
{
    (void)state;
    const struct se3 away = at(0, 0, 40), there = at(0, 0, 0);
    reset(640, 2000);
    hold(0, 0, 3, 400);
    hold(0, 0, 4, 200);
    follow(&away, true);
    assert_int_equal(model.far.n_blocks, 400); // the farther
    hold(0, 0, 5, 400);
    hold(0, 0, 2, 40);
    assert_false(follow(&there, true));
    assert_int_equal(n_here_of(0, 0, 3), 0);
    assert_int_equal(model.far.n_blocks, 400);
    // Without the farthest there is.
    n_held -= 440;
    assert_true(follow(&there, true));
    assert_int_equal(n_here_of(0, 0, 3), 400);
}

// Of a map that is loaded what lies around its origin stays, an eighth of the device free where the
// host has room for the rest.
static void a_map_that_is_loaded(void **state)
{
    (void)state;
    for (int tight = 0; tight < 2; tight++) {
        reset(800, tight ? 250 : 600);
        hold(0, 0, 9, 300);
        hold(0, 0, -1, 350);
        hold(3, 0, 0, 350);
        const uint32_t n = n_held;
        struct model_block *blocks = malloc(n * sizeof *blocks);
        memcpy(blocks, held, n * sizeof *blocks);
        assert_int_equal(far_blocks_write(&model, blocks, tight ? n - 1 : n), 0);
        assert_int_equal(n_here_of(0, 0, -1), 350);
        assert_int_equal(n_here_of(3, 0, 0), tight ? 349 : 350);
        assert_int_equal(n_here_of(0, 0, 9), 0);
        assert_int_equal(model.far.n_blocks, 300);
        struct model_block *rest = malloc(300 * sizeof *rest);
        far_blocks_read(&model.far, rest);
        for (int i = 0; i < 300; i++)
            assert_int_equal(rest[i].z >> 3, 9);
        free(rest);
        blocks[1] = blocks[0]; // a place twice
        assert_int_equal(far_blocks_write(&model, blocks, n), -EINVAL);
        free(blocks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_farthest_goes),     cmocka_unit_test(nothing_goes_while_there_is_room),
        cmocka_unit_test(it_is_seldom_asked),    cmocka_unit_test(what_is_seen_comes_back),
        cmocka_unit_test(not_all_may_come_back), cmocka_unit_test(a_map_that_is_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, end);
}

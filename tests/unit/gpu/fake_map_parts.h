// SPDX-License-Identifier: Apache-2.0
// A map whose model, relocaliser and tracker are what the test says. One inclusion a program, after
// cmocka's.
#ifndef POSED_TESTS_UNIT_GPU_FAKE_MAP_PARTS_H
#define POSED_TESTS_UNIT_GPU_FAKE_MAP_PARTS_H

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/model/deform_blocks.h"
#include "gpu/model/map.h"
#include "proto/se3.h"
#include "tests/unit/gpu/fake_gpu.h"

#define INSIDE  0.996
#define OUTSIDE 1.004

struct model {
    int unused;
};

struct relocaliser {
    int unused;
};

struct track {
    int unused;
};

static struct model model;
static struct relocaliser relocaliser;
static struct track track;
static struct gpu_frame newest;
static struct map *map;

// What was asked of them, and what they answer.
static struct model_stats stats;
static uint32_t n_integrated, n_cleared, n_viewed, n_forgotten, n_added, n_stats, n_said, n_finds;
static uint32_t n_relocated, attempt, n_views_set;
static struct se3 T_integrated, T_viewed, T_added, T_relocated, T_view, T_guess, T_expected;
static bool has_guess, wants_view, has_frame, is_found, is_repeat;
static const struct gpu_frame *view_set;
static enum relocalise_trust answer;
static struct se3 T_answer;
static int write_rc, set_rc, relocate_rc, deform_rc;
static uint32_t n_blocks_deformed, n_places_moved, n_freed;
static struct relocalise_keyframe kept[2];
static char said[512];

int model_create(struct model **out, struct gpu *gpu, const struct model_settings *settings)
{
    (void)gpu;
    (void)settings;
    *out = &model;
    return 0;
}

void model_destroy(struct model **m)
{
    *m = NULL;
}

int model_clear(struct model *m)
{
    assert_true(m == &model);
    n_cleared++;
    return 0;
}

int model_integrate(struct model *m, const struct gpu_frame *frame, const struct se3 *T_map_camera)
{
    assert_true(m == &model);
    assert_true(frame == &newest);
    n_integrated++;
    T_integrated = *T_map_camera;
    return 0;
}

int model_view(struct model *m, const struct se3 *T_map_camera, struct gpu_frame *out_frame)
{
    assert_true(m == &model);
    assert_true(out_frame == &fake_frames[0]);
    n_viewed++;
    T_viewed = *T_map_camera;
    return 0;
}

int model_stats_get(struct model *m, struct model_stats *out)
{
    assert_true(m == &model);
    n_stats++;
    *out = stats;
    return 0;
}

int model_read(struct model *m, struct model_block *out, uint32_t room, uint32_t *out_n_blocks)
{
    assert_true(m == &model);
    *out_n_blocks = 2;
    if (room < 2)
        return -ENOBUFS;
    out[0].x = 7;
    out[1].x = 5;
    return 0;
}

void model_order(struct model_block *blocks, uint32_t n_blocks)
{
    (void)n_blocks;
    const struct model_block first = blocks[0];
    blocks[0] = blocks[1];
    blocks[1] = first;
}

int model_write(struct model *m, const struct model_block *blocks, uint32_t n_blocks)
{
    assert_true(m == &model);
    (void)blocks;
    (void)n_blocks;
    return write_rc;
}

uint32_t model_max_blocks(const struct model_settings *settings)
{
    (void)settings;
    return 99;
}

int relocalise_create(struct relocaliser **out, struct gpu *gpu,
                      const struct gpu_align_settings *align)
{
    (void)gpu;
    (void)align;
    *out = &relocaliser;
    return 0;
}

void relocalise_destroy(struct relocaliser **r)
{
    *r = NULL;
}

void relocalise_forget(struct relocaliser *r)
{
    assert_true(r == &relocaliser);
    n_forgotten++;
}

uint32_t relocalise_keyframes(const struct relocaliser *r, const struct relocalise_keyframe **out)
{
    assert_true(r == &relocaliser);
    *out = kept;
    return 2;
}

int relocalise_set(struct relocaliser *r, const struct relocalise_keyframe *keyframes, uint32_t n)
{
    assert_true(r == &relocaliser);
    (void)keyframes;
    (void)n;
    return set_rc;
}

int relocalise_add(struct relocaliser *r, const struct gpu_frame *frame,
                   const struct se3 *T_map_camera)
{
    assert_true(r == &relocaliser);
    assert_true(frame == &newest);
    n_added++;
    T_added = *T_map_camera;
    return 0;
}

int relocalise_find(struct relocaliser *r, struct model *m, const struct gpu_frame *frame,
                    uint32_t n_attempt, const struct se3 *T_map_guess,
                    enum relocalise_trust *out_trust, struct se3 *out_T_map_camera)
{
    assert_true(r == &relocaliser);
    assert_true(m == &model);
    assert_true(frame == &newest);
    n_finds++;
    attempt = n_attempt;
    has_guess = T_map_guess != NULL;
    if (has_guess)
        T_guess = *T_map_guess;
    *out_trust = answer;
    *out_T_map_camera = T_answer;
    return 0;
}

// A look in parts: so many.
static uint32_t n_parts, n_left, n_begun;
static bool is_held;

int relocalise_begin(struct relocaliser *r, const struct gpu_frame *frame, uint32_t n_attempt,
                     const struct se3 *T_map_guess)
{
    assert_true(r == &relocaliser);
    assert_true(frame == &newest);
    n_begun++;
    n_left = n_parts;
    attempt = n_attempt;
    has_guess = T_map_guess != NULL;
    return 0;
}

int relocalise_step(struct relocaliser *r, struct model *m, bool *out_done,
                    enum relocalise_trust *out_trust, struct se3 *out_T_map_camera)
{
    assert_true(r == &relocaliser);
    assert_true(m == &model);
    assert_true(is_held && n_left > 0);
    *out_done = --n_left == 0;
    *out_trust = *out_done ? answer : RELOCALISE_NOT_FOUND;
    *out_T_map_camera = T_answer;
    return 0;
}

void track_hold(struct track *t, bool holds)
{
    (void)t;
    is_held = holds;
}

const struct gpu_frame *track_newest_frame(const struct track *t)
{
    (void)t;
    return has_frame ? &newest : NULL;
}

bool track_is_found(const struct track *t)
{
    (void)t;
    return is_found;
}

bool track_wants_view(const struct track *t)
{
    (void)t;
    return wants_view;
}

int track_relocate(struct track *t, const struct se3 *T_odom_camera)
{
    (void)t;
    n_relocated++;
    T_relocated = *T_odom_camera;
    return relocate_rc;
}

static uint32_t n_relocated_held;

int track_relocate_held(struct track *t, const struct se3 *T_odom_camera)
{
    assert_true(is_held);
    n_relocated_held++;
    return track_relocate(t, T_odom_camera);
}

struct se3 track_expected(const struct track *t)
{
    (void)t;
    return T_expected;
}

void track_set_view(struct track *t, struct gpu_frame *view, const struct se3 *T_odom_view)
{
    (void)t;
    n_views_set++;
    view_set = view;
    if (T_odom_view)
        T_view = *T_odom_view;
}

int deform_blocks(const struct deformation_field *c, float voxel_m, uint32_t max_blocks,
                  struct model_block **blocks, uint32_t *n_blocks)
{
    (void)c;
    (void)blocks;
    assert_true(voxel_m == 0.5f && max_blocks == 99);
    n_blocks_deformed = *n_blocks;
    return deform_rc;
}

void deformation_field_of_places(const struct deformation_field *c, double voxel_m,
                                 struct relocalise_keyframe *keyframes, uint32_t n_keyframes)
{
    (void)c;
    (void)keyframes;
    assert_true(voxel_m == 0.5);
    n_places_moved = n_keyframes;
}

void deformation_field_free(struct deformation_field *c)
{
    n_freed++;
    *c = (struct deformation_field){0};
}

static int fake_answer(int i, const struct fake_call *call, struct gpu_alignment *out)
{
    (void)i;
    (void)call;
    (void)out;
    return 0;
}

static void say(void *user, enum log_level level, const char *text)
{
    (void)user;
    (void)level;
    snprintf(said, sizeof said, "%s", text);
    n_said++;
}

static struct se3 moved(double x_m, double turn_rad)
{
    const double turn[6] = {0, 0, 0, 0, turn_rad, 0};
    struct se3 T = se3_exp(turn);
    T.t_m[0] = x_m;
    return T;
}

static void assert_pose(const struct se3 *got, const struct se3 *expected)
{
    for (int i = 0; i < 9; i++)
        assert_true(fabs(got->r[i] - expected->r[i]) < 1e-9);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(got->t_m[i] - expected->t_m[i]) < 1e-9);
}

static int begin(void **state)
{
    (void)state;
    const struct log_sink log = {say, NULL};
    struct gpu_align_settings align;
    gpu_align_settings_default(&align);
    fake_n_frames = 0;
    memset(&stats, 0, sizeof stats);
    n_integrated = n_cleared = n_viewed = n_forgotten = n_added = n_stats = n_said = n_finds = 0;
    n_relocated = n_views_set = n_blocks_deformed = n_places_moved = 0;
    write_rc = set_rc = relocate_rc = deform_rc = 0;
    n_begun = n_left = n_relocated_held = 0;
    is_held = false;
    wants_view = has_frame = true;
    is_found = is_repeat = false;
    answer = RELOCALISE_NOT_FOUND;
    T_answer = T_expected = moved(0.5, 0.1);
    return map_create(&map, &fake_device, &(struct model_settings){.voxel_m = 0.5f}, &align, &log);
}

static int end(void **state)
{
    (void)state;
    map_destroy(&map);
    return map != NULL;
}

static void follow(enum track_state state, enum track_reason reason, const struct se3 *T,
                   uint32_t epoch)
{
    const struct track_result result = {.state = state,
                                        .reason = reason,
                                        .T_odom_camera = *T,
                                        .map_epoch = epoch,
                                        .is_repeat = is_repeat};
    assert_int_equal(map_follow(map, &track, &result), 0);
}

static void tracked(double x_m)
{
    const struct se3 T = moved(x_m, 0);
    follow(TRACK_STATE_TRACKING, TRACK_REASON_NONE, &T, 1);
}

static void lost_at(enum relocalise_trust trust, double x_m, double turn_rad)
{
    const struct se3 T = se3_identity();
    answer = trust;
    T_answer = moved(x_m, turn_rad);
    follow(TRACK_STATE_LOST, TRACK_REASON_FEW_PAIRS, &T, 1);
}

static void tracked_often(int n)
{
    for (int i = 0; i < n; i++)
        tracked(0);
}

#endif

// SPDX-License-Identifier: Apache-2.0
// The map's decisions: which frames it takes in, when a lost camera and one in a loaded map are
// believed to be found (each limit from both sides), what the tracker sees, what is said when the
// memory is full. Model, relocaliser and tracker are what the test says.
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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
static bool has_guess, wants_view, has_frame;
static const struct gpu_frame *view_set;
static enum relocalise_trust answer;
static struct se3 T_answer;
static int write_rc, set_rc, relocate_rc, deform_rc;
static uint32_t n_blocks_deformed, n_places_moved;
static struct relocalise_keyframe kept[2];

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
    (void)m;
    n_cleared++;
    return 0;
}

int model_integrate(struct model *m, const struct gpu_frame *frame, const struct se3 *T_map_camera)
{
    (void)m;
    assert_true(frame == &newest);
    n_integrated++;
    T_integrated = *T_map_camera;
    return 0;
}

int model_view(struct model *m, const struct se3 *T_map_camera, struct gpu_frame *out_frame)
{
    (void)m;
    assert_true(out_frame == &fake_frames[0]);
    n_viewed++;
    T_viewed = *T_map_camera;
    return 0;
}

int model_stats_get(struct model *m, struct model_stats *out)
{
    (void)m;
    n_stats++;
    *out = stats;
    return 0;
}

int model_read(struct model *m, struct model_block *out, uint32_t room, uint32_t *out_n_blocks)
{
    (void)m;
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
    (void)m;
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
    (void)r;
    n_forgotten++;
}

uint32_t relocalise_keyframes(const struct relocaliser *r, const struct relocalise_keyframe **out)
{
    (void)r;
    *out = kept;
    return 2;
}

int relocalise_set(struct relocaliser *r, const struct relocalise_keyframe *keyframes, uint32_t n)
{
    (void)r;
    (void)keyframes;
    (void)n;
    return set_rc;
}

int relocalise_add(struct relocaliser *r, const struct gpu_frame *frame,
                   const struct se3 *T_map_camera)
{
    (void)r;
    assert_true(frame == &newest);
    n_added++;
    T_added = *T_map_camera;
    return 0;
}

int relocalise_find(struct relocaliser *r, struct model *m, const struct gpu_frame *frame,
                    uint32_t n_attempt, const struct se3 *T_map_guess,
                    enum relocalise_trust *out_trust, struct se3 *out_T_map_camera)
{
    (void)r;
    (void)m;
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

const struct gpu_frame *track_newest_frame(const struct track *t)
{
    (void)t;
    return has_frame ? &newest : NULL;
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
    (void)text;
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
    wants_view = has_frame = true;
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
    const struct track_result result = {
        .state = state, .reason = reason, .T_odom_camera = *T, .map_epoch = epoch};
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

static void frames_that_are_surely_there_are_taken_in(void **state)
{
    (void)state;
    const struct se3 T = moved(0.2, 0.3);
    const struct track_result key = {
        .state = TRACK_STATE_TRACKING, .T_odom_camera = T, .new_keyframe = true, .map_epoch = 1};
    follow(TRACK_STATE_INIT, TRACK_REASON_NO_DEPTH, &T, 1);
    assert_int_equal(n_integrated, 0);
    follow(TRACK_STATE_INIT, TRACK_REASON_FIRST_FRAME, &T, 1);
    assert_int_equal(n_integrated, 1);
    assert_pose(&T_integrated, &T);
    assert_int_equal(n_added, 0);
    follow(TRACK_STATE_DEGRADED, TRACK_REASON_DEGENERATE, &T, 1);
    follow(TRACK_STATE_LOST, TRACK_REASON_FIRST_FRAME, &T, 1);
    assert_int_equal(n_integrated, 1);
    assert_int_equal(map_follow(map, &track, &key), 0);
    assert_int_equal(n_integrated, 2);
    assert_int_equal(n_added, 1);
    assert_pose(&T_added, &T);
    has_frame = false;
    assert_int_equal(map_follow(map, &track, &key), 0);
    assert_int_equal(n_integrated, 2);
    assert_true(map_model(map) == &model);
}

static void what_comes_next_is_seen(void **state)
{
    (void)state;
    tracked(0);
    assert_int_equal(n_viewed, 1);
    assert_true(view_set == &fake_frames[0]);
    assert_pose(&T_viewed, &T_expected);
    assert_pose(&T_view, &T_expected);
    wants_view = false;
    tracked(0);
    assert_int_equal(n_integrated, 2);
    assert_int_equal(n_viewed, 1);
    lost_at(RELOCALISE_SURE, 0, 0);
    assert_int_equal(n_finds, 0);
}

static void an_epoch_is_a_map(void **state)
{
    (void)state;
    const struct se3 T = se3_identity();
    tracked(0);
    assert_int_equal(n_cleared, 1);
    assert_int_equal(n_forgotten, 1);
    assert_int_equal(n_said, 0); // nothing is given up
    tracked(0);
    assert_int_equal(n_cleared, 1);
    follow(TRACK_STATE_TRACKING, TRACK_REASON_NONE, &T, 2);
    assert_int_equal(n_cleared, 2);
    assert_int_equal(n_said, 1);
}

static void a_sure_find_is_believed_at_once(void **state)
{
    (void)state;
    const struct se3 T = moved(0.7, 0.2), here = se3_identity();
    tracked(0);
    lost_at(RELOCALISE_NOT_FOUND, 0, 0);
    lost_at(RELOCALISE_NOT_FOUND, 0, 0);
    assert_int_equal(attempt, 1); // the second
    assert_false(has_guess);
    assert_int_equal(n_relocated, 0);
    lost_at(RELOCALISE_SURE, 0.7, 0.2);
    assert_int_equal(n_relocated, 1);
    assert_pose(&T_relocated, &T);
    assert_int_equal(n_said, 1);
    tracked(0.7);
    lost_at(RELOCALISE_NOT_FOUND, 0, 0);
    assert_int_equal(attempt, 0);
    // Not where there is nothing to see.
    n_finds = 0;
    follow(TRACK_STATE_LOST, TRACK_REASON_NO_DEPTH, &here, 1);
    follow(TRACK_STATE_LOST, TRACK_REASON_DEVICE, &here, 1);
    follow(TRACK_STATE_DEGRADED, TRACK_REASON_FEW_PAIRS, &here, 1);
    assert_int_equal(n_finds, 0);
    relocate_rc = -ENODATA;
    lost_at(RELOCALISE_SURE, 0.7, 0.2);
    assert_int_equal(n_said, 1);
}

// A find that is only fair is tried first with the next frame, and believed the third time, each
// near the one before.
static void fair_finds_are_believed_when_three_agree(void **state)
{
    (void)state;
    const struct se3 first = moved(1, 0.1);
    for (int turns = 0; turns < 2; turns++)
        for (int outside = 0; outside < 2; outside++) {
            const double apart = 0.15 * (outside ? OUTSIDE : INSIDE);
            const double x_m = turns ? 0 : apart, rad = turns ? apart : 0;
            tracked(0);
            n_relocated = 0;
            lost_at(RELOCALISE_FAIR, 1, 0.1);
            assert_false(has_guess);
            lost_at(RELOCALISE_FAIR, 1 + x_m, 0.1 + rad);
            assert_true(has_guess);
            assert_pose(&T_guess, &first);
            assert_int_equal(n_relocated, 0);
            lost_at(RELOCALISE_FAIR, 1 + 2 * x_m, 0.1 + 2 * rad);
            assert_int_equal(n_relocated, outside ? 0 : 1);
        }
    tracked(0);
    n_relocated = 0;
    lost_at(RELOCALISE_FAIR, 1, 0);
    lost_at(RELOCALISE_FAIR, 1, 0);
    lost_at(RELOCALISE_NOT_FOUND, 1, 0);
    lost_at(RELOCALISE_FAIR, 1, 0);
    assert_false(has_guess);
    assert_int_equal(n_relocated, 0);
}

static void load(void)
{
    const struct map_contents contents = {.n_blocks = 1};
    assert_int_equal(map_load(map, &contents), 0);
    assert_true(map_is_loaded(map) && map_is_searching(map));
    map_enter(map, 1);
}

// Five frames: the first of them is looked for, at x_m and turned by turn_rad.
static void searched_at(enum relocalise_trust trust, double x_m, double turn_rad)
{
    answer = trust;
    T_answer = moved(x_m, turn_rad);
    const uint32_t n = n_finds;
    for (int i = 0; i < 5; i++)
        tracked(0.1);
    assert_int_equal(n_finds, n + 1);
}

static void a_loaded_map_is_searched(void **state)
{
    (void)state;
    const struct se3 odom = moved(0.1, 0), found = moved(2, 0.5);
    const struct se3 back = se3_inverse(&odom), T_map_odom = se3_compose(&found, &back);
    load();
    searched_at(RELOCALISE_SURE, 2, 0.5);
    assert_int_equal(attempt, 0);
    searched_at(RELOCALISE_FAIR, 9, 0.5);
    assert_int_equal(attempt, 1);
    searched_at(RELOCALISE_SURE, 2, 0.5);
    assert_false(has_guess);
    assert_int_equal(n_integrated, 0); // the file's still
    assert_true(map_is_searching(map));
    assert_null(view_set);
    searched_at(RELOCALISE_NOT_FOUND, 9, 0.5);
    answer = RELOCALISE_SURE;
    T_answer = found;
    tracked(0.1);
    assert_false(map_is_searching(map));
    assert_int_equal(n_said, 1);
    const struct se3 got = map_T_map_odom(map);
    assert_pose(&got, &T_map_odom);
    // From here it is fused and seen there.
    tracked(0.1);
    assert_int_equal(n_integrated, 1);
    assert_pose(&T_integrated, &found);
    const struct se3 next = se3_compose(&T_map_odom, &T_expected);
    assert_pose(&T_viewed, &next);
    assert_pose(&T_view, &T_expected);
    // A lost one is found in the map and told in odom.
    lost_at(RELOCALISE_SURE, 2, 0.5);
    assert_pose(&T_relocated, &odom);
    // What is lost is not searched for in the meantime.
    const struct se3 none = se3_identity();
    map_enter(map, 2);
    n_finds = 0;
    for (int i = 0; i < 5; i++)
        follow(TRACK_STATE_LOST, TRACK_REASON_FEW_PAIRS, &none, 2);
    assert_int_equal(n_finds, 0);
}

// Three finds that agree, the camera's own motion between them taken out.
static void finds_agree_on_where_odom_lies(void **state)
{
    (void)state;
    for (int turns = 0; turns < 2; turns++)
        for (int outside = 0; outside < 2; outside++) {
            const double apart = 0.03 * (outside ? OUTSIDE : INSIDE);
            const double x_m = turns ? 0 : apart, rad = turns ? apart : 0;
            load();
            for (int i = 0; i < 3; i++) {
                answer = RELOCALISE_SURE;
                T_answer = moved(2 + 0.4 * i + x_m * i, rad * i);
                for (int k = 0; k < 5 && map_is_searching(map); k++)
                    tracked(0.4 * i);
            }
            assert_int_equal(map_is_searching(map), outside);
        }
}

static void a_loaded_map_can_be_given_up(void **state)
{
    (void)state;
    const struct se3 T = se3_identity();
    struct map_contents contents = {0};
    load();
    assert_int_equal(map_read(map, &contents), -EAGAIN);
    assert_true(contents.is_loaded);
    map_enter(map, 1); // the same
    map_give_up(map);
    assert_int_equal(n_said, 1);
    assert_false(map_is_loaded(map) || map_is_searching(map));
    map_give_up(map);
    assert_int_equal(n_said, 1);
    map_enter(map, 5); // no map to search
    assert_false(map_is_searching(map));
    assert_int_equal(map_read(map, &contents), -ENOBUFS);
    assert_true(contents.is_loaded); // still there
    follow(TRACK_STATE_TRACKING, TRACK_REASON_NONE, &T, 5);
    assert_int_equal(n_cleared, 1);
    assert_int_equal(map_read(map, &contents), -ENOBUFS);
    assert_false(contents.is_loaded);
    assert_int_equal(contents.epoch, 5);
}

// The camera that was lost and began anew is looked for again.
static void a_new_epoch_is_searched_again(void **state)
{
    (void)state;
    const struct se3 none = se3_identity();
    load();
    for (int i = 0; i < 3; i++)
        searched_at(RELOCALISE_SURE, 2, 0);
    assert_false(map_is_searching(map));
    map_enter(map, 1);
    assert_false(map_is_searching(map));
    map_enter(map, 2);
    assert_true(map_is_searching(map));
    const struct se3 T = map_T_map_odom(map);
    assert_pose(&T, &none);
    n_finds = 0;
    searched_at(RELOCALISE_SURE, 2, 0);
    searched_at(RELOCALISE_SURE, 2, 0);
    assert_true(map_is_searching(map)); // from one on
}

static void what_does_not_load(void **state)
{
    (void)state;
    struct map_contents contents = {.n_keyframes = RELOCALISE_MAX_KEYFRAMES + 1};
    tracked(0);
    n_forgotten = 0;
    assert_int_equal(map_load(map, &contents), -ENOSPC);
    contents.n_keyframes = RELOCALISE_MAX_KEYFRAMES;
    write_rc = -ENOSPC;
    assert_int_equal(map_load(map, &contents), -ENOSPC);
    assert_int_equal(map_read(map, &contents), -ENOBUFS); // what was there is
    assert_int_equal(n_forgotten, 0);
    write_rc = -EINVAL;
    assert_int_equal(map_load(map, &contents), -EINVAL);
    assert_int_equal(n_forgotten, 1);
    assert_int_equal(map_read(map, &contents), -ENODATA);
    assert_false(map_is_loaded(map) || map_is_searching(map));
}

static void a_copy(void **state)
{
    (void)state;
    struct map_contents contents = {.n_blocks = 80};
    assert_int_equal(map_read(map, &contents), -ENODATA);
    kept[1].T_map_camera = moved(3, 0);
    tracked(0);
    contents.n_blocks = 80;
    assert_int_equal(map_contents_reserve(&contents), 0);
    assert_int_equal(contents.room, 80 + 10 + 256);
    assert_int_equal(map_read(map, &contents), 0);
    assert_int_equal(contents.n_blocks, 2);
    assert_int_equal(contents.n_keyframes, 2);
    assert_true(contents.keyframes[1].T_map_camera.t_m[0] == 3);
    assert_false(contents.is_loaded);
    map_contents_order(&contents);
    assert_int_equal(contents.blocks[0].x, 5);
    const struct model_settings settings = {.voxel_m = 0.5f};
    contents.correction.n = 1;
    deform_rc = -ENOMEM;
    assert_int_equal(map_contents_correct(&contents, &settings), -ENOMEM);
    assert_int_equal(contents.correction.n, 1);
    assert_int_equal(n_places_moved, 0);
    deform_rc = 0;
    assert_int_equal(map_contents_correct(&contents, &settings), 0);
    assert_int_equal(contents.correction.n, 0);
    assert_int_equal(n_blocks_deformed, 2);
    assert_int_equal(n_places_moved, 2);
    map_contents_free(&contents);
    assert_null(contents.blocks);
}

static void tracked_often(int n)
{
    for (int i = 0; i < n; i++)
        tracked(0);
}

// Asked with the first frame and every 32nd; each is said once an epoch.
static void a_full_memory_is_told(void **state)
{
    (void)state;
    const struct se3 T = se3_identity();
    stats.n_refused = 3;
    tracked_often(1);
    assert_int_equal(n_stats, 2); // with the epoch's beginning
    assert_int_equal(n_said, 1);
    tracked_often(64);
    assert_int_equal(n_stats, 2); // said is said
    assert_int_equal(n_said, 1);
    follow(TRACK_STATE_TRACKING, TRACK_REASON_NONE, &T, 2);
    assert_int_equal(n_said, 2); // the epoch
}

// Where blocks can go to the host, only when that has not helped until the next time.
static void a_full_host_is_told_the_second_time(void **state)
{
    (void)state;
    stats.n_refused = stats.max_far = 3;
    tracked_often(32);
    assert_int_equal(n_stats, 2);
    assert_int_equal(n_said, 0);
    stats.n_refused = 0;
    tracked_often(32);
    stats.n_refused = 1;
    tracked_often(32);
    assert_int_equal(n_said, 0);
    tracked_often(1);
    assert_int_equal(n_stats, 5);
    assert_int_equal(n_said, 1);
}

static void what_waits_on_the_host_is_told_once(void **state)
{
    (void)state;
    stats.max_far = 10;
    tracked_often(32);
    assert_int_equal(n_said, 0);
    stats.n_far = 1;
    tracked_often(33);
    assert_int_equal(n_said, 1);
    tracked_often(64);
    assert_int_equal(n_said, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(frames_that_are_surely_there_are_taken_in),
        TEST(what_comes_next_is_seen),
        TEST(an_epoch_is_a_map),
        TEST(a_sure_find_is_believed_at_once),
        TEST(fair_finds_are_believed_when_three_agree),
        TEST(a_loaded_map_is_searched),
        TEST(finds_agree_on_where_odom_lies),
        TEST(a_loaded_map_can_be_given_up),
        TEST(a_new_epoch_is_searched_again),
        TEST(what_does_not_load),
        TEST(a_copy),
        TEST(a_full_memory_is_told),
        TEST(a_full_host_is_told_the_second_time),
        TEST(what_waits_on_the_host_is_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

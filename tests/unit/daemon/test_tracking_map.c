// SPDX-License-Identifier: Apache-2.0
// What the backend makes of keyframes and maps: whose turn a lost frame is, where odom lies in a
// map that was loaded, what the least effort leaves out. On the fakes of fake_device.h and
// fake_map.h.
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/clock_sets.h"
#include "daemon/tracking_map.h"
#include "proto/se3.h"
#include "tests/unit/daemon/fake_device.h"
#include "tests/unit/daemon/fake_map.h"

// With the least effort keyframes still come, so that the map goes on to correct the pose; nobody
// waits for them.
static void the_least_effort_keeps_keyframes(void **state)
{
    (void)state;
    memset(&fake_config, 0, sizeof fake_config);
    fake_config.map_keyframes = 4;
    struct backend *backend = fake_open();
    struct track_result result;
    double moved_m;
    for (enum track_effort effort = TRACK_EFFORT_FULL; effort <= TRACK_EFFORT_LEAST; effort++) {
        const int64_t time_ns = 500 + (int64_t)effort;
        const struct capture_frame frame = {.image = {.depth = fake_depth, .time_ns = time_ns}};
        backend_set_effort(backend, effort, 1000, 900);
        assert_int_equal(backend_track(backend, &frame, true, &result), 0);
        assert_int_equal(backend_fuse(backend, &result, &moved_m), 0);
        assert_int_equal(fake_window.n_followed, effort + 1);
        assert_int_equal(fake_window.look_ns, time_ns);
        assert_int_equal(fake_window.sparing, effort == TRACK_EFFORT_LEAST);
        assert_int_equal(fake_window.until_ns, effort == TRACK_EFFORT_LEAST ? 0 : 1000);
        assert_int_equal(fake_window.look_until_ns, 1000);
    }
    backend_close(&backend);
}

// The least effort takes every fourth frame into the map: keyframes of the tracker among the others
// are told to it.
static void the_least_effort_tells_keyframes_to_the_map(void **state)
{
    (void)state;
    struct track_result result;
    double moved_m;
    memset(&fake_config, 0, sizeof fake_config);
    strcpy(fake_config.map_folder, "maps");
    struct backend *backend = fake_open();
    for (enum track_effort effort = TRACK_EFFORT_FULL; effort <= TRACK_EFFORT_LEAST; effort++) {
        backend_set_effort(backend, effort, 1000, 900);
        fake_map.n_followed = fake_map.n_expected = 0;
        for (unsigned i = 0; i < 8; i++) {
            assert_int_equal(fake_track(backend, &result), 0);
            result.state = TRACK_STATE_TRACKING;
            result.new_keyframe = true;
            assert_int_equal(backend_fuse(backend, &result, &moved_m), 0);
            result.new_keyframe = false;
            assert_int_equal(backend_fuse(backend, &result, &moved_m), 0);
        }
        const unsigned n = effort == TRACK_EFFORT_LEAST ? 2 : 8;
        assert_int_equal(fake_map.n_followed, 2 * n);
        assert_int_equal(fake_map.n_expected, 8 - n);
    }
    backend_close(&backend);
}

// A copy of the map tells which share of its epoch's frames never came to the tracker, not counting
// those from before the start; of a loaded one what the file said, where that is more, also after
// another one that there was no room for.
static void a_map_tells_what_was_dropped(void **state)
{
    (void)state;
    const struct capture_frame late = {.flags = CAPTURE_LATE}, damaged = {.flags = CAPTURE_DAMAGED},
                               early = {.flags = CAPTURE_LATE | CAPTURE_EARLY};
    const struct map_contents saved = {.dropped = 0.75f}, other = {.dropped = 0.5f};
    const struct se3 T = se3_identity();
    struct track_result result;
    struct map_contents copy = {0};
    memset(&fake_config, 0, sizeof fake_config);
    strcpy(fake_config.map_folder, "maps");
    struct backend *backend = fake_open();
    assert_int_equal(backend_track(backend, &early, false, &result), 0);
    assert_int_equal(fake_track(backend, &result), 0);
    assert_int_equal(backend_read_map(backend, &copy), 0);
    assert_true(copy.dropped == 0);
    assert_int_equal(backend_track(backend, &late, false, &result), 0);
    assert_int_equal(backend_track(backend, &damaged, false, &result), 0);
    assert_int_equal(fake_track(backend, &result), 0);
    assert_int_equal(backend_read_map(backend, &copy), 0);
    assert_true(copy.dropped == 0.5f);
    backend_reset(backend, &T);
    assert_int_equal(fake_track(backend, &result), 0);
    assert_int_equal(backend_read_map(backend, &copy), 0);
    assert_true(copy.dropped == 0);
    assert_int_equal(backend_load_map(backend, &fake_source.info.camera, &saved), 0);
    assert_int_equal(fake_track(backend, &result), 0);
    assert_int_equal(backend_read_map(backend, &copy), 0);
    assert_true(copy.dropped == 0.75f);
    fake_map.load_error = -ENOSPC;
    assert_int_equal(backend_load_map(backend, &fake_source.info.camera, &other), -ENOSPC);
    assert_int_equal(fake_track(backend, &result), 0);
    assert_int_equal(backend_read_map(backend, &copy), 0);
    assert_true(copy.dropped == 0.75f);
    backend_close(&backend);
}

// A loaded map is searched with each frame until the next one is due, also with the least effort,
// which takes every fourth into a map that was found. A lost camera is looked for among the
// keyframes and in the map in turn, for longer; where time does not count, in both each time.
static void a_search_has_its_own_time(void **state)
{
    (void)state;
    const struct map_contents contents = {0};
    struct track_result result;
    double moved_m;
    memset(&fake_config, 0, sizeof fake_config);
    fake_config.map_keyframes = 4;
    strcpy(fake_config.map_folder, "maps");
    struct backend *backend = fake_open();
    assert_int_equal(fake_track(backend, &result), 0);
    assert_int_equal(backend_load_map(backend, &fake_source.info.camera, &contents), 0);
    backend_set_effort(backend, TRACK_EFFORT_LEAST, 1000, 900);
    fake_map.stays_hidden = true;
    for (unsigned i = 0; i < 16; i++) {
        fake_map.stays_hidden = i < 7;
        assert_int_equal(fake_track(backend, &result), 0);
        assert_int_equal(backend_fuse(backend, &result, &moved_m), 0);
        assert_true((backend_search_ns(backend) > 0) == (i < 8));
        assert_int_equal(fake_map.until_ns, 900);
    }
    assert_int_equal(fake_map.n_followed, 8 + 2);
    fake_map.n_followed = fake_window.n_looked = 0;
    fake_is_lost = true;
    for (unsigned i = 0; i < 8; i++) {
        if (i == 4)
            backend_set_effort(backend, TRACK_EFFORT_LEAST, INT64_MAX, INT64_MAX);
        assert_int_equal(fake_track(backend, &result), 0);
        assert_int_equal(backend_fuse(backend, &result, &moved_m), 0);
        assert_int_equal(fake_map.until_ns, i < 4 ? 1000 : INT64_MAX);
        assert_int_equal(fake_map.n_followed + fake_window.n_looked, i < 4 ? i + 1 : 2 * i - 2);
        assert_true(backend_search_ns(backend) > 0);
    }
    fake_is_lost = false;
    assert_int_equal(fake_map.n_followed, 6);
    backend_close(&backend);
}

// The tracker is told whether a lost camera can be found: by keyframes, once there are any.
static void who_looks_for_a_lost_camera_is_told(void **state)
{
    (void)state;
    struct track_result result;
    double moved_m;
    memset(&fake_config, 0, sizeof fake_config);
    fake_config.map_keyframes = 4;
    struct backend *backend = fake_open();
    for (unsigned i = 0; i < 2; i++) {
        fake_window.has_any = i > 0;
        assert_int_equal(fake_track(backend, &result), 0);
        assert_int_equal(backend_fuse(backend, &result, &moved_m), 0);
        assert_int_equal(fake_trackers[0].has_map, i > 0);
        assert_int_equal(fake_window.n_looked, i + 1);
    }
    backend_close(&backend);
}

// What enters with a frame that is looked for is told with that frame, as what enters with any.
static void a_result_that_moves_the_camera_is_told(void **state)
{
    (void)state;
    struct track_result result;
    double moved_m;
    memset(&fake_config, 0, sizeof fake_config);
    fake_config.map_keyframes = 4;
    struct backend *backend = fake_open();
    for (int i = 0; i < 4; i++) {
        fake_window.moved_m = i % 2 ? 0.25 : 0;
        fake_window.moved_then_m = i / 2 ? 0.5 : 0;
        assert_int_equal(fake_track(backend, &result), 0);
        assert_int_equal(backend_fuse(backend, &result, &moved_m), 0);
        assert_true(moved_m == (i / 2 ? 0.5 : i % 2 ? 0.25 : 0));
    }
    fake_window.moved_m = fake_window.moved_then_m = 0;
    backend_close(&backend);
}

// Where the map has told the tracker where it is, and no keyframe, the keyframes are told, too.
static void a_find_of_the_map_is_told_the_keyframes(void **state)
{
    (void)state;
    struct track_result result;
    double moved_m;
    memset(&fake_config, 0, sizeof fake_config);
    fake_config.map_keyframes = 4;
    snprintf(fake_config.map_folder, sizeof fake_config.map_folder, "/tmp");
    struct backend *backend = fake_open();
    fake_window.n_told = 0;
    for (int i = 0; i < 4; i++) {
        fake_window.finds = i % 2;
        fake_map.finds = i / 2;
        assert_int_equal(fake_track(backend, &result), 0);
        assert_int_equal(backend_fuse(backend, &result, &moved_m), 0);
        assert_int_equal(fake_window.n_told, i >= 2);
    }
    assert_true(fake_window.told_m == 7);
    assert_int_equal(fake_window.told_ns, fake_window.look_ns);
    fake_map.finds = fake_window.finds = fake_is_found = false;
    backend_close(&backend);
}

static void assert_same(const struct se3 *T, const struct se3 *expected)
{
    for (int i = 0; i < 9; i++)
        assert_true(fabs(T->r[i] - expected->r[i]) < 1e-12);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(T->t_m[i] - expected->t_m[i]) < 1e-12);
}

// Where a lost camera is tried moves odom in the map when it holds, with the first frame that has a
// pose.
static void a_place_that_is_tried_moves_no_map(void **state)
{
    (void)state;
    static const double moved[6] = {0.3, -0.2, 0.1, 0.2, 0.5, -0.4};
    const struct se3 before = se3_identity();
    struct track_result result;
    struct se3 T;
    memset(&fake_config, 0, sizeof fake_config);
    fake_config.map_keyframes = 8;
    struct backend *backend = fake_open();
    assert_int_equal(fake_track(backend, &result), 0);
    fake_window.T_map_odom = se3_exp(moved);
    fake_is_lost = true;
    assert_int_equal(fake_track(backend, &result), 0);
    fake_is_lost = false;
    assert_true(backend_T_map_odom(backend, &T));
    assert_same(&T, &before);
    assert_int_equal(fake_track(backend, &result), 0);
    assert_true(backend_T_map_odom(backend, &T));
    assert_same(&T, &fake_window.T_map_odom);
    backend_close(&backend);
}

// A loaded map finds the camera from odom as it is, wherever the keyframes had odom by then: at
// that moment map -> odom is what the map found, afterwards it moves by what the keyframes move
// alone, and they stand in the loaded map.
static void the_found_frame_is_the_loaded_maps(void **state)
{
    (void)state;
    static const double moved[6] = {0.3, -0.2, 0.1, 0.2, 0.5, -0.4};
    static const double found[6] = {-1.0, 2.0, 0.5, 0.1, -0.7, 1.2};
    static const double later[6] = {0.35, -0.1, 0.1, 0.25, 0.5, -0.3};
    const struct map_contents contents = {0};
    struct track_result result;
    struct graph_keyframe keyframe;
    struct map_contents copy = {0};
    struct se3 T;
    double moved_m;
    memset(&fake_config, 0, sizeof fake_config);
    fake_config.map_keyframes = 8;
    strcpy(fake_config.map_folder, "maps");
    struct backend *backend = fake_open();
    assert_int_equal(fake_track(backend, &result), 0);
    fake_window.T_map_odom = se3_exp(moved);
    fake_window.keyframe.T_map_camera = se3_exp(later);
    assert_int_equal(fake_track(backend, &result), 0);
    assert_true(backend_T_map_odom(backend, &T));
    assert_same(&T, &fake_window.T_map_odom);
    assert_int_equal(backend_read_map(backend, &copy), 0); // goes as its keyframes do
    assert_int_equal(copy.correction.n, 1);
    assert_same(&copy.T_map_odom, &fake_window.T_map_odom);
    map_contents_free(&copy);
    fake_window.epoch = 1; // the keyframes are another epoch's than the map, which is 0
    assert_int_equal(backend_read_map(backend, &copy), 0);
    assert_int_equal(copy.correction.n, 0);
    fake_window.epoch = 0;

    assert_int_equal(backend_load_map(backend, &fake_source.info.camera, &contents), 0);
    assert_true(backend_is_searching(backend) && !backend_T_map_odom(backend, &T));
    assert_int_equal(backend_keyframes(backend, &keyframe, 1), 0);
    fake_map.T_map_odom = se3_exp(found);
    assert_int_equal(fake_track(backend, &result), 0);
    fake_window.moved_m = 0.25; // in a map of which nobody knows where it lies
    assert_int_equal(backend_fuse(backend, &result, &moved_m), 0);
    assert_true(moved_m == 0);
    assert_true(backend_T_map_odom(backend, &T));
    assert_same(&T, &fake_map.T_map_odom);
    assert_int_equal(fake_track(backend, &result), 0);
    assert_int_equal(backend_fuse(backend, &result, &moved_m), 0);
    assert_true(moved_m == 0.25);
    fake_window.moved_m = 0;
    assert_int_equal(backend_read_map(backend, &copy), 0); // stays as it was saved
    assert_int_equal(copy.correction.n, 0);
    assert_same(&copy.T_map_odom, &fake_map.T_map_odom);

    const struct se3 T_odom_own = se3_inverse(&fake_window.T_map_odom);
    const struct se3 T_map_own = se3_compose(&fake_map.T_map_odom, &T_odom_own);
    assert_int_equal(backend_keyframes(backend, &keyframe, 1), 1);
    struct se3 expected = se3_compose(&T_map_own, &fake_window.keyframe.T_map_camera);
    assert_same(&keyframe.T_map_camera, &expected);
    fake_window.T_map_odom = se3_exp(later);
    expected = se3_compose(&T_map_own, &fake_window.T_map_odom);
    assert_int_equal(fake_track(backend, &result), 0);
    assert_true(backend_T_map_odom(backend, &T));
    assert_same(&T, &expected);
    backend_close(&backend);
}

// Where the machine's clock was set, keyframes have the times that their frames had, as often as it
// happens: among themselves their own go on evenly.
static void keyframes_have_their_frames_times(void **state)
{
    (void)state;
    enum { N = 2 * CLOCK_SETS_MAX };
    struct track_result result;
    struct graph_keyframe keyframe;
    memset(&fake_config, 0, sizeof fake_config);
    fake_config.map_keyframes = 4;
    struct backend *backend = fake_open();
    for (int i = 0; i < N; i++) {
        const int64_t set_ns = i < 2 ? 0 : i < 4 ? -5000 : 1000 * i;
        const struct capture_frame frame = {
            .image = {.depth = fake_depth, .time_ns = 10 * i + set_ns}, .clock_set_ns = set_ns};
        assert_int_equal(backend_track(backend, &frame, true, &result), 0);
        for (int k = i < CLOCK_SETS_MAX ? 0 : i - 5; k <= i; k++) {
            const int64_t then_ns = k < 2 ? 0 : k < 4 ? -5000 : 1000 * k;
            fake_window.keyframe.seq = (uint64_t)k;
            fake_window.keyframe.time_ns = 10 * k;
            assert_int_equal(backend_keyframes(backend, &keyframe, 1), 1);
            assert_int_equal(keyframe.time_ns, 10 * k + then_ns);
        }
    }
    backend_close(&backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_search_has_its_own_time),
        cmocka_unit_test(a_place_that_is_tried_moves_no_map),
        cmocka_unit_test(the_least_effort_keeps_keyframes),
        cmocka_unit_test(the_least_effort_tells_keyframes_to_the_map),
        cmocka_unit_test(a_map_tells_what_was_dropped),
        cmocka_unit_test(who_looks_for_a_lost_camera_is_told),
        cmocka_unit_test(a_find_of_the_map_is_told_the_keyframes),
        cmocka_unit_test(a_result_that_moves_the_camera_is_told),
        cmocka_unit_test(the_found_frame_is_the_loaded_maps),
        cmocka_unit_test(keyframes_have_their_frames_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

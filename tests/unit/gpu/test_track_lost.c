// SPDX-License-Identifier: Apache-2.0
// A camera that was not seen for a while, or is lost: what is told of it, what it is believed after
// that, when it starts anew. By answers known in closed form.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/track/covariance.h"
#include "gpu/track/pose_candidates.h"
#include "tests/unit/gpu/fake_camera.h"

// Half a second and five periods without a frame: no velocity, and it is said.
static void a_gap_is_told(void **state)
{
    (void)state;
    static const struct {
        double period, seconds;
        bool gap;
    } cases[] = {{0.03, 0.498, false},
                 {0.03, 0.502, true},
                 {0.12, 0.597, false},
                 {0.12, 0.603, true},
                 {0.2, 0.99, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(TRACK_REFERENCE_PREVIOUS);
        move(0.03, 0, 0, 0, 0, 0);
        frame_after(cases[i].period);
        move(0.03, 0, 0, 0, 0, 0);
        struct track_result out, skipped;
        track_skip(track, now_ns + (int64_t)llround(cases[i].seconds * 1e9), &skipped);
        // On with the speed as far as the gap: there it stays, and does not step back.
        const double gap_s = fmax(0.5, 5 * cases[i].period);
        near(skipped.T_odom_camera.t_m[0],
             0.03 + 0.03 / cases[i].period * fmin(cases[i].seconds, gap_s), 1e-9);
        near(skipped.velocity[0], cases[i].gap ? 0 : 0.03 / cases[i].period, 1e-9);
        assert_true(skipped.is_stale == cases[i].gap);
        out = frame_after(cases[i].seconds);
        assert_false(out.is_stale);
        assert_int_equal(out.state, cases[i].gap ? TRACK_STATE_DEGRADED : TRACK_STATE_TRACKING);
        assert_int_equal(out.reason, cases[i].gap ? TRACK_REASON_TIME_GAP : TRACK_REASON_NONE);
        assert_null(strstr(track_reason_text(out.reason), "no frame")); // a loss is a gap, too
        near(out.velocity[0], cases[i].gap ? 0 : 0.03 / cases[i].seconds, 1e-9);
        near(T_start.t_m[0], cases[i].gap ? 0 : 0.03 / cases[i].period * cases[i].seconds, 1e-9);
        near(track->period_s, cases[i].gap ? cases[i].period : cases[i].seconds, 1e-9);
    }
    // A frame that is lost after it repeats what was told last: odom does not step back for it.
    begin(TRACK_REFERENCE_PREVIOUS);
    move(0.03, 0, 0, 0, 0, 0);
    frame_after(0.03);
    struct track_result told;
    track_skip(track, now_ns + 700000000, &told);
    like.n_pairs = 0;
    struct track_result lost = frame_after(0.73);
    assert_int_equal(lost.state, TRACK_STATE_LOST);
    assert_at(&lost, &told.T_odom_camera);
    track_skip(track, now_ns + 30000000, &lost);
    assert_at(&lost, &told.T_odom_camera);
    like.n_pairs = 8000;
    // The first step has no period before it.
    begin(TRACK_REFERENCE_PREVIOUS);
    move(0.03, 0, 0, 0, 0, 0);
    assert_int_equal(frame_after(0.9).reason, TRACK_REASON_NONE);
}

// The clock of a loss begins anew with a find: what was found in the last moment is not given up
// with the next frame that fails.
static void a_find_gets_all_of_the_time_again(void **state)
{
    (void)state;
    begin(TRACK_REFERENCE_KEYFRAME);
    like.n_pairs = 0;
    for (int i = 0; i < 33; i++) // 0.96 s since the first of them
        assert_int_equal(frame_after(0.03).map_epoch, 0);
    assert_int_equal(track_relocate(track, &truth), 0);
    for (int i = 0; i < 33; i++) {
        assert_int_equal(frame_after(0.03).map_epoch, 0);
        assert_int_equal(track_relocate(track, &truth), 0); // but finds alone are not enough
    }
    assert_int_equal(frame_after(0.03).map_epoch, 1);
}

// A frame that is held stays while others come, and is what the camera goes on from once it is
// placed.
static void a_held_frame_is_placed(void **state)
{
    (void)state;
    begin(TRACK_REFERENCE_KEYFRAME);
    assert_int_equal(track_relocate_held(track, &truth), -ENODATA);
    const uint32_t all = like.n_pairs;
    like.n_pairs = 0;
    frame_after(0.03);
    const struct gpu_frame *held = track_newest_frame(track);
    track_hold(track, true);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(frame_after(0.03).state, TRACK_STATE_LOST);
        assert_ptr_not_equal(track_newest_frame(track), held);
    }
    assert_int_equal(track_relocate_held(track, &truth), 0);
    track_hold(track, false);
    assert_true(track_is_found(track));
    like.n_pairs = all;
    move(0.01, 0, 0, 0, 0, 0);
    assert_int_equal(frame_after(0.03).state, TRACK_STATE_TRACKING);
    const struct gpu_frame *frame, *reference;
    struct se3 T;
    assert_true(track_newest_pair(track, &frame, &reference, &T));
    assert_ptr_equal(reference, held);
    near(T.t_m[0], 0.01, 1e-6);
}

// Where 0.4 of its frame fits a lost camera is not believed; after a find it is, with the next
// frame alone.
static void a_find_is_followed_like_any_frame(void **state)
{
    (void)state;
    begin(TRACK_REFERENCE_KEYFRAME);
    track_set_map(track, true);
    const uint32_t all = like.n_pairs;
    like.n_pairs = 0;
    frame_after(0.03);
    like.n_pairs = like.n_valid_px * 4 / 10;
    assert_int_equal(frame_after(0.03).reason, TRACK_REASON_FEW_PAIRS);
    assert_int_equal(track_relocate(track, &truth), 0);
    // A place that does not hold is not told of: LOST repeats the last valid pose.
    struct se3 place = truth;
    place.t_m[0] += 0.4;
    assert_int_equal(track_relocate(track, &place), 0);
    like.n_pairs = 0;
    const struct track_result lost = frame_after(0.03);
    assert_int_equal(lost.state, TRACK_STATE_LOST);
    assert_int_equal(lost.n_finds, 0);
    near(lost.T_odom_camera.t_m[0], truth.t_m[0], 1e-9);
    like.n_pairs = like.n_valid_px * 4 / 10;
    assert_int_equal(frame_after(0.03).reason, TRACK_REASON_FEW_PAIRS);
    assert_int_equal(track_relocate(track, &truth), 0);
    const struct track_result followed = frame_after(0.03);
    assert_int_equal(followed.state, TRACK_STATE_TRACKING);
    assert_int_equal(followed.n_finds, 3);
    like.n_pairs = all;
}

// A find of a frame from some periods ago, which took so long: what moved since is a guess, so that
// the next frame is believed as a lost one is where there is no map.
static void a_late_find_needs_grounds(void **state)
{
    (void)state;
    begin(TRACK_REFERENCE_KEYFRAME);
    track_set_map(track, true);
    const uint32_t all = like.n_pairs;
    assert_int_equal(frame_after(0.03).state, TRACK_STATE_TRACKING);
    like.n_pairs = 0;
    assert_int_equal(frame_after(0.03).state, TRACK_STATE_LOST);
    assert_int_equal(track_relocate(track, &truth), 0);
    like.n_pairs = like.n_valid_px * 4 / 10;
    assert_int_equal(frame_after(0.2).reason, TRACK_REASON_FEW_PAIRS);
    assert_int_equal(track_relocate(track, &truth), 0);
    like.n_pairs = like.n_valid_px * 6 / 10;
    assert_int_equal(frame_after(0.2).state, TRACK_STATE_TRACKING);
    like.n_pairs = all;
}

// After a gap a direction that the scene does not hold is not taken from before where the camera
// can be looked for.
static void after_a_gap_all_must_be_held(void **state)
{
    (void)state;
    const double y = like.information[7];
    for (int has_map = 0; has_map < 2; has_map++)
        for (int gap = 0; gap < 2; gap++) {
            begin(TRACK_REFERENCE_KEYFRAME);
            track_set_map(track, has_map);
            frame_after(0.03);
            like.information[7] = 0;
            const struct track_result out = frame_after(gap ? 0.51 : 0.49);
            const bool lost = has_map && gap;
            assert_int_equal(out.state, lost ? TRACK_STATE_LOST : TRACK_STATE_DEGRADED);
            assert_int_equal(out.reason, lost ? TRACK_REASON_TIME_GAP : TRACK_REASON_DEGENERATE);
            like.information[7] = y;
        }
}

// Where the first frame will be, it will be for sure: until it has come nothing is known.
static void nothing_is_known_before_the_first_frame(void **state)
{
    (void)state;
    struct track_result skipped;
    begin_with(TRACK_REFERENCE_PREVIOUS);
    track_skip(track, 30000000, &skipped);
    assert_int_equal(skipped.state, TRACK_STATE_INIT);
    assert_int_equal(skipped.reason, TRACK_REASON_DROPPED);
    assert_true(skipped.is_stale);
    for (int i = 0; i < 36; i++) {
        near(skipped.covariance[i], i % 7 ? 0 : POSE_ERROR_LOST, 0);
        near(skipped.error.own[i], i % 7 ? 0 : POSE_ERROR_LOST, 0);
    }
    assert_true(frame_after(0.03).covariance[0] < 1);
    // Nor where it is long after a first one that was the only one.
    track_skip(track, now_ns + 400000000, &skipped);
    assert_false(skipped.is_stale);
    track_skip(track, now_ns + 600000000, &skipped);
    assert_true(skipped.is_stale);
}

static void a_lost_frame_keeps_the_last_pose(void **state)
{
    (void)state;
    begin(TRACK_REFERENCE_PREVIOUS);
    move(0.03, 0, 0, 0, 0, 0);
    frame_after(0.03);
    const struct se3 last = truth;
    move(0.03, 0, 0, 0, 0, 0);
    like.n_pairs = 0;
    struct track_result out = frame_after(0.03), skipped;
    assert_int_equal(out.state, TRACK_STATE_LOST);
    assert_int_equal(out.reason, TRACK_REASON_FEW_PAIRS);
    assert_at(&out, &last);
    for (int i = 0; i < 36; i++)
        near(out.covariance[i], i % 7 ? 0 : POSE_ERROR_LOST, 0);
    for (int i = 0; i < 6; i++)
        near(out.velocity[i], 0, 0);
    near(out.inlier_ratio, 0, 0);
    const struct gpu_frame *a, *b;
    struct se3 T;
    assert_false(track_newest_pair(track, &a, &b, &T));
    assert_true(track_newest_frame(track) != NULL);
    track_skip(track, now_ns + 30000000, &skipped);
    assert_int_equal(skipped.state, TRACK_STATE_LOST);
    uint64_t seq;
    assert_int_equal(track_set_keyframe(track, &seq), -EINVAL);
    // Found again: connected to where it was, without a velocity.
    like.n_pairs = 8000;
    move(0.03, 0, 0, 0, 0, 0);
    out = frame_after(0.03);
    assert_int_equal(out.state, TRACK_STATE_TRACKING);
    assert_at(&out, &truth);
    near(out.velocity[0], 0, 0);
    assert_int_equal(out.map_epoch, 0);
    assert_true(track_newest_pair(track, &a, &b, &T));
    near(T.t_m[0], 0.06, 1e-9);
    // The device fails: said, and the pose stays.
    answer_rc = -EIO;
    now_ns += 30000000;
    assert_int_equal(track_frame(track, &depth, now_ns, &out), -EIO);
    assert_int_equal(out.state, TRACK_STATE_LOST);
    assert_int_equal(out.reason, TRACK_REASON_DEVICE);
    assert_true(track_newest_frame(track) == NULL);
}

// Behind a frame that was dropped that is where it was expected, behind an image that came once
// more the pose that it had: nothing told is taken back.
static void a_lost_frame_repeats_what_was_told_last(void **state)
{
    (void)state;
    for (int is_repeated = 0; is_repeated < 2; is_repeated++) {
        struct track_result told, out;
        begin(TRACK_REFERENCE_KEYFRAME);
        like.n_pairs = 8000;
        move(0.03, 0, 0, 0, 0, 0);
        const struct track_result tracked = frame_after(0.03);
        track_skip(track, now_ns += 30000000, &told);
        near(told.T_odom_camera.t_m[0], tracked.T_odom_camera.t_m[0] + 0.03, 1e-9);
        if (is_repeated)
            assert_int_equal(track_repeat(track, now_ns += 30000000, &told), 0);
        like.n_pairs = 0;
        out = frame_after(0.03);
        assert_int_equal(out.state, TRACK_STATE_LOST);
        assert_at(&out, &told.T_odom_camera);
    }
}

// Ten frames and a second in which it sees, but nothing it knows.
static void it_starts_anew_after_a_while(void **state)
{
    (void)state;
    static const struct {
        double period;
        int frames; // the one that starts anew, counted from the first lost one
    } cases[] = {{0.05, 21}, {0.0999, 12}, {0.10001, 11}, {0.2, 10}, {0.03, 35}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(TRACK_REFERENCE_PREVIOUS);
        move(0.03, 0, 0, 0, 0, 0);
        frame_after(0.03);
        const struct se3 last = truth;
        // Frames without depth do not count.
        like.n_valid_px = 0;
        for (int k = 0; k < 5; k++)
            assert_int_equal(frame_after(1).reason, TRACK_REASON_NO_DEPTH);
        like.n_valid_px = 10000;
        like.n_pairs = 0;
        struct track_result out;
        int n = 0;
        do
            out = frame_after(cases[i].period);
        while (++n < 100 && out.state == TRACK_STATE_LOST);
        // The last frame without depth is the first of the loss.
        assert_int_equal(n, cases[i].frames - 1);
        assert_int_equal(out.state, TRACK_STATE_INIT);
        assert_int_equal(out.map_epoch, 1);
        assert_at(&out, &last);
    }
    move(0.01, 0, 0, 0, 0, 0);
    like.n_pairs = 8000;
    frame_after(0.03);
    const struct gpu_frame *a, *b;
    struct se3 T;
    assert_true(track_newest_pair(track, &a, &b, &T) && a != b);
    track_reset(track, &truth);
    assert_true(track_newest_frame(track) == NULL);
    for (int i = 0; i < 36; i++)
        near(track->error.own[i] + track->error.walk[i] + track->error.drift[i], 0, 0);
    for (int i = 0; i < 6; i++)
        near(track->velocity[i], 0, 0);
    assert_int_equal(frame_after(0.03).map_epoch, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gap_is_told),
        cmocka_unit_test(a_find_gets_all_of_the_time_again),
        cmocka_unit_test(a_find_is_followed_like_any_frame),
        cmocka_unit_test(a_late_find_needs_grounds),
        cmocka_unit_test(a_held_frame_is_placed),
        cmocka_unit_test(after_a_gap_all_must_be_held),
        cmocka_unit_test(nothing_is_known_before_the_first_frame),
        cmocka_unit_test(a_lost_frame_keeps_the_last_pose),
        cmocka_unit_test(a_lost_frame_repeats_what_was_told_last),
        cmocka_unit_test(it_starts_anew_after_a_while),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

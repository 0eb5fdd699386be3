// SPDX-License-Identifier: Apache-2.0
// What the tracker makes of alignments, by answers known in closed form: velocity, averaging of a
// still camera, change of reference, prediction, error. Gaps, loss and restart: test_track_lost.c.
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

// The header's defaults: what a user reads there is what he gets.
static void defaults_are_as_documented(void **state)
{
    (void)state;
    struct track_settings s;
    track_settings_default(&s);
    assert_int_equal(s.reference, TRACK_REFERENCE_KEYFRAME);
    const double got[] = {
        s.min_valid_share,   s.min_pair_ratio,  s.max_step_m, s.max_residual_sigmas,
        s.max_speed_m_s,     s.max_turn_rad_s,  s.restart_s,  s.min_eigenvalue,
        s.hold_std_m,        s.gap_s,           s.still_m,    s.keyframe_distance,
        s.keyframe_turn_rad, s.keyframe_overlap};
    const double expected[] = {0.02,   0.25,   0.005, 6,     6,    8,    1,
                               0.0024, 0.0055, 0.5,   0.002, 0.04, 0.15, 0.75};
    for (size_t i = 0; i < sizeof got / sizeof *got; i++)
        near(got[i], expected[i], 1e-12);
}

// 2 % of the pixels of the finest level that is aligned.
static void the_first_frame_must_see_enough(void **state)
{
    (void)state;
    for (int level = 0; level < 2; level++)
        for (int enough = 0; enough < 2; enough++) {
            struct track_settings settings;
            track_settings_default(&settings);
            if (level)
                settings.align.iterations[0] = 0;
            begin_with(TRACK_REFERENCE_PREVIOUS);
            track_destroy(&track);
            assert_int_equal(track_create(&track, &fake_device, &settings, NULL), 0);
            like.n_valid_px = (uint32_t)((level ? 1536 : 6144) - !enough);
            struct track_result out = frame_after(0.1);
            assert_int_equal(out.state, enough ? TRACK_STATE_INIT : TRACK_STATE_LOST);
            assert_int_equal(out.reason, enough ? TRACK_REASON_FIRST_FRAME : TRACK_REASON_NO_DEPTH);
            assert_int_equal(out.n_valid_px, like.n_valid_px);
            assert_int_equal(out.map_epoch, 0);
            assert_true(out.new_keyframe == enough);
        }
    begin_with(TRACK_REFERENCE_PREVIOUS);
    like.solvable = false;
    struct track_result out = frame_after(0.1);
    assert_int_equal(out.state, TRACK_STATE_LOST);
    near(out.covariance[0], 1e6, 0);
    near(out.covariance[35], POSE_ERROR_LOST, 0);
    near(out.covariance[1], 0, 0);
    like.solvable = true;
    out = frame_after(0.1); // nothing was known: the next one starts
    assert_int_equal(out.state, TRACK_STATE_INIT);
}

static void velocity_is_the_step_over_its_time(void **state)
{
    (void)state;
    begin(TRACK_REFERENCE_PREVIOUS);
    const double step[6] = {0.02, -0.01, 0.03, 0.02, 0.01, -0.03};
    for (int i = 0; i < 3; i++) {
        move(step[0], step[1], step[2], step[3], step[4], step[5]);
        struct track_result out = frame_after(i == 1 ? 0.05 : 0.04);
        assert_int_equal(out.state, TRACK_STATE_TRACKING);
        assert_at(&out, &truth);
        for (int k = 0; k < 6; k++)
            near(out.velocity[k], step[k] / (i == 1 ? 0.05 : 0.04), 1e-6);
        assert_int_equal(out.reference_seq, i);
        assert_true(out.new_keyframe);
        near(out.inlier_ratio, 0.8, 1e-12);
    }
    // A dropped frame is predicted with it.
    struct track_result out;
    memset(&out, 0xff, sizeof out);
    track_skip(track, now_ns + 100000000, &out);
    assert_true(out.residual_rms_m == 0 && out.n_iterations == 0 && out.n_valid_px == 0);
    move(0.1 / 0.04 * step[0], 0.1 / 0.04 * step[1], 0.1 / 0.04 * step[2], 0.1 / 0.04 * step[3],
         0.1 / 0.04 * step[4], 0.1 / 0.04 * step[5]);
    assert_at(&out, &truth);
    assert_int_equal(out.state, TRACK_STATE_DEGRADED);
    assert_int_equal(out.reason, TRACK_REASON_DROPPED);
    const double std_m = 0.5 * 3 * 0.01; // of 3 m/s^2
    double last[36];
    pose_error_total(&track->error, last);
    for (int k = 0; k < 6; k++) {
        const double std = k < 3 ? std_m : std_m / 0.5;
        near(out.covariance[7 * k] - last[7 * k], std * std, 1e-12);
    }
    assert_int_equal(track->T_odom_camera.t_m[0] != out.T_odom_camera.t_m[0], 1);
}

// Without a clock that goes on a frame counts as one period: 1/30 s, then the last.
static void a_clock_that_stands_still_counts_a_period(void **state)
{
    (void)state;
    begin(TRACK_REFERENCE_PREVIOUS);
    move(0.03, 0, 0, 0, 0, 0);
    near(frame_after(0).velocity[0], 0.9, 1e-9);
    move(0.03, 0, 0, 0, 0, 0);
    near(frame_after(0.06).velocity[0], 0.5, 1e-9);
    move(0.03, 0, 0, 0, 0, 0);
    near(frame_after(-1).velocity[0], 0.5, 1e-9);
}

// A still camera averages: 1/2 of the second measurement, 1/3 of the third, up to 1/51.
static void a_still_camera_averages(void **state)
{
    (void)state;
    begin(TRACK_REFERENCE_PREVIOUS);
    const struct se3 origin = truth;
    double at = 0;
    for (int i = 1; i <= 60; i++) {
        truth = origin;
        truth.t_m[0] = at + 2e-4; // a tenth of still_m beyond where the tracker is
        struct track_result out = frame_after(0.03);
        at += 2e-4 / (i < 50 ? i + 1 : 51);
        near(out.T_odom_camera.t_m[0], at, 1e-12);
        assert_false(at < 0.002 && out.new_keyframe);
    }
    // Faster: the cube of the share of still_m, and from still_m on all of it.
    truth.t_m[0] = at + 0.0012;
    struct track_result out = frame_after(0.03);
    near(out.T_odom_camera.t_m[0], at + 0.0012 * 0.216, 1e-9);
    at = out.T_odom_camera.t_m[0];
    truth.t_m[0] = at + 0.00201;
    out = frame_after(0.03);
    near(out.T_odom_camera.t_m[0], at + 0.00201, 1e-12);
    at = out.T_odom_camera.t_m[0];
    truth.t_m[0] = at + 0.001; // and from the beginning: 1/2
    out = frame_after(0.03);
    near(out.T_odom_camera.t_m[0], at + 0.0005, 1e-12);
    // Rotation counts at the scene's distance, 2 m: 0.0009 rad are 0.9 of still_m.
    begin(TRACK_REFERENCE_PREVIOUS);
    move(0, 0, 0, 0, 0, 0.0009);
    out = frame_after(0.03);
    near(se3_angle(&out.T_odom_camera), 0.0009 * 0.729, 1e-9);
    begin(TRACK_REFERENCE_PREVIOUS);
    move(0, 0, 0, 0, 0, 0.00101);
    out = frame_after(0.03);
    near(se3_angle(&out.T_odom_camera), 0.00101, 1e-9);
}

// The reference stays while noise alone may be the motion since it: rotation counts at 2 m.
static void the_reference_changes_with_the_motion(void **state)
{
    (void)state;
    static const struct {
        double x, wz;
        bool changes;
    } cases[] = {{0.00202, 0, true}, {0, 0.00101, true}, {0, 0.0009, false}, {0.0019, 0, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(TRACK_REFERENCE_PREVIOUS);
        move(cases[i].x, 0, 0, 0, 0, cases[i].wz);
        assert_true(frame_after(0.03).new_keyframe == cases[i].changes);
        move(0.02, 0, 0, 0, 0, 0);
        assert_int_equal(frame_after(0.03).reference_seq, cases[i].changes);
    }
    // Small steps: since the reference, not since the last frame.
    begin(TRACK_REFERENCE_PREVIOUS);
    move(0.0019, 0, 0, 0, 0, 0);
    assert_false(frame_after(0.03).new_keyframe);
    move(0.0019, 0, 0, 0, 0, 0);
    assert_true(frame_after(0.03).new_keyframe);
}

// 4 % of the scene's distance (2 m), 0.15 rad, three quarters of the best overlap.
static void a_keyframe_changes_with_the_view(void **state)
{
    (void)state;
    static const struct {
        double x, wz;
        uint32_t n_pairs;
        bool changes;
    } cases[] = {{0.0796, 0, 8000, false}, {0.0804, 0, 8000, true}, {0, 0.1496, 8000, false},
                 {0, 0.1504, 8000, true},  {0, 0, 6001, false},     {0, 0, 5999, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(TRACK_REFERENCE_KEYFRAME);
        move(0.01, 0, 0, 0, 0, 0);
        assert_false(frame_after(0.03).new_keyframe);
        move(cases[i].x - 0.01, 0, 0, 0, 0, cases[i].wz);
        like.n_pairs = cases[i].n_pairs;
        struct track_result out = frame_after(0.03);
        assert_true(out.new_keyframe == cases[i].changes);
        assert_int_equal(out.reference_seq, 0);
    }
    // A new keyframe has an overlap of its own.
    like.n_pairs = 5000;
    assert_false(frame_after(0.03).new_keyframe);
    like.n_pairs = 3749;
    assert_true(frame_after(0.03).new_keyframe);
    // By hand.
    uint64_t seq = 99;
    move(0.01, 0, 0, 0, 0, 0);
    assert_false(frame_after(0.03).new_keyframe);
    assert_int_equal(track_set_keyframe(track, &seq), 0);
    assert_int_equal(seq, 5);
    like.n_pairs = 2600; // and again with an overlap of its own
    assert_false(frame_after(0.03).new_keyframe);
    begin(TRACK_REFERENCE_PREVIOUS);
    assert_int_equal(track_set_keyframe(track, &seq), -EINVAL);
    begin_with(TRACK_REFERENCE_KEYFRAME);
    assert_int_equal(track_set_keyframe(track, &seq), -ENODATA);
}

// Nothing was measured twice: pose, error and speed are those of the image, nothing is aligned, and
// the next step took the time since it came.
static void a_repeated_image_has_the_pose_it_had(void **state)
{
    (void)state;
    begin(TRACK_REFERENCE_KEYFRAME);
    struct track_result first, again;
    assert_int_equal(track_repeat(track, now_ns, &again), -ENODATA); // aligned to nothing
    move(0.02, 0, 0, 0, 0.01, 0);
    first = frame_after(0.03);
    answer_rc = -EIO; // of whoever asks the device
    now_ns += 30000000;
    assert_int_equal(track_repeat(track, now_ns, &again), 0);
    assert_true(!memcmp(&again.T_odom_camera, &first.T_odom_camera, sizeof first.T_odom_camera));
    assert_true(!memcmp(&again.error, &first.error, sizeof first.error));
    assert_true(!memcmp(again.velocity, first.velocity, sizeof first.velocity));
    assert_true(pose_error_is_repeated(&first.T_odom_camera, &first.error, &again.T_odom_camera,
                                       &again.error));
    assert_int_equal(again.state, TRACK_STATE_TRACKING);
    assert_int_equal(again.reference_seq, 0);
    assert_int_equal(again.n_iterations, 0);
    assert_false(again.new_keyframe);
    answer_rc = 0;
    move(0.04, 0, 0, 0, 0.02, 0);
    struct track_result next = frame_after(0.03);
    near(next.velocity[0], first.velocity[0], 1e-3);
    near(next.velocity[4], 0.02 / 0.06, 1e-9);
    uint64_t seq;
    assert_int_equal(track_set_keyframe(track, &seq), 0);
    assert_int_equal(seq, 3); // the repeated one counts
    // An image that stays: the camera stands still.
    for (int i = 1; i <= 20; i++) {
        now_ns += 30000000;
        assert_int_equal(track_repeat(track, now_ns, &again), 0);
        assert_int_equal(again.state, TRACK_STATE_TRACKING);
        assert_true((again.velocity[0] > 0) == (i < 17));
    }
    move(0.01, 0, 0, 0, 0, 0);
    next = frame_after(0.03);
    assert_int_equal(next.reason, TRACK_REASON_NONE);
    near(next.velocity[0], 0.01 / 0.03 / 4, 1e-3); // since the 17th
    // Neither lost frames nor those that were placed otherwise are repeated.
    like.n_pairs = 0;
    assert_int_equal(frame_after(0.03).state, TRACK_STATE_LOST);
    assert_int_equal(track_repeat(track, now_ns, &again), -ENODATA);
    like.n_pairs = 8000;
    assert_int_equal(frame_after(0.03).state, TRACK_STATE_TRACKING);
    assert_int_equal(track_repeat(track, now_ns, &again), 0);
    like.n_pairs = 0;
    assert_int_equal(frame_after(0.03).state, TRACK_STATE_LOST);
    assert_int_equal(track_relocate(track, &truth), 0);
    assert_int_equal(track_repeat(track, now_ns, &again), -ENODATA);
    track_reset(track, &truth);
    assert_int_equal(track_repeat(track, now_ns, &again), -ENODATA);
}

static void what_is_not_held_degrades(void **state)
{
    (void)state;
    begin(TRACK_REFERENCE_PREVIOUS);
    like.information[7] = 0; // y
    like.residual_rms_m = 0.003;
    move(0.01, 0, 0.01, 0, 0, 0.05);
    struct track_result out = frame_after(0.03);
    assert_int_equal(out.state, TRACK_STATE_DEGRADED);
    assert_int_equal(out.reason, TRACK_REASON_DEGENERATE);
    assert_int_equal(out.degenerate_mask, 1 << 1);
    near(out.eigenvalues[0], 0, 1e-12);
    near(out.eigenvalues[5], 1.0 / 3, 1e-12);
    // y may move by 5.5 mm in a thirtieth of a second, as much of the image as half of that at 2 m,
    // and on as a drift does; what is held is as sure as its residual.
    const double unseen_m = 0.0055 * 0.9;
    near(out.error.flow_rad, 0.05 + 0.5 * (sqrt(2e-4) + unseen_m) / 2, 1e-5);
    near(out.error.drift[7] * out.error.flow_rad / (unseen_m * unseen_m), 2 * 0.3, 1e-4);
    near(out.error.walk[7], 0, 1e-9);
    assert_true(out.error.own[0] > 0 && out.error.own[7] < 1e-6);
    for (int i = 0; i < 36; i++)
        near(out.covariance[i], out.error.own[i] + out.error.walk[i] + out.error.drift[i], 1e-15);
}

// Nobody sees at which speed: over a motion that is short it goes on as it was, so that what the
// motion is off by grows with the time. Held again, the pose goes back by all of it at once.
static void what_moved_unseen_is_gone_when_it_is_held_again(void **state)
{
    (void)state;
    begin(TRACK_REFERENCE_KEYFRAME);
    like.residual_rms_m = 1e-4;
    like.information[7] = 0;
    const struct track_result first = frame_after(1.0 / 30);
    struct track_result out = first;
    double between[36];
    for (int i = 0; i < 9; i++)
        out = frame_after(1.0 / 30);
    pose_error_between(&first.T_odom_camera, &first.error, &out.T_odom_camera, &out.error, between);
    near(sqrt(between[7]) / (9 * 0.0055), 1, 0.02);
    assert_false(out.new_keyframe);
    const double walk = out.error.walk[7];
    like.information[7] = like.information[0];
    out = frame_after(1.0 / 30);
    near(sqrt(out.error.walk[7] - walk) / (10 * 0.0055), 1, 1e-3);
    const struct track_result held = out;
    out = frame_after(1.0 / 30);
    near(out.error.walk[7], held.error.walk[7], 1e-9); // once
    near(out.error.drift[7], held.error.drift[7], 1e-12);
}

// Steps that noise may make add nothing to the drift unless they lead on from the reference; larger
// ones do, wherever they lead.
static void a_camera_that_stands_still_does_not_drift(void **state)
{
    (void)state;
    for (int moves = 0; moves < 2; moves++) {
        const double step_m = moves ? 0.02 : 0.0002;
        begin(TRACK_REFERENCE_KEYFRAME);
        like.residual_rms_m = 0.003;
        move(step_m, 0, 0, 0, 0, 0);
        struct track_result out = frame_after(0.03);
        const double first = out.error.drift[0];
        assert_true(first > 0);
        for (int i = 0; i < 10; i++) {
            move(i % 2 ? step_m : -step_m, 0, 0, 0, 0, 0);
            out = frame_after(0.03);
        }
        assert_true(moves ? out.error.drift[0] > 5 * first : out.error.drift[0] < 1.01 * first);
        move(step_m, 0, 0, 0, 0, 0);
        assert_true(frame_after(0.03).error.drift[0] > 1.01 * out.error.drift[0]);
    }
}

// 1/30 s over the root of 12 of its speed, where the residual is not noise alone; no other frame
// errs by it, so that its followers do not inherit it.
static void a_camera_that_moves_errs_by_its_readout(void **state)
{
    (void)state;
    double own[2][2];
    for (int noise = 0; noise < 2; noise++) {
        begin(TRACK_REFERENCE_PREVIOUS);
        like.residual_rms_m = noise ? 1e-4 : 0.003;
        const double share = covariance_excess_share(&like);
        assert_true(noise ? share == 0 : share > 0.5);
        for (int fast = 0; fast < 2; fast++) {
            const double walk = track->error.walk[0], unread = track->own[0];
            move(fast ? 0.04 : 0.02, 0, 0, 0, 0, 0);
            const struct track_result out = frame_after(0.05);
            own[noise][fast] = out.error.own[0];
            const double readout_m = (fast ? 0.8 : 0.4) / (30 * sqrt(12));
            near(out.error.own[0] - track->own[0], share * readout_m * readout_m, 1e-12);
            near(out.error.own[7] - track->own[7], 0, 1e-12);
            near(out.error.walk[0] - walk, unread, 1e-12);
        }
    }
    assert_true(own[0][1] > 3 * own[0][0] && own[1][1] < 1.1 * own[1][0]);
}

// What is aligned to a frame errs by that frame's own error too, once as long as it serves.
static void references_hand_on_their_own_error(void **state)
{
    (void)state;
    struct track_result first, second, third;
    for (int keyframe = 0; keyframe < 2; keyframe++) {
        begin(keyframe ? TRACK_REFERENCE_KEYFRAME : TRACK_REFERENCE_PREVIOUS);
        like.residual_rms_m = 1e-4;
        move(0.01, 0, 0, 0, 0, 0);
        first = frame_after(0.03);
        move(0.01, 0, 0, 0, 0, 0);
        second = frame_after(0.03);
        move(0.01, 0, 0, 0, 0, 0);
        third = frame_after(0.03);
        assert_true(first.error.own[0] > 1e-12);
        near(first.error.walk[0], 0, 0); // the first reference is where odom is
        near(second.error.walk[0], keyframe ? 0 : first.error.own[0], 1e-15);
        near(third.error.walk[0], keyframe ? 0 : first.error.own[0] + second.error.own[0], 1e-15);
    }
    move(0.3, 0, 0, 0, 0, 0);
    first = frame_after(0.1);
    assert_true(first.new_keyframe);
    for (int i = 0; i < 2; i++) {
        move(0.01, 0, 0, 0, 0, 0);
        second = frame_after(0.03);
        near(second.error.walk[0], first.error.own[0], 1e-15);
    }
}

// Half of a second measurement is taken: a quarter of its variance is the step of a walk, and half
// of that is this frame's alone. A step that noise does not explain and that is followed in part is
// lag.
static void a_pose_that_averages_says_how_far_it_may_be_behind(void **state)
{
    (void)state;
    struct track_result out;
    double full[36];
    begin(TRACK_REFERENCE_KEYFRAME);
    like.residual_rms_m = 1e-4;
    move(0.01, 0, 0, 0, 0, 0);
    out = frame_after(0.03);
    assert_true(track->still.n_frames == 0 && out.error.walk[0] == 0 && out.error.own[0] > 0);
    memcpy(full, out.error.own, sizeof full);
    out = frame_after(0.03); // the same place
    assert_int_equal(track->still.n_frames, 1);
    near(out.error.own[0] / full[0], 0.125, 1e-6);
    near(out.error.walk[0] / full[0], 0.25, 1e-6);
    near(out.error.drift[0], 0, 0); // the residual is noise
    const double was_m = out.T_odom_camera.t_m[0];
    move(0.0015, 0, 0, 0, 0, 0); // 40 sigma or so
    out = frame_after(0.03);
    const double behind_m = 0.0115 - out.T_odom_camera.t_m[0];
    assert_true(out.T_odom_camera.t_m[0] > was_m && behind_m > 2e-4);
    assert_true(sqrt(out.error.own[0]) > 0.9 * behind_m && sqrt(out.error.own[0]) < 1.2 * behind_m);
    // Well above noise, the residual makes the drift, by the motion.
    like.residual_rms_m = 0.003;
    move(0.01, 0, 0, 0, 0, 0);
    const double flow_rad = out.error.flow_rad;
    out = frame_after(0.03);
    assert_true(out.error.drift[0] > 0 && out.error.flow_rad > flow_rad);
    const double drift = out.error.drift[0];
    out = frame_after(0.03);
    near(out.error.drift[0] / drift, 1, 1e-9); // at rest it stays
}

static void check_effort(const uint32_t full[3], enum track_effort effort, uint32_t fine,
                         uint32_t middle, uint32_t coarse, uint32_t finest)
{
    const struct gpu_align_settings settings = {.iterations = {full[0], full[1], full[2]},
                                                .gate_distance_m = 0.1f};
    struct gpu_align_settings out;
    effort_align(&settings, effort, &out);
    assert_int_equal(out.iterations[0], fine);
    assert_int_equal(out.iterations[1], middle);
    assert_int_equal(out.iterations[2], coarse);
    assert_int_equal(out.early_stop, effort != TRACK_EFFORT_FULL);
    assert_true(out.gate_distance_m == 0.1f);
    assert_int_equal(effort_finest_level(&out), finest);
}

static void less_effort_leaves_out_the_finest_levels(void **state)
{
    (void)state;
    const uint32_t usual[3] = {10, 5, 4}, fine[3] = {10, 0, 0}, half[3] = {0, 5, 4},
                   coarse[3] = {0, 0, 7}, odd[3] = {3, 0, 20};
    check_effort(usual, TRACK_EFFORT_FULL, 10, 5, 4, 0);
    check_effort(usual, TRACK_EFFORT_HALF, 0, 10, 4, 1);
    check_effort(usual, TRACK_EFFORT_LEAST, 0, 0, 10, 2);
    check_effort(fine, TRACK_EFFORT_HALF, 0, 10, 0, 1);
    check_effort(half, TRACK_EFFORT_HALF, 0, 0, 5, 2);
    check_effort(coarse, TRACK_EFFORT_HALF, 0, 0, 7, 2);
    check_effort(coarse, TRACK_EFFORT_LEAST, 0, 0, 7, 2);
    check_effort(odd, TRACK_EFFORT_LEAST, 0, 0, 20, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_as_documented),
        cmocka_unit_test(the_first_frame_must_see_enough),
        cmocka_unit_test(velocity_is_the_step_over_its_time),
        cmocka_unit_test(a_clock_that_stands_still_counts_a_period),
        cmocka_unit_test(a_still_camera_averages),
        cmocka_unit_test(the_reference_changes_with_the_motion),
        cmocka_unit_test(a_keyframe_changes_with_the_view),
        cmocka_unit_test(a_repeated_image_has_the_pose_it_had),
        cmocka_unit_test(what_is_not_held_degrades),
        cmocka_unit_test(what_moved_unseen_is_gone_when_it_is_held_again),
        cmocka_unit_test(a_camera_that_stands_still_does_not_drift),
        cmocka_unit_test(a_camera_that_moves_errs_by_its_readout),
        cmocka_unit_test(references_hand_on_their_own_error),
        cmocka_unit_test(a_pose_that_averages_says_how_far_it_may_be_behind),
        cmocka_unit_test(less_effort_leaves_out_the_finest_levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

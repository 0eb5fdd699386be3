// SPDX-License-Identifier: Apache-2.0
// What speaks against an alignment, each limit from both sides, and the order in which further
// explanations of a frame are tried.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "gpu/track/motion_prediction.h"
#include "gpu/track/multistart.h"
#include "gpu/track/pose_candidates.h"
#include "gpu/track/verdict.h"
#include "tests/unit/gpu/fake_gpu.h"

static struct track track;
static struct gpu_frame frames[3];
static struct gpu_alignment answers[FAKE_CALLS_MAX];
static int rc_of = -1;

static int fake_answer(int i, const struct fake_call *call, struct gpu_alignment *out)
{
    *out = answers[i];
    // Where a test gives none, the alignment finds the start itself.
    if (out->T_reference_frame.r[0] == 0)
        out->T_reference_frame = call->T_start;
    return i == rc_of ? -EIO : 0;
}

// Starts of the search for others, and what it was asked.
static struct se3 found[MULTISTART_MAX], asked[2];
static int n_found, n_asked, find_rc, n_finds;

int multistart_find(struct gpu *gpu, const struct gpu_frame *frame,
                    const struct gpu_frame *reference, const struct gpu_align_settings *settings,
                    const struct se3 *T_reference_guess, int n_guesses,
                    struct se3 out_T_reference_start[MULTISTART_MAX], int *out_n_starts)
{
    (void)gpu;
    assert_true(frame == &frames[2] && reference == &frames[1]);
    assert_true(settings == &track.align);
    n_finds++;
    n_asked = n_guesses;
    for (int i = 0; i < n_guesses && i < 2; i++)
        asked[i] = T_reference_guess[i];
    for (int i = 0; i < n_found; i++)
        out_T_reference_start[i] = found[i];
    *out_n_starts = n_found;
    return find_rc;
}

static struct se3 pose(double x, double y, double z, double wx, double wy, double wz)
{
    const double twist[6] = {x, y, z, wx, wy, wz};
    return se3_exp(twist);
}

// Slot 0 is the keyframe, 1 the frame before, 2 the newest; limits of round numbers.
static void reset(void)
{
    memset(&track, 0, sizeof track);
    track.gpu = &fake_device;
    track.settings = (struct track_settings){.min_valid_share = 0.02,
                                             .min_pair_ratio = 0.25,
                                             .max_residual_sigmas = 6,
                                             .max_step_m = 0.005,
                                             .max_speed_m_s = 6,
                                             .max_turn_rad_s = 8,
                                             .gap_s = 0.5,
                                             .min_eigenvalue = 0.002};
    for (int i = 0; i < 3; i++)
        track.slots[i] = (struct track_slot){.frame = &frames[i], .filled = true};
    track.slots[0].T_odom_camera = pose(0.3, 0.1, -0.2, 0.2, 0.5, -0.1);
    track.slots[1].T_odom_camera = pose(0.4, 0.2, -0.1, 0.3, 0.4, -0.2);
    track.T_odom_camera = pose(0.41, 0.21, -0.1, 0.3, 0.41, -0.2);
    track.reference = 0;
    track.previous = 1;
    track.newest = 2;
    track.level_px = 100000;
    struct gpu_alignment good = fake_alignment(&track.T_odom_camera);
    memset(&good.T_reference_frame, 0, sizeof good.T_reference_frame);
    for (int i = 0; i < FAKE_CALLS_MAX; i++)
        answers[i] = good;
    rc_of = -1;
    n_found = n_asked = find_rc = n_finds = fake_n_calls = 0;
}

static struct track_candidate explain(double seconds)
{
    struct track_candidate out;
    const uint16_t depth = 0;
    memset(&out, 0, sizeof out);
    fake_n_calls = n_finds = 0;
    assert_int_equal(track_explain(&track, &depth, seconds, &out), 0);
    return out;
}

// What speaks against the last alignment tried, everything else being good.
static enum track_reason reason(void)
{
    return explain(0.1).reason;
}

static void all_answers(void (*change)(struct gpu_alignment *, double), double value)
{
    reset();
    for (int i = 0; i < FAKE_CALLS_MAX; i++)
        change(&answers[i], value);
}

static void set_valid(struct gpu_alignment *a, double value)
{
    a->n_valid_px = (uint32_t)value;
    a->n_pairs = a->n_valid_px / 2;
}
static void set_pairs(struct gpu_alignment *a, double value)
{
    a->n_pairs = (uint32_t)value;
    a->weight_sum = value;
}
static void set_step(struct gpu_alignment *a, double value)
{
    a->step_norm = value;
}
static void set_residual(struct gpu_alignment *a, double value)
{
    a->residual_rms_m = value;
}
static void set_unsolvable(struct gpu_alignment *a, double value)
{
    (void)value;
    a->solvable = false;
}

static void each_limit_is_where_it_is_said(void **state)
{
    (void)state;
    static const struct {
        void (*change)(struct gpu_alignment *, double);
        double passes, fails;
        enum track_reason reason;
    } limits[] = {
        {set_valid, 2000, 1999, TRACK_REASON_NO_DEPTH},
        {set_pairs, 2500, 2499, TRACK_REASON_FEW_PAIRS},
        {set_step, 0.005, 0.00501, TRACK_REASON_NOT_CONVERGED},
        {set_step, 0, NAN, TRACK_REASON_NOT_CONVERGED},
        {set_residual, 0.0071999, 0.0072001, TRACK_REASON_HIGH_RESIDUAL},
        {set_residual, 0, NAN, TRACK_REASON_HIGH_RESIDUAL},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        all_answers(limits[i].change, limits[i].passes);
        assert_int_equal(reason(), TRACK_REASON_NONE);
        all_answers(limits[i].change, limits[i].fails);
        assert_int_equal(reason(), limits[i].reason);
    }
    all_answers(set_unsolvable, 0);
    assert_int_equal(reason(), TRACK_REASON_FEW_PAIRS);
}

// Lost, or after a gap, with a map: the place is taken where 0.65 of the pixels fit. Lost without
// one: where half of them do.
static void a_camera_that_may_be_anywhere_needs_more_pairs(void **state)
{
    (void)state;
    reset();
    struct track_candidate c = {.alignment = answers[0], .T_odom_camera = track.T_odom_camera};
    c.alignment.n_valid_px = 10000;
    track.period_s = 0.1;
    for (int lost = 0; lost < 2; lost++)
        for (int map = 0; map < 2; map++)
            for (int gap = 0; gap < 2; gap++) {
                track.lost = lost;
                const uint32_t least = map && (lost || gap) ? 6500 : lost ? 5000 : 0;
                const double seconds = gap ? 0.51 : 0.49;
                track.has_map = map;
                c.alignment.n_pairs = least + 3000;
                assert_int_equal(verdict_objection(&track, &c, seconds), TRACK_REASON_NONE);
                c.alignment.n_pairs = least > 0 ? least + 10 : 3000;
                assert_int_equal(verdict_objection(&track, &c, seconds), TRACK_REASON_NONE);
                c.alignment.n_pairs = least > 0 ? least - 10 : 3000;
                assert_int_equal(verdict_objection(&track, &c, seconds),
                                 least > 0 ? TRACK_REASON_FEW_PAIRS : TRACK_REASON_NONE);
            }
}

// A recording at one frame a second has no gaps at one second, so that neither its pairs nor its
// directions are asked for more.
static void a_slow_camera_has_no_gaps(void **state)
{
    (void)state;
    reset();
    struct track_candidate c = {.alignment = answers[0], .T_odom_camera = track.T_odom_camera};
    c.alignment.n_valid_px = 10000;
    c.alignment.n_pairs = 6000;
    track.has_map = true;
    for (int slow = 0; slow < 2; slow++) {
        track.period_s = slow ? 1 : 0.1;
        c.conditioning.n_degenerate = 0;
        c.alignment.n_pairs = 6000;
        assert_int_equal(verdict_objection(&track, &c, 1),
                         slow ? TRACK_REASON_NONE : TRACK_REASON_FEW_PAIRS);
        c.conditioning.n_degenerate = 1;
        c.alignment.n_pairs = 9000;
        assert_int_equal(verdict_objection(&track, &c, 1),
                         slow ? TRACK_REASON_NONE : TRACK_REASON_TIME_GAP);
    }
}

// 6 m/s and 8 rad/s, and 0.03 m and rad that noise may do.
static void a_jump_is_what_the_time_does_not_allow(void **state)
{
    (void)state;
    static const struct {
        double seconds, x, wz;
        bool jump;
    } cases[] = {
        {1e-9, 0.0299, 0, false}, {1e-9, 0.0301, 0, true}, {1e-9, 0, 0.0299, false},
        {1e-9, 0, 0.0301, true},  {0.1, 0.628, 0, false},  {0.1, 0.632, 0, true},
        {0.1, 0, 0.827, false},   {0.1, 0, 0.833, true},   {0.2, 1.228, 0, false},
        {0.2, -1.232, 0, true},   {0.2, 0, -1.627, false}, {0.2, 0, -1.633, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reset();
        // Against the last pose, not the reference or the prediction.
        struct se3 step = pose(cases[i].x, 0, 0, 0, 0, cases[i].wz);
        struct se3 T = se3_compose(&track.T_odom_camera, &step);
        track.velocity[1] = 1.5;
        for (int k = 0; k < FAKE_CALLS_MAX; k++)
            answers[k].T_reference_frame = se3_between(&track.slots[k == 2].T_odom_camera, &T);
        struct track_candidate got = explain(cases[i].seconds);
        if (!cases[i].jump)
            assert_int_equal(fake_n_calls, 1);
        assert_int_equal(got.reason, cases[i].jump ? TRACK_REASON_JUMP : TRACK_REASON_NONE);
    }
    reset();
    track.T_odom_camera.t_m[0] = NAN;
    assert_int_equal(reason(), TRACK_REASON_JUMP);
}

static void assert_pose(const struct se3 *got, const struct se3 *expected)
{
    for (int i = 0; i < 9; i++)
        assert_true(fabs(got->r[i] - expected->r[i]) < 1e-9);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(got->t_m[i] - expected->t_m[i]) < 1e-9);
}

static void the_prediction_goes_on_as_the_camera_did(void **state)
{
    (void)state;
    reset();
    const double velocity[6] = {0.5, -0.2, 0.1, 0.3, 0.4, -0.6};
    double twist[6];
    memcpy(track.velocity, velocity, sizeof velocity);
    for (int i = 0; i < 6; i++)
        twist[i] = 0.2 * velocity[i];
    struct se3 step = se3_exp(twist), expected = se3_compose(&track.T_odom_camera, &step);
    struct se3 got = track_predict(&track, 0.2);
    assert_pose(&got, &expected);
    // The first start, in the reference's frame; the answer comes back in odom's.
    struct track_candidate c = explain(0.2);
    struct se3 start = se3_between(&track.slots[0].T_odom_camera, &expected);
    assert_int_equal(fake_n_calls, 1);
    assert_true(fake_calls[0].prepares && fake_calls[0].frame == &frames[2]);
    assert_true(fake_calls[0].reference == &frames[0]);
    assert_pose(&fake_calls[0].T_start, &start);
    assert_pose(&c.T_odom_camera, &expected);
    assert_true(c.reference == &track.slots[0]);
}

// A direction without information stays at the prediction.
static void what_is_not_held_follows_the_prediction(void **state)
{
    (void)state;
    reset();
    track.velocity[2] = 0.5;
    struct se3 predicted = track_predict(&track, 0.1);
    struct se3 start = se3_between(&track.slots[0].T_odom_camera, &predicted);
    struct se3 step = pose(0.01, 0.02, 0, 0, 0, 0);
    answers[0].T_reference_frame = se3_compose(&step, &start);
    answers[0].information[0] = 0; // x
    struct track_candidate c = explain(0.1);
    assert_int_equal(c.conditioning.n_degenerate, 1);
    step = pose(0, 0.02, 0, 0, 0, 0);
    struct se3 held = se3_compose(&step, &start);
    struct se3 expected = se3_compose(&track.slots[0].T_odom_camera, &held);
    assert_pose(&c.T_odom_camera, &expected);
}

static void assert_call(int i, int slot, const struct se3 *T_odom_start)
{
    struct se3 start = se3_between(&track.slots[slot].T_odom_camera, T_odom_start);
    assert_true(fake_calls[i].reference == &frames[slot] && fake_calls[i].frame == &frames[2]);
    assert_true(fake_calls[i].prepares == (i == 0));
    assert_pose(&fake_calls[i].T_start, &start);
}

// Keyframe from the prediction, keyframe from the last pose, the frame before from the last pose,
// then the starts that a search finds.
static void further_starts_are_tried_in_turn(void **state)
{
    (void)state;
    reset();
    track.velocity[0] = 0.7;
    for (int i = 0; i < FAKE_CALLS_MAX; i++)
        answers[i].n_pairs = 0;
    n_found = 2;
    found[0] = pose(0.01, 0, 0, 0, 0, 0.02);
    found[1] = pose(0, 0.03, 0, 0.01, 0, 0);
    struct track_candidate c = explain(0.1);
    struct se3 predicted = track_predict(&track, 0.1);
    assert_int_equal(c.reason, TRACK_REASON_FEW_PAIRS);
    assert_int_equal(fake_n_calls, 5);
    assert_call(0, 0, &predicted);
    assert_call(1, 0, &track.T_odom_camera);
    assert_call(2, 1, &track.T_odom_camera);
    for (int i = 0; i < 2; i++) {
        struct se3 start = se3_compose(&track.slots[1].T_odom_camera, &found[i]);
        assert_call(3 + i, 1, &start);
    }
    assert_int_equal(n_finds, 1);
    assert_int_equal(n_asked, 2);
    struct se3 guess = se3_between(&track.slots[1].T_odom_camera, &predicted);
    assert_pose(&asked[0], &guess);
    guess = se3_between(&track.slots[1].T_odom_camera, &track.T_odom_camera);
    assert_pose(&asked[1], &guess);
    // The first that convinces ends it.
    for (int convincing = 0; convincing < 5; convincing++) {
        for (int i = 0; i < 5; i++) {
            answers[i].n_pairs = i == convincing ? 8000 : 0;
            answers[i].stage_us[GPU_STAGE_FILTER] = (float)(i + 1);
        }
        c = explain(0.1);
        assert_int_equal(fake_n_calls, convincing + 1);
        assert_int_equal(n_finds, convincing > 2);
        assert_int_equal(c.reason, TRACK_REASON_NONE);
        assert_true(c.reference == &track.slots[convincing > 1]);
        assert_true(c.alignment.stage_us[GPU_STAGE_FILTER] == 1); // of the first: it prepared
    }
    // The frame before is the reference itself: not twice.
    reset();
    track.reference = 1;
    answers[0].n_pairs = answers[1].n_pairs = answers[2].n_pairs = 0;
    explain(0.1);
    assert_int_equal(fake_n_calls, 2);
    assert_int_equal(n_finds, 1);
}

static void without_depth_nothing_else_is_tried(void **state)
{
    (void)state;
    reset();
    answers[0].n_valid_px = 10;
    assert_int_equal(explain(0.1).reason, TRACK_REASON_NO_DEPTH);
    assert_int_equal(fake_n_calls, 1);
}

// A wall lets each start slide: all are tried when the directions begin to be unheld, one from then
// on. Where something speaks against that one, or the camera may be anywhere, all are again.
static void a_wall_that_goes_on_is_tried_once(void **state)
{
    (void)state;
    reset();
    for (int i = 0; i < FAKE_CALLS_MAX; i++) {
        answers[i].information[0] = 0; // x
        answers[i].converged = false;
        answers[i].step_norm = 0.002;
    }
    assert_int_equal(explain(0.1).conditioning.n_degenerate, 1);
    assert_int_equal(fake_n_calls, 3);
    assert_int_equal(n_finds, 1);
    track.unheld_s = 0.1;
    assert_int_equal(explain(0.1).reason, TRACK_REASON_NONE);
    assert_int_equal(fake_n_calls, 1);
    assert_int_equal(n_finds, 0);
    track.lost = true;
    explain(0.1);
    assert_int_equal(n_finds, 1);
    track.lost = false;
    explain(0.51); // a gap
    assert_int_equal(n_finds, 1);
    for (int i = 0; i < FAKE_CALLS_MAX; i++)
        answers[i].step_norm = 1;
    assert_int_equal(explain(0.1).reason, TRACK_REASON_NOT_CONVERGED);
    assert_int_equal(n_finds, 1);
    // All is held again, but the alignment did not arrive: others are tried.
    for (int i = 0; i < FAKE_CALLS_MAX; i++) {
        answers[i].information[0] = answers[i].information[7];
        answers[i].step_norm = 0.002;
    }
    assert_int_equal(explain(0.1).conditioning.n_degenerate, 0);
    assert_int_equal(n_finds, 1);
}

// A map's view that leaves a direction free is not all there is: the keyframe may hold it.
static void a_view_that_holds_less_than_the_keyframe_yields(void **state)
{
    (void)state;
    static struct gpu_frame view;
    reset();
    track.view = (struct track_slot){
        .frame = &view, .filled = true, .T_odom_camera = track.slots[0].T_odom_camera};
    assert_true(explain(0.1).reference == &track.view);
    assert_int_equal(fake_n_calls, 1);
    answers[0].information[0] = 0; // x
    answers[0].stage_us[GPU_STAGE_FILTER] = 3;
    answers[1].converged = false; // it holds more, though it has not arrived
    struct se3 predicted = track_predict(&track, 0.1);
    struct track_candidate c = explain(0.1);
    assert_int_equal(fake_n_calls, 3); // it goes on where it is
    assert_call(1, 0, &predicted);
    assert_call(2, 0, &c.T_odom_camera);
    assert_true(c.reference == &track.slots[0]);
    assert_int_equal(c.conditioning.n_degenerate, 0);
    assert_true(c.alignment.stage_us[GPU_STAGE_FILTER] == 3); // of the first: it prepared
    // A keyframe that holds no more, or against which something speaks, does not help.
    answers[1].information[0] = 0;
    assert_true(explain(0.1).reference == &track.view);
    answers[1].information[0] = answers[1].information[7];
    answers[1].n_pairs = 0;
    assert_true(explain(0.1).reference == &track.view);
    rc_of = 1;
    fake_n_calls = 0;
    const uint16_t depth = 0;
    assert_int_equal(track_explain(&track, &depth, 0.1, &c), -EIO);
}

// Used-up iterations convince nobody, but are better than an objection.
static void the_better_one_is_kept(void **state)
{
    (void)state;
    reset();
    for (int i = 0; i < 5; i++) {
        answers[i].converged = false;
        answers[i].step_norm = 0.00011;
        answers[i].n_iterations[0] = (uint32_t)i;
    }
    struct track_candidate c = explain(0.1);
    assert_int_equal(fake_n_calls, 3);
    assert_int_equal(c.reason, TRACK_REASON_NONE);
    assert_int_equal(c.alignment.n_iterations[0], 0); // the first of equal ones
    answers[0].step_norm = 1;
    c = explain(0.1);
    assert_int_equal(c.alignment.n_iterations[0], 1);
    answers[2].converged = true;
    c = explain(0.1);
    assert_int_equal(c.alignment.n_iterations[0], 2);
    // Objections to all: the first stays.
    answers[2].step_norm = answers[1].step_norm = 1;
    answers[1].n_valid_px = 0;
    c = explain(0.1);
    assert_int_equal(c.alignment.n_iterations[0], 0);
    assert_int_equal(c.reason, TRACK_REASON_NOT_CONVERGED);
}

// Used-up iterations whose last step was small: on from there, against the same reference, and
// nothing else.
static void what_nearly_arrived_goes_on(void **state)
{
    (void)state;
    reset();
    track.velocity[0] = 0.7;
    struct se3 step = pose(0.01, 0.02, 0, 0.01, 0, 0);
    struct se3 T = se3_compose(&track.T_odom_camera, &step);
    answers[0].T_reference_frame = se3_between(&track.slots[0].T_odom_camera, &T);
    answers[0].converged = false;
    answers[0].step_norm = 0.000099;
    answers[1].n_iterations[0] = 7;
    struct track_candidate c = explain(0.1);
    assert_int_equal(fake_n_calls, 2);
    assert_call(1, 0, &T);
    assert_int_equal(c.alignment.n_iterations[0], 7);
    // Wherever it stands after that, it is not looked for; an objection to it leaves the first.
    answers[1].converged = false;
    explain(0.1);
    assert_int_equal(fake_n_calls, 2);
    answers[1].n_pairs = 0;
    c = explain(0.1);
    assert_int_equal(fake_n_calls, 2);
    assert_int_equal(c.reason, TRACK_REASON_NONE);
    assert_int_equal(c.alignment.n_iterations[0], 0);
    // With an objection to it, it is elsewhere.
    answers[0].residual_rms_m = 1;
    explain(0.1);
    assert_int_equal(fake_n_calls, 3);
    assert_call(1, 0, &track.T_odom_camera);
}

static void a_failing_device_is_told(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct track_candidate out;
        const uint16_t depth = 0;
        reset();
        n_found = 2;
        for (int k = 0; k < 5; k++)
            answers[k].n_pairs = 0;
        rc_of = i;
        assert_int_equal(track_explain(&track, &depth, 0.1, &out), -EIO);
        assert_int_equal(fake_n_calls, i + 1);
    }
    reset();
    find_rc = -EIO;
    n_found = 2;
    answers[0].n_pairs = answers[1].n_pairs = answers[2].n_pairs = 0;
    struct track_candidate out;
    const uint16_t depth = 0;
    assert_int_equal(track_explain(&track, &depth, 0.1, &out), -EIO);
    assert_int_equal(fake_n_calls, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_limit_is_where_it_is_said),
        cmocka_unit_test(a_camera_that_may_be_anywhere_needs_more_pairs),
        cmocka_unit_test(a_slow_camera_has_no_gaps),
        cmocka_unit_test(a_jump_is_what_the_time_does_not_allow),
        cmocka_unit_test(the_prediction_goes_on_as_the_camera_did),
        cmocka_unit_test(what_is_not_held_follows_the_prediction),
        cmocka_unit_test(further_starts_are_tried_in_turn),
        cmocka_unit_test(without_depth_nothing_else_is_tried),
        cmocka_unit_test(a_wall_that_goes_on_is_tried_once),
        cmocka_unit_test(a_view_that_holds_less_than_the_keyframe_yields),
        cmocka_unit_test(the_better_one_is_kept),
        cmocka_unit_test(what_nearly_arrived_goes_on),
        cmocka_unit_test(a_failing_device_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

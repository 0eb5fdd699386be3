// SPDX-License-Identifier: Apache-2.0
// The rig frame by frame, with numbers that can be told beforehand: which cameras a pose is made
// of, and its covariance, of cameras that stand still or go along one axis.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "proto/rig_fusion.h"
#include "proto/se3.h"

#define MS    INT64_C(1000000)
#define FRAME (40 * MS)

static struct rig *rig;
static struct rig_result result;

static int begin(uint32_t n, bool patient, double x_of_second_m)
{
    struct se3 places[RIG_MAX_CAMERAS];
    for (uint32_t i = 0; i < n; i++)
        places[i] = se3_identity();
    if (n > 1)
        places[1].t_m[0] = x_of_second_m;
    memset(&result, 0, sizeof result);
    return rig_create(&rig, places, n, patient);
}

static struct rig_sight sight(int64_t time_ns, double x_m)
{
    struct rig_sight s = {
        .time_ns = time_ns, .T_odom_camera = se3_identity(), .quality = RIG_TRACKED};
    s.T_odom_camera.t_m[0] = x_m;
    return s;
}

static void put(uint32_t camera, const struct rig_sight *s)
{
    rig_put(rig, camera, s);
}

static void next_at(int64_t time_ns, uint32_t n_used)
{
    assert_true(rig_next(rig, &result));
    assert_true(result.time_ns == time_ns);
    assert_int_equal(result.n_used, n_used);
}

static bool near(double a, double b, double share)
{
    return fabs(a - b) <= share * fabs(b);
}

// The second camera has sights before and behind the first one's frame; what it says in between.
static void between_two_sights(void **state)
{
    (void)state;
    static const struct {
        int64_t gap_ns;
        enum rig_quality before, behind;
        uint32_t n_used;
    } cases[] = {
        {150 * MS, RIG_TRACKED, RIG_TRACKED, 2},     {150 * MS + 1, RIG_TRACKED, RIG_TRACKED, 1},
        {100 * MS, RIG_PREDICTED, RIG_TRACKED, 1},   {100 * MS, RIG_TRACKED, RIG_PREDICTED, 1},
        {100 * MS, RIG_LOST, RIG_TRACKED, 1},        {100 * MS, RIG_TRACKED, RIG_LOST, 1},
        {100 * MS, RIG_PREDICTED, RIG_PREDICTED, 1}, {100 * MS, RIG_TRACKED, RIG_TRACKED, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(begin(2, true, 0.3), 0);
        struct rig_sight s = sight(0, 0);
        put(0, &s);
        s = sight(0, 5); // an odom of its own
        put(1, &s);
        next_at(0, 2);
        // The first camera's frame lies in the middle of the second one's two.
        s = sight(200 * MS, 0.2);
        put(0, &s);
        s = sight(200 * MS - cases[i].gap_ns / 2, 5.2 - 1e-12 * (double)cases[i].gap_ns / 2e3);
        s.quality = cases[i].before;
        put(1, &s);
        s = sight(200 * MS - cases[i].gap_ns / 2 + cases[i].gap_ns, 5.2);
        s.quality = cases[i].behind;
        put(1, &s);
        next_at(200 * MS, cases[i].n_used);
        assert_int_equal(result.quality, RIG_TRACKED);
        rig_destroy(&rig);
    }
}

// Nothing ties two epochs, nor odom before a find and behind it: a pose between them is none, and
// nothing is built on it.
static void between_two_odoms(bool is_find)
{
    assert_int_equal(begin(2, true, 0), 0);
    for (int i = 0; i < 3; i++) {
        struct rig_sight s = sight(i * FRAME, 0.1 * i);
        put(0, &s);
        s = sight(i * FRAME + FRAME / 2, i == 2 ? 70 : 0.1 * i + 0.05);
        *(is_find ? &s.n_finds : &s.epoch) = i == 2;
        put(1, &s);
    }
    struct rig_sight s = sight(3 * FRAME, 0.3);
    put(0, &s);
    s = sight(3 * FRAME + FRAME / 2, 70.1);
    *(is_find ? &s.n_finds : &s.epoch) = 1;
    put(1, &s);
    next_at(0, 1);
    next_at(FRAME, 1); // its first: not anchored before
    next_at(2 * FRAME, 1);
    assert_true(fabs(result.T_odom_base.t_m[0] - 0.2) < 1e-9);
    next_at(3 * FRAME, 1);
    assert_true(fabs(result.T_odom_base.t_m[0] - 0.3) < 1e-9);
    for (int i = 4; i < 6; i++) {
        s = sight(i * FRAME, 0.1 * i);
        put(0, &s);
        s = sight(i * FRAME + FRAME / 2, 70 + 0.1 * (i - 2));
        *(is_find ? &s.n_finds : &s.epoch) = 1;
        put(1, &s);
        next_at(i * FRAME, 2);
        assert_true(fabs(result.T_odom_base.t_m[0] - 0.1 * i) < 1e-9);
    }
    rig_destroy(&rig);
}

static void between_two_epochs(void **state)
{
    (void)state;
    between_two_odoms(false);
}

static void between_two_finds(void **state)
{
    (void)state;
    between_two_odoms(true);
}

static void stamps_that_do_not_grow(void **state)
{
    (void)state;
    assert_int_equal(begin(1, true, 0), 0);
    struct rig_sight s = sight(0, 0);
    put(0, &s);
    s = sight(FRAME, 1);
    put(0, &s);
    s = sight(FRAME, 2); // the same once more
    put(0, &s);
    s = sight(FRAME - 1, 3);
    put(0, &s);
    next_at(0, 1);
    next_at(FRAME, 1);
    assert_true(fabs(result.T_odom_base.t_m[0] - 1) < 1e-9);
    assert_false(rig_next(rig, &result));
    rig_destroy(&rig);
}

// Of both cameras, one after the other: the rig goes on by the new time, in a new epoch.
static void a_clock_that_is_set_back(void **state)
{
    (void)state;
    const int64_t back_ns[] = {850000000, INT64_C(3600000000000)};
    for (int k = 0; k < 2; k++) {
        assert_int_equal(begin(2, false, 0), 0);
        int64_t now_ns = 0, last_ns = INT64_MIN;
        int n_after = 0;
        for (int i = 0; i < 200; i++) {
            for (uint32_t c = 0; c < 2; c++) {
                now_ns = i * FRAME + c * FRAME / 3 - (i >= 100 ? back_ns[k] : 0);
                struct rig_sight s = sight(now_ns, 0.01 * i);
                s.epoch = i >= 100;
                put(c, &s);
                while (rig_next(rig, &result)) {
                    if (i < 102)
                        continue;
                    assert_true(n_after++ == 0 || result.time_ns > last_ns);
                    last_ns = result.time_ns;
                    assert_int_equal(result.quality, RIG_TRACKED);
                }
            }
        }
        assert_true(n_after > 95);
        assert_true(now_ns - last_ns < 2 * FRAME);
        assert_true(result.epoch > 0 && result.n_used == 2);
        rig_destroy(&rig);
    }
}

// One that runs ahead: the newest RIG_MAX_AHEAD are kept.
static void the_oldest_is_forgotten(void **state)
{
    (void)state;
    assert_int_equal(begin(2, true, 0), 0);
    const int n = RIG_MAX_AHEAD + 13;
    for (int i = 0; i < n; i++) {
        struct rig_sight s = sight(i * FRAME, 0.01 * i);
        put(0, &s);
    }
    assert_false(rig_next(rig, &result));
    assert_true(rig_ahead_ns(rig, 0) == (RIG_MAX_AHEAD - 1) * FRAME);
    rig_end(rig, 1);
    for (int i = 13; i < n; i++) {
        next_at(i * FRAME, 1);
        assert_true(fabs(result.T_odom_base.t_m[0] - 0.01 * (i - 13)) < 1e-9);
    }
    assert_false(rig_next(rig, &result));
    rig_destroy(&rig);
}

// The first camera drops frames when the second one comes: for half a second the rig goes on by
// what is predicted, in its epoch, and the second one's map is not laid by that.
static void dropped_frames_begin_no_epoch(void **state)
{
    (void)state;
    for (int for_long = 0; for_long < 2; for_long++) {
        assert_int_equal(begin(2, true, 0), 0);
        const int back = for_long ? 20 : 4;
        for (int i = 0; i < 20; i++) {
            const bool is_dropped = i >= 2 && i < back;
            struct rig_sight s = sight(i * FRAME, 0.01 * i + (is_dropped ? 0.003 : 0));
            s.quality = is_dropped ? RIG_PREDICTED : RIG_TRACKED;
            put(0, &s);
            s = sight(i * FRAME, 7 + 0.01 * i);
            s.quality = i < 2 ? RIG_LOST : RIG_TRACKED;
            s.T_map_odom = se3_identity();
            s.has_map = true;
            put(1, &s);
            const bool has_begun = is_dropped && (i - 1) * FRAME >= 500 * MS;
            next_at(i * FRAME, i > back && !is_dropped ? 2 : 1);
            assert_int_equal(result.epoch, has_begun);
            assert_int_equal(result.quality,
                             is_dropped && !has_begun ? RIG_PREDICTED : RIG_TRACKED);
            assert_int_equal(result.has_map, has_begun || (i >= back && !for_long));
            if (!is_dropped)
                assert_true(fabs(result.T_odom_base.t_m[0] - 0.01 * i) < 1e-9);
        }
        rig_destroy(&rig);
    }
}

// The other one is found, 4 cm from where its map had it, with the very frame that the first one
// drops: the rig does not jump there.
static void a_find_beside_a_dropped_frame_moves_nothing(void **state)
{
    (void)state;
    assert_int_equal(begin(2, true, 0), 0);
    for (int i = 0; i < 20; i++) {
        struct rig_sight s = sight(i * FRAME, 0.01 * i);
        s.quality = i == 10 ? RIG_PREDICTED : RIG_TRACKED;
        s.T_map_odom = se3_identity();
        s.has_map = true;
        put(0, &s);
        s = sight(i * FRAME, 0.01 * i + (i >= 10 ? 0.04 : 0));
        s.quality = i >= 2 && i < 10 ? RIG_LOST : RIG_TRACKED;
        s.T_map_odom = se3_identity();
        s.has_map = true;
        s.n_finds = i >= 10;
        put(1, &s);
        next_at(i * FRAME, i < 2 || i > 11 ? 2 : 1);
        assert_int_equal(result.quality, i == 10 ? RIG_PREDICTED : RIG_TRACKED);
        assert_int_equal(result.epoch, 0);
        assert_true(fabs(result.T_odom_base.t_m[0] - 0.01 * i) < 1e-9);
    }
    rig_destroy(&rig);
}

static void lost_is_anywhere(void **state)
{
    (void)state;
    assert_int_equal(begin(1, true, 0), 0);
    struct rig_sight s = sight(0, 0);
    put(0, &s);
    next_at(0, 1);
    s = sight(FRAME, 0);
    s.quality = RIG_LOST;
    put(0, &s);
    next_at(FRAME, 0);
    assert_int_equal(result.quality, RIG_LOST);
    for (int i = 0; i < 36; i++)
        assert_true(result.covariance[i] == (i / 6 == i % 6 ? POSE_ERROR_LOST : 0));
    rig_destroy(&rig);
}

// The noise of the frames comes on top; of two cameras alike half of it.
static void noise_of_frames(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 2; n++) {
        assert_int_equal(begin(n, true, 0), 0);
        for (int i = 0; i < 2; i++) {
            for (uint32_t c = 0; c < n; c++) {
                struct rig_sight s = sight(i * FRAME, 0);
                for (int k = 0; k < 6; k++)
                    s.error.own[7 * k] = 1e-2 * (k + 1);
                put(c, &s);
            }
            next_at(i * FRAME, n);
        }
        for (int k = 0; k < 6; k++)
            assert_true(near(result.covariance[7 * k], 1e-2 * (k + 1) / n, 1e-4));
        rig_destroy(&rig);
    }
}

// Growth in one step, with 0.9 of correlation: its eigenvalues are 1.9 and 0.1 of the variance, the
// smaller one is taken as 0.5 (MIN_SHARE): correlations are believed by so much.
static void correlations_are_believed_in_part(void **state)
{
    (void)state;
    assert_int_equal(begin(1, true, 0), 0);
    struct rig_sight s = sight(0, 0);
    put(0, &s);
    next_at(0, 1);
    s = sight(FRAME, 0);
    for (int k = 0; k < 6; k++)
        s.error.walk[7 * k] = 4;
    s.error.walk[1] = s.error.walk[6] = 0.9 * 4;
    put(0, &s);
    next_at(FRAME, 1);
    assert_true(near(result.covariance[0], 4 * 1.2, 1e-6));
    assert_true(near(result.covariance[1], 4 * 0.7, 1e-6));
    assert_true(near(result.covariance[14], 4, 1e-6));
    rig_destroy(&rig);
}

// Who says that it knows exactly is believed to 0.5 mm and 0.2 mrad a root of a second.
static void nobody_knows_exactly(void **state)
{
    (void)state;
    assert_int_equal(begin(1, true, 0), 0);
    for (int i = 0; i <= 250; i++) { // 10 s
        struct rig_sight s = sight(i * FRAME, 0);
        put(0, &s);
        next_at(i * FRAME, 1);
    }
    assert_true(near(result.covariance[0], 10 * 0.0005 * 0.0005, 1e-3));
    assert_true(near(result.covariance[35], 10 * 0.0002 * 0.0002, 1e-3));
    rig_destroy(&rig);
}

// A turn about z by a small angle a moves what is at x along y by a * x: which sign the covariance
// of the two has. First the body is 2 m behind its camera; then it goes 3 m on.
static void turns_swing_what_is_off(void **state)
{
    (void)state;
    struct se3 place = se3_identity();
    place.t_m[0] = 2;
    assert_int_equal(rig_create(&rig, &place, 1, true), 0);
    struct rig_sight s = sight(0, 2);
    put(0, &s);
    next_at(0, 1);
    s = sight(FRAME, 2);
    for (int k = 0; k < 6; k++)
        s.error.walk[7 * k] = k == 5 ? 1 : 1e-4;
    put(0, &s);
    next_at(FRAME, 1);
    // The body is at -2 from the camera: correlated by -1, of which a half is believed.
    assert_true(result.covariance[11] < -0.4 * 2 && result.covariance[11] > -1.1 * 2);
    const double before = result.covariance[11], turn = result.covariance[35];
    s.time_ns = 2 * FRAME;
    s.T_odom_camera.t_m[0] += 3;
    // What is said of the camera has swung with it: nothing is new.
    s.error.walk[7] = 1e-4 + 9;
    s.error.walk[11] = s.error.walk[31] = 3;
    put(0, &s);
    next_at(2 * FRAME, 1);
    assert_true(result.covariance[11] > before + 2 * turn);
    rig_destroy(&rig);
}

// What grows beside predicted poses counts once, from the last tracked one on.
static void predicted_poses_do_not_add_up(void **state)
{
    (void)state;
    assert_int_equal(begin(1, true, 0), 0);
    for (int i = 0; i <= 20; i++) {
        struct rig_sight s = sight(i * FRAME / 2, 0);
        s.quality = i > 10 && i < 20 ? RIG_PREDICTED : RIG_TRACKED;
        for (int k = 0; k < 6; k++)
            s.error.walk[7 * k] = 1e-2 * i;
        put(0, &s);
        next_at(i * FRAME / 2, 1);
        assert_int_equal(result.quality, s.quality);
        assert_true(near(result.covariance[0], 1e-2 * i, 1e-3) || i == 0);
    }
    rig_destroy(&rig);
}

// A new epoch begins with nothing known of the old one's errors.
static void epochs_begin_anew(void **state)
{
    (void)state;
    assert_int_equal(begin(1, true, 0), 0);
    for (int i = 0; i < 4; i++) {
        struct rig_sight s = sight(i * FRAME, 0);
        s.epoch = i == 3;
        for (int k = 0; k < 6 && i < 3; k++)
            s.error.walk[7 * k] = i;
        put(0, &s);
        next_at(i * FRAME, 1);
        assert_int_equal(result.epoch, i == 3);
        assert_true(i == 0 || (i < 3 ? result.covariance[0] > 0.9 * i : result.covariance[0] == 0));
    }
    rig_destroy(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(between_two_sights),
        cmocka_unit_test(between_two_epochs),
        cmocka_unit_test(between_two_finds),
        cmocka_unit_test(stamps_that_do_not_grow),
        cmocka_unit_test(a_clock_that_is_set_back),
        cmocka_unit_test(the_oldest_is_forgotten),
        cmocka_unit_test(dropped_frames_begin_no_epoch),
        cmocka_unit_test(a_find_beside_a_dropped_frame_moves_nothing),
        cmocka_unit_test(lost_is_anywhere),
        cmocka_unit_test(noise_of_frames),
        cmocka_unit_test(correlations_are_believed_in_part),
        cmocka_unit_test(nobody_knows_exactly),
        cmocka_unit_test(turns_swing_what_is_off),
        cmocka_unit_test(predicted_poses_do_not_add_up),
        cmocka_unit_test(epochs_begin_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

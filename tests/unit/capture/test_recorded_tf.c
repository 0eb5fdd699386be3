// SPDX-License-Identifier: Apache-2.0
// What moves in the tf of a recording: cameras apart, each by itself and not while nobody knows
// where it is; and those of a rig, of which the first one's base moves, by another one, too.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "capture/recorder/recorded_tf.h"

#define PERIOD_NS INT64_C(33000000)

static const struct se3 at_rig = {{1, 0, 0, 0, 1, 0, 0, 0, 1}, {0, 0, 0}};
static const struct se3 beside = {{0, 0, 1, 0, 1, 0, -1, 0, 0}, {0.3, 0, -0.1}};

static const struct se3 on_base = {{0, -1, 0, 1, 0, 0, 0, 0, 1}, {0, 0, 0.5}};

static struct recorded_tf *open_tf(bool is_rig, bool has_bases)
{
    const struct writer_camera cameras[] = {
        {.T_rig_camera = is_rig ? &at_rig : NULL, .T_base_optical = on_base},
        {.T_rig_camera = is_rig ? &beside : NULL, .T_base_optical = on_base},
        {.T_base_optical = on_base}};
    struct recorded_tf *tf;
    assert_int_equal(recorded_tf_create(&tf, cameras, 3, has_bases), 0);
    return tf;
}

static struct se3 at(double x_m)
{
    struct se3 T = se3_identity();
    T.t_m[0] = x_m;
    return T;
}

enum how { GOOD, PREDICTED, STALE, LOST };

// Returns how many moves it makes; *out: the last one.
static int put(struct recorded_tf *tf, uint32_t camera, int frame, enum how how,
               struct recorded_move *out)
{
    const struct foxglove_odometry odometry = {.published_ns = frame * PERIOD_NS,
                                               .is_lost = how == LOST,
                                               .is_predicted = how == PREDICTED || how == STALE,
                                               .is_stale = how == STALE};
    const struct se3 T = at(0.01 * frame + camera);
    struct recorded_move move;
    int n = 0;
    recorded_tf_put(tf, camera, frame * PERIOD_NS, &T, &odometry);
    for (; recorded_tf_next(tf, &move); n++)
        *out = move;
    return n;
}

static void each_by_itself(void **state)
{
    (void)state;
    struct recorded_tf *tf = open_tf(false, true);
    for (uint32_t c = 0; c < 3; c++) {
        assert_null(recorded_tf_place(tf, c));
        for (int how = GOOD; how <= LOST; how++) {
            struct recorded_move move;
            struct se3 T_map_odom = at(5);
            assert_int_equal(put(tf, c, how, (enum how)how, &move), 1);
            assert_int_equal(move.camera, c);
            assert_int_equal(move.time_ns, how * PERIOD_NS);
            assert_true(move.is_own && move.is_known == (how < STALE));
            assert_true(move.T_odom_base.t_m[0] == 0.01 * how + c);
            assert_true(recorded_tf_map(tf, c, &T_map_odom) && T_map_odom.t_m[0] == 5);
        }
    }
    recorded_tf_destroy(&tf);
    assert_null(tf);
}

// The second camera stands on the first one; the third is on no rig. Where the first is lost tf
// goes on by the second, in the first one's odom, and has no map of it.
static void a_rig_moves_its_first(void **state)
{
    (void)state;
    for (int has_bases = 0; has_bases < 2; has_bases++) {
        struct recorded_tf *tf = open_tf(true, has_bases);
        struct recorded_move move;
        struct se3 T_map_odom = at(5);
        int frame = 0, n = 0;
        assert_null(recorded_tf_place(tf, 0));
        assert_null(recorded_tf_place(tf, 2));
        const struct se3 *place = recorded_tf_place(tf, 1), off = se3_between(&beside, place);
        assert_true((se3_angle(&off) < 1e-9) == !has_bases); // bases are turned otherwise
        for (; frame < 20; frame++) {
            assert_int_equal(put(tf, 0, frame, GOOD, &move), 1);
            assert_true(move.camera == 0 && move.is_own && move.is_known);
            assert_int_equal(put(tf, 1, frame, GOOD, &move), 0);
            assert_int_equal(put(tf, 2, frame, LOST, &move), 1);
            assert_true(move.camera == 2 && !move.is_known);
        }
        assert_true(recorded_tf_map(tf, 0, &T_map_odom) && !recorded_tf_map(tf, 1, &T_map_odom));
        for (; frame < 40; frame++) {
            n += put(tf, 0, frame, LOST, &move);
            n += put(tf, 1, frame, GOOD, &move);
        }
        assert_int_equal(n, 20);
        assert_true(move.camera == 0 && !move.is_own && move.is_known);
        assert_int_equal(move.time_ns, 39 * PERIOD_NS);
        assert_false(recorded_tf_map(tf, 0, &T_map_odom));
        recorded_tf_destroy(&tf);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_by_itself),
                                       cmocka_unit_test(a_rig_moves_its_first)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

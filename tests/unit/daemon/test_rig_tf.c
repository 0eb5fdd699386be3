// SPDX-License-Identifier: Apache-2.0
// tf of a rig of two that moves: it goes on when the first camera is silent, lost or ends, from
// where it was, stays with the other when the first returns, and comes back when the other ends.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "daemon/ros/rig_tf.h"

#define PERIOD_NS INT64_C(33000000)
#define AHEAD_NS  INT64_C(40000000) // of the second camera's clock
#define LATE_NS   INT64_C(5000000)  // of its frames

static struct rig_tf tf;
static struct rig_tf_camera cameras[2];

// Where the rig is, of its first base: round a circle, turning.
static struct se3 truth(int64_t time_ns)
{
    const double s = (double)time_ns * 1e-9;
    const double turn[6] = {0, 0, 0, 0, 0, 0.4 * s};
    struct se3 T = se3_exp(turn);
    T.t_m[0] = 2 * sin(0.4 * s);
    T.t_m[1] = 2 - 2 * cos(0.4 * s);
    return T;
}

// The second one's base on the first one's, and its odom in the first one's: it began elsewhere.
static struct se3 place(void)
{
    const double twist[6] = {0.2, -0.1, 0.05, 0.1, 0.3, -0.6};
    return se3_exp(twist);
}

static int setup(void **state)
{
    (void)state;
    const struct se3 T_first_base = place();
    cameras[0] = (struct rig_tf_camera){.T_base_first = se3_identity()};
    cameras[1] =
        (struct rig_tf_camera){.T_base_first = se3_inverse(&T_first_base), .ahead_ns = AHEAD_NS};
    rig_tf_begin(&tf, cameras);
    return 0;
}

// What camera `of` sees at that time of the first one's clock, in an odom of its own.
static bool see(uint32_t of, int64_t time_ns, bool is_lost, struct rig_tf_pose *out)
{
    const double drift[6] = {1, 2, 0.5, 0, 0.2, 1};
    const struct se3 T_odom_other = se3_exp(drift), T_first_base = place();
    struct se3 T = truth(time_ns);
    if (of == 1) {
        T = se3_compose(&T, &T_first_base);
        T = se3_compose(&T_odom_other, &T);
    }
    const struct rig_tf_sight sight = {of, time_ns + (of == 1 ? AHEAD_NS : 0), time_ns, T, is_lost};
    return rig_tf_put(&tf, &sight, out);
}

static void assert_is_true_at(const struct rig_tf_pose *pose, int64_t time_ns)
{
    const struct se3 T = truth(time_ns), off = se3_between(&T, &pose->T_odom_first);
    double twist[6];
    se3_log(&off, twist);
    assert_int_equal(pose->time_ns, time_ns);
    for (int i = 0; i < 6; i++)
        assert_true(fabs(twist[i]) < 2e-4); // a pose between two is interpolated
}

// Both for so many frames from *frame on; either is left out, or says that it is lost. Returns
// how often tf moved; each time it must be right.
enum { OFF, LOST, GOOD };

static int run(int *frame, int n, int first, int other)
{
    struct rig_tf_pose pose;
    int n_moved = 0;
    for (int end = *frame + n; *frame < end; (*frame)++) {
        const int64_t time_ns = *frame * PERIOD_NS;
        if (first != OFF && see(0, time_ns, first == LOST, &pose)) {
            if (first == GOOD)
                assert_is_true_at(&pose, time_ns);
            n_moved++;
        }
        if (other != OFF && see(1, time_ns + LATE_NS, other == LOST, &pose)) {
            assert_is_true_at(&pose, time_ns + LATE_NS);
            n_moved++;
        }
    }
    return n_moved;
}

static const int silence = (int)(RIG_TF_SILENT_NS / PERIOD_NS);

static void the_first_is_followed(void **state)
{
    (void)state;
    int frame = 0;
    assert_int_equal(run(&frame, 100, GOOD, GOOD), 100);
    assert_int_equal(run(&frame, silence - 1, OFF, GOOD), 0); // a gap is none
    assert_int_equal(run(&frame, 100, GOOD, GOOD), 100);
    assert_int_equal(tf.followed, 0);
}

static void goes_on_when_the_first_ends(void **state)
{
    (void)state;
    int frame = 0;
    run(&frame, 300, GOOD, GOOD);
    const int n = run(&frame, 300, OFF, GOOD);
    assert_true(n >= 300 - silence - 2 && n < 300);
    assert_int_equal(run(&frame, 100, GOOD, GOOD), 100); // it is back: no jump
    assert_int_equal(tf.followed, 1);
    run(&frame, silence + 2, GOOD, OFF); // and now the other ends
    assert_int_equal(run(&frame, 100, GOOD, OFF), 100);
    assert_int_equal(tf.followed, 0);
}

static void goes_on_when_the_first_is_lost(void **state)
{
    (void)state;
    int frame = 0;
    run(&frame, 300, GOOD, GOOD);
    run(&frame, silence + 1, LOST, GOOD);
    assert_int_equal(tf.followed, 1);
    assert_int_equal(run(&frame, 50, LOST, GOOD), 50);
}

// Nothing of the first, ever: the way begins with what the other sees first.
static void the_first_never_comes(void **state)
{
    (void)state;
    struct rig_tf_pose pose = {0, se3_identity()};
    for (int frame = 0; frame < 100; frame++)
        see(1, frame * PERIOD_NS, false, &pose);
    assert_int_equal(tf.followed, 1);
    const struct se3 T_begin = truth(0), T_end = truth(99 * PERIOD_NS);
    const struct se3 moved = se3_between(&T_begin, &T_end);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(pose.T_odom_first.t_m[i] - moved.t_m[i]) < 1e-6);
}

#define TEST(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_first_is_followed),
        TEST(goes_on_when_the_first_ends),
        TEST(goes_on_when_the_first_is_lost),
        TEST(the_first_never_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// tf of a rig of two that moves: it goes on when the first camera is silent, lost or ends, from
// where it was, stays with the other when the first returns, and comes back when the other ends;
// with all that came, however fast.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "capture/ros/rig_tf.h"

#define PERIOD_NS INT64_C(33000000)
#define AHEAD_NS  INT64_C(40000000) // of the second camera's clock
#define LATE_NS   INT64_C(5000000)  // of its frames

static struct rig_tf tf;
static struct rig_tf_camera cameras[2];
static int64_t speed;     // of the recording
static int64_t behind_ns; // the recording of the next one that is seen
static int64_t moved_ns;  // the newest of tf
static int64_t set_ns;    // the machine's clock, which the next one that is seen follows

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
    speed = 1;
    behind_ns = 0;
    moved_ns = 0;
    set_ns = 0;
    cameras[0] = (struct rig_tf_camera){.T_base_first = se3_identity()};
    cameras[1] =
        (struct rig_tf_camera){.T_base_first = se3_inverse(&T_first_base), .ahead_ns = AHEAD_NS};
    rig_tf_begin(&tf, cameras);
    return 0;
}

enum { OFF, LOST, PREDICTED, STALE, GOOD };

// What camera `of` sees at that time of the first one's clock, in an odom of its own.
static void see(uint32_t of, int64_t time_ns, int how)
{
    const double drift[6] = {1, 2, 0.5, 0, 0.2, 1};
    const struct se3 T_odom_other = se3_exp(drift), T_first_base = place();
    struct se3 T = truth(time_ns);
    if (of == 1) {
        T = se3_compose(&T, &T_first_base);
        T = se3_compose(&T_odom_other, &T);
    }
    rig_tf_put(&tf, &(struct rig_tf_sight){.of = of,
                                           .time_ns = time_ns + (of == 1 ? AHEAD_NS : 0),
                                           .clock_set_ns = set_ns,
                                           .put_ns = (time_ns + behind_ns) / speed,
                                           .T_odom_base = T,
                                           .is_lost = how == LOST,
                                           .is_predicted = how == PREDICTED || how == STALE,
                                           .is_stale = how == STALE});
}

static void assert_is_true(const struct rig_tf_pose *pose)
{
    const struct se3 T = truth(pose->time_ns), off = se3_between(&T, &pose->T_odom_first);
    double twist[6];
    se3_log(&off, twist);
    for (int i = 0; i < 6; i++)
        assert_true(fabs(twist[i]) < 2e-4); // a pose between two is interpolated
}

// How often tf moves; each time it must go on, and be right where that one is not lost.
static int count_moves(bool is_lost)
{
    struct rig_tf_pose pose;
    int n = 0;
    for (; rig_tf_next(&tf, &pose); n++) {
        if (!is_lost)
            assert_is_true(&pose);
        assert_true(pose.time_ns > moved_ns || (n == 0 && pose.time_ns == 0));
        moved_ns = pose.time_ns;
    }
    return n;
}

// Both for so many frames from *frame on; either is left out, or says that it is lost. Returns
// how often tf moved.
static int run(int *frame, int n, int first, int other)
{
    int n_moved = 0;
    for (int end = *frame + n; *frame < end; (*frame)++) {
        const int64_t time_ns = *frame * PERIOD_NS;
        if (first != OFF)
            see(0, time_ns, first);
        n_moved += count_moves(first == LOST);
        if (other != OFF)
            see(1, time_ns + LATE_NS, other);
        n_moved += count_moves(other == LOST);
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
    // All of the other, also what came before it was followed, and its last one beside the first.
    assert_int_equal(run(&frame, 300, OFF, GOOD), 301);
    assert_int_equal(run(&frame, 100, GOOD, GOOD), 100); // it is back: no jump
    assert_int_equal(tf.followed, 1);
    assert_int_equal(run(&frame, silence + 2, GOOD, OFF), silence + 2); // and now the other ends
    assert_int_equal(run(&frame, 100, GOOD, OFF), 100);
    assert_int_equal(tf.followed, 0);
}

static void goes_on_when_the_first_is_lost(void **state)
{
    (void)state;
    int frame = 0;
    run(&frame, 300, GOOD, GOOD);
    const int lost = (int)((RIG_TF_LOST_NS - LATE_NS) / PERIOD_NS);
    assert_int_equal(run(&frame, lost, LOST, GOOD), 0); // so short a time is none
    assert_int_equal(run(&frame, 10, GOOD, GOOD), 10);
    assert_int_equal(tf.followed, 0);
    // No pose of its that stands still goes out, and none of the other's is missing.
    assert_int_equal(run(&frame, lost + 1, LOST, GOOD), lost + 2);
    assert_int_equal(tf.followed, 1);
    assert_int_equal(tf.unseen_ns, 0);
    assert_int_equal(run(&frame, 50, LOST, GOOD), 50);
    // Where all are lost, tf says where it was last, and goes on by the first that is not.
    assert_int_equal(run(&frame, 20, LOST, LOST), 20);
    assert_int_equal(run(&frame, 20, GOOD, GOOD), 20);
    assert_int_equal(tf.followed, 0);
}

// The other one's pose of a moment may come before the first one's of the moment before.
static void one_that_is_ahead_has_spoken(void **state)
{
    (void)state;
    struct rig_tf_pose pose;
    int n = 0;
    for (int frame = 1; frame < 110; frame++) {
        see(1, frame * PERIOD_NS, GOOD);
        for (; rig_tf_next(&tf, &pose); n++)
            assert_is_true(&pose);
        see(0, (frame - 1) * PERIOD_NS, frame > 100 ? LOST : GOOD);
        for (; rig_tf_next(&tf, &pose); n++)
            assert_is_true(&pose);
    }
    assert_int_equal(tf.followed, 1);
    assert_int_equal(n, 110);
}

// Where all are lost, or the other one ends while the first is lost, nobody knows better: tf says
// where it was last, without an end.
static void tf_is_silent_for_a_moment_only(void **state)
{
    for (int other = OFF; other <= LOST; other++) {
        int frame = 0;
        assert_int_equal(setup(state), 0);
        run(&frame, 100, GOOD, GOOD);
        const int lost = (int)(RIG_TF_LOST_NS / PERIOD_NS);
        assert_int_equal(run(&frame, lost, LOST, other), 0);
        assert_int_equal(run(&frame, 100, LOST, other), 100);
        assert_int_equal(tf.followed, 0);
    }
}

// A frame that was dropped says nothing of the camera, however late it comes, or how many of them.
static void a_stall_is_no_loss(void **state)
{
    (void)state;
    int frame = 0;
    assert_int_equal(run(&frame, 1, PREDICTED, GOOD), 1); // and no beginning of the other's
    run(&frame, 100, GOOD, GOOD);
    assert_int_equal(run(&frame, 30, PREDICTED, GOOD), 30); // that is its way, guessed
    assert_int_equal(run(&frame, 100, GOOD, GOOD), 100);
    assert_int_equal(tf.followed, 0);
}

// Dropped for so long that nothing tells where the rig is, tf is silent; the other one is followed
// as if the first had ended.
static void nothing_is_told_of_a_stale_one(void **state)
{
    for (int other = OFF; other <= GOOD; other += GOOD) {
        int frame = 0;
        assert_int_equal(setup(state), 0);
        run(&frame, 100, GOOD, other);
        assert_int_equal(run(&frame, 10, PREDICTED, other), 10);
        assert_int_equal(run(&frame, silence - 11, STALE, other), 0);
        assert_int_equal(run(&frame, 10, GOOD, other), 10);
        assert_int_equal(tf.followed, 0);
        const int n = run(&frame, silence + 10, STALE, other);
        assert_true(other == GOOD ? n > silence : n == 0);
        assert_int_equal(tf.followed, other == GOOD);
    }
}

// Three frames at least, however slow they are; and 0.2 s of the recording, however fast it plays.
static void so_many_frames_are_a_loss(void **state)
{
    const int64_t slow_ns = 250000000;
    for (int n_lost = 1; n_lost <= 3; n_lost++) {
        assert_int_equal(setup(state), 0);
        for (int frame = 0; frame < 20; frame++) {
            see(0, frame * slow_ns, frame >= 10 && frame < 10 + n_lost ? LOST : GOOD);
            see(1, frame * slow_ns + LATE_NS, GOOD);
        }
        assert_int_equal(tf.followed, n_lost == 3);
    }
    int frame = 0;
    assert_int_equal(setup(state), 0);
    speed = 100;
    run(&frame, 100, GOOD, GOOD);
    run(&frame, (int)(RIG_TF_LOST_NS / PERIOD_NS) + 1, LOST, GOOD);
    assert_int_equal(tf.followed, 1);
}

// The other plays behind: what it says of before the loss is no reason to go on by it.
static void one_that_is_behind_is_waited_for(void **state)
{
    (void)state;
    enum { BEHIND = 10 };
    int frame = 0;
    for (int end = 100; frame < end + 40; frame++) {
        behind_ns = 0;
        see(0, frame * PERIOD_NS, frame >= end ? LOST : GOOD);
        count_moves(frame >= end);
        if (frame < BEHIND)
            continue;
        behind_ns = BEHIND * PERIOD_NS;
        see(1, (frame - BEHIND) * PERIOD_NS + LATE_NS, GOOD);
        count_moves(false);
        const int64_t since_ns = (frame - BEHIND - end + 1) * PERIOD_NS + LATE_NS;
        assert_int_equal(tf.followed, since_ns > RIG_TF_LOST_NS);
    }
    assert_int_equal(tf.unseen_ns, 0);
}

// Played so fast that thousands come in the silence: none is lost, and nothing of the way.
static void goes_on_at_any_speed(void **state)
{
    static const int64_t speeds[] = {5, 20, 300};
    for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++) {
        int frame = 0;
        assert_int_equal(setup(state), 0);
        speed = speeds[i];
        assert_int_equal(run(&frame, 3000, GOOD, GOOD), 3000);
        assert_int_equal(run(&frame, 3000, OFF, GOOD), 3001);
        assert_int_equal(tf.followed, 1);
        assert_int_equal(tf.unseen_ns, 0);
    }
}

// The other begins when the first has ended: so long nobody saw the rig. What it had said by a
// clock that was set back is of another time.
static void what_nobody_saw_is_told(void **state)
{
    for (int was_set = 0; was_set < 2; was_set++) {
        struct rig_tf_pose pose;
        int frame = 0, n = 0;
        assert_int_equal(setup(state), 0);
        assert_int_equal(run(&frame, 50, GOOD, OFF), 50);
        for (int late = 1000; late < 1010 && was_set; late++)
            rig_tf_put(&tf, &(struct rig_tf_sight){.of = 1,
                                                   .time_ns = late * PERIOD_NS,
                                                   .put_ns = frame * PERIOD_NS,
                                                   .T_odom_base = se3_identity()});
        assert_int_equal(run(&frame, 50, GOOD, OFF), 50);
        frame = 130;
        for (int end = frame + silence + 1; frame < end; frame++) {
            see(1, frame * PERIOD_NS, GOOD);
            for (; rig_tf_next(&tf, &pose); n++)
                assert_int_equal(pose.time_ns, (130 + n) * PERIOD_NS);
        }
        assert_int_equal(tf.followed, 1);
        assert_int_equal(tf.unseen_ns, 31 * PERIOD_NS);
        assert_true(n > 0);
    }
}

// tf goes back with the clock of the one it follows, by however little, and loses no pose by it;
// also where that one is not the first, and is lost.
static void a_clock_is_set_back(void **state)
{
    static const int64_t back_ms[] = {1, 850, 1400, 2300, 100000};
    for (size_t i = 0; i < 2 * sizeof back_ms / sizeof *back_ms; i++) {
        const int64_t back_ns = back_ms[i / 2] * 1000000;
        const uint32_t of = i % 2;
        struct rig_tf_pose pose;
        int frame = 0;
        assert_int_equal(setup(state), 0);
        run(&frame, 200, GOOD, GOOD);
        if (of == 1)
            run(&frame, 200, OFF, GOOD);
        assert_int_equal(tf.followed, of);
        run(&frame, (int)(RIG_TF_LOST_NS / PERIOD_NS) + 1, of == 0 ? GOOD : OFF,
            of == 1 ? GOOD : OFF);
        for (int end = frame + 20; frame < end; frame++) {
            see(of, frame * PERIOD_NS - back_ns, frame % 2 ? LOST : GOOD);
            assert_true(rig_tf_next(&tf, &pose));
            assert_int_equal(pose.time_ns, frame * PERIOD_NS - back_ns);
            assert_false(rig_tf_next(&tf, &pose));
        }
    }
}

// The machine's clock is set while nothing comes of the one that is followed: what the other has
// seen meanwhile is told, from before with the time of then; and when the first is back, and it is
// the other that ends.
static void the_machines_clock_is_set(void **state)
{
    static const int64_t step_ms[] = {-20000, -1000, -130, 130, 1000, 20000};
    for (size_t i = 0; i < sizeof step_ms / sizeof *step_ms; i++) {
        struct rig_tf_pose pose;
        int64_t next_ns = 0, told_ns[300];
        int n_told = 0;
        assert_int_equal(setup(state), 0);
        for (int frame = 0; frame < 250; frame++) {
            const int64_t time_ns = frame * PERIOD_NS;
            set_ns = frame < 60 ? 0 : frame < 170 ? step_ms[i] * 1000000 : step_ms[i] * 2000000;
            for (uint32_t of = 0; of < 2; of++) {
                if (of == 0 ? frame >= 40 && frame < 110 : frame > 150)
                    continue;
                see(of, time_ns, GOOD);
                for (; rig_tf_next(&tf, &pose); n_told++) {
                    assert_true(n_told < 300);
                    told_ns[n_told] = pose.time_ns;
                }
            }
        }
        assert_int_equal(tf.followed, 0);
        assert_int_equal(n_told, 250);
        for (int k = 0; k < n_told; k++, next_ns += PERIOD_NS) {
            const int64_t by_ns = k < 60    ? 0
                                  : k < 170 ? step_ms[i] * 1000000
                                            : step_ms[i] * 2000000;
            assert_true(llabs(told_ns[k] - by_ns - next_ns) <= AHEAD_NS);
        }
    }
}

// The first one's odom drifts off while tf follows the other: where the map has the rig is by that
// odom's place in the map, also when tf is back with the first.
static void the_map_is_the_first_ones(void **state)
{
    (void)state;
    const double off[6] = {0.3, -0.2, 0.1, 0, 0.1, 0.5}, corrected[6] = {0, 0.4, 0, 0, 0, -0.1};
    const struct se3 T_odom_drifted = se3_exp(off), T_map_odom = se3_exp(corrected);
    struct rig_tf_pose pose = {0};
    struct se3 T_odom_base = se3_identity();
    int frame = 0;
    run(&frame, 100, GOOD, GOOD);
    struct se3 T_map_tf = rig_tf_odom_in_map(&tf, &T_map_odom),
               T = se3_between(&T_map_odom, &T_map_tf);
    assert_true(fabs(T.t_m[0]) + fabs(T.t_m[1]) + fabs(T.t_m[2]) < 1e-9);
    run(&frame, silence + 2, OFF, GOOD);
    assert_int_equal(tf.followed, 1);
    const int ends = frame + 50; // the other
    for (; frame < ends + silence + 2; frame++) {
        const struct se3 T_truth = truth(frame * PERIOD_NS);
        T_odom_base = se3_compose(&T_odom_drifted, &T_truth);
        rig_tf_put(&tf, &(struct rig_tf_sight){.time_ns = frame * PERIOD_NS,
                                               .put_ns = frame * PERIOD_NS,
                                               .T_odom_base = T_odom_base});
        if (frame < ends)
            see(1, frame * PERIOD_NS, GOOD);
        while (rig_tf_next(&tf, &pose))
            assert_is_true(&pose);
    }
    assert_int_equal(tf.followed, 0);
    T_map_tf = rig_tf_odom_in_map(&tf, &T_map_odom);
    const struct se3 T_by_tf = se3_compose(&T_map_tf, &pose.T_odom_first);
    const struct se3 T_by_odom = se3_compose(&T_map_odom, &T_odom_base);
    T = se3_between(&T_by_odom, &T_by_tf);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(T.t_m[i]) < 1e-9);
}

// Nothing of the first, ever: the way begins with what the other sees first.
static void the_first_never_comes(void **state)
{
    (void)state;
    struct rig_tf_pose pose = {.T_odom_first = se3_identity()};
    for (int frame = 0; frame < 100; frame++) {
        see(1, frame * PERIOD_NS, GOOD);
        while (rig_tf_next(&tf, &pose))
            moved_ns = pose.time_ns;
    }
    assert_true(moved_ns == 99 * PERIOD_NS);
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
        TEST(the_first_is_followed),          TEST(goes_on_when_the_first_ends),
        TEST(goes_on_when_the_first_is_lost), TEST(tf_is_silent_for_a_moment_only),
        TEST(one_that_is_ahead_has_spoken),   TEST(a_stall_is_no_loss),
        TEST(so_many_frames_are_a_loss),      TEST(one_that_is_behind_is_waited_for),
        TEST(goes_on_at_any_speed),           TEST(what_nobody_saw_is_told),
        TEST(the_first_never_comes),          TEST(a_clock_is_set_back),
        TEST(the_machines_clock_is_set),      TEST(the_map_is_the_first_ones),
        TEST(nothing_is_told_of_a_stale_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

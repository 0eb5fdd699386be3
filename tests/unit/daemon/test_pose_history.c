// SPDX-License-Identifier: Apache-2.0
// The ring of past poses under a writer that never waits, and the pose at a time.
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/pose_history.h"

#define N_HISTORY 64

static struct pose_history *create(void)
{
    struct pose_history *history;
    assert_int_equal(pose_history_create(&history, N_HISTORY), 0);
    return history;
}

// Frame seq at seq * 100 ms, all numbers derived from seq, so that a torn read shows.
static struct past_pose pose_of(uint64_t seq)
{
    double angle = (double)(seq % 1000) * 0.001;
    return (struct past_pose){
        .seq = seq,
        .time_ns = (int64_t)seq * 100000000,
        .q_xyzw = {0, sin(angle / 2), 0, cos(angle / 2)},
        .t_m = {(double)seq, 2 * (double)seq, 3 * (double)seq},
        .state = posed_State_STATE_TRACKING,
        .reason = seq % 3 ? posed_Reason_REASON_NONE : posed_Reason_REASON_OTHER,
        .map_epoch = (uint32_t)(seq % 5),
    };
}

static void ring_keeps_the_newest(void **state)
{
    (void)state;
    struct pose_history *history = create();
    struct past_pose pose;
    uint64_t oldest, next;
    pose_history_range(history, &oldest, &next);
    assert_true(oldest == 0 && next == 0);
    assert_int_equal(pose_history_get(history, 0, &pose), -ENOENT);
    assert_int_equal(pose_history_at(history, 0, &pose), -ENOENT);
    for (uint64_t seq = 0; seq < 200; seq++) {
        const struct past_pose put = pose_of(seq);
        pose_history_put(history, &put);
        pose_history_range(history, &oldest, &next);
        assert_int_equal(next, seq + 1);
        assert_int_equal(oldest, seq + 1 > N_HISTORY ? seq + 1 - N_HISTORY : 0);
        assert_int_equal(pose_history_get(history, oldest, &pose), 0);
        assert_true(pose.t_m[2] == 3 * (double)oldest);
        assert_int_equal(pose.state, posed_State_STATE_TRACKING);
        assert_int_equal(pose.reason, pose_of(oldest).reason);
        assert_int_equal(pose.map_epoch, oldest % 5);
        assert_int_equal(pose_history_get(history, next, &pose), -ENOENT);
        if (oldest > 0)
            assert_int_equal(pose_history_get(history, oldest - 1, &pose), -ENOENT);
    }
    pose_history_destroy(&history);
    assert_null(history);
}

static void pose_at_a_time(void **state)
{
    (void)state;
    struct pose_history *history = create();
    struct past_pose pose, put;
    for (uint64_t seq = 0; seq < 100; seq++) {
        put = pose_of(seq);
        put.map_epoch = seq >= 90;
        if (seq == 80)
            put.state = posed_State_STATE_LOST;
        if (seq >= 95)
            put.time_ns += 2000000000; // a gap before 95
        pose_history_put(history, &put);
    }
    assert_int_equal(pose_history_at(history, 5000000000, &pose), 0); // frame 50 itself
    assert_int_equal(pose.seq, 50);
    assert_true(pose.t_m[0] == 50);
    assert_int_equal(pose_history_at(history, 5025000000, &pose), 0);
    assert_int_equal(pose.seq, 50);
    assert_true(fabs(pose.t_m[1] - 2 * 50.25) < 1e-9);
    assert_true(fabs(2 * asin(pose.q_xyzw[1]) - 0.05025) < 1e-9);
    assert_int_equal(pose.time_ns, 5025000000);
    assert_int_equal(pose_history_at(history, 3500000000, &pose), -ENOENT);  // frame 35 has left
    assert_int_equal(pose_history_at(history, 8000000000, &pose), -ENODATA); // lost
    assert_int_equal(pose_history_at(history, 7950000000, &pose), -ENODATA); // towards lost
    assert_int_equal(pose_history_at(history, 8950000000, &pose), -ENODATA); // over a new epoch
    assert_int_equal(pose_history_at(history, 9450000000, &pose), -ENODATA); // in the gap
    assert_int_equal(pose_history_at(history, 11900000000, &pose), 0);       // the newest
    assert_int_equal(pose.seq, 99);
    assert_int_equal(pose_history_at(history, 11900000001, &pose), -ENOENT);
    assert_int_equal(pose_history_at(history, INT64_MIN, &pose), -ENOENT);
    assert_int_equal(pose_history_at(history, INT64_MAX, &pose), -ENOENT);
    pose_history_destroy(&history);
}

// Two frames a second apart are interpolated, and one nanosecond more is a gap; whoever searches
// the map has a pose.
static void the_longest_gap(void **state)
{
    (void)state;
    struct past_pose pose;
    for (int more = 0; more < 2; more++) {
        struct pose_history *history = create();
        for (uint64_t seq = 0; seq < 2; seq++) {
            struct past_pose put = pose_of(seq);
            put.time_ns = (int64_t)seq * (1000000000 + more);
            put.map_epoch = 0;
            put.state = seq ? posed_State_STATE_SEARCHING : posed_State_STATE_DEGRADED;
            pose_history_put(history, &put);
        }
        assert_int_equal(pose_history_at(history, 250000000, &pose), more ? -ENODATA : 0);
        if (!more)
            assert_true(fabs(pose.t_m[0] - 0.25) < 1e-12 && fabs(pose.t_m[2] - 0.75) < 1e-12);
        assert_int_equal(pose_history_at(history, 1000000000 + more, &pose), 0);
        assert_int_equal(pose.state, posed_State_STATE_SEARCHING);
        pose_history_destroy(&history);
    }
}

// By a clock that was set back 30 frames ago what is asked for is of that time, not of the old one.
static void a_clock_that_is_set_back(void **state)
{
    (void)state;
    for (int64_t back_ns = 900000000; back_ns < INT64_C(200000000000); back_ns *= 3) {
        struct pose_history *history = create();
        struct past_pose pose;
        for (uint64_t seq = 0; seq < 150; seq++) {
            struct past_pose put = pose_of(seq);
            put.time_ns -= seq >= 120 ? back_ns : 0;
            put.map_epoch = seq >= 120;
            pose_history_put(history, &put);
        }
        for (uint64_t seq = 120; seq < 150; seq++) {
            assert_int_equal(pose_history_at(history, (int64_t)seq * 100000000 - back_ns, &pose),
                             0);
            assert_int_equal(pose.seq, seq);
        }
        assert_int_equal(pose_history_at(history, 11900000000 - back_ns, &pose), -ENOENT);
        pose_history_destroy(&history);
    }
}

static _Atomic bool writer_done;

static void *write_many(void *user)
{
    for (uint64_t seq = 0; seq < 2000000; seq++) {
        const struct past_pose put = pose_of(seq);
        pose_history_put(user, &put);
    }
    writer_done = true;
    return NULL;
}

// A reader beside a writer at full speed gets whole poses or none, never halves of two.
static void reads_are_never_torn(void **state)
{
    (void)state;
    struct pose_history *history = create();
    pthread_t writer;
    uint64_t n_read = 0, oldest, next;
    writer_done = false;
    assert_int_equal(pthread_create(&writer, NULL, write_many, history), 0);
    while (!writer_done) {
        struct past_pose pose;
        pose_history_range(history, &oldest, &next);
        for (uint64_t seq = oldest; seq < next; seq += 7) {
            if (pose_history_get(history, seq, &pose) != 0)
                continue;
            const struct past_pose expected = pose_of(seq);
            n_read++;
            const size_t n = offsetof(struct past_pose, map_epoch) + sizeof pose.map_epoch;
            if (memcmp(&pose, &expected, n) != 0)
                fail_msg("frame %llu is torn", (unsigned long long)seq);
        }
    }
    pthread_join(writer, NULL);
    print_message("%llu reads beside 2000000 writes\n", (unsigned long long)n_read);
    pose_history_destroy(&history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_keeps_the_newest), cmocka_unit_test(pose_at_a_time),
        cmocka_unit_test(the_longest_gap),       cmocka_unit_test(a_clock_that_is_set_back),
        cmocka_unit_test(reads_are_never_torn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

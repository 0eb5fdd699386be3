// SPDX-License-Identifier: Apache-2.0
// The shared: the ring of past poses under a writer that never waits, interpolation, commands.
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/shared_state.h"
#include "proto/clock.h"
#include "proto/se3.h"

#define N_HISTORY 64

static struct shared *create(void)
{
    struct shared *shared;
    const struct shared_info info = {.session = 7, .n_history = N_HISTORY};
    assert_int_equal(shared_create(&shared, &info), 0);
    return shared;
}

// Frame seq at seq * 100 ms, all numbers derived from seq, so that a torn read shows.
static struct shared_pose pose_of(uint64_t seq)
{
    double angle = (double)(seq % 1000) * 0.001;
    return (struct shared_pose){
        .seq = seq,
        .time_ns = (int64_t)seq * 100000000,
        .q_xyzw = {0, sin(angle / 2), 0, cos(angle / 2)},
        .t_m = {(double)seq, 2 * (double)seq, 3 * (double)seq},
        .state = posed_State_STATE_TRACKING,
        .map_epoch = (uint32_t)(seq % 5),
    };
}

static void ring_keeps_the_newest(void **state)
{
    (void)state;
    struct shared *shared = create();
    struct shared_pose pose;
    uint64_t oldest, next;
    shared_range(shared, &oldest, &next);
    assert_true(oldest == 0 && next == 0);
    assert_int_equal(shared_get(shared, 0, &pose), -ENOENT);
    assert_int_equal(shared_pose_at(shared, 0, &pose), -ENOENT);
    for (uint64_t seq = 0; seq < 200; seq++) {
        const struct shared_pose put = pose_of(seq);
        shared_put(shared, &put);
        shared_range(shared, &oldest, &next);
        assert_int_equal(next, seq + 1);
        assert_int_equal(oldest, seq + 1 > N_HISTORY ? seq + 1 - N_HISTORY : 0);
        assert_int_equal(shared_get(shared, oldest, &pose), 0);
        assert_true(pose.t_m[2] == 3 * (double)oldest);
        assert_int_equal(shared_get(shared, next, &pose), -ENOENT);
        if (oldest > 0)
            assert_int_equal(shared_get(shared, oldest - 1, &pose), -ENOENT);
    }
    shared_destroy(&shared);
    assert_null(shared);
}

static void pose_at_a_time(void **state)
{
    (void)state;
    struct shared *shared = create();
    struct shared_pose pose, put;
    for (uint64_t seq = 0; seq < 100; seq++) {
        put = pose_of(seq);
        put.map_epoch = seq >= 90;
        if (seq == 80)
            put.state = posed_State_STATE_LOST;
        if (seq >= 95)
            put.time_ns += 2000000000; // a gap before 95
        shared_put(shared, &put);
    }
    assert_int_equal(shared_pose_at(shared, 5000000000, &pose), 0); // frame 50 itself
    assert_int_equal(pose.seq, 50);
    assert_true(pose.t_m[0] == 50);
    assert_int_equal(shared_pose_at(shared, 5025000000, &pose), 0);
    assert_int_equal(pose.seq, 50);
    assert_true(fabs(pose.t_m[1] - 2 * 50.25) < 1e-9);
    assert_true(fabs(2 * asin(pose.q_xyzw[1]) - 0.05025) < 1e-9);
    assert_int_equal(pose.time_ns, 5025000000);
    assert_int_equal(shared_pose_at(shared, 3500000000, &pose), -ENOENT);  // frame 35 has left
    assert_int_equal(shared_pose_at(shared, 8000000000, &pose), -ENODATA); // lost
    assert_int_equal(shared_pose_at(shared, 7950000000, &pose), -ENODATA); // towards lost
    assert_int_equal(shared_pose_at(shared, 8950000000, &pose), -ENODATA); // over a new epoch
    assert_int_equal(shared_pose_at(shared, 9450000000, &pose), -ENODATA); // in the gap
    assert_int_equal(shared_pose_at(shared, 11900000000, &pose), 0);       // the newest
    assert_int_equal(pose.seq, 99);
    assert_int_equal(shared_pose_at(shared, 11900000001, &pose), -ENOENT);
    assert_int_equal(shared_pose_at(shared, INT64_MIN, &pose), -ENOENT);
    assert_int_equal(shared_pose_at(shared, INT64_MAX, &pose), -ENOENT);
    shared_destroy(&shared);
}

static _Atomic bool writer_done;

static void *write_many(void *user)
{
    for (uint64_t seq = 0; seq < 2000000; seq++) {
        const struct shared_pose put = pose_of(seq);
        shared_put(user, &put);
    }
    writer_done = true;
    return NULL;
}

// A reader beside a writer at full speed gets whole poses or none, never halves of two.
static void reads_are_never_torn(void **state)
{
    (void)state;
    struct shared *shared = create();
    pthread_t writer;
    uint64_t n_read = 0, oldest, next;
    writer_done = false;
    assert_int_equal(pthread_create(&writer, NULL, write_many, shared), 0);
    while (!writer_done) {
        struct shared_pose pose;
        shared_range(shared, &oldest, &next);
        for (uint64_t seq = oldest; seq < next; seq += 7) {
            if (shared_get(shared, seq, &pose) != 0)
                continue;
            const struct shared_pose expected = pose_of(seq);
            n_read++;
            if (memcmp(&pose, &expected, sizeof pose) != 0)
                fail_msg("frame %llu is torn", (unsigned long long)seq);
        }
    }
    pthread_join(writer, NULL);
    print_message("%llu reads beside 2000000 writes\n", (unsigned long long)n_read);
    shared_destroy(&shared);
}

static void *run_commands(void *user)
{
    struct shared *shared = user;
    struct shared_command command;
    for (int n = 0; n < 3;) {
        if (!shared_take_command(shared, &command))
            continue;
        const struct shared_answer answer = {
            .next_seq = 100 + (uint64_t)command.T_odom_camera.t_m[0],
            .error = command.T_odom_camera.t_m[0] == 2 ? -ERANGE : 0};
        shared_finish_command(shared, &answer);
        n++;
    }
    return NULL;
}

static void commands_are_done_timed_out_or_refused(void **state)
{
    (void)state;
    struct shared *shared = create();
    struct shared_command command = {.keep_pose = false};
    struct shared_answer answer;
    int64_t soon_ns = clock_monotonic_ns() + 20000000;
    assert_int_equal(shared_command(shared, &command, soon_ns, &answer), -ETIMEDOUT);
    struct shared_command taken;
    assert_false(shared_take_command(shared, &taken)); // withdrawn
    pthread_t loop;
    assert_int_equal(pthread_create(&loop, NULL, run_commands, shared), 0);
    for (int i = 0; i < 3; i++) {
        command.T_odom_camera.t_m[0] = i;
        int64_t deadline_ns = clock_monotonic_ns() + 5000000000;
        assert_int_equal(shared_command(shared, &command, deadline_ns, &answer), 0);
        assert_int_equal(answer.next_seq, 100 + i);
        assert_int_equal(answer.error, i == 2 ? -ERANGE : 0);
    }
    pthread_join(loop, NULL);
    shared_end_commands(shared);
    assert_int_equal(shared_command(shared, &command, INT64_MAX, &answer), -ECANCELED);
    shared_destroy(&shared);
}

static void status_counts(void **state)
{
    (void)state;
    struct shared *shared = create();
    posed_Status status;
    shared_status(shared, &status);
    assert_int_equal(status.state, posed_State_STATE_NO_INPUT);
    assert_true(status.resident_bytes > 100000);
    shared_count(shared, SHARED_LOST);
    shared_count(shared, SHARED_LOST);
    shared_set_state(shared, posed_State_STATE_LOST, posed_Reason_REASON_NO_DEPTH, "dark", 3);
    shared_status(shared, &status);
    assert_int_equal(status.lost_frames, 2);
    assert_int_equal(status.state, posed_State_STATE_LOST);
    assert_int_equal(status.reason, posed_Reason_REASON_NO_DEPTH);
    assert_int_equal(status.map_epoch, 3);
    assert_string_equal(status.reason_text, "dark");
    assert_string_equal(status.backend, "");
    shared_set_backend(shared, "cuda: of the start");
    shared_set_backend(shared, "cpu: after a failure");
    shared_status(shared, &status);
    assert_string_equal(status.backend, "cpu: after a failure");
    shared_destroy(&shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_keeps_the_newest),
        cmocka_unit_test(pose_at_a_time),
        cmocka_unit_test(reads_are_never_torn),
        cmocka_unit_test(commands_are_done_timed_out_or_refused),
        cmocka_unit_test(status_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

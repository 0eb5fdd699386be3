// SPDX-License-Identifier: Apache-2.0
// The board: the ring of past poses under a writer that never waits, interpolation, commands.
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/board.h"
#include "daemon/clock.h"
#include "proto/se3.h"

#define N_HISTORY 64

static struct board *create(void)
{
    struct board *board;
    const struct board_info info = {.session = 7, .n_history = N_HISTORY};
    assert_int_equal(board_create(&board, &info), 0);
    return board;
}

// Frame seq at seq * 100 ms, all numbers derived from seq, so that a torn read shows.
static struct board_pose pose_of(uint64_t seq)
{
    double angle = (double)(seq % 1000) * 0.001;
    return (struct board_pose){
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
    struct board *board = create();
    struct board_pose pose;
    uint64_t oldest, next;
    board_range(board, &oldest, &next);
    assert_true(oldest == 0 && next == 0);
    assert_int_equal(board_get(board, 0, &pose), -ENOENT);
    assert_int_equal(board_pose_at(board, 0, &pose), -ENOENT);
    for (uint64_t seq = 0; seq < 200; seq++) {
        const struct board_pose put = pose_of(seq);
        board_put(board, &put);
        board_range(board, &oldest, &next);
        assert_int_equal(next, seq + 1);
        assert_int_equal(oldest, seq + 1 > N_HISTORY ? seq + 1 - N_HISTORY : 0);
        assert_int_equal(board_get(board, oldest, &pose), 0);
        assert_true(pose.t_m[2] == 3 * (double)oldest);
        assert_int_equal(board_get(board, next, &pose), -ENOENT);
        if (oldest > 0)
            assert_int_equal(board_get(board, oldest - 1, &pose), -ENOENT);
    }
    board_destroy(&board);
    assert_null(board);
}

static void pose_at_a_time(void **state)
{
    (void)state;
    struct board *board = create();
    struct board_pose pose, put;
    for (uint64_t seq = 0; seq < 100; seq++) {
        put = pose_of(seq);
        put.map_epoch = seq >= 90;
        if (seq == 80)
            put.state = posed_State_STATE_LOST;
        if (seq >= 95)
            put.time_ns += 2000000000; // a gap before 95
        board_put(board, &put);
    }
    assert_int_equal(board_pose_at(board, 5000000000, &pose), 0); // frame 50 itself
    assert_int_equal(pose.seq, 50);
    assert_true(pose.t_m[0] == 50);
    assert_int_equal(board_pose_at(board, 5025000000, &pose), 0);
    assert_int_equal(pose.seq, 50);
    assert_true(fabs(pose.t_m[1] - 2 * 50.25) < 1e-9);
    assert_true(fabs(2 * asin(pose.q_xyzw[1]) - 0.05025) < 1e-9);
    assert_int_equal(pose.time_ns, 5025000000);
    assert_int_equal(board_pose_at(board, 3500000000, &pose), -ENOENT);  // frame 35 has left
    assert_int_equal(board_pose_at(board, 8000000000, &pose), -ENODATA); // lost
    assert_int_equal(board_pose_at(board, 7950000000, &pose), -ENODATA); // towards lost
    assert_int_equal(board_pose_at(board, 8950000000, &pose), -ENODATA); // over a new epoch
    assert_int_equal(board_pose_at(board, 9450000000, &pose), -ENODATA); // in the gap
    assert_int_equal(board_pose_at(board, 11900000000, &pose), 0);       // the newest
    assert_int_equal(pose.seq, 99);
    assert_int_equal(board_pose_at(board, 11900000001, &pose), -ENOENT);
    assert_int_equal(board_pose_at(board, INT64_MIN, &pose), -ENOENT);
    assert_int_equal(board_pose_at(board, INT64_MAX, &pose), -ENOENT);
    board_destroy(&board);
}

static _Atomic bool writer_done;

static void *write_many(void *user)
{
    for (uint64_t seq = 0; seq < 2000000; seq++) {
        const struct board_pose put = pose_of(seq);
        board_put(user, &put);
    }
    writer_done = true;
    return NULL;
}

// A reader beside a writer at full speed gets whole poses or none, never halves of two.
static void reads_are_never_torn(void **state)
{
    (void)state;
    struct board *board = create();
    pthread_t writer;
    uint64_t n_read = 0, oldest, next;
    writer_done = false;
    assert_int_equal(pthread_create(&writer, NULL, write_many, board), 0);
    while (!writer_done) {
        struct board_pose pose;
        board_range(board, &oldest, &next);
        for (uint64_t seq = oldest; seq < next; seq += 7) {
            if (board_get(board, seq, &pose) != 0)
                continue;
            const struct board_pose expected = pose_of(seq);
            n_read++;
            if (memcmp(&pose, &expected, sizeof pose) != 0)
                fail_msg("frame %llu is torn", (unsigned long long)seq);
        }
    }
    pthread_join(writer, NULL);
    print_message("%llu reads beside 2000000 writes\n", (unsigned long long)n_read);
    board_destroy(&board);
}

static void *run_commands(void *user)
{
    struct board *board = user;
    struct board_command command;
    for (int n = 0; n < 3;) {
        if (!board_take_command(board, &command))
            continue;
        const struct board_answer answer = {
            .next_seq = 100 + (uint64_t)command.T_odom_camera.t_m[0],
            .error = command.T_odom_camera.t_m[0] == 2 ? -ERANGE : 0};
        board_finish_command(board, &answer);
        n++;
    }
    return NULL;
}

static void commands_are_done_timed_out_or_refused(void **state)
{
    (void)state;
    struct board *board = create();
    struct board_command command = {.keep_pose = false};
    struct board_answer answer;
    int64_t soon_ns = clock_monotonic_ns() + 20000000;
    assert_int_equal(board_command(board, &command, soon_ns, &answer), -ETIMEDOUT);
    struct board_command taken;
    assert_false(board_take_command(board, &taken)); // withdrawn
    pthread_t loop;
    assert_int_equal(pthread_create(&loop, NULL, run_commands, board), 0);
    for (int i = 0; i < 3; i++) {
        command.T_odom_camera.t_m[0] = i;
        int64_t deadline_ns = clock_monotonic_ns() + 5000000000;
        assert_int_equal(board_command(board, &command, deadline_ns, &answer), 0);
        assert_int_equal(answer.next_seq, 100 + i);
        assert_int_equal(answer.error, i == 2 ? -ERANGE : 0);
    }
    pthread_join(loop, NULL);
    board_end_commands(board);
    assert_int_equal(board_command(board, &command, INT64_MAX, &answer), -ECANCELED);
    board_destroy(&board);
}

static void status_counts(void **state)
{
    (void)state;
    struct board *board = create();
    posed_Status status;
    board_status(board, &status);
    assert_int_equal(status.state, posed_State_STATE_NO_INPUT);
    assert_true(status.resident_bytes > 100000);
    board_count(board, BOARD_LOST);
    board_count(board, BOARD_LOST);
    board_set_state(board, posed_State_STATE_LOST, posed_Reason_REASON_NO_DEPTH, "dark", 3);
    board_status(board, &status);
    assert_int_equal(status.lost_frames, 2);
    assert_int_equal(status.state, posed_State_STATE_LOST);
    assert_int_equal(status.reason, posed_Reason_REASON_NO_DEPTH);
    assert_int_equal(status.map_epoch, 3);
    assert_string_equal(status.reason_text, "dark");
    assert_string_equal(status.backend, "");
    board_set_backend(board, "cuda: of the start");
    board_set_backend(board, "cpu: after a failure");
    board_status(board, &status);
    assert_string_equal(status.backend, "cpu: after a failure");
    board_destroy(&board);
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
